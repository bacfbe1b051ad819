//! Every disturbance of the directory of manifests: traffic goes on, the status shows it, and no secret gets out.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::{H2Client, plain};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::wait;
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, StubFixture};

const SOON: Duration = Duration::from_secs(20);
/// A token that must turn up nowhere but in Envoy.
const CANARY: &str = "canary-token-of-the-gateway";

/// A client that stays connected, and one that comes anew.
struct Traffic {
    client: H2Client,
}

impl Traffic {
    fn start(fixture: &StubFixture) -> Self {
        let client = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
        Self { client }
    }

    fn goes_on(&self, fixture: &StubFixture, after: &str) {
        assert_eq!(self.client.get(PODS, &[]).unwrap().status, 200, "{after}");
        let anew = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
        assert_eq!(anew.get(PODS, &[]).unwrap().status, 200, "{after}");
    }
}

fn objects(status: &Value) -> Vec<Value> {
    status["objects"].as_array().cloned().unwrap_or_default()
}

/// Waits until an object or file of this name is listed as refused, with these words.
fn wait_refused(fixture: &StubFixture, name: &str, words: &str) {
    let told = |status: &Value| {
        let is_it = |one: &Value| {
            let message = one["message"].as_str().unwrap_or_default();
            one["name"] == name && one["accepted"] == false && message.contains(words)
        };
        objects(status).iter().any(is_it)
    };
    fixture.gateway.plane().wait_status(&format!("{name} is refused: {words}"), SOON, told).unwrap();
}

fn wait_all_accepted(fixture: &StubFixture) {
    let all = |status: &Value| {
        let objects = objects(status);
        objects.len() == 2 && objects.iter().all(|one| one["accepted"] == true)
    };
    fixture.gateway.plane().wait_status("everything is accepted again", SOON, all).unwrap();
    fixture.gateway.plane().wait_in_sync(1, SOON).unwrap();
}

fn metrics(fixture: &StubFixture) -> String {
    plain::get(fixture.gateway.plane().http_address(), "/metrics").unwrap().text()
}

fn get(fixture: &StubFixture, path: &str) -> u16 {
    plain::get(fixture.gateway.plane().http_address(), path).unwrap().status
}

#[test]
fn files_that_are_no_manifests_change_nothing() {
    let fixture = StubFixture::start("faults-files", &GatewayOptions::default());
    let traffic = Traffic::start(&fixture);
    let manifests = fixture.gateway.manifests().to_owned();
    let own = manifests.join(format!("{NAME}.yaml"));
    let good = fs::read(&own).unwrap();
    let junk = manifests.join("junk.yaml");
    for (content, words) in [
        (b"\xff\xfe\x00garbage".to_vec(), "UTF-8"),
        (b"a: [b: }\n".to_vec(), "well-formed"),
        (b"- a\n- b\n".to_vec(), "mapping"),
        (vec![b'#'; 17 * 1024 * 1024], "larger than 16 MiB"),
    ] {
        fs::write(&junk, &content).unwrap();
        wait_refused(&fixture, "junk.yaml", words);
        traffic.goes_on(&fixture, words);
    }
    fs::remove_file(&junk).unwrap();
    wait_all_accepted(&fixture);
    // Half a file: it is not read while it is being written, and its problem is reported afterwards.
    let (first, rest) = good.split_at(good.len() / 2);
    let mut writing = File::create(&own).unwrap();
    writing.write_all(first).unwrap();
    writing.flush().unwrap();
    fs::write(&junk, "a: [").unwrap();
    wait_refused(&fixture, "junk.yaml", "well-formed");
    traffic.goes_on(&fixture, "a file that is being written");
    drop(writing);
    wait_refused(&fixture, &format!("{NAME}.yaml"), "last good content stays in use");
    traffic.goes_on(&fixture, "half a file");
    fs::OpenOptions::new().append(true).open(&own).unwrap().write_all(rest).unwrap();
    fs::remove_file(&junk).unwrap();
    wait_all_accepted(&fixture);
    traffic.goes_on(&fixture, "a whole file");
    assert!(metrics(&fixture).contains("portcullis_rejected_updates_total{kind=\"File\"}"));
    assert_eq!((get(&fixture, "/healthz"), get(&fixture, "/readyz")), (200, 200));
}

#[test]
fn directory_that_vanishes_takes_nothing_along() {
    let fixture = StubFixture::start("faults-directory", &GatewayOptions::default());
    let traffic = Traffic::start(&fixture);
    let manifests = fixture.gateway.manifests().to_owned();
    let away = away(&manifests);
    fs::rename(&manifests, &away).unwrap();
    wait_refused(&fixture, ".", "cannot be read");
    traffic.goes_on(&fixture, "no directory");
    fs::create_dir(&manifests).unwrap();
    wait_refused(&fixture, ".", "no file is left in it");
    traffic.goes_on(&fixture, "an empty directory");
    fs::remove_dir(&manifests).unwrap();
    fs::rename(&away, &manifests).unwrap();
    wait_all_accepted(&fixture);
    let none = json!([{"rules": [{"verbs": ["*"], "apiGroups": [""], "resources": ["-pods"]}]}]);
    fixture.gateway.apply(&fixture.manifest().policies(none)).unwrap();
    assert_eq!(traffic.client.get(PODS, &[]).unwrap().status, 403, "edits act again");
}

fn away(manifests: &Path) -> PathBuf {
    manifests.with_extension("away")
}

/// A fixture whose control plane keeps its state, with a token that is looked for.
fn with_state(test: &str, state: &Path) -> StubFixture {
    let flags = ["--state-dir".to_owned(), state.display().to_string()];
    let fixture =
        StubFixture::without_cluster(test, &GatewayOptions { plane_flags: flags.into(), ..GatewayOptions::default() });
    let manifest = fixture.manifest().set("/spec/clientConfig/bearerToken", json!(STANDARD.encode(CANARY)));
    fixture.gateway.apply(&manifest).unwrap();
    fixture
}

#[test]
fn control_plane_restarted_without_its_source_serves_the_same() {
    let dir = RunDir::new("kept-state").unwrap();
    let state = dir.join("state");
    let mut fixture = with_state("faults-state", &state);
    let secrets = secrets(&fixture);
    let traffic = Traffic::start(&fixture);
    let before = fixture.gateway.plane().status().unwrap()["snapshot"].clone();
    let kept = || {
        let text = fs::read_to_string(state.join("last-good")).ok()?;
        text.contains(NAME).then_some(text)
    };
    let kept = wait::until("the state is kept", SOON, kept).unwrap();
    let manifests = fixture.gateway.manifests().to_owned();
    fs::rename(&manifests, away(&manifests)).unwrap();
    fixture.gateway.restart_control_plane().unwrap();
    let status = fixture.gateway.plane().status().unwrap();
    assert_eq!(status["snapshot"], before, "Envoy has all of it already");
    assert!(status.to_string().contains("what was served before is served still"), "{status}");
    traffic.goes_on(&fixture, "a restart without the source");
    assert!(metrics(&fixture).contains("portcullis_snapshot_source{source=\"last_good\"} 1"));
    assert_eq!((get(&fixture, "/healthz"), get(&fixture, "/readyz")), (200, 200));
    fs::create_dir(&manifests).unwrap();
    let told = |status: &Value| status.to_string().contains("the source holds no object");
    fixture.gateway.plane().wait_status("the empty source is told", SOON, told).unwrap();
    traffic.goes_on(&fixture, "an empty source");
    fs::remove_dir(&manifests).unwrap();
    fs::rename(away(&manifests), &manifests).unwrap();
    wait_all_accepted(&fixture);
    let fresh = |_: &Value| metrics(&fixture).contains("portcullis_snapshot_source{source=\"source\"} 1");
    fixture.gateway.plane().wait_status("the source is used", SOON, fresh).unwrap();
    fixture.gateway.apply(&fixture.manifest()).unwrap();
    traffic.goes_on(&fixture, "the source is back");
    no_secret_got_out(&fixture, &kept, &secrets);
}

/// The token and a part of each key, in the forms in which they might get out.
fn secrets(fixture: &StubFixture) -> Vec<String> {
    let manifest = fs::read_to_string(fixture.gateway.manifests().join(format!("{NAME}.yaml"))).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    let mut secrets = vec![CANARY.to_owned(), STANDARD.encode(CANARY).trim_end_matches('=').to_owned()];
    for pointer in ["/spec/clientConfig/keyData", "/spec/secureServing/keyData"] {
        let encoded = manifest.pointer(pointer).and_then(Value::as_str).unwrap();
        let pem = String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap();
        secrets.push(encoded[60..120].to_owned());
        secrets.push(pem.lines().nth(1).unwrap().to_owned());
    }
    secrets
}

fn no_secret_got_out(fixture: &StubFixture, state: &str, secrets: &[String]) {
    let plane = fixture.gateway.plane();
    let places = [
        ("state", state.to_owned()),
        ("status", plane.status().unwrap().to_string()),
        ("metrics", metrics(fixture)),
        ("log", plane.process().log()),
        ("Envoy's log", fixture.gateway.envoy().process().log()),
        ("config_dump", fixture.gateway.envoy().admin().config_dump().unwrap().to_string()),
    ];
    for (place, text) in &places {
        assert!(text.len() > 100, "{place} is there");
        for secret in secrets {
            assert!(!text.contains(secret.as_str()), "{place} holds {secret}");
        }
    }
}

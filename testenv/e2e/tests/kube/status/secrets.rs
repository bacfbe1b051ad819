use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_harness::client::plain;
use portcullis_harness::deps;
use serde_json::{Value, json};

use super::fake_envoy::FakeEnvoy;
use super::wait_condition;
use crate::sources::SourceFixture;

const GOOD: &str = "good.example.com";
const BAD: &str = "bad.example.com";
const TOKEN: &str = "canary-token-that-nobody-may-see";

/// The keys and tokens of the objects, and pieces of them: plain, and in base64.
fn canaries(manifest: &Value) -> Vec<String> {
    let keys = ["/spec/clientConfig/keyData", "/spec/secureServing/keyData"];
    let mut canaries = vec![TOKEN.to_owned(), STANDARD.encode(TOKEN)];
    for key in keys {
        let text = manifest.pointer(key).unwrap().as_str().unwrap().to_owned();
        let pem = String::from_utf8(STANDARD.decode(&text).unwrap()).unwrap();
        canaries.extend(pem.lines().filter(|line| !line.starts_with("-----")).map(str::to_owned));
        canaries.push(text);
    }
    canaries.retain(|canary| canary.len() > 8);
    canaries
}

#[test]
fn no_key_and_no_token_is_told_anywhere() {
    let Some(fixture) = SourceFixture::start("status-secrets") else { return };
    let side = fixture.kubernetes_side("plane");
    let manifest = fixture.manifest(GOOD);
    let canaries = canaries(&serde_json::from_str(&manifest.to_text()).unwrap());
    fixture.apply(&manifest.to_text());
    // Bad because of the secrets themselves: the complaint is about them.
    let key = manifest.to_text();
    let key: Value = serde_json::from_str(&key).unwrap();
    let bad = fixture
        .manifest(BAD)
        .set("/spec/clientConfig/certData", key["spec"]["clientConfig"]["keyData"].clone())
        .set("/spec/clientConfig/bearerToken", json!(STANDARD.encode(TOKEN)));
    fixture.apply(&bad.to_text());
    wait_condition(&fixture, GOOD, "Programmed", "True", "Programmed");
    wait_condition(&fixture, BAD, "Accepted", "False", "Invalid");
    // An Envoy that quotes all that it was sent.
    let keys: Vec<String> = canaries.clone();
    let dump = format!(
        "Failed: secret {{ inline_string: \"{TOKEN}\" }} -----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY----- {}",
        keys.join("\n"),
        keys.iter().filter(|key| key.len() > 100).cloned().collect::<Vec<_>>().join(" ")
    );
    let fake_envoy = FakeEnvoy::new(side.plane.xds_socket(), "fake_envoy");
    fake_envoy.refuse(&dump);
    wait_condition(&fixture, GOOD, "Programmed", "False", "Refused");
    let address = side.plane.http_address();
    let http = |path: &str| plain::get(address, path).unwrap().text();
    let run = |args: &[&str]| {
        let mut command = Command::new(deps::portcullis().unwrap());
        command.args(["status", "--address", &address.to_string()]).args(args);
        let output = command.output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    let stored = |name: &str| fixture.stored(name)["status"].to_string();
    let outputs = [
        ("/ui/", http("/ui/")),
        ("/ui/clusters/", http(&format!("/ui/clusters/{GOOD}"))),
        ("/status", http("/status")),
        ("status", run(&[])),
        ("status -o wide", run(&["-o", "wide"])),
        ("status -o json", run(&["-o", "json"])),
        ("status NAME", run(&[GOOD])),
        ("status NAME", run(&[BAD])),
        ("get", fixture.admin(&["get", "upstreamclusters", "-o", "wide"])),
        (".status", stored(GOOD)),
        (".status", stored(BAD)),
        ("log", side.plane.process().log()),
    ];
    for (what, output) in outputs {
        assert!(output.len() > 100, "{what} says something: {output}");
        for canary in &canaries {
            assert!(!output.contains(canary.as_str()), "{what} tells {canary}: {output}");
        }
    }
}

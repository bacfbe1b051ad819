//! Whatever holds a key or a token, right or wrong, is searched for in whatever anybody can read.

mod objects;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use portcullis_e2e::{GatewayOptions, Secrets};
use portcullis_harness::client::{TlsTarget, plain};
use portcullis_harness::issuer::TokenSigner;
use portcullis_harness::{deps, wait, write_private};
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, ROBOT, StubFixture};
use objects::Objects;

const SOON: Duration = Duration::from_secs(30);

/// Everything that anybody can read, and where it stands.
type Texts = Vec<(String, String)>;

fn asks(fixture: &StubFixture, name: &str, token: Option<&str>) -> u16 {
    let target = TlsTarget::new(fixture.gateway.address()).sni(name);
    let (target, authorization) = match token {
        None => (target.identity(&fixture.pki.alice), String::new()),
        Some(token) => (target, format!("Authorization: Bearer {token}\r\n")),
    };
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {name}\r\n{authorization}Connection: close\r\n\r\n");
    target.raw_request(request.as_bytes()).map_or(0, |answer| answer.status)
}

/// Standard output and error, whatever the exit status.
fn printed(arguments: &[&str]) -> String {
    let output = Command::new(deps::portcullis().unwrap()).args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn pages(fixture: &StubFixture) -> Texts {
    let admin = fixture.gateway.envoy().admin();
    let envoys = ["/config_dump?include_eds", "/certs", "/clusters", "/listeners", "/stats", "/server_info"];
    let cluster = format!("/ui/clusters/{NAME}");
    let planes = ["/ui/", &cluster, "/ui/api/fleet", "/status", "/metrics"];
    let http = fixture.gateway.plane().http_address();
    let envoys = envoys.iter().map(|page| (format!("Envoy's {page}"), admin.get(page).unwrap().text()));
    let planes =
        planes.iter().map(|page| (format!("the control plane's {page}"), plain::get(http, page).unwrap().text()));
    envoys.chain(planes).collect()
}

fn commands(fixture: &StubFixture, root: &Path) -> Texts {
    let http = fixture.gateway.plane().http_address().to_string();
    let (manifests, root) = (fixture.gateway.manifests().to_str().unwrap(), root.to_str().unwrap());
    let status = |more: &[&str]| printed(&[&["status", "--http-address", http.as_str()], more].concat());
    let check = |more: &[&str]| printed(&[&["check", "-f", manifests], more].concat());
    let told = [
        ("portcullis status", status(&[])),
        ("portcullis status -o wide", status(&["-o", "wide"])),
        ("portcullis status -o json", status(&["-o", "json"])),
        ("portcullis status NAME", status(&[NAME])),
        ("portcullis check", check(&[])),
        ("portcullis check -o json", check(&["-o", "json"])),
        ("portcullis check --references-root", check(&["--references-root", root])),
        ("portcullis explain", printed(&["explain", "-f", manifests, "GET", PODS])),
    ];
    told.map(|(what, text)| (what.to_owned(), text)).into()
}

fn nowhere(secrets: &Secrets, texts: &Texts) {
    for (what, text) in texts {
        assert_eq!(secrets.found_in(text), [""; 0], "{what}");
        assert!(text.len() > 20, "{what} says nothing: {text}");
    }
}

#[test]
fn no_key_and_no_token_is_told_to_anybody() {
    let outside = tempdir("leaks-outside");
    let (root, state) = (outside.join("root"), outside.join("state"));
    std::fs::create_dir_all(&root).unwrap();
    std::fs::create_dir_all(&state).unwrap();
    let flag = |name: &str, path: &Path| [format!("--{name}"), path.display().to_string()];
    let options = GatewayOptions {
        plane_flags: [flag("references-root", &root), flag("state-dir", &state)].concat(),
        plane_env: vec![("RUST_LOG".to_owned(), "trace".to_owned())],
        ..GatewayOptions::default()
    };
    let fixture = StubFixture::without_cluster("leaks", &options);
    // More detailed levels log requests' headers, which are the clients' own.
    fixture.gateway.envoy().admin().post("/logging?level=debug").unwrap();
    let objects = Objects::new(&fixture);
    objects.write_files(&root);
    answer_the_control_plane(&fixture);
    objects.good().iter().for_each(|manifest| fixture.gateway.write(manifest).unwrap());
    let served =
        |status: &Value| objects.are_reported(status, &objects.good(), true) && status["nodes"][0]["inSync"] == true;
    fixture.gateway.plane().wait_status("all are served", SOON, served).unwrap();
    for manifest in objects.good() {
        let name = manifest.name();
        wait::until_ok("it answers", SOON, || {
            let status = asks(&fixture, name, None);
            if status == 200 { Ok(()) } else { Err(format!("{name}: {status}")) }
        })
        .unwrap();
    }
    asks(&fixture, NAME, Some(ROBOT));
    asks(&fixture, "front.example.com", Some(ROBOT));
    asks(&fixture, NAME, Some("a-token-that-nobody-knows"));

    let file = json!({"file": {"certificate": "tls.crt", "privateKey": "tls.key"}});
    fixture.gateway.change_settings(|spec| spec["defaultCertificate"] = file).unwrap();
    let nobody = TlsTarget::new(fixture.gateway.address()).sni("nobody.example.org");
    let presented = || Some(nobody.connect().ok()?.server_certificates().remove(0));
    wait::until("the default certificate of the file is shown", SOON, || {
        presented().filter(|leaf| leaf == objects.leaf_in_files())
    })
    .unwrap();

    let secrets = objects.secrets();
    everything_is_looked_for(&secrets, &fixture, &root);
    nowhere(&secrets, &pages(&fixture));
    for (number, text) in objects.broken().iter().enumerate() {
        fixture.gateway.write_file(&format!("broken-{number}.yaml"), text).unwrap();
    }
    objects.bad().iter().for_each(|manifest| fixture.gateway.write(manifest).unwrap());
    let refused = |status: &Value| objects.are_reported(status, &objects.bad(), false);
    fixture.gateway.plane().wait_status("all others are refused", SOON, refused).unwrap();
    nowhere(&secrets, &pages(&fixture));
    nowhere(&secrets, &commands(&fixture, &root));
    state_holds_nothing(&state, &secrets);
    logs_hold_nothing(&fixture, &objects);
    state_holds_nothing(&state, &secrets);
    std::fs::remove_dir_all(outside).unwrap();
}

/// Servers show keys of tokens and their own slice to the control plane, so that it has more to keep.
fn answer_the_control_plane(fixture: &StubFixture) {
    let answer = |path: &str, body: Value| {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        fixture.stub.fault(Fault::new(path, Action::Respond { status: 200, headers, body: body.to_string() }));
    };
    answer("/openid/v1/jwks", json!({"keys": [TokenSigner::new("k1").unwrap().jwk()]}));
    let server = fixture.stub.address();
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "kubernetes", "namespace": "default"}, "ports": [{"name": "https", "port": server.port()}],
        "endpoints": [{"addresses": [server.ip().to_string()], "conditions": {"ready": true}}],
    });
    let list = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSliceList", "metadata": {"resourceVersion": "1"}, "items": [slice],
    });
    answer("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", list);
}

/// Every file of the control plane's state.
fn state_holds_nothing(state: &Path, secrets: &Secrets) {
    for name in ["last-good", "token-keys", "discovered"] {
        wait::until(&format!("{name} is kept"), SOON, || state.join(name).exists().then_some(())).unwrap();
    }
    // One that is about to take another's place may be gone.
    let read = |path: PathBuf| Some((path.display().to_string(), std::fs::read(&path).ok()?));
    let files: Vec<_> = files_below(state).into_iter().filter_map(read).collect();
    assert!(files.len() >= 3);
    for (path, bytes) in files {
        assert_eq!(secrets.found_in(&String::from_utf8_lossy(&bytes)), [""; 0], "{path}");
    }
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// In what was written, the search finds what it is to find nowhere else.
fn everything_is_looked_for(secrets: &Secrets, fixture: &StubFixture, root: &Path) {
    let read = |directory: &Path| {
        let files = std::fs::read_dir(directory).unwrap().map(|file| std::fs::read_to_string(file.unwrap().path()));
        files.map(Result::unwrap).collect::<String>()
    };
    let written = read(root) + &read(fixture.gateway.manifests());
    let found = secrets.found_in(&written).join(", ");
    for known in ["serving key in base64", "client key in base64", "stray key in base64", "the token in base64"] {
        assert!(found.contains(known), "{known}: {found}");
    }
    for known in ["a key in a file", "the token in a file", "a stray token"] {
        assert!(found.contains(known), "{known}: {found}");
    }
}

/// A settings object that is wrong, after everything else: the one before stays in use.
fn logs_hold_nothing(fixture: &StubFixture, objects: &Objects) {
    for spec in objects.bad_settings() {
        let path = fixture.gateway.manifests().join("settings.yaml");
        let mut settings: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        settings["spec"]["defaultCertificate"] = spec;
        fixture.gateway.write_file("settings.yaml", &settings.to_string()).unwrap();
        let refused = |status: &Value| {
            status["objects"].as_array().is_some_and(|all| {
                all.iter().any(|one| one["kind"] == "GatewaySettings" && one["accepted"] == json!(false))
            })
        };
        fixture.gateway.plane().wait_status("the settings are refused", SOON, refused).unwrap();
        nowhere(&objects.secrets(), &pages(fixture));
    }
    let plane = ("the control plane's log".to_owned(), fixture.gateway.plane().process().log());
    nowhere(&objects.secrets(), &vec![plane]);
    let envoy = ("Envoy's log".to_owned(), fixture.gateway.envoy().process().log());
    assert!(envoy.1.contains("[debug]"));
    // With debug logs on, Envoy logs the headers of requests: see docs/operations.md.
    nowhere(&objects.secrets_of_the_gateway(), &vec![envoy]);
}

/// A directory outside of the run's, which no test keeps.
fn tempdir(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("pc-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    write_private(&path.join(".keep"), b"").unwrap();
    path
}

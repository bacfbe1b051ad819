//! Every case of `control-plane/translate/goldens`, loaded by a real Envoy that refuses what it does not know.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_e2e::GatewayOptions;
use portcullis_harness::certs::{CertSpec, Identity};
use portcullis_harness::ports;
use serde_json::{Value, json};

use crate::fixture::StubFixture;

const SOON: Duration = Duration::from_secs(20);

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../control-plane/translate/goldens");
    let mut cases: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    cases
}

/// The case with keys, and with addresses of this machine in place of others.
fn manifest(case: &Path, fixture: &StubFixture) -> String {
    let encode = |pem: String| STANDARD.encode(pem);
    let serving = fixture.gateway.serving_ca().issue(&CertSpec::server("serving", ["golden.test"])).unwrap();
    let mut text = fs::read_to_string(case.join("in.yaml")).unwrap();
    let mut replace = |name: &str, identity: &Identity| {
        text = text.replace(&format!("${{{name}.cert}}"), &encode(identity.pem()));
        text = text.replace(&format!("${{{name}.key}}"), &encode(identity.key_pem()));
    };
    replace("serving", &serving);
    replace("client", &fixture.pki.gateway);
    let authorities = [("upstream-ca", &fixture.pki.server_ca), ("client-ca", &fixture.pki.client_ca)];
    for (name, authority) in authorities {
        text = text.replace(&format!("${{{name}.cert}}"), &encode(authority.pem()));
    }
    let text = text.replace("${token}", &STANDARD.encode("a-token"));
    without_services(&text)
        .replace("//10.0.0.", "//127.0.0.")
        .replace("[2001:db8::1]", "[::1]")
        .replace("upstream.example.net", "localhost")
}

/// The upstream in the place of a Service as the source of servers: objects of files have no Kubernetes in which one could be.
fn without_services(text: &str) -> String {
    let mut lines = Vec::new();
    let mut is_below = false;
    for line in text.lines() {
        is_below &= line.starts_with("        ");
        if line == "      service:" {
            (is_below, lines) = (true, [lines, vec!["      kubernetesService: true"]].concat());
        } else if !is_below {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// The case's additions to the settings, except for the listener's own address.
fn settings(case: &Path, fixture: &StubFixture, spec: &mut Value) {
    let Ok(text) = fs::read_to_string(case.join("settings.json")) else { return };
    let text = text.replace("${client-ca.cert}", &STANDARD.encode(fixture.pki.client_ca.pem()));
    let more: Value = serde_json::from_str(&text).unwrap();
    for (name, value) in more.as_object().unwrap() {
        match value.as_object().filter(|_| name == "listener") {
            Some(fields) => spec["listener"].as_object_mut().unwrap().extend(fields.clone()),
            None => spec[name] = value.clone(),
        }
    }
    for port in ["/listener/proxyProtocol/port", "/listener/tunnel/port"] {
        let Some(port) = spec.pointer_mut(port) else { continue };
        *port = json!(ports::free_address().unwrap().port());
    }
    let more = spec.pointer_mut("/listener/additionalAddresses").and_then(Value::as_array_mut);
    for address in more.into_iter().flatten() {
        *address = json!({"address": "127.0.0.2", "port": ports::free_address().unwrap().port()});
    }
}

fn objects(status: &Value) -> Vec<Value> {
    let objects = status["objects"].as_array().cloned().unwrap_or_default();
    objects.into_iter().filter(|object| object["kind"] != "GatewaySettings").collect()
}

/// How many of its objects are to be refused.
fn refused(case: &Path) -> usize {
    let outcome = fs::read_to_string(case.join("out.txt")).unwrap();
    let told = outcome.lines().skip(1).take_while(|line| line.starts_with(' '));
    told.filter(|line| line.contains(" refused ")).count()
}

fn takes_it(status: &Value) -> bool {
    let is_quiet = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    status["nodes"][0]["inSync"] == true && is_quiet(&status["nodes"][0]["refused"])
}

#[test]
fn real_envoy_takes_every_case() {
    let fixture = StubFixture::without_cluster("goldens", &GatewayOptions::default());
    let plain = fs::read_to_string(fixture.gateway.manifests().join("settings.yaml")).unwrap();
    let cases = cases();
    assert!(cases.len() > 15, "{cases:?}");
    for case in cases {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        let mut document: Value = serde_json::from_str(&plain).unwrap();
        settings(&case, &fixture, &mut document["spec"]);
        let before = fixture.gateway.plane().status().unwrap()["snapshot"].clone();
        fixture.gateway.write_file("settings.yaml", &document.to_string()).unwrap();
        fixture.gateway.write_file("case.yaml", &manifest(&case, &fixture)).unwrap();
        let is_served = |status: &Value| {
            let objects = objects(status);
            takes_it(status)
                && status["snapshot"] != before
                && !objects.is_empty()
                && objects.iter().filter(|object| object["accepted"] != true).count() == refused(&case)
        };
        fixture.gateway.plane().wait_status(&format!("Envoy takes {name}"), SOON, is_served).unwrap();
        fs::remove_file(fixture.gateway.manifests().join("case.yaml")).unwrap();
        let is_gone = |status: &Value| takes_it(status) && objects(status).is_empty();
        fixture.gateway.plane().wait_status(&format!("{name} is gone"), SOON, is_gone).unwrap();
    }
}

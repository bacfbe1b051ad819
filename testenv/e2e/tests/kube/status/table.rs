use std::process::Command;

use portcullis_e2e::allow_all;
use portcullis_harness::deps;
use serde_json::json;

use super::wait_condition;
use crate::sources::SourceFixture;

#[test]
fn kubectl_and_portcullis_show_the_same_columns() {
    let Some(fixture) = SourceFixture::start("status-table") else { return };
    let side = fixture.kubernetes_side("plane");
    fixture.apply(&fixture.manifest("good.example.com").to_text());
    let claim = |name: &str| fixture.manifest(name).set("/spec/secureServing/serverNames", json!(["good.example.com"]));
    fixture.apply(&claim("thief.example.com").to_text());
    let bad = fixture.manifest("wrong.example.com");
    fixture.apply(&bad.policies(json!([{"rules": [allow_all()], "flowControlSchemaName": "none"}])).to_text());
    wait_condition(&fixture, "good.example.com", "Programmed", "True", "Programmed");
    wait_condition(&fixture, "thief.example.com", "Accepted", "True", "Conflicted");
    wait_condition(&fixture, "thief.example.com", "Programmed", "True", "Programmed");
    wait_condition(&fixture, "wrong.example.com", "Accepted", "False", "Invalid");
    let rows = |text: String| -> Vec<Vec<String>> {
        let row = |line: &str| line.split_whitespace().take(4).map(str::to_owned).collect();
        text.lines().take(4).map(row).collect()
    };
    let expected = [
        ["NAME", "ACCEPTED", "PROGRAMMED", "READY"],
        ["good.example.com", "True", "True", "Unknown"],
        ["thief.example.com", "True", "True", "Unknown"],
        ["wrong.example.com", "False", "False", "False"],
    ];
    assert_eq!(rows(fixture.admin(&["get", "upstreamclusters"])), expected);
    let wide = fixture.admin(&["get", "uc", "-o", "wide"]);
    for told in ["REASON", "Conflicted", "the name good.example.com belongs to", "acknowledged by 1 gateway (envoy)"] {
        assert!(wide.contains(told), "{told}: {wide}");
    }
    let address = side.plane.http_address().to_string();
    let output = Command::new(deps::portcullis().unwrap()).args(["status", "--address", &address]).output().unwrap();
    assert_eq!(rows(String::from_utf8(output.stdout).unwrap()), expected);
    assert_eq!(output.status.code(), Some(1));
    let one = ["status", "--address", &address, "good.example.com"];
    assert!(Command::new(deps::portcullis().unwrap()).args(one).output().unwrap().status.success());
}

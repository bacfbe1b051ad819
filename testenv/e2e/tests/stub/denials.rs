//! A dispatch policy that denies: 403 that says so, and nothing at a server.

use std::time::Duration;

use portcullis_e2e::{GatewayOptions, MetricsPage, allow_all};
use portcullis_harness::client::H2Client;
use portcullis_harness::wait;
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, StubFixture};
use crate::pods::watch_shows;

const SOON: Duration = Duration::from_secs(20);

fn denying(rule: &[(&str, Value)], message: &str) -> Value {
    let mut all = allow_all();
    for (field, value) in rule {
        all[*field] = value.clone();
    }
    json!({"rules": [all], "portcullis": {"action": "Deny", "message": message}})
}

#[test]
fn denied_request_reaches_no_server_and_is_counted() {
    let fixture = StubFixture::start("denials", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME);
    let alice = H2Client::connect(&target.clone().identity(&fixture.pki.alice)).unwrap();
    let nobody = H2Client::connect(&target).unwrap();
    let mut watch = alice.open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap();
    assert_eq!(watch.response.status, 200);
    let of_alice = denying(&[("users", json!(["alice"])), ("verbs", json!(["list", "watch"]))], "one by one");
    let policies =
        json!([of_alice, denying(&[("userGroups", json!(["system:unauthenticated"]))], ""), {"rules": [allow_all()]}]);
    fixture.gateway.apply(&fixture.manifest().policies(policies)).unwrap();
    fixture.stub.clear();

    let table = [
        (&alice, PODS.to_owned(), Some("dispatch policy 0 of the gateway denies this request: one by one")),
        (
            &alice,
            format!("{PODS}?watch=true"),
            Some("dispatch policy 0 of the gateway denies this request: one by one"),
        ),
        (&alice, format!("{PODS}/a"), None),
        (&nobody, format!("{PODS}/a"), Some("dispatch policy 1 of the gateway denies this request")),
        (&nobody, "/version".to_owned(), Some("dispatch policy 1 of the gateway denies this request")),
    ];
    for (client, path, denied) in &table {
        let answer = client.get(path, &[]).unwrap();
        let Some(message) = denied else {
            assert_ne!(answer.status, 403, "{path}");
            continue;
        };
        let status: Value = serde_json::from_str(&answer.text()).unwrap();
        let found = (answer.status, status["reason"].as_str(), status["message"].as_str());
        assert_eq!(found, (403, Some("Forbidden"), Some(*message)), "{path}");
        assert_eq!(answer.header("retry-after"), None, "{path}");
    }
    let records = fixture.client_records();
    let paths: Vec<&str> = records.iter().map(|record| record.path()).collect();
    assert_eq!(paths, [format!("{PODS}/a")]);

    // A request that runs goes on.
    watch_shows(&target.identity(&fixture.pki.alice), &mut watch, "later").unwrap();
    let labels = [("policy", "1"), ("decision", "refused"), ("reason", "denied_by_policy")];
    let counted = || (MetricsPage::of(&fixture.gateway).sum("requests_total", &labels) == 2).then_some(());
    wait::until("the denials are counted", SOON, counted).unwrap();
}

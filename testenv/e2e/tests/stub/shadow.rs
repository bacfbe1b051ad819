//! Policies, limits and access lists that only report: the operator alone sees anything of them, and promoted they do what they
//! reported.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use portcullis_e2e::{GatewayOptions, Manifest, MetricsPage, allow_all};
use portcullis_harness::client::{H2Client, Response, TlsTarget};
use portcullis_harness::{deps, wait};
use serde_json::{Value, json};

use crate::access_log::{line, lines};
use crate::fixture::{NAME, PODS, ROBOT, StubFixture};

const SOON: Duration = Duration::from_secs(20);
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn rule(fields: Value) -> Value {
    let mut rule = allow_all();
    rule.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    rule
}

fn real(fixture: &StubFixture) -> Manifest {
    let secrets = rule(json!({"users": ["robot"], "resources": ["secrets"], "nonResourceURLs": []}));
    fixture
        .manifest()
        .set("/spec/logging", json!({"mode": "on"}))
        .policies(json!([{"rules": [secrets], "portcullis": {"action": "Deny"}}, {"rules": [allow_all()]}]))
}

fn shadow() -> Value {
    let lists = rule(json!({"users": ["alice"], "verbs": ["list"]}));
    json!({"shadow": {
        "access": {"deny": [{"users": ["system:anonymous"]}]},
        "flowControl": {"flowControlSchemas": [{"name": "one", "maxRequestsInflight": {"max": 1}}]},
        "dispatchPolicies": [
            {"rules": [lists], "portcullis": {"action": "Deny", "message": "not yet"}},
            {"rules": [rule(json!({"verbs": ["watch"]}))], "flowControlSchemaName": "one"},
            {"rules": [allow_all()]},
        ],
    }})
}

/// Status, header lines and body of an answer, without what no two answers share.
fn shown(answer: &Response, body: &str) -> String {
    let own = ["date", "x-request-id", "audit-id"];
    let lines: Vec<_> = answer.headers.iter().filter(|(name, _)| !own.contains(&name.as_str())).collect();
    format!("{} {lines:?} {body}", answer.status)
}

/// The same requests each time: what clients get, what their server got, and how often each status was answered.
fn ask(fixture: &StubFixture) -> (Vec<String>, Vec<String>, BTreeMap<u16, usize>) {
    fixture.stub.clear();
    let target = fixture.gateway.target(NAME);
    let connect = |target: &TlsTarget| H2Client::connect(target).unwrap();
    let alice = connect(&target.clone().identity(&fixture.pki.alice));
    let nobody = connect(&target);
    let token = format!("Bearer {ROBOT}");
    let table = [
        (&alice, PODS.to_owned(), 3),
        (&alice, format!("{PODS}/a"), 2),
        (&nobody, "/version".to_owned(), 2),
        (&nobody, SECRETS.to_owned(), 2),
    ];
    let (mut answers, mut statuses) = (Vec::new(), BTreeMap::<u16, usize>::new());
    for (client, path, times) in &table {
        for _ in 0..*times {
            let robot = [("authorization", token.as_str()), ("user-agent", "robot")];
            let is_robot = path == SECRETS;
            let answer = client.get(path, if is_robot { &robot } else { &[("user-agent", "usual")] }).unwrap();
            *statuses.entry(answer.status).or_default() += 1;
            answers.push(shown(&answer, &answer.text()));
        }
    }
    // Two at a time, of which the second one is beyond the shadow's limit.
    let watch = |agent: &'static str| {
        alice.open("GET", &format!("{PODS}?watch=true"), &[("user-agent", agent.as_bytes())], b"").unwrap()
    };
    let watches = [watch("first"), watch("second")];
    for watch in &watches {
        *statuses.entry(watch.response.status).or_default() += 1;
        answers.push(shown(&watch.response, ""));
    }
    let records = fixture.client_records();
    let record = |record: &portcullis_stub_apiserver::Record| {
        let lines: Vec<_> = record.headers.iter().filter(|line| line.name != "x-request-id").collect();
        format!("{} {} {} {lines:?} {:?}", record.method, record.target, record.authority, record.effective)
    };
    (answers, records.iter().map(record).collect(), statuses)
}

fn counts(fixture: &StubFixture) -> BTreeMap<String, u64> {
    let page = MetricsPage::of(&fixture.gateway);
    let text = |labels: &portcullis_e2e::Labels| {
        ["policy", "shadow_policy", "agreement"].map(|label| labels[label].clone()).join(" ")
    };
    page.series_of("shadow_total").map(|(labels, count)| (text(labels), count)).collect()
}

fn run(arguments: &[&str]) -> Value {
    let output = Command::new(deps::portcullis().unwrap()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn shadow_is_seen_by_nobody_and_promoted_does_what_it_said() {
    let fixture = StubFixture::start("shadow", &GatewayOptions::default());
    let gateway = &fixture.gateway;
    gateway.apply(&real(&fixture)).unwrap();
    // Answers about tokens and impersonation are remembered from here on.
    ask(&fixture);
    let without = ask(&fixture);
    assert_eq!(without.2, BTreeMap::from([(200, 7), (404, 2), (403, 2)]));
    assert_eq!(counts(&fixture), BTreeMap::new());

    let manifest = real(&fixture).set("/spec/portcullis", shadow());
    gateway.apply(&manifest).unwrap();
    let probes = counts(&fixture);
    let with = ask(&fixture);
    assert_eq!(with, without);
    let expected = BTreeMap::from([
        ("1 0 would_refuse".to_owned(), 3),
        ("1 - would_refuse".to_owned(), 2),
        ("0 2 would_allow".to_owned(), 2),
        ("1 1 other_policy".to_owned(), 1),
        ("1 1 would_limit".to_owned(), 1),
    ]);
    let found = || {
        let mut counts = counts(&fixture);
        counts.remove("- - same");
        // Requests of the test itself, while it waits for a configuration.
        counts.iter_mut().for_each(|(labels, count)| *count -= probes.get(labels).copied().unwrap_or_default());
        if counts == expected { Ok(()) } else { Err(format!("{counts:?}, and before {probes:?}")) }
    };
    wait::until_ok("the differences are counted", SOON, found).unwrap();
    let limited = || lines(&fixture).into_iter().find(|line| line["shadow"] == "would_limit");
    let limited = wait::until("a line of the request beyond the limit", SOON, limited).unwrap();
    let found = [&limited["userAgent"], &limited["shadowPolicy"], &limited["decision"]];
    assert_eq!(found, [&json!("second"), &json!("1"), &json!("forwarded")], "{limited}");

    let file = fixture.run.join("shadow.yaml");
    std::fs::write(&file, manifest.to_text()).unwrap();
    let file = file.to_str().unwrap();
    let explained = run(&["explain", "-f", file, "--shadow", "-o", "json", "GET", PODS, "--user", "alice"]);
    assert_eq!(
        (&explained["dispatch"]["policy"], &explained["shadow"]["refusal"]["code"]),
        (&json!(1), &json!(403)),
        "{explained}"
    );
    let patch = run(&["promote", NAME, "-f", file]);
    gateway.apply(&manifest.merge(&patch)).unwrap();
    let (.., statuses) = ask(&fixture);
    assert_eq!(statuses, BTreeMap::from([(200, 3), (404, 2), (403, 5), (429, 1)]), "{patch}");
}

#[test]
fn policy_in_shadow_is_reported_by_its_number() {
    let fixture = StubFixture::start("shadow-policy", &GatewayOptions::default());
    let lists = rule(json!({"verbs": ["list"]}));
    let denial = json!({"rules": [lists], "portcullis": {"mode": "Shadow", "action": "Deny"}});
    let manifest = fixture.manifest().set("/spec/logging", json!({"mode": "on"}));
    fixture.gateway.apply(&manifest.policies(json!([denial, {"rules": [allow_all()]}]))).unwrap();
    let alice = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    assert_eq!(alice.get(PODS, &[("user-agent", "lists")]).unwrap().status, 200);
    let list = line(&fixture, "lists");
    let found = [&list["policy"], &list["shadow"], &list["shadowPolicy"]];
    assert_eq!(found, [&json!("1"), &json!("would_refuse"), &json!("0")], "{list}");
    assert_eq!(alice.get(&format!("{PODS}/a"), &[("user-agent", "reads")]).unwrap().status, 404);
    let read = line(&fixture, "reads");
    assert_eq!((read.get("shadow"), read.get("shadowPolicy")), (None, None), "{read}");
    let counted = || counts(&fixture).contains_key("1 0 would_refuse").then_some(());
    wait::until("the difference is counted", SOON, counted).unwrap();
}

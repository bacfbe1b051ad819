//! The alerts, evaluated by Prometheus over the pages of a gateway and a control plane that run.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use portcullis_e2e::MetricsPage;
use portcullis_harness::client::{H2Client, Outgoing};
use portcullis_harness::prometheus::Prometheus;
use portcullis_harness::{project_root, wait};
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::{Value, json};

use crate::dashboard::{FAILING, SECRET, SOON, start, sum};
use crate::fixture::{NAME, PODS};
use crate::series::{closed_set, walk};

/// The names of the alerts, with their expressions.
fn alerts() -> BTreeMap<String, String> {
    let path = project_root().join("deploy/kubernetes/components/monitoring/rules.yaml");
    let rules: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let groups = rules["spec"]["groups"].as_array().unwrap();
    let rules = groups.iter().flat_map(|group| group["rules"].as_array().unwrap());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    rules.map(|rule| (text(&rule["alert"]), text(&rule["expr"]))).collect()
}

/// The alerts whose condition holds, whatever time it must hold for.
fn holding(prometheus: &Prometheus) -> BTreeSet<String> {
    let holds =
        |(name, expression): (String, String)| (!prometheus.query(&expression).unwrap().is_empty()).then_some(name);
    alerts().into_iter().filter_map(holds).collect()
}

/// A user who asks for everything takes all series that the cluster may have.
#[test]
fn alerts_hold_for_a_cluster_without_room() {
    let Some((fixture, prometheus)) = start("alerts-room") else { return };
    let alice = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    let requests =
        [("GET", false), ("GET", true), ("POST", true), ("PATCH", false), ("DELETE", false), ("DELETE", true)];
    let all = [walk(&closed_set(), &requests), walk(&closed_set(), &[("PURGE", false)])].concat();
    let walked = all.len() as u64;
    for answer in alice.burst(all, 6) {
        answer.unwrap();
    }
    let put = || alice.request("PUT", SECRET, &[], b"{}").unwrap().status;
    let counted = |number: u64| {
        let page = || MetricsPage::of(&fixture.gateway);
        let is_there = || (page().sum("apiserver_request_total", &[("cluster", NAME)]) == number).then(page);
        wait::until("the requests are counted", SOON, is_there).unwrap()
    };
    put();
    let page = counted(walked + 1);
    assert_eq!(page.sum("apiserver_request_total", &[("verb", "PUT")]), 0, "there is no room");
    let without_room = [("cluster", "(other)"), ("verb", "other")];
    assert!(page.sum("apiserver_request_duration_seconds_count", &without_room) > 0);

    let failing = Action::Respond { status: 500, headers: Vec::new(), body: String::new() };
    fixture.stub.fault(Fault::new(SECRET, failing).method("PUT"));
    until_alert(&prometheus, "PortcullisServersFail", || assert_eq!(put(), 500));
    let unreachable = fixture.manifest().set("/spec/servers", json!([{"endpoint": "https://127.0.0.1:9"}]));
    fixture.gateway.apply(&unreachable).unwrap();
    until_alert(&prometheus, "PortcullisGatewayFails", || assert_eq!(put(), 503));
    let page = MetricsPage::of(&fixture.gateway);
    let own = [("cluster", NAME), ("server", "none"), ("verb", "other"), ("resource", "other"), ("code", "5xx")];
    assert!(page.sum("apiserver_request_total", &own) > 0);
    let detailed = [("cluster", NAME), ("server", "none"), ("verb", "PUT")];
    assert_eq!(page.sum("apiserver_request_total", &detailed), 0);
}

/// Clients without a credential can neither raise an alert nor keep it from being raised.
#[test]
fn alerts_are_out_of_reach_for_strangers() {
    let Some((fixture, prometheus)) = start("alerts-strangers") else { return };
    let alice = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    let nobody = H2Client::connect(&fixture.gateway.target(NAME)).unwrap();
    let looping = Outgoing::get(PODS, &[("via", "1.1 e2e")]);
    // Refused without a review, for which there is no server in the end.
    let unreadable = Outgoing::get(PODS, &[("authorization", "Bearer a\tb")]);
    let wrong = Outgoing::get(PODS, &[("authorization", "Bearer not-a-token")]);
    let answered = |client: &H2Client, request: &Outgoing, times: usize, status: u16| {
        let answers = client.burst(vec![request.clone(); times], 8);
        for answer in answers {
            assert_eq!(answer.unwrap().status, status);
        }
    };
    let total = Cell::new(0.0);
    let is_counted = |more: f64| {
        total.set(total.get() + more);
        let equal = || {
            let found = sum(&prometheus, "apiserver_request_total");
            if found == total.get() { Ok(()) } else { Err(format!("{found}, not {}", total.get())) }
        };
        wait::until_ok("Prometheus has the counts", SOON, equal).unwrap();
    };
    let (read, failing, public) =
        (Outgoing::get(PODS, &[]), Outgoing::get(FAILING, &[]), Outgoing::get("/version", &[]));
    let respond = Action::Respond { status: 500, headers: Vec::new(), body: String::new() };
    fixture.stub.fault(Fault::new(FAILING, respond));
    // Growth counts from a series' first sample on.
    for (client, request, status) in [
        (&nobody, &looping, 508),
        (&nobody, &wrong, 401),
        (&nobody, &public, 200),
        (&alice, &read, 200),
        (&alice, &failing, 500),
    ] {
        answered(client, request, 1, status);
    }
    is_counted(5.0);
    answered(&nobody, &looping, 300, 508);
    answered(&alice, &read, 100, 200);
    is_counted(400.0);
    until_alerts(&prometheus, &["PortcullisNoReport"], || {});

    answered(&nobody, &wrong, 2_000, 401);
    answered(&nobody, &public, 2_000, 200);
    answered(&alice, &failing, 20, 500);
    is_counted(4_020.0);
    until_alerts(&prometheus, &["PortcullisNoReport", "PortcullisServersFail"], || {});

    let unreachable = fixture.manifest().set("/spec/servers", json!([{"endpoint": "https://127.0.0.1:9"}]));
    fixture.gateway.apply(&unreachable).unwrap();
    until_alert(&prometheus, "PortcullisGatewayFails", || {
        assert_eq!(alice.get(PODS, &[]).unwrap().status, 503);
        answered(&nobody, &unreadable, 200, 401);
    });
}

/// A client that takes its time to send a body makes no server slow.
#[test]
fn slow_uploads_make_no_server_slow() {
    let (test, upload) = ("alerts-upload", "/api/v1/namespaces/default/configmaps");
    let Some((fixture, prometheus)) = start(test) else { return };
    let alice = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    let slow = Fault::new(upload, Action::Delay { millis: 1_500 }).method("POST");
    fixture.stub.fault(slow);
    let post = |times: usize| (0..times).for_each(|_| drop(alice.request("POST", upload, &[], b"{}").unwrap()));
    post(1);
    let is_counted = |number: f64| {
        let equal = || if sum(&prometheus, "apiserver_request_total") == number { Ok(()) } else { Err("not yet") };
        wait::until_ok("Prometheus has the counts", SOON, equal).unwrap();
    };
    is_counted(1.0);
    post(5);
    is_counted(6.0);
    until_alerts(&prometheus, &["PortcullisNoReport"], || {});
    fixture.stub.fault(Fault::new(SECRET, Action::Delay { millis: 1_500 }));
    until_alert(&prometheus, "PortcullisServersSlow", || drop(alice.get(SECRET, &[]).unwrap()));
}

fn until_alert(prometheus: &Prometheus, name: &str, meanwhile: impl Fn()) {
    let holds = || {
        meanwhile();
        holding(prometheus).contains(name).then_some(())
    };
    wait::until(&format!("{name} holds"), SOON, holds).unwrap();
}

/// Waits until exactly these alerts hold, and does `meanwhile` before each look.
pub(crate) fn until_alerts(prometheus: &Prometheus, expected: &[&str], meanwhile: impl Fn()) {
    let expected: BTreeSet<String> = expected.iter().map(|name| (*name).to_owned()).collect();
    let equal = || {
        meanwhile();
        let found = holding(prometheus);
        if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
    };
    wait::until_ok("the alerts hold", SOON, equal).unwrap();
}

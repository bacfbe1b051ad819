//! The health of servers, by the check of their cluster.

use std::time::{Duration, Instant};

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::H2Client;
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::json;

use crate::fixture::{NAME, PODS, StubFixture};

const SOON: Duration = Duration::from_secs(20);
const WITHIN: Duration = Duration::from_secs(60);

/// The weight of a server that has been healthy for so long: it grows from a tenth to the whole within 10 seconds.
pub(crate) fn weight(age: Duration) -> f64 {
    (age.as_secs_f64() / 10.0).clamp(0.1, 1.0)
}

fn fails(path: &str) -> Fault {
    Fault::new(path, Action::Respond { status: 500, headers: Vec::new(), body: String::new() })
}

#[test]
fn server_that_is_not_ready_is_healthy_under_a_livez_check() {
    let fixture = StubFixture::without_cluster("health", &GatewayOptions::default());
    fixture.stub.fault(fails("/readyz"));
    fixture.gateway.apply(&fixture.manifest()).unwrap();
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let status = || H2Client::connect(&target).unwrap().get(PODS, &[]).unwrap().status;
    let asked = || (!fixture.stub.records_for("/readyz").is_empty()).then_some(());
    wait::until("the server is asked whether it is ready", SOON, asked).unwrap();
    assert_eq!(status(), 503, "not ready");

    let check = json!({"healthCheck": {"path": "/livez", "interval": "1s"}});
    fixture.gateway.apply(&fixture.manifest().set("/spec/portcullis", check)).unwrap();
    wait::until("the server is healthy", SOON, || (status() == 200).then_some(())).unwrap();
    let checks = fixture.stub.records_for("/livez");
    assert!(!checks.is_empty());
    for check in checks {
        assert_eq!(check.header_all("via"), ["1.1 e2e"], "a loop would not be found out");
    }

    fixture.stub.fault(fails("/livez"));
    wait::until("the server is not", SOON, || (status() == 503).then_some(())).unwrap();
    fixture.stub.clear_faults();
    wait::until("the server is healthy again", SOON, || (status() == 200).then_some(())).unwrap();
}

#[test]
fn server_may_fail_as_many_checks_as_its_cluster_bears() {
    let fixture = StubFixture::without_cluster("health-threshold", &GatewayOptions::default());
    let check = json!({"healthCheck": {"interval": "1s", "unhealthyThreshold": 10}});
    fixture.gateway.apply(&fixture.manifest().set("/spec/portcullis", check)).unwrap();
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let client = H2Client::connect(&target).unwrap();
    let healthy = || (client.get(PODS, &[]).ok()?.status == 200).then_some(());
    wait::until("the server is healthy", SOON, healthy).unwrap();
    fixture.stub.clear();
    fixture.stub.fault(fails("/readyz"));
    // Each of the three pools asks for itself.
    let failed = || (fixture.stub.records_for("/readyz").len() >= 7).then_some(());
    wait::until("some checks have failed", SOON, failed).unwrap();
    assert_eq!(client.get(PODS, &[]).unwrap().status, 200);
    let unhealthy = || (client.get(PODS, &[]).ok()?.status == 503).then_some(());
    wait::until("too many checks have failed", SOON, unhealthy).unwrap();
}

#[test]
fn server_that_takes_no_connections_is_out_at_once() {
    let fixture = StubFixture::without_cluster("ejected", &GatewayOptions::default());
    let second = fixture.pki.stub("stub-1");
    let manifest = fixture
        .cluster(NAME, [fixture.stub.address(), second.address()])
        .set("/spec/portcullis", json!({"healthCheck": {"interval": "60s", "timeout": "5s"}}));
    fixture.gateway.apply(&manifest).unwrap();
    let client = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    let status = || client.get(PODS, &[]).unwrap().status;
    let both = || (status() == 200 && !second.records_for(PODS).is_empty()).then_some(());
    wait::until("both servers are reached", SOON, both).unwrap();
    drop(second);
    let ejected = || {
        assert_eq!(status(), 200, "a request that found nobody is put to the other server");
        let ejections = fixture.gateway.envoy().admin().stats("all_h2.outlier_detection.ejections_active").ok()?;
        ejections.iter().any(|(_, count)| *count == 1).then_some(())
    };
    wait::until("the server is out", SOON, ejected).unwrap();
    assert_eq!(status(), 200);
}

#[test]
fn server_that_comes_back_gets_little_at_first() {
    let fixture = StubFixture::without_cluster("comes-back", &GatewayOptions::default());
    let second = fixture.pki.stub("stub-1");
    let manifest = fixture
        .cluster(NAME, [fixture.stub.address(), second.address()])
        .set("/spec/portcullis", json!({"healthCheck": {"interval": "2s"}}));
    fixture.gateway.apply(&manifest).unwrap();
    let client = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    let share_of = |requests: usize| {
        second.clear();
        (0..requests).for_each(|_| assert_eq!(client.get(PODS, &[]).unwrap().status, 200));
        second.records_for(PODS).len()
    };
    wait::until("both get the same", WITHIN, || (share_of(20) >= 9).then_some(())).unwrap();
    let other = Instant::now();
    // A third of forty is a lot for a server of half the other's weight, and no more than its due for one of more.
    let comes_back = || {
        second.fault(fails("/readyz"));
        wait::until("it is out", SOON, || (share_of(20) == 0).then_some(())).unwrap();
        let (cleared, others) = (Instant::now(), weight(other.elapsed()));
        second.clear_faults();
        wait::until("it is back", SOON, || (share_of(1) > 0).then_some(())).unwrap();
        let first = share_of(40);
        (weight(cleared.elapsed()) <= 0.48 * others).then(|| assert!(first < 14, "{first} of the first 40"))
    };
    wait::retry_if_slow("it is younger than the other one", comes_back).unwrap();
    wait::until("both get the same again", WITHIN, || (share_of(20) >= 9).then_some(())).unwrap();
}

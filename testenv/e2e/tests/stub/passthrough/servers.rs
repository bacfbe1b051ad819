use std::time::Duration;

use portcullis_e2e::{GatewayOptions, Manifest};
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault, StubServer};
use serde_json::json;

use super::{passed_on, stub, target};
use crate::fixture::{NAME, PODS, StubFixture, connect};

const SOON: Duration = Duration::from_secs(20);
/// Longer than servers are eased in.
const EASED_IN: Duration = Duration::from_secs(40);

/// How many of thirty connections reach each server; all must reach one.
fn shares(fixture: &StubFixture, servers: &[StubServer]) -> Vec<usize> {
    servers.iter().for_each(StubServer::clear);
    for _ in 0..30 {
        assert_eq!(connect(&target(fixture)).get(PODS, &[]).unwrap().status, 200);
    }
    servers.iter().map(|server| server.records_for(PODS).len()).collect()
}

/// Waits until exactly these servers get connections.
fn wait_for(fixture: &StubFixture, servers: &[StubServer], wanted: &[bool]) {
    let reached = || {
        let shares = shares(fixture, servers);
        let is_so = shares.iter().zip(wanted).all(|(share, wanted)| (*share > 0) == *wanted);
        if is_so { Ok(()) } else { Err(format!("{shares:?}")) }
    };
    wait::until_ok(&format!("connections reach {wanted:?}"), SOON, reached).unwrap();
}

#[test]
fn connections_go_round_a_server_that_is_down_or_not_ready() {
    let fixture = StubFixture::without_cluster("passed-on-down", &GatewayOptions::default());
    let mut servers: Vec<_> = ["stub-1", "stub-2", "stub-3"].map(|name| stub(&fixture, name)).into();
    fixture.gateway.apply(&passed_on(&servers)).unwrap();
    wait_for(&fixture, &servers, &[true, true, true]);
    let failing = Action::Respond { status: 500, headers: Vec::new(), body: String::new() };
    servers[0].fault(Fault::new("/readyz", failing));
    wait_for(&fixture, &servers, &[false, true, true]);
    servers[0].clear_faults();
    wait_for(&fixture, &servers, &[true, true, true]);
    // No connection fails, although the checks do not know it yet.
    drop(servers.remove(2));
    let shares = shares(&fixture, &servers);
    assert_eq!(shares.iter().sum::<usize>(), 30, "{shares:?}");
}

#[test]
fn own_zone_comes_first_for_connections_too() {
    let options = GatewayOptions { bootstrap_flags: vec!["--zone".into(), "a".into()], ..GatewayOptions::default() };
    let fixture = StubFixture::without_cluster("passed-on-zones", &options);
    let servers: Vec<_> = ["a-1", "b-1", "none"].map(|name| stub(&fixture, name)).into();
    let manifest = passed_on(&servers);
    let mut fields = manifest.get("/spec/portcullis");
    let zone = |number: usize, zone: &str| json!({"endpoint": servers[number].url(), "zone": zone});
    fields["servers"] = json!([zone(0, "a"), zone(1, "b")]);
    fixture.gateway.apply(&manifest.set("/spec/portcullis", fields)).unwrap();
    wait_for(&fixture, &servers, &[true, false, false]);
    let failing = Action::Respond { status: 500, headers: Vec::new(), body: String::new() };
    servers[0].fault(Fault::new("/readyz", failing));
    wait_for(&fixture, &servers, &[false, true, true]);
}

#[test]
fn connections_are_shared_by_weights() {
    let fixture = StubFixture::without_cluster("passed-on-weights", &GatewayOptions::default());
    let servers: Vec<_> = ["blue", "green"].map(|name| stub(&fixture, name)).into();
    let manifest = passed_on(&servers);
    let mut fields = manifest.get("/spec/portcullis");
    fields["servers"] = json!([{"endpoint": servers[0].url(), "weight": 4}]);
    fixture.gateway.apply(&manifest.set("/spec/portcullis", fields)).unwrap();
    // Of thirty connections 24 go to blue; each worker of Envoy counts its own.
    let by_weight = || {
        let shares = shares(&fixture, &servers);
        if (20..=28).contains(&shares[0]) { Ok(()) } else { Err(format!("{shares:?}")) }
    };
    wait::until_ok("connections go by weights", EASED_IN, by_weight).unwrap();
}

/// Nothing goes round although servers at loopback are allowed, and connections from there with them: the first check of the server
/// would have to come back from one that is healthy already.
#[test]
fn server_that_is_the_gateway_itself_gets_no_connection() {
    let fixture = StubFixture::without_cluster("passed-on-loop", &GatewayOptions::default());
    let own = Manifest::new(NAME, [fixture.gateway.address()]).merge(&json!({"spec": {
        "clientConfig": null, "secureServing": null, "dispatchPolicies": [],
        "portcullis": {"transport": "TLSPassthrough", "healthCheck": {"interval": "1s", "timeout": "1s"}},
    }}));
    fixture.gateway.apply(&own).unwrap();
    for _ in 0..3 {
        assert!(target(&fixture).connect().is_err());
    }
    let clients = format!("tcp.{}.downstream_cx_total", NAME.replace('.', "_"));
    let pool = format!("cluster.e2e/-/{}/all_tcp.upstream_cx_total", NAME.replace('.', "_"));
    let admin = fixture.gateway.envoy().admin();
    let checks =
        || admin.stat(&pool.replace("upstream_cx_total", "health_check.failure")).ok().filter(|count| *count > 2);
    wait::until("checks fail", SOON, checks).unwrap();
    let (came, went) = (admin.stat(&clients).unwrap(), admin.stat(&pool).unwrap());
    // Checks go round the pool, and are none of its connections.
    assert!(came >= 3, "those of the clients came: {came}");
    assert_eq!(went, 0, "no connection went on to the gateway: {came} came");
}

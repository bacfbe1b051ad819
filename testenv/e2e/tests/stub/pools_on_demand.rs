//! `secondaryPools: OnDemand`: pools for upgrades and for requests without a credential exist when a request has needed them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use portcullis_e2e::{GatewayOptions, Manifest};
use portcullis_harness::client::TlsTarget;
use portcullis_harness::wait;
use serde_json::json;

use crate::fixture::{NAME, PODS, StubFixture, connect};

const EXEC: &str = "/api/v1/namespaces/default/pods/p/exec";
const SOON: Duration = Duration::from_secs(20);
/// A page that needs no credential.
const VERSION: &str = "/version";
/// The bound of a request that waits for its pool.
const COLD: Duration = Duration::from_secs(2);

fn start(test: &str) -> (StubFixture, Manifest) {
    let settings = json!({"secondaryPools": "OnDemand"});
    let fixture = StubFixture::without_cluster(test, &GatewayOptions { settings, ..GatewayOptions::default() });
    let manifest = fixture.manifest();
    fixture.gateway.apply(&manifest).unwrap();
    (fixture, manifest)
}

/// The pools that Envoy has, without generations.
fn pools(fixture: &StubFixture) -> BTreeSet<String> {
    names(fixture).into_iter().filter_map(|name| Some(name.split_once('@')?.0.to_owned())).collect()
}

/// The names of the pools that Envoy has.
fn names(fixture: &StubFixture) -> BTreeSet<String> {
    let text = fixture.gateway.envoy().admin().get("/clusters").unwrap().text();
    let all = text.lines().filter_map(|line| line.split_once("::"));
    all.map(|(name, _)| name.to_owned()).filter(|name| name.contains(NAME)).collect()
}

fn expected(pools: &[&str]) -> BTreeSet<String> {
    pools.iter().map(|pool| format!("e2e/-/{NAME}/all.{pool}")).collect()
}

/// The status of an upgrade, and the time to it.
fn exec(target: &TlsTarget) -> (u16, Duration) {
    let start = Instant::now();
    let mut connection = target.connect().unwrap();
    let head = format!("GET {EXEC} HTTP/1.1\r\nHost: {NAME}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n");
    connection.write(head.as_bytes()).unwrap();
    (connection.read_response(false).unwrap().status, start.elapsed())
}

#[test]
fn pool_on_demand_is_made_by_the_first_request_to_it() {
    let (fixture, _) = start("pools-on-demand");
    let alice = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let stranger = connect(&fixture.gateway.target(NAME));
    assert_eq!(connect(&alice).get(PODS, &[]).unwrap().status, 200);
    assert_eq!(pools(&fixture), expected(&["h2"]), "no request needed another one");

    let start = Instant::now();
    assert_eq!(stranger.get(VERSION, &[]).unwrap().status, 200);
    let cold = start.elapsed();
    assert_eq!(pools(&fixture), expected(&["anonymous", "h2"]));
    let (status, upgraded) = exec(&alice);
    assert_eq!(status, 101);
    assert_eq!(pools(&fixture), expected(&["anonymous", "h2", "upgrade"]));
    println!("first answer {cold:?}, first upgrade with its handshake {upgraded:?}");
    assert!(cold.max(upgraded) < COLD, "{cold:?} {upgraded:?}");
    let record = fixture.stub.records_for(VERSION).pop().unwrap();
    assert_eq!(record.header("impersonate-user"), None, "and it carries no identity");
}

#[test]
fn pool_on_demand_is_refused_without_a_control_plane() {
    let (mut fixture, _) = start("pools-on-demand-alone");
    let alice = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let stranger = connect(&fixture.gateway.target(NAME));
    assert_eq!(stranger.get(VERSION, &[]).unwrap().status, 200);
    fixture.gateway.plane().process().kill();
    assert_eq!(stranger.get(VERSION, &[]).unwrap().status, 200, "a pool that is there stays");
    assert_eq!(connect(&alice).get(PODS, &[]).unwrap().status, 200);
    fixture.stub.clear();
    assert_eq!(exec(&alice).0, 503, "nobody knows this one");
    assert!(fixture.stub.records_for(EXEC).is_empty(), "and it went nowhere else");

    fixture.gateway.restart_control_plane().unwrap();
    wait::until("upgrades work", SOON, || (exec(&alice).0 == 101).then_some(())).unwrap();
}

#[test]
fn pools_on_demand_are_of_one_generation() {
    let (fixture, manifest) = start("pools-on-demand-generations");
    let alice = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    assert_eq!(exec(&alice).0, 101);
    let before = names(&fixture);
    let edited = manifest.set("/metadata/uid", json!("another-object"));
    fixture.gateway.apply(&edited).unwrap();
    assert_eq!(exec(&alice).0, 101);
    let after: BTreeSet<_> = names(&fixture).difference(&before).cloned().collect();
    assert_eq!(after.len(), 2, "the first pool and the one for upgrades, both new: {after:?}");
    let marks: BTreeSet<_> = after.iter().filter_map(|name| name.split_once('@')).map(|(_, mark)| mark).collect();
    assert_eq!(marks.len(), 1, "{after:?}");
    let gone = || names(&fixture).is_disjoint(&before).then_some(());
    wait::until("the pools of the generation before are gone", Duration::from_secs(60), gone).unwrap();
    assert_eq!(exec(&alice).0, 101);
}

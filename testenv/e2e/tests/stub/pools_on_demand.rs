//! `secondaryPools: OnDemand`: pools for upgrades and for requests without a credential exist when a request has needed them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use portcullis_e2e::{GatewayOptions, Manifest, MetricsPage};
use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::client::TlsTarget;
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault, StubServer};
use serde_json::json;

use crate::fixture::{NAME, PODS, ROBOT, StubFixture, connect};

const EXEC: &str = "/api/v1/namespaces/default/pods/p/exec";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const SOON: Duration = Duration::from_secs(20);
/// A page that needs no credential.
const VERSION: &str = "/version";
const OTHER: &str = "other.example.com";
/// The longest check of a server where pools are on demand.
const CHECK: Duration = Duration::from_secs(3);
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
    exec_at(target, NAME)
}

fn exec_at(target: &TlsTarget, host: &str) -> (u16, Duration) {
    let start = Instant::now();
    let mut connection = target.connect().unwrap();
    let head = format!("GET {EXEC} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n");
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
    assert_eq!(exec(&alice).0, 503, "it is unknown");
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
    let edited = manifest.clone().set("/metadata/uid", json!("another-object"));
    fixture.gateway.apply(&edited).unwrap();
    assert_eq!(exec(&alice).0, 101);
    let after: BTreeSet<_> = names(&fixture).difference(&before).cloned().collect();
    assert_eq!(after.len(), 2, "the first pool and the one for upgrades, both new: {after:?}");
    let marks: BTreeSet<_> = after.iter().filter_map(|name| name.split_once('@')).map(|(_, mark)| mark).collect();
    assert_eq!(marks.len(), 1, "{after:?}");
    let gone = || names(&fixture).is_disjoint(&before).then_some(());
    wait::until("the pools of the generation before are gone", Duration::from_secs(60), gone).unwrap();
    assert_eq!(exec(&alice).0, 101);

    // Envoy asks for a name once in its life.
    fixture.gateway.apply(&manifest).unwrap();
    assert_eq!(exec(&alice).0, 101);
    assert!(names(&fixture).is_superset(&before), "the generation before is back: {:?}", names(&fixture));
}

/// While Envoy waits for the first check of a new pool's servers it asks for no other pool.
#[test]
fn server_that_hangs_holds_up_other_pools_for_one_check() {
    let (fixture, _) = start("pools-on-demand-hanging");
    let hanging = fixture.pki.stub("hanging");
    let slow = json!({"healthCheck": {"timeout": "1m", "interval": "1m"}});
    let manifest = fixture.cluster(OTHER, [hanging.address()]).set("/spec/portcullis", slow);
    fixture.gateway.apply(&manifest).unwrap();
    let good = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let other = fixture.gateway.target(OTHER).identity(&fixture.pki.alice);
    assert_eq!(connect(&other).get(PODS, &[]).unwrap().status, 200);
    hanging.fault(Fault::new("/readyz", Action::Delay { millis: 60_000 }));

    std::thread::scope(|scope| {
        let held = scope.spawn(|| exec_at(&other, OTHER));
        let warms =
            || (fixture.gateway.envoy().admin().stat("cluster_manager.warming_clusters").ok()? > 0).then_some(());
        wait::until("Envoy waits for the server that hangs", SOON, warms).unwrap();
        let (status, took) = exec(&good);
        println!("beside a server that hangs, the first upgrade of another cluster took {took:?}");
        assert_eq!(status, 101);
        assert!(took < CHECK + COLD, "{took:?}");
        let (status, took) = held.join().unwrap();
        assert_eq!(status, 503, "no server is healthy");
        assert!(took < CHECK + COLD, "{took:?}");
    });
}

/// In front-proxy mode tokens of clients have a pool of their own.
#[test]
fn pool_on_demand_of_tokens_gets_the_first_request_once() {
    let (fixture, _) = start("pools-on-demand-tokens");
    let front = Ca::new("front proxies").unwrap();
    let mut options = fixture.pki.stub_options("stub-1");
    options.requestheader_ca = Some(front.pem().to_owned());
    let server = StubServer::start(options).unwrap();
    let manifest = Manifest::new(NAME, [server.address()])
        .upstream(
            &front.issue(&CertSpec::client("front-proxy", [""; 0])).unwrap(),
            &fixture.pki.server_ca,
            "kubernetes",
        )
        .serving(&fixture.gateway.serving_identity(NAME).unwrap(), &fixture.pki.client_ca)
        .set("/spec/portcullis", json!({"upstreamIdentity": "RequestHeader", "requestHeader": {"tokenReview": true}}));
    fixture.gateway.apply(&manifest).unwrap();
    let has_own = || (!pools(&fixture).is_disjoint(&expected(&["passthrough"]))).then_some(());
    assert_eq!(has_own(), None, "no request needed it");

    let stranger = connect(&fixture.gateway.target(NAME));
    let bearer = format!("Bearer {ROBOT}");
    let filler = "x".repeat(200_000);
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"filler": filler}});
    let body = body.to_string();
    let headers = [("authorization", bearer.as_bytes()), ("content-type", b"application/json")];
    let start = Instant::now();
    let stream = stranger.open("POST", CONFIGMAPS, &headers, body.as_bytes()).unwrap();
    assert_eq!(stream.response.status, 201);
    println!("first request with a token {:?}", start.elapsed());
    assert!(start.elapsed() < COLD, "{:?}", start.elapsed());
    assert_eq!(has_own(), Some(()));
    let records = server.records_for(CONFIGMAPS);
    assert_eq!(records.len(), 1, "the server saw it once");
    let decided = || MetricsPage::of(&fixture.gateway).sum("requests_total", &[("resource", "configmaps")]);
    let counted = wait::until("it is counted", SOON, || Some(decided()).filter(|count| *count > 0)).unwrap();
    assert_eq!(counted, 1, "and the filter, which runs before the pool is there");
    assert!(records[0].body == body.as_bytes() || records[0].body.len() == body.len());
    drop(stream);
}

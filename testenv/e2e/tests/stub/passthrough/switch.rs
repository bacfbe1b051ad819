//! One edit passes connections on, and one takes them back: only those of that cluster end, and no request of one way meets the
//! servers' side of the other.

use std::time::Duration;

use portcullis_e2e::{GatewayOptions, Manifest};
use portcullis_harness::client::{ClientPool, LoadProfile, Protocol, TlsTarget, Watches};
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Record, StubServer};
use serde_json::json;

use super::stub;
use crate::fixture::{NAME, PODS, StubFixture, connect};

const SOON: Duration = Duration::from_secs(30);
const NEIGHBOUR: &str = "other.example.org";
const WATCHED: &str = "/api/v1/namespaces/default/secrets";
/// Watches on each cluster.
const EACH: usize = 4;

struct Switch {
    fixture: StubFixture,
    server: StubServer,
    crowd: ClientPool,
}

impl Switch {
    fn start(test: &str) -> Self {
        // Drained connections end within the test, not after Envoy's ten minutes.
        let envoy_flags = ["--drain-time-s", "2"].map(str::to_owned).to_vec();
        let fixture = StubFixture::without_cluster(test, &GatewayOptions { envoy_flags, ..GatewayOptions::default() });
        let server = stub(&fixture, "stub-1");
        let switch = Switch { fixture, server, crowd: ClientPool::new(2).unwrap() };
        switch.fixture.gateway.apply(&switch.manifest("TLSTerminate")).unwrap();
        let neighbour = switch.fixture.cluster(NEIGHBOUR, [switch.fixture.stub.address()]);
        switch.fixture.gateway.apply(&neighbour).unwrap();
        switch
    }

    /// The whole object, of which one word changes.
    fn manifest(&self, transport: &str) -> Manifest {
        self.fixture.cluster(NAME, [self.server.address()]).set("/spec/portcullis", json!({"transport": transport}))
    }

    fn target(&self, name: &str) -> TlsTarget {
        let timeout = Duration::from_secs(60);
        TlsTarget::new(self.fixture.gateway.address()).sni(name).timeout(timeout).identity(&self.fixture.pki.alice)
    }

    fn watches(&self, name: &str) -> Watches {
        let of = |protocol| (LoadProfile::new(format!("{name}, {protocol:?}"), &self.target(name), protocol), EACH / 2);
        let lanes = [of(Protocol::Http2), of(Protocol::Http1)];
        self.crowd.watches(&lanes, &format!("{WATCHED}?watch=true&resourceVersion=0")).unwrap()
    }

    fn lanes(&self, name: &str) -> Vec<LoadProfile> {
        let of = |protocol| LoadProfile::new(format!("{name}, {protocol:?}"), &self.target(name), protocol);
        vec![of(Protocol::Http2), of(Protocol::Http1)]
    }

    /// Whether a new connection ends at the server: then the certificate is its own.
    fn is_passed_on(&self) -> bool {
        self.target(NAME).trust(&self.fixture.pki.server_ca).connect().is_ok()
    }

    fn is_drained(&self) -> Option<()> {
        let draining = self.fixture.gateway.envoy().admin().stat("listener_manager.total_filter_chains_draining");
        (draining.ok()? == 0).then_some(())
    }
}

/// Asserts that a request came by one way, which the peer of its connection names, and not by parts of both.
fn check_way(record: &Record) {
    let written = record.header_all("impersonate-user");
    let (peer, user) =
        (record.peer_common_name.as_deref(), record.effective.as_ref().map(|user| user.username.as_str()));
    match peer {
        Some("portcullis") => assert_eq!((written.as_slice(), user), (&["alice".to_owned()][..], Some("alice"))),
        Some("alice") => assert_eq!((written.len(), user), (0, Some("alice")), "{}", record.target),
        other => panic!("{other:?} asked for {}", record.target),
    }
}

#[test]
fn switch_ends_connections_of_its_own_cluster_alone() {
    let switch = Switch::start("passed-on-switch");
    let neighbours = switch.watches(NEIGHBOUR);
    let load = switch.crowd.steady(&switch.lanes(NEIGHBOUR), &[PODS], 40.0).unwrap();
    let own_load = switch.crowd.steady(&switch.lanes(NAME), &[PODS], 40.0).unwrap();
    for transport in ["TLSPassthrough", "TLSTerminate", "TLSPassthrough", "TLSTerminate"] {
        let own = switch.watches(NAME);
        switch.fixture.gateway.apply(&switch.manifest(transport)).unwrap();
        switch.fixture.gateway.wait_for_every_worker().unwrap();
        assert_eq!(switch.is_passed_on(), transport == "TLSPassthrough", "{transport}: at once");
        let ended = || (own.ended().len() == EACH).then_some(());
        wait::until(&format!("{transport}: watches of the cluster end"), SOON, ended).unwrap();
        wait::until(&format!("{transport}: all is drained"), SOON, || switch.is_drained()).unwrap();
        assert_eq!(connect(&switch.target(NAME)).get(PODS, &[]).unwrap().status, 200);
        assert_eq!(neighbours.ended().len(), 0, "{transport}: {:?}", neighbours.ended());
    }
    let outcome = load.stop().unwrap();
    assert!(outcome.good() > 0 && outcome.failed == 0, "{outcome:?}");
    let own = own_load.stop().unwrap();
    eprintln!("of the switched cluster {} were answered, and {} not: {:?}", own.good(), own.failed, own.failures);
    assert!(own.good() > 0);
    let records = switch.server.records_for(PODS);
    let by = |peer: &str| records.iter().filter(|record| record.peer_common_name.as_deref() == Some(peer)).count();
    assert!(by("portcullis") > 0 && by("alice") > 0, "both ways were taken");
    records.iter().for_each(check_way);
}

/// Requests on connections from before are answered until those close: none fails.
#[test]
fn switch_to_passing_on_fails_no_request() {
    let switch = Switch::start("passed-on-zero");
    let load = switch.crowd.steady(&switch.lanes(NAME), &[PODS], 60.0).unwrap();
    wait::until("it runs", SOON, || (switch.server.records_for(PODS).len() > 30).then_some(())).unwrap();
    switch.fixture.gateway.apply(&switch.manifest("TLSPassthrough")).unwrap();
    let passed = || {
        let records = switch.server.records_for(PODS);
        let alone = records.iter().rev().take(60).all(|record| record.peer_common_name.as_deref() == Some("alice"));
        (alone && records.len() > 60).then_some(())
    };
    wait::until("all requests are passed on", SOON, passed).unwrap();
    let outcome = load.stop().unwrap();
    assert_eq!(outcome.failed, 0, "{outcome:?}");
}

//! A collector that is away costs no request anything, and no memory without a bound.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::H2Client;
use portcullis_harness::ports;
use portcullis_harness::wait;
use serde_json::{Value, json};

use super::{all_to, traced};
use crate::fixture::{NAME, PODS, StubFixture, connect};

/// How many requests are traced while the collector is away.
const REQUESTS: usize = 3_000;

fn to(address: std::net::SocketAddr, protocol: &str) -> Value {
    let mut tracing = all_to(address);
    tracing["protocol"] = json!(protocol);
    tracing
}

#[test]
fn collector_that_is_away_slows_and_fails_no_request() {
    // One that nobody listens at, and one that takes connections and never answers.
    let closed = ports::free_address().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for (name, address) in [("closed", closed), ("silent", silent.local_addr().unwrap())] {
        for protocol in ["GRPC", "HTTP"] {
            let fixture = traced(&format!("away-{name}-{protocol}"), &GatewayOptions::default(), &to(address, protocol));
            unaffected(&fixture, name);
        }
    }
}

fn unaffected(fixture: &StubFixture, name: &str) {
    let alice = connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice));
    let slowest = run(&alice);
    assert!(slowest < Duration::from_secs(5), "{name}: the slowest took {slowest:?}");
    let admin = fixture.gateway.envoy().admin();
    let stat = |stat: &str| admin.stat(&format!("cluster.e2e/-/-/collector.{stat}")).unwrap();
    wait::until_ok("batches of spans are dropped", Duration::from_secs(30), || {
        let dropped = stat("upstream_rq_pending_overflow") + stat("upstream_cx_connect_fail") + stat("upstream_rq_timeout");
        if dropped > 0 { Ok(()) } else { Err(format!("{} under way", stat("upstream_rq_active"))) }
    })
    .unwrap();
    let (active, waiting) = (stat("upstream_rq_active"), stat("upstream_rq_pending_active"));
    let bound = 64 * u64::try_from(fixture.gateway.envoy().admin().stats("^server.concurrency$").unwrap().len().max(4)).unwrap();
    assert!(active + waiting <= bound, "{name}: {active} and {waiting} batches");
}

fn run(alice: &H2Client) -> Duration {
    let mut slowest = Duration::ZERO;
    for _ in 0..REQUESTS {
        let start = Instant::now();
        assert_eq!(alice.get(PODS, &[]).unwrap().status, 200);
        slowest = slowest.max(start.elapsed());
    }
    slowest
}

#[test]
fn collector_whose_name_does_not_resolve_delays_no_listener() {
    let tracing = json!({"endpoint": "collector.invalid:4317", "insecure": true, "samplingRatePerMillion": 1_000_000});
    let fixture = traced("away-unresolved", &GatewayOptions::default(), &tracing);
    let alice = connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice));
    assert_eq!(alice.get(PODS, &[]).unwrap().status, 200);
    let parent = fixture.stub.records_for(PODS).pop().unwrap().header("traceparent");
    assert!(parent.is_some_and(|parent| parent.ends_with("-01")), "it is traced all the same");
}

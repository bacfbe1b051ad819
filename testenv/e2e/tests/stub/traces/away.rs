//! A collector that is away costs no request anything, and no memory without a bound.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::H2Client;
use portcullis_harness::ports;
use portcullis_harness::wait;
use rustix::net::{AddressFamily, SocketType};
use serde_json::json;

use super::{all_to, traced};
use crate::fixture::{NAME, PODS, StubFixture, connect};

/// How many requests are traced while the collector is away.
const REQUESTS: usize = 2_000;
/// The most batches of spans that may be under way, and the most that may wait for a connection.
const BATCHES: u64 = 16;

#[test]
fn collector_that_is_not_there_slows_and_fails_no_request() {
    let closed = ports::free_address().unwrap();
    for protocol in ["GRPC", "HTTP"] {
        is_unaffected("closed", protocol, closed, &["upstream_cx_connect_fail"]);
    }
}

#[test]
fn collector_that_never_answers_slows_and_fails_no_request() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for protocol in ["GRPC", "HTTP"] {
        // Envoy 1.40 has a name of its own for what is beyond the bound of requests.
        let overflows = ["upstream_rq_pending_overflow", "upstream_rq_active_overflow"];
        is_unaffected("silent", protocol, silent.local_addr().unwrap(), &overflows);
    }
}

#[test]
fn collector_behind_a_black_hole_slows_and_fails_no_request() {
    let hole = BlackHole::new();
    is_unaffected("hole", "GRPC", hole.address, &["upstream_rq_pending_overflow"]);
}

/// A port whose queue of connections is full: the packets of new ones are dropped.
struct BlackHole {
    address: SocketAddr,
    _listener: TcpListener,
    _queue: Vec<TcpStream>,
}

impl BlackHole {
    fn new() -> Self {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        rustix::net::listen(&socket, 0).unwrap();
        let listener = TcpListener::from(socket);
        let address = listener.local_addr().unwrap();
        let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(300));
        let queue = std::iter::from_fn(|| connect().ok()).take(8).collect();
        BlackHole { address, _listener: listener, _queue: queue }
    }
}

fn is_unaffected(name: &str, protocol: &str, collector: SocketAddr, dropped: &[&str]) {
    let mut tracing = all_to(collector);
    tracing["protocol"] = json!(protocol);
    let fixture = traced(&format!("away-{name}-{protocol}"), &GatewayOptions::default(), &tracing);
    let alice = connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice));
    let slowest = run(&alice);
    // A request that waited for the collector would have waited for a connection to it, five seconds.
    assert!(slowest < Duration::from_secs(4), "{name} {protocol}: the slowest took {slowest:?}");
    let stat = |stat: &str| stat_of(&fixture, stat);
    wait::until_ok("batches of spans are dropped", Duration::from_secs(30), || {
        let all: u64 = dropped.iter().map(|one| stat(one)).sum();
        if all > 0 { Ok(()) } else { Err(format!("{} under way", stat("upstream_rq_active"))) }
    })
    .unwrap();
    let (active, waiting) = (stat("upstream_rq_active"), stat("upstream_rq_pending_active"));
    // Envoy counts one that waits as active, too.
    assert!(active <= 2 * BATCHES && waiting <= BATCHES, "{name} {protocol}: {active} and {waiting} batches");
}

fn stat_of(fixture: &StubFixture, stat: &str) -> u64 {
    let found = fixture.gateway.envoy().admin().stats(&format!(r"^cluster\.e2e/-/-/collector\.{stat}$")).unwrap();
    found.first().map_or(0, |(_, count)| *count)
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

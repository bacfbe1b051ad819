//! Requests in flight reach exactly their limit and go back to zero, however they end. The stub counts them itself.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use portcullis_e2e::{GatewayOptions, allow_all};
use portcullis_harness::client::{ClientPool, H2Client, TlsConnection, TlsTarget};
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::json;

use crate::fixture::{NAME, PODS, StubFixture};

const SOON: Duration = Duration::from_secs(20);
const MAX: usize = 8;
const EXEC: &str = "/api/v1/namespaces/default/pods/p/exec";
const HELD: &str = "/api/v1/namespaces/held";
const RESET: &str = "/api/v1/namespaces/reset/pods";
const CLOSED: &str = "/api/v1/namespaces/closed/pods";

/// How a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// With its answer.
    Answer,
    /// Its client resets the stream of a watch.
    WatchReset,
    /// Its client closes the connection of a watch.
    WatchHangUp,
    /// Its client closes an upgraded connection.
    Tunnel,
    /// Its client gives up before the answer and closes the connection.
    HangUp,
    /// Its client gives up before the answer and resets the stream.
    Reset,
    /// The upstream resets the stream.
    UpstreamReset,
    /// The upstream closes the connection.
    UpstreamClose,
}

const ENDS: [End; 8] = [
    End::Answer,
    End::WatchReset,
    End::WatchHangUp,
    End::Tunnel,
    End::HangUp,
    End::Reset,
    End::UpstreamReset,
    End::UpstreamClose,
];

/// Faults in their order: a request is held first, then meets what strikes it after that.
fn hold(fixture: &StubFixture) {
    for path in [HELD, RESET, CLOSED] {
        fixture.stub.fault(Fault::new(path, Action::Hold));
    }
    fixture.stub.fault(Fault::new(RESET, Action::ResetStream { code: 2 }));
    fixture.stub.fault(Fault::new(CLOSED, Action::CloseConnection));
}

fn start(test: &str) -> StubFixture {
    let fixture = StubFixture::start(test, &GatewayOptions::default());
    let schemas = json!({"flowControlSchemas": [{"name": "few", "maxRequestsInflight": {"max": MAX}}]});
    let policies = json!([{"rules": [allow_all()], "flowControlSchemaName": "few"}]);
    fixture.gateway.apply(&fixture.manifest().set("/spec/flowControl", schemas).policies(policies)).unwrap();
    fixture
}

/// The handle of a request; dropping it disconnects its client.
enum OpenRequest<'a> {
    Gone,
    Stream { _stream: portcullis_harness::client::H2Stream<'a> },
    Connection { _connection: Box<TlsConnection> },
}

/// Sends one request. `None` if it was refused; returns at the end of requests that wait for an answer.
fn run_request<'a>(end: End, target: &TlsTarget, client: &'a H2Client) -> Option<OpenRequest<'a>> {
    let head = |method: &str, path: &str, more: &str| format!("{method} {path} HTTP/1.1\r\nHost: {NAME}\r\n{more}\r\n");
    let h1 = |request: String| {
        let mut connection = target.connect().unwrap();
        connection.write(request.as_bytes()).unwrap();
        let status = connection.read_head().map(|response| response.status);
        (connection, status)
    };
    let watch = format!("{PODS}?watch=true");
    let status = match end {
        End::Answer => client.request("GET", &format!("{HELD}/pods"), &[], b"").unwrap().status,
        End::Reset => client.request("GET", &format!("{HELD}/pods"), &[], b"").map_or(0, |response| response.status),
        End::UpstreamReset => client.request("POST", RESET, &[], b"{}").unwrap().status,
        End::UpstreamClose => client.request("POST", CLOSED, &[], b"{}").unwrap().status,
        End::HangUp => h1(head("GET", &format!("{HELD}/pods"), "")).1.unwrap_or(0),
        End::WatchReset => {
            let stream = client.open("GET", &watch, &[], b"").unwrap();
            return (stream.response.status == 200).then_some(OpenRequest::Stream { _stream: stream });
        }
        End::WatchHangUp => {
            let (connection, status) = h1(head("GET", &watch, ""));
            return (status.unwrap() == 200).then(|| OpenRequest::Connection { _connection: Box::new(connection) });
        }
        End::Tunnel => {
            let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                           Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
            let (mut connection, status) = h1(head("GET", &format!("{EXEC}?command=x"), upgrade));
            return (status.unwrap() == 101).then(|| {
                connection.write(b"ping").unwrap();
                assert_eq!(connection.read_exact(4).unwrap(), b"ping");
                OpenRequest::Connection { _connection: Box::new(connection) }
            });
        }
    };
    match (end, status) {
        (_, 429) => None,
        (End::Answer, 200) | (End::HangUp | End::Reset, 0) => Some(OpenRequest::Gone),
        (End::UpstreamReset | End::UpstreamClose, 502 | 503) => Some(OpenRequest::Gone),
        other => panic!("{other:?}"),
    }
}

/// How long a client waits that gives up.
const GIVES_UP: Duration = Duration::from_millis(2500);

fn round(fixture: &StubFixture, end: End) {
    wait::retry_if_slow("all ask before the first gives up", || attempt(fixture, end)).unwrap();
}

/// Three times as many as may ask at once. Exactly as many as may get in; then all end. Nothing if the first had given up
/// before the last had asked.
fn attempt(fixture: &StubFixture, end: End) -> Option<()> {
    let gives_up = matches!(end, End::HangUp | End::Reset);
    let patience = if gives_up { GIVES_UP } else { SOON };
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice).timeout(patience);
    let crowd = ClientPool::new(2).unwrap();
    let clients: Vec<_> = (0..3 * MAX).map(|_| crowd.connect(&target).unwrap()).collect();
    hold(fixture);
    fixture.stub.take_peak();
    let (ready, refused, began) = (Barrier::new(clients.len()), AtomicUsize::new(0), Instant::now());
    let mut is_judged = true;
    let guests: Vec<OpenRequest<'_>> = std::thread::scope(|scope| {
        let attending: Vec<_> = clients
            .iter()
            .map(|client| {
                let (ready, refused, target) = (&ready, &refused, &target);
                scope.spawn(move || {
                    ready.wait();
                    let guest = run_request(end, target, client);
                    refused.fetch_add(usize::from(guest.is_none()), Ordering::AcqRel);
                    guest
                })
            })
            .collect();
        let settled = || {
            let is_over = gives_up && began.elapsed() >= GIVES_UP.saturating_mul(wait::deadline_factor());
            let are_refused = !is_over && refused.load(Ordering::Acquire) >= 2 * MAX;
            (are_refused || is_over).then_some(are_refused)
        };
        is_judged = wait::until(&format!("{end:?}: the others are refused"), SOON, settled).unwrap();
        // That no more than these run shows in the peak.
        let full = || (gives_up || fixture.stub.running() == MAX).then_some(());
        wait::until(&format!("{end:?}: all places are taken"), SOON, full).unwrap();
        if !matches!(end, End::WatchReset | End::WatchHangUp | End::Tunnel | End::HangUp | End::Reset) {
            fixture.stub.clear_faults();
        }
        attending.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    let came = guests.len();
    drop(guests);
    all_have_left(fixture, end);
    let peak = fixture.stub.take_peak();
    fixture.stub.clear_faults();
    is_judged.then(|| assert_eq!((came, peak), (MAX, MAX), "{end:?}"))
}

fn all_have_left(fixture: &StubFixture, end: End) {
    let active = || {
        let active = fixture.gateway.envoy().admin().stats("^http\\..*downstream_rq_active$").unwrap();
        active.iter().filter(|(name, _)| !name.starts_with("http.admin.")).map(|(_, count)| count).sum::<u64>()
    };
    let gone = || (fixture.stub.running() == 0 && active() == 0).then_some(());
    wait::until(&format!("{end:?}: all have left"), SOON, gone).unwrap();
}

#[test]
fn requests_in_flight_are_limited_exactly_for_every_end() {
    let fixture = start("in-flight");
    for end in ENDS {
        round(&fixture, end);
    }
    // The last one's places are all there as well.
    round(&fixture, End::WatchReset);
}

#[test]
fn under_a_storm_of_ends_the_limit_is_reached_and_never_passed() {
    let fixture = start("in-flight-storm");
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice).timeout(SOON);
    let crowd = ClientPool::new(2).unwrap();
    fixture.stub.fault(Fault::new(RESET, Action::Delay { millis: 5 }));
    fixture.stub.fault(Fault::new(RESET, Action::ResetStream { code: 2 }));
    fixture.stub.fault(Fault::new(PODS, Action::Delay { millis: 10 }));
    let (passed, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for lane in 0..4 * MAX {
            let (fixture, crowd, target, passed, refused) = (&fixture, &crowd, &target, &passed, &refused);
            scope.spawn(move || {
                let client = crowd.connect(target).unwrap();
                // On a machine that is busy elsewhere it may take more than a few turns until all places are taken.
                let is_enough = |turn: usize| turn >= 25 && fixture.stub.peak() >= MAX;
                for turn in (0..1_000).take_while(|turn| !is_enough(*turn)) {
                    let status = match (lane + turn) % 3 {
                        0 => client.request("POST", RESET, &[], b"{}").unwrap().status,
                        _ => client.get(PODS, &[]).unwrap().status,
                    };
                    assert!(matches!(status, 200 | 429 | 502 | 503), "{status}");
                    let count = if status == 429 { refused } else { passed };
                    count.fetch_add(1, Ordering::AcqRel);
                }
            });
        }
    });
    eprintln!("{passed:?} requests ran, {refused:?} were refused");
    assert!(refused.load(Ordering::Acquire) > 0, "more was asked for than may run");
    assert_eq!(fixture.stub.take_peak(), MAX);
    fixture.stub.clear_faults();
    all_have_left(&fixture, End::UpstreamReset);
    round(&fixture, End::Answer);
}

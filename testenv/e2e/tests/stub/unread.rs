//! Answers that clients do not read hold neither a permit nor a seat, and keep their stream for a bounded time.

use std::time::Duration;

use portcullis_e2e::{GatewayOptions, allow_all};
use portcullis_harness::client::{H2Frames, TlsTarget};
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::json;

use crate::fixture::{NAME, PODS, StubFixture};

/// Shorter than [`LATE`], and than the time after which a stream whose client does not read is reset.
const SOON: Duration = Duration::from_secs(10);
/// Longer than a stream may wait for its client.
const LATE: Duration = Duration::from_secs(120);
/// A watch that its server refuses, so that it has an end.
const REFUSED: &str = "/api/v1/namespaces/refused/pods?watch=1";
const LARGE: &str = "/api/v1/namespaces/large/pods";

/// A gateway with one permit, or one seat.
fn start(test: &str, limit: &str) -> StubFixture {
    let fixture = StubFixture::start(test, &GatewayOptions::default());
    let schemas = json!({"flowControlSchemas": [{"name": "permit", "maxRequestsInflight": {"max": 1}}]});
    let queue = json!({"name": "seat", "max": 1, "queues": 1, "timeout": "1s"});
    let policies = json!([{"rules": [allow_all()], "flowControlSchemaName": limit}]);
    let manifest = fixture.manifest().set("/spec/flowControl", schemas);
    let manifest = manifest.set("/spec/portcullis", json!({"fairQueues": [queue]})).policies(policies);
    fixture.gateway.apply(&manifest).unwrap();
    fixture
        .stub
        .fault(Fault::new(REFUSED, Action::Respond { status: 403, headers: Vec::new(), body: "no\n".repeat(100) }));
    fixture
}

fn target(fixture: &StubFixture) -> TlsTarget {
    fixture.gateway.target(NAME).identity(&fixture.pki.alice).timeout(LATE.saturating_mul(wait::deadline_factor()))
}

/// A request whose answer has begun, to a client that takes nothing of its body.
fn unread(fixture: &StubFixture, path: &str) -> (H2Frames, u32) {
    let mut frames = H2Frames::connect(&target(fixture), 0).unwrap();
    let stream = frames.open("GET", path, &[], true);
    frames.until_answered(stream).unwrap();
    (frames, stream)
}

#[test]
fn unread_answers_hold_no_permit_and_no_seat() {
    for limit in ["permit", "seat"] {
        let fixture = start(&format!("unread-{limit}"), limit);
        let get = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n");
        for path in [PODS, REFUSED] {
            let open = unread(&fixture, path);
            let goes_on = || {
                let status = target(&fixture).raw_request(get.as_bytes()).unwrap().status;
                (status == 200).then_some(()).ok_or(status).ok()
            };
            wait::until(&format!("a {limit} beside {path}"), SOON, goes_on).unwrap();
            drop(open);
        }
    }
}

/// Envoy passes such an answer on without its body; if it did not, the filter would end it after a minute.
#[test]
fn unread_list_in_the_place_of_an_upgrade_holds_no_permit() {
    let fixture = start("unread-upgrade", "permit");
    // More than all buffers on the way hold.
    fixture.stub.fault(Fault::new(LARGE, Action::Large { mebibytes: 64 }));
    let mut unread = target(&fixture).alpn(&["http/1.1"]).connect().unwrap();
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    unread.write(format!("GET {LARGE} HTTP/1.1\r\nHost: {NAME}\r\n{upgrade}\r\n").as_bytes()).unwrap();
    assert_eq!(unread.read_head().unwrap().status, 200);
    let get = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n");
    let is_free = || (target(&fixture).raw_request(get.as_bytes()).unwrap().status == 200).then_some(());
    wait::until("the permit is free", LATE, is_free).unwrap();
}

#[test]
fn unread_answer_of_a_refused_watch_is_reset_in_time() {
    let fixture = start("unread-reset", "permit");
    let (mut frames, stream) = unread(&fixture, REFUSED);
    let ended = frames.until_data(stream).unwrap_err().to_string();
    assert!(ended.contains("reset"), "{ended}");
}

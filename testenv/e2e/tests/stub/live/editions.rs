//! Requests that never end keep earlier loads of their object's configuration, up to a bound.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use portcullis_e2e::{GatewayOptions, Manifest, allow_all};
use portcullis_harness::client::{TlsConnection, TlsTarget};
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::json;

use crate::fixture::{NAME, PODS, StubFixture};

const HELD: &str = "/api/v1/namespaces/held/pods";
const SOON: Duration = Duration::from_secs(60);
/// Ten of these are more than may be kept.
const ENTRIES: usize = 60_000;
const EDITIONS: usize = 12;
/// Bytes of a body, one for each edition and a rest.
const BODY: usize = EDITIONS + 2;

/// An edition with many entries, which differs from the others.
fn edition(fixture: &StubFixture, number: usize) -> Manifest {
    let names: Vec<String> = (0..ENTRIES).map(|entry| format!("n{}", entry * EDITIONS + number)).collect();
    let many = json!({"verbs": ["get"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": names});
    let policies = json!([{"rules": [many]}, {"rules": [allow_all()]}]);
    fixture.manifest().policies(policies).set("/spec/portcullis", json!({"requestTimeout": "1h"}))
}

/// Requests without a response that outlast all edits, however slow the machine is: a watch whose server withholds it, and an upload
/// whose client sends a byte now and then.
struct Unanswered {
    watch: TlsConnection,
    post: TlsConnection,
    sent: usize,
}

impl Unanswered {
    fn begin(target: &TlsTarget) -> Self {
        let (mut watch, mut post) = (target.connect().unwrap(), target.connect().unwrap());
        watch.write(format!("GET {HELD}?watch=true HTTP/1.1\r\nHost: {NAME}\r\n\r\n").as_bytes()).unwrap();
        let head =
            format!("POST {PODS} HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: {BODY}\r\nConnection: close\r\n\r\n");
        post.write(head.as_bytes()).unwrap();
        Unanswered { watch, post, sent: 0 }
    }

    /// Keeps the upload from being idle. One that has ended is seen to at its end.
    fn keep(&mut self) {
        let _ended = self.post.write(b" ");
        self.sent += 1;
    }

    /// Waits for the end of both. Returns all that they have read until then.
    fn end(mut self) -> [Vec<u8>; 2] {
        [&mut self.watch, &mut self.post].map(|connection| connection.read_to_end().unwrap_or_default())
    }

    fn go_on(mut self) {
        assert_eq!(self.watch.read_head().unwrap().status, 200);
        self.post.write(&b" ".repeat(BODY - self.sent)).unwrap();
        assert!(self.post.read_head().unwrap().status >= 200);
    }
}

#[test]
fn earlier_loads_end_however_their_requests_are_kept() {
    let fixture = StubFixture::start("editions", &GatewayOptions::default());
    fixture.stub.fault(Fault::new(HELD, Action::Hold));
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice).alpn(&["http/1.1"]).timeout(SOON);
    let mut kept: Vec<Unanswered> = Vec::new();
    for number in 0..EDITIONS {
        fixture.gateway.apply(&edition(&fixture, number)).unwrap();
        kept.iter_mut().for_each(Unanswered::keep);
        kept.push(Unanswered::begin(&target));
        let all_there = || (fixture.stub.records_for(HELD).len() > number).then_some(());
        wait::until("the request at its server", SOON, all_there).unwrap();
    }
    let newest = kept.pop().unwrap();
    let (sender, ended) = mpsc::channel();
    for earlier in kept {
        let sender = sender.clone();
        // Those end first that were in use for the shortest time, which is the machine's to say.
        thread::spawn(move || sender.send(earlier.end()));
    }
    // Each worker looks at the next request that begins on it.
    let begin = || {
        let get = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n");
        assert_eq!(target.raw_request(get.as_bytes()).unwrap().status, 200);
        ended.try_recv().ok()
    };
    let read = wait::until("the end of requests under an earlier load", SOON, begin).unwrap();
    assert!(read.iter().all(Vec::is_empty), "no response");
    let reasons = || {
        let metrics = fixture.gateway.envoy().admin().stats("configuration_replaced").ok()?;
        (!metrics.is_empty()).then_some(())
    };
    wait::until("the reason in metrics", SOON, reasons).unwrap();
    fixture.stub.clear_faults();
    newest.go_on();
}

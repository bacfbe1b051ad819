//! A fault at any hook of the filter: the request that it strikes is refused or ended, no server sees it under another identity,
//! nothing that it held stays held, and Envoy goes on. With the module that panics on demand; portcullis.wasm: `wasm.rs`.

use std::time::Duration;

use portcullis_e2e::{GatewayOptions, Manifest, MetricsPage, PlainFiles, PlainSetup, allow_all};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{Error, Result, project_root, wait};
use portcullis_stub_apiserver::{StubServer, TokenEntry};
use serde_json::json;

use crate::fixture::{NAME, PODS, Pki, StubFixture};

const SOON: Duration = Duration::from_secs(20);
/// Longer than a fault takes to be answered; a request whose body is kept back is given up by its client.
const PATIENCE: Duration = Duration::from_secs(3);
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const EXEC: &str = "/api/v1/namespaces/default/pods/p/exec?command=x";
const TOKENS: usize = 250;

/// How a client says who it is, and what it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Certificate,
    /// A token that was never seen before, so that it is reviewed.
    Token,
    /// An administrator who acts as a user that was never seen before.
    Impersonation,
    /// By a certificate, with a body and trailers.
    Upload,
    /// By a certificate.
    Exec,
}

use Way::{Certificate, Exec, Impersonation, Token, Upload};

const ALL: &[Way] = &[Certificate, Token, Impersonation, Upload, Exec];
const REVIEWED: &[Way] = &[Token, Impersonation];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// No server sees it.
    Refused,
    /// A server may have seen its head, as the client's own. The client gets no success.
    Ended,
    /// It is over when the fault strikes.
    Served,
}

use Fate::{Ended, Refused, Served};

const HOOKS: [(&str, &[Way], Fate); 17] = [
    ("request-headers", ALL, Refused),
    ("decide", ALL, Refused),
    ("remove", ALL, Refused),
    ("removed", ALL, Refused),
    ("applied", ALL, Refused),
    ("decided", ALL, Refused),
    ("asked", REVIEWED, Refused),
    ("send", REVIEWED, Refused),
    ("callout", REVIEWED, Refused),
    ("resumed", REVIEWED, Refused),
    ("request-body", &[Upload], Ended),
    ("request-trailers", &[Upload], Ended),
    ("response-headers", ALL, Ended),
    ("response-ended", &[Certificate, Token, Impersonation], Ended),
    ("stream-complete", ALL, Served),
    ("destroy", ALL, Served),
    ("metrics", &[Certificate], Served),
];

struct Site {
    mode: &'static str,
    fixture: StubFixture,
    server: StubServer,
    asked: usize,
}

fn faulty(instance: Option<&str>) -> GatewayOptions {
    let module_dir = Some(project_root().join("target/fault/debug"));
    GatewayOptions { module_dir, instance: instance.map(str::to_owned), ..GatewayOptions::default() }
}

impl Site {
    /// With one request at a time, so that a place that is not given back is missed at once.
    fn start(mode: &'static str) -> Self {
        let fixture = StubFixture::without_cluster(&format!("faults-{mode}"), &faulty(None));
        let front = Ca::new("front proxies").unwrap();
        let mut options = fixture.pki.stub_options("stub-1");
        for number in 0..TOKENS {
            let user = format!("robot-{number}");
            options = options.token(&format!("the-token-of-{user}"), TokenEntry { user, ..TokenEntry::default() });
        }
        options.requestheader_ca = Some(front.pem().to_owned());
        let server = StubServer::start(options).unwrap();
        let (gateway, portcullis) = match mode {
            "RequestHeader" => {
                let front_proxy = front.issue(&CertSpec::client("front-proxy", [""; 0])).unwrap();
                (front_proxy, json!({"upstreamIdentity": mode, "requestHeader": {"tokenReview": true}}))
            }
            _ => (fixture.pki.gateway.clone(), json!({"upstreamIdentity": mode})),
        };
        let schemas = json!({"flowControlSchemas": [{"name": "one", "maxRequestsInflight": {"max": 1}}]});
        let manifest = Manifest::new(NAME, [server.address()])
            .upstream(&gateway, &fixture.pki.server_ca, "kubernetes")
            .serving(&fixture.gateway.serving_identity(NAME).unwrap(), &fixture.pki.client_ca)
            .set("/spec/portcullis", portcullis)
            .set("/spec/flowControl", schemas)
            .policies(json!([{"rules": [allow_all()], "flowControlSchemaName": "one"}]));
        fixture.gateway.apply(&manifest).unwrap();
        Site { mode, fixture, server, asked: 0 }
    }

    fn target(&self, identity: &Identity) -> TlsTarget {
        self.fixture.gateway.target(NAME).identity(identity).timeout(PATIENCE)
    }

    /// Sends a request that a fault strikes: its status, and whose it is.
    fn ask(&mut self, way: Way, place: &str) -> (Result<u16>, String) {
        self.asked += 1;
        let (number, pki) = (self.asked, &self.fixture.pki);
        let alice = self.target(&pki.alice);
        let fault = ("x-fault-injection", place);
        let get = |target: &TlsTarget, header: (&str, &str)| {
            let client = H2Client::connect(target).unwrap();
            client.get(PODS, &[fault, header]).map(|response| response.status)
        };
        let accept = ("accept", "application/json");
        match way {
            Certificate => (get(&alice, accept), "alice".to_owned()),
            Token => {
                let user = format!("robot-{number}");
                let bearer = format!("Bearer the-token-of-{user}");
                let nobody = self.fixture.gateway.target(NAME).timeout(PATIENCE);
                (get(&nobody, ("authorization", &bearer)), user)
            }
            Impersonation => {
                let user = format!("user-{number}");
                (get(&self.target(&pki.admin), ("impersonate-user", &user)), user)
            }
            Upload => {
                let body = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"c-{number}"}}}}"#);
                let head = [fault].map(|(name, value)| (name, value.as_bytes()));
                let client = H2Client::connect(&alice).unwrap();
                let trailers: [(&str, &[u8]); 2] = [("impersonate-user", b"eve"), ("checksum", b"1")];
                let answer = client.open_with_trailers("POST", CONFIGMAPS, &head, body.as_bytes(), &trailers);
                (answer.map(|stream| stream.response.status), "alice".to_owned())
            }
            Exec => {
                let head = format!(
                    "POST {EXEC} HTTP/1.1\r\nHost: {NAME}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
                     X-Fault-Injection: {place}\r\n\r\n"
                );
                let mut connection = alice.connect().unwrap();
                connection.write(head.as_bytes()).unwrap();
                (connection.read_head().map(|head| head.status), "alice".to_owned())
            }
        }
    }

    /// Sends one and looks what became of it.
    fn expect(&mut self, place: &str, way: Way, fate: Fate) {
        self.server.clear();
        let (answer, user) = self.ask(way, place);
        let case = format!("{place} {way:?}: {answer:?}");
        assert_eq!(answer.as_ref().is_ok_and(|status| *status < 400), fate == Served, "{case}");
        assert!(!matches!(answer, Err(Error::Timeout { .. })), "{case}");
        let mut seen = self.server.records();
        seen.retain(|record| record.path() != "/readyz" && !record.path().ends_with("reviews"));
        assert!(fate != Refused || seen.is_empty(), "{case}: {seen:?}");
        for record in &seen {
            let effective = record.effective.as_ref().map(|user| user.username.as_str());
            assert!(effective.is_none_or(|name| name == user), "{case}: {record:?}");
            let told = ["impersonate-user", "x-remote-user"].map(|name| record.header_all(name)).concat();
            // A front proxy's server judges tokens itself.
            let is_judged_there = self.mode == "RequestHeader" && way == Token;
            assert!(is_judged_there && told.is_empty() || told == [user.as_str()], "{case}: {told:?}");
        }
        self.goes_on(&case);
    }

    /// Another request gets the one place that there is.
    fn goes_on(&self, case: &str) {
        let alice = self.target(&self.fixture.pki.alice);
        let is_served = || {
            let answer = H2Client::connect(&alice).and_then(|client| client.get(PODS, &[]));
            let status = answer.map_err(|error| error.to_string())?.status;
            if status == 200 { Ok(()) } else { Err(status.to_string()) }
        };
        wait::until_ok(case, SOON, is_served).unwrap();
    }
}

fn faults_are_refused_or_ended(mode: &'static str) {
    let mut site = Site::start(mode);
    site.goes_on("before any fault");
    for (place, ways, fate) in HOOKS {
        for way in ways.iter().filter(|way| mode == "Impersonate" || **way != Impersonation) {
            site.expect(place, *way, fate);
        }
    }
    // More than may be asked at a time: a review whose answer a fault struck leaves its slot.
    for _ in 0..70 {
        for place in ["send", "callout"] {
            let (status, _) = site.ask(Token, place);
            assert!(status.as_ref().is_ok_and(|status| *status >= 400), "{place}: {status:?}");
        }
    }
    let (status, user) = site.ask(Token, "nowhere");
    assert_eq!(status.unwrap(), 200, "{user}");
}

#[test]
fn hook_that_panics_passes_on_no_wrong_identity() {
    faults_are_refused_or_ended("Impersonate");
}

#[test]
fn hook_that_panics_passes_on_no_wrong_identity_as_front_proxy() {
    faults_are_refused_or_ended("RequestHeader");
}

/// The timer publishes metrics, and ends sessions and the streams of removed servers.
#[test]
fn timer_goes_on_after_a_task_that_panics() {
    let fixture = StubFixture::start("faults-timer", &faulty(None));
    let client = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    for round in 1..=3 {
        assert_eq!(client.get(PODS, &[("x-fault-injection", "timer")]).unwrap().status, 200);
        let counted = || MetricsPage::of(&fixture.gateway).sum("requests_total", &[("decision", "forwarded")]);
        wait::until("the request is counted", SOON, || (counted() == round).then_some(())).unwrap();
    }
    let panics = fixture.gateway.envoy().process().log().matches("a panic in a task of the timer").count();
    assert_eq!(panics, 3);
}

#[test]
fn configuration_that_panics_is_refused() {
    let fixture = StubFixture::without_cluster("faults-config", &faulty(Some("fault-injection-config")));
    fixture.gateway.write(&fixture.manifest()).unwrap();
    let refuses = |status: &serde_json::Value| status.to_string().contains("Failed to initialize dynamic module");
    fixture.gateway.plane().wait_status("Envoy refuses the listener", SOON, refuses).unwrap();
    assert!(H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).is_err());
    assert!(fixture.client_records().is_empty());
}

/// No client and no server sees the work of a shadow, nor its panic.
#[test]
fn panic_of_a_shadow_leaves_its_request_alone() {
    let fixture = StubFixture::without_cluster("faults-shadow", &faulty(None));
    let shadow =
        json!({"dispatchPolicies": [{"rules": [allow_all()], "portcullis": {"action": "Deny", "force": true}}]});
    fixture.gateway.apply(&fixture.manifest().set("/spec/portcullis", json!({"shadow": shadow}))).unwrap();
    let alice = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    fixture.stub.clear();
    let struck = format!("{PODS}/fault-injection-shadow");
    let answers = |path: &str| (0..5).map(|_| alice.get(path, &[]).unwrap().status).collect::<Vec<_>>();
    assert_eq!(answers(&struck), [404; 5], "the server's answer");
    assert_eq!(fixture.stub.records_for(&struck).len(), 5);
    assert_eq!(answers(PODS), [200; 5], "on the same connection");
    let counted = || MetricsPage::of(&fixture.gateway).sum("requests_total", &[("decision", "forwarded")]);
    wait::until("all requests are counted", SOON, || (counted() == 10).then_some(())).unwrap();
    let page = MetricsPage::of(&fixture.gateway);
    assert_eq!(page.sum("shadow_total", &[("agreement", "would_refuse")]), 5, "the shadow panicked at the first five");
    assert_eq!(page.sum("requests_total", &[("reason", "internal")]), 0, "none is answered for a panic");
}

#[test]
fn object_whose_configuration_panics_is_refused_alone() {
    const OTHER: &str = "fault-injection-route.example.com";
    let fixture = StubFixture::start("faults-route", &faulty(None));
    let other = fixture.cluster(OTHER, [fixture.stub.address()]);
    fixture.gateway.write(&other).unwrap();
    let refused = |status: &serde_json::Value| status["nodes"][0]["refused"].to_string().contains(OTHER);
    fixture.gateway.plane().wait_status("Envoy refuses the object", SOON, refused).unwrap();
    let ask = |name: &str| {
        let target = fixture.gateway.target(name).identity(&fixture.pki.alice);
        H2Client::connect(&target).and_then(|client| client.get(PODS, &[])).map(|response| response.status)
    };
    assert!(ask(OTHER).is_ok_and(|status| status == 503) || ask(OTHER).is_err());
    assert!(fixture.client_records().is_empty());
    assert_eq!(ask(NAME).unwrap(), 200);
}

/// The files of `envoy/plain` have the module's certificate validator.
#[test]
fn handshake_that_panics_ends() {
    let (run, pki) = (RunDir::new("faults-handshake").unwrap(), Pki::new());
    let mut options = pki.stub_options("stub-0");
    let serving = pki.server_ca.issue(&CertSpec::server("stub-0", ["kubernetes.default.svc"])).unwrap();
    (options.tls_cert, options.tls_key) = (serving.pem(), serving.key_pem());
    let server = StubServer::start(options).unwrap();
    let setup = PlainSetup {
        mode: "impersonate",
        name: NAME,
        servers: vec![server.address()],
        client: &pki.gateway,
        upstream_ca: &pki.server_ca,
        client_ca: &pki.client_ca,
    };
    let files = PlainFiles::lay_out(&run, &setup).unwrap();
    let gateway = files.start_with(&run, None, faulty(None).module_dir).unwrap();
    let get = |identity: &Identity| {
        let client = H2Client::connect(&gateway.target().identity(identity))?;
        client.get(PODS, &[]).map(|response| response.status)
    };
    let struck = pki.client_ca.issue(&CertSpec::client("fault-injection-handshake", [""; 0])).unwrap();
    assert!(get(&struck).is_err());
    assert!(server.records_for(PODS).is_empty());
    assert_eq!(get(&pki.alice).unwrap(), 200, "the next handshake");
}

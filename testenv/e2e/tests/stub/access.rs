//! Access lists on a real Envoy: by address, user agent and user, for a cluster and for the gateway.

use std::time::{Duration, SystemTime};

use portcullis_e2e::{GatewayOptions, MetricsPage};
use portcullis_harness::client::{Response, TlsTarget};
use portcullis_harness::{Result, ports, wait};
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::fixture::{NAME, PODS, ROBOT, StubFixture};
use crate::proxy_protocol::proxied;

const SOON: Duration = Duration::from_secs(20);
const INSIDE: &str = "198.51.100.7";
const OUTSIDE: &str = "203.0.113.7";
const VIRTUAL: &str = "192.0.2.80";

/// A gateway behind a proxy that says where clients come from.
struct Site {
    fixture: StubFixture,
    door: TlsTarget,
}

impl Site {
    fn start(test: &str) -> Self {
        let port = ports::free_address().unwrap().port();
        let proxies = json!({"port": port, "trustedProxies": ["127.0.0.1"]});
        let listener = json!({"proxyProtocol": proxies, "virtualIPs": [VIRTUAL]});
        let fixture = StubFixture::start(test, &GatewayOptions { listener, ..GatewayOptions::default() });
        let door = TlsTarget::new((fixture.gateway.address().ip(), port).into()).sni(NAME);
        let site = Site { door, fixture };
        wait::until("the proxies' port answers", SOON, || site.get(&site.anonymous(), INSIDE, "").ok().map(drop))
            .unwrap();
        site
    }

    fn anonymous(&self) -> TlsTarget {
        self.door.clone()
    }

    fn alice(&self) -> TlsTarget {
        self.door.clone().identity(&self.fixture.pki.alice)
    }

    fn lists(&self, access: Value) {
        self.fixture
            .gateway
            .apply(&self.fixture.manifest().set("/spec/portcullis", json!({"access": access})))
            .unwrap();
    }

    /// Asks for Pods, with lines that claim to come from inside, and others.
    fn get(&self, target: &TlsTarget, from: &str, lines: &str) -> Result<Response> {
        let forged = format!("X-Forwarded-For: {INSIDE}\r\nX-Real-Ip: {INSIDE}\r\nForwarded: for={INSIDE}\r\n");
        let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\n{forged}{lines}Connection: close\r\n\r\n");
        target.clone().preamble(&proxied(from, from)).raw_request(request.as_bytes())
    }

    /// The message of the 403, if a list refuses the request. A server refuses strangers, too.
    fn refused(&self, target: &TlsTarget, from: &str, lines: &str) -> Option<String> {
        let answer = self.get(target, from, lines).unwrap();
        if answer.status != 403 {
            return None;
        }
        assert_eq!(answer.header("retry-after"), None);
        let status: Value = serde_json::from_str(&answer.text()).unwrap();
        assert_eq!(status["reason"], "Forbidden");
        let message = status["message"].as_str().unwrap();
        (message.contains("'s deny list ") || message.contains("'s allow list ")).then(|| message.to_owned())
    }
}

#[test]
fn listed_requests_reach_no_server_and_are_counted() {
    let site = Site::start("access-deny");
    let ban = json!({"addresses": ["203.0.113.0/24"], "message": "a scan"});
    let users = json!({"users": ["alice"], "addresses": [format!("{INSIDE}/32")]});
    let robots = json!({"users": ["robot"], "rules": [
        {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]},
    ]});
    site.lists(json!({"deny": [ban, users, {"userAgents": ["kube-hunter/"]}, robots]}));
    site.fixture.stub.clear();
    let message = |number| Some(format!("entry {number} of the cluster's deny list denies this request"));
    let robot = format!("Authorization: Bearer {ROBOT}\r\n");
    let with_token = |from, wanted: Option<String>| {
        assert_eq!(site.refused(&site.anonymous(), from, &robot), wanted, "{from}");
    };
    assert_eq!(site.refused(&site.anonymous(), OUTSIDE, ""), message(0).map(|text| format!("{text}: a scan")));
    with_token(OUTSIDE, message(0).map(|text| format!("{text}: a scan")));
    assert_eq!(site.fixture.stub.records_for("/apis/authentication.k8s.io/v1/tokenreviews").len(), 0);
    assert_eq!(site.refused(&site.alice(), INSIDE, ""), message(1));
    assert_eq!(site.refused(&site.anonymous(), INSIDE, "User-Agent: kube-hunter/0.6\r\n"), message(2));
    with_token(INSIDE, message(3));
    assert_eq!(site.fixture.stub.records_for(PODS).len(), 0);
    assert_eq!(site.refused(&site.alice(), "192.0.2.1", ""), None);
    assert_eq!(site.refused(&site.anonymous(), INSIDE, "User-Agent: kubectl\r\n"), None);
    assert_eq!(site.fixture.stub.records_for(PODS).len(), 2);
    let labels = [("decision", "refused"), ("reason", "denied_by_list")];
    let counted = || (MetricsPage::of(&site.fixture.gateway).sum("requests_total", &labels) == 5).then_some(());
    wait::until("the refusals are counted", SOON, counted).unwrap();
}

#[test]
fn lists_of_the_gateway_hold_beside_those_of_a_cluster() {
    let site = Site::start("access-allow");
    let gateway = &site.fixture.gateway;
    let inside = json!({"allow": [{"addresses": ["198.51.100.0/24", "192.0.2.0/24"]}]});
    gateway.change_settings(|settings| settings["access"] = inside).unwrap();
    site.lists(json!({"allow": [{"addresses": [INSIDE], "users": ["*"]}, {"addresses": [OUTSIDE]}]}));
    let not_let_in = |scope| Some(format!("no entry of the {scope}'s allow list lets this request in"));
    assert_eq!(site.refused(&site.alice(), INSIDE, ""), None);
    assert_eq!(site.refused(&site.alice(), OUTSIDE, ""), not_let_in("gateway"));
    assert_eq!(site.refused(&site.alice(), "192.0.2.1", ""), not_let_in("cluster"));
}

/// No byte of a handshake, neither by name nor at a virtual IP.
#[test]
fn address_that_may_not_connect_gets_no_handshake() {
    let site = Site::start("access-addresses");
    let gateway = &site.fixture.gateway;
    let portcullis = json!({"virtualIPs": [VIRTUAL], "clientAddresses": {"allow": ["198.51.100.0/24"]}});
    gateway.apply(&site.fixture.manifest().set("/spec/portcullis", portcullis)).unwrap();
    let connects = |from: &str, to: &str, name: &str| {
        site.alice().sni(name).timeout(Duration::from_secs(5)).preamble(&proxied(from, to)).connect().is_ok()
    };
    for (to, name) in [("192.0.2.9", NAME), (VIRTUAL, NAME), (VIRTUAL, "unheard.of")] {
        let is_open = || connects(INSIDE, to, name).then_some(());
        wait::until("the address may connect", SOON, is_open).unwrap();
        let is_closed = || (!connects(OUTSIDE, to, name)).then_some(());
        wait::until("the other one may not", SOON, is_closed).unwrap();
        assert!(connects(INSIDE, to, name) && !connects(OUTSIDE, to, name), "{to} {name}");
    }
    // Names that no cluster has are answered as before, and lead to no cluster, whatever a request there says.
    assert!(connects(OUTSIDE, "192.0.2.9", "unheard.of"));
    site.fixture.stub.clear();
    for head in [
        format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}"),
        format!("GET https://{NAME}{PODS} HTTP/1.1\r\nHost: {NAME}"),
        format!("GET https://{NAME}{PODS} HTTP/1.1\r\nHost: unheard.of"),
        format!("CONNECT {NAME}:443 HTTP/1.1\r\nHost: {NAME}:443"),
    ] {
        let target = site.alice().sni("unheard.of").preamble(&proxied(OUTSIDE, "192.0.2.9"));
        let answer = target.raw_request(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes());
        assert!(answer.as_ref().map_or(true, |answer| answer.status >= 400), "{head}: {answer:?}");
    }
    assert_eq!(site.fixture.client_records().len(), 0);
}

/// A list that denies Secrets, and requests that a server could read as ones for Secrets.
#[test]
fn spellings_of_a_request_get_around_no_list() {
    let site = Site::start("access-spellings");
    let secrets = json!({"verbs": ["*"], "apiGroups": [""], "resources": ["secrets", "secrets/*"]});
    site.lists(json!({"deny": [{"users": ["alice"], "rules": [secrets]}]}));
    site.fixture.stub.clear();
    let below = "/api/v1/namespaces/default";
    let targets = [
        format!("{below}/secrets"),
        format!("{below}/secrets/a?watch=1"),
        format!("{below}/%73ecrets"),
        format!("{below}/secret%73/a"),
        format!("{below}//secrets"),
        format!("/{below}/secrets"),
        format!("{below}/pods/../secrets"),
        format!("{below}/pods/%2e%2e/secrets"),
        format!("{below}/pods%2f..%2fsecrets"),
        format!("{below}/secrets/"),
        format!("{below}/./secrets"),
        format!("{below}/secrets#pods"),
        "/api/v1/secrets".to_owned(),
        "/api/v1/watch/secrets".to_owned(),
        "/api/v1/watch/namespaces/default/secrets".to_owned(),
        format!("https://{NAME}{below}/secrets"),
        format!("https://pods@{NAME}{below}/secrets"),
    ];
    for target in &targets {
        for method in ["GET", "HEAD", "get", "POST", "OPTIONS", "CONNECT"] {
            let request = format!(
                "{method} {target} HTTP/1.1\r\nHost: {NAME}\r\nX-HTTP-Method-Override: GET\r\nX-Original-URL: {PODS}\r\n\
                 X-Envoy-Original-Path: {PODS}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
            let answer = site.alice().preamble(&proxied(INSIDE, INSIDE)).raw_request(request.as_bytes());
            assert!(answer.as_ref().map_or(true, |answer| answer.status >= 400), "{method} {target}: {answer:?}");
        }
    }
    let arrived: Vec<String> = site.fixture.client_records().into_iter().map(|record| record.target).collect();
    assert_eq!(arrived, [""; 0], "a server would have to judge them");
    assert_eq!(site.get(&site.alice(), INSIDE, "").unwrap().status, 200);
}

/// With no edit in between.
#[test]
fn ban_ends_at_its_time() {
    let site = Site::start("access-until");
    let until = SystemTime::now() + Duration::from_secs(4);
    let seconds = until.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let until = OffsetDateTime::from_unix_timestamp(i64::try_from(seconds).unwrap()).unwrap();
    let (date, time) = (until.date(), until.time());
    let until = format!(
        "{}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        date.year(),
        u8::from(date.month()),
        date.day(),
        time.hour(),
        time.minute(),
        time.second()
    );
    let lasting = json!({"addresses": [INSIDE]});
    site.lists(json!({"deny": [{"addresses": [OUTSIDE], "until": until}, lasting]}));
    let is_over = || site.refused(&site.anonymous(), OUTSIDE, "").is_none().then(SystemTime::now);
    let over = wait::until("the ban ends", SOON, is_over).unwrap();
    assert!(over.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() >= seconds);
    assert!(site.refused(&site.anonymous(), INSIDE, "").is_some());
}

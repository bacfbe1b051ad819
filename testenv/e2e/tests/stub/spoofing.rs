//! Nothing that a client writes changes who the upstream takes it for: it is dropped, or the request is refused.

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::{H2Client, Response, TlsTarget};
use portcullis_stub_apiserver::Record;
use serde_json::json;

use crate::fixture::{NAME, PODS, StubFixture};

/// The name that the settings of these tests reserve.
const LEGACY: &str = "Legacy-User";

/// Headers that claim an identity or a way through the gateway.
pub(crate) const FORGED: [(&str, &str); 21] = [
    ("Impersonate-User", "eve"),
    ("Impersonate-Group", "system:masters"),
    ("Impersonate-Uid", "0"),
    ("Impersonate-Extra-Scopes", "all"),
    ("Impersonate-Unheard-Of", "x"),
    ("Impersonate_User", "eve"),
    ("X-Remote-User", "eve"),
    ("X-Remote-Group", "system:masters"),
    ("X-Remote-Uid", "0"),
    ("X-Remote-Extra-Scopes", "all"),
    ("X_Remote_User", "eve"),
    ("X-Forwarded-Client-Cert", "Hash=00;Subject=\"CN=eve,O=system:masters\""),
    ("X-Portcullis-Destination", "all.h2.read"),
    ("X-Portcullis-Cluster", "e2e/-/prod.example.com/all.h2"),
    ("X-Envoy-Original-Path", "/api/v1/secrets"),
    ("X-Envoy-Retry-On", "5xx"),
    ("X-Envoy-Upstream-Rq-Timeout-Ms", "1"),
    ("X-Envoy-Decorator-Operation", "x"),
    ("X-Envoy-Force-Trace", "true"),
    ("Authorization", "Basic ZXZlOmV2ZQ=="),
    ("Via", "1.1 elsewhere"),
];

const NONE: &[(&str, &str)] = &[];

/// Prefixes of names that only the gateway may write.
const RESERVED: [&str; 7] =
    ["impersonate", "x-remote", "x_remote", "legacy", "x-forwarded-client-cert", "x-portcullis", "x-envoy"];

/// The headers that these tests forge: the settings of other tests reserve no name.
fn forged() -> impl Iterator<Item = (&'static str, &'static str)> {
    FORGED.into_iter().chain([(LEGACY, "eve")])
}

fn fixture(test: &str) -> StubFixture {
    let fixture = StubFixture::start(test, &GatewayOptions::default());
    fixture.gateway.change_settings(|spec| spec["requestHeaderNames"] = json!({"reserved": [LEGACY]})).unwrap();
    fixture
}

#[test]
fn forged_headers_change_nothing_or_are_refused() {
    let fixture = fixture("spoofing");
    for target in [fixture.gateway.target(NAME), fixture.gateway.target(NAME).identity(&fixture.pki.alice)] {
        let clean = send(&fixture, &target, NONE).1.expect("an honest request goes through");
        for (name, value) in forged() {
            for (case, lines) in variants(name, value) {
                let (response, record) = send(&fixture, &target, &lines);
                check(&format!("{name}, {case}"), &clean, &response, record.as_ref());
            }
            let lower = name.to_ascii_lowercase();
            for lines in [vec![(lower.as_str(), value)], vec![(lower.as_str(), value); 2]] {
                let (response, record) = send_h2(&fixture, &target, &lines);
                check(&format!("{name}, HTTP/2 x{}", lines.len()), &clean, &response, record.as_ref());
            }
        }
    }
}

#[test]
fn refusal_is_no_success_to_a_grpc_client_either() {
    let fixture = StubFixture::start("grpc", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let headers = [("content-type", "application/grpc"), ("impersonate-group", "system:masters")];
    let over_h2 = H2Client::connect(&target).unwrap().get(PODS, &headers);
    assert!(over_h2.is_err(), "{over_h2:?}");
    let request = format!(
        "GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: application/grpc\r\nImpersonate-Group: x\r\n\r\n"
    );
    assert_eq!(target.raw_exchange(request.as_bytes()).unwrap_or_default(), b"");
    assert!(fixture.client_records().is_empty());
    assert_eq!(send(&fixture, &target, NONE).0.status, 200, "Envoy goes on");
}

#[test]
fn upgrade_does_not_hide_where_it_comes_from() {
    let fixture = StubFixture::start("upgrade-connection", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let exec = "/api/v1/namespaces/default/pods/p/exec";
    let upgrade = |connection: &str| {
        let request = format!(
            "POST {exec}?command=x HTTP/1.1\r\nHost: {NAME}\r\nConnection: {connection}\r\nUpgrade: SPDY/3.1\r\n\
             X-Remote-User: eve\r\nX-Secret: 1\r\n\r\n"
        );
        let mut connection = target.connect().unwrap();
        connection.write(request.as_bytes()).unwrap();
        connection.read_head().unwrap().status
    };
    assert_eq!(upgrade("Upgrade, X-Forwarded-For"), 400);
    assert_eq!(upgrade(&format!("Upgrade, {}", ["a"; 1000].join(","))), 400);
    assert!(fixture.client_records().is_empty());
    assert_eq!(upgrade("keep-alive, upgrade, X-Secret"), 101);
    let record = fixture.stub.records_for(exec).pop().unwrap();
    assert_eq!(record.version, "HTTP/1.1");
    assert_eq!(record.header_all("connection"), ["Upgrade"]);
    assert_eq!(record.effective.as_ref().unwrap().username, "alice");
    assert!(record.header("x-forwarded-for").is_some());
    assert!(record.header("x-remote-user").is_none());
    assert!(record.header("x-secret").is_none());
}

#[test]
fn forged_trailers_change_nothing() {
    let fixture = fixture("trailers");
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let path = "/api/v1/namespaces/default/configmaps";
    let body = |name: &str| format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}"#);
    let told = |case: &str| {
        let record = fixture.client_records().pop().unwrap();
        assert_eq!(record.effective.as_ref().unwrap().username, "alice", "{case}");
        assert_eq!(record.header_all("impersonate-user"), ["alice"], "{case}");
        for name in ["x-remote-user", LEGACY] {
            assert_eq!(record.header(name), None, "{case}");
        }
        let trailers: Vec<_> = record.trailers.iter().map(|line| line.name.clone()).collect();
        let reserved = RESERVED.iter().find(|prefix| trailers.iter().any(|name| name.starts_with(**prefix)));
        assert_eq!(reserved, None, "{case}: {trailers:?}");
        trailers
    };
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\nTrailer: Impersonate-User, X-Remote-User, {LEGACY}\r\n\r\n\
         {:x}\r\n{}\r\n0\r\nImpersonate-User: eve\r\nX-Remote-User: eve\r\n{LEGACY}: eve\r\n\r\n",
        body("t").len(),
        body("t"),
    );
    let response = target.raw_request(request.as_bytes()).unwrap();
    assert_eq!(response.status, 201, "{}", response.text());
    told("HTTP/1.1");

    let client = H2Client::connect(&target).unwrap();
    for (number, (name, value)) in forged().enumerate() {
        fixture.stub.clear();
        let name = name.to_ascii_lowercase();
        let trailers: [(&str, &[u8]); 3] = [("a", b"1"), (&name, value.as_bytes()), ("z", b"2")];
        let body = body(&format!("t-{number}"));
        let answer = client.open_with_trailers("POST", path, &[], body.as_bytes(), &trailers).unwrap();
        assert_eq!(answer.response.status, 201, "{name}");
        let kept = told(&name);
        assert_eq!(
            (kept.first().map(String::as_str), kept.last().map(String::as_str)),
            (Some("a"), Some("z")),
            "{kept:?}"
        );
    }
}

#[test]
fn client_certificate_of_somebody_else_names_nobody() {
    use portcullis_harness::certs::{Ca, CertSpec, self_signed};
    let fixture = StubFixture::start("certificates", &GatewayOptions::default());
    let masters = CertSpec::client("eve", ["system:masters"]);
    let other = Ca::new("clients").unwrap();
    let table = [
        ("self-signed", self_signed(&masters).unwrap()),
        ("another CA of the same name", other.issue(&masters).unwrap()),
        ("expired", fixture.pki.client_ca.issue(&masters.clone().expired()).unwrap()),
        ("not yet valid", fixture.pki.client_ca.issue(&masters.clone().not_yet_valid()).unwrap()),
        ("for servers", fixture.pki.client_ca.issue(&CertSpec::server("eve", ["eve"])).unwrap()),
        ("blank at the end", fixture.pki.client_ca.issue(&CertSpec::client("alice ", ["dev"])).unwrap()),
        ("line break", fixture.pki.client_ca.issue(&CertSpec::client("al\r\nice", ["dev"])).unwrap()),
        ("blank before the group", fixture.pki.client_ca.issue(&CertSpec::client("al", [" system:masters"])).unwrap()),
    ];
    for (case, identity) in table {
        let target = fixture.gateway.target(NAME).identity(&identity);
        let (response, record) = send(&fixture, &target, NONE);
        assert_eq!(response.status, 401, "{case}");
        assert_eq!(response.json().unwrap()["message"], "Unauthorized", "{case}");
        assert!(record.is_none(), "{case}: {record:?}");
    }
}

#[test]
fn other_names_on_a_connection_are_misdirected() {
    let fixture = StubFixture::start("authority", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    for authority in ["other.example.com", "prod.example.com.evil.com", "default.gateway"] {
        let response = H2Client::connect(&target).unwrap().authority(authority).get(PODS, &[]).unwrap();
        assert_eq!(response.status, 421, "{authority}");
    }
    assert!(fixture.client_records().is_empty());
    for authority in ["PROD.example.com:6443", "prod.example.com.", "127.0.0.1"] {
        let response = H2Client::connect(&target).unwrap().authority(authority).get(PODS, &[]).unwrap();
        assert_eq!(response.status, 200, "{authority}");
    }
}

pub(crate) fn variants<'a>(name: &'a str, value: &'a str) -> Vec<(&'static str, Vec<(String, String)>)> {
    let line = |name: &str| (name.to_owned(), value.to_owned());
    let mixed: String = name
        .chars()
        .enumerate()
        .map(|(i, c)| if i % 2 == 0 { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() })
        .collect();
    let connection = |extra: &str| ("Connection".to_owned(), format!("close, {extra}"));
    vec![
        ("once", vec![line(name)]),
        ("twice", vec![line(name), line(name)]),
        ("mixed case", vec![line(&mixed)]),
        ("named in Connection", vec![line(name), connection(name)]),
        ("named in Connection in mixed case", vec![line(name), connection(&mixed)]),
        ("the gateway's own names in Connection", vec![connection("Impersonate-User, Impersonate-Group, Via")]),
    ]
}

fn send<S: AsRef<str>>(fixture: &StubFixture, target: &TlsTarget, headers: &[(S, S)]) -> (Response, Option<Record>) {
    fixture.stub.clear();
    let mut request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{}: {}\r\n", name.as_ref(), value.as_ref()));
    }
    if !headers.iter().any(|(name, _)| name.as_ref() == "Connection") {
        request.push_str("Connection: close\r\n");
    }
    let response = target.raw_request(format!("{request}\r\n").as_bytes()).unwrap();
    (response, fixture.client_records().pop())
}

fn send_h2(fixture: &StubFixture, target: &TlsTarget, headers: &[(&str, &str)]) -> (Response, Option<Record>) {
    fixture.stub.clear();
    let response = H2Client::connect(target).unwrap().get(PODS, headers).unwrap();
    (response, fixture.client_records().pop())
}

/// Either the request was refused and the upstream saw nothing, or it saw what an honest request shows.
pub(crate) fn check(case: &str, clean: &Record, response: &Response, record: Option<&Record>) {
    let Some(record) = record else {
        assert!((400..500).contains(&response.status), "{case}: {}", response.status);
        assert_eq!(response.json().unwrap()["kind"], "Status", "{case}");
        return;
    };
    for prefix in RESERVED {
        for name in record.header_names_with_prefix(prefix) {
            assert_eq!(record.header_all(&name), clean.header_all(&name), "{case}: {name}");
        }
    }
    assert_eq!(record.header_all("authorization"), clean.header_all("authorization"), "{case}");
    assert_eq!(record.effective, clean.effective, "{case}");
    assert_eq!(record.authenticated, clean.authenticated, "{case}");
    assert_eq!(record.target, clean.target, "{case}");
    assert_eq!(record.peer_common_name, clean.peer_common_name, "{case}");
}

#[test]
fn no_address_makes_a_client_internal() {
    let fixture = StubFixture::start("internal", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let forged = [("x-request-id", "forged"), ("x-envoy-internal", "true"), ("x-envoy-upstream-rq-timeout-ms", "1")];
    let (response, record) = send_h2(&fixture, &target, &forged);
    let record = record.unwrap();
    assert_eq!(response.status, 200);
    assert!(record.header("x-request-id").is_none(), "a client's would be taken for the gateway's");
    assert!(record.header_names_with_prefix("x-envoy-").is_empty());
}

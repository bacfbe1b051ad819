//! Every response that is not the upstream's is a Kubernetes `Status`, also where Envoy makes it. By tables: the request, then
//! code, reason and `Retry-After`.

use std::time::Duration;

use portcullis_e2e::{Gateway, GatewayOptions, default_certificate, settings};
use portcullis_harness::client::{H2Client, Response, TlsTarget};
use portcullis_harness::{ports, wait};
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, StubFixture};

const SOON: Duration = Duration::from_secs(20);
const EXEC: &str = "/api/v1/namespaces/default/pods/a/exec?command=ls";
const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\n";

/// Code, reason and `Retry-After`.
type Expected = (u16, &'static str, bool);

const UNREACHED: Expected = (503, "ServiceUnavailable", true);
const BROKEN_OFF: Expected = (503, "ServiceUnavailable", false);
const TIMED_OUT: Expected = (504, "Timeout", false);
const BAD: Expected = (400, "BadRequest", false);

/// Checks the parts that client-go needs to understand a response, and that nothing is in it that a client should not know.
fn check(what: &str, response: &Response, (code, reason, has_retry_after): Expected, fixture: &StubFixture) {
    let text = response.text();
    assert_eq!(response.status, code, "{what}: {text}");
    assert_eq!(response.header_all("content-type"), ["application/json"], "{what}");
    let status = response.json().unwrap();
    let told = (&status["kind"], &status["apiVersion"], &status["status"], &status["code"], &status["reason"]);
    let expected = (&json!("Status"), &json!("v1"), &json!("Failure"), &json!(code), &json!(reason));
    assert_eq!(told, expected, "{what}: {text}");
    assert!(status["message"].as_str().is_some_and(|message| !message.is_empty()), "{what}: {text}");
    assert_eq!(response.header_all("retry-after").len(), usize::from(has_retry_after), "{what}");
    let seconds = response.retry_after();
    assert!(seconds.is_none_or(|seconds| (1..=4).contains(&seconds)), "{what}: {seconds:?}");
    let details = seconds.map_or(Value::Null, |seconds| json!({"retryAfterSeconds": seconds}));
    assert_eq!(status["details"], details, "{what}: {text}");
    let ports = [fixture.gateway.address().port(), fixture.stub.address().port()].map(|port| port.to_string());
    for secret in ["127.0.0.1", "envoy", "TLS_error", "SSL", "delayed", "http1.", "reset"]
        .into_iter()
        .chain(ports.iter().map(String::as_str))
    {
        assert!(!text.contains(secret), "{what} tells {secret}: {text}");
    }
    assert_eq!((response.header("server"), response.header("x-envoy-upstream-service-time")), (None, None), "{what}");
}

/// A request over HTTP/1.1, its first line and its further lines.
fn h1(target: &TlsTarget, line: &str, rest: &str) -> Response {
    target.raw_request(format!("{line}\r\n{rest}\r\n").as_bytes()).unwrap()
}

fn get(target: &TlsTarget, path: &str, headers: &str) -> Response {
    h1(target, &format!("GET {path} HTTP/1.1"), &format!("Host: {NAME}\r\n{headers}"))
}

fn post(target: &TlsTarget) -> Response {
    h1(target, &format!("POST {PODS} HTTP/1.1"), &host("Content-Length: 2\r\n\r\n{}"))
}

fn host(rest: &str) -> String {
    format!("Host: {NAME}\r\n{rest}")
}

#[test]
fn requests_that_are_none() {
    let fixture = StubFixture::start("replies-requests", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let line = format!("GET {PODS} HTTP/1.1");
    let post = format!("POST {PODS} HTTP/1.1");
    let connect = format!("CONNECT {NAME}:443 HTTP/1.1");
    let rows: [(&str, String, Expected); 17] = [
        ("NONSENSE", String::new(), BAD),
        ("\0\u{1}\u{2}", String::new(), BAD),
        ("G@T / HTTP/1.1", host(""), BAD),
        ("GET api HTTP/1.1", host(""), BAD),
        ("GET /api#a HTTP/1.1", host(""), BAD),
        (&line, host(": x\r\n"), BAD),
        (&line, host("x y: x\r\n"), BAD),
        (&line, host("x: a\0b\r\n"), BAD),
        (&line, String::new(), BAD),
        (&line, "Host: a b\r\n".to_owned(), BAD),
        (&line, host("Connection: Upgrade\r\nUpgrade: tea\r\n"), BAD),
        (&post, host("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"), BAD),
        (&post, host("Content-Length: 3\r\nContent-Length: 4\r\n"), BAD),
        (&post, host("Transfer-Encoding: tea\r\n"), (501, "NotImplemented", false)),
        (&post, host("Transfer-Encoding: chunked\r\n\r\nzz\r\n"), BAD),
        (&connect, host(""), BAD),
        ("OPTIONS * HTTP/1.1", host(""), (404, "NotFound", false)),
    ];
    fixture.stub.clear();
    for (line, rest, expected) in rows {
        check(&format!("{line} {rest}"), &h1(&target, line, &rest), expected, &fixture);
    }
    let h2 = H2Client::connect(&target).unwrap();
    check("CONNECT over HTTP/2", &h2.request("CONNECT", "", &[], b"").unwrap(), BAD, &fixture);
    assert!(fixture.client_records().is_empty());
}

#[test]
fn versions_and_sizes_that_are_not_served() {
    let fixture = StubFixture::start("replies-sizes", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let (line, large) = (format!("GET {PODS} HTTP/1.1"), "a".repeat(70_000));
    let many: String = (0..200).map(|number| format!("x-{number}: y\r\n")).collect();
    let (old, too_large) = ((426, "UpgradeRequired", false), (431, "RequestHeaderFieldsTooLarge", false));
    fixture.stub.clear();
    for (line, rest, expected) in [
        ("GET / HTTP/1.0", host(""), old),
        ("GET / HTTP/9.9", host(""), old),
        (&line, host(&format!("x-large: {large}\r\n")), too_large),
        (&line, host(&many), too_large),
        (&format!("GET /{large} HTTP/1.1"), host(""), too_large),
    ] {
        let what = format!("{line:.40} {rest:.80}");
        check(&what, &h1(&target, line, &rest), expected, &fixture);
    }
    // An HTTP/2 codec has no answer to headers that it does not take in: it resets the stream.
    assert!(H2Client::connect(&target).unwrap().get(PODS, &[("x-large", &large)]).is_err());
    assert!(fixture.client_records().is_empty());
}

#[test]
fn odd_requests_are_served_all_the_same() {
    let fixture = StubFixture::start("replies-odd", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    assert_eq!(get(&target, PODS, "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n").status, 200, "ignored");
    assert_eq!(h1(&target, &format!("GET https://{NAME}{PODS} HTTP/1.1"), &host("")).status, 200, "absolute form");
    // client-go asks for protobuf, and reads what the answer says it is.
    let accept = "application/vnd.kubernetes.protobuf";
    check("protobuf", &get(&target, "/api/v1/%zz", &format!("Accept: {accept}\r\n")), BAD, &fixture);
    let h2 = H2Client::connect(&target).unwrap();
    check("protobuf over HTTP/2", &h2.get("/api/v1/%zz", &[("accept", accept)]).unwrap(), BAD, &fixture);
}

#[test]
fn request_whose_headers_never_end() {
    let fixture = StubFixture::start("replies-slow", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice).timeout(SOON);
    let response = target.raw_request(format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\n").as_bytes()).unwrap();
    check("half a request", &response, (408, "Timeout", false), &fixture);
}

#[test]
fn names_that_nobody_serves() {
    let fixture = StubFixture::start("replies-names", &GatewayOptions::default());
    let nobody = TlsTarget::new(fixture.gateway.address()).sni("nobody.example.com");
    let unserved = BROKEN_OFF;
    fixture.stub.clear();
    for (line, rest, expected) in [
        ("GET / HTTP/1.1", "Host: nobody.example.com\r\n", unserved),
        ("GET / HTTP/1.1", "Host: prod.example.com\r\n", unserved),
        (&format!("GET {EXEC} HTTP/1.1"), &host(UPGRADE), unserved),
        ("GET / HTTP/1.1", "Host: x\r\nConnection: Upgrade\r\nUpgrade: tea\r\n", BAD),
        ("NONSENSE", "", BAD),
        ("CONNECT x:443 HTTP/1.1", "Host: x:443\r\n", (404, "NotFound", false)),
    ] {
        check(&format!("{line} {rest}"), &h1(&nobody, line, rest), expected, &fixture);
    }
    check("h2", &H2Client::connect(&nobody).unwrap().get(PODS, &[]).unwrap(), unserved, &fixture);
    assert!(fixture.client_records().is_empty());
}

#[test]
fn name_is_compared_without_case_port_and_one_trailing_dot() {
    let fixture = StubFixture::start("replies-421", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let table = [
        ("prod.example.com", 200),
        ("PROD.Example.com", 200),
        ("prod.example.com:6443", 200),
        ("prod.example.com:1", 200),
        ("prod.example.com.", 200),
        ("Prod.example.com.:443", 200),
        ("10.1.2.3", 200),
        ("10.1.2.3:6443", 200),
        ("[::1]", 200),
        ("[2001:db8::1]:6443", 200),
        ("prod.example.com..", 421),
        ("prod.example.com:x", 421),
        ("prod.example.com:99999999", 421),
        ("other.example.com", 421),
        ("www.prod.example.com", 421),
        ("prod.example.com.evil.com", 421),
        ("user@prod.example.com", 421),
        ("[prod.example.com]", 421),
        (".", 421),
    ];
    for (authority, expected) in table {
        let response = h1(&target, &format!("GET {PODS} HTTP/1.1"), &format!("Host: {authority}\r\n"));
        assert_eq!(response.status, expected, "{authority}: {}", response.text());
        if expected == 421 {
            check(authority, &response, (421, "MisdirectedRequest", false), &fixture);
        }
        match H2Client::connect(&target).unwrap().authority(authority).get(PODS, &[]) {
            Ok(response) => assert_eq!(response.status, expected, "{authority} over HTTP/2"),
            Err(error) => assert!(authority.contains('@'), "HTTP/2 itself refuses {authority}: {error}"),
        }
    }
}

#[test]
fn no_server_is_healthy_or_takes_connections() {
    let mut fixture = StubFixture::without_cluster("replies-down", &GatewayOptions::default());
    let address = ports::free_address().unwrap();
    let down = fixture.cluster(NAME, [address]);
    fixture.gateway.apply(&down).unwrap();
    let (alice, nobody) = (fixture.gateway.target(NAME).identity(&fixture.pki.alice), fixture.gateway.target(NAME));
    let on_every_pool = |what: &str, fixture: &StubFixture| {
        check(&format!("{what}, GET"), &get(&alice, PODS, ""), UNREACHED, fixture);
        check(&format!("{what}, POST"), &post(&alice), UNREACHED, fixture);
        check(&format!("{what}, anonymous"), &get(&nobody, PODS, ""), UNREACHED, fixture);
        check(&format!("{what}, exec"), &get(&alice, EXEC, UPGRADE), UNREACHED, fixture);
    };
    on_every_pool("nobody is healthy", &fixture);
    let grpc = get(&alice, PODS, "Content-Type: application/grpc\r\n");
    assert_eq!(grpc.header("grpc-status").as_deref(), Some("14"), "UNAVAILABLE, and never 0");

    // Once it is found out, the answer is the one from before.
    let seldom = json!({"healthCheck": {"interval": "5m"}});
    fixture.gateway.apply(&fixture.manifest().set("/spec/portcullis", seldom)).unwrap();
    let is_up = || (get(&alice, PODS, "").status == 200 && get(&nobody, "/healthz", "").status == 200).then_some(());
    wait::until("the server is up", SOON, is_up).unwrap();
    let other = fixture.pki.stub("another");
    drop(std::mem::replace(&mut fixture.stub, other));
    let is_down = || get(&alice, PODS, "").text().contains("the connection to the kube-apiserver failed").then_some(());
    wait::until("connections are refused", SOON, is_down).unwrap();
    on_every_pool("connections are refused", &fixture);
}

/// A gateway that lets one request at a time through to each pool, and for a second.
fn narrow(test: &str) -> StubFixture {
    let fixture = StubFixture::without_cluster(test, &GatewayOptions::default());
    let gateway: &Gateway = &fixture.gateway;
    let certificate = default_certificate(gateway.serving_ca()).unwrap();
    let mut object: Value = serde_json::from_str(&settings("e2e", gateway.address(), &certificate)).unwrap();
    object["spec"]["limits"] = json!({"maxRequests": 1});
    gateway.write_file("settings.yaml", &object.to_string()).unwrap();
    gateway.apply(&fixture.manifest().set("/spec/portcullis", json!({"requestTimeout": "1s"}))).unwrap();
    // Two files are two changes.
    let alice = gateway.target(NAME).identity(&fixture.pki.alice);
    let is_served = || Some(H2Client::connect(&alice).ok()?.get(PODS, &[]).ok()?.status == 200).filter(|ok| *ok);
    wait::until("the cluster is served", SOON, is_served).unwrap();
    fixture
}

#[test]
fn server_that_does_not_answer() {
    let fixture = narrow("replies-silent");
    let alice = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let nobody = fixture.gateway.target(NAME);
    let header = ("x-large".to_owned(), "a".repeat(100_000));
    let large = Action::Respond { status: 200, headers: vec![header], body: String::new() };
    let reset = |code| Action::ResetStream { code };
    for (what, action, expected) in [
        ("silent", Action::Hang, TIMED_OUT),
        ("closed", Action::CloseConnection, BROKEN_OFF),
        ("reset", reset(2), BROKEN_OFF),
        ("refused", reset(7), BROKEN_OFF),
        ("an answer that is too large", large, BROKEN_OFF),
    ] {
        fixture.stub.fault(Fault::new("/api", action.clone()));
        check(&format!("{what}, GET"), &get(&alice, PODS, ""), expected, &fixture);
        check(&format!("{what}, POST"), &post(&alice), expected, &fixture);
        check(&format!("{what}, anonymous"), &get(&nobody, PODS, ""), expected, &fixture);
        if action != Action::Hang {
            check(&format!("{what}, exec"), &get(&alice, EXEC, UPGRADE), expected, &fixture);
        }
        fixture.stub.clear_faults();
        let is_well = || (get(&alice, PODS, "").status == 200).then_some(());
        wait::until("the server is well again", SOON, is_well).unwrap();
    }
}

#[test]
fn pool_that_is_full() {
    let fixture = narrow("replies-full");
    let alice = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let client = H2Client::connect(&alice).unwrap();
    let watch = client.open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap();
    assert_eq!(watch.response.status, 200);
    fixture.stub.clear();
    let full = (429, "TooManyRequests", true);
    check("full, GET", &get(&alice, PODS, ""), full, &fixture);
    check("full, POST", &post(&alice), full, &fixture);
    assert!(fixture.client_records().is_empty(), "Retry-After only where the upstream saw nothing");
}

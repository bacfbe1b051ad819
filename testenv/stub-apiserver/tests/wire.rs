//! Records, faults, upgrades and the end of connections.

#![cfg(test)]

mod common;

use std::time::Duration;

use common::{DEADLINE, Fixture};
use portcullis_harness::client::{H2Client, plain};
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault, StubOptions, StubServer};
use serde_json::json;

#[test]
fn records_hold_the_request_as_it_came() {
    let fixture = Fixture::start(|options| options);
    let jane = fixture.user("jane", &["dev"]);
    let request: &[u8] = b"GET /api/v1/namespaces/a%2Fb/pods?watch=0&x=%zz HTTP/1.1\r\nHost: some.host\r\nX-Twice: 1\r\nX-Odd: \xff\xfe\r\nX-Twice: 2\r\nImpersonate-User: eve\r\nConnection: close\r\n\r\n";
    let response = fixture.target().identity(&jane).raw_request(request).unwrap();
    assert_eq!(response.status, 403);
    let [record] = fixture.stub.records().try_into().unwrap();
    assert_eq!(
        (record.method.as_str(), record.target.as_str()),
        ("GET", "/api/v1/namespaces/a%2Fb/pods?watch=0&x=%zz")
    );
    assert_eq!((record.version.as_str(), record.authority.as_str()), ("HTTP/1.1", "some.host"));
    assert_eq!(record.peer_common_name.as_deref(), Some("jane"));
    assert_eq!(record.status, Some(403));
    let lines: Vec<(&str, &[u8])> =
        record.headers.iter().map(|line| (line.name.as_str(), line.value.as_slice())).collect();
    let expected: [(&str, &[u8]); 6] = [
        ("host", b"some.host"),
        ("x-twice", b"1"),
        ("x-twice", b"2"),
        ("x-odd", b"\xff\xfe"),
        ("impersonate-user", b"eve"),
        ("connection", b"close"),
    ];
    assert_eq!(lines, expected);
    fixture.stub.clear();
    assert!(fixture.stub.records().is_empty());

    let garbage = fixture.target().raw_exchange(b"\x00\x01 garbage\r\n\r\n");
    assert!(garbage.is_err() || garbage.unwrap().starts_with(b"HTTP/1.1 400"));
    assert!(fixture.stub.records().is_empty());
    wait::until("the error is counted", DEADLINE, || (fixture.stub.counters().protocol_errors == 1).then_some(()))
        .unwrap();
}

#[test]
fn upgrades_echo_bytes_over_http1_only() {
    let fixture = Fixture::start(|options| options);
    let jane = fixture.user("jane", &["dev"]);
    let path = "/api/v1/namespaces/default/pods/p/exec?command=sh";
    let cases = [
        (
            "GET",
            "websocket",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n",
            "sec-websocket-protocol",
            "v5.channel.k8s.io",
        ),
        (
            "POST",
            "SPDY/3.1",
            "X-Stream-Protocol-Version: v4.channel.k8s.io\r\nContent-Length: 0\r\n",
            "x-stream-protocol-version",
            "v4.channel.k8s.io",
        ),
    ];
    for (method, protocol, extra, header, chosen) in cases {
        let mut connection = fixture.target().identity(&jane).alpn(&["http/1.1"]).connect().unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: {protocol}\r\n{extra}\r\n"
        );
        connection.write(head.as_bytes()).unwrap();
        let response = connection.read_response(false).unwrap();
        assert_eq!(response.status, 101, "{}", response.text());
        assert_eq!(response.header(header).as_deref(), Some(chosen));
        for _ in 0..3 {
            connection.write(b"\x00raw\xff").unwrap();
            assert_eq!(connection.read_exact(5).unwrap(), b"\x00raw\xff");
        }
    }
    assert_eq!(fixture.h2(Some(&jane)).get(path, &[]).unwrap().status, 400);
    let token = "Sec-WebSocket-Protocol: v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.Z29vZA\r\n";
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n{token}\r\n"
    );
    assert_eq!(fixture.target().raw_request(head.as_bytes()).unwrap().status, 101);
    assert_eq!(fixture.stub.records().pop().unwrap().effective.unwrap().username, "tess");
}

#[test]
fn faults_strike_where_they_are_told_to() {
    let fixture = Fixture::start(|options| options);
    let client = fixture.h2(Some(&fixture.user("jane", &[])));
    let get = |path: &str| client.get(path, &[]);
    let garbled =
        Action::Respond { status: 503, headers: vec![("retry-after".into(), "1".into())], body: "{garb".into() };
    fixture.stub.fault(Fault::new("/version", garbled).times(1));
    let response = get("/version").unwrap();
    assert_eq!(
        (response.status, response.header("retry-after").as_deref(), response.text().as_str()),
        (503, Some("1"), "{garb")
    );
    assert_eq!(get("/version").unwrap().status, 200);

    fixture.stub.fault(Fault::new("/version", Action::ResetStream { code: 7 }).times(1));
    let error = get("/version").unwrap_err().to_string();
    assert!(error.contains("refused"), "{error}");
    assert_eq!(get("/version").unwrap().status, 200, "the connection survives a reset stream");

    fixture.stub.fault(Fault::new("/version", Action::Unauthorized).times(1));
    assert_eq!(get("/version").unwrap().status, 401);

    let client = fixture.h2(Some(&fixture.user("jane", &[])));
    fixture.stub.clear_faults();
    fixture.stub.fault(Fault::new("/version", Action::CloseConnection));
    client.get("/version", &[]).unwrap_err();
    wait::until("the connection's end", DEADLINE, || client.is_closed().then_some(())).unwrap();
}

#[test]
fn http2_connection_ends_after_an_unauthenticated_answer() {
    let fixture = Fixture::start(|options| options);
    let jane = fixture.user("jane", &[]);
    let stays = fixture.h2(Some(&jane));
    for _ in 0..3 {
        assert_eq!(stays.get("/version", &[]).unwrap().status, 200);
    }
    for headers in [&[][..], &[("authorization", "Bearer bad")]] {
        let closes = fixture.h2(None);
        closes.get("/version", headers).unwrap();
        wait::until("the connection's end", DEADLINE, || closes.is_closed().then_some(())).unwrap();
    }
    assert!(!stays.is_closed());
}

#[test]
fn watch_sees_what_is_created() {
    let fixture = Fixture::start(|options| options);
    let client = fixture.h2(Some(&fixture.user("jane", &[])));
    let path = "/api/v1/namespaces/default/configmaps";
    let mut watch = client.open("GET", &format!("{path}?watch=true"), &[], b"").unwrap();
    assert_eq!(watch.response.status, 200);
    assert!(watch.next_chunk(Duration::from_millis(200)).is_err(), "nothing happened yet");
    let create = |name: &str| {
        let body = json!({"metadata": {"name": name}}).to_string();
        client.request("POST", path, &[("content-type", b"application/json")], body.as_bytes()).unwrap().status
    };
    assert_eq!((create("a"), create("a")), (201, 409));
    let event: serde_json::Value = serde_json::from_slice(&watch.next_chunk(DEADLINE).unwrap().unwrap()).unwrap();
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("a")));
    assert_eq!(
        client.get(&format!("{path}/none"), &[]).unwrap().json().unwrap()["details"],
        json!({"name": "none", "kind": "configmaps"})
    );
}

#[test]
fn stub_can_come_back_on_its_port() {
    let address = portcullis_harness::ports::free_address().unwrap();
    let fixture = Fixture::start(|options| StubOptions { address, ..options });
    let client = fixture.h2(None);
    let mut watch = client.open("GET", "/version", &[("authorization", b"Bearer good")], b"").unwrap();
    watch.next_chunk(DEADLINE).unwrap();
    drop(fixture.stub);
    wait::until("the connection's end", DEADLINE, || client.is_closed().then_some(())).unwrap();
    let identity =
        fixture.server_ca.issue(&portcullis_harness::certs::CertSpec::server("again", ["stub.test"])).unwrap();
    let again =
        StubServer::start(StubOptions { address, ..StubOptions::new(identity.pem(), identity.key_pem()) }).unwrap();
    assert_eq!(again.address(), address);
}

#[test]
fn admin_page_is_on_a_port_of_its_own() {
    let fixture = Fixture::start(|options| StubOptions { admin_address: Some(([127, 0, 0, 1], 0).into()), ..options });
    let admin = fixture.stub.admin_address().unwrap();
    let fault = json!([{"pathPrefix": "/version", "action": {"type": "respond", "status": 418}}]).to_string();
    assert_eq!(plain::request(admin, "PUT", "/_stub/faults", &[], fault.as_bytes()).unwrap().status, 200);
    let client = H2Client::connect(&fixture.target()).unwrap();
    assert_eq!(client.get("/version", &[("x-a", "b")]).unwrap().status, 418);
    let records = plain::get(admin, "/_stub/requests").unwrap().json().unwrap();
    assert_eq!(records[0]["target"], "/version");
    assert_eq!(records[0]["headers"][0], json!({"name": "x-a", "value": "b", "valueBase64": "Yg=="}));
    assert_eq!(client.get("/_stub/requests", &[("authorization", "Bearer good")]).unwrap().status, 404);
}

#[test]
fn held_requests_run_until_the_faults_are_cleared() {
    let fixture = Fixture::start(|options| options);
    let jane = fixture.user("jane", &["dev"]);
    let client = fixture.h2(Some(&jane));
    let pods = "/api/v1/namespaces/default/pods";
    fixture.stub.fault(Fault::new(pods, Action::Hold));
    fixture.stub.fault(Fault::new(pods, Action::ResetStream { code: 2 }).times(1));
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..3).map(|_| scope.spawn(|| client.get(pods, &[]).is_ok())).collect();
        let all_held = || (fixture.stub.running() == 3).then_some(());
        wait::until("all are held", DEADLINE, all_held).unwrap();
        fixture.stub.clear_faults();
        let answered = asking.into_iter().map(|thread| thread.join().unwrap());
        assert_eq!(answered.filter(|is_answered| *is_answered).count(), 2, "one was to be reset after its release");
    });
    assert_eq!((fixture.stub.running(), fixture.stub.take_peak()), (0, 3));
    let watch = client.open("GET", &format!("{pods}?watch=true"), &[], b"").unwrap();
    assert_eq!(fixture.stub.running(), 1, "a watch runs on");
    drop(watch);
    wait::until("the watch has ended", DEADLINE, || (fixture.stub.running() == 0).then_some(())).unwrap();
    assert_eq!((fixture.stub.take_peak(), fixture.stub.take_peak()), (1, 0));
}

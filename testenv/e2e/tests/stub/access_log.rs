//! The access log: a line for each request that the cluster and its policy want logged, for any input of clients.

use std::time::Duration;

use portcullis_e2e::{GatewayOptions, allow_all};
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::process::Process;
use portcullis_harness::{deps, wait};
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, ROBOT, StubFixture};

const SOON: Duration = Duration::from_secs(20);

/// All lines that parse; what begins like one must.
pub(crate) fn lines(fixture: &StubFixture) -> Vec<Value> {
    lines_of(fixture.gateway.envoy().process())
}

/// The lines on the output of an Envoy, or of its agent.
pub(crate) fn lines_of(envoy: &Process) -> Vec<Value> {
    let text = envoy.stdout();
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// The line of the request with this user agent.
pub(crate) fn line(fixture: &StubFixture, agent: &str) -> Value {
    let find = || lines(fixture).into_iter().find(|line| line["userAgent"] == agent);
    wait::until(&format!("a line of {agent}"), SOON, find).unwrap()
}

fn logging(test: &str, options: &GatewayOptions, mode: &str, policies: Value) -> StubFixture {
    let fixture = StubFixture::start(test, options);
    let manifest = fixture.manifest().set("/spec/logging", json!({"mode": mode})).policies(policies);
    fixture.gateway.apply(&manifest).unwrap();
    fixture
}

fn get(target: &TlsTarget, path: &str, headers: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n{headers}\r\n");
    target.raw_request(request.as_bytes()).unwrap().status
}

#[test]
fn line_tells_who_asked_for_what_and_what_became_of_it() {
    for version in deps::envoy_versions() {
        let options = GatewayOptions { envoy_version: Some(version.clone()), ..GatewayOptions::default() };
        entry_has_every_field(&logging(&format!("tells-{version}"), &options, "on", json!([{"rules": [allow_all()]}])));
    }
}

fn entry_has_every_field(fixture: &StubFixture) {
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    assert_eq!(get(&target, &format!("{PODS}?limit=5&secret=hidden"), "User-Agent: one\r\n"), 200);
    let one = line(fixture, "one");
    let expected = json!({
        "cluster": NAME, "method": "GET", "path": PODS, "verb": "list", "apiVersion": "v1", "resource": "pods",
        "namespace": "default", "user": "alice", "groups": ["dev", "system:authenticated"], "policy": "0", "schema": "-",
        "serverGroup": "all", "decision": "forwarded", "reason": "-", "code": 200, "protocol": "HTTP/1.1",
        "client": "127.0.0.1", "endpoint": fixture.stub.address().to_string(), "attempts": 1,
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&one[name], value, "{name} in {one}");
    }
    assert!(one["durationMs"].is_u64() && one["bytesSent"].as_u64().unwrap() > 0, "{one}");
    assert!(one["time"].as_str().unwrap().starts_with("20"), "{one}");
    assert!(!one["requestId"].as_str().unwrap().is_empty(), "{one}");

    let admin = fixture.gateway.target(NAME).identity(&fixture.pki.admin);
    let asked = [("impersonate-user", "bob"), ("user-agent", "two")];
    assert_eq!(H2Client::connect(&admin).unwrap().get("/version", &asked).unwrap().status, 200);
    let two = line(fixture, "two");
    assert_eq!((&two["user"], &two["impersonatedUser"]), (&json!("admin"), &json!("bob")), "{two}");
    assert_eq!((&two["verb"], two.get("resource")), (&json!("get"), None), "{two}");

    let nobody = fixture.gateway.target(NAME);
    assert_eq!(get(&nobody, PODS, "Authorization: Bearer nonsense\r\nUser-Agent: three\r\n"), 401);
    let three = line(fixture, "three");
    assert_eq!((&three["decision"], &three["reason"]), (&json!("refused"), &json!("unauthorized")), "{three}");
    assert_eq!((&three["code"], three.get("user")), (&json!(401), None), "{three}");
    assert_eq!(get(&nobody, "/version", "User-Agent: four\r\n"), 200);
    assert_eq!(line(fixture, "four")["user"], "system:anonymous");
    assert_eq!(get(&nobody, "/api/v1/%zz", "User-Agent: five\r\n"), 400);
    assert_eq!(line(fixture, "five")["path"], "/api/v1/%zz");

    // Not HTTP: Envoy's own answer.
    let _ = target.raw_exchange(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\"\r\n\r\n");
    let malformed = || lines(fixture).into_iter().find(|line| line["reason"] == "malformed");
    assert_eq!(wait::until("a line of what is no HTTP", SOON, malformed).unwrap()["code"], 400);
    let _ = get(&TlsTarget::new(fixture.gateway.address()).sni("nobody.example.com"), "/", "");
    let stranger = || lines(fixture).into_iter().find(|line| line["reason"] == "not_served");
    assert_eq!(wait::until("a line of a stranger", SOON, stranger).unwrap()["sni"], "nobody.example.com");
}

#[test]
fn modes_of_cluster_and_policy_decide_together() {
    let fixture = logging("modes", &GatewayOptions::default(), "on", json!([{"rules": [allow_all()]}]));
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let table = [("", "", false), ("", "on", true), ("on", "", true), ("on", "off", false), ("off", "on", false)];
    for (number, (cluster, policy, is_logged)) in table.into_iter().enumerate() {
        let policies = json!([{"rules": [allow_all()], "logMode": policy}, {"rules": [allow_all()]}]);
        let manifest = fixture.manifest().set("/spec/logging", json!({"mode": cluster})).policies(policies);
        fixture.gateway.apply(&manifest).unwrap();
        assert_eq!(get(&target, PODS, &format!("User-Agent: row-{number}\r\n")), 200);
        // Streams that are not HTTP are logged in any mode, and later.
        let _ = target.raw_exchange(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n");
        let told = || lines(&fixture).iter().filter(|line| line["reason"] == "malformed").count() > number;
        wait::until("the line after it", SOON, || told().then_some(())).unwrap();
        let found = || lines(&fixture).iter().any(|line| line["userAgent"] == format!("row-{number}"));
        if is_logged {
            wait::until(&format!("the line of {cluster:?} {policy:?}"), SOON, || found().then_some(())).unwrap();
        }
        assert_eq!(found(), is_logged, "{cluster:?} {policy:?}");
    }
    // The last line after it may have come from another worker; by this time no line is missing.
    let logged: Vec<Value> = lines(&fixture);
    for (number, (cluster, policy, is_logged)) in table.into_iter().enumerate() {
        let found = logged.iter().filter(|line| line["userAgent"] == format!("row-{number}")).count();
        assert_eq!(found, usize::from(is_logged), "{cluster:?} {policy:?}");
    }
}

#[test]
fn client_input_breaks_no_line_and_forges_no_field() {
    let fixture = logging("hostile", &GatewayOptions::default(), "on", json!([{"rules": [allow_all()]}]));
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let forged = r#"x","user":"admin","decision":"forwarded"#;
    let long = "a".repeat(40 * 1024);
    let agents = [forged.to_owned(), "\\".to_owned(), "\\\"".to_owned(), "caf\u{e9}\u{2028}%RESP(x)%".to_owned(), long];
    for agent in &agents {
        let _ = get(&target, &format!("{PODS}/\"\\"), &format!("User-Agent: {agent}\r\n"));
    }
    let mut bytes = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\nUser-Agent: b").into_bytes();
    bytes.extend(b"\xff\xfe\x80\t\xed\xa0\x80\r\n\r\n");
    let _ = target.raw_exchange(&bytes);
    let _ = get(
        &target,
        &format!("/api/v1/namespaces/{}/pods/{}", "n".repeat(20_000), "p".repeat(20_000)),
        "User-Agent: long\r\n",
    );
    let _ = get(&target, PODS, "User-Agent: last\r\nX-Request-Id: \",\"user\":\"eve\r\n");
    let last = line(&fixture, "last");
    assert!(last["requestId"].as_str().unwrap().len() < 70);
    let text = fixture.gateway.envoy().process().stdout();
    assert!(text.lines().all(|line| line.len() < 8_000), "lines are bounded");
    // Each worker writes its own.
    let all = || Some(lines(&fixture)).filter(|lines| lines.len() >= agents.len() + 3);
    let lines = wait::until("a line of each", SOON, all).unwrap();
    assert_eq!(lines.len(), agents.len() + 3, "{lines:#?}");
    for line in &lines {
        assert!(line.get("user").is_none_or(|user| user == "alice"), "{line}");
    }
    let told = |agent: &str| lines.iter().any(|line| line["userAgent"] == agent);
    assert!(agents[..4].iter().all(|agent| told(agent)), "{lines:#?}");
    assert!(told("b\u{fffd}\u{fffd}\u{fffd}\t\u{fffd}\u{fffd}\u{fffd}"), "{lines:#?}");
}

#[test]
fn no_token_and_no_command_is_told() {
    let fixture = logging("secrets", &GatewayOptions::default(), "on", json!([{"rules": [allow_all()]}]));
    let target = fixture.gateway.target(NAME);
    let exec = "/api/v1/namespaces/default/pods/p/exec?command=rm&command=the-command-line&container=c";
    let robot = format!("Authorization: Bearer {ROBOT}\r\nUser-Agent: robot\r\n");
    assert_eq!(get(&target, PODS, &robot), 200);
    assert_eq!(line(&fixture, "robot")["user"], "robot");
    for agent in ["exec", "socket"] {
        let mut headers = format!("User-Agent: {agent}\r\nAuthorization: Bearer {ROBOT}\r\n");
        if agent == "socket" {
            headers = format!(
                "User-Agent: {agent}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io, \
                 base64url.bearer.authorization.k8s.io.dGhlLXRva2VuLW9mLXRoZS1yb2JvdA\r\n"
            );
        }
        let request = format!("GET {exec} HTTP/1.1\r\nHost: {NAME}\r\n{headers}\r\n");
        let mut connection = target.connect().unwrap();
        connection.write(request.as_bytes()).unwrap();
        let _ = connection.read_head().unwrap();
        drop(connection);
        let told = line(&fixture, agent);
        assert_eq!((&told["subresource"], &told["name"]), (&json!("exec"), &json!("p")), "{told}");
        assert_eq!(told["user"], "robot", "{told}");
    }
    let text = fixture.gateway.envoy().process().log();
    for secret in [ROBOT, "dGhlLXRva2Vu", "the-command-line", "command="] {
        assert!(!text.contains(secret), "{secret}");
    }
}

#[test]
fn line_parses_for_every_end_of_a_request() {
    let fixture = logging("endings", &GatewayOptions::default(), "on", json!([{"rules": [allow_all()]}]));
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let request = |agent: &str, path: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\nUser-Agent: {agent}\r\n\r\n").into_bytes()
    };
    // A client that leaves while the server thinks.
    fixture.stub.fault(Fault::new("/api/v1/namespaces/slow", Action::Delay { millis: 60_000 }));
    let mut leaver = target.connect().unwrap();
    leaver.write(&request("leaver", "/api/v1/namespaces/slow/pods")).unwrap();
    let asked = || (!fixture.stub.records_for("/api/v1/namespaces/slow/pods").is_empty()).then_some(());
    wait::until("the server has the request", SOON, asked).unwrap();
    drop(leaver);
    let left = line(&fixture, "leaver");
    assert_eq!(
        (&left["code"], &left["flags"], &left["decision"]),
        (&json!(0), &json!("DC"), &json!("forwarded")),
        "{left}"
    );

    // A watch that ends when its client goes.
    let client = H2Client::connect(&target).unwrap();
    let watch = client.open("GET", &format!("{PODS}?watch=true"), &[("user-agent", b"watch")], b"").unwrap();
    drop(watch);
    assert_eq!(line(&fixture, "watch")["verb"], "watch");

    // An unknown upgrade, and too many headers: Envoy's own answers.
    let upgrade = format!("GET / HTTP/1.1\r\nHost: {NAME}\r\nConnection: Upgrade\r\nUpgrade: \"x\r\n\r\n");
    let _ = target.raw_exchange(upgrade.as_bytes());
    let large = format!("GET / HTTP/1.1\r\nHost: {NAME}\r\nX-Large: {}\r\n\r\n", "x".repeat(100 * 1024));
    let _ = target.raw_exchange(large.as_bytes());
    let malformed = || (lines(&fixture).iter().filter(|line| line["reason"] == "malformed").count() >= 2).then_some(());
    wait::until("lines of what Envoy refuses", SOON, malformed)
        .unwrap_or_else(|e| panic!("{e} {:#?}", lines(&fixture)));
}

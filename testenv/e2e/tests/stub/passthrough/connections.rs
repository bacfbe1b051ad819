use std::net::SocketAddr;
use std::time::Duration;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::{deps, ports, wait};
use serde_json::json;

use super::{passed_on, stub, target};
use crate::access_log::lines;
use crate::fixture::{NAME, PODS, ROBOT, StubFixture, connect};

const SOON: Duration = Duration::from_secs(20);
const OTHER: &str = "other.example.com";

#[test]
fn server_sees_the_clients_own_credential_and_nothing_else() {
    for version in deps::envoy_versions() {
        let options = GatewayOptions { envoy_version: Some(version.clone()), ..GatewayOptions::default() };
        let fixture = StubFixture::without_cluster(&format!("passed-on-{version}"), &options);
        let server = stub(&fixture, "stub-1");
        fixture.gateway.apply(&passed_on([&server])).unwrap();
        let alice = connect(&target(&fixture));
        let forged = [("x-remote-user", "mallory"), ("via", "1.1 elsewhere"), ("x-forwarded-for", "192.0.2.1")];
        assert_eq!(alice.get(PODS, &forged).unwrap().status, 200, "{version}");
        let robot = TlsTarget::new(fixture.gateway.address()).sni(NAME).trust(&fixture.pki.server_ca);
        let bearer = format!("Bearer {ROBOT}");
        assert_eq!(connect(&robot).get(PODS, &[("authorization", &bearer)]).unwrap().status, 200, "{version}");
        let [of_alice, of_robot] = &server.records_for(PODS)[..] else { panic!("{version}: two requests") };
        assert_eq!(of_alice.peer_common_name.as_deref(), Some("alice"));
        assert_eq!(of_alice.effective.as_ref().map(|user| user.username.as_str()), Some("alice"));
        for (name, value) in forged {
            assert_eq!(of_alice.header_all(name), [value], "{version}: as the client wrote it");
        }
        assert_eq!(of_robot.header("authorization"), Some(bearer));
        for record in server.records() {
            assert_ne!(record.peer_common_name.as_deref(), Some("portcullis"), "{}", record.target);
            assert!(record.header_names_with_prefix("impersonate-").is_empty(), "{}", record.target);
        }
    }
}

#[test]
fn name_of_no_cluster_reaches_no_server() {
    let fixture = StubFixture::without_cluster("passed-on-names", &GatewayOptions::default());
    let server = stub(&fixture, "stub-1");
    fixture.gateway.apply(&passed_on([&server])).unwrap();
    let judged = fixture.cluster(OTHER, [fixture.stub.address()]);
    fixture.gateway.apply(&judged).unwrap();
    // With alice's certificate and any of the server's: at the server she would be answered 200.
    for name in ["stranger.example.com", "sub.prod.example.com"] {
        let stranger = TlsTarget::new(fixture.gateway.address()).sni(name).identity(&fixture.pki.alice);
        assert_eq!(connect(&stranger).get(PODS, &[]).unwrap().status, 503, "{name}");
    }

    // A connection of another cluster, on which the name is asked for as its certificate seems to allow.
    let other = H2Client::connect(&fixture.gateway.target(OTHER).identity(&fixture.pki.alice)).unwrap();
    assert_eq!(other.get(PODS, &[]).unwrap().status, 200);
    assert_eq!(other.authority(NAME).get(PODS, &[]).unwrap().status, 421);
    assert_eq!(server.records_for(PODS).len(), 0);
    // And the other way round the name inside is the server's own matter.
    let passed = connect(&target(&fixture)).authority(OTHER);
    assert_eq!(passed.get(PODS, &[]).unwrap().status, 200);
    assert_eq!((server.records_for(PODS).len(), fixture.client_records().len()), (1, 1));
}

#[test]
fn connection_without_tls_is_not_passed_on() {
    let listener = json!({"virtualIPs": ["127.1.0.0/16"]});
    let fixture =
        StubFixture::without_cluster("passed-on-plain", &GatewayOptions { listener, ..GatewayOptions::default() });
    fixture.gateway.change_settings(|spec| spec["listener"]["address"] = json!("0.0.0.0")).unwrap();
    let server = stub(&fixture, "stub-1");
    let manifest = passed_on([&server]);
    let mut fields = manifest.get("/spec/portcullis");
    fields["virtualIPs"] = json!(["127.1.0.1"]);
    fixture.gateway.apply(&manifest.set("/spec/portcullis", fields)).unwrap();
    let at = SocketAddr::from(([127, 1, 0, 1], fixture.gateway.address().port()));
    // Any name leads there, or none.
    let alice = TlsTarget::new(at).sni("kubernetes").trust(&fixture.pki.server_ca).identity(&fixture.pki.alice);
    assert_eq!(connect(&alice).get(PODS, &[]).unwrap().status, 200);
    let before = server.counters();
    let mut plain = std::net::TcpStream::connect(at).unwrap();
    plain.set_read_timeout(Some(SOON * wait::deadline_factor())).unwrap();
    std::io::Write::write_all(&mut plain, format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = Vec::new();
    // The end of it, or a reset: what is read is none of a server's answers.
    let _ = std::io::Read::read_to_end(&mut plain, &mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1 400 Bad Request"), "the server's own answer");
    // A later connection, so that all of the one before is counted.
    assert_eq!(connect(&alice).get(PODS, &[]).unwrap().status, 200);
    let after = server.counters();
    assert_eq!(after.handshakes_failed, before.handshakes_failed, "bytes without TLS came: {after:?}");
    assert_eq!(server.records_for(PODS).len(), 2, "{before:?} {after:?}");
}

#[test]
fn clients_from_elsewhere_are_refused_before_the_handshake() {
    let fixture = StubFixture::without_cluster("passed-on-addresses", &GatewayOptions::default());
    let server = stub(&fixture, "stub-1");
    let manifest = passed_on([&server]);
    let mut fields = manifest.get("/spec/portcullis");
    for (range, may) in [("127.0.0.0/8", true), ("192.0.2.0/24", false)] {
        fields["clientAddresses"] = json!({"allow": [range]});
        fixture.gateway.apply(&manifest.clone().set("/spec/portcullis", fields.clone())).unwrap();
        fixture.gateway.wait_for_every_worker().unwrap();
        assert_eq!(target(&fixture).connect().is_ok(), may, "{range}");
    }
}

#[test]
fn frozen_cluster_closes_connections() {
    let fixture = StubFixture::without_cluster("passed-on-frozen", &GatewayOptions::default());
    let server = stub(&fixture, "stub-1");
    fixture.gateway.apply(&passed_on([&server])).unwrap();
    assert!(target(&fixture).connect().is_ok());
    let frozen = json!({"portcullis.dev/profile": "frozen"});
    fixture.gateway.apply(&passed_on([&server]).set("/metadata/annotations", frozen)).unwrap();
    fixture.gateway.wait_for_every_worker().unwrap();
    assert!(target(&fixture).connect().is_err());
}

#[test]
fn tunnel_leads_to_a_cluster_that_is_passed_on() {
    let port = ports::free_address().unwrap().port();
    let listener = json!({"tunnel": {"port": port}});
    let fixture =
        StubFixture::without_cluster("passed-on-tunnel", &GatewayOptions { listener, ..GatewayOptions::default() });
    let server = stub(&fixture, "stub-1");
    fixture.gateway.apply(&passed_on([&server])).unwrap();
    let door = SocketAddr::new(fixture.gateway.address().ip(), port);
    let request = format!("CONNECT any:443 HTTP/1.1\r\nHost: any:443\r\nX-Gardener-Destination: {NAME}\r\n\r\n");
    let alice = TlsTarget::new(door).sni(NAME).trust(&fixture.pki.server_ca).identity(&fixture.pki.alice);
    let ask = || connect(&alice.clone().tunnel(request.as_bytes())).get(PODS, &[]).unwrap().status;
    assert_eq!(ask(), 200);
    assert_eq!(server.records_for(PODS)[0].peer_common_name.as_deref(), Some("alice"));
}

#[test]
fn connection_is_counted_and_logged() {
    let fixture = StubFixture::without_cluster("passed-on-log", &GatewayOptions::default());
    let server = stub(&fixture, "stub-1");
    fixture.gateway.apply(&passed_on([&server]).set("/spec/logging", json!({"mode": "on"}))).unwrap();
    let alice = connect(&target(&fixture));
    assert_eq!(alice.get(PODS, &[]).unwrap().status, 200);
    let stat = |name: &str| fixture.gateway.envoy().admin().stat(name).unwrap();
    let pool = format!("cluster.e2e/-/{}/all_tcp", NAME.replace('.', "_"));
    assert_eq!(stat(&format!("{pool}.upstream_cx_active")), 1);
    drop(alice);
    let line = || lines(&fixture).into_iter().find(|line| line["decision"] == "passed_on");
    let line = wait::until("a line of the connection", SOON, line).unwrap();
    assert_eq!((&line["cluster"], &line["sni"]), (&json!(NAME), &json!(NAME)), "{line}");
    assert_eq!(line["endpoint"], server.address().to_string(), "{line}");
    assert!(line["bytesSent"].as_u64().unwrap() > 0 && line["durationMs"].is_u64(), "{line}");
    let clients = format!("tcp.{}", NAME.replace('.', "_"));
    assert_eq!(stat(&format!("{clients}.downstream_cx_total")), 1);
    for bytes in ["downstream_cx_rx_bytes_total", "downstream_cx_tx_bytes_total"] {
        assert!(stat(&format!("{clients}.{bytes}")) > 0, "{bytes}");
    }
}

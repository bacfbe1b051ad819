//! Virtual IPs, and clients that come through proxies: who they are and whom they reach is what a trusted proxy says.

use std::net::SocketAddr;
use std::time::Duration;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::{Response, TlsTarget};
use portcullis_harness::{Result, ports, wait};
use portcullis_stub_apiserver::StubServer;
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, StubFixture};

const SOON: Duration = Duration::from_secs(20);
const OTHER: &str = "other.example.com";
const VIRTUAL: &str = "127.1.2.3";
const CLIENT: &str = "203.0.113.7";

/// The fixture's cluster has the virtual IP; another one has none.
struct Two {
    fixture: StubFixture,
    other: StubServer,
}

impl Two {
    fn start(test: &str, listener: Value) -> Self {
        let mut listener = listener;
        listener["virtualIPs"] = json!(["127.1.0.0/16"]);
        let fixture = StubFixture::without_cluster(test, &GatewayOptions { listener, ..GatewayOptions::default() });
        let other = fixture.pki.stub("other");
        let serving = fixture.gateway.serving_identity(OTHER).unwrap();
        let manifest = fixture.manifest().set("/metadata/name", json!(OTHER));
        let manifest = manifest.serving(&serving, &fixture.pki.client_ca);
        fixture.gateway.write(&manifest.set("/spec/servers", json!([{"endpoint": other.url()}]))).unwrap();
        let own = json!({"virtualIPs": [VIRTUAL], "auditAttribution": true});
        fixture.gateway.write(&fixture.manifest().set("/spec/portcullis", own)).unwrap();
        fixture
            .gateway
            .plane()
            .wait_status("both are served", SOON, |status| {
                let objects = status["objects"].as_array().cloned().unwrap_or_default();
                let is_there = |name| objects.iter().any(|one| one["name"] == name && one["accepted"] == true);
                is_there(NAME) && is_there(OTHER) && status["nodes"][0]["inSync"] == true
            })
            .unwrap();
        fixture.gateway.wait_for_every_worker().unwrap();
        Two { fixture, other }
    }

    fn target(&self, ip: &str, port: u16) -> TlsTarget {
        TlsTarget::new(SocketAddr::new(ip.parse().unwrap(), port)).identity(&self.fixture.pki.alice)
    }

    fn port(&self) -> u16 {
        self.fixture.gateway.address().port()
    }

    /// Which requests of clients came through, and to whom.
    fn came(&self) -> (usize, usize) {
        (self.fixture.stub.records_for(PODS).len(), self.other.records_for(PODS).len())
    }

    /// The newest request to the cluster with the virtual IP came from that address, in every place that shows it.
    fn came_from(&self, address: &str) {
        let record = self.fixture.stub.records_for(PODS).pop().unwrap();
        assert_eq!(record.header("x-forwarded-for").as_deref(), Some(address));
        assert_eq!(record.header("impersonate-extra-portcullis.dev%2fclient-address").as_deref(), Some(address));
    }
}

fn get(target: &TlsTarget, host: &str) -> Result<Response> {
    // Forged: the address is the connection's, or its PROXY header's.
    let forged = "X-Forwarded-For: 192.0.2.66\r\nX-Real-Ip: 192.0.2.66\r\nForwarded: for=192.0.2.66\r\n";
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {host}\r\n{forged}Connection: close\r\n\r\n");
    target.raw_request(request.as_bytes())
}

fn status(target: &TlsTarget, host: &str) -> u16 {
    get(target, host).unwrap().status
}

/// A PROXY header, version 1.
pub(crate) fn proxied(from: &str, to: &str) -> Vec<u8> {
    format!("PROXY TCP4 {from} {to} 40000 6443\r\n").into_bytes()
}

/// The same, version 2.
fn proxied_2(from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend(from.iter().chain(&to));
    header.extend([0x9c, 0x40, 0x19, 0x2b]);
    header
}

#[test]
fn virtual_ip_leads_to_its_cluster_whatever_name_is_asked_for() {
    let two = Two::start("doors-virtual", json!({"address": "0.0.0.0"}));
    let port = two.port();
    let virtual_ip = two.target(VIRTUAL, port);
    // Workers learn of new chains one after the other.
    let is_there = || (get(&virtual_ip, VIRTUAL).ok()?.status == 200).then_some(());
    wait::until("the virtual IP answers", SOON, is_there).unwrap();
    two.fixture.stub.clear();
    assert_eq!(status(&virtual_ip, &format!("{VIRTUAL}:{port}")), 200, "no name at all");
    assert_eq!(status(&virtual_ip.clone().sni("unheard.of"), NAME), 200);
    assert_eq!(two.came(), (2, 0));
    assert_eq!(status(&virtual_ip.clone().sni(OTHER), OTHER), 421, "not the other cluster's place");
    assert_eq!(two.came(), (2, 0));

    let common = two.target("127.0.0.1", port);
    assert_eq!(status(&common.clone().sni(OTHER), OTHER), 200);
    assert_eq!(status(&common.clone().sni(NAME), NAME), 200, "the name goes on leading there");
    assert_eq!(two.came(), (3, 1));
    assert_eq!(status(&common, &format!("127.0.0.1:{port}")), 503, "an address that is nobody's, and no name");
    assert_eq!(two.came(), (3, 1));
}

#[test]
fn trusted_proxy_gives_the_clients_address_and_target() {
    let port = ports::free_address().unwrap().port();
    let proxies = json!({"port": port, "trustedProxies": ["127.0.0.1"]});
    let two = Two::start("doors-proxied", json!({"proxyProtocol": proxies}));
    let door = two.target("127.0.0.1", port);
    let opened = || get(&door.clone().preamble(&proxied(CLIENT, VIRTUAL)), VIRTUAL).ok();
    assert_eq!(wait::until("the door opens", SOON, opened).unwrap().status, 200);
    two.came_from(CLIENT);
    let second = proxied_2([203, 0, 113, 8], [127, 1, 2, 3]);
    assert_eq!(status(&door.clone().preamble(&second), VIRTUAL), 200);
    two.came_from("203.0.113.8");
    let elsewhere = proxied(CLIENT, "198.51.100.1");
    assert_eq!(status(&door.clone().sni(OTHER).preamble(&elsewhere), OTHER), 200);
    assert_eq!(two.came(), (2, 1));
    assert_eq!(status(&door.clone().sni("unheard.of").preamble(&elsewhere), "unheard.of"), 503);

    assert!(get(&door.clone().sni(NAME), NAME).is_err(), "a proxy says who the client is");
    let direct = two.target("127.0.0.1", two.port()).sni(NAME);
    assert!(get(&direct.clone().preamble(&proxied(CLIENT, VIRTUAL)), NAME).is_err(), "there is no proxy at this door");
    assert_eq!(two.came(), (2, 1));
    assert_eq!(status(&direct, NAME), 200);
}

/// The first header is the proxy's. The bytes after it are the client's, and no TLS handshake.
#[test]
fn second_proxy_header_ends_the_connection() {
    let port = ports::free_address().unwrap().port();
    let proxies = json!({"port": port, "trustedProxies": ["127.0.0.1"]});
    let two = Two::start("doors-doubled", json!({"proxyProtocol": proxies}));
    let door = two.target("127.0.0.1", port).sni(NAME).timeout(Duration::from_secs(3));
    let elsewhere = "198.51.100.1";
    let opened = || get(&door.clone().preamble(&proxied(CLIENT, elsewhere)), NAME).ok();
    assert_eq!(wait::until("the door opens", SOON, opened).unwrap().status, 200);
    let came = two.came();
    let firsts = [proxied(CLIENT, elsewhere), proxied_2([203, 0, 113, 7], [198, 51, 100, 1])];
    let seconds = [proxied("192.0.2.66", VIRTUAL), proxied_2([192, 0, 2, 66], [127, 1, 2, 3])];
    for first in &firsts {
        for second in &seconds {
            let doubled = [first.as_slice(), second].concat();
            assert!(get(&door.clone().preamble(&doubled), NAME).is_err(), "{doubled:02x?}");
        }
    }
    assert_eq!(two.came(), came);
}

#[test]
fn untrusted_peer_cannot_claim_another_address() {
    let proxies = json!({"trustedProxies": ["192.0.2.0/24"]});
    let two = Two::start("doors-forged", json!({"proxyProtocol": proxies}));
    let door = two.target("127.0.0.1", two.port()).timeout(Duration::from_secs(3));
    for header in [
        proxied("192.0.2.1", VIRTUAL),
        proxied(CLIENT, VIRTUAL),
        proxied("127.0.0.1", "127.0.0.1"),
        proxied_2([192, 0, 2, 1], [127, 1, 2, 3]),
        Vec::new(),
    ] {
        for name in [NAME, "unheard.of"] {
            let refused = get(&door.clone().sni(name).preamble(&header), name);
            assert!(refused.is_err(), "{:?}: {}", String::from_utf8_lossy(&header), refused.unwrap().text());
        }
        assert!(get(&door.clone().preamble(&header), VIRTUAL).is_err());
    }
    assert_eq!(two.came(), (0, 0));
    // All come through proxies there, once one is trusted.
    let trust = |spec: &mut Value| spec["listener"]["proxyProtocol"]["trustedProxies"] = json!(["127.0.0.1/32"]);
    two.fixture.gateway.change_settings(trust).unwrap();
    let trusted = || get(&door.clone().preamble(&proxied(CLIENT, VIRTUAL)), VIRTUAL).ok();
    assert_eq!(wait::until("the proxy is trusted", SOON, trusted).unwrap().status, 200);
    two.came_from(CLIENT);
    assert!(get(&door.clone().sni(NAME), NAME).is_err());
}

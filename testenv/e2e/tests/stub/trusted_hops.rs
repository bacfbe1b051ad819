//! `listener.trustedHops`: behind HTTP proxies the client's address is the entry of `X-Forwarded-For` that the outermost
//! trusted one wrote. Servers, extras of attribution and the access log see that address and nothing that a client wrote.

use portcullis_e2e::{GatewayOptions, allow_all};
use portcullis_harness::client::{H2Client, TlsTarget};
use serde_json::json;

use crate::access_log::line;
use crate::fixture::{NAME, PODS, StubFixture};

const CONNECTION: &str = "127.0.0.1";
const PROXIED: &str = "203.0.113.7";

/// How many proxies are trusted, the lines of `X-Forwarded-For`, and the address that is believed; `None` is the connection's.
const CASES: [(u32, &[&str], Option<&str>); 22] = [
    (1, &["192.0.2.1"], Some("192.0.2.1")),
    (1, &["198.51.100.66, 192.0.2.1"], Some("192.0.2.1")),
    (1, &["198.51.100.66", "192.0.2.1"], Some("192.0.2.1")),
    (1, &["198.51.100.66,192.0.2.1 "], Some("192.0.2.1")),
    (1, &["2001:db8::1"], Some("2001:db8::1")),
    (1, &["198.51.100.66, 2001:DB8:0::1"], Some("2001:db8::1")),
    (1, &[], None),
    (1, &[""], None),
    (1, &["198.51.100.66,"], None),
    (1, &["", "192.0.2.1"], Some("192.0.2.1")),
    (1, &["198.51.100.66, , "], None),
    (1, &["198.51.100.66, unknown"], None),
    (1, &["198.51.100.66, 192.0.2.1.example.com"], None),
    (1, &["198.51.100.66, for=192.0.2.1"], None),
    (1, &["198.51.100.66, 192.0.2.256"], None),
    (2, &["192.0.2.1, 10.0.0.1"], Some("192.0.2.1")),
    (2, &["192.0.2.1", "10.0.0.1"], Some("192.0.2.1")),
    (2, &["198.51.100.66", "198.51.100.67, 192.0.2.1, 10.0.0.1"], Some("192.0.2.1")),
    (2, &["198.51.100.66, 2001:db8::1, 10.0.0.1"], Some("2001:db8::1")),
    (2, &["192.0.2.1"], None),
    (2, &["198.51.100.66, , 10.0.0.1"], None),
    (2, &["198.51.100.66, garbage, 10.0.0.1"], None),
];

fn fixture(test: &str, listener: serde_json::Value) -> StubFixture {
    let fixture = StubFixture::without_cluster(test, &GatewayOptions { listener, ..GatewayOptions::default() });
    let manifest = fixture.manifest().set("/spec/portcullis", json!({"auditAttribution": true}));
    let manifest = manifest.set("/spec/logging", json!({"mode": "on"})).policies(json!([{"rules": [allow_all()]}]));
    fixture.gateway.apply(&manifest).unwrap();
    fixture
}

/// Sends the lines beside other forged headers, over each version of HTTP, and compares the address at every place.
fn expect(fixture: &StubFixture, target: &TlsTarget, name: &str, lines: &[&str], address: &str) {
    let forged = [("x-real-ip", "198.51.100.66"), ("forwarded", "for=198.51.100.66"), ("x-forwarded-proto", "http")];
    let listed = lines.iter().map(|line| ("x-forwarded-for", *line));
    let headers: Vec<_> = listed.chain(forged).collect();
    for protocol in ["h2", "http1"] {
        let agent = format!("{name}-{protocol}");
        let mut headers = headers.clone();
        headers.push(("user-agent", &agent));
        fixture.stub.clear();
        let status = if protocol == "h2" {
            H2Client::connect(target).unwrap().get(PODS, &headers).unwrap().status
        } else {
            let head: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\n{head}Connection: close\r\n\r\n");
            target.raw_request(request.as_bytes()).unwrap().status
        };
        assert_eq!(status, 200, "{agent} {lines:?}");
        let record = fixture.client_records().pop().unwrap();
        assert_eq!(record.header_all("x-forwarded-for"), [address], "{agent} {lines:?}");
        let told = record.header("impersonate-extra-portcullis.dev%2fclient-address");
        assert_eq!(told.as_deref(), Some(address), "{agent} {lines:?}");
        assert_eq!(line(fixture, &agent)["client"], address, "{agent} {lines:?}");
        assert_eq!(record.header("x-forwarded-proto").as_deref(), Some("https"), "{agent}");
        for name in ["x-real-ip", "forwarded"] {
            assert_eq!(record.header(name), None, "{agent} {name}");
        }
    }
}

#[test]
fn trusted_hops_name_one_address_and_hide_forged_ones() {
    let fixture = fixture("trusted-hops", json!({"trustedHops": 1}));
    let mut hops = 1;
    for (number, (trusted, lines, address)) in CASES.iter().enumerate() {
        if *trusted != hops {
            fixture.gateway.change_settings(|spec| spec["listener"]["trustedHops"] = json!(trusted)).unwrap();
            hops = *trusted;
        }
        let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
        expect(&fixture, &target, &format!("case-{number}"), lines, address.unwrap_or(CONNECTION));
    }
}

/// The proxy nearest to the gateway forwards TCP, the one before it HTTP.
#[test]
fn trusted_hops_outrank_the_address_of_a_proxy_header() {
    let proxies = json!({"trustedProxies": ["127.0.0.1"]});
    let fixture = fixture("trusted-hops-proxied", json!({"trustedHops": 1, "proxyProtocol": proxies}));
    let preamble = format!("PROXY TCP4 {PROXIED} 198.51.100.1 40000 6443\r\n");
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice).preamble(preamble.as_bytes());
    expect(&fixture, &target, "both", &["198.51.100.66, 192.0.2.1"], "192.0.2.1");
    expect(&fixture, &target, "header-alone", &[], PROXIED);
    expect(&fixture, &target, "garbage", &["198.51.100.66, -"], PROXIED);
}

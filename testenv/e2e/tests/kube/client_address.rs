//! The audit log of a real kube-apiserver names the client's address, whatever the client writes into forwarding headers.

use std::time::Duration;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::TlsTarget;
use portcullis_harness::kube::KubeOptions;
use serde_json::{Value, json};

use crate::fixture::{KubeFixture, NAME};

const SOON: Duration = Duration::from_secs(20);
/// Addresses that no client of the test has.
const FORGED: &str = "X-Forwarded-For: 192.0.2.66\r\nX-Forwarded-For: 192.0.2.67, 192.0.2.68\r\nX-Real-Ip: 192.0.2.69\r\n\
                      Forwarded: for=192.0.2.70\r\nForwarded_For: 192.0.2.71\r\n";
/// The client's address in a PROXY header.
const PROXIED: &str = "203.0.113.7";
/// The address from which Envoy connects to the apiserver.
const ENVOY: &str = "127.0.0.1";
const UPGRADE: &str = "Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n";

/// Sends a request and reads the addresses that its audit event lists, the client's first.
fn source_addresses(fixture: &KubeFixture, target: &TlsTarget, case: &str, path: &str, headers: &str) -> Value {
    let request = format!("GET {path}?case={case} HTTP/1.1\r\nHost: {NAME}\r\n{headers}\r\n");
    target.raw_request(request.as_bytes()).unwrap();
    let query = format!("case={case}");
    let is_it = |event: &Value| event["requestURI"].as_str().is_some_and(|uri| uri.ends_with(&query));
    let event = fixture.kube.apiservers()[0].wait_audit(case, SOON, is_it).unwrap();
    event["sourceIPs"].clone()
}

/// A request of each kind of client: its name, how it connects, its path and its headers.
type Case = (&'static str, TlsTarget, &'static str, String);

fn cases(fixture: &KubeFixture) -> [Case; 4] {
    fixture.admin(&["create", "serviceaccount", "robot"]);
    let token = fixture.admin(&["create", "token", "robot"]);
    let bearer = format!("Authorization: Bearer {}\r\n", token.trim());
    let (anonymous, alice) = (fixture.target(), fixture.target().identity(&fixture.alice));
    let pods = "/api/v1/namespaces/default/pods";
    let exec = "/api/v1/namespaces/default/pods/none/exec";
    let closing = "Connection: close\r\n";
    let upgrading = format!("Connection: Upgrade\r\n{UPGRADE}");
    [
        ("certificate", alice.clone(), pods, closing.to_owned()),
        ("token", anonymous.clone(), pods, format!("{closing}{bearer}")),
        ("anonymous", anonymous, pods, closing.to_owned()),
        ("upgrade", alice, exec, upgrading),
    ]
}

fn behind(test: &str, listener: Value) -> Option<KubeFixture> {
    KubeFixture::of(test, &KubeOptions::default(), &GatewayOptions { listener, ..GatewayOptions::default() })
}

/// The target with a PROXY header of version 1.
fn proxied(target: &TlsTarget) -> TlsTarget {
    target.clone().preamble(format!("PROXY TCP4 {PROXIED} 198.51.100.1 40000 6443\r\n").as_bytes())
}

#[test]
fn audit_event_lists_no_forged_client_address() {
    let Some(fixture) = KubeFixture::start("client-address", &KubeOptions::default()) else { return };
    for (case, target, path, headers) in &cases(&fixture) {
        let honest = source_addresses(&fixture, target, &format!("{case}-honest"), path, headers);
        let forged = source_addresses(&fixture, target, &format!("{case}-forged"), path, &format!("{headers}{FORGED}"));
        assert!(honest[0].is_string(), "{case}: {honest}");
        assert_eq!(forged, honest, "{case}");
        eprintln!("{case}: sourceIPs {forged}");
    }
}

#[test]
fn audit_event_lists_the_address_of_the_proxy_header() {
    let Some(fixture) = behind("client-address-proxied", json!({"proxyProtocol": {"trustedProxies": ["127.0.0.1"]}}))
    else {
        return;
    };
    for (case, target, path, headers) in &cases(&fixture) {
        for (kind, more) in [("honest", ""), ("forged", FORGED)] {
            let case = format!("{case}-{kind}");
            let listed = source_addresses(&fixture, &proxied(target), &case, path, &format!("{headers}{more}"));
            assert_eq!(listed, json!([PROXIED, ENVOY]), "{case}");
            eprintln!("{case}: sourceIPs {listed}");
        }
    }
}

/// The last entries are those of trusted proxies; entries before them are the client's own.
#[test]
fn audit_event_lists_the_entry_of_the_trusted_proxy() {
    let Some(fixture) = behind("client-address-hops", json!({"trustedHops": 1})) else { return };
    let cases = cases(&fixture);
    // Of 192.0.2.66, 192.0.2.67 and 192.0.2.68 in two lines.
    for (hops, address) in [(1, json!(["192.0.2.68", ENVOY])), (2, json!(["192.0.2.67", ENVOY])), (4, json!([ENVOY]))] {
        if hops != 1 {
            fixture.gateway.change_settings(|spec| spec["listener"]["trustedHops"] = json!(hops)).unwrap();
        }
        for (case, target, path, headers) in &cases {
            let case = format!("{case}-{hops}");
            let listed = source_addresses(&fixture, target, &case, path, &format!("{headers}{FORGED}"));
            assert_eq!(listed, address, "{case}");
            eprintln!("{case}: sourceIPs {listed}");
        }
    }
}

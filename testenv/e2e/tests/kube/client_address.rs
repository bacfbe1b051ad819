//! The audit log of a real kube-apiserver names the client's address, whatever the client writes into forwarding headers.

use std::time::Duration;

use portcullis_harness::client::TlsTarget;
use portcullis_harness::kube::KubeOptions;
use serde_json::Value;

use crate::world::{NAME, World};

const SOON: Duration = Duration::from_secs(20);
/// Addresses that no client of the test has.
const FORGED: &str = "X-Forwarded-For: 192.0.2.66\r\nX-Forwarded-For: 192.0.2.67, 192.0.2.68\r\nX-Real-Ip: 192.0.2.69\r\n\
                      Forwarded: for=192.0.2.70\r\nForwarded_For: 192.0.2.71\r\n";
const UPGRADE: &str = "Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n";

/// Sends a request and reads the addresses that its audit event lists, the client's first.
fn source_addresses(world: &World, target: &TlsTarget, case: &str, path: &str, headers: &str) -> Value {
    let request = format!("GET {path}?case={case} HTTP/1.1\r\nHost: {NAME}\r\n{headers}\r\n");
    target.raw_request(request.as_bytes()).unwrap();
    let query = format!("case={case}");
    let is_it = |event: &Value| event["requestURI"].as_str().is_some_and(|uri| uri.ends_with(&query));
    let event = world.kube.apiservers()[0].wait_audit(case, SOON, is_it).unwrap();
    event["sourceIPs"].clone()
}

#[test]
fn audit_event_lists_no_forged_client_address() {
    let Some(world) = World::start("client-address", &KubeOptions::default()) else { return };
    world.admin(&["create", "serviceaccount", "robot"]);
    let token = world.admin(&["create", "token", "robot"]);
    let bearer = format!("Authorization: Bearer {}\r\n", token.trim());
    let (anonymous, alice) = (world.target(), world.target().identity(&world.alice));
    let pods = "/api/v1/namespaces/default/pods";
    let exec = "/api/v1/namespaces/default/pods/none/exec";
    let closing = "Connection: close\r\n";
    let upgrading = format!("Connection: Upgrade\r\n{UPGRADE}");
    for (case, target, path, headers) in [
        ("certificate", &alice, pods, closing.to_owned()),
        ("token", &anonymous, pods, format!("{closing}{bearer}")),
        ("anonymous", &anonymous, pods, closing.to_owned()),
        ("upgrade", &alice, exec, upgrading),
    ] {
        let honest = source_addresses(&world, target, &format!("{case}-honest"), path, &headers);
        let forged = source_addresses(&world, target, &format!("{case}-forged"), path, &format!("{headers}{FORGED}"));
        assert!(honest[0].is_string(), "{case}: {honest}");
        assert_eq!(forged, honest, "{case}");
        eprintln!("{case}: sourceIPs {forged}");
    }
}

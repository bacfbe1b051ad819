//! The stub behind a real Envoy: HTTP/2 for ordinary requests, HTTP/1.1 for upgrades.

#![cfg(test)]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use common::{DEADLINE, Fixture};
use portcullis_harness::certs::Identity;
use portcullis_harness::client::plain;
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, ports};
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::{Value, json};

fn address(address: SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}})
}

fn cluster(fixture: &Fixture, identity: &Identity, http2: bool) -> Value {
    let name = if http2 { "h2" } else { "h1" };
    let protocol = if http2 { json!({"http2_protocol_options": {}}) } else { json!({"http_protocol_options": {}}) };
    let tls = json!({
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "sni": "stub.test",
        "common_tls_context": {
            "tls_certificates": [{
                "certificate_chain": {"inline_string": identity.pem()},
                "private_key": {"inline_string": identity.key_pem()},
            }],
            "validation_context": {"trusted_ca": {"inline_string": fixture.server_ca.pem()}},
            "alpn_protocols": [if http2 { "h2" } else { "http/1.1" }],
        },
    });
    let endpoint = json!({"endpoint": {"address": address(fixture.stub.address())}});
    json!({
        "name": name, "type": "STATIC", "connect_timeout": "5s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": protocol,
        }},
        "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": tls},
    })
}

fn bootstrap(fixture: &Fixture, identity: &Identity, listener: SocketAddr) -> Value {
    let upgrade = json!({"match": {"safe_regex": {"regex": ".*/exec"}}, "route": {"cluster": "h1", "timeout": "0s"}});
    let other = json!({"match": {"prefix": "/"}, "route": {"cluster": "h2", "timeout": "0s"}});
    let router = json!({"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"});
    let hcm = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "in",
        "upgrade_configs": [{"upgrade_type": "websocket"}, {"upgrade_type": "spdy/3.1"}],
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [upgrade, other]}]},
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": router}],
    });
    let chain = json!({"filters": [{"name": "hcm", "typed_config": hcm}]});
    json!({
        "admin": {"address": address(ports::free_address().unwrap())},
        "static_resources": {
            "listeners": [{"name": "in", "address": address(listener), "filter_chains": [chain]}],
            "clusters": [cluster(fixture, identity, true), cluster(fixture, identity, false)],
        },
    })
}

#[test]
fn real_envoy_uses_the_stub_like_a_kube_apiserver() {
    if deps::or_skip("a_real_envoy_uses_the_stub", deps::envoy()).unwrap().is_none() {
        return;
    }
    let fixture = Fixture::start(|options| options);
    let gate = fixture.user("gate", &["system:masters"]);
    let run = RunDir::new("stub-envoy").unwrap();
    let listener = ports::free_address().unwrap();
    let envoy = Envoy::start(run.path(), "envoy", &EnvoyOptions::new(bootstrap(&fixture, &gate, listener))).unwrap();
    envoy.wait_ready(DEADLINE).unwrap();
    envoy.wait_listening(listener, DEADLINE).unwrap();

    let headers = [("impersonate-user", "bob"), ("impersonate-group", "g1"), ("impersonate-group", "g2")];
    let path = "/api/v1/namespaces/default/pods";
    assert_eq!(plain::request(listener, "GET", path, &headers, b"").unwrap().status, 200);
    let record = fixture.stub.records_for(path).pop().unwrap();
    assert_eq!((record.version.as_str(), record.peer_common_name.as_deref()), ("HTTP/2.0", Some("gate")));
    assert_eq!(record.header_all("impersonate-group"), ["g1", "g2"]);
    assert_eq!(record.effective.unwrap().groups, ["g1", "g2", "system:authenticated"]);

    let mut tunnel = TcpStream::connect(listener).unwrap();
    tunnel.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let exec = format!("{path}/p/exec");
    write!(
        tunnel,
        "GET {exec} HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n"
    )
    .unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        tunnel.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    tunnel.write_all(b"ping\x00").unwrap();
    let mut echo = [0; 5];
    tunnel.read_exact(&mut echo).unwrap();
    assert_eq!(&echo, b"ping\x00");
    assert_eq!(fixture.stub.records_for(&exec).pop().unwrap().version, "HTTP/1.1");

    for action in [Action::ResetStream { code: 7 }, Action::CloseConnection] {
        fixture.stub.fault(Fault::new("/version", action).times(1));
        assert_eq!(plain::get(listener, "/version").unwrap().status, 503);
        assert_eq!(plain::get(listener, "/version").unwrap().status, 200);
    }
}

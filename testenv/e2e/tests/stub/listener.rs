//! `listener.additionalAddresses` and `listener.tls`: the same gateway at every address, and the same bounds of TLS at every port.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::{Error, ports, wait};
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, StubFixture};
use crate::proxy_protocol::proxied;

const SOON: Duration = Duration::from_secs(20);
const AES_128: &str = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
const AES_256: &str = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384";

/// As the settings have it.
fn entry(address: SocketAddr) -> Value {
    json!({"address": address.ip().to_string(), "port": address.port()})
}

/// The status of an answer at an address.
fn status(fixture: &StubFixture, address: SocketAddr) -> Result<u16, Error> {
    let target = TlsTarget::new(address).sni(NAME).trust(fixture.gateway.serving_ca()).identity(&fixture.pki.alice);
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n");
    Ok(target.raw_request(request.as_bytes())?.status)
}

fn change_addresses(fixture: &StubFixture, addresses: &[SocketAddr]) {
    let all: Vec<_> = addresses.iter().map(|address| entry(*address)).collect();
    fixture.gateway.change_settings(|spec| spec["listener"]["additionalAddresses"] = json!(all)).unwrap();
}

fn answers(fixture: &StubFixture, address: SocketAddr) {
    let is_there = || matches!(status(fixture, address), Ok(200)).then_some(());
    wait::until(&format!("{address} answers"), SOON, is_there).unwrap();
}

/// Addresses of the other stack, if this machine has it, and of another port.
fn further() -> [SocketAddr; 3] {
    let [one, other, third] = [(); 3].map(|()| ports::free_address().unwrap());
    let has_v6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    let ip = if has_v6 { IpAddr::V6(Ipv6Addr::LOCALHOST) } else { [127, 0, 0, 2].into() };
    [SocketAddr::new(ip, one.port()), other, third]
}

#[test]
fn gateway_answers_at_every_address_while_others_come_and_go() {
    let fixture = StubFixture::start("listener-addresses", &GatewayOptions::default());
    let (first, [stack, port, later]) = (fixture.gateway.address(), further());
    let is_done = AtomicBool::new(false);
    let (tried, failed) = thread::scope(|scope| {
        // Envoy opens new sockets for all addresses before it closes the old ones.
        let client = scope.spawn(|| {
            let (mut tried, mut failed) = (0, Vec::new());
            // It ends, too, if an edit fails.
            let since = Instant::now();
            while (!is_done.load(Ordering::Relaxed) || tried < 20) && since.elapsed() < 8 * SOON {
                tried += 1;
                failed.extend(status(&fixture, first).err().map(|error| error.to_string()));
            }
            (tried, failed)
        });
        change_addresses(&fixture, &[stack, port]);
        [first, stack, port].into_iter().for_each(|address| answers(&fixture, address));
        // Of three addresses two stay, in another order.
        change_addresses(&fixture, &[later, stack]);
        [first, stack, later].into_iter().for_each(|address| answers(&fixture, address));
        let is_closed = || TcpStream::connect(port).is_err().then_some(());
        wait::until("the port that is gone is closed", SOON, is_closed).unwrap();
        change_addresses(&fixture, &[]);
        let are_closed = || [stack, later].iter().all(|one| TcpStream::connect(one).is_err()).then_some(());
        wait::until("all others are closed", SOON, are_closed).unwrap();
        is_done.store(true, Ordering::Relaxed);
        client.join().unwrap()
    });
    eprintln!("{tried} connections to an address that stayed, {} failed: {failed:?}", failed.len());
    // One that a worker has not taken yet when its socket is closed is reset.
    assert!(tried > 0 && failed.len() * 20 <= tried, "{} of {tried}: {failed:?}", failed.len());
    answers(&fixture, first);
}

#[test]
fn edit_of_addresses_drains_open_connections() {
    let options = GatewayOptions {
        envoy_flags: ["--drain-time-s", "600"].map(str::to_owned).to_vec(),
        ..GatewayOptions::default()
    };
    let fixture = StubFixture::start("listener-drain", &options);
    let open = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    assert_eq!(open.get(PODS, &[]).unwrap().status, 200);
    let watch = open.open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap();
    assert_eq!(watch.response.status, 200);
    let [_, port, _] = further();
    change_addresses(&fixture, &[port]);
    answers(&fixture, port);
    let draining = fixture.gateway.envoy().admin().stat("listener_manager.total_listeners_draining").unwrap();
    assert!(draining > 0 && !open.is_closed(), "the watch goes on until the drain time ends");
    drop(watch);
}

/// The targets of a cluster and of a name that no cluster has, at both ports.
fn targets(fixture: &StubFixture, proxies: SocketAddr) -> Vec<TlsTarget> {
    let header = proxied("203.0.113.7", "127.0.0.1");
    let at = |name: &str| {
        let direct = TlsTarget::new(fixture.gateway.address()).sni(name);
        [direct, TlsTarget::new(proxies).sni(name).preamble(&header)]
    };
    [at(NAME), at("unheard.of")].concat()
}

/// Whether a handshake with TLS 1.2 succeeds. One without a common suite or version ends with an alert.
fn is_taken(target: &TlsTarget, suites: &[&str]) -> bool {
    match target.clone().tls12(suites).connect() {
        Ok(connection) => connection.is_tls12(),
        Err(error) => {
            let text = format!("{error:?}");
            assert!(text.contains("ProtocolVersion") || text.contains("HandshakeFailure"), "{text}");
            false
        }
    }
}

#[test]
fn clients_keep_to_the_versions_and_suites_of_the_settings() {
    let proxies = ports::free_address().unwrap();
    let door = json!({"port": proxies.port(), "trustedProxies": ["127.0.0.0/8"]});
    let options = GatewayOptions { listener: json!({"proxyProtocol": door}), ..GatewayOptions::default() };
    let fixture = StubFixture::start("listener-tls", &options);
    for (tls, aes_128, aes_256) in [
        (json!({}), true, true),
        (json!({"minimumVersion": "TLSv1_3"}), false, false),
        (json!({"cipherSuites": [AES_256]}), false, true),
        (json!({"cipherSuites": [AES_128, AES_256]}), true, true),
    ] {
        if tls != json!({}) {
            fixture.gateway.change_settings(|spec| spec["listener"]["tls"] = tls.clone()).unwrap();
        }
        for target in targets(&fixture, proxies) {
            let found = || {
                let is_new = target.connect().is_ok_and(|connection| !connection.is_tls12());
                (is_taken(&target, &[AES_128]), is_taken(&target, &[AES_256]), is_new)
            };
            // Workers learn of new chains one after the other.
            let is_so = || (found() == (aes_128, aes_256, true)).then_some(());
            wait::until(&format!("{tls} at {target:?}"), SOON, is_so).unwrap();
        }
    }
    for target in targets(&fixture, proxies) {
        let both = target.tls12(&[AES_256, AES_128]).connect().unwrap();
        assert_eq!(both.cipher_suite(), Some(AES_128), "the order is the settings'");
    }
}

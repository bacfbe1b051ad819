//! Clients of `listener.tunnel` over IPv6, with portcullis.wasm, and behind a load balancer that speaks the PROXY protocol.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::H2Client;
use portcullis_harness::{deps, wait};
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, ROBOT};
use crate::tunnels::{INSIDE, Site, connect, get};

const SOON: Duration = Duration::from_secs(20);

/// A request by certificate, by token and over HTTP/2 through a tunnel to each cluster: it is there, as its user, with the client's
/// address in every place.
fn requests_arrive(site: &Site, client: &str) {
    for (own, others) in [(0, 1), (1, 0)] {
        let (shoot, other) = (&site.shoots[own], &site.shoots[others]);
        let pod = site.pod(shoot.name, &shoot.serving_ca);
        let by_certificate = pod.clone().identity(&shoot.user);
        let token = format!("Authorization: Bearer {ROBOT}\r\n");
        for (target, lines, user) in
            [(&by_certificate, "", format!("user of {}", shoot.name)), (&pod, &token, "robot".to_owned())]
        {
            site.clear();
            let answer = get(target, INSIDE, lines).unwrap();
            assert_eq!(answer.status, 200, "{user}: {}", answer.text());
            assert_eq!(site.one(shoot, &user).effective.unwrap().username, user);
        }
        site.clear();
        assert_eq!(H2Client::connect(&by_certificate).unwrap().get(PODS, &[]).unwrap().status, 200);
        site.one(shoot, "HTTP/2");
        assert_eq!(get(&pod, other.name, &token).unwrap().status, 421, "another cluster's name inside");
        assert_eq!(get(&pod.clone().identity(&other.user), INSIDE, "").unwrap().status, 401, "another's user");
        assert!(other.came().is_empty());
    }
    let logged = || Some(site.logged()).filter(|all| all.len() >= 6);
    let logged = wait::until("tunnelled requests are logged", SOON, logged).unwrap();
    assert!(logged.iter().all(|line| line["client"] == client), "{logged:?}");
}

#[test]
fn tunnels_of_ipv6_clients_have_their_addresses() {
    let options = || GatewayOptions { listener: json!({"address": "::1"}), ..GatewayOptions::default() };
    let site = Site::with("tunnels-ipv6", options());
    assert!(site.door.is_ipv6());
    requests_arrive(&site, "::1");

    // Lists of addresses are asked for the client's, as of a connection without a tunnel.
    let shoot = &site.shoots[0];
    let only = |range: &str| {
        let manifest = shoot.manifest(&site.fixture).set("/spec/portcullis/clientAddresses", json!({"allow": [range]}));
        site.fixture.gateway.apply(&manifest).unwrap();
    };
    only("2001:db8::/32");
    let opens = || site.pod(NAME, &shoot.serving_ca).connect().is_ok();
    wait::until("the client may not connect", SOON, || (!opens()).then_some(())).unwrap();
    let other = &site.shoots[1];
    assert!(site.pod(other.name, &other.serving_ca).connect().is_ok(), "another cluster's list is not asked");
    only("::1/128");
    site.wait_for(NAME, &shoot.serving_ca);
    let target = site.pod(NAME, &shoot.serving_ca).identity(&shoot.user);
    site.clear();
    assert_eq!(get(&target, INSIDE, "").unwrap().status, 200);
    // In the place of a loopback address Envoy puts its own machine's.
    let address = shoot.came().remove(0).header("x-forwarded-for").unwrap();
    let denied = json!({"access": {"deny": [{"addresses": [address], "message": "not from there"}]}});
    let manifest = shoot.manifest(&site.fixture).merge(&json!({"spec": {"portcullis": denied}}));
    site.fixture.gateway.apply(&manifest).unwrap();
    let is_denied = || (get(&target, INSIDE, "").is_ok_and(|answer| answer.status == 403)).then_some(());
    wait::until("the list denies the address", SOON, is_denied).unwrap();
}

#[test]
fn tunnels_lead_to_their_clusters_with_portcullis_wasm() {
    let Some(wasm) = deps::or_skip("tunnels-wasm", deps::wasm()).unwrap() else { return };
    let site = Site::with("tunnels-wasm", GatewayOptions { wasm: Some(wasm), ..GatewayOptions::default() });
    requests_arrive(&site, "127.0.0.1");
}

/// PROXY headers, version 1 and 2, that name another client.
fn proxy_headers() -> [Vec<u8>; 2] {
    let version_2 = [
        &b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..],
        &[192, 0, 2, 66, 127, 0, 0, 1],
        &4711_u16.to_be_bytes(),
        &443_u16.to_be_bytes(),
    ];
    [b"PROXY TCP4 192.0.2.66 127.0.0.1 4711 443\r\n".to_vec(), version_2.concat()]
}

/// docs/operations.md says so: nothing at this port reads one, and the client's address is the connection's.
#[test]
fn proxy_header_before_a_tunnel_opens_none() {
    let proxies = json!({"port": 0, "trustedProxies": ["127.0.0.0/8"]});
    for proxies in [Value::Null, proxies] {
        let mut listener = json!({});
        if !proxies.is_null() {
            let port = portcullis_harness::ports::free_address().unwrap().port();
            listener["proxyProtocol"] = proxies;
            listener["proxyProtocol"]["port"] = json!(port);
        }
        let site = Site::with("tunnels-proxied", GatewayOptions { listener, ..GatewayOptions::default() });
        site.clear();
        let head = connect(&format!("X-Gardener-Destination: {NAME}\r\n"));
        for header in proxy_headers() {
            let mut stream = TcpStream::connect(site.door).unwrap();
            stream.set_read_timeout(Some(SOON)).unwrap();
            stream.write_all(&[&header[..], head.as_bytes()].concat()).unwrap();
            let mut answer = Vec::new();
            // It is closed, perhaps with bytes that were not read: that is an error, too, and not one of time.
            let ended = stream.read_to_end(&mut answer).map_err(|error| error.kind());
            assert!(!matches!(ended, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)), "it stays open: {ended:?}");
            let answer = String::from_utf8_lossy(&answer);
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");
        }
        assert!(site.pod(NAME, &site.shoots[0].serving_ca).connect().is_ok(), "others come through");
        assert!(site.shoots.iter().all(|shoot| shoot.came().is_empty()));
    }
}

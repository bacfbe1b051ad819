//! Which shoot a request is for: by the name that the TLS connection asked for, and by nothing that comes later.

use portcullis_harness::client::{H2Client, Response, TlsTarget};

use super::fixture::{IngressFixture, ReconnectingClient, bearer};
use crate::fixture::PODS;

/// The same request, by HTTP/1.1 and for some of them by HTTP/2.
fn ask(line: &mut ReconnectingClient, h2: Option<&TlsTarget>, authority: &str) -> Vec<Response> {
    let by_h2 = h2.map(|target| H2Client::connect(target).unwrap().authority(authority).get(PODS, &[]).unwrap());
    let by_h1 = line.send(&format!("GET {PODS} HTTP/1.1\r\nHost: {authority}\r\n\r\n"));
    by_h2.into_iter().chain([by_h1]).collect()
}

#[test]
fn connection_for_one_name_takes_no_request_for_another() {
    let fixture = IngressFixture::start("gardener-names");
    let (one, two) = (fixture.shoot(0), fixture.shoot(1));
    let [side, _] = &fixture.sides;
    let strangers = [
        two.host.as_str(),
        &two.wildcard_host,
        // A name of the certificate on the wildcard connection, as clients find it that share connections.
        "other.ingress.seed.example.com",
        "ingress.seed.example.com",
        "x.api-dev--one.ingress.seed.example.com",
        "api.one.dev.example.com.evil.com",
        "evil-api.one.dev.example.com",
        "api.one.dev.example.com..",
        "kubernetes.default.svc.evil.com",
        "10.0.0.1",
        "[::1]:443",
    ];
    for (way, target) in fixture.ways() {
        let is_tunnel = way == "apiserver-proxy";
        for target in [target.clone(), target.identity(&side.alice)] {
            let mut line = ReconnectingClient::new(target.clone());
            // Pods ask their kube-apiserver by its address, and only they come this way.
            let asked = strangers.iter().filter(|stranger| !is_tunnel || !stranger.contains(['1', '[']));
            for (number, stranger) in asked.enumerate() {
                for answer in ask(&mut line, (number < 3).then_some(&target), stranger) {
                    assert_eq!(answer.status, 421, "{way}, {stranger}: {}", answer.text());
                }
            }
        }
    }
    assert!(fixture.sides.iter().all(|side| side.seen().is_none()));

    let own = [&one.host, &one.host.to_uppercase(), &format!("{}.", one.host), &one.wildcard_host];
    let with_ports = own.iter().flat_map(|name| ["", ":443", ":6443"].map(|port| format!("{name}{port}")));
    let with_ports: Vec<String> = with_ports.collect();
    for (way, target) in fixture.ways().into_iter().take(2) {
        let target = target.identity(&side.alice);
        let mut line = ReconnectingClient::new(target.clone());
        for name in &with_ports {
            // Behind one name of the shoot stands the same as behind another, but each server of the Gateway has its own.
            let is_own = name.to_lowercase().starts_with("api-dev--") == (way == "wildcard name");
            for answer in ask(&mut line, name.ends_with(":6443").then_some(&target), name) {
                let expected = if is_own { 200 } else { 421 };
                assert_eq!(answer.status, expected, "{way}, {name}: {}", answer.text());
            }
        }
    }
}

#[test]
fn pods_reach_their_kube_apiserver_by_the_names_that_they_know() {
    let fixture = IngressFixture::start("gardener-pods");
    let shoot = fixture.shoot(0);
    let target = fixture.ingress.tunnel(&shoot.socket(), shoot).identity(&fixture.sides[0].alice);
    let mut line = ReconnectingClient::new(target.clone());
    for name in
        ["kubernetes", "kubernetes.default", "kubernetes.default.svc.cluster.local:443", "10.0.0.1", "[::1]:443"]
    {
        for answer in ask(&mut line, Some(&target), name) {
            assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        }
    }
}

#[test]
fn connection_without_a_known_name_is_refused() {
    let fixture = IngressFixture::start("gardener-sni");
    let target = fixture.ingress.target(fixture.shoot(0));
    let address = TlsTarget::new(target.address());
    assert!(address.clone().sni(&fixture.shoot(0).host).connect().is_ok());
    assert!(address.connect().is_err(), "no name");
    for name in ["other.ingress.seed.example.com", "ingress.seed.example.com", "kubernetes.default", "localhost"] {
        assert!(address.clone().sni(name).connect().is_err(), "{name}");
    }
}

#[test]
fn request_without_a_host_is_for_nobody() {
    let fixture = IngressFixture::start("gardener-host");
    let target = fixture.ingress.target(fixture.shoot(0)).identity(&fixture.sides[0].alice);
    for head in ["", "Host:\r\n", "Host: a b\r\n", "Host: api.one.dev.example.com\r\nHost: api.two.dev.example.com\r\n"]
    {
        let request = format!("GET {PODS} HTTP/1.1\r\n{head}Connection: close\r\n\r\n");
        let answer = target.raw_request(request.as_bytes()).unwrap();
        assert!(matches!(answer.status, 400 | 421), "{head:?}: {}", answer.status);
    }
    assert!(fixture.sides.iter().all(|side| side.seen().is_none()));
}

/// A header of the client's chooses among what lies behind the nodes' proxy. None of it is worth anything by itself.
#[test]
fn no_tunnel_leads_to_the_front_proxy_certificate() {
    let fixture = IngressFixture::start("gardener-tunnels");
    let (one, two) = (fixture.shoot(0), fixture.shoot(1));
    for name in ["h2", "upgrade", "passthrough", "anonymous"].map(|subset| one.cluster(subset)) {
        for name in [name.replace("portcullis|", "outbound|"), name] {
            let answered = fixture.ingress.tunnel(&name, one).connect();
            assert!(answered.is_err_and(|error| error.to_string().contains("status 301")), "{name}");
        }
    }
    // To the other shoot's door one may come, with nothing that is good there.
    let theirs = fixture.ingress.tunnel(&two.socket(), two);
    let token = bearer(&fixture.sides[0].token);
    let response = H2Client::connect(&theirs).unwrap().get(PODS, &[("authorization", &token)]).unwrap();
    assert_eq!(response.status, 401);
    let stranger = theirs.identity(&fixture.sides[0].alice);
    assert!(H2Client::connect(&stranger).and_then(|client| client.get(PODS, &[])).is_err());
    assert!(fixture.sides.iter().all(|side| side.seen().is_none()));

    let answer = fixture
        .ingress
        .plain_tunnel(
            &one.cluster(""),
            format!("GET {PODS} HTTP/1.1\r\nHost: a\r\nX-Remote-User: admin\r\n\r\n").as_bytes(),
        )
        .unwrap();
    assert_eq!(answer.status, 403, "{}", answer.text());
    let record = fixture.sides[0].seen().unwrap();
    assert_eq!(record.peer_common_name, None, "the gateway shows no certificate");
    assert_eq!(record.effective.unwrap().username, "system:anonymous");
}

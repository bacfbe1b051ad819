//! Policies and limits of what requests ask for, without a word about who sends them.

use portcullis_e2e::PlainFiles;

use super::{World, acted_as, bearer};
use crate::world::{PODS, ROBOT};

/// The mistake that must not become anybody's way in: the pool shows the front-proxy certificate.
fn showing_the_front_proxy(files: &PlainFiles) {
    let given = files.folder().with_file_name("given-pki");
    let file = |end: &str| format!("{{filename: {}/client.{end}}}", given.display());
    let pair =
        format!("        tls_certificates: [{{certificate_chain: {}, private_key: {}}}]\n", file("crt"), file("key"));
    let alpn = "        alpn_protocols: [http/1.1]\n";
    let change = |text: String| text.replace(alpn, &format!("{alpn}{pair}"));
    files.edit("clusters.yaml", change).unwrap();
}

#[test]
fn what_a_client_presents_goes_on_and_policies_decide_about_the_rest() {
    let world = World::start("policy", |_| {});
    let authorization = bearer();
    let token = ("authorization", authorization.as_str());
    let (response, record) = world.send(Some(&world.pki.admin), "GET", PODS, &[token]);
    assert_eq!(response.status, 200, "{}", response.text());
    let record = record.unwrap();
    assert_eq!((record.version.as_str(), &record.peer_common_name), ("HTTP/1.1", &None));
    assert_eq!((acted_as(&record), record.header("authorization")), ("robot", Some(authorization.clone())));
    let (_, record) = world.send(None, "GET", PODS, &[token, ("impersonate-user", "bob")]);
    assert_eq!(acted_as(&record.unwrap()), "bob");
    let (response, record) = world.send(None, "DELETE", PODS, &[token]);
    assert_eq!((response.status, record.is_none()), (403, true));
    assert_eq!(response.json().unwrap()["message"], "no dispatch policy of the gateway matches this request");
    let (response, record) = world.send(None, "GET", PODS, &[]);
    assert_eq!((response.status, record.is_some()), (403, true), "the stub's own answer to nobody");

    let (status, record) = world.upgrade(&format!("Upgrade: SPDY/3.1\r\nAuthorization: {authorization}\r\n"));
    assert_eq!((status, acted_as(&record.unwrap())), (101, "robot"));
    let (status, record) = world.upgrade("Upgrade: SPDY/3.1\r\nImpersonate-User: bob\r\n");
    assert_ne!(status, 101);
    assert!(record.is_none_or(|record| acted_as(&record) != "bob"));
}

#[test]
fn two_credentials_are_the_servers_matter_or_refused() {
    let world = World::start("policy", |_| {});
    let authorization = bearer();
    let two = [("authorization", authorization.as_str()), ("authorization", "Bearer other")];
    let (response, record) = world.send(None, "GET", PODS, &two);
    assert_eq!((response.status, record.is_none()), (400, true));
    let nominated = format!(
        "GET {PODS} HTTP/1.1\r\nHost: prod.example.com\r\nConnection: Upgrade, Authorization\r\n\
         Upgrade: websocket\r\nAuthorization: {authorization}\r\n\r\n"
    );
    world.stub.clear();
    let answer = world.gateway.target().raw_request(nominated.as_bytes()).unwrap();
    assert_eq!((answer.status, world.seen().is_none()), (400, true), "without it the request would be nobody's");

    let subprotocols = "base64url.bearer.authorization.k8s.io.eA, v5.channel.k8s.io";
    let headers =
        format!("Upgrade: websocket\r\nAuthorization: Bearer {ROBOT}\r\nSec-WebSocket-Protocol: {subprotocols}\r\n");
    let (_, record) = world.upgrade(&headers);
    let record = record.unwrap();
    assert_eq!(record.header("authorization"), Some(authorization));
    assert_eq!(record.header("sec-websocket-protocol").as_deref(), Some(subprotocols));
}

#[test]
fn a_pool_that_shows_a_front_proxy_still_tells_nobody() {
    let world = World::start("policy", showing_the_front_proxy);
    let authorization = bearer();
    let forged = [
        ("x-remote-user", "admin"),
        ("x-remote-group", "system:masters"),
        ("x_remote_user", "admin"),
        ("x-remote-extra-a", "b"),
    ];
    let masquerade = [("impersonate-user", "admin"), ("impersonate-group", "system:masters")];
    for identity in [None, Some(&world.pki.admin)] {
        let (response, record) = world.send(identity, "GET", PODS, &[&forged[..], &masquerade[..]].concat());
        assert_ne!(response.status, 200);
        let record = record.unwrap();
        assert_eq!(record.peer_common_name.as_deref(), Some("front-proxy"), "the mistake is made");
        assert!(record.header_names_with_prefix("x-remote-").is_empty() && record.header("x_remote_user").is_none());
        assert!(!["admin", "front-proxy"].contains(&acted_as(&record)), "{record:?}");
        let (_, record) =
            world.send(identity, "GET", PODS, &[&forged[..], &[("authorization", &authorization)]].concat());
        assert_eq!(acted_as(&record.unwrap()), "robot");
    }
    let (status, record) =
        world.upgrade("Upgrade: SPDY/3.1\r\nX-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n");
    assert_ne!(status, 101);
    assert!(record.is_none_or(|record| record.header_names_with_prefix("x-remote-").is_empty()));
}

//! Policies and limits of what requests ask for, without a word about who sends them.

use portcullis_e2e::PlainFiles;
use portcullis_harness::project_root;
use serde_json::{Value, json};

use super::{acted_as, bearer, start};
use crate::fixture::{PODS, ROBOT};

/// The mistake that must not become anybody's way in: the pool shows the front-proxy certificate.
pub(super) fn showing_the_front_proxy(files: &PlainFiles) {
    let given = files.folder().with_file_name("given-pki");
    let file = |end: &str| format!("{{filename: {}/client.{end}}}", given.display());
    let pair =
        format!("        tls_certificates: [{{certificate_chain: {}, private_key: {}}}]\n", file("crt"), file("key"));
    let alpn = "        alpn_protocols: [http/1.1]\n";
    let change = |text: String| text.replace(alpn, &format!("{alpn}{pair}"));
    files.edit("clusters.yaml", change).unwrap();
}

#[test]
fn client_credential_goes_on_and_policies_decide() {
    let world = start("policy", |_| {});
    let authorization = bearer();
    let token = ("authorization", authorization.as_str());
    let (response, record) = world.request(Some(&world.pki.admin), "GET", PODS, &[token]);
    assert_eq!(response.status, 200, "{}", response.text());
    let record = record.unwrap();
    assert_eq!((record.version.as_str(), &record.peer_common_name), ("HTTP/1.1", &None));
    assert_eq!((acted_as(&record), record.header("authorization")), ("robot", Some(authorization.clone())));
    let (_, record) = world.request(None, "GET", PODS, &[token, ("impersonate-user", "bob")]);
    assert_eq!(acted_as(&record.unwrap()), "bob");
    let (response, record) = world.request(None, "DELETE", PODS, &[token]);
    assert_eq!((response.status, record.is_none()), (403, true));
    assert_eq!(response.json().unwrap()["message"], "no dispatch policy of the gateway matches this request");
    let (response, record) = world.request(None, "GET", PODS, &[]);
    assert_eq!((response.status, record.is_some()), (403, true), "the stub's own answer to nobody");

    let (status, record) = world.upgrade(&format!("Upgrade: SPDY/3.1\r\nAuthorization: {authorization}\r\n"));
    assert_eq!((status, acted_as(&record.unwrap())), (101, "robot"));
    let (status, record) = world.upgrade("Upgrade: SPDY/3.1\r\nImpersonate-User: bob\r\n");
    assert_ne!(status, 101);
    assert!(record.is_none_or(|record| acted_as(&record) != "bob"));
}

#[test]
fn two_credentials_are_the_servers_matter_or_refused() {
    let world = start("policy", |_| {});
    let authorization = bearer();
    let two = [("authorization", authorization.as_str()), ("authorization", "Bearer other")];
    let (response, record) = world.request(None, "GET", PODS, &two);
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

/// Tokens are reviewed: with the pools of `request-header/clusters.yaml`, for confirmed tokens and for the questions.
fn reviewing(files: &PlainFiles) {
    files.edit("clusters.yaml", |text| pools(files, &text)).unwrap();
    files.edit("routes.yaml", |text| reviewed(&text)).unwrap();
}

fn pools(files: &PlainFiles, rendered: &str) -> String {
    let rendered: Value = serde_saphyr::from_str(rendered).unwrap();
    let sample = std::fs::read_to_string(project_root().join("envoy/plain/request-header/clusters.yaml")).unwrap();
    let sample = sample.replace("/etc/portcullis", &files.folder().display().to_string());
    let mut clusters: Value = serde_saphyr::from_str(&sample).unwrap();
    let given = files.folder().with_file_name("given-pki");
    for cluster in clusters["resources"].as_array_mut().unwrap() {
        cluster["load_assignment"] = rendered["resources"][0]["load_assignment"].clone();
        let tls = &mut cluster["transport_socket"]["typed_config"]["common_tls_context"];
        if tls.as_object_mut().unwrap().remove("tls_certificate_sds_secret_configs").is_some() {
            let file = |end: &str| json!({"filename": given.join(format!("client.{end}"))});
            tls["tls_certificates"] = json!([{"certificate_chain": file("crt"), "private_key": file("key")}]);
        }
    }
    clusters.to_string()
}

/// A way for confirmed tokens; and a mistake that must not matter, one to the pool with the front-proxy certificate.
fn reviewed(routes: &str) -> String {
    let mut file: Value = serde_saphyr::from_str(routes).unwrap();
    let host = &mut file["resources"][0]["virtual_hosts"][0];
    let map = &mut host["matcher"]["matcher_tree"]["exact_match_map"]["map"];
    for class in ["read", "watch", "write", "session"] {
        for pool in ["all.passthrough", "all.h2"] {
            let mut route = map[format!("all.anonymous.{class}")].clone();
            route["action"]["typed_config"]["route"]["cluster"] = json!(pool);
            map[format!("{pool}.{class}")] = route;
        }
    }
    let config = &mut host["typed_per_filter_config"]["portcullis"]["filter_config"]["value"];
    config["reviews"] = json!({"cluster": "all.h2", "user": "system:portcullis"});
    let all = json!(["*"]);
    let rule = json!({"verbs": all, "apiGroups": all, "resources": all, "users": ["robot", "system:anonymous"]});
    config["policies"] = json!([{"group": "all", "rules": [rule]}]);
    file.to_string()
}

#[test]
fn policy_may_match_the_user_of_a_passed_token() {
    let world = start("policy", reviewing);
    let authorization = bearer();
    let token = ("authorization", authorization.as_str());
    let forged = [token, ("x-remote-user", "admin"), ("impersonate-user", "bob")];
    let (response, record) = world.request(Some(&world.pki.admin), "GET", PODS, &forged);
    assert_eq!(response.status, 200, "{}", response.text());
    let record = record.unwrap();
    assert_eq!((record.version.as_str(), &record.peer_common_name), ("HTTP/2.0", &None));
    assert_eq!((acted_as(&record), record.header("authorization")), ("bob", Some(authorization.clone())));
    assert!(record.header_names_with_prefix("x-remote-").is_empty());
    let (status, record) = world.upgrade(&format!("Upgrade: SPDY/3.1\r\nAuthorization: {authorization}\r\n"));
    let record = record.unwrap();
    assert_eq!((status, record.version.as_str(), &record.peer_common_name), (101, "HTTP/1.1", &None));

    let subprotocols = "base64url.bearer.authorization.k8s.io.eA, v5.channel.k8s.io";
    let two =
        format!("Upgrade: websocket\r\nAuthorization: {authorization}\r\nSec-WebSocket-Protocol: {subprotocols}\r\n");
    let (status, record) = world.upgrade(&two);
    assert_eq!((status, record.is_none()), (400, true), "the server could take the one that nobody reviewed");

    let (response, record) = world.request(None, "GET", PODS, &[("authorization", "Bearer unheard-of")]);
    assert_eq!((response.status, record.is_none()), (401, true), "rejected here");
    for (headers, goes_on) in [(&[][..], true), (&[("authorization", "Basic abc")], false)] {
        let (response, record) = world.request(Some(&world.pki.admin), "GET", PODS, headers);
        assert_eq!((response.status, record.is_some()), (403, goes_on), "{headers:?}");
        if let Some(record) = record {
            assert_eq!((record.version.as_str(), record.peer_common_name), ("HTTP/1.1", None));
        }
    }
}

#[test]
fn pool_that_shows_a_front_proxy_still_tells_nobody() {
    let world = start("policy", showing_the_front_proxy);
    let authorization = bearer();
    let forged = [
        ("x-remote-user", "admin"),
        ("x-remote-group", "system:masters"),
        ("x_remote_user", "admin"),
        ("x-remote-extra-a", "b"),
    ];
    let masquerade = [("impersonate-user", "admin"), ("impersonate-group", "system:masters")];
    for identity in [None, Some(&world.pki.admin)] {
        let (response, record) = world.request(identity, "GET", PODS, &[&forged[..], &masquerade[..]].concat());
        assert_ne!(response.status, 200);
        let record = record.unwrap();
        assert_eq!(record.peer_common_name.as_deref(), Some("front-proxy"), "the mistake is made");
        assert!(record.header_names_with_prefix("x-remote-").is_empty() && record.header("x_remote_user").is_none());
        assert!(!["admin", "front-proxy"].contains(&acted_as(&record)), "{record:?}");
        let (_, record) =
            world.request(identity, "GET", PODS, &[&forged[..], &[("authorization", &authorization)]].concat());
        assert_eq!(acted_as(&record.unwrap()), "robot");
    }
    let (status, record) =
        world.upgrade("Upgrade: SPDY/3.1\r\nX-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n");
    assert_ne!(status, 101);
    assert!(record.is_none_or(|record| record.header_names_with_prefix("x-remote-").is_empty()));
}

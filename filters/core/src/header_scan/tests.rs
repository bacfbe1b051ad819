use super::reserved::{READ, can_be_reserved};
use super::{BadConnection, ForwardedHeaders, HeaderScan, Reserved};

fn scan<'a>(headers: &'a [(&'a str, &'a str)]) -> HeaderScan<'a> {
    HeaderScan::from_headers(
        headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())),
        b"lab",
        Reserved::new(&["x-auth-".as_bytes().into()], &[]),
    )
}

#[test]
fn reserved_names_and_their_look_alikes_are_lifted() {
    for name in [
        "impersonate-user",
        "impersonate-extra-a%2fb",
        "impersonate-anything",
        "impersonate_user",
        "x-remote-user",
        "x_remote-extra-a",
        "x-envoy-retry-on",
        "x-forwarded-client-cert",
        "x_forwarded_client_cert",
        "x-portcullis-destination",
        "x-auth-user",
        "x_auth-user",
        "forwarded",
        "x-real-ip",
        "x_real-ip",
    ] {
        let headers = [(name, "v")];
        let found = scan(&headers);
        let removals = found.removals(ForwardedHeaders::default());
        assert_eq!(removals.names().collect::<Vec<_>>(), [name.as_bytes()], "{name}");
    }
    for name in [
        "accept",
        "x-request-id",
        "x-forwarded-for",
        "x-stream-protocol-version",
        "if-match",
        "impersonate",
        "x-real-ip-2",
    ] {
        assert!(scan(&[(name, "v")]).to_remove.is_empty(), "{name}");
    }
}

#[test]
fn removed_headers_include_credentials_and_envoys_own() {
    let found = scan(&[
        ("x-envoy-internal", "true"),
        ("x-envoy-external-address", "192.0.2.1"),
        ("authorization", "Bearer a"),
        ("x-envoy-external_address", "v"),
        ("accept", "v"),
    ]);
    let removals = found.removals(ForwardedHeaders::default());
    let names: Vec<&[u8]> = removals.names().collect();
    let expected =
        [&b"authorization"[..], b"x-envoy-external-address", b"x-envoy-internal", b"x-envoy-external_address"];
    assert_eq!(names, expected);
    assert_eq!(scan(&[("accept", "v")]).removals(ForwardedHeaders::default()).names().count(), 0);
}

/// Each removal is a call into Envoy, which takes out all lines of a name.
#[test]
fn usual_name_of_many_lines_is_lifted_once() {
    let group = ("impersonate-group", "g");
    let headers = [("impersonate-user", "bob"), group, group, group, ("connection", "impersonate-user")];
    let found = scan(&headers);
    let removals = found.removals(ForwardedHeaders::default());
    assert!(removals.names().eq([&b"impersonate-user"[..], b"impersonate-group"]));
}

#[test]
fn client_credential_headers_alone_may_be_kept() {
    let found = scan(&[
        ("authorization", "Bearer a"),
        ("impersonate-user", "bob"),
        ("impersonate_user", "bob"),
        ("x-remote-user", "bob"),
    ]);
    let kept = ForwardedHeaders { credential: true, impersonation: true };
    assert_eq!(found.removals(kept).names().collect::<Vec<_>>(), [&b"impersonate_user"[..], b"x-remote-user"]);
    for (listed, expected) in
        [("Impersonate-User", true), ("close, authorization", true), ("Sec-WebSocket-Protocol", true), ("x", false)]
    {
        assert_eq!(scan(&[("connection", listed)]).connection_lists_identity, expected, "{listed}");
    }
}

#[test]
fn impersonation_is_seen_though_connection_lists_it() {
    let hidden = [("impersonate-uid", "1"), ("connection", "Impersonate-Uid")];
    assert_eq!(scan(&hidden).impersonation, [(&b"impersonate-uid"[..], &b"1"[..])]);
    assert!(scan(&[("impersonate_uid", "1")]).impersonation.is_empty());
}

#[test]
fn names_listed_in_connection_are_lifted_in_any_case() {
    let found = scan(&[("connection", "keep-alive, X-Secret ,Content-Length"), ("connection", "authorization")]);
    assert_eq!(found.to_remove, [&b"X-Secret"[..], b"authorization"]);
}

#[test]
fn connection_hides_no_header_of_the_gateway() {
    for name in ["X-Forwarded-For", "x-request-id", "Via", "forwarded", "x-forwarded-proto"] {
        let listed = format!("Upgrade, {name}");
        assert_eq!(scan(&[("connection", &listed)]).bad_connection, Some(BadConnection::NamesHop), "{name}");
    }
    assert_eq!(scan(&[("connection", &["a"; 16].join(","))]).bad_connection, None);
    let many = scan(&[("connection", &["a"; 30_000].join(","))]).to_remove.len();
    assert!(many < 20, "{many}");
    assert_eq!(scan(&[("connection", &["a"; 17].join(","))]).bad_connection, Some(BadConnection::TooManyNames));
}

#[test]
fn lines_that_envoy_joined_count_apart() {
    assert_eq!(scan(&[("authorization", "Bearer a")]).authorization_lines, 1);
    assert_eq!(scan(&[("authorization", "Bearer a,Bearer b")]).authorization_lines, 2);
}

#[test]
fn upgrades_are_told_from_other_requests() {
    let is_upgrade =
        |connection: &str, upgrade: &str| scan(&[("connection", connection), ("upgrade", upgrade)]).is_upgrade;
    assert!(is_upgrade("Upgrade", "websocket"));
    assert!(is_upgrade("keep-alive, upgrade", "SPDY/3.1"));
    assert!(!is_upgrade("keep-alive", "websocket"));
    assert!(!is_upgrade("upgrade", ""));
    assert!(!scan(&[("upgrade", "websocket")]).is_upgrade);
    assert!(!is_upgrade("xupgrade", "websocket"));
    let two = [("connection", "upgrade"), ("upgrade", "a"), ("upgrade", "websocket")];
    assert!(!scan(&two).is_websocket, "the first line decides");
    let ambiguous = scan(&[("connection", "xupgrade"), ("upgrade", "websocket")]);
    assert_eq!(ambiguous.bad_connection, Some(BadConnection::AmbiguousUpgrade));
    assert_eq!(scan(&[("connection", "xupgrade")]).bad_connection, None);
}

#[test]
fn header_that_the_scan_reads_cannot_be_reserved() {
    for prefix in ["x-auth-", "content-encoding", "x-forwarded-proto", "x-r"] {
        assert_eq!(can_be_reserved(prefix), prefix != "x-r", "{prefix}");
    }
    for name in READ.map(|name| std::str::from_utf8(name).unwrap()) {
        assert!((1..=name.len()).all(|end| !can_be_reserved(&name[..end])), "{name}");
        let values = [("upgrade", "websocket"), (name, "upgrade")];
        assert!(scan(&values).to_remove.is_empty(), "{name}");
    }
}

#[test]
fn gateways_own_requests_are_recognised() {
    assert!(scan(&[("via", "1.1 other, 2 lab")]).is_loop);
    assert!(!scan(&[("via", "1.1 other-lab")]).is_loop);
    assert!(!scan(&[("via", "lab")]).is_loop);
}

#[test]
fn token_subprotocols_are_seen_among_others() {
    let found = scan(&[("sec-websocket-protocol", "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.eA")]);
    assert!(found.token_subprotocol);
    assert!(!scan(&[("sec-websocket-protocol", "v5.channel.k8s.io")]).token_subprotocol);
}

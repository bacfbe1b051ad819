//! `UpstreamIdentity::RequestHeader`: users of certificates go upstream in an authenticating proxy's headers, tokens and
//! impersonation unchanged.

use portcullis_filter_config::RequestHeaders;

use super::reviews::{asked, reviewed};
use super::*;
use crate::exchange::{Exchange, MemoryHost, Next};

pub(super) const AS_BOB: (&str, &str) = ("impersonate-user", "bob");
pub(super) const TOKEN: (&str, &str) = ("authorization", "Bearer abc");
pub(super) const UPGRADE: [(&str, &str); 2] = [("connection", "Upgrade"), ("upgrade", "websocket")];

fn proxy_with(change: impl FnOnce(&mut ClusterConfig)) -> Fixture {
    fixture_with(|config| {
        config.upstream_identity = UpstreamIdentity::RequestHeader(RequestHeaders::default());
        change(config);
    })
}

fn reviewing() -> Fixture {
    proxy_with(|config| {
        config.reviews = Some(asked(Some("system:portcullis")));
    })
}

/// The request as it leaves for the upstream: destination, then header lines except those of the message itself.
pub(super) fn sent(fixture: &Fixture, peer: Peer<'_>, headers: Headers<'_>) -> Result<(String, Vec<String>), u16> {
    let mut all = vec![(":method", "GET"), (":path", POD), (":authority", "prod.example.com")];
    all.extend_from_slice(headers);
    let all = all.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect();
    let mut host = MemoryHost::new(all, now(), UPTIME, |_: &Review| panic!("nothing is reviewed here"));
    match peer {
        Peer::Chain(chain) => host.chain = Some(chain.to_vec()),
        Peer::None => {}
        Peer::Unreadable => host.lost_chain = true,
    }
    let mut exchange = Exchange::default();
    if exchange.request_headers(&fixture.gateway, Some(&fixture.route), &mut host) == Next::Stop {
        return Err(host.reply.unwrap().code);
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let lines = host.headers.iter().filter(|(name, _)| !name.starts_with(b":"));
    let mut lines: Vec<_> = lines.map(|(name, value)| format!("{}: {}", text(name), text(value))).collect();
    assert!(lines.iter().any(|line| line.starts_with("via:")), "the way back is not reviewed");
    lines.retain(|line| !line.starts_with("via:") && !line.starts_with("upgrade:"));
    Ok((host.destination.unwrap(), lines))
}

#[test]
fn certificate_is_forwarded_and_impersonation_left_to_upstream() {
    let fixture = proxy_with(|_| {});
    let chain = testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
    let alice = ["x-remote-user: alice", "x-remote-group: dev"];
    let of = |headers| sent(&fixture, Peer::Chain(&chain), headers).unwrap();
    let (destination, lines) = of(&[TOKEN, ("x-remote-user", "admin"), ("x_remote_user", "admin")]);
    assert_eq!((destination.as_str(), lines.len()), ("all.h2.read", 2 + lines.len() - alice.len()));
    assert!(alice.iter().all(|line| lines.iter().any(|told| told == line)), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("admin") || line.contains("Bearer")), "{lines:?}");

    let (destination, lines) = of(&[AS_BOB, ("impersonate-uid", "7"), ("impersonate_user", "eve")]);
    assert_eq!(destination, "all.h2.read");
    assert!(lines.contains(&"impersonate-user: bob".to_owned()) && lines.contains(&"impersonate-uid: 7".to_owned()));
    assert!(lines.contains(&"x-remote-user: alice".to_owned()) && !lines.iter().any(|line| line.contains("eve")));
    assert_eq!(of(&UPGRADE).0, "all.upgrade.session");
}

#[test]
fn attribution_extra_of_a_client_is_refused() {
    let chain_of = |fixture: &Fixture| testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
    for fixture in [proxy_with(|_| {}), proxy_with(|config| config.audit_attribution = true)] {
        let chain = chain_of(&fixture);
        for name in [
            "impersonate-extra-portcullis.dev%2foriginal-user",
            "impersonate-extra-portcullis.dev/original-user",
            "impersonate-extra-%70ortcullis.dev%2Fx",
            "impersonate-extra-%50ORTCULLIS.dev%2fx",
            "impersonate-extra-portcullis.dev%2f%ff",
            "impersonate-extra-portcullis.dev/%zz",
        ] {
            for headers in [vec![AS_BOB, (name, "root")], vec![(name, "root")], vec![TOKEN, AS_BOB, (name, "root")]] {
                assert_eq!(sent(&fixture, Peer::Chain(&chain), &headers), Err(403), "{name}");
                assert_eq!(sent(&fixture, Peer::None, &headers), Err(403), "{name}");
            }
        }
        let scopes = [AS_BOB, ("impersonate-extra-scopes", "a"), ("impersonate-extra-%2570ortcullis.dev%2fx", "a")];
        assert!(sent(&fixture, Peer::Chain(&chain), &scopes).is_ok(), "decoded once, as kube-apiserver does");
    }
}

#[test]
fn unreviewed_token_goes_over_its_own_connections() {
    let fixture = proxy_with(|_| {});
    let (destination, lines) = sent(&fixture, Peer::None, &[TOKEN, AS_BOB]).unwrap();
    assert_eq!(destination, "all.anonymous.read");
    assert_eq!(lines, ["authorization: Bearer abc", "impersonate-user: bob"]);
    let (destination, lines) = sent(&fixture, Peer::None, &[("authorization", "Basic abc")]).unwrap();
    assert_eq!((destination.as_str(), lines), ("all.anonymous.read", vec![]), "no credential that Kubernetes knows");
    let subprotocol = ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.eA, v5.channel.k8s.io");
    let (destination, lines) = sent(&fixture, Peer::None, &[UPGRADE[0], UPGRADE[1], subprotocol]).unwrap();
    assert_eq!(destination, "all.anonymous.session");
    assert!(lines.contains(&format!("{}: {}", subprotocol.0, subprotocol.1)), "{lines:?}");
}

#[test]
fn token_shares_a_connection_only_after_its_confirmation() {
    let fixture = reviewing();
    let after = |token, status: u16, body: &str| {
        reviewed(&fixture, Peer::None, &[token], now(), |_| (status, body.to_owned())).1
    };
    let yes = r#"{"kind":"TokenReview","status":{"authenticated":true,"user":{"username":"robot"}}}"#;
    assert_eq!(after(TOKEN, 201, yes), "all.passthrough.read");
    let (destination, lines) = sent(&fixture, Peer::None, &[TOKEN, AS_BOB]).unwrap();
    assert_eq!(destination, "all.passthrough.read");
    assert_eq!(lines, ["authorization: Bearer abc", "impersonate-user: bob"]);
    assert_eq!(sent(&fixture, Peer::None, &[TOKEN, UPGRADE[0], UPGRADE[1]]).unwrap().0, "all.anonymous.session");
    let no = r#"{"kind":"TokenReview","status":{"authenticated":false}}"#;
    assert_eq!(after(("authorization", "Bearer def"), 201, no), "401 unauthorized");
    assert_eq!(after(("authorization", "Bearer ghi"), 500, ""), "503 review_failed");
}

#[test]
fn request_whose_identity_would_get_lost_on_the_way_is_refused() {
    let fixture = reviewing();
    let chain = testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
    for listed in ["Impersonate-User", "close, AUTHORIZATION", "sec-websocket-protocol"] {
        let headers = [("connection", listed), AS_BOB];
        assert_eq!(sent(&fixture, Peer::Chain(&chain), &headers), Err(400), "{listed}");
    }
}

#[test]
fn headers_that_a_client_could_send_are_never_believed() {
    let forged = [("x-auth-user", "admin"), ("x-auth_user", "admin"), ("legacy-group", "system:masters")];
    let names = |reserved: &[&str]| RequestHeaders {
        user: "x-auth-user".into(),
        reserved: reserved.iter().map(|name| (*name).to_owned()).collect(),
        ..RequestHeaders::default()
    };
    // The lists of the listener and of the cluster, which may be of two editions, and what of `forged` stays.
    for (listener, cluster, stays) in [
        (&[][..], &[][..], &["legacy-group: system:masters"][..]),
        (&["x-auth-user"], &[], &["legacy-group: system:masters"]),
        (&["x-auth-user"], &["x-auth-user", "legacy-"], &[]),
        (&["x-auth-user", "legacy-"], &["x-auth-user"], &[]),
        (&["x-auth-user", "legacy-"], &["x-auth-user", "legacy-"], &[]),
        (&["x-other-user"], &["legacy-"], &[]),
    ] {
        let fixture = proxy_with(|config| config.upstream_identity = UpstreamIdentity::RequestHeader(names(cluster)));
        let reserved_headers = listener.iter().map(|name| (*name).to_owned()).collect();
        let config = FilterConfig { reserved_headers, ..FilterConfig::new("lab") };
        let fixture = Fixture { gateway: Gateway::compile(&config).unwrap(), ..fixture };
        let (_, lines) = sent(&fixture, Peer::None, &forged).unwrap();
        assert_eq!(lines, stays, "{listener:?} {cluster:?}");
        // Trailers are asked about one by one.
        for (name, reserved) in [
            ("x-auth-user", true),
            ("x_auth-user", true),
            ("x-remote-user", true),
            ("x-auth", false),
            ("legacy-group", stays.is_empty()),
        ] {
            let is_reserved = fixture.gateway.reserves(Some(&fixture.route.cluster), name.as_bytes());
            assert_eq!(is_reserved, reserved, "{listener:?} {cluster:?} {name}");
        }
    }
    for bad in ["", "X-User", "x user", "x-user:", "x", "content-", "x-request-id"] {
        for names in [RequestHeaders { user: bad.into(), ..RequestHeaders::default() }, names(&[bad])] {
            let mut config = plain_config(None);
            config.upstream_identity = UpstreamIdentity::RequestHeader(names);
            let compiled = Cluster::compile(&config, &EphemeralState([7; 32]));
            assert_eq!(compiled.err(), Some(CompileError::HeaderName(bad.into())), "{bad:?}");
        }
    }
}

/// A client of which nothing is known matches no rule about users, neither one that names nor one that excludes users.
#[test]
fn unknown_user_matches_only_what_asks_for_nobody() {
    let list = |entries: &[&str]| entries.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>();
    let account = portcullis_filter_config::ServiceAccount { namespace: "ns".into(), name: "sa".into() };
    let (no_account, accounts) = (vec![], vec![account]);
    for (users, groups, accounts, matches) in [
        (&[][..], &[][..], &no_account, true),
        (&["*"], &["*"], &no_account, true),
        (&["*", "-eve"], &[], &no_account, true),
        (&["*"], &[], &accounts, true),
        (&[], &[], &accounts, false),
        (&["-eve"], &[], &no_account, false),
        (&["-eve"], &[], &accounts, false),
        (&["eve"], &[], &no_account, false),
        (&["system:*"], &[], &no_account, false),
        (&[], &["-dev"], &no_account, false),
        (&[], &["system:authenticated"], &no_account, false),
        (&[], &["system:unauthenticated"], &no_account, false),
        (&["-*"], &[], &no_account, false),
        (&["system:anonymous"], &[], &no_account, false),
    ] {
        let rule =
            Rule { users: list(users), user_groups: list(groups), service_accounts: accounts.clone(), ..all_rules() };
        let rule_text = format!("{rule:?}");
        let fixture = proxy_with(|config| {
            let policy =
                Policy { group: "all".into(), flow_control_schema: None, log: false, deny: None, rules: vec![rule] };
            config.policies = vec![policy].into();
        });
        assert_eq!(sent(&fixture, Peer::None, &[TOKEN]).is_ok(), matches, "{rule_text}");
    }
}

/// A server behind a proxy may ask for credentials of its own.
#[test]
fn status_401_is_about_the_token_only_if_the_upstream_judges_it() {
    let fixture = reviewing();
    let yes = r#"{"kind":"TokenReview","status":{"authenticated":true,"user":{"username":"robot"}}}"#;
    reviewed(&fixture, Peer::None, &[TOKEN], now(), |_| (201, yes.to_owned()));
    let is_about_token = |path: &str, headers: Headers<'_>| {
        let mut all = vec![(":method", "GET"), (":path", path), (":authority", "prod.example.com")];
        all.extend_from_slice(headers);
        let scan = fixture
            .gateway
            .scan(Some(&fixture.route.cluster), all.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
        let answers = ReviewAnswers::default();
        let request = RequestContext { scan: &scan, peer: Peer::None, answers: &answers, now: now(), uptime: UPTIME };
        match fixture.gateway.decide(&fixture.route.cluster, &request) {
            Decision::Forward(forward) => forward.token.is_some(),
            other => panic!("{other:?}"),
        }
    };
    assert!(is_about_token(POD, &[TOKEN]));
    assert!(is_about_token(POD, &[TOKEN, UPGRADE[0], UPGRADE[1]]));
    assert!(!is_about_token("/api/v1/namespaces/n/services/s/proxy/x", &[TOKEN]));
    assert!(!is_about_token("/api/v1/proxy/namespaces/n/services/s/x", &[TOKEN]));
    assert!(!is_about_token(POD, &[]), "nobody's token");
}

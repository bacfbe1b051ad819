//! `UpstreamIdentity::ClientCredential`: what clients present goes upstream as it is, and never with a credential of the gateway's.

use std::sync::LazyLock;

use portcullis_filter_config::{Dispatch, ProtectedIdentities, Reviews};
use proptest::prelude::*;

use super::proxy::{AS_BOB, TOKEN, UPGRADE, sent};
use super::reviews::{reviewed, token_of};
use super::*;

const BASIC: (&str, &str) = ("authorization", "Basic abc");
const SUBPROTOCOL: (&str, &str) =
    ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.eA, v5.channel.k8s.io");

fn unchanged_with(change: impl FnOnce(&mut ClusterConfig)) -> Fixture {
    fixture_with(|config| {
        config.upstream_identity = UpstreamIdentity::ClientCredential;
        config.client_ca = None;
        change(config);
    })
}

fn reviewing_with(change: impl FnOnce(&mut ClusterConfig)) -> Fixture {
    unchanged_with(|config| {
        let reviews = r#"{"cluster": "apiserver"}"#;
        config.reviews = Some(serde_json::from_str::<Reviews>(reviews).unwrap());
        change(config);
    })
}

/// One policy for each, in this order.
fn only(rules: &[(&str, Rule)]) -> Dispatch {
    let policy = |(group, rule): &(&str, Rule)| Policy {
        group: (*group).into(),
        flow_control_schema: None,
        log: false,
        deny: None,
        rules: vec![rule.clone()],
    };
    rules.iter().map(policy).collect()
}

fn users(names: &[&str]) -> Rule {
    Rule { users: names.iter().map(|name| (*name).to_owned()).collect(), ..all_rules() }
}

#[test]
fn client_credential_goes_on_unchanged() {
    let fixture = unchanged_with(|_| {});
    let long = format!("Bearer {}", "x".repeat(20_000));
    let table: [(Headers<'_>, &str, Headers<'_>); 11] = [
        (&[], "all.anonymous.read", &[]),
        (&[TOKEN], "all.anonymous.read", &[TOKEN]),
        (&[TOKEN, AS_BOB, ("impersonate-uid", "7")], "all.anonymous.read", &[TOKEN, AS_BOB, ("impersonate-uid", "7")]),
        (&[AS_BOB], "all.anonymous.read", &[AS_BOB]),
        (&[BASIC], "all.anonymous.read", &[BASIC]),
        (&[("authorization", "")], "all.anonymous.read", &[("authorization", "")]),
        (&[("authorization", "Bearer a\tb")], "all.anonymous.read", &[("authorization", "Bearer a\tb")]),
        (&[("authorization", &long)], "all.anonymous.read", &[("authorization", &long)]),
        (&[TOKEN, UPGRADE[0], UPGRADE[1]], "all.anonymous.session", &[TOKEN, UPGRADE[0]]),
        (&[SUBPROTOCOL, UPGRADE[0], UPGRADE[1]], "all.anonymous.session", &[SUBPROTOCOL, UPGRADE[0]]),
        (&[TOKEN, SUBPROTOCOL, UPGRADE[0], UPGRADE[1]], "all.anonymous.session", &[TOKEN, SUBPROTOCOL, UPGRADE[0]]),
    ];
    for (headers, destination, kept) in table {
        let mut kept: Vec<String> = kept.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let (found, mut lines) = sent(&fixture, Peer::None, headers).unwrap();
        kept.sort();
        lines.sort();
        assert_eq!((found.as_str(), lines), (destination, kept), "{headers:?}");
    }
}

#[test]
fn header_scan_is_on_as_ever() {
    let fixture = unchanged_with(|_| {});
    let forged = [
        ("x-remote-user", "admin"),
        ("x-remote-group", "system:masters"),
        ("x_remote_user", "admin"),
        ("x-forwarded-client-cert", "Subject=\"CN=admin\""),
        ("x-envoy-upstream-alt-stat-name", "x"),
        ("x-portcullis-request", "x"),
        ("impersonate_user", "admin"),
    ];
    assert_eq!(sent(&fixture, Peer::None, &forged).unwrap(), ("all.anonymous.read".to_owned(), vec![]));
    let refused: [(Headers<'_>, u16); 6] = [
        (&[TOKEN, ("authorization", "Bearer def")], 400),
        (&[("authorization", "Bearer abc,Bearer def")], 400),
        (&[TOKEN, ("connection", "Authorization")], 400),
        (&[AS_BOB, ("connection", "close, impersonate-user")], 400),
        (&[("via", "1.1 lab")], 508),
        (&[("connection", "xupgrade"), UPGRADE[1]], 400),
    ];
    for (headers, code) in refused {
        assert_eq!(sent(&fixture, Peer::None, headers), Err(code), "{headers:?}");
    }
    assert_eq!(outcome(&fixture, Peer::None, "GET", POD, &[(":authority", "other.example.com")]), "421 misdirected");
}

#[test]
fn certificate_is_not_looked_at() {
    let fixture = unchanged_with(|_| {});
    let chain = testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
    for peer in [Peer::Chain(&chain), Peer::Chain(b"garbled"), Peer::Unreadable] {
        assert_eq!(sent(&fixture, peer, &[]).unwrap(), ("all.anonymous.read".to_owned(), vec![]), "{peer:?}");
    }
}

#[test]
fn configuration_that_would_lose_a_user_is_not_compiled() {
    let compiled = |change: &dyn Fn(&mut ClusterConfig)| {
        let mut config = plain_config(None);
        config.upstream_identity = UpstreamIdentity::ClientCredential;
        change(&mut config);
        Cluster::compile(&config, &EphemeralState([7; 32])).map(drop)
    };
    assert_eq!(compiled(&|_| {}), Ok(()));
    let with_ca = |config: &mut ClusterConfig| config.client_ca = Some(ca("clients").pem());
    assert_eq!(compiled(&with_ca), Err(CompileError::ClientCredential("clientCa")));
    assert_eq!(
        compiled(&|config| config.audit_attribution = true),
        Err(CompileError::ClientCredential("auditAttribution"))
    );
}

#[test]
fn reviewed_token_is_still_the_clients_own() {
    let fixture = reviewing_with(|config| config.policies = only(&[("robots", users(&["robot"]))]));
    let after = |headers: Headers<'_>, answer: (u16, &str)| {
        reviewed(&fixture, Peer::None, headers, now(), |_| (answer.0, answer.1.to_owned())).1
    };
    let yes = token_of("robot").1;
    assert_eq!(after(&[TOKEN], (201, &yes)), "robots.passthrough.read");
    let (destination, lines) = sent(&fixture, Peer::None, &[TOKEN, AS_BOB]).unwrap();
    assert_eq!(destination, "robots.passthrough.read", "the client, not whom it asks to be");
    assert_eq!(lines, ["authorization: Bearer abc", "impersonate-user: bob"]);
    assert_eq!(sent(&fixture, Peer::None, &[TOKEN, UPGRADE[0], UPGRADE[1]]).unwrap().0, "robots.anonymous.session");
    let no = r#"{"kind":"TokenReview","status":{"authenticated":false}}"#;
    assert_eq!(after(&[("authorization", "Bearer def")], (201, no)), "401 unauthorized");
    assert_eq!(after(&[("authorization", "Bearer ghi")], (500, "")), "503 review_failed");
    assert_eq!(after(&[("authorization", "Bearer a\tb")], (500, "")), "401 unauthorized", "it cannot be reviewed");
    assert_eq!(sent(&fixture, Peer::None, &[]), Err(403), "nobody is no robot");
}

/// An answer is believed here for a while after the upstream has stopped to: then the upstream takes the other one.
#[test]
fn policies_and_upstream_see_the_same_user() {
    let both = [TOKEN, SUBPROTOCOL, UPGRADE[0], UPGRADE[1]];
    for identity in [UpstreamIdentity::ClientCredential, UpstreamIdentity::RequestHeader(Default::default())] {
        let fixture = reviewing_with(|config| {
            config.upstream_identity = identity;
            config.policies = only(&[("robots", users(&["robot"]))]);
        });
        let of =
            |headers: Headers<'_>| reviewed(&fixture, Peer::None, headers, now(), |_| (201, token_of("robot").1)).1;
        assert_eq!(of(&[TOKEN, UPGRADE[0], UPGRADE[1]]), "robots.anonymous.session");
        assert_eq!(of(&both), "400 bad_request");
    }
}

/// The group of the first policy that matches, of each of these.
#[test]
fn unknown_user_matches_only_rules_without_users() {
    let table = [
        (vec![("named", users(&["robot"])), ("rest", users(&["*"]))], ["rest", "rest", "rest"]),
        (vec![("nobody", users(&["system:anonymous"])), ("rest", all_rules())], ["nobody", "rest", "rest"]),
        (vec![("not-eve", users(&["-eve"])), ("rest", all_rules())], ["not-eve", "rest", "rest"]),
        (vec![("somebody", users(&["-system:anonymous"]))], ["403", "403", "403"]),
    ];
    for (rules, expected) in table {
        let fixture = unchanged_with(|config| config.policies = only(&rules));
        let group = |headers: Headers<'_>| match sent(&fixture, Peer::None, headers) {
            Ok((destination, _)) => destination.split('.').next().unwrap_or_default().to_owned(),
            Err(code) => code.to_string(),
        };
        assert_eq!([group(&[]), group(&[TOKEN]), group(&[BASIC])], expected, "{rules:?}");
    }
}

#[test]
fn malformed_credential_does_not_replace_one() {
    let fixture = unchanged_with(|config| config.allow_anonymous = false);
    assert!(sent(&fixture, Peer::None, &[TOKEN]).is_ok(), "the upstream judges it");
    for headers in [&[][..], &[BASIC], &[("authorization", "Bearer ")], &[AS_BOB]] {
        assert_eq!(sent(&fixture, Peer::None, headers), Err(401), "{headers:?}");
    }
}

#[test]
fn unknown_user_is_refused_where_identities_are_protected() {
    let protected = || ProtectedIdentities { groups: vec!["system:masters".into()], ..ProtectedIdentities::default() };
    let fixture = unchanged_with(|config| config.protected = Some(protected()));
    for (headers, code) in [
        (&[TOKEN][..], 503),
        (&[BASIC], 503),
        (&[SUBPROTOCOL], 503),
        (&[("impersonate-user", "a"), ("impersonate-group", "system:masters")], 403),
    ] {
        assert_eq!(sent(&fixture, Peer::None, headers), Err(code), "{headers:?}");
    }
    let fixture = reviewing_with(|config| config.protected = Some(protected()));
    let master = serde_json::json!({"authenticated": true, "user": {"username": "a", "groups": ["system:masters"]}});
    let master = serde_json::json!({"kind": "TokenReview", "status": master}).to_string();
    let of = |headers: Headers<'_>, answer: &str| {
        reviewed(&fixture, Peer::None, headers, now(), |_| (201, answer.to_owned())).1
    };
    assert_eq!(of(&[TOKEN], &master), "403 protected_identity");
    let robot = ("authorization", "Bearer robots");
    assert_eq!(of(&[robot], &token_of("robot").1), "all.passthrough.read");
    assert_eq!(of(&[robot, SUBPROTOCOL, UPGRADE[0], UPGRADE[1]], &master), "400 bad_request", "two tokens");
    let basic = of(&[BASIC, SUBPROTOCOL, UPGRADE[0], UPGRADE[1]], &token_of("robot").1);
    assert_eq!(basic, "503 unchecked", "which of them counts, nobody knows");
}

#[test]
fn policy_all_matches_every_request() {
    let methods = ["GET", "POST", "DELETE", "PURGE", "OPTIONS"];
    let paths = [
        POD,
        "/",
        "/healthz",
        "/apis/x.io/v1/inventions",
        "/api/v1/namespaces/n/pods/a/exec?command=x",
        "/api/v1/proxy/nodes/a",
        "/apis/metrics.k8s.io",
        "/api/v1/pods?watch=1",
    ];
    for identity in [UpstreamIdentity::Impersonate, UpstreamIdentity::ClientCredential] {
        let fixture = fixture_with(|config| {
            config.upstream_identity = identity;
            config.client_ca = None;
            config.policies = Dispatch::All;
        });
        for (method, path) in methods.into_iter().flat_map(|method| paths.map(|path| (method, path))) {
            let outcome = outcome(&fixture, Peer::None, method, path, &[]);
            assert!(outcome.starts_with("all.anonymous."), "{method} {path}: {outcome}");
        }
    }
    let fixture = unchanged_with(|config| config.policies = Dispatch::All);
    assert_eq!(sent(&fixture, Peer::None, &[TOKEN]).unwrap().0, "all.anonymous.read", "also of the unknown");
    let fixture = unchanged_with(|config| config.policies = Dispatch::Policies(vec![]));
    assert_eq!(sent(&fixture, Peer::None, &[TOKEN]), Err(403), "an empty list is no policy that matches");
}

const NAMES: [&str; 11] = [
    "authorization",
    "impersonate-user",
    "impersonate-group",
    "impersonate_user",
    "x-remote-user",
    "x_remote-group",
    "x-forwarded-client-cert",
    "connection",
    "upgrade",
    "sec-websocket-protocol",
    "accept",
];
const VALUES: [&str; 8] =
    ["Bearer one", "Bearer ", "Basic x", "system:masters", "Upgrade", "websocket", SUBPROTOCOL.1, ""];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_request_gets_to_a_pool_that_shows_who_the_gateway_is(
        headers in prop::collection::vec((0..NAMES.len(), 0..VALUES.len()), 0..7),
        peer in 0_usize..3,
        anonymous: bool,
    ) {
        static FIXTURES: LazyLock<[Fixture; 2]> =
            LazyLock::new(|| [false, true].map(|anonymous| unchanged_with(|config| config.allow_anonymous = anonymous)));
        static CHAIN: LazyLock<Vec<u8>> = LazyLock::new(|| testing::encode(&[&issue(testing::alice(), &FIXTURES[0].ca)]));
        let (fixture, chain) = (&FIXTURES[usize::from(anonymous)], &*CHAIN);
        let peer = [Peer::None, Peer::Chain(chain), Peer::Unreadable][peer];
        let headers: Vec<_> = headers.into_iter().map(|(name, value)| (NAMES[name], VALUES[value])).collect();
        if let Ok((destination, mut lines)) = sent(fixture, peer, &headers) {
            prop_assert!(destination.starts_with("all.anonymous."), "{}", destination);
            let goes_on = ["authorization", "impersonate-user", "impersonate-group", "accept", "sec-websocket-protocol"];
            let mut wanted: Vec<String> = headers
                .iter()
                .filter(|(name, _)| goes_on.contains(name))
                .map(|(name, value)| format!("{name}: {value}"))
                .collect();
            lines.retain(|line| !line.starts_with("connection: "));
            lines.sort();
            wanted.sort();
            prop_assert_eq!(lines, wanted);
        }
    }
}

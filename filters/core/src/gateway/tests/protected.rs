//! Protected identities: no request acts as such a user or in such a group, by whatever header or credential.

use portcullis_filter_config::{ProtectedIdentities, RequestHeaders};
use proptest::prelude::*;
use rcgen::{DnType, DnValue};

use super::reviews::{access, asked, reviewed};
use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Impersonate,
    RequestHeader,
}

use Mode::{Impersonate, RequestHeader};

const TOKEN: (&str, &str) = ("authorization", "Bearer abc");

fn protecting(mode: Mode, drop_groups: bool, users: &[&str], groups: &[&str], is_reviewing: bool) -> Fixture {
    let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    fixture_with(|config| {
        config.protected = Some(ProtectedIdentities { users: list(users), groups: list(groups), drop_groups });
        if mode == RequestHeader {
            config.upstream_identity = UpstreamIdentity::RequestHeader(RequestHeaders::default());
        }
        config.reviews = is_reviewing.then(|| asked((mode == RequestHeader).then_some("system:portcullis")));
    })
}

fn masters(mode: Mode, drop_groups: bool) -> Fixture {
    protecting(mode, drop_groups, &["root", "system:serviceaccount:kube-system:*"], &["system:masters"], true)
}

/// The upstream's answers: the token's user, and that every user may impersonate.
fn answers(user: &str, groups: &[&str]) -> impl Fn(&str) -> (u16, String) {
    let user = serde_json::json!({"username": user, "groups": groups, "extra": {"scopes": ["all"]}});
    move |question| {
        if question.contains("SubjectAccessReview") {
            return access(true);
        }
        let status = serde_json::json!({"authenticated": true, "user": user});
        (201, serde_json::json!({"kind": "TokenReview", "status": status}).to_string())
    }
}

/// The library writes one organisation: the last one.
fn chain(fixture: &Fixture, user: &str, groups: &[&str]) -> Vec<u8> {
    let mut params = testing::client_params(&[(DnType::CommonName, user)]);
    if let Some(group) = groups.last() {
        params.distinguished_name.push(DnType::OrganizationName, DnValue::Utf8String((*group).to_owned()));
    }
    testing::encode(&[&issue(params, &fixture.ca)])
}

fn by_certificate(fixture: &Fixture, user: &str, groups: &[&str], headers: Headers<'_>) -> String {
    let chain = chain(fixture, user, groups);
    reviewed(fixture, Peer::Chain(&chain), headers, now(), answers("nobody", &[])).1
}

fn by_token(fixture: &Fixture, user: &str, groups: &[&str], headers: Headers<'_>) -> String {
    let headers: Vec<_> = [TOKEN].into_iter().chain(headers.iter().copied()).collect();
    reviewed(fixture, Peer::None, &headers, now(), answers(user, groups)).1
}

const REFUSED: &str = "403 protected_identity";

#[test]
fn protected_user_is_refused_in_every_mode() {
    for (mode, drops) in [(Impersonate, false), (Impersonate, true), (RequestHeader, false), (RequestHeader, true)] {
        let fixture = || masters(mode, drops);
        for user in ["root", "system:serviceaccount:kube-system:anything"] {
            assert_eq!(by_certificate(&fixture(), user, &[], &[]), REFUSED, "{mode:?} {drops}");
            assert_eq!(by_token(&fixture(), user, &[], &[]), REFUSED, "{mode:?} {drops}");
            // The certificate decides, with any other credential beside it.
            assert_eq!(by_certificate(&fixture(), user, &[], &[TOKEN]), REFUSED);
            // Nor may it act as another user.
            assert_eq!(by_certificate(&fixture(), user, &[], &[("impersonate-user", "bob")]), REFUSED);
            assert_eq!(by_token(&fixture(), "alice", &[], &[("impersonate-user", user)]), REFUSED);
        }
        for user in ["roo", "roots", "Root", "system:serviceaccount:default:x", "system:serviceaccount:kube-system"] {
            assert!(by_certificate(&fixture(), user, &[], &[]).starts_with("all.h2.read"), "{user}");
            assert!(by_token(&fixture(), user, &[], &[]).starts_with("all."), "{user}");
        }
    }
}

#[test]
fn member_of_a_protected_group_is_refused_or_loses_it() {
    let groups = ["dev", "system:masters", "ops"];
    let certificate = |mode, drops| by_certificate(&masters(mode, drops), "alice", &["system:masters"], &[]);
    let token = |mode, drops| by_token(&masters(mode, drops), "alice", &groups, &[]);
    for mode in [Impersonate, RequestHeader] {
        assert_eq!(certificate(mode, false), REFUSED);
        assert_eq!(token(mode, false), REFUSED);
    }
    assert_eq!(
        token(Impersonate, true),
        "all.h2.read impersonate-user=alice impersonate-group=dev impersonate-group=ops \
         impersonate-extra-scopes=all",
        "extras stay"
    );
    for (mode, names) in [(Impersonate, "impersonate"), (RequestHeader, "x-remote")] {
        let told = certificate(mode, true);
        let expected = format!("all.h2.read {names}-user=alice {names}-group=system:authenticated {names}-extra-");
        assert!(told.starts_with(&expected), "{told}");
    }
    assert_eq!(token(RequestHeader, true), REFUSED, "the upstream finds the group out itself");
}

#[test]
fn policies_do_not_see_a_group_that_is_dropped() {
    for mode in [Impersonate, RequestHeader] {
        let mut fixture = masters(mode, true);
        let mut config = plain_config(Some(fixture.ca.pem()));
        config.protected = Some(ProtectedIdentities {
            groups: vec!["system:masters".into()],
            drop_groups: true,
            ..ProtectedIdentities::default()
        });
        let rule = |groups: &str| Rule { user_groups: vec![groups.into()], ..all_rules() };
        let policy = |group: &str, rule| Policy {
            group: group.into(),
            flow_control_schema: None,
            log: false,
            deny: None,
            rules: vec![rule],
        };
        config.policies =
            vec![policy("privileged", rule("system:masters")), policy("rest", rule("-system:masters"))].into();
        if mode == RequestHeader {
            config.upstream_identity = UpstreamIdentity::RequestHeader(RequestHeaders::default());
        }
        fixture.route.cluster = Cluster::compile(&config, &EphemeralState([7; 32])).unwrap();
        let outcome = by_certificate(&fixture, "alice", &["system:masters"], &[]);
        assert!(outcome.starts_with("rest.h2.read"), "{outcome}");
        // The access log and `explain` see the same.
        let chain = chain(&fixture, "alice", &["system:masters"]);
        let scan = fixture
            .gateway
            .scan(Some(&fixture.route.cluster), [(&b":authority"[..], &b"prod.example.com"[..])].into_iter());
        let facts = RequestContext {
            scan: &scan,
            peer: Peer::Chain(&chain),
            answers: &ReviewAnswers::default(),
            now: now(),
            uptime: UPTIME,
        };
        let user = fixture.gateway.acting_user(&fixture.route.cluster, &facts).unwrap();
        assert_eq!(user.groups, ["system:authenticated"]);
    }
}

#[test]
fn protected_identity_cannot_be_impersonated() {
    let refused: [Headers<'_>; 9] = [
        &[("impersonate-user", "root")],
        &[("impersonate-user", "bob"), ("impersonate-group", "system:masters")],
        &[("impersonate-user", "bob"), ("impersonate-group", "dev"), ("impersonate-group", "system:masters")],
        &[("impersonate-user", "bob"), ("impersonate-group", "system:masters"), ("impersonate-group", "dev")],
        &[("impersonate-user", "system:serviceaccount:kube-system:x")],
        &[("impersonate-user", "system:serviceaccount:default:x"), ("impersonate-group", "system:masters")],
        &[("impersonate-user", "root"), ("impersonate-uid", "7"), ("impersonate-extra-scopes", "all")],
        &[("impersonate-user", "bob"), ("impersonate-group", "system:masters"), ("authorization", "Bearer x")],
        &[("impersonate-user", "system:anonymous"), ("impersonate-group", "system:masters")],
    ];
    for (mode, drops) in [(Impersonate, false), (Impersonate, true), (RequestHeader, false), (RequestHeader, true)] {
        for headers in refused {
            // A group that is asked for by name is never dropped.
            let outcome = by_certificate(&masters(mode, drops), "alice", &["dev"], headers);
            assert_eq!(outcome, REFUSED, "{mode:?} {drops} {headers:?}");
        }
        let others = [("impersonate-user", "bob"), ("impersonate-group", "dev")];
        assert!(by_certificate(&masters(mode, drops), "alice", &[], &others).starts_with("all.h2.read"));
    }
    // As Go's server reads it, over HTTP/1.1.
    for blank in [" system:masters", "system:masters\t"] {
        let headers = [("impersonate-user", "bob"), ("impersonate-group", blank)];
        assert_eq!(by_certificate(&masters(RequestHeader, true), "alice", &[], &headers), REFUSED);
    }
    let unknown = [("impersonate-user", "bob"), ("impersonate-groups", "x")];
    assert_eq!(by_certificate(&masters(RequestHeader, true), "alice", &[], &unknown), "403 impersonation");
    let anonymous = [("impersonate-user", "bob"), ("impersonate-group", "system:masters")];
    let outcome = reviewed(&masters(RequestHeader, true), Peer::None, &anonymous, now(), answers("x", &[])).1;
    assert_eq!(outcome, REFUSED, "whoever asks");
}

/// The right to impersonate of a group that is dropped goes with it.
#[test]
fn upstream_is_asked_about_the_client_without_the_dropped_group() {
    let fixture = masters(Impersonate, true);
    let chain = chain(&fixture, "alice", &["system:masters"]);
    let headers = [("impersonate-user", "bob")];
    let (asked, _) = reviewed(&fixture, Peer::Chain(&chain), &headers, now(), answers("x", &[]));
    assert_eq!(asked.len(), 1);
    assert!(asked[0].contains("system:authenticated") && !asked[0].contains("system:masters"), "{asked:?}");
}

#[test]
fn groups_that_the_upstream_adds_do_not_count_as_dropped() {
    let of = |mode, groups: &[&str]| protecting(mode, true, &[], groups, true);
    for mode in [Impersonate, RequestHeader] {
        let anonymous = reviewed(&of(mode, &["system:unauthenticated"]), Peer::None, &[], now(), answers("x", &[])).1;
        assert_eq!(anonymous, REFUSED);
        let named = protecting(mode, true, &["system:anonymous"], &[], true);
        assert_eq!(reviewed(&named, Peer::None, &[], now(), answers("x", &[])).1, REFUSED);
        assert_eq!(by_certificate(&of(mode, &["system:authenticated"]), "alice", &[], &[]), REFUSED);
        let asked = [("impersonate-user", "system:anonymous")];
        assert_eq!(by_certificate(&of(mode, &["system:unauthenticated"]), "alice", &[], &asked), REFUSED);
    }
    for mode in [Impersonate, RequestHeader] {
        for drops in [false, true] {
            let fixture = protecting(mode, drops, &[], &["system:unauthenticated"], true);
            assert_eq!(by_certificate(&fixture, "system:anonymous", &[], &[]), REFUSED, "{mode:?} {drops}");
            assert_eq!(by_token(&fixture, "system:anonymous", &[], &[]), REFUSED, "{mode:?} {drops}");
        }
    }
    // Constrained impersonation makes whom it finds named so a node, if nothing but the name is asked for.
    let node = [("impersonate-user", "system:node:n1")];
    let named = [node[0], ("impersonate-group", "dev")];
    assert_eq!(by_certificate(&of(RequestHeader, &["system:nodes"]), "alice", &[], &node), REFUSED);
    assert!(by_certificate(&of(RequestHeader, &["system:nodes"]), "alice", &[], &named).starts_with("all.h2.read"));
    let told = by_certificate(&of(Impersonate, &["system:nodes"]), "alice", &[], &node);
    assert!(told.starts_with("all.h2.read impersonate-user=system:node:n1 impersonate-group=system:authenticated"));
    let accounts = &["system:serviceaccounts:default"];
    let asked = [("impersonate-user", "system:serviceaccount:default:x")];
    assert_eq!(by_certificate(&of(RequestHeader, accounts), "alice", &[], &asked), REFUSED, "the upstream adds it");
    let told = by_certificate(&of(Impersonate, accounts), "alice", &[], &asked);
    assert!(told.ends_with("impersonate-group=system:serviceaccounts"), "{told}");
}

#[test]
fn token_that_nobody_reviewed_may_be_anybodys() {
    for mode in [Impersonate, RequestHeader] {
        let fixture = protecting(mode, false, &[], &["system:masters"], false);
        let outcome = reviewed(&fixture, Peer::None, &[TOKEN], now(), answers("x", &[])).1;
        assert_eq!(outcome, "503 unchecked", "{mode:?}");
        let bare = reviewed(&fixture, Peer::None, &[], now(), answers("x", &[])).1;
        assert_eq!(bare, "all.anonymous.read", "{mode:?}");
    }
    let upgrade = [("connection", "Upgrade"), ("upgrade", "websocket")];
    let subprotocol = ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.YWJj, v5.channel.k8s.io");
    for (mode, groups, expected) in [
        (Impersonate, "system:masters", REFUSED),
        (RequestHeader, "system:masters", REFUSED),
        (RequestHeader, "dev", "all.anonymous.session"),
    ] {
        let headers = [upgrade[0], upgrade[1], subprotocol];
        let outcome = reviewed(&masters(mode, false), Peer::None, &headers, now(), answers("alice", &[groups])).1;
        assert_eq!(outcome, expected, "{mode:?}");
    }
}

/// If the upstream no longer believed the first one, it would take the other one, which was not reviewed here.
#[test]
fn two_tokens_are_none_where_the_upstream_reads_them() {
    let subprotocol = ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.eHl6, v5.channel.k8s.io");
    let headers = [("connection", "Upgrade"), ("upgrade", "websocket"), subprotocol];
    assert_eq!(by_token(&masters(RequestHeader, false), "alice", &[], &headers), "400 bad_request");
    let here = by_token(&masters(Impersonate, false), "alice", &[], &headers);
    assert!(here.starts_with("all.upgrade.session impersonate-user=alice"), "{here}");
    let beside = by_certificate(&masters(RequestHeader, false), "alice", &[], &headers);
    assert!(beside.starts_with("all.upgrade.session x-remote-user=alice"), "{beside}");
}

const NAMES: [&str; 6] = [
    "alice",
    "root",
    "system:masters",
    "system:anonymous",
    "system:serviceaccount:ns:a",
    "system:serviceaccount:kube-system:a",
];
const GROUPS: [&str; 6] =
    ["dev", "system:masters", "system:unauthenticated", "system:serviceaccounts", "system:serviceaccounts:ns", "ops"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Any client with any credential and any impersonation: no line that goes upstream names a protected identity.
    #[test]
    fn protected_identity_never_goes_upstream(
        is_proxy: bool,
        drops: bool,
        by_certificate: bool,
        user in prop::sample::select(&NAMES[..]),
        mut groups in prop::sample::subsequence(&GROUPS[..], 0..=4),
        target in prop::option::of(prop::sample::select(&NAMES[..])),
        asked in prop::sample::subsequence(&GROUPS[..], 0..=3),
        protected_users in prop::sample::subsequence(&["root", "alice", "system:serviceaccount:kube-system:*"][..], 0..=2),
        protected_groups in prop::sample::subsequence(&GROUPS[..], 1..=2),
    ) {
        let groups = if by_certificate { groups.split_off(groups.len().saturating_sub(1)) } else { groups };
        let mode = if is_proxy { RequestHeader } else { Impersonate };
        let fixture = protecting(mode, drops, &protected_users, &protected_groups, true);
        let mut headers: Vec<(&str, &str)> = target.iter().map(|target| ("impersonate-user", *target)).collect();
        if target.is_some() {
            headers.extend(asked.iter().map(|group| ("impersonate-group", *group)));
        }
        let outcome = if by_certificate {
            super::protected::by_certificate(&fixture, user, &groups, &headers)
        } else {
            by_token(&fixture, user, &groups, &headers)
        };
        let is_forwarded = outcome.starts_with("all.");
        prop_assert!(is_forwarded || outcome == REFUSED || outcome == "401 unauthorized", "{outcome}");
        if is_forwarded {
            let is_user = |name: &str| {
                let prefix = |one: &str| one.strip_suffix('*').is_some_and(|prefix| name.starts_with(prefix));
                protected_users.iter().any(|one| *one == name || prefix(one))
            };
            let is_group = |name: &str| protected_groups.contains(&name);
            for (name, value) in outcome.split(' ').filter_map(|line| line.split_once('=')) {
                prop_assert!(!name.ends_with("-user") || !is_user(value), "{outcome}");
                prop_assert!(!name.ends_with("-group") || !is_group(value), "{outcome}");
            }
            // The upstream itself resolves a credential that is forwarded.
            if is_proxy {
                let is_asked = target.is_some() && asked.iter().any(|one| is_group(one));
                prop_assert!(!is_asked && !target.is_some_and(is_user));
                prop_assert!(by_certificate || !(is_user(user) || groups.iter().any(|one| is_group(one))));
            }
        }
    }
}

#[test]
fn name_that_is_no_text_does_not_hide_its_group() {
    let groups = vec!["system:nodes".to_owned()];
    let config = ProtectedIdentities { groups, ..Default::default() };
    let protected = crate::protected::Protected::compile(&config);
    for name in [b"system:node:n1".as_slice(), b"system:node:\xff", b"\tsystem:node:\xff\xfe "] {
        assert!(protected.enforce_lines(&[(b"impersonate-user", name)]).is_err(), "{name:?}");
    }
    assert!(protected.enforce_lines(&[(b"impersonate-user", b"\xff")]).is_ok());
}

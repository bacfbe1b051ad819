//! Tokens that the keys of their issuers verify, without the upstream.

use portcullis_filter_config::{ProtectedIdentities, TokenIssuer, UpstreamIdentity};
use serde_json::Value;

use super::reviews::{asked, reviewed, token_of};
use super::*;
use crate::local_token::IssuersError;
use crate::local_token::tests::{Signer, pod_claims};
use crate::state_store::ProcessState;

fn issued() -> u64 {
    now().as_secs()
}

fn after(seconds: u64) -> UnixTime {
    testing::at(issued() + seconds)
}

fn trusting(signer: &Signer, change: impl FnOnce(&mut ClusterConfig)) -> Fixture {
    fixture_with(|config| {
        config.reviews = Some(asked(None));
        config.token_issuers = vec![signer.issuer()];
        change(config);
    })
}

/// How often the upstream was asked, and the outcome. The upstream knows the token as another user's.
fn presented(fixture: &Fixture, token: &str, now: UnixTime) -> (usize, String) {
    let value = format!("Bearer {token}");
    let (asked, outcome) = reviewed(fixture, Peer::None, &[("authorization", &value)], now, |_| token_of("reviewed"));
    (asked.len(), outcome)
}

#[test]
fn verified_token_needs_no_review() {
    let signer = Signer::new();
    let fixture = trusting(&signer, |_| {});
    let token = signer.sign(&pod_claims(issued()));
    let (asked, outcome) = presented(&fixture, &token, now());
    assert_eq!(asked, 0);
    assert_eq!(
        outcome,
        "all.h2.read impersonate-user=system:serviceaccount:shop:robot impersonate-uid=u-1 \
         impersonate-group=system:serviceaccounts impersonate-group=system:serviceaccounts:shop \
         impersonate-extra-authentication.kubernetes.io%2fcredential-id=JTI=4a5b \
         impersonate-extra-authentication.kubernetes.io%2fnode-name=n1 \
         impersonate-extra-authentication.kubernetes.io%2fnode-uid=u-3 \
         impersonate-extra-authentication.kubernetes.io%2fpod-name=robot-7 \
         impersonate-extra-authentication.kubernetes.io%2fpod-uid=u-2"
    );
    assert_eq!(presented(&fixture, &token, after(599)), (0, outcome), "longer than a review is believed");
    let (asked, outcome) = presented(&fixture, &token, after(600));
    assert!((asked, outcome.contains("user=reviewed")) == (1, true), "the upstream knows best of its end: {outcome}");
}

#[test]
fn token_that_does_not_verify_is_reviewed_and_never_refused() {
    let signer = Signer::new();
    let fixture = trusting(&signer, |_| {});
    let good = signer.sign(&pod_claims(issued()));
    let claims = |path: &str, value: Value| {
        let mut claims = pod_claims(issued());
        claims[path] = value;
        signer.sign(&claims)
    };
    for (what, token) in [
        ("another key", Signer::new().sign(&pod_claims(issued()))),
        ("a changed signature", format!("{}AAAA", &good[..good.len() - 4])),
        ("an old token", signer.sign(&pod_claims(issued() - 3_600))),
        ("another audience", claims("aud", "else".into())),
        ("another issuer", claims("iss", "https://else.example.com".into())),
        ("a user whom no header can carry", claims("jti", "a\nb".into())),
        ("no JSON Web Token", "abc".to_owned()),
    ] {
        let (asked, outcome) = presented(&fixture, &token, now());
        assert!(asked == 1 && outcome.contains("user=reviewed"), "{what}: {asked} {outcome}");
    }
}

#[test]
fn key_that_is_taken_away_verifies_nothing_from_then_on() {
    let (signer, token_of_pod) = (Signer::new(), |signer: &Signer| signer.sign(&pod_claims(issued())));
    let token = token_of_pod(&signer);
    let process = ProcessState::default();
    let state = process.with_secret([7; 32]);
    let edition = |issuers: Vec<TokenIssuer>| {
        fixture_in(&state, |config| {
            config.client_ca = None;
            config.reviews = Some(asked(None));
            config.token_issuers = issuers;
        })
    };
    let first = edition(vec![signer.issuer()]);
    assert_eq!(presented(&first, &token, now()).0, 0);
    let rotated = edition(vec![TokenIssuer { keys: vec![Signer::new().key("k2")], ..signer.issuer() }]);
    assert_eq!(presented(&rotated, &token, now()).0, 1, "what was remembered by the old key is not believed");
    assert_eq!(presented(&edition(vec![]), &token, now()).0, 0, "the upstream's answer is remembered");
    let other = signer.sign(&{
        let mut claims = pod_claims(issued());
        claims["jti"] = "other".into();
        claims
    });
    assert_eq!(presented(&first, &other, now()).0, 0);
    assert_eq!(presented(&edition(vec![]), &other, now()).0, 1, "nor without any issuer");
}

#[test]
fn clusters_with_one_issuer_share_neither_keys_nor_answers() {
    let process = ProcessState::default();
    let state = process.with_secret([7; 32]);
    let (ours, theirs) = (Signer::new(), Signer::new());
    let cluster = |signer: &Signer, name: &str| {
        fixture_in(&state, |config| {
            config.identity = name.to_owned();
            config.client_ca = None;
            config.reviews = Some(asked(None));
            config.token_issuers = vec![signer.issuer()];
        })
    };
    let (first, second) = (cluster(&ours, "first"), cluster(&theirs, "second"));
    let token = ours.sign(&pod_claims(issued()));
    assert_eq!(presented(&first, &token, now()).0, 0);
    assert_eq!(presented(&second, &token, now()).0, 1);
}

#[test]
fn token_is_verified_for_audiences_that_reviews_ask_for() {
    let signer = Signer::new();
    let token = signer.sign(&pod_claims(issued()));
    let asking = |audiences: &[&str], config: &mut ClusterConfig| {
        let token_audiences = audiences.iter().map(|audience| (*audience).to_owned()).collect();
        config.reviews = Some(portcullis_filter_config::Reviews { token_audiences, ..asked(None) });
        config.token_issuers = vec![signer.issuer()];
    };
    let fixture = fixture_with(|config| asking(&["else", "api", "other"], config));
    assert_eq!(presented(&fixture, &token, now()).0, 0);
    let mut config = plain_config(None);
    asking(&["else", "api"], &mut config);
    let refused = Cluster::compile(&config, &EphemeralState([0; 32])).map(drop);
    assert_eq!(refused, Err(CompileError::TokenIssuers(IssuersError::Audience)), "a review would reject the others");
}

/// kube-apiserver closes an HTTP/2 connection on which it rejects a token, and it may reject one that its keys verify: record 0048.
#[test]
fn verified_token_shares_no_connection_that_may_be_closed() {
    let signer = Signer::new();
    for tokens_are_reviewed in [true, false] {
        let fixture = trusting(&signer, |config| {
            config.upstream_identity =
                UpstreamIdentity::RequestHeader(portcullis_filter_config::RequestHeaders::default());
            config.reviews = tokens_are_reviewed.then(|| asked(Some("gateway")));
        });
        let token = signer.sign(&pod_claims(issued()));
        for _ in 0..2 {
            let outcome = presented(&fixture, &token, now());
            assert_eq!(outcome, (0, "all.anonymous.read".to_owned()), "remembered or not");
        }
        let two = [("authorization", format!("Bearer {token}"))];
        let ws = [
            ("authorization", &*two[0].1),
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.YWJj,v5"),
        ];
        let (asked, outcome) = reviewed(&fixture, Peer::None, &ws, now(), |_| token_of("reviewed"));
        assert!(asked.is_empty() && outcome.starts_with("400"), "two tokens: {outcome}");
    }
    // A token that a review has confirmed shares as before.
    let fixture = trusting(&signer, |config| {
        config.upstream_identity = UpstreamIdentity::RequestHeader(portcullis_filter_config::RequestHeaders::default());
    });
    let unknown = Signer::new().sign(&pod_claims(issued()));
    assert_eq!(presented(&fixture, &unknown, now()), (1, "all.passthrough.read".to_owned()));
    assert_eq!(presented(&fixture, &unknown, now()), (0, "all.passthrough.read".to_owned()));
}

#[test]
fn policies_know_the_user_of_a_verified_token_without_reviews() {
    let signer = Signer::new();
    let fixture = trusting(&signer, |config| {
        config.upstream_identity = UpstreamIdentity::RequestHeader(portcullis_filter_config::RequestHeaders::default());
        config.reviews = None;
        let robots = Rule { user_groups: vec!["system:serviceaccounts:shop".into()], ..all_rules() };
        config.policies = vec![Policy { group: "robots".into(), rules: vec![robots], ..Policy::default() }].into();
    });
    let token = signer.sign(&pod_claims(issued()));
    assert_eq!(presented(&fixture, &token, now()), (0, "robots.anonymous.read".to_owned()));
    assert_eq!(presented(&fixture, "abc", now()).1, "403 no_policy");
}

#[test]
fn verified_user_is_protected_as_a_reviewed_one() {
    let signer = Signer::new();
    for drop_groups in [true, false] {
        let fixture = trusting(&signer, |config| {
            let groups = vec!["system:serviceaccounts:shop".to_owned()];
            config.protected = Some(ProtectedIdentities { groups, drop_groups, ..ProtectedIdentities::default() });
        });
        let (asked, outcome) = presented(&fixture, &signer.sign(&pod_claims(issued())), now());
        assert_eq!(asked, 0);
        let refused = outcome.starts_with("403 ");
        assert_eq!(refused, !drop_groups, "{outcome}");
        assert!(!outcome.contains("serviceaccounts:shop"), "{outcome}");
    }
}

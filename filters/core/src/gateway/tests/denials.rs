//! Policies that deny: what they answer, and in which configurations nothing may deny by the user.

use portcullis_filter_config::{Denial, RequestHeaders, Reviews, ServiceAccount};

use super::*;
use crate::cluster::CompileError;

fn denying(rule: Rule) -> Policy {
    let deny = Some(Denial { message: "ask the platform team".into() });
    Policy { deny, rules: vec![rule], ..policy("all") }
}

fn policy(group: &str) -> Policy {
    Policy { group: group.into(), rules: vec![all_rules()], ..Policy::default() }
}

fn of_user(name: &str) -> Rule {
    Rule { users: vec![name.into()], ..all_rules() }
}

#[test]
fn policy_that_denies_answers_for_its_requests_alone() {
    let pods = Rule { resources: vec!["pods".into()], non_resource_urls: vec![], ..all_rules() };
    let fixture = fixture_with(|config| {
        config.policies = [denying(of_user("mallory")), denying(pods), policy("all")].into_iter().collect();
    });
    let table = [
        (POD, "403 denied_by_policy"),
        ("/api/v1/namespaces/n/pods/a/log", "all.anonymous.watch"),
        ("/api/v1/namespaces/n/secrets", "all.anonymous.read"),
        ("/version", "all.anonymous.read"),
    ];
    for (path, expected) in table {
        let found = outcome(&fixture, Peer::None, "GET", path, &[]);
        assert!(found.starts_with(expected), "{path}: {found}");
    }
}

#[test]
fn policy_that_denies_a_user_lets_others_pass() {
    let fixture = fixture_with(|config| {
        let deletes = Rule { verbs: vec!["delete".into()], ..of_user("alice") };
        config.policies = [denying(deletes), policy("all")].into_iter().collect();
    });
    let chain = testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
    let asked = |peer, method| outcome(&fixture, peer, method, POD, &[]);
    assert_eq!(asked(Peer::Chain(&chain), "DELETE"), "403 denied_by_policy");
    assert!(asked(Peer::Chain(&chain), "GET").starts_with("all."));
    assert!(asked(Peer::None, "DELETE").starts_with("all."));
}

#[test]
fn configuration_that_would_let_strangers_pass_is_not_compiled() {
    let impersonate = UpstreamIdentity::Impersonate;
    let proxy = UpstreamIdentity::RequestHeader(RequestHeaders::default());
    let unchanged = UpstreamIdentity::ClientCredential;
    let not_mallory = Rule { users: vec!["-mallory".into()], ..all_rules() };
    let of_group = Rule { user_groups: vec!["system:nodes".into()], ..all_rules() };
    let of_account =
        Rule { service_accounts: vec![ServiceAccount { namespace: "n".into(), name: "a".into() }], ..all_rules() };
    let by_user = [of_user("mallory"), not_mallory, of_group, of_account];
    let table = [
        (&impersonate, false, true),
        (&impersonate, true, true),
        // Tokens that are not reviewed, and impersonation, which goes on.
        (&proxy, true, false),
        (&proxy, false, false),
        (&unchanged, false, false),
        (&unchanged, true, false),
    ];
    for (identity, has_reviews, may_deny_by_user) in table {
        let compiled = |rule: &Rule| {
            let mut config = plain_config(None);
            config.upstream_identity = identity.clone();
            config.reviews =
                has_reviews.then(|| serde_json::from_str::<Reviews>(r#"{"cluster": "apiserver"}"#).unwrap());
            config.policies = [policy("all"), denying(rule.clone())].into_iter().collect();
            Cluster::compile(&config, &EphemeralState([7; 32])).map(drop)
        };
        let expected = if may_deny_by_user { Ok(()) } else { Err(CompileError::Denial(1)) };
        for rule in &by_user {
            assert_eq!(compiled(rule), expected, "{identity:?} {has_reviews} {rule:?}");
        }
        assert_eq!(compiled(&all_rules()), Ok(()), "{identity:?} {has_reviews}");
    }
}

#[test]
fn closed_cluster_answers_429_before_it_asks_who_it_is() {
    let fixture = fixture_with(|config| config.deny_all_requests = true);
    assert_eq!(outcome(&fixture, Peer::Unreadable, "GET", POD, &[("via", "1.1 lab")]), "429 denied");
}

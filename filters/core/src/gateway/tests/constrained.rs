//! Constrained impersonation: which reviews it costs, and whom it makes of a client.

use std::cell::RefCell;

use portcullis_filter_config::ProtectedIdentities;

use super::reviews::{access, asked, reviewed};
use super::*;

const AS_BOB: Headers<'static> = &[("impersonate-user", "bob")];
const AS_NODE: Headers<'static> = &[("impersonate-user", "system:node:n1")];

fn constrained(change: impl FnOnce(&mut ClusterConfig)) -> (Fixture, Vec<u8>) {
    let fixture = fixture_with(|config| {
        let mut reviews = asked(None);
        reviews.constrained_impersonation = true;
        config.reviews = Some(reviews);
        change(config);
    });
    let chain = testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
    (fixture, chain)
}

/// The verbs that were asked for, and the outcome, of a client with these grants.
fn ask(site: &(Fixture, Vec<u8>), headers: Headers<'_>, grants: impl Fn(&str) -> bool) -> (Vec<String>, String) {
    ask_after(0, site, headers, grants)
}

/// The same, that many seconds later.
fn ask_after(
    seconds: u64,
    (fixture, chain): &(Fixture, Vec<u8>),
    headers: Headers<'_>,
    grants: impl Fn(&str) -> bool,
) -> (Vec<String>, String) {
    let verbs = RefCell::new(Vec::new());
    let at = testing::at(now().as_secs() + seconds);
    let answer = |body: &str| {
        let question: serde_json::Value = serde_json::from_str(body).unwrap();
        let verb = question["spec"]["resourceAttributes"]["verb"].as_str().unwrap();
        verbs.borrow_mut().push(verb.to_owned());
        access(grants(verb))
    };
    let (_, outcome) = reviewed(fixture, Peer::Chain(chain), headers, at, answer);
    (verbs.into_inner(), outcome)
}

#[test]
fn client_without_any_right_costs_two_reviews_for_each_user() {
    let site = constrained(|_| {});
    let (verbs, outcome) = ask(&site, AS_BOB, |_| false);
    assert_eq!(
        (outcome.as_str(), verbs),
        ("403 impersonation", vec!["impersonate".into(), "impersonate:user-info".into()])
    );
    let (verbs, outcome) = ask(&site, AS_BOB, |_| panic!("it is remembered"));
    assert_eq!((outcome.as_str(), verbs.len()), ("403 impersonation", 0));
}

#[test]
fn grant_of_all_requests_costs_what_it_did() {
    let site = constrained(|_| {});
    let (verbs, outcome) = ask(&site, AS_BOB, |verb| verb == "impersonate");
    assert_eq!(verbs, ["impersonate"]);
    assert!(outcome.starts_with("all.h2.read impersonate-user=bob"), "{outcome}");
}

#[test]
fn user_and_request_have_to_be_granted() {
    let (user, request) = ("impersonate:user-info", "impersonate-on:user-info:get");
    for (grants, is_let) in [(vec![user], false), (vec![request], false), (vec![user, request], true)] {
        let (_, outcome) = ask(&constrained(|_| {}), AS_BOB, |verb| grants.contains(&verb));
        assert_eq!(outcome.starts_with("all.h2.read impersonate-user=bob"), is_let, "{grants:?}: {outcome}");
        assert!(is_let || outcome == "403 impersonation", "{grants:?}: {outcome}");
    }
}

#[test]
fn node_is_in_its_group_and_may_be_protected_by_it() {
    let grants = |verb: &str| verb.contains("arbitrary-node");
    let (verbs, outcome) = ask(&constrained(|_| {}), AS_NODE, grants);
    assert_eq!(verbs, ["impersonate", "impersonate:arbitrary-node", "impersonate-on:arbitrary-node:get"]);
    // The upstream adds all authenticated users' group itself.
    assert_eq!(outcome, "all.h2.read impersonate-user=system:node:n1 impersonate-group=system:nodes");
    for (drop_groups, expected) in [
        (false, "403 protected_identity"),
        (true, "all.h2.read impersonate-user=system:node:n1 impersonate-group=system:authenticated"),
    ] {
        let groups = vec!["system:nodes".into()];
        let site = constrained(|config| {
            config.protected = Some(ProtectedIdentities { users: vec![], groups, drop_groups });
        });
        assert_eq!(ask(&site, AS_NODE, grants).1, expected, "{drop_groups}");
    }
}

#[test]
fn group_of_masters_and_odd_extras_are_in_no_grant() {
    for line in [
        ("impersonate-group", "system:masters"),
        ("impersonate-group", ""),
        ("impersonate-extra-scopes", "x"),
        ("impersonate-extra-example.com%2fScopes", "x"),
        ("impersonate-extra-example.com%2fscopes", ""),
    ] {
        let (verbs, outcome) = ask(&constrained(|_| {}), &[AS_BOB[0], line], |verb| verb != "impersonate");
        assert_eq!((outcome.as_str(), verbs), ("403 impersonation", vec!["impersonate".to_owned()]), "{line:?}");
    }
    let table =
        [("impersonate-group", "dev"), ("impersonate-extra-example.com%2fscopes", "x"), ("impersonate-uid", "1")];
    for line in table {
        let (_, outcome) = ask(&constrained(|_| {}), &[AS_BOB[0], line], |verb| verb != "impersonate");
        assert!(outcome.starts_with("all.h2.read impersonate-user=bob"), "{line:?}: {outcome}");
    }
}

#[test]
fn answer_about_a_request_is_believed_for_ten_seconds() {
    let site = constrained(|_| {});
    let asked_at = |seconds| ask_after(seconds, &site, AS_BOB, |verb| verb != "impersonate").0;
    assert_eq!(asked_at(0).len(), 3);
    assert_eq!(asked_at(9), [""; 0]);
    assert_eq!(asked_at(11), ["impersonate-on:user-info:get"]);
}

//! Access lists: whom they refuse, by which part of a request, and whom nothing that a client writes lets in.

use portcullis_filter_config::{
    AccessEntry, AccessLists, AccessScope, MAX_USER_AGENT, ProtectedIdentities, RequestHeaders, ServiceAccount,
};

use super::proxy::{AS_BOB, TOKEN, sent};
use super::reviews::{access, asked, reviewed};
use super::*;
use crate::cluster::CompileError;

const DENIED: &str = "403 denied_by_list";
const LET_IN: &str = "all.anonymous.read nobody";
/// Envoy writes the last address.
const FROM_INSIDE: (&str, &str) = ("x-forwarded-for", "10.1.2.3");

fn lists(deny: Vec<AccessEntry>, allow: Vec<AccessEntry>) -> AccessLists {
    AccessLists { scope: AccessScope::Cluster, deny, allow }
}

fn with_lists(lists: Vec<AccessLists>) -> Fixture {
    fixture_with(|config| config.access = lists)
}

fn by_address(range: &str) -> AccessEntry {
    AccessEntry { addresses: vec![range.into()], ..AccessEntry::default() }
}

fn by_rule(rule: Rule) -> AccessEntry {
    AccessEntry { rules: vec![rule], ..AccessEntry::default() }
}

fn by_user(name: &str) -> AccessEntry {
    by_rule(Rule { users: vec![name.into()], ..all_rules() })
}

#[test]
fn address_is_the_last_one_that_is_written() {
    let inside = by_address("10.0.0.0/8");
    let denying = with_lists(vec![lists(vec![inside.clone()], vec![])]);
    let allowing = with_lists(vec![lists(vec![], vec![inside])]);
    let table: [(Headers<'_>, bool); 7] = [
        (&[FROM_INSIDE], true),
        (&[("x-forwarded-for", "203.0.113.7")], false),
        (&[("x-forwarded-for", "10.1.2.3, 203.0.113.7")], false),
        (&[("x-forwarded-for", "203.0.113.7,10.1.2.3")], true),
        (&[("x-forwarded-for", "::ffff:10.1.2.3")], true),
        (&[("x-real-ip", "10.1.2.3"), ("forwarded", "for=10.1.2.3"), ("x-forwarded-for", "2001:db8::1")], false),
        (&[FROM_INSIDE, ("x-forwarded-for", "203.0.113.7")], true),
    ];
    for (headers, is_inside) in table {
        let of = |fixture| outcome(fixture, Peer::None, "GET", POD, headers);
        let (refused, goes_on) = if is_inside { (of(&denying), of(&allowing)) } else { (of(&allowing), of(&denying)) };
        assert_eq!((refused.as_str(), goes_on.as_str()), (DENIED, LET_IN), "{headers:?}");
    }
}

#[test]
fn client_whose_address_is_unknown_passes_no_list_of_addresses() {
    for deny in [true, false] {
        let entry = vec![by_address("10.0.0.0/8")];
        let fixture = with_lists(vec![if deny { lists(entry, vec![]) } else { lists(vec![], entry) }]);
        for headers in [&[][..], &[("x-forwarded-for", "unknown")], &[("x-forwarded-for", "203.0.113.7,")]] {
            assert_eq!(outcome(&fixture, Peer::None, "GET", POD, headers), DENIED, "{deny} {headers:?}");
        }
    }
}

#[test]
fn every_field_of_an_entry_has_to_match() {
    let pods =
        Rule { verbs: vec!["get".into()], resources: vec!["pods".into()], non_resource_urls: vec![], ..all_rules() };
    let fixture = with_lists(vec![lists(
        vec![AccessEntry {
            user_agents: vec!["kube-hunter/".into(), "curl".into()],
            ..AccessEntry { addresses: vec!["10.0.0.0/8".into()], ..by_rule(pods) }
        }],
        vec![],
    )]);
    let agent = |agent| ("user-agent", agent);
    let table: [(Headers<'_>, bool); 5] = [
        (&[FROM_INSIDE, agent("curl/8.0")], false),
        (&[FROM_INSIDE, agent("kube-hunter/1")], false),
        (&[FROM_INSIDE, agent("kubectl/1.36")], true),
        (&[FROM_INSIDE], true),
        (&[("x-forwarded-for", "203.0.113.7"), agent("curl/8.0")], true),
    ];
    for (headers, passes) in table {
        assert_eq!(
            sent(&fixture, Peer::None, headers).map(drop),
            if passes { Ok(()) } else { Err(403) },
            "{headers:?}"
        );
    }
}

#[test]
fn lists_of_gateway_and_cluster_both_hold() {
    let gateway = AccessLists { scope: AccessScope::Gateway, ..lists(vec![], vec![by_address("10.0.0.0/8")]) };
    let cluster = lists(vec![by_address("10.1.0.0/16")], vec![by_address("10.0.0.0/8"), by_address("192.0.2.0/24")]);
    let fixture = with_lists(vec![gateway, cluster]);
    for (address, expected) in
        [("10.2.0.1", LET_IN), ("10.1.0.1", DENIED), ("192.0.2.1", DENIED), ("203.0.113.7", DENIED)]
    {
        assert_eq!(outcome(&fixture, Peer::None, "GET", POD, &[("x-forwarded-for", address)]), expected, "{address}");
    }
}

#[test]
fn entry_ends_at_its_time() {
    let seconds = now().as_secs();
    for (until, is_over) in [(seconds + 1, false), (seconds, true), (0, true)] {
        let entry = AccessEntry { until_seconds: Some(until), ..by_address("10.0.0.0/8") };
        let denying = with_lists(vec![lists(vec![entry.clone()], vec![])]);
        let allowing = with_lists(vec![lists(vec![], vec![entry])]);
        let of = |fixture| outcome(fixture, Peer::None, "GET", POD, &[FROM_INSIDE]);
        assert_eq!(of(&denying) == DENIED, !is_over, "{until}");
        // A list of entries that have ended lets nothing in.
        assert_eq!(of(&allowing) == DENIED, is_over, "{until}");
    }
}

#[test]
fn user_is_asked_for_by_name_group_and_account() {
    let alice = |fixture: &Fixture| testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
    let of_group = by_rule(Rule { user_groups: vec!["dev".into()], ..all_rules() });
    let account = ServiceAccount { namespace: "n".into(), name: "a".into() };
    let of_account = by_rule(Rule { service_accounts: vec![account], ..all_rules() });
    let not_alice = by_rule(Rule { users: vec!["-alice".into()], ..all_rules() });
    let strangers = by_rule(Rule { user_groups: vec!["system:unauthenticated".into()], ..all_rules() });
    for (entry, is_alice, is_anonymous) in [
        (by_user("alice"), true, false),
        (of_group, true, false),
        (of_account, false, false),
        (not_alice, false, true),
        (strangers, false, true),
    ] {
        let text = format!("{entry:?}");
        let denying = with_lists(vec![lists(vec![entry.clone()], vec![])]);
        let allowing = with_lists(vec![lists(vec![], vec![entry])]);
        for (fixture, denies) in [(&denying, true), (&allowing, false)] {
            let chain = alice(fixture);
            let found = outcome(fixture, Peer::Chain(&chain), "GET", POD, &[]);
            assert_eq!(found == DENIED, is_alice == denies, "{text} {denies} alice: {found}");
            let found = outcome(fixture, Peer::None, "GET", POD, &[]);
            assert_eq!(found == DENIED, is_anonymous == denies, "{text} {denies} anonymous: {found}");
        }
    }
}

/// Otherwise a review for each request would be the price of a ban.
#[test]
fn request_that_no_user_could_send_is_not_reviewed() {
    let secrets = Rule { resources: vec!["pods".into()], non_resource_urls: vec![], ..all_rules() };
    let of_requests = AccessEntry { addresses: vec!["10.0.0.0/8".into()], ..by_rule(secrets) };
    let denying = lists(vec![of_requests], vec![]);
    let both = AccessEntry { addresses: vec!["192.0.2.0/24".into()], ..by_user("alice") };
    for lists in [denying, lists(vec![], vec![both])] {
        let fixture = fixture_with(|config| {
            config.reviews = Some(asked(None));
            config.access = vec![lists.clone()];
        });
        assert_eq!(outcome(&fixture, Peer::None, "GET", POD, &[TOKEN, FROM_INSIDE]), DENIED, "{lists:?}");
        let from = [TOKEN, ("x-forwarded-for", "192.0.2.1")];
        assert_eq!(outcome(&fixture, Peer::None, "GET", POD, &from), "review 1", "{lists:?}");
    }
}

/// A user who may act as another one is judged as both: neither a ban nor a list of those who may come is got around by `--as`.
#[test]
fn users_on_both_sides_of_an_impersonation_are_judged() {
    let proxy = |config: &mut ClusterConfig| {
        config.upstream_identity = UpstreamIdentity::RequestHeader(RequestHeaders::default());
        config.reviews = Some(asked(Some("system:portcullis")));
    };
    for (entry, deny, as_bob_passes) in [
        (by_user("alice"), true, false),
        (by_user("bob"), true, false),
        (by_user("carol"), true, true),
        (by_user("alice"), false, false),
        (by_user("bob"), false, false),
        (by_rule(Rule { users: vec!["alice".into(), "bob".into()], ..all_rules() }), false, true),
    ] {
        let list = if deny { lists(vec![entry], vec![]) } else { lists(vec![], vec![entry]) };
        let fixture = fixture_with(|config| {
            proxy(config);
            config.access = vec![list.clone()];
        });
        let chain = testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
        let found = outcome(&fixture, Peer::Chain(&chain), "GET", POD, &[AS_BOB]);
        assert_eq!(found != DENIED, as_bob_passes, "{list:?}: {found}");
    }
    let of_nodes = by_rule(Rule { user_groups: vec!["system:nodes".into()], ..all_rules() });
    let fixture = fixture_with(|config| {
        proxy(config);
        config.access = vec![lists(vec![of_nodes], vec![])];
    });
    let chain = testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
    let as_node = [("impersonate-user", "system:node:one")];
    assert_eq!(outcome(&fixture, Peer::Chain(&chain), "GET", POD, &as_node), DENIED);
}

#[test]
fn user_who_may_act_as_another_one_is_judged_as_both() {
    for (name, deny, passes) in [
        ("alice", true, false),
        ("bob", true, false),
        ("carol", true, true),
        ("alice", false, false),
        ("bob", false, false),
    ] {
        let list = if deny { lists(vec![by_user(name)], vec![]) } else { lists(vec![], vec![by_user(name)]) };
        let fixture = fixture_with(|config| {
            config.reviews = Some(asked(None));
            config.access = vec![list.clone()];
        });
        let chain = testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
        let (asked, found) = reviewed(&fixture, Peer::Chain(&chain), &[AS_BOB], now(), |_| access(true));
        let is_out = (name == "alice") == deny && name != "carol";
        assert_eq!(asked.is_empty(), is_out, "{list:?}: a client that is out is not reviewed");
        let expected =
            if passes { "all.h2.read impersonate-user=bob impersonate-group=system:authenticated" } else { DENIED };
        assert_eq!(found, expected, "{list:?}");
    }
}

/// A ban of a group holds also where the gateway drops the group, and a list that lets it in does too.
#[test]
fn groups_are_judged_before_the_gateway_drops_them() {
    for deny in [true, false] {
        let entry = vec![by_rule(Rule { user_groups: vec!["dev".into()], ..all_rules() })];
        let fixture = fixture_with(|config| {
            config.protected =
                Some(ProtectedIdentities { users: vec![], groups: vec!["dev".into()], drop_groups: true });
            config.access = vec![if deny { lists(entry, vec![]) } else { lists(vec![], entry) }];
        });
        let chain = testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
        let found = outcome(&fixture, Peer::Chain(&chain), "GET", POD, &[]);
        assert_eq!(found == DENIED, deny, "{found}");
    }
}

#[test]
fn groups_of_an_impersonated_account_are_judged_undropped() {
    let of_ci = by_rule(Rule { user_groups: vec!["system:serviceaccounts:ci".into()], ..all_rules() });
    let fixture = fixture_with(|config| {
        let groups = vec!["system:serviceaccounts:ci".into()];
        config.protected = Some(ProtectedIdentities { users: vec![], groups, drop_groups: true });
        config.reviews = Some(asked(None));
        config.access = vec![lists(vec![of_ci], vec![])];
    });
    let chain = testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
    for (account, is_out) in [("system:serviceaccount:ci:x", true), ("system:serviceaccount:prod:x", false)] {
        let headers = [("impersonate-user", account)];
        let (_, found) = reviewed(&fixture, Peer::Chain(&chain), &headers, now(), |_| access(true));
        assert_eq!(found == DENIED, is_out, "{account}: {found}");
    }
}

#[test]
fn token_without_a_review_passes_no_list_that_denies_by_user() {
    let proxy = |entry: AccessEntry| {
        fixture_with(|config| {
            config.upstream_identity = UpstreamIdentity::RequestHeader(RequestHeaders::default());
            config.access = vec![lists(vec![entry], vec![])];
        })
    };
    assert_eq!(outcome(&proxy(by_user("mallory")), Peer::None, "GET", POD, &[TOKEN]), "503 unchecked");
    let over = AccessEntry { until_seconds: Some(0), ..by_user("mallory") };
    let found = outcome(&proxy(over), Peer::None, "GET", POD, &[TOKEN]);
    assert!(found.starts_with("all."), "{found}");
    let allowing = fixture_with(|config| {
        config.upstream_identity = UpstreamIdentity::RequestHeader(RequestHeaders::default());
        config.access = vec![lists(vec![], vec![by_user("mallory")])];
    });
    assert_eq!(outcome(&allowing, Peer::None, "GET", POD, &[TOKEN]), DENIED, "a token of an unknown user");
    let found = outcome(&proxy(by_address("192.0.2.1")), Peer::None, "GET", POD, &[TOKEN, FROM_INSIDE]);
    assert!(found.starts_with("all."), "{found}");
}

#[test]
fn configuration_that_cannot_hold_is_not_compiled() {
    let compiled = |identity: UpstreamIdentity, entry: AccessEntry| {
        let mut config = plain_config(None);
        config.upstream_identity = identity;
        config.access = vec![lists(vec![entry], vec![])];
        Cluster::compile(&config, &EphemeralState([7; 32])).map(drop)
    };
    let wrong = Err(CompileError::Access("10.0.0.0/33".into()));
    assert_eq!(compiled(UpstreamIdentity::Impersonate, by_address("10.0.0.0/33")), wrong);
    assert_eq!(compiled(UpstreamIdentity::ClientCredential, by_address("10.0.0.0/8")), Ok(()));
    let by_agent = |length| AccessEntry { user_agents: vec!["a".repeat(length)], ..AccessEntry::default() };
    assert_eq!(compiled(UpstreamIdentity::Impersonate, by_agent(MAX_USER_AGENT)), Ok(()));
    assert_eq!(compiled(UpstreamIdentity::Impersonate, by_agent(MAX_USER_AGENT + 1)), Err(CompileError::UserAgent));
    let unknown = compiled(UpstreamIdentity::ClientCredential, by_user("mallory"));
    assert!(matches!(unknown, Err(CompileError::ClientCredential(_))), "{unknown:?}");
}

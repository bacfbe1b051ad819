//! Requests that run while the configuration is edited: a later edition denies exactly those that it would refuse if they came now.

use std::sync::Arc;

use portcullis_filter_config::{AccessEntry, AccessLists, AccessScope, Denial, ProtectedIdentities, RequestHeaders};

use super::reviews::{access, asked, token_of};
use super::*;
use crate::refusal::Cause;
use crate::stream_origin::StreamOrigin;

const WATCH: &str = "/api/v1/namespaces/n/pods?watch=true";
const AGENT: &str = "kubectl/v1.36";
const FROM_INSIDE: (&str, &str) = ("x-forwarded-for", "10.1.2.3");

/// A client that was there before the edit: with its credential, and who it acts as.
type Sender<'a> = (&'a str, Peer<'a>, Headers<'a>);

/// The sender of a request that goes on, or why it does not.
fn begin(fixture: &Fixture, (_, peer, headers): Sender<'_>, path: &str) -> Result<Arc<StreamOrigin>, Cause> {
    let mut all = vec![(":method", "GET"), (":path", path), (":authority", "prod.example.com"), FROM_INSIDE];
    all.extend_from_slice(headers);
    let (gateway, cluster) = (&fixture.gateway, &fixture.route.cluster);
    let mut answers = ReviewAnswers::default();
    loop {
        let lines = all.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let mut scan = gateway.scan(Some(cluster), lines);
        // The exchange reads it, as below.
        scan.user_agent = AGENT.as_bytes();
        let request = RequestContext { scan: &scan, peer, answers: &answers, now: now(), uptime: UPTIME };
        match gateway.decide(cluster, &request) {
            Decision::Forward(forward) => {
                let mut origin = forward.origin.expect("the sender of a request that runs for long");
                Arc::get_mut(&mut origin).unwrap().keep_user_agent(AGENT.as_bytes());
                return Ok(origin);
            }
            Decision::Refuse(refusal) | Decision::Queue(_, refusal) => return Err(refusal.cause),
            Decision::Review(reviews) => {
                for review in reviews {
                    let is_token = review.body().contains("TokenReview");
                    let (status, body) = if is_token { token_of("robot") } else { access(true) };
                    answers.push(review.key(), review.accept_answer(status, body.as_bytes(), UPTIME));
                }
            }
        }
    }
}

fn by_rule(rule: Rule) -> AccessEntry {
    AccessEntry { rules: vec![rule], ..AccessEntry::default() }
}

fn by_user(name: &str) -> Rule {
    Rule { users: vec![name.into()], ..all_rules() }
}

fn to_all() -> Policy {
    Policy { group: "all".into(), rules: vec![all_rules()], ..Policy::default() }
}

fn edits() -> Vec<(&'static str, Vec<AccessLists>, Vec<Policy>)> {
    let pods = Rule { resources: vec!["pods".into()], non_resource_urls: vec![], ..all_rules() };
    let by_group = |group: &str| Rule { user_groups: vec![group.into()], ..all_rules() };
    let agent = AccessEntry { user_agents: vec!["kubectl/".into()], ..AccessEntry::default() };
    let address = AccessEntry { addresses: vec!["10.0.0.0/8".into()], ..AccessEntry::default() };
    let ended = AccessEntry { until_seconds: Some(now().as_secs()), ..by_rule(by_user("*")) };
    let lasting = AccessEntry { until_seconds: Some(now().as_secs() + 1), ..by_rule(by_user("alice")) };
    let lists = |deny, allow| vec![AccessLists { scope: AccessScope::Cluster, deny, allow }];
    let deny = |entry| lists(vec![entry], vec![]);
    let allow = |entry| lists(vec![], vec![entry]);
    let denying = |rule| {
        let deny = Some(Denial { message: String::new() });
        vec![Policy { deny, rules: vec![rule], ..to_all() }, to_all()]
    };
    let open = || vec![to_all()];
    vec![
        ("nothing", vec![], open()),
        ("alice", deny(by_rule(by_user("alice"))), open()),
        ("bob", deny(by_rule(by_user("bob"))), open()),
        ("robot", deny(by_rule(by_user("robot"))), open()),
        ("strangers", deny(by_rule(by_user("system:anonymous"))), open()),
        ("a group", deny(by_rule(by_group("dev"))), open()),
        ("all authenticated", deny(by_rule(by_group("system:authenticated"))), open()),
        ("pods", deny(by_rule(pods.clone())), open()),
        ("an agent", deny(agent.clone()), open()),
        ("an address", deny(address.clone()), open()),
        ("a ban that has ended", deny(ended), open()),
        ("a ban that lasts", deny(lasting), open()),
        ("all but alice", allow(by_rule(by_user("alice"))), open()),
        ("all but the agent", allow(agent), open()),
        ("all but the address", allow(address), open()),
        ("a policy for alice", vec![], denying(by_user("alice"))),
        ("a policy for bob", vec![], denying(by_user("bob"))),
        ("a policy for pods", vec![], denying(pods)),
    ]
}

#[test]
fn edition_denies_what_runs_exactly_as_it_refuses_what_comes() {
    let clients = ca("clients");
    let edition = |access: Vec<AccessLists>, policies: Vec<Policy>| {
        fixture_with(|config| {
            config.client_ca = Some(clients.pem());
            config.reviews = Some(asked(None));
            // A group that the gateway drops is judged none the less.
            config.protected =
                Some(ProtectedIdentities { users: vec![], groups: vec!["dev".into()], drop_groups: true });
            config.policies = policies.into();
            config.access = access;
        })
    };
    let chain = testing::encode(&[&issue(testing::alice(), &clients)]);
    let senders: [Sender<'_>; 4] = [
        ("a stranger", Peer::None, &[]),
        ("alice", Peer::Chain(&chain), &[]),
        ("alice as bob", Peer::Chain(&chain), &[("impersonate-user", "bob")]),
        ("robot", Peer::None, &[("authorization", "Bearer abc")]),
    ];
    let before = edition(vec![], vec![to_all()]);
    let mut denied = Vec::new();
    for (edit, access, policies) in edits() {
        let after = edition(access, policies);
        let mut of_edit = 0;
        for sender in senders {
            for path in [WATCH, "/api/v1/namespaces/n/pods/a/log?follow=true"] {
                let origin = begin(&before, sender, path).unwrap();
                let is_denied = Gateway::denies_running(&after.route.cluster, &origin, now().as_secs());
                let comes = begin(&after, sender, path).err();
                let is_refused = matches!(comes, Some(Cause::DeniedByList | Cause::DeniedByPolicy));
                assert_eq!(is_denied, is_refused, "{edit}: {} {path}: {comes:?}", sender.0);
                of_edit += usize::from(is_denied);
            }
        }
        denied.push((edit, of_edit));
    }
    let of = |edit| denied.iter().find(|(name, _)| *name == edit).map(|(_, number)| *number);
    let table = [
        ("nothing", 0),
        ("alice", 4),
        ("bob", 2),
        ("robot", 2),
        ("strangers", 2),
        ("an agent", 8),
        ("all but the agent", 0),
        ("a ban that has ended", 0),
    ];
    for (edit, number) in table {
        assert_eq!(of(edit), Some(number), "{edit}");
    }
}

/// A gateway knows no user of a token that the server judges.
#[test]
fn client_without_a_known_user_is_denied_where_users_are() {
    let clients = ca("clients");
    let edition = |access: Vec<AccessLists>| {
        fixture_with(|config| {
            config.client_ca = Some(clients.pem());
            config.upstream_identity = UpstreamIdentity::RequestHeader(RequestHeaders::default());
            config.policies = vec![to_all()].into();
            config.access = access;
        })
    };
    let before = edition(vec![]);
    let list = |deny| vec![AccessLists { scope: AccessScope::Cluster, deny, allow: vec![] }];
    let pods = Rule { resources: vec!["pods".into()], non_resource_urls: vec![], ..all_rules() };
    let nodes = Rule { resources: vec!["nodes".into()], non_resource_urls: vec![], ..all_rules() };
    let robot: Sender<'_> = ("robot", Peer::None, &[("authorization", "Bearer abc")]);
    let as_bob: Sender<'_> =
        ("robot as bob", Peer::None, &[("authorization", "Bearer abc"), ("impersonate-user", "bob")]);
    let table = [
        (vec![by_rule(pods)], [true, true]),
        (vec![by_rule(nodes)], [false, false]),
        (vec![by_rule(by_user("alice"))], [true, true]),
    ];
    for (deny, expected) in table {
        let after = edition(list(deny));
        let found = [robot, as_bob].map(|sender| {
            let origin = begin(&before, sender, WATCH).unwrap();
            Gateway::denies_running(&after.route.cluster, &origin, now().as_secs())
        });
        assert_eq!(found, expected);
    }
}

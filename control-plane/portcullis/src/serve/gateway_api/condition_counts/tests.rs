use std::collections::BTreeMap;
use std::net::IpAddr;

use portcullis_api::PolicyKind;
use portcullis_attach::{
    Attached, ClassVerdict, ConditionVerdict, DoorPolicies, GatewayVerdict, HostPattern, HostTable, ListenerRole,
    ListenerVerdict, ObjectName, ParentVerdict, RouteKind, RouteVerdict, ServedGateway, ServedListener,
    UpstreamVerdict,
};
use portcullis_sources::{ObjectKey, StoredStatus, StoredStatuses};
use serde_json::{Value, json};

use super::super::super::gateway_views::ProgrammedState;
use super::super::statuses::statuses;
use super::*;

const TYPES: [&str; 3] = ["Accepted", "ResolvedRefs", "Programmed"];

/// Types of conditions, each with whether it holds.
type Conditions<'a> = &'a [(&'static str, bool)];

const GOOD: Conditions<'static> = &[("Accepted", true), ("ResolvedRefs", true)];

fn conditions(of: Conditions<'_>) -> Vec<ConditionVerdict> {
    let condition = |(kind, status)| ConditionVerdict { kind, status, reason: "r", message: String::new() };
    of.iter().copied().map(condition).collect()
}

fn class(name: &str, of: Conditions<'_>) -> ClassVerdict {
    ClassVerdict { name: name.to_owned(), generation: Some(1), conditions: conditions(of) }
}

/// With one listener.
fn gateway(name: &str, of: Conditions<'_>, of_listener: Conditions<'_>) -> GatewayVerdict {
    let listener = ListenerVerdict {
        name: "tls".to_owned(),
        supported_kinds: Vec::new(),
        attached_routes: 0,
        conditions: conditions(of_listener),
    };
    let name = ObjectName::new("infra", name);
    GatewayVerdict {
        name,
        generation: Some(1),
        conditions: conditions(of),
        listeners: vec![listener],
        notes: Vec::new(),
    }
}

/// The accepted part of such a Gateway.
fn served(name: &str) -> Arc<ServedGateway> {
    let role = ListenerRole::Passthrough(HostTable::default());
    let listener = ServedListener { name: "tls".to_owned(), port: 443, host: HostPattern::Any, role };
    let (gateway, policies) = (ObjectName::new("infra", name), DoorPolicies::default());
    Arc::new(ServedGateway { gateway, addresses: Vec::new(), settings: None, listeners: vec![listener], policies })
}

/// With these conditions at one parent each.
fn route(kind: RouteKind, name: &str, parents: &[Conditions<'_>]) -> RouteVerdict {
    let parent = |(index, of): (usize, &Conditions<'_>)| ParentVerdict {
        parent: serde_json::from_value(json!({"name": format!("g{index}")})).unwrap(),
        conditions: conditions(of),
        counted_at: Vec::new(),
        held: None,
    };
    let parents = parents.iter().enumerate().map(parent).collect();
    let name = ObjectName::new("infra", name);
    RouteVerdict { kind, name, generation: Some(1), alone: Vec::new(), parents, notes: Vec::new() }
}

fn upstream(name: &str, of: Conditions<'_>) -> UpstreamVerdict {
    UpstreamVerdict { name: ObjectName::new("team", name), generation: Some(1), conditions: conditions(of) }
}

/// An accepted Gateway in a state at its Envoys.
fn in_state(state: ProgrammedState, of_listener: Conditions<'_>) -> GatewayApiVerdicts {
    let attached = Attached {
        gateways: vec![gateway("edge", &[("Accepted", true)], of_listener)],
        served: vec![served("edge")],
        ..Attached::default()
    };
    let programmed_states = [(ObjectName::new("infra", "edge"), state)].into();
    GatewayApiVerdicts { attached: Arc::new(attached), programmed_states, ..GatewayApiVerdicts::default() }
}

fn of(attached: Attached) -> GatewayApiVerdicts {
    GatewayApiVerdicts { attached: Arc::new(attached), ..GatewayApiVerdicts::default() }
}

fn programmed() -> ProgrammedState {
    ProgrammedState::programmed([IpAddr::from([192, 0, 2, 1])].into())
}

/// The verdicts, and what is counted of them.
fn cases() -> Vec<(&'static str, GatewayApiVerdicts, Vec<&'static str>)> {
    let closed = [(ObjectName::new("infra", "edge"), [("tls".to_owned(), "no certificate")].into())].into();
    let bad: Conditions<'_> = &[("Accepted", true), ("ResolvedRefs", false)];
    let refused: Conditions<'_> = &[("Accepted", false), ("ResolvedRefs", true)];
    vec![
        ("nothing", GatewayApiVerdicts::default(), vec![]),
        (
            "classes",
            of(Attached {
                classes: vec![class("a", &[("Accepted", true)]), class("b", &[("Accepted", false)])],
                ..Attached::default()
            }),
            vec!["GatewayClass 2", "GatewayClass Accepted 1"],
        ),
        ("a Gateway as it should be", in_state(programmed(), GOOD), vec!["Gateway 1"]),
        ("without an Envoy", in_state(ProgrammedState::NoEnvoy, GOOD), vec!["Gateway 1", "Gateway Programmed 1"]),
        (
            "refused by an Envoy",
            in_state(ProgrammedState::Refused("no".to_owned()), GOOD),
            vec!["Gateway 1", "Gateway Programmed 1"],
        ),
        (
            "without an address",
            in_state(ProgrammedState::programmed([].into()), GOOD),
            vec!["Gateway 1", "Gateway Programmed 1"],
        ),
        (
            "a listener with a reference that is not resolved",
            in_state(programmed(), bad),
            vec!["Gateway 1", "Gateway ResolvedRefs 1"],
        ),
        (
            "a closed listener",
            GatewayApiVerdicts { closed_listeners: Arc::new(closed), ..in_state(programmed(), GOOD) },
            vec!["Gateway 1", "Gateway Programmed 1"],
        ),
        (
            "a refused Gateway",
            of(Attached { gateways: vec![gateway("edge", &[("Accepted", false)], refused)], ..Attached::default() }),
            vec!["Gateway 1", "Gateway Accepted 1", "Gateway Programmed 1"],
        ),
        (
            "routes",
            of(Attached {
                routes: vec![
                    route(RouteKind::Http, "good", &[GOOD]),
                    route(RouteKind::Http, "bad", &[GOOD, bad]),
                    route(RouteKind::Http, "of others", &[]),
                    route(RouteKind::Tls, "refused", &[refused, refused]),
                ],
                ..Attached::default()
            }),
            vec!["HTTPRoute 2", "HTTPRoute ResolvedRefs 1", "TLSRoute 1", "TLSRoute Accepted 1"],
        ),
        (
            "upstreams",
            of(Attached { upstreams: vec![upstream("a", GOOD), upstream("b", bad)], ..Attached::default() }),
            vec!["KubernetesUpstream 2", "KubernetesUpstream ResolvedRefs 1"],
        ),
    ]
}

#[test]
fn objects_are_counted_by_their_verdicts() {
    for (case, verdicts, expected) in cases() {
        assert_eq!(counts(verdicts.judged()).listed(), expected, "{case}");
    }
}

/// All lists of conditions in a status.
fn lists(status: &Value) -> Vec<&Value> {
    let own = status.get("conditions").into_iter();
    let entries = ["listeners", "parents"].into_iter().filter_map(|field| status.get(field)?.as_array()).flatten();
    own.chain(entries.filter_map(|entry| entry.get("conditions"))).collect()
}

/// The same numbers by the statuses that would be written over these.
fn by_statuses(verdicts: &GatewayApiVerdicts, stored: &Value) -> Vec<String> {
    let status = StoredStatus { status: stored.clone(), ..StoredStatus::default() };
    let attached = &verdicts.attached;
    let key = |kind: WatchedKind, name: &ObjectName| ObjectKey {
        kind,
        namespace: name.namespace.clone(),
        name: name.name.clone(),
    };
    let classes =
        attached.classes.iter().map(|one| ObjectKey::cluster_scoped(WatchedKind::GatewayClass, one.name.as_str()));
    let gateways = attached.gateways.iter().map(|one| key(WatchedKind::Gateway, &one.name));
    let routes = attached.routes.iter().map(|one| key(watched_kind(one.kind), &one.name));
    let upstreams = attached.upstreams.iter().map(|one| key(WatchedKind::KubernetesUpstream, &one.name));
    let keys = classes.chain(gateways).chain(routes).chain(upstreams);
    let stored: StoredStatuses = keys.map(|key| (key, status.clone())).collect();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (key, status) in statuses(verdicts.judged(), None, &stored, "2026-01-02T03:04:05Z") {
        let kind = key.kind.kind();
        *counts.entry(kind.to_owned()).or_default() += 1;
        let all: Vec<&Value> = lists(&status).into_iter().flat_map(|list| list.as_array().unwrap()).collect();
        let is_false = |name: &&str| all.iter().any(|one| one["type"] == *name && one["status"] == "False");
        for name in TYPES.into_iter().filter(is_false) {
            *counts.entry(format!("{kind} {name}")).or_default() += 1;
        }
    }
    let mut listed: Vec<String> = counts.into_iter().map(|(what, count)| format!("{what} {count}")).collect();
    listed.sort();
    listed
}

#[test]
fn counts_are_those_of_the_written_statuses() {
    let addresses = json!({"addresses": [{"type": "IPAddress", "value": "192.0.2.5"}]});
    for (case, verdicts, _) in cases() {
        for stored in [Value::Null, addresses.clone()] {
            assert_eq!(counts(verdicts.judged()).listed(), by_statuses(&verdicts, &stored), "{case}, over {stored}");
        }
    }
}

#[test]
fn verdicts_are_counted_again_when_they_are_others() {
    let (mut counted, mut times) = (CountedPart::<PolicyKind>::default(), 0);
    let (first, second) = (Arc::new(PolicyKind::Dispatch), Arc::new(PolicyKind::Dispatch));
    let mut follow = |newest: &Arc<PolicyKind>| {
        counted.follow(Arc::clone(newest), |_| {
            times += 1;
            GatewayApiCounts::default()
        })
    };
    assert_eq!([&first, &first, &second, &second].map(&mut follow), [true, false, true, false]);
    assert_eq!(times, 2);
}

//! Policies whose targets belong to several instances.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{PolicyInEffect, PolicyKind, PolicyRole};
use portcullis_xds::{Snapshot, View};
use proptest::prelude::*;
use serde_json::json;

use super::super::{Reconciled, Reconciler};
use super::HOUR;
use super::instances::{HAND_OVER, World, module, of_team, views};

/// A limit that a policy brings.
const SCHEMA: &str = "of-the-policy";

fn limit(role: PolicyRole) -> PolicyInEffect {
    let schema = json!({"name": SCHEMA, "maxRequestsInflight": {"max": 7}});
    PolicyInEffect {
        kind: PolicyKind::FlowControl,
        policy: "portcullis/fewer".to_owned(),
        uid: None,
        role,
        why: "x".to_owned(),
        fields: Ok(Arc::new(json!({"flowControl": {"flowControlSchemas": [schema]}}))),
    }
}

/// Whether the routes of each object have the limit, by view and object.
fn limited(snapshot: &Snapshot) -> BTreeMap<(String, u8), bool> {
    let mut found = BTreeMap::new();
    for (name, numbers) in module(snapshot) {
        let view = if name.is_empty() { snapshot } else { snapshot.view(&View(Some(name.clone()))).unwrap() };
        for number in numbers {
            let owned = view.owned_by(&format!("c{number}.example.com"));
            let routes = owned.filter(|(url, _)| url.ends_with("RouteConfiguration"));
            let bodies = routes.filter_map(|(url, one)| Some(view.get(url, one)?.pieces().concat()));
            let has = bodies.into_iter().any(|body| body.windows(SCHEMA.len()).any(|part| part == SCHEMA.as_bytes()));
            found.insert((name.clone(), number), has);
        }
    }
    found
}

fn refusals(reconciled: &Reconciled) -> Vec<String> {
    let clusters = reconciled.diagnoses.iter().filter(|one| one.kind == "UpstreamCluster" && !one.accepted);
    clusters.map(|one| one.message.clone()).collect()
}

fn world(role: PolicyRole) -> World {
    let mut world = World::new(&[(0, "a"), (1, "a")], &[of_team("a", "1"), of_team("b", "2")]);
    world.policies = vec![match role {
        PolicyRole::Decides => limit(role),
        PolicyRole::Tightens => denial(),
    }];
    world
}

/// A policy of another namespace.
fn denial() -> PolicyInEffect {
    PolicyInEffect {
        kind: PolicyKind::Dispatch,
        policy: "team/denials".to_owned(),
        fields: Ok(Arc::new(json!({"dispatchPolicies": [{
            "rules": [{"verbs": ["*"], "nonResourceURLs": [format!("/{SCHEMA}")]}],
            "portcullis": {"action": "Deny", "message": "no"},
        }]}))),
        ..limit(PolicyRole::Tightens)
    }
}

#[test]
fn limit_holds_while_its_targets_pass_over_one_by_one() {
    let mut world = world(PolicyRole::Decides);
    let first = world.reconcile();
    assert_eq!(refusals(&first), [""; 0]);
    world.clusters.insert(1, "b");
    for step in 0..3 {
        let reconciled = world.reconcile();
        let refusals = refusals(&reconciled);
        assert_eq!(refusals.len(), 2, "{refusals:?}");
        for message in refusals {
            assert!(message.contains("Instance a") && message.contains("Instance b"), "{message}");
        }
        let limited = limited(&reconciled.snapshot);
        assert!(!limited.is_empty() && limited.values().all(|has| *has), "{step}: {limited:?}");
        world.now += HAND_OVER / 2;
    }
    assert_eq!(module(&world.snapshot()), views(&[("", &[]), ("instance/a", &[0]), ("instance/b", &[1])]));
    world.clusters.insert(0, "b");
    let reconciled = world.reconcile();
    assert_eq!(refusals(&reconciled), [""; 0], "both are one instance's again");
    assert!(limited(&reconciled.snapshot).values().all(|has| *has));
}

#[test]
fn clusters_of_a_policy_that_spans_are_closed_after_a_restart() {
    let mut world = world(PolicyRole::Decides);
    world.clusters.insert(1, "b");
    world.reconciler = Reconciler::resume(None, 24 * HOUR);
    let reconciled = world.reconcile();
    assert_eq!(refusals(&reconciled).len(), 2);
    assert_eq!(module(&reconciled.snapshot), views(&[("", &[]), ("instance/a", &[]), ("instance/b", &[])]));
}

/// Another namespace can hold up no cluster, and what it takes away does not come back.
#[test]
fn policy_that_tightens_goes_on_where_it_spans() {
    let mut world = world(PolicyRole::Tightens);
    world.clusters.insert(1, "b");
    let reconciled = world.reconcile();
    assert_eq!(refusals(&reconciled), [""; 0]);
    assert_eq!(reconciled.instances.spanning.len(), 1);
    let limited = limited(&reconciled.snapshot);
    assert!(limited.len() == 2 && limited.values().all(|has| *has), "{limited:?}");
}

/// An event in the life of clusters with a policy.
#[derive(Clone, Debug)]
enum TargetEvent {
    /// The policy has these targets of three.
    Targets(u8),
    /// A cluster has the label of a team, or of none.
    Team(u8, usize),
    /// A cluster is gone.
    Gone(u8),
    /// Half of the time of a hand-over goes by.
    Wait,
}

fn target_event() -> impl Strategy<Value = TargetEvent> {
    prop_oneof![
        3 => (0..8_u8).prop_map(TargetEvent::Targets),
        3 => (0..3_u8, 0..3_usize).prop_map(|(number, team)| TargetEvent::Team(number, team)),
        1 => (0..3_u8).prop_map(TargetEvent::Gone),
        4 => Just(TargetEvent::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(16) })]

    /// Whichever targets a policy has at times, in whichever instances: one that it always has is served with it by each owner.
    #[test]
    fn target_that_stays_is_served_with_the_policy(
        events in prop::collection::vec(target_event(), 1..16), tightens in any::<bool>(),
    ) {
        let mut world = world(if tightens { PolicyRole::Tightens } else { PolicyRole::Decides });
        world.reconcile();
        let mut always = BTreeSet::from([0, 1]);
        for event in &events {
            match *event {
                TargetEvent::Targets(mask) => {
                    let targets: BTreeSet<u8> = (0..3).filter(|number| mask & (1 << number) != 0).collect();
                    always.retain(|number| targets.contains(number));
                    world.targets = Some(targets);
                }
                TargetEvent::Team(number, team) => drop(world.clusters.insert(number, ["a", "b", "none"][team])),
                TargetEvent::Gone(number) => drop(world.clusters.remove(&number)),
                TargetEvent::Wait => world.now += HAND_OVER / 2,
            }
            let reconciled = world.reconcile();
            for ((view, number), has) in limited(&reconciled.snapshot) {
                prop_assert!(has || !always.contains(&number), "{event:?}: {number} in {view:?}");
            }
        }
    }
}

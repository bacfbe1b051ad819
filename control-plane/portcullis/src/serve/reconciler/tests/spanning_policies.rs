//! Policies whose targets belong to several instances.

use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::{PolicyInEffect, PolicyKind, PolicyRole};
use portcullis_xds::{Snapshot, View};
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
    world.policies = vec![limit(role)];
    world
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
    world.policies = vec![PolicyInEffect {
        kind: PolicyKind::Dispatch,
        policy: "team/denials".to_owned(),
        fields: Ok(Arc::new(json!({"dispatchPolicies": [{
            "rules": [{"verbs": ["*"], "nonResourceURLs": [format!("/{SCHEMA}")]}],
            "portcullis": {"action": "Deny", "message": "no"},
        }]}))),
        ..limit(PolicyRole::Tightens)
    }];
    world.clusters.insert(1, "b");
    let reconciled = world.reconcile();
    assert_eq!(refusals(&reconciled), [""; 0]);
    assert_eq!(reconciled.instances.spanning.len(), 1);
    let limited = limited(&reconciled.snapshot);
    assert!(limited.len() == 2 && limited.values().all(|has| *has), "{limited:?}");
}

use portcullis_api::{Cluster, check_cluster, parse_cluster};
use portcullis_attach::{Door, ObjectName};
use serde_json::json;

use super::*;

const NAME: &str = "a.test";

fn owned(flow_control: Value) -> BTreeMap<String, Arc<Value>> {
    let document = json!({
        "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": NAME},
        "spec": {
            "servers": [{"endpoint": "https://10.0.0.1"}], "clientConfig": {"insecure": true, "bearerToken": "YQ=="},
            "dispatchPolicies": [{"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}],
            "flowControl": flow_control,
        },
    });
    [(NAME.to_owned(), Arc::new(document))].into()
}

fn cluster() -> BTreeMap<String, Arc<Value>> {
    owned(json!({}))
}

fn policy(kind: PolicyKind, fields: Value) -> PolicyInEffect {
    PolicyInEffect {
        kind,
        policy: "team/x".to_owned(),
        uid: None,
        role: PolicyRole::Tightens,
        why: "overrides".to_owned(),
        fields: Ok(Arc::new(fields)),
    }
}

fn denies(path: &str) -> PolicyInEffect {
    let rules = json!([{"verbs": ["*"], "nonResourceURLs": [path]}]);
    let fields = json!({"dispatchPolicies": [{"rules": rules, "portcullis": {"action": "Deny"}}]});
    policy(PolicyKind::Dispatch, fields)
}

fn limits(limits: &[(&str, i32)]) -> Value {
    let schema = |(name, max): &(&str, i32)| json!({"name": name, "maxRequestsInflight": {"max": max}});
    json!({"flowControlSchemas": limits.iter().map(schema).collect::<Vec<_>>()})
}

/// Policies at the cluster, and at a door.
fn placed(at_cluster: Vec<PolicyInEffect>, at_door: Vec<PolicyInEffect>) -> AttachedPolicies {
    let door = Door::Route(ObjectName::new("team", "r"));
    let at_doors = DoorPolicies::new((!at_door.is_empty()).then_some((door, at_door)));
    let in_effect = (!at_cluster.is_empty()).then(|| (NAME.to_owned(), at_cluster));
    AttachedPolicies { in_effect: in_effect.into_iter().collect(), at_doors, ..AttachedPolicies::default() }
}

/// The policy of a path at the cluster, and of another one at a door.
fn attached(at_cluster: &[&str], at_door: &[&str]) -> AttachedPolicies {
    let of = |paths: &[&str]| paths.iter().map(|path| denies(path)).collect::<Vec<_>>();
    placed(of(at_cluster), of(at_door))
}

fn checked(own: &BTreeMap<String, Arc<Value>>, attached: &AttachedPolicies) -> Cluster {
    let document = with_policies(&own[NAME], attached.in_effect.get(NAME).map_or(&[][..], Vec::as_slice));
    check_cluster(&parse_cluster(&document).unwrap(), true).outcome.unwrap()
}

/// The paths that the cluster denies.
fn denied(attached: &AttachedPolicies) -> Vec<String> {
    let checked = checked(&cluster(), attached);
    let denials = checked.policies.iter().filter(|policy| policy.deny.is_some());
    denials.flat_map(|policy| policy.rules[0].non_resource_urls.clone()).collect()
}

fn paths(paths: &[&str]) -> Vec<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

#[test]
fn policy_stays_at_its_cluster_until_the_door_has_it() {
    let mut parts = FormerParts::default();
    let mut at = |at_cluster: &[&str], at_door: &[&str], served: u64| {
        let mut attached = attached(at_cluster, at_door);
        let number = parts.follow(&mut attached, &cluster(), served);
        (denied(&attached), number)
    };
    assert_eq!(at(&["/a"], &[], 0), (paths(&["/a"]), 0));
    assert_eq!(at(&[], &["/b"], 0), (paths(&["/a"]), 1), "edited and moved");
    assert_eq!(at(&[], &["/c"], 0), (paths(&["/a"]), 2), "edited again before");
    assert_eq!(at(&[], &["/c"], 1), (paths(&[]), 2), "one that it moved to is served");
    assert_eq!(at(&["/d"], &[], 2), (paths(&["/d"]), 3), "it moves back");
    assert_eq!(at(&[], &[], 3), (paths(&[]), 3), "one that is deleted leaves nothing");
}

#[test]
fn target_that_is_left_out_beside_a_door_ends_at_once() {
    let mut parts = FormerParts::default();
    parts.follow(&mut attached(&["/a"], &["/a"]), &cluster(), 0);
    let mut newer = attached(&[], &["/a"]);
    assert_eq!(parts.follow(&mut newer, &cluster(), 1), 1);
    assert!(denied(&newer).is_empty() && !parts.has_any(), "the door has it");
    parts.follow(&mut attached(&["/a"], &["/a"]), &cluster(), 1);
    let gone = BTreeMap::new();
    parts.follow(&mut attached(&[], &["/b"]), &gone, 1);
    assert!(!parts.has_any(), "there is no such cluster");
}

/// At a door a limit that a cluster has not is none; there the policy holds for the others, and so it has to here.
#[test]
fn limit_that_is_gone_takes_no_other_one_with_it() {
    let both = |max: i32| limits(&[("few", max), ("many", max)]);
    let lower = || policy(PolicyKind::FlowControl, json!({"flowControl": both(2)}));
    let mut parts = FormerParts::default();
    let before = owned(both(9));
    parts.follow(&mut placed(vec![lower()], vec![]), &before, 0);
    let after = owned(limits(&[("few", 9)]));
    let mut moved = placed(vec![], vec![lower()]);
    parts.follow(&mut moved, &after, 0);
    let lowered = checked(&owned(limits(&[("few", 2)])), &AttachedPolicies::default()).schemas;
    assert_eq!(checked(&after, &moved).schemas, lowered);
}

/// Its list in the place of the owner's is all that the cluster had, and the door adds denials to the owner's.
#[test]
fn policy_that_decides_stays_until_the_door_has_it() {
    let decides = |path: &str| PolicyInEffect { role: PolicyRole::Decides, ..denies(path) };
    let other = |path: &str| PolicyInEffect { policy: "team/y".to_owned(), ..decides(path) };
    let mut parts = FormerParts::default();
    let mut at = |at_cluster: Vec<PolicyInEffect>, at_door: Vec<PolicyInEffect>, served: u64| {
        let mut attached = placed(at_cluster, at_door);
        parts.follow(&mut attached, &cluster(), served);
        (denied(&attached), checked(&cluster(), &attached).policies.len())
    };
    assert_eq!(at(vec![decides("/a")], vec![], 0), (paths(&["/a"]), 1));
    assert_eq!(at(vec![], vec![denies("/b")], 0), (paths(&["/a"]), 1));
    assert_eq!(at(vec![other("/c")], vec![denies("/b")], 0), (paths(&["/a"]), 1), "the next one waits as long");
    assert_eq!(at(vec![other("/c")], vec![denies("/b")], 1), (paths(&["/c"]), 1));
    assert_eq!(at(vec![], vec![denies("/b")], 1), (paths(&[]), 1), "the owner's");
}

#[test]
fn policy_that_its_cluster_cannot_have_any_more_is_reported() {
    let mut parts = FormerParts::default();
    parts.follow(&mut attached(&["/a"], &[]), &cluster(), 0);
    let mut full = cluster()[NAME].as_ref().clone();
    let one = full["spec"]["dispatchPolicies"][0].clone();
    full["spec"]["dispatchPolicies"] = json!(vec![one; 20_000]);
    let full: BTreeMap<_, _> = [(NAME.to_owned(), Arc::new(full))].into();
    let mut moved = attached(&[], &["/a"]);
    parts.follow(&mut moved, &full, 0);
    assert_eq!(moved.in_effect[NAME], [], "the owner's edit does not wait for another namespace");
    let left_out = parts.left_out();
    let [(kind, message)] = left_out[NAME].as_slice() else { panic!("{left_out:?}") };
    assert!(
        *kind == PolicyKind::Dispatch && message.contains("team/x") && message.contains("spec.dispatchPolicies"),
        "{message}"
    );
    parts.follow(&mut attached(&[], &["/a"]), &full, 1);
    assert!(parts.left_out().is_empty());
}

/// Each check of a cluster takes time, and a round is run for any change of anything.
#[test]
fn cluster_is_checked_again_only_if_its_parts_change() {
    let mut parts = FormerParts::default();
    let own = cluster();
    parts.follow(&mut attached(&["/a"], &[]), &own, 0);
    let mut round = |at_door: &[&str], own: &BTreeMap<String, Arc<Value>>| {
        parts.follow(&mut attached(&[], at_door), own, 0);
        let held = &parts.held[NAME];
        assert!(Arc::ptr_eq(&held.own, &own[NAME]));
        held.in_effect.as_ptr()
    };
    let first = round(&["/b"], &own);
    assert_eq!(round(&["/b"], &own), first);
    assert_eq!(round(&["/c"], &own), first, "another policy at a door is none here");
    round(&["/c"], &cluster());
}

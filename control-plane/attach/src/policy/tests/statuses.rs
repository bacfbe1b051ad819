use portcullis_api::PolicyKind;
use serde_json::{Value, json};

use super::{HOME, at_cluster, attach_policies, denial, limit, policy, targets};
use crate::CONTROLLER_NAME;
use crate::policy::{DoorTargets, ListedDoors, PolicyAncestors, PolicyTargets, PolicyVerdict, policy_ancestors};

const NOW: &str = "2026-01-02T03:04:05Z";

fn verdict(names: &[&str]) -> PolicyVerdict {
    let at: Value = names.iter().map(|name| at_cluster(name)).collect();
    let strategy = json!({"overrides": {"dispatchPolicies": [denial("/x"), {"rules": super::rules()}]}});
    let one = policy(PolicyKind::Dispatch, (HOME, "x"), 2020, &at, &strategy);
    attach_policies(&[one], &[], &targets()).verdicts.remove(0)
}

fn foreign(index: usize) -> Value {
    json!({"ancestorRef": {"name": format!("other-{index}")}, "controllerName": "example.com/other", "conditions": []})
}

#[test]
fn entry_names_the_target_and_keeps_its_time() {
    let written = policy_ancestors(&[], &verdict(&["a.test"]), Some(3), NOW);
    let expected = json!([{
        "ancestorRef": {"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": "a.test"},
        "controllerName": CONTROLLER_NAME,
        "conditions": [{
            "type": "Accepted", "status": "True", "reason": "Accepted", "lastTransitionTime": NOW, "observedGeneration": 3,
            "message": written.ancestors[0]["conditions"][0]["message"],
        }],
    }]);
    assert_eq!(json!(written.ancestors), expected);
    let later = policy_ancestors(&written.ancestors, &verdict(&["a.test"]), Some(3), "2027-01-01T00:00:00Z");
    assert_eq!(later, written);
}

#[test]
fn entries_of_others_stay_and_own_ones_have_the_rest() {
    let mut before: Vec<Value> = (0..15).map(foreign).collect();
    before.push(json!({"ancestorRef": at_cluster("gone.test"), "controllerName": CONTROLLER_NAME, "conditions": []}));
    let written = policy_ancestors(&before, &verdict(&["a.test", "b.test"]), Some(3), NOW);
    assert_eq!((written.ancestors.len(), written.left_out), (16, 1));
    assert_eq!(written.ancestors[..15], before[..15]);
    assert_eq!(written.ancestors[15]["ancestorRef"]["name"], "a.test");
    let full: Vec<Value> = (0..16).map(foreign).collect();
    assert_eq!(policy_ancestors(&full, &verdict(&["a.test"]), Some(3), NOW).left_out, 1);
}

#[test]
fn condition_that_does_not_hold_any_more_goes() {
    let at = json!([at_cluster("a.test")]);
    let of = |strategy: &str| {
        let one = policy(PolicyKind::FlowControl, (HOME, "x"), 2020, &at, &json!({strategy: limit("few", 3)}));
        attach_policies(&[one], &[], &targets()).verdicts.remove(0)
    };
    let types = |ancestors: &[Value]| {
        let conditions = ancestors[0]["conditions"].as_array().unwrap().clone();
        conditions.iter().map(|one| one["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let overridden = policy_ancestors(&[], &of("defaults"), Some(3), NOW);
    assert_eq!(types(&overridden.ancestors), ["Accepted", "Programmed"]);
    let in_effect = policy_ancestors(&overridden.ancestors, &of("overrides"), Some(3), NOW);
    assert_eq!(types(&in_effect.ancestors), ["Accepted"]);
}

/// Else a start before `HTTPRoutes` are listed, or without the right to list them, would empty the status.
#[test]
fn entries_stay_while_their_targets_are_undecided() {
    let route = json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "r"});
    let at = json!([route, at_cluster("a.test")]);
    let strategy = json!({"overrides": limit("few", 3)});
    let judged = |doors: DoorTargets| {
        let one = policy(PolicyKind::FlowControl, (HOME, "x"), 2020, &at, &strategy);
        attach_policies(&[one], &[], &PolicyTargets { doors, ..targets() }).verdicts.remove(0)
    };
    let mut reference = route.clone();
    reference["namespace"] = json!(HOME);
    let own =
        |reference: &Value| json!({"ancestorRef": reference, "controllerName": CONTROLLER_NAME, "conditions": []});
    let written = |doors: DoorTargets| policy_ancestors(&[foreign(0), own(&reference)], &judged(doors), Some(3), NOW);
    let kinds = |found: &PolicyAncestors| -> Vec<Value> {
        found.ancestors.iter().map(|one| one["ancestorRef"]["kind"].clone()).collect()
    };
    let waiting = written(DoorTargets::Unlisted);
    assert_eq!(kinds(&waiting), [Value::Null, json!("HTTPRoute"), json!("UpstreamCluster")]);
    assert_eq!(waiting.ancestors[1], own(&reference));
    let again = policy_ancestors(&waiting.ancestors, &judged(DoorTargets::Unlisted), Some(3), "2027-01-01T00:00:00Z");
    assert_eq!(again, waiting, "an equal verdict changes nothing");
    let known = written(DoorTargets::Listed(ListedDoors::default()));
    assert_eq!(known.ancestors[1]["conditions"][0]["reason"], "TargetNotFound");
    assert_eq!(kinds(&policy_ancestors(&[], &judged(DoorTargets::Unlisted), Some(3), NOW)), [json!("UpstreamCluster")]);
    let mut full: Vec<Value> = (0..15).map(foreign).collect();
    full.push(own(&reference));
    let found = policy_ancestors(&full, &judged(DoorTargets::Unlisted), Some(3), NOW);
    assert_eq!((found.ancestors, found.left_out), (full, 1));
}

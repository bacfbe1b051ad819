mod moves;

use std::collections::BTreeMap;

use portcullis_api::{PolicyKind, parse_cluster};
use portcullis_attach::ObjectName;
use portcullis_xds::ChangedNames;
use serde_json::{Value, json};

use super::*;

fn cluster(name: &str) -> Arc<Value> {
    let rules = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    Arc::new(json!({
        "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": name},
        "spec": {
            "servers": [{"endpoint": "https://10.0.0.1"}, {"endpoint": "https://10.0.0.2"}],
            "clientConfig": {"insecure": true, "bearerToken": "YQ=="}, "dispatchPolicies": [{"rules": rules}],
        },
    }))
}

fn policy(name: &str, server: &str) -> Arc<Value> {
    let rules = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    Arc::new(json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "DispatchPolicy",
        "metadata": {"name": name, "namespace": "portcullis", "uid": name, "generation": 1},
        "spec": {
            "targetRefs": [{"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": "a.test"}],
            "overrides": {"dispatchPolicies": [{"rules": rules, "upstreamSubset": [server]}]},
        },
    }))
}

fn subset(set: &ObjectSet, index: usize) -> Vec<String> {
    parse_cluster(&set.clusters[index]).unwrap().spec.dispatch_policies[0].upstream_subset.clone()
}

fn listed(policies: &[Arc<Value>]) -> GatewayApiObjects {
    GatewayApiObjects::of_policies([(WatchedKind::Policy(PolicyKind::Dispatch), policies.to_vec())])
}

#[tokio::test]
async fn clusters_wait_for_policies_and_follow_them() {
    let set = ObjectSet { clusters: vec![cluster("a.test"), cluster("b.test")], ..ObjectSet::default() };
    let (_objects, of_objects) = watch::channel(Arc::new(set));
    let (policies, of_policies) = watch::channel(Arc::new(GatewayApiObjects::default()));
    let verdicts = watch::Sender::new(Arc::default());
    let (instances, of_instances) = watch::channel(Arc::new(InstanceStates::default()));
    let stage = PolicyStage {
        policies: of_policies,
        gateway_api: None,
        home_namespace: "portcullis".to_owned(),
        verdicts: verdicts.clone(),
        instances: of_instances,
        doors_served: watch::channel(0).1,
    };
    let attached = tokio::spawn(stage.attach(of_objects));
    tokio::task::yield_now().await;
    assert!(!attached.is_finished(), "a policy may narrow what the cluster itself lets in");
    policies.send_replace(Arc::new(listed(&[policy("x", "https://10.0.0.2")])));
    let mut sets = attached.await.unwrap().unwrap();
    let first = sets.borrow_and_update().clone();
    assert_eq!((subset(&first, 0), subset(&first, 1)), (vec!["https://10.0.0.2".to_owned()], vec![]));
    assert_eq!(verdicts.borrow().affecting("a.test").len(), 1);
    policies.send_replace(Arc::new(listed(&[policy("y", "https://10.0.0.1")])));
    let second = sets.wait_for(|set| subset(set, 0) == ["https://10.0.0.1"]).await.unwrap().clone();
    assert!(Arc::ptr_eq(&first.clusters[1], &second.clusters[1]), "the other cluster has no edit");
    let key = (PolicyKind::Dispatch, "portcullis/y".to_owned());
    let spanning = [(key, "Instance a, Instance b".to_owned())].into();
    instances.send_replace(Arc::new(InstanceStates { spanning, ..InstanceStates::default() }));
    let mut told = verdicts.subscribe();
    let refused = told.wait_for(|verdicts| verdicts.reasons() == ["SpansInstances"]).await.unwrap().clone();
    assert_eq!(refused.affecting("a.test").len(), 1, "it is refused where clusters are");
    assert!(Arc::ptr_eq(&second, &sets.borrow_and_update()), "the documents are what they were");
    policies.send_replace(Arc::new(listed(&[])));
    let third = sets.wait_for(|set| subset(set, 0).is_empty()).await.unwrap().clone();
    assert_eq!(third.clusters[0], cluster("a.test"), "nothing of the policy is left");
    assert!(verdicts.borrow().affecting("a.test").is_empty());
}

#[test]
fn same_policies_make_no_new_document() {
    let set = ObjectSet { clusters: vec![cluster("a.test")], ..ObjectSet::default() };
    let step = |known: StepMemory, name: &str| {
        let policies = Arc::new(listed(&[policy(name, "https://10.0.0.2")]));
        let (objects, home_namespace) = (Arc::new(set.clone()), "portcullis".to_owned());
        let instances = Arc::new(InstanceStates::default());
        merge(&StepInput { objects, policies, gateway_api: None, home_namespace, instances, doors_served: 0 }, known)
    };
    let first = step(StepMemory::default(), "x");
    let document = Arc::clone(&first.step.set.clusters[0]);
    let second = step(first.memory, "x");
    assert!(Arc::ptr_eq(&second.step.set.clusters[0], &document));
    let other = step(second.memory, "y");
    assert!(other.step.set.clusters[0] != document, "another policy is an edit, also with the same fields");
}

#[test]
fn namespaces_with_policies_left_out_are_handed_on() {
    let step = |kind: PolicyKind| {
        let policies = listed(&[]).cut_in(WatchedKind::Policy(kind), ["team".to_owned()]);
        let input = StepInput {
            objects: Arc::default(),
            policies: Arc::new(policies),
            gateway_api: None,
            home_namespace: "portcullis".to_owned(),
            instances: Arc::default(),
            doors_served: 0,
        };
        let verdicts = merge(&input, StepMemory::default()).step.verdicts;
        let of = |namespace: &str| ObjectName::new(namespace, "x");
        let (doors, _) = verdicts.at_doors().unwrap();
        [("team", "other"), ("other", "team"), ("a", "b")]
            .map(|(gateway, route)| doors.are_unread(&of(gateway), "https", &of(route), "a.test"))
    };
    assert_eq!(step(PolicyKind::Dispatch), [true, true, false]);
    assert_eq!(step(PolicyKind::FlowControl), [true, true, false]);
    assert_eq!(step(PolicyKind::UpstreamIdentity), [false; 3], "nothing of them is at a door");
}

/// Each with a policy is checked with it.
#[test]
fn upstreams_beyond_their_bounds_are_no_targets() {
    let document = |index: usize| {
        Arc::new(json!({
            "apiVersion": "portcullis.dev/v1alpha1", "kind": "KubernetesUpstream",
            "metadata": {"name": format!("u{index:02}"), "namespace": "team"},
        }))
    };
    let documents = (0..20).map(document).collect();
    let objects = GatewayApiObjects::of_kinds([(WatchedKind::KubernetesUpstream, documents)]);
    let found = upstreams(&objects);
    assert_eq!((found.len(), found.contains_key(&ObjectName::new("team", "u16"))), (16, false));
}

/// Nothing has the policies of doors there, and a policy that moved to one would hold at its cluster for ever.
#[test]
fn policy_that_moves_to_a_door_that_is_not_served_ends() {
    let targets = |kind: &str, group: &str| json!([{"group": group, "kind": kind, "name": "a.test"}]);
    let step = |known: StepMemory, targets: Value, gateway_api: Option<Arc<GatewayApiObjects>>| {
        let mut document = policy("x", "https://10.0.0.2").as_ref().clone();
        document["spec"]["targetRefs"] = targets;
        let rules = json!([{"verbs": ["*"], "nonResourceURLs": ["/x"]}]);
        let denials = json!([{"rules": rules, "portcullis": {"action": "Deny"}}]);
        document["spec"]["overrides"]["dispatchPolicies"] = denials;
        let objects = Arc::new(ObjectSet { clusters: vec![cluster("a.test")], ..ObjectSet::default() });
        let (policies, home_namespace) = (Arc::new(listed(&[Arc::new(document)])), "portcullis".to_owned());
        let instances = Arc::new(InstanceStates::default());
        merge(&StepInput { objects, policies, gateway_api, home_namespace, instances, doors_served: 0 }, known)
    };
    for (gateway_api, is_held) in [(None, false), (Some(Arc::default()), true)] {
        let own = targets("UpstreamCluster", "proxy.kubegateway.io");
        let first = step(StepMemory::default(), own, gateway_api.clone());
        let second = step(first.memory, targets("HTTPRoute", "gateway.networking.k8s.io"), gateway_api);
        assert_eq!(second.step.set.clusters[0] != cluster("a.test"), is_held);
    }
}

#[test]
fn clusters_of_policies_in_effect_or_left_out_change_with_these() {
    let in_effect = PolicyVerdicts::on_clusters(&[("a".to_owned(), "why".to_owned())]);
    let left_out = BTreeMap::from([("b".to_owned(), vec![(PolicyKind::Dispatch, "it waits".to_owned())])]);
    let both = in_effect.clone().with_left_out(left_out);
    for (before, after, expected) in
        [(&in_effect, &both, [false, true, false]), (&both, &PolicyVerdicts::default(), [true, true, false])]
    {
        let mut changed = ChangedNames::default();
        after.add_changed(before, &mut changed);
        assert_eq!(["a", "b", "c"].map(|name| changed.has(name)), expected);
    }
}

#[test]
fn policy_counts_once_whatever_targets_it_has() {
    let counted = |targets: &[&str]| {
        let mut document = policy("x", "https://10.0.0.2").as_ref().clone();
        let target = |name: &&str| json!({"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": name});
        document["spec"]["targetRefs"] = targets.iter().map(target).collect();
        let clusters = vec![cluster("a.test"), cluster("b.test")];
        let input = StepInput {
            objects: Arc::new(ObjectSet { clusters, ..ObjectSet::default() }),
            policies: Arc::new(listed(&[Arc::new(document)])),
            gateway_api: None,
            home_namespace: "portcullis".to_owned(),
            instances: Arc::default(),
            doors_served: 0,
        };
        merge(&input, StepMemory::default()).step.verdicts.counts().listed()
    };
    let refused = ["DispatchPolicy 1", "DispatchPolicy Accepted 1"];
    assert_eq!(counted(&["a.test", "b.test"]), ["DispatchPolicy 1"]);
    assert_eq!(counted(&["a.test", "gone.test"]), refused);
    assert_eq!(counted(&["gone.test", "lost.test"]), refused);
    assert!(PolicyVerdicts::default().counts().listed().is_empty());
}

use std::sync::Arc;

use portcullis_api::{PolicyKind, check_cluster, parse_cluster};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{HOME, attach_policies, cluster, denial, policy, rules, targets};
use crate::ObjectName;
use crate::policy::{Door, PolicyObject, PolicyTargets, behind_doors};

const PATHS: [&str; 4] = ["/a", "/b", "/c", "/d"];
const SCHEMAS: [&str; 3] = ["few", "free", "new"];

fn fields(kind: PolicyKind, which: usize, number: i32) -> Value {
    let path = PATHS[number.unsigned_abs() as usize % PATHS.len()];
    match (kind, which) {
        (PolicyKind::Dispatch, 0 | 1) => json!({"dispatchPolicies": [denial(path)]}),
        (PolicyKind::Dispatch, 2) => json!({"dispatchPolicies": [denial(path), {"rules": rules()}]}),
        (PolicyKind::Dispatch, _) => {
            json!({"dispatchPolicies": [{"rules": rules(), "upstreamSubset": ["https://10.0.0.2"]}]})
        }
        (PolicyKind::FlowControl, 3) => json!({"flowControl": {"flowControlSchemas": [{"name": "few", "exempt": {}}]}}),
        (PolicyKind::FlowControl, which) => {
            let schema = json!({"name": SCHEMAS[which % SCHEMAS.len()], "maxRequestsInflight": {"max": number}});
            json!({"flowControl": {"flowControlSchemas": [schema]}})
        }
        (PolicyKind::UpstreamIdentity, _) => json!({"allowAnonymous": true}),
    }
}

/// Policies of any namespace, at any door and cluster that they may name.
fn policies() -> impl Strategy<Value = Vec<PolicyObject>> {
    let one = (0..3_usize, 0..3_usize, 0..3_usize, 0..4_usize, -1..9_i32, any::<bool>());
    prop::collection::vec(one, 0..8).prop_map(|all| {
        let object = |(index, (kind, namespace, target, which, number, has_defaults)): (
            usize,
            (usize, usize, usize, usize, i32, bool),
        )| {
            let (kind, namespace) = (PolicyKind::ALL[kind], [HOME, "infra", "team-a"][namespace]);
            let group = "gateway.networking.k8s.io";
            let target = [
                json!({"group": group, "kind": "Gateway", "name": "edge"}),
                json!({"group": group, "kind": "Gateway", "name": "edge", "sectionName": "https"}),
                json!({"group": group, "kind": "HTTPRoute", "name": "prod"}),
            ][target]
                .clone();
            let strategy = if has_defaults { "defaults" } else { "overrides" };
            let strategy = json!({strategy: fields(kind, which, number)});
            policy(kind, (namespace, &format!("p{index}")), 2020, &json!([target]), &strategy)
        };
        all.into_iter().enumerate().map(object).collect()
    })
}

/// Whether a path is denied, by the checked form, and the most requests in flight.
fn decision(document: &Value, path: &str) -> (bool, i64) {
    let cluster = check_cluster(&parse_cluster(document).unwrap(), true).outcome.unwrap();
    let rules = |of: &portcullis_api::Policy| {
        of.rules.iter().flat_map(|rule| rule.non_resource_urls.clone()).collect::<Vec<_>>()
    };
    let first = cluster.policies.iter().find(|policy| rules(policy).iter().any(|one| one == path));
    let schemas = document["spec"]["flowControl"]["flowControlSchemas"].as_array().unwrap();
    let few = schemas.iter().find(|schema| schema["name"] == "few").unwrap();
    (first.is_none_or(|policy| policy.deny.is_some()), few["maxRequestsInflight"]["max"].as_i64().unwrap())
}

proptest! {
    /// Neither a request nor a number of requests is let in by a door that the cluster itself does not let in.
    #[test]
    fn doors_let_in_nothing_that_is_refused_without_them(policies in policies()) {
        let (name, own) = cluster("a.test");
        let mut own = own.as_ref().clone();
        own["spec"]["dispatchPolicies"] = json!([
            denial("/a"), {"rules": [{"verbs": ["*"], "nonResourceURLs": ["/a", "/b", "/c"]}], "flowControlSchemaName": "few"},
        ]);
        let own = Arc::new(own);
        let doors = super::doors::listed(&super::doors::objects());
        let attached = attach_policies(&policies, &[], &PolicyTargets { doors, ..targets() });
        for namespace in [HOME, "infra"] {
            let (gateway, route) = (ObjectName::new(namespace, "edge"), ObjectName::new("team-a", "prod"));
            let all = Door::all(&gateway, "https", &route);
            let in_effect = all.iter().flat_map(|door| attached.at_doors.at(door));
            let (tightened, _) = behind_doors(&own, &name, in_effect);
            for path in PATHS {
                let ((was_denied, before), (is_denied, after)) = (decision(&own, path), decision(&tightened, path));
                prop_assert!(is_denied || !was_denied, "{path}: {tightened}");
                prop_assert!((1..=before).contains(&after), "{before} {after}");
            }
        }
        prop_assert!(attached.in_effect.is_empty(), "no cluster is another one because of them");
    }
}

//! A tenant's policies on an `UpstreamCluster` that another team owns: nothing that the owner refuses is let in.

use portcullis_api::PolicyKind::{self, Dispatch, FlowControl, UpstreamIdentity};
use serde_json::{Value, json};

use super::{
    HOME, all_grants, at_cluster, attach_policies, denial, grant, in_effect, limit, merged, policy, rules, targets,
};
use crate::policy::PolicyObject;

fn tenant(kind: PolicyKind, fields: &Value) -> PolicyObject {
    let strategy = json!({"overrides": fields});
    policy(kind, ("team-a", "x"), 2019, &json!([at_cluster("a.test")]), &strategy)
}

fn owner(kind: PolicyKind, fields: &Value) -> PolicyObject {
    let strategy = json!({"overrides": fields});
    policy(kind, (HOME, "base"), 2024, &json!([at_cluster("a.test")]), &strategy)
}

#[test]
fn tenant_takes_away_and_never_lets_in() {
    let own = merged(&attach_policies(&[], &[], &targets()), "a.test");
    let all: Vec<Value> = (0..5).map(|_| json!({"rules": rules(), "upstreamSubset": ["https://10.0.0.2"]})).collect();
    let mut forced = denial("/x");
    forced["portcullis"]["force"] = json!(true);
    let mut shadow = denial("/x");
    shadow["portcullis"]["mode"] = json!("Shadow");
    let heartbeats = json!({"rules": rules(), "portcullis": {"action": "Deny"}});
    for (kind, fields) in [
        (Dispatch, json!({"dispatchPolicies": all})),
        (Dispatch, json!({"dispatchPolicies": [denial("/x"), {"rules": rules()}]})),
        (Dispatch, json!({"dispatchPolicies": [forced]})),
        (Dispatch, json!({"dispatchPolicies": [shadow]})),
        (Dispatch, json!({"dispatchPolicies": [heartbeats]})),
        (Dispatch, json!({"dispatchPolicies": [{"rules": rules(), "flowControlSchemaName": "free"}]})),
        (FlowControl, limit("few", 0)),
        (FlowControl, limit("new", 3)),
        (FlowControl, limit("free", 3)),
        (FlowControl, json!({"flowControl": {"flowControlSchemas": [{"name": "few", "exempt": {}}]}})),
        (FlowControl, json!({"flowControl": {"schemas": [{"name": "few", "tokenBucket": {"qps": 1, "burst": 1}}]}})),
        (FlowControl, json!({"fairQueues": [{"name": "few", "max": 1000}]})),
        (UpstreamIdentity, json!({"allowAnonymous": true})),
        (UpstreamIdentity, json!({"tokens": {"issuers": []}})),
        (UpstreamIdentity, json!({"upstreamIdentity": "RequestHeader"})),
    ] {
        let attached = attach_policies(&[tenant(kind, &fields)], &all_grants(), &targets());
        let condition = &attached.verdicts[0].ancestors[0].conditions[0];
        assert_eq!((condition.status, condition.reason), (false, "Invalid"), "{kind} {fields}: {}", condition.message);
        assert_eq!(merged(&attached, "a.test"), own, "{kind} {fields}");
    }
    let defaults = policy(
        FlowControl,
        ("team-a", "x"),
        2019,
        &json!([at_cluster("a.test")]),
        &json!({"defaults": limit("few", 1)}),
    );
    let attached = attach_policies(&[defaults], &all_grants(), &targets());
    assert_eq!(attached.verdicts[0].ancestors[0].conditions[0].reason, "Invalid");
}

#[test]
fn owners_fields_are_what_a_tenant_tightens_however_old_it_is() {
    let high = owner(FlowControl, &limit("few", 4));
    let servers = json!({"dispatchPolicies": [{"rules": rules(), "flowControlSchemaName": "few", "upstreamSubset": ["https://10.0.0.2"]}]});
    let base = owner(Dispatch, &servers);
    for (max, expected) in [(1_000, 4), (3, 3)] {
        let tenants =
            [tenant(FlowControl, &limit("few", max)), tenant(Dispatch, &json!({"dispatchPolicies": [denial("/x")]}))];
        let policies: Vec<PolicyObject> = tenants.into_iter().chain([high.clone(), base.clone()]).collect();
        let attached = attach_policies(&policies, &all_grants(), &targets());
        assert_eq!(in_effect(&attached, "a.test").len(), 4);
        let spec = merged(&attached, "a.test");
        assert_eq!(
            spec["flowControl"]["flowControlSchemas"],
            limit("few", expected)["flowControl"]["flowControlSchemas"]
        );
        assert_eq!(spec["dispatchPolicies"][0], denial("/x"));
        assert_eq!(spec["dispatchPolicies"][1], servers["dispatchPolicies"][0]);
        assert_eq!(spec["portcullis"]["access"], json!({"deny": [{"users": ["mallory"]}]}), "access lists stay");
    }
}

#[test]
fn namespaces_tighten_beside_each_other() {
    let of = |namespace: &str, year: u32, max: i32| {
        let strategy = json!({"overrides": limit("few", max)});
        policy(FlowControl, (namespace, "x"), year, &json!([at_cluster("a.test")]), &strategy)
    };
    // A mistake of the older one, and a higher limit, take nothing from the other one.
    for (older, expected) in [(0, 3), (2, 2), (4, 3)] {
        let policies = [of("team-a", 2019, older), of("team-b", 2020, 3)];
        let spec = merged(&attach_policies(&policies, &all_grants(), &targets()), "a.test");
        let schema = &spec["flowControl"]["flowControlSchemas"][0];
        assert_eq!(schema["maxRequestsInflight"]["max"], expected, "{older}");
    }
    let teams: Vec<String> = (0..17).map(|number| format!("team-{number:02}")).collect();
    let policies: Vec<PolicyObject> = teams.iter().map(|team| of(team, 2020, 3)).collect();
    let grants: Vec<_> = teams.iter().map(|team| grant(HOME, FlowControl, team, None)).collect();
    let attached = attach_policies(&policies, &grants, &targets());
    assert_eq!(in_effect(&attached, "a.test").len(), 16);
    let last = &attached.verdicts[16].ancestors[0].conditions[0];
    assert_eq!((last.status, last.reason), (false, "Conflicted"), "{}", last.message);
}

#[test]
fn tenant_that_would_refuse_the_cluster_is_left_out() {
    let mut passthrough = targets();
    let mut document = passthrough.clusters["a.test"].as_ref().clone();
    document["spec"]["portcullis"] = json!({"transport": "TLSPassthrough"});
    document["spec"]["dispatchPolicies"] = json!([{"rules": rules()}]);
    passthrough.clusters.insert("a.test".to_owned(), document.into());
    let attached =
        attach_policies(&[tenant(Dispatch, &json!({"dispatchPolicies": [denial("/x")]}))], &all_grants(), &passthrough);
    let condition = &attached.verdicts[0].ancestors[0].conditions[0];
    assert!(condition.message.contains("would be refused with it: spec."), "{}", condition.message);
    assert!(condition.message.ends_with(": invalid"), "it quotes nothing of the cluster: {}", condition.message);
    assert_eq!(in_effect(&attached, "a.test"), []);
}

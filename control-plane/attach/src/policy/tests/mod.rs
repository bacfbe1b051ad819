//! Policies at their targets: a table of verdicts, properties of all outcomes, and statuses.

mod door_properties;
mod doors;
mod hostile;
mod properties;
mod statuses;
mod upstreams;
mod verdicts;

use std::sync::Arc;

use portcullis_api::{PolicyKind, PolicyRole, with_policies};
use portcullis_gateway_api::{GatewayApiObject, ReferenceGrant, read_object};
use serde_json::{Value, json};

use super::{AttachedPolicies, DoorTargets, PolicyMemo, PolicyObject, PolicyTargets};

/// The control plane's own namespace.
const HOME: &str = "portcullis";

fn attach_policies(policies: &[PolicyObject], grants: &[ReferenceGrant], targets: &PolicyTargets) -> AttachedPolicies {
    super::attach_policies(policies, grants, targets, &mut PolicyMemo::default())
}

/// The rules for everything.
fn rules() -> Value {
    json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}])
}

/// A dispatch policy that denies one path.
fn denial(path: &str) -> Value {
    json!({"rules": [{"verbs": ["*"], "nonResourceURLs": [path]}], "portcullis": {"action": "Deny", "message": "no"}})
}

fn limit(name: &str, max: i32) -> Value {
    json!({"flowControl": {"flowControlSchemas": [{"name": name, "maxRequestsInflight": {"max": max}}]}})
}

/// A cluster with a policy, the limit `few` of 5, and an access list.
fn cluster(name: &str) -> (String, Arc<Value>) {
    let document = json!({
        "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": name},
        "spec": {
            "servers": [{"endpoint": "https://10.0.0.1"}, {"endpoint": "https://10.0.0.2"}],
            "clientConfig": {"insecure": true, "bearerToken": "YQ=="},
            "flowControl": {"flowControlSchemas": [{"name": "few", "maxRequestsInflight": {"max": 5}}, {"name": "free", "exempt": {}}]},
            "dispatchPolicies": [{"rules": rules(), "flowControlSchemaName": "few"}],
            "portcullis": {"access": {"deny": [{"users": ["mallory"]}]}},
        },
    });
    (name.to_owned(), Arc::new(document))
}

fn targets() -> PolicyTargets {
    PolicyTargets {
        is_complete: true,
        home_namespace: HOME.to_owned(),
        clusters: [cluster("a.test"), cluster("b.test")].into(),
        doors: DoorTargets::Unserved,
        ..PolicyTargets::default()
    }
}

fn at_cluster(name: &str) -> Value {
    json!({"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": name})
}

/// A policy of a namespace, created in a year, at targets.
fn policy(
    kind: PolicyKind,
    (namespace, name): (&str, &str),
    year: u32,
    targets: &Value,
    strategy: &Value,
) -> PolicyObject {
    let mut spec = json!({"targetRefs": targets});
    spec.as_object_mut().unwrap().extend(strategy.as_object().unwrap().clone());
    let metadata = json!({
        "name": name, "namespace": namespace, "generation": 3, "uid": format!("{namespace}-{name}"),
        "creationTimestamp": format!("{year}-01-01T00:00:00Z"),
    });
    PolicyObject::read(
        kind,
        &json!({
            "apiVersion": "portcullis.dev/v1alpha1", "kind": kind.as_str(), "metadata": metadata, "spec": spec,
        }),
    )
}

/// A grant in a namespace for the policies of a kind of another one, to a cluster or all.
fn grant(namespace: &str, kind: PolicyKind, from: &str, cluster: Option<&str>) -> ReferenceGrant {
    let mut to = json!({"group": "proxy.kubegateway.io", "kind": "UpstreamCluster"});
    if let Some(cluster) = cluster {
        to["name"] = json!(cluster);
    }
    let document = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
        "metadata": {"name": "g", "namespace": namespace},
        "spec": {"from": [{"group": "portcullis.dev", "kind": kind.as_str(), "namespace": from}], "to": [to]},
    });
    let Ok(GatewayApiObject::ReferenceGrant(grant)) = read_object(&document) else { panic!("{document}") };
    grant
}

/// Grants of everything to both teams.
fn all_grants() -> Vec<ReferenceGrant> {
    let of_team = |team: &'static str| PolicyKind::ALL.map(move |kind| grant(HOME, kind, team, None));
    ["team-a", "team-b"].into_iter().flat_map(of_team).collect()
}

/// Each condition that says something, as `kind namespace/name target: type status reason`.
fn told(attached: &AttachedPolicies) -> Vec<String> {
    let mut lines = Vec::new();
    for verdict in &attached.verdicts {
        for ancestor in &verdict.ancestors {
            for one in &ancestor.conditions {
                let (name, target) = (&verdict.name, &ancestor.target.name);
                lines.push(format!("{name} {target}: {} {} {}", one.kind, one.status, one.reason));
            }
        }
    }
    lines
}

/// The policies in effect on a cluster, each with its part.
fn in_effect(attached: &AttachedPolicies, cluster: &str) -> Vec<(String, PolicyRole)> {
    let all = attached.in_effect.get(cluster).into_iter().flatten();
    all.map(|one| (format!("{} {}", one.kind, one.policy), one.role)).collect()
}

/// The specification of a cluster with the policies in effect.
fn merged(attached: &AttachedPolicies, cluster: &str) -> Value {
    let own = targets().clusters[cluster].clone();
    with_policies(&own, attached.in_effect.get(cluster).map_or(&[][..], Vec::as_slice))["spec"].clone()
}

//! Roles of people who share gateways by the Gateway API.

use serde_json::{Value, json};

use super::control_plane::role;

/// Everything that its author does to an object.
const WRITE: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
const READ: [&str; 3] = ["get", "list", "watch"];

/// The roles, each without what the others write, and without any status: the control plane writes these.
///
/// Gateway operators and tenants get theirs by a `RoleBinding` in each of their namespaces. A binding of these two in the control
/// plane's own namespace would permit routes to lead to every `UpstreamCluster`, as a `ReferenceGrant` there does.
pub(super) fn manifests() -> Vec<Value> {
    let (group, own_group, clusters_group) = ("gateway.networking.k8s.io", "portcullis.dev", "proxy.kubegateway.io");
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let roles = [
        (
            "portcullis-platform-admin",
            json!([
                rule(group, &["gatewayclasses"], &WRITE),
                rule(own_group, &["gatewaysettings"], &WRITE),
                rule(clusters_group, &["upstreamclusters"], &WRITE),
                rule(group, &["gateways", "httproutes", "tlsroutes", "referencegrants"], &READ),
                rule(own_group, &["kubernetesupstreams"], &READ),
            ]),
        ),
        (
            "portcullis-gateway-operator",
            json!([
                rule(group, &["gateways", "referencegrants"], &WRITE),
                rule(group, &["httproutes", "tlsroutes"], &READ),
                rule(own_group, &["kubernetesupstreams"], &READ),
            ]),
        ),
        (
            "portcullis-tenant",
            json!([
                rule(group, &["httproutes", "tlsroutes", "referencegrants"], &WRITE),
                rule(own_group, &["kubernetesupstreams"], &WRITE),
                rule(group, &["gateways"], &READ),
            ]),
        ),
    ];
    roles.map(|(name, rules)| role("ClusterRole", json!({"name": name}), rules)).into()
}

//! Roles of people who share gateways.

use portcullis_api::PolicyKind;
use serde_json::{Value, json};

use super::control_plane::role;

/// Everything that its author does to an object.
const WRITE: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
const READ: [&str; 3] = ["get", "list", "watch"];

/// The roles, each without what the others write, and without any status: the control plane writes these.
///
/// Gateway operators and tenants get theirs by a `RoleBinding` in each of their namespaces, and the platform team the one for policies by
/// one in the control plane's own. A binding of the others there would permit routes to lead to every `UpstreamCluster`, as a
/// `ReferenceGrant` there does, and a policy there decides about every one.
pub(super) fn manifests() -> Vec<Value> {
    let (group, own_group, clusters_group) = ("gateway.networking.k8s.io", "portcullis.dev", "proxy.kubegateway.io");
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let [dispatch, flow_control, identity] =
        [PolicyKind::Dispatch, PolicyKind::FlowControl, PolicyKind::UpstreamIdentity].map(PolicyKind::plural);
    let policies = [dispatch, flow_control, identity];
    // Beyond the control plane's namespace a policy tightens, and there is nothing to tighten about identities.
    let tightening = [dispatch, flow_control];
    let roles = [
        (
            "portcullis-platform-admin",
            json!([
                rule(group, &["gatewayclasses"], &WRITE),
                rule(own_group, &["gatewaysettings", "instances"], &WRITE),
                rule(clusters_group, &["upstreamclusters"], &WRITE),
                rule(group, &["gateways", "httproutes", "tlsroutes", "referencegrants"], &READ),
                rule(own_group, &["kubernetesupstreams"], &READ),
                rule(own_group, &policies, &READ),
            ]),
        ),
        (
            "portcullis-policy-admin",
            json!([rule(own_group, &policies, &WRITE), rule(group, &["referencegrants"], &WRITE)]),
        ),
        (
            "portcullis-gateway-operator",
            json!([
                rule(group, &["gateways", "referencegrants"], &WRITE),
                rule(own_group, &tightening, &WRITE),
                rule(group, &["httproutes", "tlsroutes"], &READ),
                rule(own_group, &["kubernetesupstreams"], &READ),
                rule(own_group, &[identity], &READ),
            ]),
        ),
        (
            "portcullis-tenant",
            json!([
                rule(group, &["httproutes", "tlsroutes", "referencegrants"], &WRITE),
                rule(own_group, &["kubernetesupstreams"], &WRITE),
                rule(own_group, &tightening, &WRITE),
                rule(group, &["gateways"], &READ),
                rule(own_group, &[identity], &READ),
            ]),
        ),
    ];
    roles.map(|(name, rules)| role("ClusterRole", json!({"name": name}), rules)).into()
}

use portcullis_api::PolicyKind;
use serde_json::{Value, json};

use crate::leader::limits_lease_name;

/// The name of everything here.
const NAME: &str = "portcullis-control-plane";
const RBAC: &str = "rbac.authorization.k8s.io";

/// The role and the binding in a namespace of discovered Services.
const DISCOVERY: &str = "portcullis-discovery";

/// The permissions of the control plane in the cluster that stores its objects, and nothing else: to read UpstreamClusters and
/// GatewaySettings and write their status, to review tokens and rights of the console's readers, to read the Secrets of its own namespace, and
/// its Leases there; and to read the EndpointSlices of the namespaces in `discovery`.
///
/// `subject` is a user's name; without it, it is the namespace's service account [`NAME`].
pub(crate) fn manifests(namespace: &str, lease: &str, subject: Option<&str>, discovery: &[String]) -> Vec<Value> {
    let (group, own_group) = ("proxy.kubegateway.io", "portcullis.dev");
    let cluster_rules = json!([
        {"apiGroups": [group], "resources": ["upstreamclusters"], "verbs": ["list", "watch"]},
        {"apiGroups": [group], "resources": ["upstreamclusters/status"], "verbs": ["patch"]},
        {"apiGroups": [own_group], "resources": ["gatewaysettings"], "verbs": ["list", "watch"]},
        {"apiGroups": [own_group], "resources": ["gatewaysettings/status"], "verbs": ["patch"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    ]);
    let (leases, leases_of_name) = ("coordination.k8s.io", [lease.to_owned(), limits_lease_name(lease)]);
    let rules = json!([
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]},
        {"apiGroups": [leases], "resources": ["leases"], "resourceNames": leases_of_name, "verbs": ["get", "update"]},
        // A rule by name does not allow create: the object has no name yet.
        {"apiGroups": [leases], "resources": ["leases"], "verbs": ["create"]},
    ]);
    let of_namespace = json!({"name": NAME, "namespace": namespace});
    let subject = subject_of(namespace, subject);
    let mut manifests = vec![
        role("ClusterRole", json!({"name": NAME}), cluster_rules),
        binding("ClusterRole", json!({"name": NAME}), &subject),
        role("Role", of_namespace.clone(), rules),
        binding("Role", of_namespace, &subject),
    ];
    for namespace in discovery {
        let metadata = json!({"name": DISCOVERY, "namespace": namespace});
        let slices =
            json!([{"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}]);
        manifests.push(role("Role", metadata.clone(), slices));
        manifests.push(binding("Role", metadata, &subject));
    }
    manifests
}

fn subject_of(namespace: &str, user: Option<&str>) -> Value {
    match user {
        Some(user) => json!({"apiGroup": RBAC, "kind": "User", "name": user}),
        None => json!({"kind": "ServiceAccount", "name": NAME, "namespace": namespace}),
    }
}

/// The role and the binding for the Gateway API.
const GATEWAY_API: &str = "portcullis-gateway-api";

/// The permissions for the Gateway API: to read its objects, upstreams, namespaces and Services, and to write the status of classes,
/// Gateways, routes and upstreams; to read the EndpointSlices of Services to which routes lead; and to read which release the definitions are of. No
/// Secret and no `ConfigMap` is among them ([`gateway_secrets_manifests`]).
pub(crate) fn gateway_api_manifests(namespace: &str, user: Option<&str>) -> [Value; 2] {
    let group = "gateway.networking.k8s.io";
    let read = ["gatewayclasses", "gateways", "httproutes", "tlsroutes", "referencegrants"];
    let written = ["gatewayclasses/status", "gateways/status", "httproutes/status", "tlsroutes/status"];
    let rules = json!([
        {"apiGroups": [group], "resources": read, "verbs": ["list", "watch"]},
        {"apiGroups": [group], "resources": written, "verbs": ["patch"]},
        {"apiGroups": ["portcullis.dev"], "resources": ["kubernetesupstreams"], "verbs": ["list", "watch"]},
        {"apiGroups": ["portcullis.dev"], "resources": ["kubernetesupstreams/status"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["namespaces", "services"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        {
            "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
            "resourceNames": [format!("gatewayclasses.{group}")], "verbs": ["get"],
        },
    ]);
    let metadata = json!({"name": GATEWAY_API});
    [role("ClusterRole", metadata.clone(), rules), binding("ClusterRole", metadata, &subject_of(namespace, user))]
}

/// The role and the binding in a namespace with certificates of Gateways.
const GATEWAY_SECRETS: &str = "portcullis-gateway-secrets";

/// The permissions to read certificates of Gateways, and credentials of upstreams, in these namespaces: Secrets and `ConfigMaps`, each
/// by its name. RBAC knows no narrower ones that go on while Gateways come and go; which of them are read is decided by Gateways and
/// `ReferenceGrants`, and by `KubernetesUpstreams`.
pub(crate) fn gateway_secrets_manifests(namespace: &str, user: Option<&str>, of: &[String]) -> Vec<Value> {
    let subject = subject_of(namespace, user);
    let in_namespace = |namespace: &String| {
        let metadata = json!({"name": GATEWAY_SECRETS, "namespace": namespace});
        let rules = json!([{"apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": ["get"]}]);
        [role("Role", metadata.clone(), rules), binding("Role", metadata, &subject)]
    };
    of.iter().flat_map(in_namespace).collect()
}

/// The role and the binding for instances.
const INSTANCES: &str = "portcullis-instances";

/// The permissions for instances: to read them, and to write their status.
pub(crate) fn instances_manifests(namespace: &str, user: Option<&str>) -> [Value; 2] {
    let rules = json!([
        {"apiGroups": ["portcullis.dev"], "resources": ["instances"], "verbs": ["list", "watch"]},
        {"apiGroups": ["portcullis.dev"], "resources": ["instances/status"], "verbs": ["patch"]},
    ]);
    let metadata = json!({"name": INSTANCES});
    [role("ClusterRole", metadata.clone(), rules), binding("ClusterRole", metadata, &subject_of(namespace, user))]
}

/// The role and the binding for policies.
const POLICIES: &str = "portcullis-policies";

/// The permissions for policies: to read them and the ReferenceGrants for them, and to write their status.
pub(crate) fn policy_manifests(namespace: &str, user: Option<&str>) -> [Value; 2] {
    let read = PolicyKind::ALL.map(PolicyKind::plural);
    let written = read.map(|plural| format!("{plural}/status"));
    let rules = json!([
        {"apiGroups": ["portcullis.dev"], "resources": read, "verbs": ["list", "watch"]},
        {"apiGroups": ["portcullis.dev"], "resources": written, "verbs": ["patch"]},
        {"apiGroups": ["gateway.networking.k8s.io"], "resources": ["referencegrants"], "verbs": ["list", "watch"]},
    ]);
    let metadata = json!({"name": POLICIES});
    [role("ClusterRole", metadata.clone(), rules), binding("ClusterRole", metadata, &subject_of(namespace, user))]
}

pub(super) fn role(kind: &str, metadata: Value, rules: Value) -> Value {
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata, "rules": rules})
}

/// Of the role of the same name.
fn binding(kind: &str, metadata: Value, subject: &Value) -> Value {
    let name = metadata.get("name").cloned();
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": format!("{kind}Binding"),
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
        "subjects": [subject],
    })
}

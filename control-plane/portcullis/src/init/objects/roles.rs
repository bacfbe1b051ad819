use serde_json::{Value, json};

use crate::init::settings::Settings;
use crate::init::tenant::Tenant;

const RBAC: &str = "rbac.authorization.k8s.io";
const GROUP: &str = "proxy.kubegateway.io";
const OWN_GROUP: &str = "portcullis.dev";
const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 4] = ["create", "update", "patch", "delete"];
const ROLES: [&str; 3] = ["portcullis-admin", "portcullis-editor", "portcullis-viewer"];

/// The roles of people, each complete because no controller aggregates roles, and the groups that have them.
pub(super) fn all(settings: &Settings) -> Vec<Value> {
    let namespace = settings.namespace.as_str();
    let mut objects = vec![
        role(None, "portcullis-viewer", &viewer()),
        role(None, "portcullis-editor", &editor()),
        role(Some(namespace), "portcullis-editor", &json!([secrets(&WRITE)])),
        role(None, "portcullis-admin", &admin()),
        role(Some(namespace), "portcullis-admin", &admin_of_namespace()),
    ];
    for (name, group) in ROLES.into_iter().zip(["portcullis:admins", "portcullis:editors", "portcullis:viewers"]) {
        objects.push(binding(None, name, group));
        if name != "portcullis-viewer" {
            objects.push(binding(Some(namespace), name, group));
        }
    }
    objects.extend(settings.tenants.iter().flat_map(tenant));
    objects
}

fn clusters(verbs: &[&str]) -> Value {
    json!({"apiGroups": [GROUP], "resources": ["upstreamclusters"], "verbs": verbs})
}

fn settings(verbs: &[&str]) -> Value {
    json!({"apiGroups": [OWN_GROUP], "resources": ["gatewaysettings"], "verbs": verbs})
}

fn instances(verbs: &[&str]) -> Value {
    json!({"apiGroups": [OWN_GROUP], "resources": ["instances"], "verbs": verbs})
}

fn secrets(verbs: &[&str]) -> Value {
    json!({"apiGroups": [""], "resources": ["secrets"], "verbs": verbs})
}

fn viewer() -> Value {
    json!([
        clusters(&READ),
        {"apiGroups": [GROUP], "resources": ["upstreamclusters/status"], "verbs": ["get"]},
        settings(&READ),
        instances(&READ),
        {"apiGroups": [OWN_GROUP], "resources": ["gatewaysettings/status", "instances/status"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": READ},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": READ},
    ])
}

/// Writes objects, and in the namespace Secrets: `kubectl apply --server-side`. It cannot list Secrets, but the answer to a patch
/// is the whole Secret, so it reads those whose names it knows.
fn editor() -> Value {
    let mut rules = viewer();
    if let Some(rules) = rules.as_array_mut() {
        rules.push(clusters(&WRITE));
    }
    rules
}

/// Writes settings, which bind editors, too, and instances, which divide the objects among tenants. Gives the roles of this file to others, and no right that it has not.
fn admin() -> Value {
    let mut rules = editor();
    if let Some(rules) = rules.as_array_mut() {
        let all: Vec<&str> = READ.into_iter().chain(WRITE).collect();
        rules.extend([
            settings(&WRITE),
            instances(&WRITE),
            json!({"apiGroups": [RBAC], "resources": ["clusterroles", "clusterrolebindings"], "verbs": all}),
            json!({"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": READ}),
        ]);
    }
    rules
}

fn admin_of_namespace() -> Value {
    let all: Vec<&str> = READ.into_iter().chain(WRITE).collect();
    json!([
        secrets(&all),
        {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": all},
        {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": READ},
        {"apiGroups": [RBAC], "resources": ["roles", "rolebindings"], "verbs": all},
    ])
}

/// By name: no other object is read or written. Server-side apply creates by name, too.
fn tenant(tenant: &Tenant) -> [Value; 2] {
    let name = format!("portcullis-tenant-{}", tenant.name);
    let verbs = ["get", "watch", "create", "update", "patch", "delete"];
    let rules = json!([
        {"apiGroups": [GROUP], "resources": ["upstreamclusters"], "resourceNames": tenant.clusters, "verbs": verbs},
        {"apiGroups": [GROUP], "resources": ["upstreamclusters/status"], "resourceNames": tenant.clusters, "verbs": ["get"]},
    ]);
    [role(None, &name, &rules), binding(None, &name, &format!("portcullis:tenant:{}", tenant.name))]
}

fn kind(namespace: Option<&str>) -> &'static str {
    if namespace.is_some() { "Role" } else { "ClusterRole" }
}

fn metadata(namespace: Option<&str>, name: &str) -> Value {
    match namespace {
        Some(namespace) => json!({"name": name, "namespace": namespace}),
        None => json!({"name": name}),
    }
}

fn role(namespace: Option<&str>, name: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": kind(namespace),
        "metadata": metadata(namespace, name),
        "rules": rules,
    })
}

fn binding(namespace: Option<&str>, name: &str, group: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": format!("{}Binding", kind(namespace)),
        "metadata": metadata(namespace, name),
        "roleRef": {"apiGroup": RBAC, "kind": kind(namespace), "name": name},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group}],
    })
}

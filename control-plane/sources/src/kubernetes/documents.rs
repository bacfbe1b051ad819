use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::DynamicObject;
use portcullis_api::{SHARED_ANNOTATION, SecretBytes, SecretData, oversized_policy, pack_policies};
use serde_json::{Map, Value, json};

use super::{ObjectKey, WatchedKind};

/// kubectl's copy of the whole object, keys included.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields of an `UpstreamCluster`'s status that decide about it from then on: the names that it owns, and the instance that owns it.
const GIVEN: [&str; 2] = ["names", "instance"];

/// An object as the server sent it. It may hold keys, so it has no debug output.
#[derive(Clone, PartialEq)]
#[cfg_attr(test, derive(Debug))]
pub(super) struct WatchedObject {
    pub(super) key: Arc<ObjectKey>,
    /// Without its status, but for what was given to it, and without what changes with every write to the status.
    pub(super) document: Arc<Value>,
    pub(super) stored: Arc<StoredStatus>,
    /// The length of document and status as JSON; of objects of the Gateway API, of which many are kept.
    pub(super) bytes: usize,
}

/// The status of an object as the server has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredStatus {
    /// `metadata.uid`.
    pub uid: Option<String>,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// `status`; null if there is none.
    pub status: Value,
}

/// The largest document of the Gateway API, and the largest policy: tenants write them, and each is read at every change.
const MAX_BYTES: usize = 256 * 1024;

fn length(value: &Value) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |bytes| bytes.len())
}

/// The document within the bound, with the length of the object. Of a policy beyond it the targets are left: one that decides must not
/// leave its part because of its length. Of a route beyond it the name is left: it is at no Gateway then, and its status is to say so.
fn bounded(kind: WatchedKind, document: Value, status: &Value) -> Option<(Value, usize)> {
    let of_document = length(&document);
    if of_document <= MAX_BYTES {
        return Some((document, of_document.saturating_add(length(status))));
    }
    let text = |field: &str| document.pointer(field).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    tracing::warn!(kind = kind.kind(), namespace, name, "an object of more than 256 KiB is not looked at");
    let reduced = match kind {
        WatchedKind::Policy(_) => oversized_policy(&document),
        WatchedKind::HttpRoute | WatchedKind::TlsRoute => oversized_route(&document),
        _ => return None,
    };
    let bytes = length(&reduced).saturating_add(length(status));
    Some((reduced, bytes))
}

/// The document of a route without parents.
fn oversized_route(document: &Value) -> Value {
    let field = |name: &&str| Some(((*name).to_owned(), document.pointer("/metadata")?.get(*name)?.clone()));
    let kept = ["name", "namespace", "uid", "generation", "creationTimestamp"];
    let metadata: Map<String, Value> = kept.iter().filter_map(field).collect();
    let named = |name: &str| document.get(name).cloned().unwrap_or_default();
    let spec = json!({"parentRefs": [], "hostnames": [], "rules": []});
    json!({"apiVersion": named("apiVersion"), "kind": named("kind"), "metadata": metadata, "spec": spec})
}

/// Leaves what is judged: labels of namespaces, and ports of Services.
fn reduce(kind: WatchedKind, object: &mut DynamicObject) {
    if !kind.is_referred_to() {
        return;
    }
    let ports = object.data.pointer("/spec/ports").cloned();
    object.data = match (kind, ports) {
        (WatchedKind::Service, Some(ports)) => json!({"spec": {"ports": ports}}),
        _ => json!({}),
    };
    object.metadata.annotations = None;
    object.metadata.labels = object.metadata.labels.take().filter(|_| kind == WatchedKind::Namespace);
}

/// `None` if it cannot be written as a document, which nothing that came as one does, or is too large.
pub(super) fn object(kind: WatchedKind, mut object: DynamicObject) -> Option<WatchedObject> {
    let key = Arc::new(ObjectKey::of_path(kind, &path(&object)));
    object.metadata.managed_fields = None;
    reduce(kind, &mut object);
    object.metadata.resource_version = None;
    if let Some(annotations) = &mut object.metadata.annotations {
        annotations.remove(LAST_APPLIED);
    }
    let (uid, generation) = (object.metadata.uid.clone(), object.metadata.generation);
    let mut document = serde_json::to_value(object).ok()?;
    let fields = document.as_object_mut()?;
    let status = fields.remove("status").unwrap_or_default();
    // Names and an owner that the object was given stay its own.
    let given = GIVEN.into_iter().filter_map(|field| Some((field.to_owned(), status.get(field)?.clone())));
    let given: Map<String, Value> = given.filter(|_| kind == WatchedKind::UpstreamCluster).collect();
    if !given.is_empty() {
        fields.insert("status".to_owned(), Value::Object(given));
    }
    fields.insert("apiVersion".to_owned(), json!(kind.api_version()));
    fields.insert("kind".to_owned(), json!(kind.kind()));
    if kind == WatchedKind::UpstreamCluster {
        // They are most of what is kept.
        pack_policies(&mut document);
    }
    let (document, bytes) = if kind.is_judged() { bounded(kind, document, &status)? } else { (document, 0) };
    let stored = Arc::new(StoredStatus { uid, generation, status });
    Some(WatchedObject { key, document: Arc::new(document), stored, bytes })
}

/// `namespace/name`, or the name of a cluster-scoped object.
pub(super) fn path(object: &DynamicObject) -> String {
    match &object.metadata.namespace {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

/// The content of a Secret for the objects of a kind.
pub(super) fn secret(kind: WatchedKind, secret: Secret) -> Arc<SecretData> {
    let labels = secret.metadata.labels.unwrap_or_default();
    let annotations = secret.metadata.annotations.unwrap_or_default();
    let label = labels.get(kind.secret_label()).map(String::as_str).unwrap_or_default();
    let shared = annotations.get(SHARED_ANNOTATION).filter(|_| kind == WatchedKind::UpstreamCluster);
    let data = secret.data.unwrap_or_default();
    Arc::new(SecretData {
        owners: SecretData::owners_of(label, shared.map(String::as_str)),
        data: data.into_iter().map(|(key, bytes)| (key, SecretBytes::new(bytes.0))).collect(),
    })
}

#[cfg(test)]
mod tests {
    use portcullis_api::{CLUSTER_API_VERSION, CLUSTER_KIND, PolicyKind, check_policy};

    use super::*;

    #[test]
    fn document_holds_the_spec_and_the_servers_metadata() {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": CLUSTER_API_VERSION, "kind": CLUSTER_KIND,
            "metadata": {
                "name": "a.test", "uid": "u", "creationTimestamp": "2024-01-01T00:00:00Z", "resourceVersion": "7",
                "generation": 3, "managedFields": [{"manager": "x"}],
                "annotations": {LAST_APPLIED: "TOPSECRET", "proxy.kubegateway.io/feature-gates": "x"},
            },
            "spec": {"servers": []},
            "status": {"conditions": []},
        }))
        .unwrap();
        let found = super::object(WatchedKind::UpstreamCluster, object).unwrap();
        let wanted = json!({
            "apiVersion": CLUSTER_API_VERSION, "kind": CLUSTER_KIND,
            "metadata": {
                "name": "a.test", "uid": "u", "creationTimestamp": "2024-01-01T00:00:00Z", "generation": 3,
                "annotations": {"proxy.kubegateway.io/feature-gates": "x"},
            },
            "spec": {"servers": []},
        });
        let stored = StoredStatus { uid: Some("u".to_owned()), generation: Some(3), status: json!({"conditions": []}) };
        let key = Arc::new(ObjectKey::cluster_scoped(WatchedKind::UpstreamCluster, "a.test"));
        assert_eq!(found, WatchedObject { key, document: Arc::new(wanted), stored: Arc::new(stored), bytes: 0 });
    }

    #[test]
    fn names_and_owner_that_it_was_given_stay_with_it() {
        let status = json!({"conditions": [{"type": "Ready"}], "names": ["a.test"], "instance": "a"});
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": CLUSTER_API_VERSION, "kind": CLUSTER_KIND, "metadata": {"name": "a.test"}, "status": status,
        }))
        .unwrap();
        let found = super::object(WatchedKind::UpstreamCluster, object).unwrap();
        assert_eq!(found.document["status"], json!({"names": ["a.test"], "instance": "a"}));
    }
    #[test]
    fn labels_and_ports_alone_are_kept_of_what_routes_refer_to() {
        let read = |kind: WatchedKind| {
            let object: DynamicObject = serde_json::from_value(json!({
                "apiVersion": "v1", "kind": kind.kind(),
                "metadata": {"name": "a", "resourceVersion": "7", "labels": {"a": "b"}, "annotations": {"a": "b"}},
                "spec": {"ports": [{"port": 443}], "selector": {"a": "b"}}, "status": {"phase": "Active"},
            }))
            .unwrap();
            super::object(kind, object).unwrap()
        };
        let service = read(WatchedKind::Service);
        assert_eq!(service.document["metadata"], json!({"name": "a"}));
        assert_eq!(service.document["spec"], json!({"ports": [{"port": 443}]}));
        assert_eq!(*service.stored, StoredStatus::default());
        let namespace = read(WatchedKind::Namespace);
        assert_eq!(namespace.document["metadata"], json!({"name": "a", "labels": {"a": "b"}}));
        assert_eq!(namespace.document.get("spec"), None);
    }

    #[test]
    fn edit_of_labels_leaves_a_status_as_it_was() {
        let read = |version: &str| {
            let object: DynamicObject = serde_json::from_value(json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                "metadata": {
                    "name": "a", "namespace": "b", "uid": "u", "generation": 3, "resourceVersion": version,
                    "labels": {"edit": version}, "managedFields": [{"manager": version}],
                },
                "spec": {}, "status": {"parents": [{"controllerName": "x"}]},
            }))
            .unwrap();
            super::object(WatchedKind::HttpRoute, object).unwrap()
        };
        let (before, after) = (read("7"), read("8"));
        assert_ne!(before.document, after.document);
        assert_eq!(before.stored, after.stored);
    }

    #[test]
    fn policy_beyond_the_bound_keeps_its_targets() {
        let kind = WatchedKind::Policy(PolicyKind::UpstreamIdentity);
        let target = json!({"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": "a.test"});
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": kind.api_version(), "kind": kind.kind(), "metadata": {"name": "a", "namespace": "portcullis"},
            "spec": {"targetRefs": [target], "overrides": {"forwardedExtras": ["x".repeat(MAX_BYTES)]}},
            "status": {"ancestors": []},
        }))
        .unwrap();
        let WatchedObject { document, stored, bytes, .. } = super::object(kind, object).unwrap();
        assert_eq!(document["spec"], json!({"targetRefs": [target], "overrides": {}}));
        assert_eq!(document["metadata"]["namespace"], "portcullis");
        assert!(bytes < 1_000 && stored.status == json!({"ancestors": []}));
        let problems = check_policy(PolicyKind::UpstreamIdentity, &document).outcome.unwrap_err();
        assert!(problems[0].message.contains("256 KiB"), "{}", problems[0]);
    }

    #[test]
    fn route_beyond_the_bound_keeps_its_name_and_status() {
        let kind = WatchedKind::TlsRoute;
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": kind.api_version(), "kind": kind.kind(),
            "metadata": {"name": "a", "namespace": "b", "uid": "u", "annotations": {"a": "x".repeat(MAX_BYTES)}},
            "spec": {"parentRefs": [{"name": "g"}], "hostnames": ["a.test"], "rules": [{"backendRefs": []}]},
            "status": {"parents": [1]},
        }))
        .unwrap();
        let WatchedObject { document, stored, bytes, .. } = super::object(kind, object).unwrap();
        let wanted = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind(),
            "metadata": {"name": "a", "namespace": "b", "uid": "u"},
            "spec": {"parentRefs": [], "hostnames": [], "rules": []},
        });
        assert_eq!(*document, wanted);
        assert!(bytes < 1_000 && stored.status == json!({"parents": [1]}));
    }

    #[test]
    fn length_counts_the_status_and_has_a_bound() {
        let read = |length: usize| {
            let object: DynamicObject = serde_json::from_value(json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "a"},
                "spec": {"x": "x".repeat(length)}, "status": {"x": "x".repeat(1_000)},
            }))
            .unwrap();
            super::object(WatchedKind::Gateway, object).map(|found| found.bytes)
        };
        assert!(read(10).unwrap() > 1_000);
        assert_eq!(read(MAX_BYTES), None);
    }
}

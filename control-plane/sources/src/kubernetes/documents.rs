use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::api::DynamicObject;
use portcullis_api::{SHARED_ANNOTATION, SecretBytes, SecretData, pack_policies};
use serde_json::{Value, json};

use super::WatchedKind;

/// kubectl's copy of the whole object, keys included.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An object as the server sent it. It may hold keys, so it has no debug output.
#[derive(Clone, PartialEq)]
#[cfg_attr(test, derive(Debug))]
pub(super) struct WatchedObject {
    /// Without its status, but for the names in it, and without what changes with every write to the status.
    pub(super) document: Arc<Value>,
    pub(super) stored: StoredStatus,
}

/// The status of an object as the server has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredStatus {
    /// `metadata.uid`.
    pub uid: Option<String>,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// `metadata.resourceVersion`, of objects of the Gateway API: others write their status, too.
    pub resource_version: Option<String>,
    /// `status`; null if there is none.
    pub status: Value,
}

/// The largest document of the Gateway API: tenants write them, and each is read at every change.
const MAX_BYTES: usize = 256 * 1024;

fn has_bounded_size(document: &Value) -> bool {
    let is_bounded = serde_json::to_vec(document).is_ok_and(|bytes| bytes.len() <= MAX_BYTES);
    if !is_bounded {
        let text = |field: &str| document.pointer(field).and_then(Value::as_str).unwrap_or_default();
        let (kind, namespace, name) = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
        tracing::warn!(kind, namespace, name, "an object of more than 256 KiB is not looked at");
    }
    is_bounded
}

/// `None` if it cannot be written as a document, which nothing that came as one does, or is too large.
pub(super) fn object(kind: WatchedKind, mut object: DynamicObject) -> Option<WatchedObject> {
    object.metadata.managed_fields = None;
    let resource_version = object.metadata.resource_version.take().filter(|_| kind.is_for_gateway_api());
    if let Some(annotations) = &mut object.metadata.annotations {
        annotations.remove(LAST_APPLIED);
    }
    let (uid, generation) = (object.metadata.uid.clone(), object.metadata.generation);
    let mut document = serde_json::to_value(object).ok()?;
    let fields = document.as_object_mut()?;
    let status = fields.remove("status").unwrap_or_default();
    // Which names the object had been given decides who owns them.
    if let Some(names) = status.get("names").filter(|_| kind == WatchedKind::UpstreamCluster) {
        fields.insert("status".to_owned(), json!({"names": names}));
    }
    fields.insert("apiVersion".to_owned(), json!(kind.api_version()));
    fields.insert("kind".to_owned(), json!(kind.kind()));
    if kind == WatchedKind::UpstreamCluster {
        // They are most of what is kept.
        pack_policies(&mut document);
    }
    let is_bounded = !kind.is_for_gateway_api() || has_bounded_size(&document);
    let stored = StoredStatus { uid, generation, resource_version, status };
    is_bounded.then(|| WatchedObject { document: Arc::new(document), stored })
}

/// The content of a Secret for the objects of a kind.
pub(super) fn secret(kind: WatchedKind, secret: Secret) -> SecretData {
    let labels = secret.metadata.labels.unwrap_or_default();
    let annotations = secret.metadata.annotations.unwrap_or_default();
    let label = labels.get(kind.secret_label()).map(String::as_str).unwrap_or_default();
    let shared = annotations.get(SHARED_ANNOTATION).filter(|_| kind == WatchedKind::UpstreamCluster);
    let data = secret.data.unwrap_or_default();
    SecretData {
        owners: SecretData::owners_of(label, shared.map(String::as_str)),
        data: data.into_iter().map(|(key, bytes)| (key, SecretBytes::new(bytes.0))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use portcullis_api::{CLUSTER_API_VERSION, CLUSTER_KIND};

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
        let stored = StoredStatus {
            uid: Some("u".to_owned()),
            generation: Some(3),
            status: json!({"conditions": []}),
            ..StoredStatus::default()
        };
        assert_eq!(found, WatchedObject { document: Arc::new(wanted), stored });
    }

    #[test]
    fn names_that_it_was_given_stay_with_it() {
        let status = json!({"conditions": [{"type": "Ready"}], "names": ["a.test"]});
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": CLUSTER_API_VERSION, "kind": CLUSTER_KIND, "metadata": {"name": "a.test"}, "status": status,
        }))
        .unwrap();
        let found = super::object(WatchedKind::UpstreamCluster, object).unwrap();
        assert_eq!(found.document["status"], json!({"names": ["a.test"]}));
    }
}

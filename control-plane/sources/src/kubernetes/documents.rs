use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::api::DynamicObject;
use portcullis_api::{CLUSTER_API_VERSION, CLUSTER_KIND, SECRET_LABEL, SHARED_ANNOTATION, SecretBytes, SecretData};
use serde_json::{Value, json};

/// kubectl's copy of the whole object, keys included.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An `UpstreamCluster` as the server sent it. It may hold keys, so it has no debug output.
#[derive(Clone, PartialEq)]
#[cfg_attr(test, derive(Debug))]
pub(super) struct ClusterObject {
    /// Without its status, but for the names in it, and without what changes with every write to the status.
    pub(super) document: Arc<Value>,
    pub(super) status: Value,
}

/// `None` if it cannot be written as a document, which nothing that came as one does.
pub(super) fn cluster(mut object: DynamicObject) -> Option<ClusterObject> {
    object.metadata.managed_fields = None;
    object.metadata.resource_version = None;
    if let Some(annotations) = &mut object.metadata.annotations {
        annotations.remove(LAST_APPLIED);
    }
    let mut document = serde_json::to_value(object).ok()?;
    let fields = document.as_object_mut()?;
    let status = fields.remove("status").unwrap_or_default();
    // Which names the object had been given decides who owns them.
    if let Some(names) = status.get("names") {
        fields.insert("status".to_owned(), json!({"names": names}));
    }
    fields.insert("apiVersion".to_owned(), json!(CLUSTER_API_VERSION));
    fields.insert("kind".to_owned(), json!(CLUSTER_KIND));
    Some(ClusterObject { document: Arc::new(document), status })
}

pub(super) fn secret(secret: Secret) -> SecretData {
    let labels = secret.metadata.labels.unwrap_or_default();
    let annotations = secret.metadata.annotations.unwrap_or_default();
    let label = labels.get(SECRET_LABEL).map(String::as_str).unwrap_or_default();
    let shared = annotations.get(SHARED_ANNOTATION).map(String::as_str);
    let data = secret.data.unwrap_or_default();
    SecretData {
        clusters: SecretData::clusters_of(label, shared),
        data: data.into_iter().map(|(key, bytes)| (key, SecretBytes::new(bytes.0))).collect(),
    }
}

#[cfg(test)]
mod tests {
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
        let found = cluster(object).unwrap();
        let wanted = json!({
            "apiVersion": CLUSTER_API_VERSION, "kind": CLUSTER_KIND,
            "metadata": {
                "name": "a.test", "uid": "u", "creationTimestamp": "2024-01-01T00:00:00Z", "generation": 3,
                "annotations": {"proxy.kubegateway.io/feature-gates": "x"},
            },
            "spec": {"servers": []},
        });
        assert_eq!(found, ClusterObject { document: Arc::new(wanted), status: json!({"conditions": []}) });
    }

    #[test]
    fn names_that_it_was_given_stay_with_it() {
        let status = json!({"conditions": [{"type": "Ready"}], "names": ["a.test"]});
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": CLUSTER_API_VERSION, "kind": CLUSTER_KIND, "metadata": {"name": "a.test"}, "status": status,
        }))
        .unwrap();
        assert_eq!(cluster(object).unwrap().document["status"], json!({"names": ["a.test"]}));
    }
}

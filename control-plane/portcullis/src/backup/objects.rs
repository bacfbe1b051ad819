use std::collections::BTreeMap;

use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use portcullis_sources::{KubernetesAccess, WatchedKind};
use serde_json::{Value, json};

use super::BackupError;
use super::arguments::StoreAccess;

pub(super) async fn access(store: &StoreAccess) -> Result<KubernetesAccess, BackupError> {
    Ok(portcullis_sources::connect(store.kubeconfig.as_deref(), None, Some(&store.namespace)).await?)
}

/// The kinds of objects that a store has, beside Secrets.
pub(super) const KINDS: [WatchedKind; 3] =
    [WatchedKind::GatewaySettings, WatchedKind::Instance, WatchedKind::UpstreamCluster];

pub(super) fn secrets(access: &KubernetesAccess) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Secret"));
    Api::namespaced_with(access.client.clone(), &access.namespace, &kind)
}

/// A copy of the object, with the keys in it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An object as its authors wrote it, with its status and the date by which a restore is ordered.
pub(super) fn exported(api_version: &str, kind: &str, object: &DynamicObject) -> Value {
    let annotations = object.metadata.annotations.iter().flatten().filter(|(name, _)| *name != LAST_APPLIED);
    let metadata = json!({
        "name": object.metadata.name,
        "creationTimestamp": object.metadata.creation_timestamp,
        "labels": object.metadata.labels.iter().flatten().collect::<BTreeMap<_, _>>(),
        "annotations": annotations.collect::<BTreeMap<_, _>>(),
    });
    let mut exported = object.data.as_object().cloned().unwrap_or_default();
    exported.insert("apiVersion".to_owned(), json!(api_version));
    exported.insert("kind".to_owned(), json!(kind));
    exported.insert("metadata".to_owned(), metadata);
    Value::Object(exported)
}

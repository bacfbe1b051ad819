//! The objects of a new store: the definitions, the namespace, roles, and policies for what no controller completes.

mod admission;
mod roles;

use portcullis_api::{cluster_definition, instance_definition, settings_definition};
use serde_json::{Value, json};

use super::CONTROL_PLANE_USER;
use super::settings::Settings;
use crate::leader::LEASE_NAME;

/// The label of everything that `init --apply` writes, by which `--prune` finds it again.
pub(super) const LABEL: &str = "app.kubernetes.io/managed-by";
/// Its value.
pub(super) const MANAGED_BY: &str = "portcullis-init";

/// All of them, in the order in which they are applied.
pub(super) fn all(settings: &Settings) -> Vec<Value> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": settings.namespace}});
    let control_plane =
        crate::rbac::control_plane_rights(&settings.namespace, LEASE_NAME, Some(CONTROL_PLANE_USER), &[]);
    let instances = crate::rbac::instances_rights(&settings.namespace, Some(CONTROL_PLANE_USER));
    [namespace, cluster_definition(), settings_definition(), instance_definition()]
        .into_iter()
        .chain(control_plane)
        .chain(instances)
        .chain(roles::all(settings))
        .chain(admission::all())
        .map(labelled)
        .collect()
}

fn labelled(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            labels.insert(LABEL.to_owned(), json!(MANAGED_BY));
        }
    }
    object
}

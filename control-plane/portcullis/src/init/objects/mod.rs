//! The objects of a new store: the definition, the namespace, roles, and policies for what no controller completes.

mod admission;
mod roles;

use portcullis_api::cluster_definition;
use serde_json::{Value, json};

use super::CONTROL_PLANE_USER;
use super::settings::Settings;
use crate::leader::LEASE_NAME;

/// All of them, in the order in which they are applied.
pub(super) fn all(settings: &Settings) -> Vec<Value> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": settings.namespace}});
    let control_plane = crate::rbac::control_plane_rights(&settings.namespace, LEASE_NAME, Some(CONTROL_PLANE_USER));
    [namespace, definition()]
        .into_iter()
        .chain(control_plane)
        .chain(roles::all(settings))
        .chain(admission::all())
        .collect()
}

fn definition() -> Value {
    serde_json::to_value(cluster_definition()).unwrap_or_default()
}

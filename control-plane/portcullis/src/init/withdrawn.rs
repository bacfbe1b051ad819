//! Removal of objects that earlier runs applied and the present flags do not ask for: those of a tenant that left, the roles of a
//! former namespace.

use std::collections::BTreeSet;

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

use super::objects::{LABEL, MANAGED_BY};

/// The kinds that depend on flags or versions, bindings before the roles that they give. Definitions and namespaces stay: with
/// them objects would go.
const KINDS: [(&str, &str); 6] = [
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "Role"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
];

/// Why objects of earlier runs may still be in the store.
#[derive(Debug, thiserror::Error)]
pub(super) enum RemoveError {
    #[error("cannot list what earlier runs applied")]
    List(#[source] Box<kube::Error>),
    #[error("cannot remove {name}")]
    Remove { name: String, source: Box<kube::Error> },
}

/// Kind, namespace and name.
fn key(object: &Value) -> (String, String, String) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

/// Removes objects with the label that are not among `wanted`; gives their kinds and names.
pub(super) async fn remove(client: &Client, wanted: &[Value]) -> Result<Vec<String>, RemoveError> {
    let wanted: BTreeSet<_> = wanted.iter().map(key).collect();
    let mut removed = Vec::new();
    for (group, kind) in KINDS {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let label = ListParams::default().labels(&format!("{LABEL}={MANAGED_BY}"));
        let found = all.list(&label).await.map_err(|source| RemoveError::List(Box::new(source)))?;
        for object in found {
            let name = object.metadata.name.unwrap_or_default();
            let namespace = object.metadata.namespace;
            let key = (kind.to_owned(), namespace.clone().unwrap_or_default(), name.clone());
            if wanted.contains(&key) {
                continue;
            }
            let api = match &namespace {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
                None => all.clone(),
            };
            remove_one(&api, &name, kind).await?;
            removed.push(format!("{kind} {name}"));
        }
    }
    Ok(removed)
}

/// An object that was removed by others in the meantime is gone as well.
async fn remove_one(api: &Api<DynamicObject>, name: &str, kind: &str) -> Result<(), RemoveError> {
    match api.delete(name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(source) => Err(RemoveError::Remove { name: format!("{kind} {name}"), source: Box::new(source) }),
        Ok(_) => Ok(()),
    }
}

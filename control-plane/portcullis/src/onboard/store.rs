//! The cluster that stores UpstreamClusters, with their Secrets.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_api::{CLUSTER_KIND, ReferencedData, SECRET_LABEL, SHARED_ANNOTATION, SecretBytes, SecretData};
use serde_json::{Value, json};

use super::arguments::StoreArguments;
use super::certificate::selector;
use super::cluster_api::{Apply, ClusterApi, MANAGER, collection, object_path, read_kubeconfig};
use super::error::{OnboardError, Side};
use super::object::{Material, Pair, Plan, ReferenceForm};
use super::progress::{say, say_outcome};
use super::target::apply;

/// The cluster that stores UpstreamClusters.
pub(crate) struct StoreCluster {
    pub(crate) api: ClusterApi,
    namespace: String,
}

impl StoreCluster {
    pub(crate) async fn open(arguments: &StoreArguments) -> Result<Self, OnboardError> {
        let (path, context) = (arguments.store_kubeconfig.as_deref(), arguments.store_context.as_deref());
        let config = read_kubeconfig(path, context, Side::Store).await?;
        Ok(Self { api: ClusterApi::new(config, Side::Store)?, namespace: arguments.namespace.clone() })
    }

    /// An UpstreamCluster as it is stored.
    pub(crate) async fn existing(&self, name: &str) -> Result<Option<Value>, OnboardError> {
        self.api
            .get(&object_path(CLUSTER_KIND, "", name))
            .await
            .map_err(self.api.failed(format!("reading UpstreamCluster {name}")))
    }

    /// The other UpstreamClusters.
    pub(crate) async fn others(&self, name: &str) -> Result<Vec<Value>, OnboardError> {
        let all = self.api.list(&collection(CLUSTER_KIND, "")).await;
        let mut items = all.map_err(self.api.failed("listing UpstreamClusters"))?;
        items.retain(|one| text(one, "/metadata/name") != name);
        Ok(items)
    }

    /// A certificate and its key that an earlier run has stored: `client` or `serving`.
    pub(super) async fn pair(&self, name: &str, usage: &str) -> Result<Option<Pair>, OnboardError> {
        let path = self.secret_path(&format!("{name}-{usage}"));
        let found = self.api.get(&path).await.map_err(self.api.failed(format!("reading Secret {name}-{usage}")))?;
        let Some(secret) = found else { return Ok(None) };
        let data =
            |key: &str| STANDARD.decode(text(&secret, &format!("/data/{key}"))).ok().filter(|data| !data.is_empty());
        let pair = data("tls.crt").zip(data("tls.key"));
        Ok(pair.map(|(certificate, key)| (certificate, SecretBytes::new(key))))
    }

    /// Applies Secrets and UpstreamCluster, and deletes Secrets of an earlier run that are not referred to any more.
    pub(super) async fn write(&self, plan: &Plan, parts: &[Material], force: bool) -> Result<(), OnboardError> {
        let how = Apply { dry_run: false, force };
        for part in parts {
            let changed = apply(&self.api, &part.secret(&plan.name, &self.namespace), how).await?;
            say_outcome(&format!("Secret {}", part.secret_name(&plan.name)), changed, false);
        }
        let document = self.document(plan, parts).await?;
        let changed = apply(&self.api, &document, how).await?;
        say_outcome(&format!("{CLUSTER_KIND} {}", plan.name), changed, false);
        let wanted: Vec<String> = parts.iter().map(|part| part.secret_name(&plan.name)).collect();
        for secret in self.secrets(&plan.name).await? {
            let name = text(&secret, "/metadata/name");
            if wanted.iter().any(|wanted| wanted == name) {
                continue;
            }
            let owners = foreign_managers(&secret);
            if !owners.is_empty() {
                say(&format!("Secret {name}, which nothing refers to: stays, {}", owners.join(", ")));
                continue;
            }
            self.api
                .delete(&self.secret_path(name), text(&secret, "/metadata/uid"))
                .await
                .map_err(self.api.failed(format!("deleting Secret {name}")))?;
            say_outcome(&format!("Secret {name}, which nothing refers to: deletion"), true, false);
        }
        Ok(())
    }

    /// Lets the server judge everything that would be written, before anything else is done for it.
    pub(super) async fn rehearse(&self, plan: &Plan, parts: &[Material], force: bool) -> Result<(), OnboardError> {
        let mut objects: Vec<Value> = parts.iter().map(|part| part.secret(&plan.name, &self.namespace)).collect();
        objects.push(self.document(plan, parts).await?);
        for object in &objects {
            let step = format!("a rehearsal of applying {} {}", text(object, "/kind"), text(object, "/metadata/name"));
            self.api.apply(object, Apply { dry_run: true, force }).await.map_err(self.api.failed(step))?;
        }
        Ok(())
    }

    /// The UpstreamCluster to apply. Policies of another manager are not in it.
    async fn document(&self, plan: &Plan, parts: &[Material]) -> Result<Value, OnboardError> {
        let policies = self.existing(&plan.name).await?.is_none_or(|object| owns_policies(&object));
        Ok(plan.document(parts, ReferenceForm::Secrets, policies))
    }

    /// The Secrets that were made for an UpstreamCluster.
    pub(crate) async fn secrets(&self, cluster: &str) -> Result<Vec<Value>, OnboardError> {
        let path = format!("{}?labelSelector={}", collection("Secret", &self.namespace), selector(cluster));
        let mut found = self.api.list(&path).await.map_err(self.api.failed("listing Secrets"))?;
        // Of names that are too long for a label the label says nothing.
        found.retain(|one| text(one, "/metadata/name").rsplit_once('-').is_some_and(|(of, _)| of == cluster));
        Ok(found)
    }

    pub(crate) fn secret_path(&self, name: &str) -> String {
        object_path("Secret", &self.namespace, name)
    }

    /// An UpstreamCluster and the Secrets to which it may refer.
    pub(super) async fn read(&self, name: &str) -> Result<(Arc<Value>, ReferencedData), OnboardError> {
        let found = self.existing(name).await?;
        let object = found.ok_or_else(|| OnboardError::Lacks(Side::Store, format!("UpstreamCluster {name}")))?;
        let key = SECRET_LABEL.replace('/', "%2F");
        let path = format!("{}?labelSelector={key}", collection("Secret", &self.namespace));
        let secrets = self.api.list(&path).await.map_err(self.api.failed("listing Secrets"))?;
        let secrets = secrets.iter().map(|one| (text(one, "/metadata/name").to_owned(), secret_data(one)));
        Ok((Arc::new(document(object)), ReferencedData::secrets(secrets)))
    }
}

/// An object as its author wrote it.
pub(super) fn document(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| matches!(field.as_str(), "name" | "labels" | "annotations"));
    }
    object
}

/// A Secret's content, and who may refer to it.
pub(crate) fn secret_data(secret: &Value) -> SecretData {
    let label = secret.pointer("/metadata/labels").and_then(|labels| labels.get(SECRET_LABEL)).and_then(Value::as_str);
    let shared = secret.pointer("/metadata/annotations").and_then(|all| all.get(SHARED_ANNOTATION));
    let data = secret.get("data").and_then(Value::as_object).into_iter().flatten();
    let decoded =
        data.filter_map(|(key, value)| Some((key.clone(), SecretBytes::new(STANDARD.decode(value.as_str()?).ok()?))));
    SecretData {
        owners: SecretData::owners_of(label.unwrap_or_default(), shared.and_then(Value::as_str)),
        data: decoded.collect(),
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Whether the policies are those of an earlier run, and not of another manager.
fn owns_policies(object: &Value) -> bool {
    let managers = object.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    managers
        .filter(|entry| entry.get("manager") == Some(&json!(MANAGER)))
        .any(|entry| entry.pointer("/fieldsV1/f:spec/f:dispatchPolicies").is_some())
        || object.pointer("/spec/dispatchPolicies").is_none()
}

/// Reasons for which an object is not of `portcullis onboard` alone; none if only it wrote the object. A label or an apply of
/// equal values does not make an object of others ours. Of a subresource, as the status is, others are the authors.
pub(crate) fn foreign_managers(object: &Value) -> Vec<String> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    let main = entries.filter(|entry| text(entry, "/subresource").is_empty());
    let managers: BTreeSet<&str> = main.map(|entry| text(entry, "/manager")).collect();
    if !managers.contains(MANAGER) {
        return vec!["not made by portcullis onboard".to_owned()];
    }
    let others = managers.into_iter().filter(|manager| *manager != MANAGER);
    others.map(|manager| format!("{} owns fields of it", crate::display_text::one_line(manager))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(entries: &[(&str, &str, &str)]) -> Value {
        let entries: Vec<Value> = entries
            .iter()
            .map(|(manager, operation, subresource)| {
                json!({"manager": manager, "operation": operation, "subresource": subresource})
            })
            .collect();
        json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": MANAGER}, "managedFields": entries}})
    }

    #[test]
    fn object_is_ours_if_no_other_manager_owns_fields_of_it() {
        let ours = (MANAGER, "Apply", "");
        assert!(foreign_managers(&object(&[ours])).is_empty());
        assert!(foreign_managers(&object(&[(MANAGER, "Update", "")])).is_empty());
        assert!(foreign_managers(&object(&[ours, ("portcullis", "Update", "status")])).is_empty());
        let shared = foreign_managers(&object(&[ours, ("kubectl-client-side-apply", "Update", "")]));
        assert_eq!(shared, ["kubectl-client-side-apply owns fields of it"]);
        assert_eq!(foreign_managers(&object(&[("argocd", "Apply", "")])), ["not made by portcullis onboard"]);
        assert_eq!(foreign_managers(&object(&[])), ["not made by portcullis onboard"], "a label alone says nothing");
        assert_eq!(foreign_managers(&object(&[(MANAGER, "Apply", "status")])), ["not made by portcullis onboard"]);
    }
}

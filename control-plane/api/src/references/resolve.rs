use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::field::{REFERENCE_FIELDS, Reference, ReferenceField, references_of};
use super::settings;
use super::shape::{NO_FILE, filled, shape_error};
use crate::problem::Problem;
use crate::referenced_data::ReferencedData;
use crate::secret::SecretBytes;

/// The message for a Secret that does not exist and for one of another owner: the difference is not revealed.
const NO_SECRET: &str = "there is no Secret of this name in the control plane's namespace that is labelled for this \
                         UpstreamCluster (portcullis.dev/upstream-cluster)";

/// A document whose references are replaced by what they refer to.
#[derive(Clone)]
pub struct Resolution {
    /// The document. A reference that cannot be resolved is still in it, so that a check refuses it. Holds keys.
    pub document: Arc<Value>,
    /// Why references are not resolved, by their paths. Nothing of what they refer to is in it.
    pub problems: Vec<Problem>,
}

/// Replaces the references of an `UpstreamCluster` document. A reference that is wrong in itself leads to no problem here:
/// [`crate::check_cluster`] reports it.
pub fn resolve(document: &Arc<Value>, referenced_data: &ReferencedData) -> Resolution {
    let mut resolution = Resolution { document: Arc::clone(document), problems: Vec::new() };
    let Some(references) = references_of(document) else { return resolution };
    let name = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    for field in &REFERENCE_FIELDS {
        let Some(reference) = (field.of)(&references) else { continue };
        if shape_error(&reference).is_some() || field.is_inline(document) {
            continue;
        }
        match found(&reference, name, referenced_data) {
            Ok(values) => {
                let document = Arc::make_mut(&mut resolution.document);
                let values: Vec<&[u8]> = values.into_iter().map(SecretBytes::expose).collect();
                take(document, field);
                fill(document, field.parent, field.fields, &values);
            }
            Err(message) => resolution.problems.push(Problem::new(field.path, message)),
        }
    }
    resolution
}

/// An `UpstreamCluster` document with the placeholders of [`crate::check_cluster`] in the place of references that are not resolved,
/// so that its translation can be judged without what they refer to. It must not be served.
pub fn with_placeholders(document: &Arc<Value>) -> Arc<Value> {
    let mut assumed = Arc::clone(document);
    let Some(references) = references_of(document) else { return assumed };
    for field in &REFERENCE_FIELDS {
        let is_sound = (field.of)(&references).is_some_and(|reference| shape_error(&reference).is_none());
        if !is_sound || field.is_inline(document) {
            continue;
        }
        let document = Arc::make_mut(&mut assumed);
        take(document, field);
        if let Some((name, content)) = field.placeholder {
            fill(document, field.parent, &[name], &[content]);
        }
    }
    assumed
}

/// The paths of the files that a document refers to, as far as they are well-formed.
pub fn referenced_files(document: &Value) -> BTreeSet<String> {
    let Some(references) = references_of(document) else { return settings::files(document) };
    let all = REFERENCE_FIELDS.iter().filter_map(|field| (field.of)(&references));
    let sound = all.filter(|reference| shape_error(reference).is_none());
    sound.flat_map(|reference| reference.files.unwrap_or_default()).map(str::to_owned).collect()
}

fn found<'m>(
    reference: &Reference<'_>,
    cluster: &str,
    referenced_data: &'m ReferencedData,
) -> Result<Vec<&'m SecretBytes>, &'static str> {
    match (&reference.secret, &reference.files, referenced_data) {
        (Some((name, keys)), _, ReferencedData::Secrets(secrets)) => {
            let usable = secrets.get(*name).filter(|secret| secret.owners.contains(cluster));
            let data = &usable.ok_or(NO_SECRET)?.data;
            keys.iter().map(|key| filled(data.get(*key)).ok_or("the Secret has nothing under this key")).collect()
        }
        (_, Some(paths), ReferencedData::Files(files)) => {
            let content = |path: &&str| {
                let bytes = files.get(*path).and_then(Option::as_ref).ok_or(NO_FILE)?;
                filled(Some(bytes)).ok_or("the file is empty")
            };
            paths.iter().map(content).collect()
        }
        (Some(_), ..) => Err("Secrets are read with the Kubernetes source only"),
        _ => Err("files are read with the directory source and --references-root only"),
    }
}

/// Takes a reference away.
fn take(document: &mut Value, field: &ReferenceField) {
    if let Some(references) = document.pointer_mut("/spec/portcullis/references").and_then(Value::as_object_mut) {
        references.remove(field.name);
    }
}

/// Writes values into fields of an object below `spec`.
fn fill(document: &mut Value, parent: &str, fields: &[&str], values: &[&[u8]]) {
    let Some(spec) = document.pointer_mut("/spec").and_then(Value::as_object_mut) else { return };
    let parent = spec.entry(parent).or_insert(Value::Null);
    if parent.is_null() {
        *parent = Value::Object(Map::new());
    }
    let Some(parent) = parent.as_object_mut() else { return };
    for (field, value) in fields.iter().zip(values) {
        parent.insert((*field).to_owned(), Value::String(STANDARD.encode(value)));
    }
}

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use portcullis_api::{ObjectKind, ReferencedData, absent_settings, kind_of, referenced_files};
use serde_json::Value;

use crate::documents::LocatedDocument;
use crate::position::Position;
use crate::spans::Spans;

/// Everything that a source holds at one time. Its `Debug` form counts the documents, which may hold keys.
#[derive(Clone, Default, PartialEq)]
pub struct ObjectSet {
    /// `UpstreamCluster` documents, in the files' order.
    pub clusters: Vec<Arc<Value>>,
    /// The places of the clusters, in the same order; empty if they come from no file.
    pub cluster_places: Vec<Place>,
    /// The `GatewaySettings` documents of all gateways, in the files' order.
    pub settings: Vec<Value>,
    /// The places of the settings, in the same order.
    pub settings_places: Vec<Place>,
    /// `Instance` documents, in the files' order.
    pub instances: Vec<Arc<Value>>,
    /// The places of the instances, in the same order.
    pub instance_places: Vec<Place>,
    /// `GatewaySettings` documents that instances may name, those of all gateways included, with what they refer to.
    pub instance_settings: Vec<Arc<Value>>,
    /// Their places, in the same order; empty if they come from no file.
    pub instance_settings_places: Vec<Place>,
    /// Documents of policies that are attached to other objects, in the files' order.
    pub policies: Vec<Arc<Value>>,
    /// The places of the policies, in the same order.
    pub policy_places: Vec<Place>,
    /// Documents that `portcullis check` judges or needs, in the files' order: those of the Gateway API, `KubernetesUpstreams`,
    /// namespaces and Services.
    pub others: Vec<Arc<Value>>,
    /// The places of the others, in the same order.
    pub others_places: Vec<Place>,
    /// Problems of files, and of documents that hold no object of Portcullis.
    pub diagnoses: Vec<FileDiagnosis>,
    /// The material for the documents' references.
    pub referenced_data: ReferencedData,
    /// When the first of the changes was noticed that led to this set.
    pub noticed: NoticedAt,
    /// Its number among the sets with attached policies.
    pub number: SetNumber,
}

/// A number that makes no difference between two sets: a later set has a higher one.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetNumber(pub u64);

impl PartialEq for SetNumber {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A time that makes no difference between two sets.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoticedAt(pub Option<Instant>);

impl PartialEq for NoticedAt {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The place of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as it was named to the source or found in its directory. Documents of a file share it.
    pub file: Arc<str>,
    /// The lines and columns in it.
    pub spans: Arc<Spans>,
}

/// A problem of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiagnosis {
    /// The file, as it was named to the source or found in its directory.
    pub file: String,
    /// The position in it, if that is known.
    pub at: Option<Position>,
    /// The problem. It holds nothing of the file's text, which may be secret.
    pub message: String,
    /// Whether the file, or a document of it, is not used. Otherwise it is a warning.
    pub refused: bool,
}

/// The file name in diagnoses of the whole directory.
pub(crate) const DIRECTORY_ITSELF: &str = ".";

/// A document that can be shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) value: Arc<Value>,
    /// The paths of the files that it refers to, which follow from the value, as its kind does.
    pub(crate) referenced_files: BTreeSet<String>,
    kind: ObjectKind,
    spans: Arc<Spans>,
}

impl From<LocatedDocument> for Document {
    fn from(located: LocatedDocument) -> Self {
        let (kind, referenced_files) = (kind_of(&located.value), referenced_files(&located.value));
        Self { value: Arc::new(located.value), referenced_files, kind, spans: Arc::new(located.spans) }
    }
}

impl Document {
    /// Whether it is an `UpstreamCluster`.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.kind, ObjectKind::UpstreamCluster)
    }

    fn place(&self, file: &Arc<str>) -> Place {
        Place { file: Arc::clone(file), spans: Arc::clone(&self.spans) }
    }
}

impl fmt::Debug for ObjectSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectSet")
            .field("clusters", &self.clusters.len())
            .field("settings", &self.settings.len())
            .field("diagnoses", &self.diagnoses)
            .field("referenced_data", &self.referenced_data)
            .finish_non_exhaustive()
    }
}

impl ObjectSet {
    /// Whether the source itself could not be read, so that this may be old.
    pub fn is_stale(&self) -> bool {
        self.diagnoses.iter().any(|one| one.refused && one.file == DIRECTORY_ITSELF)
    }

    /// Divides `GatewaySettings` of files: those of a name are of all gateways, the others are for instances that name them. Without a
    /// name all are of all gateways, of which one is expected; instances may name it as well.
    pub fn divide_settings(&mut self, name: Option<&str>) {
        if !self.instances.is_empty() {
            self.instance_settings = self.settings.iter().cloned().map(Arc::new).collect();
            self.instance_settings_places.clone_from(&self.settings_places);
        }
        let Some(name) = name else { return };
        let has_name = |document: &Value| document.pointer("/metadata/name").and_then(Value::as_str) == Some(name);
        let places = std::mem::take(&mut self.settings_places);
        let all = std::mem::take(&mut self.settings).into_iter().zip(places);
        (self.settings, self.settings_places) = all.filter(|(document, _)| has_name(document)).unzip();
        if self.settings.is_empty() {
            self.settings.push(absent_settings(name));
        }
    }

    /// Refuses policies: whose they are, and which came first, only an API server can vouch for.
    pub(crate) fn refuse_policies(&mut self) {
        self.policies.clear();
        let refused = std::mem::take(&mut self.policy_places).into_iter().map(|place| FileDiagnosis {
            at: Some(place.spans.find("kind")),
            file: place.file.to_string(),
            message: "ignored: policies that are attached to objects come from Kubernetes (--policies)".to_owned(),
            refused: true,
        });
        self.diagnoses.extend(refused);
    }

    /// Puts `UpstreamCluster`s of a file in the place of those that it had. All others have to come from files, in the order of names.
    pub(crate) fn replace_clusters(&mut self, file: &Arc<str>, documents: &[Document]) {
        let begin = self.cluster_places.partition_point(|place| place.file < *file);
        let end = self.cluster_places.partition_point(|place| place.file <= *file);
        self.clusters.splice(begin..end, documents.iter().map(|one| Arc::clone(&one.value)));
        self.cluster_places.splice(begin..end, documents.iter().map(|one| one.place(file)));
    }

    /// Adds a document of a file to the objects of its kind, or a diagnosis.
    pub(crate) fn add(&mut self, file: &Arc<str>, document: &Document) {
        let place = document.place(file);
        let diagnosis = |field: &str, message, refused| {
            let at = Some(document.spans.find(field));
            FileDiagnosis { file: file.to_string(), at, message, refused }
        };
        match &document.kind {
            ObjectKind::UpstreamCluster => {
                self.clusters.push(Arc::clone(&document.value));
                self.cluster_places.push(place);
            }
            ObjectKind::GatewaySettings => {
                self.settings.push(document.value.as_ref().clone());
                self.settings_places.push(place);
            }
            ObjectKind::Instance => {
                self.instances.push(Arc::clone(&document.value));
                self.instance_places.push(place);
            }
            ObjectKind::KubernetesUpstream => {
                self.others.push(Arc::clone(&document.value));
                self.others_places.push(place);
                let message = "ignored: KubernetesUpstreams come from Kubernetes (--gateway-api)".to_owned();
                self.diagnoses.push(diagnosis("kind", message, false));
            }
            ObjectKind::Policy(_) => {
                self.policies.push(Arc::clone(&document.value));
                self.policy_places.push(place);
            }
            ObjectKind::Unknown(problem) => {
                self.diagnoses.push(diagnosis(&problem.path, problem.to_string(), true));
            }
            ObjectKind::Foreign { api_version, kind } => {
                if is_checked(api_version, kind) {
                    self.others.push(Arc::clone(&document.value));
                    self.others_places.push(place);
                }
                let message =
                    format!("ignored: apiVersion {api_version:?}, kind {kind:?} is not an object of Portcullis");
                self.diagnoses.push(diagnosis("kind", message, false));
            }
        }
    }
}

/// Whether `portcullis check` judges or needs objects of a kind. No other object is kept: a Secret might be among them.
fn is_checked(api_version: &str, kind: &str) -> bool {
    api_version.starts_with("gateway.networking.k8s.io/")
        || matches!((api_version, kind), ("v1", "Namespace" | "Service"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::once::{Input, read_inputs};

    const SETTINGS: &str = "apiVersion: portcullis.dev/v1alpha1\nkind: GatewaySettings\nmetadata: ";
    const INSTANCE: &str = "apiVersion: portcullis.dev/v1alpha1\nkind: Instance\nmetadata: {name: i}\n";

    fn names<'a>(documents: impl Iterator<Item = &'a Value>) -> Vec<&'a str> {
        documents.map(|document| document["metadata"]["name"].as_str().unwrap()).collect()
    }

    /// A flag decides, and no object: an instance that names other settings changes nothing of those of all.
    #[test]
    fn settings_of_all_are_those_that_the_flag_names() {
        let text = format!("{SETTINGS}{{name: all}}\n---\n{SETTINGS}{{name: own}}\n---\n{INSTANCE}");
        let set = read_inputs(&[Input::Text { name: "f".to_owned(), bytes: text.into_bytes() }]).unwrap();
        for (flag, of_all, places) in
            [(None, vec!["all", "own"], 2), (Some("all"), vec!["all"], 1), (Some("own"), vec!["own"], 1)]
        {
            let mut set = set.clone();
            set.divide_settings(flag);
            assert_eq!((names(set.settings.iter()), set.settings_places.len()), (of_all, places), "{flag:?}");
            assert_eq!(names(set.instance_settings.iter().map(AsRef::as_ref)), ["all", "own"]);
        }
        let mut missing = set;
        missing.divide_settings(Some("none"));
        assert_eq!(missing.settings, [absent_settings("none")], "the defaults would protect nothing");
        let mut alone = ObjectSet { settings: vec![json!({"metadata": {"name": "a"}})], ..ObjectSet::default() };
        alone.divide_settings(None);
        assert!(alone.instance_settings.is_empty(), "nothing names them");
    }
}

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use portcullis_api::{ObjectKind, ReferencedData, kind_of, referenced_files};
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
    /// `GatewaySettings` documents, in the files' order.
    pub settings: Vec<Value>,
    /// The places of the settings, in the same order.
    pub settings_places: Vec<Place>,
    /// `Instance` documents, in the files' order.
    pub instances: Vec<Arc<Value>>,
    /// The places of the instances, in the same order.
    pub instance_places: Vec<Place>,
    /// Documents of policies that are attached to other objects, in the files' order.
    pub policies: Vec<Arc<Value>>,
    /// The places of the policies, in the same order.
    pub policy_places: Vec<Place>,
    /// Documents that `portcullis check` judges or needs, in the files' order: those of the Gateway API, `KubernetesUpstreams`, and
    /// namespaces.
    pub others: Vec<Arc<Value>>,
    /// The places of the others, in the same order.
    pub others_places: Vec<Place>,
    /// Problems of files, and of documents that hold no object of Portcullis.
    pub diagnoses: Vec<FileDiagnosis>,
    /// The material for the documents' references.
    pub referenced_data: ReferencedData,
    /// When the first of the changes was noticed that led to this set.
    pub noticed: NoticedAt,
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
    /// The file, as it was named to the source or found in its directory.
    pub file: String,
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

    /// Refuses policies: whose they are, and which came first, only an API server can vouch for.
    pub(crate) fn refuse_policies(&mut self) {
        self.policies.clear();
        let refused = std::mem::take(&mut self.policy_places).into_iter().map(|place| FileDiagnosis {
            at: Some(place.spans.find("kind")),
            file: place.file,
            message: "ignored: policies that are attached to objects come from Kubernetes (--policies)".to_owned(),
            refused: true,
        });
        self.diagnoses.extend(refused);
    }

    /// Adds a document of a file to the objects of its kind, or a diagnosis.
    pub(crate) fn add(&mut self, file: &str, document: &Document) {
        let place = Place { file: file.to_owned(), spans: Arc::clone(&document.spans) };
        let diagnosis = |field: &str, message, refused| {
            let at = Some(document.spans.find(field));
            FileDiagnosis { file: file.to_owned(), at, message, refused }
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
    api_version.starts_with("gateway.networking.k8s.io/") || (api_version, kind) == ("v1", "Namespace")
}

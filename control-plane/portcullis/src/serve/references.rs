use std::sync::Arc;

use portcullis_api::{Problem, ProblemCode, Resolution, UpstreamCluster, parse_cluster, reference_of_path, resolve};
use portcullis_sources::ObjectSet;
use portcullis_translate::Diagnosis;
use serde_json::Value;

/// The `UpstreamCluster`s of a set with what they refer to in place of their references.
pub(crate) struct Resolved {
    /// As they are translated, in the set's order. They hold keys.
    pub(crate) documents: Vec<Arc<Value>>,
    problems: Vec<Vec<Problem>>,
}

impl Resolved {
    pub(crate) fn of(objects: &ObjectSet) -> Self {
        let all = objects.clusters.iter().map(|document| resolve(document, &objects.referenced_data));
        let (documents, problems) = all.map(|Resolution { document, problems }| (document, problems)).unzip();
        Self { documents, problems }
    }

    /// Whether every reference of one of the documents is resolved.
    pub(crate) fn is_whole(&self, index: usize) -> bool {
        self.problems.get(index).is_none_or(Vec::is_empty)
    }

    /// Adds the reasons for which references of one of the documents are not resolved, and moves problems of referenced data to the
    /// reference.
    pub(crate) fn explain(&self, objects: &ObjectSet, index: usize, diagnosis: &mut Diagnosis) {
        if let (Some(written), Some(problems)) = (objects.clusters.get(index), self.problems.get(index)) {
            diagnosis.map_problems(|problem| mapped(problem, problems, written));
        }
    }

    /// The findings of `lint` in one of the documents with its references resolved.
    pub(crate) fn lint(
        &self,
        objects: &ObjectSet,
        index: usize,
        lint: impl FnOnce(&UpstreamCluster) -> Vec<Problem>,
    ) -> Vec<Problem> {
        let (Some(document), Some(written)) = (self.documents.get(index), objects.clusters.get(index)) else {
            return Vec::new();
        };
        let found = parse_cluster(document).map(|raw| lint(&raw)).unwrap_or_default();
        found.into_iter().map(|problem| mapped(&problem, &[], written).unwrap_or(problem)).collect()
    }
}

fn mapped(problem: &Problem, unresolved: &[Problem], written: &Value) -> Option<Problem> {
    if problem.code == ProblemCode::Unresolved {
        let why = unresolved.iter().find(|why| why.path == problem.path)?;
        return Some(Problem { message: why.message.clone(), ..problem.clone() });
    }
    let path = reference_of_path(written, &problem.path)?;
    Some(Problem { path: path.to_owned(), ..problem.clone() })
}

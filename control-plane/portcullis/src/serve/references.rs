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

    /// Adds the reasons for which references are not resolved, and moves problems of referenced data to the reference.
    /// `diagnoses` are those of the set's documents, in its order.
    pub(crate) fn explain(&self, objects: &ObjectSet, diagnoses: &mut [Diagnosis]) {
        for ((diagnosis, written), problems) in diagnoses.iter_mut().zip(&objects.clusters).zip(&self.problems) {
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

use std::sync::Arc;

use portcullis_api::{
    Problem, ProblemCode, ReferencedData, Resolution, UpstreamCluster, parse_cluster, reference_of_path, resolve,
};
use portcullis_sources::ObjectSet;
use portcullis_translate::Diagnosis;
use serde_json::Value;

/// The `UpstreamCluster`s of a set with what they refer to in place of their references.
pub(crate) struct Resolved {
    /// As they are translated, in the set's order. They hold keys.
    pub(crate) documents: Vec<Arc<Value>>,
    problems: Vec<Vec<Problem>>,
}

/// One of them.
#[derive(Clone)]
pub(crate) struct ResolvedCluster {
    /// As it is translated.
    pub(crate) document: Arc<Value>,
    problems: Vec<Problem>,
}

impl FromIterator<ResolvedCluster> for Resolved {
    fn from_iter<I: IntoIterator<Item = ResolvedCluster>>(clusters: I) -> Self {
        let (documents, problems) = clusters.into_iter().map(|one| (one.document, one.problems)).unzip();
        Self { documents, problems }
    }
}

/// Resolves the references of sets that follow each other. A document that is the same allocation as before, with the same material
/// for its references, leads to the same allocation, and so does one whose references still lead to the same.
#[derive(Default)]
pub(crate) struct Resolver {
    referenced_data: ReferencedData,
    /// The documents as they were written, in the order of the last set.
    last: Vec<(Arc<Value>, Resolution)>,
}

impl Resolver {
    /// The documents of a set of objects.
    pub(crate) fn resolve(&mut self, objects: &ObjectSet) -> Resolved {
        let is_same_data = self.referenced_data.is_shared_with(&objects.referenced_data);
        if !is_same_data {
            self.referenced_data = objects.referenced_data.clone();
        }
        self.last.truncate(objects.clusters.len());
        for (at, written) in objects.clusters.iter().enumerate() {
            let known = self.last.get_mut(at);
            if known.as_ref().is_some_and(|(known, _)| is_same_data && Arc::ptr_eq(known, written)) {
                continue;
            }
            let mut resolution = resolve(written, &objects.referenced_data);
            match known {
                Some(known) => {
                    if Arc::ptr_eq(&known.0, written) && known.1.document == resolution.document {
                        resolution.document = Arc::clone(&known.1.document);
                    }
                    *known = (Arc::clone(written), resolution);
                }
                None => self.last.push((Arc::clone(written), resolution)),
            }
        }
        let resolved = self.last.iter().map(|(_, one)| (Arc::clone(&one.document), one.problems.clone()));
        let (documents, problems) = resolved.unzip();
        Resolved { documents, problems }
    }
}

impl Resolved {
    pub(crate) fn of(objects: &ObjectSet) -> Self {
        let all = objects.clusters.iter().map(|document| resolve(document, &objects.referenced_data));
        let (documents, problems) = all.map(|Resolution { document, problems }| (document, problems)).unzip();
        Self { documents, problems }
    }

    /// One of them.
    pub(crate) fn cluster(&self, index: usize) -> Option<ResolvedCluster> {
        let (document, problems) = (self.documents.get(index)?, self.problems.get(index)?);
        Some(ResolvedCluster { document: Arc::clone(document), problems: problems.clone() })
    }

    /// Whether one of them is certainly this one.
    pub(crate) fn is_shared_with(&self, index: usize, other: &ResolvedCluster) -> bool {
        self.documents.get(index).is_some_and(|document| Arc::ptr_eq(document, &other.document))
            && self.problems.get(index) == Some(&other.problems)
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

//! The diagnoses of clusters, in the words of the documents that the operator wrote: with version, file and line. One whose inputs
//! are the same allocations as before is the same allocation.

use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::status::Served;
use portcullis_sources::{FileDiagnosis, ObjectSet, Place};
use portcullis_translate::{Diagnosis, Reason, Version};
use serde_json::Value;

use super::references::Resolved;
use super::retention::{Fallback, Grace};
use super::version;

/// Appended to the diagnosis of an object whose last accepted version is served although a reference of it is revoked.
const REVOKED: &str = "; a Secret or file that the version accepted last refers to is revoked: that version is still served with the keys it had then, until the time of --revoked-reference-grace is over or the control plane restarts";

/// The diagnoses of the last set of objects.
#[derive(Default)]
pub(super) struct ExplainedDiagnoses {
    /// In the order of the set's clusters.
    last: Vec<Explained>,
}

/// A diagnosis and what it was made of. The allocations are kept, so that no other one gets their addresses.
struct Explained {
    translated: Arc<Diagnosis>,
    written: Arc<Value>,
    place: Option<Place>,
    diagnosis: Arc<Diagnosis>,
    /// Whether it depends on nothing else: on no older version, and on no reference.
    is_reusable: bool,
}

impl ExplainedDiagnoses {
    /// The diagnoses of a set of objects. `translated` are those of its clusters, of `documents`: references resolved, fallbacks in
    /// place of what is invalid.
    pub(super) fn follow(
        &mut self,
        (translated, documents): (&[Arc<Diagnosis>], &[Arc<Value>]),
        fallbacks: Vec<Fallback>,
        (objects, resolved): (&ObjectSet, &Resolved),
    ) -> Vec<Arc<Diagnosis>> {
        let mut fallbacks: BTreeMap<usize, Fallback> = fallbacks.into_iter().map(|one| (one.index, one)).collect();
        let mut before = std::mem::replace(&mut self.last, Vec::with_capacity(translated.len())).into_iter();
        let all = translated.iter().zip(documents).zip(&objects.clusters).enumerate();
        for (index, ((translated, document), written)) in all {
            let fallback = fallbacks.remove(&index);
            let place = objects.cluster_places.get(index);
            let is_reusable = fallback.is_none() && resolved.is_whole(index);
            let known = before.next().filter(|known| is_reusable && known.is_of(translated, written, place));
            let explained = known.unwrap_or_else(|| {
                let diagnosis = fallen_back(version::stamped(translated, document), fallback);
                let mut diagnosis = version::stamped(&diagnosis, written);
                resolved.explain(objects, index, &mut diagnosis);
                locate(&mut diagnosis, place);
                let (translated, written) = (Arc::clone(translated), Arc::clone(written));
                Explained { translated, written, place: place.cloned(), diagnosis: Arc::new(diagnosis), is_reusable }
            });
            self.last.push(explained);
        }
        self.last.iter().map(|one| Arc::clone(&one.diagnosis)).collect()
    }
}

impl Explained {
    fn is_of(&self, translated: &Arc<Diagnosis>, written: &Arc<Value>, place: Option<&Place>) -> bool {
        let is_same = |one: &Place, other: &Place| Arc::ptr_eq(&one.spans, &other.spans) && one.file == other.file;
        let is_there = match (&self.place, place) {
            (Some(one), Some(other)) => is_same(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        self.is_reusable && is_there && Arc::ptr_eq(&self.translated, translated) && Arc::ptr_eq(&self.written, written)
    }
}

/// The diagnosis of the invalid document in place of that of its fallback.
fn fallen_back(mut diagnosis: Diagnosis, fallback: Option<Fallback>) -> Diagnosis {
    let Some(Fallback { diagnosis: invalid, grace, .. }) = fallback else { return diagnosis };
    let mut invalid = Arc::unwrap_or_clone(invalid);
    if diagnosis.accepted {
        invalid.message.push_str(match grace {
            Grace::NotNeeded => "; the version that was accepted last is still served",
            Grace::Running | Grace::Over => REVOKED,
        });
        invalid.version.served = Served::Older(diagnosis.version.generation);
        invalid.shadow = diagnosis.shadow.take();
    }
    invalid
}

/// Adds file and line of an object to its diagnosis.
pub(super) fn locate(diagnosis: &mut Diagnosis, place: Option<&Place>) {
    if let Some(place) = place {
        diagnosis.at = Some(format!("{}:{}", place.file, place.spans.start().line));
    }
}

/// The diagnosis of a file or document that holds no object.
pub(super) fn diagnosis_of_file(file: &FileDiagnosis) -> Diagnosis {
    let message = file.message.clone();
    let (message, warnings) = if file.refused { (message, Vec::new()) } else { (String::new(), vec![message]) };
    Diagnosis {
        kind: "File".to_owned(),
        name: file.file.clone(),
        at: file.at.map(|at| format!("{}:{}", file.file, at.line)),
        accepted: !file.refused,
        reason: if file.refused { Reason::Invalid } else { Reason::Accepted },
        message,
        warnings,
        problems: Vec::new(),
        cautions: Vec::new(),
        shadow: None,
        names: Vec::new(),
        version: Version::default(),
    }
}

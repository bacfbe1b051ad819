//! Memory of what was served, so that an edit, a mistake or a removal takes nothing away from requests that still need it.
//!
//! | memory | what it retains | how long |
//! |---|---|---|
//! | [`Retention`] itself | for each object, the document that was accepted last | until the object is removed |
//! | [`RevokedReferences`] | documents whose Secret or file was removed | the grace period of `--revoked-reference-grace` |
//! | [`RetiredGroups`] | groups of servers that no policy leads to any more | 30 seconds |
//! | [`RemovedClusters`] | removed objects as routes without destinations | as long as it is among the latest 256 |
//!
//! Time is an argument. A control plane that restarts begins with an empty memory: it does not serve an object whose newest
//! version is invalid.

mod removed_clusters;
mod retired_groups;
mod revoked_references;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_api::{ReferencedData, Settings};
use portcullis_translate::{Diagnosis, FilterBuild, Reason, Resource, Translation};
use serde_json::Value;

use super::group_change::GroupChange;
use removed_clusters::RemovedClusters;
use revoked_references::RevokedReferences;

pub(super) use retired_groups::RetiredGroups;
#[cfg(test)]
pub(super) use revoked_references::DEFAULT_GRACE_PERIOD;
pub(super) use revoked_references::Grace;

/// Documents by the name of their object.
type Documents = BTreeMap<String, Arc<Value>>;

/// Every memory of what was served. It holds keys.
#[derive(Debug, Default)]
pub(super) struct Retention {
    /// The documents that were accepted last, with the material that they referred to then.
    accepted: Documents,
    /// The set of objects that was recorded last, in its order.
    recorded: Vec<Recorded>,
    /// Whether two of them have one name.
    has_twins: bool,
    /// The names to which the last set of objects may have brought something else; `None` are all.
    touched: Option<BTreeSet<String>>,
    /// The objects that are other ones than before under their names.
    replaced: BTreeSet<String>,
    revoked: RevokedReferences,
    retired: RetiredGroups,
    removed: RemovedClusters,
}

/// An object of the set that was recorded last. The allocations are kept, so that no other one gets their addresses.
#[derive(Debug)]
struct Recorded {
    written: Arc<Value>,
    translated: Arc<Value>,
    diagnosis: Arc<Diagnosis>,
    is_fallback: bool,
}

/// Objects that are other ones than in the set before, or have another outcome.
#[derive(Debug, Default)]
struct Touched {
    /// Their names, and those that were in their places.
    names: BTreeSet<String>,
    /// Their places.
    places: Vec<usize>,
    /// Whether another object may have one of the names, or had it before.
    may_have_twins: bool,
}

/// An invalid document that was replaced by the one that was accepted last.
#[derive(Debug)]
pub(super) struct Fallback {
    /// The position in the set of documents.
    pub(super) index: usize,
    /// The diagnosis of the invalid document.
    pub(super) diagnosis: Arc<Diagnosis>,
    pub(super) grace: Grace,
}

/// The outcome of one set of objects, all lists in the set's order.
pub(super) struct Outcome<'a> {
    /// The documents as they were written, with references.
    pub(super) written: &'a [Arc<Value>],
    /// The documents that were translated: references resolved, fallbacks in place of what is invalid.
    pub(super) translated: &'a [Arc<Value>],
    pub(super) fallbacks: &'a [Fallback],
    pub(super) translation: &'a Translation,
    /// The difference to the translation that was recorded last.
    pub(super) change: &'a GroupChange,
    pub(super) settings: &'a Settings,
}

impl Retention {
    /// `grace_period`: how long an object is served whose references are revoked.
    pub(super) fn new(grace_period: Duration) -> Self {
        Self { revoked: RevokedReferences::new(grace_period), ..Self::default() }
    }

    /// Replaces each invalid document by the version of the object that was accepted last, unless its grace period is over.
    /// `diagnoses` are those of the documents, in the same order. A document that is refused for another reason, such as a name
    /// that another object owns, is not replaced.
    pub(super) fn fall_back(
        &mut self,
        documents: &mut [Arc<Value>],
        diagnoses: &[Arc<Diagnosis>],
        referenced_data: &ReferencedData,
        now: Instant,
    ) -> Vec<Fallback> {
        let mut fallbacks = Vec::new();
        for (index, (document, diagnosis)) in documents.iter_mut().zip(diagnoses).enumerate() {
            if diagnosis.accepted || diagnosis.reason != Reason::Invalid {
                continue;
            }
            let accepted = self.accepted.get(&diagnosis.name).filter(|accepted| is_same_object(accepted, document));
            let Some(accepted) = accepted else { continue };
            let grace = self.revoked.grace(&diagnosis.name, referenced_data, now);
            if grace != Grace::Over {
                document.clone_from(accepted);
                fallbacks.push(Fallback { index, diagnosis: Arc::clone(diagnosis), grace });
            }
        }
        fallbacks
    }

    /// Records what a set of objects led to, in every memory.
    pub(super) fn record(&mut self, outcome: &Outcome<'_>, now: Instant) {
        let fallbacks: BTreeSet<usize> = outcome.fallbacks.iter().map(|fallback| fallback.index).collect();
        let touched = self.touch(outcome, &fallbacks);
        let diagnoses = &outcome.translation.diagnoses;
        let places = places(touched.as_ref(), diagnoses);
        self.touched = touched.map(|touched| touched.names);
        let accepted = accepted_documents(outcome.translated, diagnoses, &places, |_| false);
        let before: Documents = match &self.touched {
            Some(names) => names.iter().filter_map(|name| self.accepted.remove_entry(name)).collect(),
            None => std::mem::take(&mut self.accepted),
        };
        let is_replaced = |(name, document): (&String, &Arc<Value>)| {
            let is_other = before.get(name).is_some_and(|before| !is_same_object(before, document));
            is_other.then(|| name.clone())
        };
        self.replaced = accepted.iter().filter_map(is_replaced).collect();
        self.accepted.extend(accepted);
        let gone: Vec<String> = before.keys().filter(|name| !self.accepted.contains_key(*name)).cloned().collect();
        self.retired.record(outcome.change, &self.replaced, outcome.settings, now);
        self.removed.record(before, &self.accepted);
        let newest = accepted_documents(outcome.written, diagnoses, &places, |index| fallbacks.contains(&index));
        self.revoked.record(newest, &gone);
    }

    /// The objects that are other ones than in the set before, or have another outcome; `None` if every object has to be looked at.
    fn touch(&mut self, outcome: &Outcome<'_>, fallbacks: &BTreeSet<usize>) -> Option<Touched> {
        let documents = outcome.written.iter().zip(outcome.translated).zip(&outcome.translation.diagnoses);
        let is_as_long = self.recorded.len() == outcome.written.len();
        self.recorded.truncate(outcome.written.len());
        let mut has_same_names = is_as_long;
        let mut touched = Touched { may_have_twins: self.has_twins, ..Touched::default() };
        for (index, ((written, translated), diagnosis)) in documents.enumerate() {
            let is_fallback = fallbacks.contains(&index);
            let before = self.recorded.get_mut(index);
            let is_same = |before: &Recorded| {
                Arc::ptr_eq(&before.written, written)
                    && Arc::ptr_eq(&before.translated, translated)
                    && Arc::ptr_eq(&before.diagnosis, diagnosis)
                    && before.is_fallback == is_fallback
            };
            if before.as_deref().is_some_and(is_same) {
                continue;
            }
            let (written, translated) = (Arc::clone(written), Arc::clone(translated));
            let recorded = Recorded { written, translated, diagnosis: Arc::clone(diagnosis), is_fallback };
            touched.places.push(index);
            touched.names.insert(diagnosis.name.clone());
            match before {
                Some(before) => {
                    if before.diagnosis.name != diagnosis.name {
                        has_same_names = false;
                        touched.names.insert(before.diagnosis.name.clone());
                    }
                    *before = recorded;
                }
                None => self.recorded.push(recorded),
            }
        }
        if !has_same_names {
            let names: BTreeSet<&str> = self.recorded.iter().map(|one| one.diagnosis.name.as_str()).collect();
            self.has_twins = names.len() < self.recorded.len();
            touched.may_have_twins |= self.has_twins;
        }
        is_as_long.then_some(touched)
    }

    /// The names whose documents may be other ones since the last set of objects; `None` are all.
    pub(super) fn touched(&self) -> Option<&BTreeSet<String>> {
        self.touched.as_ref()
    }

    /// The objects that are other ones than before under their names.
    pub(super) fn replaced(&self) -> &BTreeSet<String> {
        &self.replaced
    }

    /// The documents that were accepted last, by the name of their object.
    pub(super) fn accepted(&self) -> &Documents {
        &self.accepted
    }

    /// Clusters, endpoints and secrets that Envoy keeps although no route leads to them any more.
    pub(super) fn retired_groups(&self) -> Vec<Arc<Resource>> {
        self.retired.retained()
    }

    /// Routes without destinations in place of the removed objects.
    pub(super) fn tombstones(&mut self, settings: &Settings, filter: FilterBuild) -> Vec<Arc<Resource>> {
        self.removed.tombstones(settings, filter).collect()
    }

    /// The number of objects that are served with revoked references.
    pub(super) fn revoked_count(&self) -> usize {
        self.revoked.count()
    }

    /// The next time at which something is retained no longer.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.retired.next_expiry().into_iter().chain(self.revoked.next_expiry()).min()
    }
}

/// The places of all documents with a touched name.
fn places(touched: Option<&Touched>, diagnoses: &[Arc<Diagnosis>]) -> Vec<usize> {
    let all = diagnoses.iter().enumerate();
    match touched {
        Some(touched) if touched.may_have_twins => {
            all.filter(|(_, one)| touched.names.contains(&one.name)).map(|(index, _)| index).collect()
        }
        Some(touched) => touched.places.clone(),
        None => all.map(|(index, _)| index).collect(),
    }
}

/// The accepted documents by name, of those at some places, except those at the positions to `skip`.
fn accepted_documents(
    documents: &[Arc<Value>],
    diagnoses: &[Arc<Diagnosis>],
    places: &[usize],
    skip: impl Fn(usize) -> bool,
) -> Documents {
    let at = |index: &usize| Some((*index, documents.get(*index)?, diagnoses.get(*index)?));
    let all = places.iter().filter_map(at);
    let accepted = all.filter(|(index, _, diagnosis)| diagnosis.accepted && !skip(*index));
    accepted.map(|(_, document, diagnosis)| (diagnosis.name.clone(), Arc::clone(document))).collect()
}

/// Whether two documents of one name belong to the same object. A deleted object is never served in place of one that was
/// created since under its name.
pub(super) fn is_same_object(one: &Value, other: &Value) -> bool {
    match (uid(one), uid(other)) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}

fn uid(document: &Value) -> Option<&Value> {
    document.get("metadata")?.get("uid")
}

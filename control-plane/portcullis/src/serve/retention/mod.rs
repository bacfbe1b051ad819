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
use retired_groups::RetiredGroups;
use revoked_references::RevokedReferences;

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
    revoked: RevokedReferences,
    retired: RetiredGroups,
    removed: RemovedClusters,
}

/// An invalid document that was replaced by the one that was accepted last.
#[derive(Debug)]
pub(super) struct Fallback {
    /// The position in the set of documents.
    pub(super) index: usize,
    /// The diagnosis of the invalid document.
    pub(super) diagnosis: Diagnosis,
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
        diagnoses: &[Diagnosis],
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
                fallbacks.push(Fallback { index, diagnosis: diagnosis.clone(), grace });
            }
        }
        fallbacks
    }

    /// Records what a set of objects led to, in every memory.
    pub(super) fn record(&mut self, outcome: &Outcome<'_>, now: Instant) {
        let diagnoses = &outcome.translation.diagnoses;
        let accepted = accepted_documents(outcome.translated, diagnoses, |_| false);
        let before = std::mem::replace(&mut self.accepted, accepted);
        let is_replaced = |(name, document): (&String, &Arc<Value>)| {
            let is_other = before.get(name).is_some_and(|before| !is_same_object(before, document));
            is_other.then(|| name.clone())
        };
        let replaced = self.accepted.iter().filter_map(is_replaced).collect();
        self.retired.record(outcome.change, &replaced, outcome.settings, now);
        self.removed.record(before, &self.accepted);
        let fallbacks: BTreeSet<usize> = outcome.fallbacks.iter().map(|fallback| fallback.index).collect();
        let newest = accepted_documents(outcome.written, diagnoses, |index| fallbacks.contains(&index));
        self.revoked.record(newest, &self.accepted);
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

/// The accepted documents by name, except those at the positions to `skip`.
fn accepted_documents(documents: &[Arc<Value>], diagnoses: &[Diagnosis], skip: impl Fn(usize) -> bool) -> Documents {
    let all = documents.iter().zip(diagnoses).enumerate();
    let accepted = all.filter(|(index, (_, diagnosis))| diagnosis.accepted && !skip(*index));
    accepted.map(|(_, (document, diagnosis))| (diagnosis.name.clone(), Arc::clone(document))).collect()
}

/// Whether two documents of one name belong to the same object. A deleted object is never served in place of one that was
/// created since under its name.
fn is_same_object(one: &Value, other: &Value) -> bool {
    let uid = |document: &Value| document.pointer("/metadata/uid").cloned();
    match (uid(one), uid(other)) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}

//! The last translation: its documents and their outcomes, of which the next one replaces those that change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::Claims;
use serde_json::Value;

use crate::checked_cluster::{CheckedCluster, without_certificate};
use crate::diagnosis::Diagnosis;
use crate::document_parts::Parts;
use crate::listener::Chain;
use crate::ownership::LostName;
use crate::resource::ResourceGroup;

/// The documents of a translation, and the outcome of each, in their order.
#[derive(Default)]
pub(crate) struct LastTranslation {
    pub(crate) documents: Vec<KnownDocument>,
    /// The names that each claims and does not get.
    lost: Arc<Vec<Vec<LostName>>>,
    pub(crate) diagnoses: Vec<Arc<Diagnosis>>,
    pub(crate) parts: Vec<ServedPart>,
}

/// A document, and its results.
pub(crate) struct KnownDocument {
    pub(crate) document: Arc<Value>,
    /// Whether it has its names alone.
    pub(crate) is_foreign: bool,
    /// Its parts; `None` if it is in the first alone.
    parts: Option<Vec<usize>>,
    pub(crate) claims: Arc<Claims>,
    /// Its result without the other documents.
    pub(crate) checked: Arc<CheckedCluster>,
    /// The same without the names that it does not get.
    pub(crate) served: Arc<CheckedCluster>,
}

/// The resources and chains of the documents of a part.
#[derive(Default)]
pub(crate) struct ServedPart {
    /// The resources of documents that are served, by their places.
    pub(crate) groups: BTreeMap<usize, ResourceGroup>,
    /// The contribution of each document to the listeners.
    pub(crate) chains: Vec<Arc<Chain>>,
}

impl KnownDocument {
    pub(crate) fn new(index: usize, document: &Arc<Value>, parts: &Parts<'_>, checked: Arc<CheckedCluster>) -> Self {
        Self {
            document: Arc::clone(document),
            is_foreign: parts.is_foreign(index),
            parts: parts.of.get(index).cloned(),
            claims: Arc::clone(&checked.claims),
            served: Arc::clone(&checked),
            checked,
        }
    }

    fn is(&self, document: &Arc<Value>, is_foreign: bool) -> bool {
        self.is_foreign == is_foreign && Arc::ptr_eq(&self.document, document)
    }
}

impl LastTranslation {
    /// The places of documents that are other ones than before, or in other parts. The documents behind these are dropped, and
    /// returned.
    pub(crate) fn follow(
        &mut self,
        documents: &[Arc<Value>],
        parts: &Parts<'_>,
    ) -> (BTreeSet<usize>, Vec<KnownDocument>) {
        let count = parts.count.max(1);
        let is_divided_anew = self.parts.len() != count;
        if is_divided_anew {
            self.parts = std::iter::repeat_with(ServedPart::default).take(count).collect();
        }
        let dropped = self.documents.drain(documents.len().min(self.documents.len())..).collect();
        self.diagnoses.truncate(documents.len());
        for part in &mut self.parts {
            part.groups.split_off(&documents.len());
            part.chains.truncate(documents.len());
        }
        let mut changed = BTreeSet::new();
        for (index, document) in documents.iter().enumerate() {
            let (known, of) = (self.documents.get_mut(index), parts.of.get(index));
            let is_same = known.is_some_and(|known| {
                let is_in_same = known.parts.as_ref() == of;
                if !is_in_same {
                    known.parts = of.cloned();
                }
                is_in_same && known.is(document, parts.is_foreign(index))
            });
            if !is_same || is_divided_anew {
                changed.insert(index);
            }
        }
        (changed, dropped)
    }

    /// Whether the document in a place is this one.
    pub(crate) fn has(&self, index: usize, document: &Arc<Value>, is_foreign: bool) -> bool {
        self.documents.get(index).is_some_and(|known| known.is(document, is_foreign))
    }

    /// Takes the names that each document does not get. Returns the places of documents for which they are other ones.
    pub(crate) fn follow_lost(&mut self, lost: &Arc<Vec<Vec<LostName>>>) -> Vec<usize> {
        let before = std::mem::replace(&mut self.lost, Arc::clone(lost));
        if Arc::ptr_eq(&before, lost) {
            return Vec::new();
        }
        lost.iter()
            .enumerate()
            .filter(|(index, lost)| before.get(*index) != Some(lost))
            .map(|(index, _)| index)
            .collect()
    }

    /// Puts the outcome of a document in its place, or behind the others.
    pub(crate) fn put(&mut self, index: usize, served: &CheckedCluster, lost: &[LostName], parts: &Parts<'_>) {
        let (emitted, diagnosis) = served.served_part(lost);
        let is_by_default = emitted.is_some_and(|emitted| emitted.is_by_default);
        for (part, of_part) in self.parts.iter_mut().enumerate() {
            let chain = match emitted.filter(|_| parts.has(part, index) && (part == 0 || !is_by_default)) {
                Some(emitted) => {
                    of_part.groups.insert(index, Arc::clone(&emitted.resources));
                    &emitted.chain
                }
                None => {
                    of_part.groups.remove(&index);
                    &served.reserved
                }
            };
            put(&mut of_part.chains, index, Arc::clone(chain));
        }
        let is_refused = is_by_default && parts.has_others_alone(index);
        let diagnosis = if is_refused { without_certificate(&diagnosis) } else { diagnosis };
        put(&mut self.diagnoses, index, diagnosis);
    }
}

/// Puts one in its place, or behind the others.
pub(crate) fn put<T>(list: &mut Vec<T>, index: usize, one: T) -> Option<T> {
    match list.get_mut(index) {
        Some(place) => Some(std::mem::replace(place, one)),
        None => {
            list.push(one);
            None
        }
    }
}

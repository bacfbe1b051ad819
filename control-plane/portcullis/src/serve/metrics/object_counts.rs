use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_translate::{Diagnosis, Reason};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::super::by_place::ByPlace;
use super::{OneLabel, TwoLabels, add, catalog, number};

/// Counts of objects by outcome.
#[derive(Debug, Default)]
pub(super) struct ObjectMetrics {
    objects: Family<TwoLabels, Gauge>,
    rejected_updates: Family<OneLabel, Counter>,
}

/// The diagnoses of the last set of objects.
#[derive(Debug, Default)]
pub(super) struct CountedObjects {
    /// Their labels.
    known: ByPlace<Diagnosis, ObjectLabels>,
    /// The objects that were refused: kind, name and message.
    refused: BTreeSet<(String, String, String)>,
}

/// The places of an object's kind and state among those of the catalog.
type ObjectLabels = (usize, usize);

impl ObjectMetrics {
    pub(super) fn register(&self, page: &mut Registry) {
        add(page, &catalog::OBJECTS, self.objects.clone());
        add(page, &catalog::REJECTED_UPDATES, self.rejected_updates.clone());
        self.count(&CountedObjects::default());
        catalog::KINDS.iter().for_each(|kind| drop(self.rejected_updates.get_or_create(&[("kind", *kind)])));
    }

    /// Takes the diagnoses of a set of objects. `before`: those of the last one.
    pub(super) fn follow(&self, before: &mut CountedObjects, diagnoses: &[Arc<Diagnosis>]) {
        let change = before.known.follow(diagnoses, |_, diagnosis| labels(diagnosis));
        let new = change.new.iter().filter_map(|at| diagnoses.get(*at));
        let mut others = new.chain(change.gone.iter().map(|(diagnosis, _)| diagnosis));
        let is_refused = |one: &&Arc<Diagnosis>| !one.accepted;
        if others.any(|one| is_refused(&one)) {
            let key = |one: &Arc<Diagnosis>| (one.kind.clone(), one.name.clone(), one.message.clone());
            let refused: BTreeSet<_> = diagnoses.iter().filter(is_refused).map(key).collect();
            for (kind, ..) in refused.difference(&before.refused) {
                let kind = catalog::KINDS.get(kind_place(kind)).copied().unwrap_or_default();
                self.rejected_updates.get_or_create(&[("kind", kind)]).inc();
            }
            before.refused = refused;
        }
        self.count(before);
    }

    fn count(&self, counted: &CountedObjects) {
        let mut counts: BTreeMap<ObjectLabels, usize> = BTreeMap::new();
        counted.known.values().for_each(|labels| *counts.entry(*labels).or_default() += 1);
        for (kind, kind_label) in catalog::KINDS.iter().enumerate() {
            for (state, state_label) in catalog::STATES.iter().enumerate() {
                let count = counts.get(&(kind, state)).copied().unwrap_or_default();
                self.objects.get_or_create(&[("kind", *kind_label), ("state", *state_label)]).set(number(count));
            }
        }
    }
}

fn labels(diagnosis: &Diagnosis) -> ObjectLabels {
    (kind_place(&diagnosis.kind), place(&catalog::STATES, state_label(diagnosis.reason)))
}

/// The place of a kind among the labels; any other one counts as a file.
fn kind_place(kind: &str) -> usize {
    place(&catalog::KINDS, kind)
}

fn place(labels: &[&str], label: &str) -> usize {
    labels.iter().position(|one| *one == label).unwrap_or(labels.len().saturating_sub(1))
}

fn state_label(reason: Reason) -> &'static str {
    match reason {
        Reason::Accepted => "accepted",
        Reason::Invalid => "invalid",
        Reason::Conflicted => "conflicted",
    }
}

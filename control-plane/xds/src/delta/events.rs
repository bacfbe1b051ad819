//! The events of a stream: how many there were, and what may be otherwise since.

use std::sync::Arc;

use super::DeltaStream;
use super::subscription::Subscription;
use crate::changed_names::ChangedNames;

impl DeltaStream {
    /// Keeps what is known of the node before an event.
    pub(super) fn begin_event(&mut self) {
        if self.has_everything.take() == Some(true) {
            self.subscriptions.values_mut().for_each(Subscription::note_everything);
        }
    }

    /// Notes which owners an event was about. A name that the snapshot does not have belongs to no owner in it; it is noted with the
    /// snapshot that has it, and when the node lets it go.
    pub(super) fn note_changes(&mut self) {
        self.revision += 1;
        let changed = self.changed.get_or_insert_default();
        for ((_, type_url), subscription) in &mut self.subscriptions {
            subscription.take_let_go().into_iter().for_each(|owner| changed.add(owner));
            let ChangedNames::Named(names) = subscription.take_touched(&self.snapshot, type_url) else {
                changed.add_all();
                continue;
            };
            for resource in names.iter().filter_map(|name| self.snapshot.get(type_url, name)) {
                resource.owners().for_each(|owner| changed.add(Arc::clone(owner)));
            }
        }
    }

    /// The owners whose progress may be another one than when this was asked last; `None` if there was no event since.
    pub(crate) fn take_changed(&mut self) -> Option<ChangedNames> {
        self.changed.take()
    }

    /// A number that grows with each event; without one, progress in the same snapshot is the same.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }
}

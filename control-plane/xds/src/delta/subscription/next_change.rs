//! The change that is sent next. It is looked for without a trace: until there is room to send it, the newest snapshot may be another one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Change, InFlight, Subscription, Update};
use crate::chunk::length;
use crate::delta::gates::{Blocked, SendGates};
use crate::resource::Resource;
use crate::snapshot::Snapshot;

/// A change that may be sent now. Until it is, the subscription is as if there were none.
#[derive(Debug, Default)]
pub(in crate::delta) struct NextChange {
    pub(in crate::delta) change: Change,
    /// If it is of resources that were refused together: those of the group for which it has no room.
    left: Option<BTreeSet<Arc<str>>>,
}

impl NextChange {
    fn removing(removals: BTreeSet<Arc<str>>) -> Self {
        Self { change: Change { removals, ..Change::default() }, left: None }
    }
}

impl Change {
    /// Bytes of the resources, and of names that are removed: a node may ask for many long ones of no resource.
    pub(in crate::delta) fn size(&self) -> usize {
        let updates: usize = self.updates.iter().map(|(name, update)| update.size(name)).sum();
        updates + self.removals.iter().map(|name| name.len()).sum::<usize>()
    }
}

impl Update {
    /// Bytes of the resource with its name and version.
    pub(super) fn size(&self, name: &str) -> usize {
        name.len() + self.version.len() + length(&self.body)
    }
}

/// Updates by the names of their resources.
type Updates = BTreeMap<Arc<str>, Update>;

/// As many updates as have so many bytes, and at least one; and whether some are left.
fn within(most: usize, all: impl Iterator<Item = (Arc<str>, Update)>) -> (Updates, bool) {
    let (mut taken, mut room) = (BTreeMap::new(), most);
    for (name, update) in all {
        let size = length(&update.body);
        if size > room && !taken.is_empty() {
            return (taken, true);
        }
        room = room.saturating_sub(size);
        taken.insert(name, update);
    }
    (taken, false)
}

impl Subscription {
    /// Whether it matters what may be sent now: otherwise [`Subscription::next_change`] is the same for all gates.
    pub(in crate::delta) fn has_to_send(&self) -> bool {
        self.in_flight.is_none() && (!self.due.is_empty() || self.owes_answer || !self.candidates.is_empty())
    }

    /// The change to send now, if any may be sent: of resources as many as have `most` bytes, and at least one. It is the same each time
    /// until it is sent or something happens.
    pub(in crate::delta) fn next_change(
        &mut self,
        snapshot: &Snapshot,
        type_url: &str,
        gates: SendGates,
        most: usize,
    ) -> Option<NextChange> {
        if self.in_flight.is_some() {
            return None;
        }
        self.forget_refusals(snapshot, type_url);
        self.forget_done(snapshot, type_url);
        // A name that is new to the node and does not exist is removed at once: nothing can refer to it.
        let unknown: BTreeSet<_> =
            self.due.iter().filter(|name| self.is_unknown(snapshot, type_url, name)).cloned().collect();
        if !unknown.is_empty() {
            return Some(NextChange::removing(unknown));
        }
        if gates.updates != Blocked::All {
            let (updates, left) = self.next_updates(snapshot, type_url, &gates.updates, most);
            if !updates.is_empty() {
                return Some(NextChange { change: Change { updates, ..Default::default() }, left });
            }
        }
        if gates.removals != Blocked::All {
            let may_go = |name: &&Arc<str>| gates.removals.allows(self.owner(snapshot, type_url, name));
            let removals: BTreeSet<_> = self.removals(snapshot, type_url).filter(may_go).cloned().collect();
            if !removals.is_empty() {
                return Some(NextChange::removing(removals));
            }
        }
        (gates.updates == Blocked::None && self.owes_answer).then(NextChange::default)
    }

    fn next_updates(
        &mut self,
        snapshot: &Snapshot,
        type_url: &str,
        wait: &Blocked,
        most: usize,
    ) -> (Updates, Option<BTreeSet<Arc<str>>>) {
        let may_go = |(_, resource): &(&Arc<str>, &Resource)| wait.allows(resource.owner());
        let update = |(name, resource): (&Arc<str>, &Resource)| {
            let version = Arc::clone(self.composed.version(name, resource)?);
            let owner = resource.shared_owner().cloned();
            Some((Arc::clone(name), Update { version, owner, body: self.composed.body(name, resource) }))
        };
        while let Some(group) = self.candidates.last() {
            let is_suspect = |(name, _): &(&Arc<str>, &Resource)| group.contains(*name);
            if self.updates(snapshot, type_url).filter(is_suspect).any(|one| !may_go(&one)) {
                return (BTreeMap::new(), None);
            }
            let suspects = self.updates(snapshot, type_url).filter(is_suspect).filter_map(update);
            let (updates, is_cut) = within(most, suspects);
            if !updates.is_empty() {
                // They have grown since they were refused.
                let left = group.iter().filter(|name| is_cut && !updates.contains_key(*name)).cloned().collect();
                return (updates, Some(left));
            }
            self.candidates.pop();
        }
        (within(most, self.updates(snapshot, type_url).filter(may_go).filter_map(update)).0, None)
    }

    /// Notes that a change is sent, with the number and the nonce of its response.
    pub(in crate::delta) fn sent(&mut self, (number, nonce): (u64, &str), next: &NextChange, version: &str) {
        let NextChange { change, left } = next;
        self.owes_answer = false;
        if let Some(left) = left {
            self.candidates.pop();
            self.candidates.extend((!left.is_empty()).then(|| left.clone()));
        }
        for (name, update) in &change.updates {
            self.recall(name);
            match &update.owner {
                Some(owner) => self.owners.insert(Arc::clone(name), Arc::clone(owner)),
                None => self.owners.remove(name),
            };
        }
        self.status.sent = version.to_owned();
        let change = change.without_bodies();
        self.in_flight = Some(InFlight { number, nonce: nonce.to_owned(), version: version.to_owned(), change });
    }
}

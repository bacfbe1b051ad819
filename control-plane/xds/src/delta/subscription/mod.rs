mod acknowledgement;
mod in_flight;
mod next_change;
mod progress;
mod retired;
#[cfg(test)]
mod tests;
mod touched;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;

use super::TypeStatus;
use super::composed::Composed;
use crate::changed_names::ChangedNames;
use crate::chunk::ByteChunks;
use crate::kind::ResourceKind;
use crate::resource::Resource;
use crate::snapshot::Snapshot;
use in_flight::InFlight;
pub(super) use next_change::NextChange;
pub(super) use progress::RefusedOwners;
use progress::memory_of;
use retired::RetiredNames;

/// A response's content: resources or removals, never both.
#[derive(Clone, Debug, Default)]
pub(super) struct Change {
    pub(super) updates: BTreeMap<Arc<str>, Update>,
    pub(super) removals: BTreeSet<Arc<str>>,
}

/// A resource in a response.
#[derive(Clone, Debug)]
pub(super) struct Update {
    pub(super) version: Arc<str>,
    pub(super) owner: Option<Arc<str>>,
    /// May be secret.
    pub(super) body: ByteChunks,
}

/// The version of a resource that the node has in an unknown version. No hash is empty.
const UNSURE: &str = "";

#[derive(Debug)]
struct Refusal {
    version: Arc<str>,
    message: String,
}

impl Refusal {
    /// Whether it is about the snapshot's version of the resource.
    fn is_of(&self, snapshot: &Snapshot, type_url: &str, name: &str) -> bool {
        snapshot.get(type_url, name).is_some_and(|resource| resource.version() == &*self.version)
    }
}

/// One type of one stream. Names, versions and owners are the snapshot's allocations, as far as it has them: there are thousands, of
/// each stream.
#[derive(Debug, Default)]
pub(super) struct Subscription {
    wildcard: bool,
    /// Names that were asked for one by one.
    names: BTreeSet<Arc<str>>,
    /// The resources that the node has: name and version.
    known: BTreeMap<Arc<str>, Arc<str>>,
    /// Of those that the node has in an unknown version, the ones that it did not have before, and the only version that it may
    /// have.
    perhaps: BTreeMap<Arc<str>, Arc<str>>,
    /// The owners of the resources that the node has, by name.
    owners: BTreeMap<Arc<str>, Arc<str>>,
    /// The owners of the resources that it has let go since [`Subscription::take_let_go`].
    let_go: Vec<Arc<str>>,
    /// Names that were asked for one by one, and then sent as removed.
    retired: RetiredNames,
    in_flight: Option<InFlight>,
    /// Versions that the node refused. They are not sent again.
    refused: BTreeMap<Arc<str>, Refusal>,
    /// Groups of resources, refused together: sent again in halves, until the bad one stands alone.
    candidates: Vec<BTreeSet<Arc<str>>>,
    composed: Composed,
    /// Names that were touched before this type was asked for.
    dirty_early: BTreeSet<Arc<str>>,
    /// Names for which something may be due; for all others nothing is. A turn therefore costs what changed, not all resources.
    due: BTreeSet<Arc<str>>,
    /// Bytes of names and versions that the node brought and no resource had then.
    foreign_bytes: usize,
    /// Names with which the node's progress may be another one than when they were taken last.
    touched: ChangedNames,
    /// Names of which the node may lack the newest version; it has that of all others, if this type was asked for.
    unproven: ChangedNames,
    /// Whether this type was asked for before on this stream.
    opened: bool,
    /// Whether the node had something of this type before this stream.
    resumed: bool,
    /// A first answer is owed, even if it is empty: the node waits for it.
    owes_answer: bool,
    status: TypeStatus,
}

impl Subscription {
    pub(super) fn on_request(&mut self, request: DeltaDiscoveryRequest, snapshot: &Snapshot) {
        let wanted_all = self.wildcard;
        self.take_acknowledgement(&request);
        let kind = ResourceKind::of(&request.type_url);
        for name in &request.resource_names_unsubscribe {
            let is_served = snapshot.get(&request.type_url, name).is_some();
            self.unsubscribe(&snapshot.shared_name(&request.type_url, name), is_served);
        }
        let first = !std::mem::replace(&mut self.opened, true);
        let resumes_clusters = first && kind == ResourceKind::Cluster && !request.initial_resource_versions.is_empty();
        if first && request.resource_names_subscribe.is_empty() && kind.allows_wildcard() {
            self.wildcard = true;
            self.owes_answer = request.initial_resource_versions.is_empty();
        }
        for name in request.resource_names_subscribe {
            if name == "*" {
                if kind.allows_wildcard() {
                    self.owes_answer |= !self.wildcard && request.initial_resource_versions.is_empty();
                    self.wildcard = true;
                }
            } else if resumes_clusters
                && !request.initial_resource_versions.contains_key(&name)
                && snapshot.get(&request.type_url, &name).is_none()
            {
                // One of thousands that went while it was away or before. No answer is due: it has none of them.
                self.retired.insert(&name);
            } else {
                let shared = snapshot.shared_name(&request.type_url, &name);
                let is_foreign = !self.names.contains(&shared) && snapshot.get(&request.type_url, &name).is_none();
                self.foreign_bytes += if is_foreign { memory_of(&name) } else { 0 };
                self.subscribe(shared);
            }
        }
        if self.wildcard && !wanted_all {
            self.due.extend(snapshot.shared_names(&request.type_url).cloned());
        }
        if first || self.wildcard != wanted_all {
            self.touched.add_all();
        }
        // After a reconnect: what it has need not be sent again.
        if first {
            self.resumed = !request.initial_resource_versions.is_empty();
            for (name, version) in request.initial_resource_versions {
                let name = snapshot.shared_name(&request.type_url, &name);
                let newest = snapshot.get(&request.type_url, &name).map(Resource::shared_version);
                self.foreign_bytes += if newest.is_none() { memory_of(&name) } else { 0 };
                let shared = newest.filter(|newest| ***newest == *version).cloned();
                self.foreign_bytes += if shared.is_none() { memory_of(&version) } else { 0 };
                let version = shared.unwrap_or_else(|| version.into());
                self.due.insert(Arc::clone(&name));
                self.known.insert(name, version);
            }
            for name in std::mem::take(&mut self.dirty_early) {
                self.known.remove(&name);
            }
        }
    }

    /// A name that is asked for again is sent again: the node wants it for something new.
    fn subscribe(&mut self, name: Arc<str>) {
        self.mark_dirty(&name);
        self.names.insert(name);
    }

    /// Forgets that a resource was sent.
    pub(super) fn mark_dirty(&mut self, name: &Arc<str>) {
        if !self.opened {
            self.dirty_early.insert(Arc::clone(name));
        }
        self.touched.add(Arc::clone(name));
        self.due.insert(Arc::clone(name));
        self.known.remove(name);
        self.recall(name);
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.change.updates.remove(name);
            in_flight.change.removals.remove(name);
        }
    }

    /// Keeps a name in full that was retired.
    fn recall(&mut self, name: &Arc<str>) {
        if self.retired.remove(name) {
            self.names.insert(Arc::clone(name));
        }
    }

    fn unsubscribe(&mut self, name: &Arc<str>, is_served: bool) {
        if **name == *"*" {
            self.wildcard = false;
            self.touched.add_all();
            self.known.retain(|name, _| self.names.contains(name));
            return;
        }
        self.touched.add(Arc::clone(name));
        self.names.remove(name);
        self.retired.remove(name);
        self.refused.remove(name);
        if !self.wildcard {
            self.known.remove(name);
        }
        // Names are free to make, and of one that is neither served nor known nothing can be due.
        if is_served || self.known.contains_key(name) {
            self.due.insert(Arc::clone(name));
        } else {
            self.due.remove(name);
        }
    }

    fn is_wanted(&self, name: &str) -> bool {
        self.wildcard || self.is_asked(name)
    }

    fn is_asked(&self, name: &str) -> bool {
        self.names.contains(name) || self.retired.contains(name)
    }

    /// Whether the node is to have a resource. One on demand it need not have, but if it has it, then as it is now.
    pub(super) fn is_expected(&self, name: &str, resource: &Resource) -> bool {
        let by_wildcard = self.wildcard && (!resource.is_on_demand() || self.known.contains_key(name));
        by_wildcard || self.is_asked(name)
    }

    fn forget_done(&mut self, snapshot: &Snapshot, type_url: &str) {
        let due = std::mem::take(&mut self.due);
        self.due = due.into_iter().filter(|name| self.is_due(snapshot, type_url, name)).collect();
    }

    fn is_due(&self, snapshot: &Snapshot, type_url: &str, name: &str) -> bool {
        self.is_unknown(snapshot, type_url, name)
            || self.is_leftover(snapshot, type_url, name)
            || self.outdated(snapshot, type_url, name).is_some()
    }

    fn is_unknown(&self, snapshot: &Snapshot, type_url: &str, name: &str) -> bool {
        self.names.contains(name) && !self.known.contains_key(name) && snapshot.get(type_url, name).is_none()
    }

    /// A refused version that is no longer in the snapshot need not be remembered.
    fn forget_refusals(&mut self, snapshot: &Snapshot, type_url: &str) {
        self.refused.retain(|name, refusal| refusal.is_of(snapshot, type_url, name));
        if self.refused.is_empty() && self.candidates.is_empty() && !self.composed.is_refused() {
            self.status.nack = None;
        }
    }

    /// Every resource that is wanted, not known in this version and not refused in this version.
    fn updates<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        type_url: &'a str,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Resource)> + use<'a> {
        self.due.iter().filter_map(move |name| Some((name, self.outdated(snapshot, type_url, name)?)))
    }

    /// A resource, if it is to be sent.
    fn outdated<'a>(&'a self, snapshot: &'a Snapshot, type_url: &str, name: &str) -> Option<&'a Resource> {
        let is_sendable = |resource: &&Resource| self.is_expected(name, resource) && !resource.is_version_only();
        let resource = snapshot.get(type_url, name).filter(is_sendable)?;
        let version = self.composed.version(name, resource)?;
        let is_known = self.known.get(name).is_some_and(|known| known == version);
        let is_refused = self.refused.get(name).is_some_and(|refusal| refusal.version == *version);
        (!is_known && !is_refused).then_some(resource)
    }

    /// Follows the snapshot, before it is asked what is to be sent.
    pub(super) fn refresh(&mut self, snapshot: &Snapshot, type_url: &str) {
        if self.in_flight.is_none() && self.opened {
            let due = snapshot.composed(type_url).filter(|(name, _)| self.due.contains(*name));
            due.for_each(|(name, _)| self.touched.add(name));
            self.composed.refresh(snapshot, type_url, &self.known, &self.due);
        }
    }

    /// The resources that the node has and should not have.
    fn removals<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        type_url: &'a str,
    ) -> impl Iterator<Item = &'a Arc<str>> + use<'a> {
        self.due.iter().filter(move |name| self.is_leftover(snapshot, type_url, name))
    }

    fn is_leftover(&self, snapshot: &Snapshot, type_url: &str, name: &str) -> bool {
        self.known.contains_key(name) && snapshot.get(type_url, name).is_none()
    }
}

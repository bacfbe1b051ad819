//! How far a type is.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Refusal, Subscription, UNSURE};
use crate::delta::TypeStatus;
use crate::delta::gates::Blocked;
use crate::node::Refused;
use crate::resource::Resource;
use crate::snapshot::Snapshot;
use portcullis_api::status::GatewayProgress;

/// Owners of refused resources: with what else they have a node may be behind for as long as it refuses these.
pub(in crate::delta) struct RefusedOwners<'a>(BTreeSet<&'a str>);

impl<'a> RefusedOwners<'a> {
    pub(in crate::delta) fn of(refused: &'a [Refused]) -> Self {
        Self(refused.iter().filter_map(|one| one.owner.as_deref()).collect())
    }

    pub(in crate::delta) fn has(&self, owner: Option<&str>) -> bool {
        owner.is_some_and(|owner| self.0.contains(owner))
    }
}

impl Subscription {
    /// The owner of a resource, also of a removed one.
    pub(super) fn owner<'a>(&'a self, snapshot: &'a Snapshot, type_url: &str, name: &str) -> Option<&'a str> {
        match snapshot.get(type_url, name) {
            Some(resource) => resource.owner(),
            None => self.owners.get(name).map(AsRef::as_ref),
        }
    }

    /// The owners of resources that change: resources that refer to them have to wait. Removals that still hold do not count; a
    /// resource that came back while its removal was under way has to be sent again first.
    pub(in crate::delta) fn updating(&self, snapshot: &Snapshot, type_url: &str) -> Blocked {
        let waiting = self.updates(snapshot, type_url).map(|(_, resource)| resource.owner());
        let under_way = self.in_flight.iter().flat_map(|in_flight| {
            let back = in_flight.change.removals.iter().filter(|name| snapshot.get(type_url, name).is_some());
            in_flight.change.updates.keys().chain(back)
        });
        Blocked::for_owners(waiting.chain(under_way.map(|name| self.owner(snapshot, type_url, name))))
    }

    /// The owners of resources that change or are removed; refused ones do not count.
    pub(in crate::delta) fn unsettled(&self, snapshot: &Snapshot, type_url: &str) -> Blocked {
        if self.owes_answer || self.due.iter().any(|name| self.is_unknown(snapshot, type_url, name)) {
            return Blocked::All;
        }
        let gone = self.in_flight.iter().flat_map(|in_flight| &in_flight.change.removals);
        let removed = self.removals(snapshot, type_url).chain(gone);
        let removed = Blocked::for_owners(removed.map(|name| self.owner(snapshot, type_url, name)));
        self.updating(snapshot, type_url).and(removed)
    }

    /// The owners of resources that are not as wanted.
    pub(in crate::delta) fn out_of_sync(&self, snapshot: &Snapshot, type_url: &str) -> Blocked {
        // A refused resource of which the node has no other version refers to nothing there.
        let replaced = self.refused(snapshot, type_url).filter(|refused| !self.is_lacking(&refused.name));
        let replaced: Vec<_> = replaced.collect();
        let refused = Blocked::for_owners(replaced.iter().map(|refused| refused.owner.as_deref()));
        let waits = self.unsettled(snapshot, type_url).and(refused);
        // A part that differs from the wanted one, although nothing is left to send, replaces a refused one.
        let is_as_wanted = self.composed.is_in_sync_but_for(|name| self.is_lacking(name));
        if is_as_wanted || waits != Blocked::None { waits } else { Blocked::All }
    }

    /// Nothing to send and nothing under way; something may be refused.
    fn is_settled(&self, snapshot: &Snapshot, type_url: &str) -> bool {
        self.in_flight.is_none()
            && !self.owes_answer
            && self.updates(snapshot, type_url).next().is_none()
            && self.removals(snapshot, type_url).next().is_none()
            && !self.due.iter().any(|name| self.is_unknown(snapshot, type_url, name))
    }

    /// Settled, nothing is refused, and the node has what others hold.
    pub(in crate::delta) fn is_in_sync(&self, snapshot: &Snapshot, type_url: &str) -> bool {
        let is_current = |(name, refusal): (&Arc<str>, &Refusal)| refusal.is_of(snapshot, type_url, name);
        self.is_settled(snapshot, type_url)
            && !self.refused.iter().any(is_current)
            && self.composed.is_in_sync()
            && !snapshot.version_only(type_url).any(|name| {
                snapshot.get(type_url, name).is_some_and(|resource| self.is_expected(name, resource))
                    && !self.has(snapshot, type_url, name)
            })
    }

    /// Whether nothing is left or under way but for what is refused, and other resources of the owners of that.
    pub(in crate::delta) fn has_all_but_refused(
        &self,
        snapshot: &Snapshot,
        type_url: &str,
        owners: &RefusedOwners<'_>,
    ) -> bool {
        let is_refused = |name: &str| {
            let whole = self.refused.get(name).is_some_and(|refusal| refusal.is_of(snapshot, type_url, name));
            whole || self.composed.is_refused_whole(name)
        };
        let has = |(name, resource): (&Arc<str>, &Resource)| {
            owners.has(resource.owner()) || is_refused(name) || self.has_newest(name, resource, self.known.get(name))
        };
        self.in_flight.is_none()
            && !self.owes_answer
            && !self.due.iter().any(|name| self.is_unknown(snapshot, type_url, name))
            && self.updates(snapshot, type_url).all(|(_, resource)| owners.has(resource.owner()))
            && self.removals(snapshot, type_url).all(|name| owners.has(self.owner(snapshot, type_url, name)))
            && snapshot.of_type(type_url).all(has)
    }

    fn has(&self, snapshot: &Snapshot, type_url: &str, name: &str) -> bool {
        snapshot
            .get(type_url, name)
            .is_some_and(|one| self.known.get(name).is_some_and(|known| **known == *one.version()))
    }

    /// Whether the node certainly has nothing of a resource. A name that it asks for again counts as unknown, whatever it has.
    pub(super) fn is_lacking(&self, name: &str) -> bool {
        self.wildcard && !self.is_asked(name) && !self.known.contains_key(name)
    }

    /// The refused resources of the snapshot.
    pub(in crate::delta) fn refused(&self, snapshot: &Snapshot, type_url: &str) -> impl Iterator<Item = Refused> {
        let refused = move |name: &str, owner: Option<&str>, version: &str, message: &str| Refused {
            type_url: type_url.to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
            message: message.to_owned(),
            owner: owner.map(str::to_owned),
            is_optional: snapshot.get(type_url, name).is_some_and(Resource::is_optional),
        };
        let current = self.refused.iter().filter(|(name, refusal)| refusal.is_of(snapshot, type_url, name));
        let whole = current.map(move |(name, refusal)| {
            let owner = snapshot.get(type_url, name).and_then(Resource::owner);
            refused(name, owner, &refusal.version, &refusal.message)
        });
        let parts = self.composed.refused();
        whole.chain(parts.map(move |(name, owner, refusal)| refused(name, owner, &refusal.version, &refusal.message)))
    }

    /// Owners of what is refused and of which the node has no other version.
    pub(in crate::delta) fn lacking<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        type_url: &'a str,
    ) -> impl Iterator<Item = &'a str> {
        let has_none = |name: &Arc<str>| self.known.get(name).is_none_or(|known| **known == *UNSURE);
        let refused = self.refused.iter().filter(|(name, refusal)| refusal.is_of(snapshot, type_url, name));
        refused.filter(move |(name, _)| has_none(name)).filter_map(|(name, _)| snapshot.get(type_url, name)?.owner())
    }

    /// The owners of what the node has, some of them several times.
    pub(in crate::delta) fn known_owners<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        type_url: &'a str,
    ) -> impl Iterator<Item = &'a str> {
        self.known.keys().filter_map(move |name| self.owner(snapshot, type_url, name))
    }

    /// Bytes of the reasons of refusals that are kept.
    pub(in crate::delta) fn reason_bytes(&self) -> usize {
        let whole: usize = self.refused.values().map(|refusal| refusal.message.len()).sum();
        let nack = self.status.nack.as_ref().map_or(0, String::len);
        whole.saturating_add(nack).saturating_add(self.composed.reason_bytes())
    }

    /// The node's progress with a resource of an owner, or with the owner's part of it.
    pub(in crate::delta) fn progress(&self, name: &str, resource: &Resource, owner: &str) -> GatewayProgress {
        if let Some(version) = resource.part_version(owner) {
            let is_lacking = self.is_lacking(name) && self.composed.is_refused_whole(name);
            return match self.composed.progress(name, owner, version) {
                GatewayProgress::Pending if resource.is_optional() && is_lacking => GatewayProgress::Acknowledged,
                progress => progress,
            };
        }
        let version = resource.version();
        match self.refused.get(name).filter(|refusal| *refusal.version == *version) {
            Some(refusal) => GatewayProgress::Refused { message: refusal.message.clone() },
            None if self.known.get(name).is_some_and(|known| **known == *version) => GatewayProgress::Acknowledged,
            // Nothing is under way of what the node does not want.
            None if resource.is_on_demand() && !self.is_expected(name, resource) => GatewayProgress::Acknowledged,
            None => GatewayProgress::Pending,
        }
    }

    /// The number of the response without an answer.
    pub(in crate::delta) fn unanswered(&self) -> Option<u64> {
        self.in_flight.as_ref().map(|in_flight| in_flight.number)
    }

    /// Its progress, for people.
    pub(in crate::delta) fn status(&self) -> TypeStatus {
        self.status.clone()
    }

    /// How many names are remembered.
    pub(in crate::delta) fn name_count(&self) -> usize {
        self.names.len() + self.known.len() + self.retired.weight()
    }

    /// Bytes of names and versions that the node brought and no resource had then: as long as the stream lives they may be in memory. And
    /// of digests of names whose resources are gone.
    pub(in crate::delta) fn foreign_bytes(&self) -> usize {
        self.foreign_bytes.saturating_add(self.retired.bytes())
    }

    /// Whether this type was asked for.
    pub(in crate::delta) fn is_open(&self) -> bool {
        self.opened
    }

    /// Whether the node had something of this type before this stream.
    pub(in crate::delta) fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Whether the node has nothing of this type.
    pub(in crate::delta) fn knows_nothing(&self) -> bool {
        self.known.is_empty()
    }
}

/// Bytes in memory of a name or a version that no resource has, with its allocation and its places in sets.
pub(super) fn memory_of(text: &str) -> usize {
    text.len() + 96
}

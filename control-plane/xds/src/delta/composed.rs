//! Resources that are made of parts, such as listeners: a quarantine for each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::chunk::{ByteChunks, ChunkKey, Chunks, bodies};
use crate::quarantine::{ChunkRefusal, Offer, Quarantine};
use crate::resource::{Resource, add_chunks};
use crate::snapshot::Snapshot;
use portcullis_api::status::GatewayProgress;

/// The resources of one type that are made of parts: what of them may be sent.
#[derive(Debug, Default)]
pub(super) struct Composed {
    by_name: BTreeMap<String, ComposedResource>,
}

#[derive(Debug, Default)]
struct ComposedResource {
    quarantine: Quarantine,
    /// The offer that the node should have, as far as it accepts it.
    offer: Option<Offer>,
    /// Its version as it is sent.
    sent_version: Arc<str>,
}

impl Composed {
    /// Follows the snapshot, as far as it is due. `known` are the versions that the node has.
    pub(super) fn refresh(
        &mut self,
        snapshot: &Snapshot,
        type_url: &str,
        known: &BTreeMap<Arc<str>, Arc<str>>,
        due: &BTreeSet<Arc<str>>,
    ) {
        // The node has nothing of them to be removed.
        self.by_name.retain(|name, _| known.contains_key(name.as_str()) || snapshot.get(type_url, name).is_some());
        for (name, resource) in snapshot.composed(type_url).filter(|(name, _)| due.contains(*name)) {
            let is_new = !self.by_name.contains_key(name);
            let one = self.by_name.entry(name.to_owned()).or_default();
            if !one.quarantine.has_target(resource.version()) {
                let mut chunks = Chunks::new();
                add_chunks(&mut chunks, name, resource);
                one.quarantine.set_target(Offer::wanted(resource.version(), chunks));
            }
            if let Some(version) = known.get(name).filter(|_| is_new) {
                one.quarantine.resume(version);
            }
            // After a reconnect an edit may bring back what the node has. It is not sent again, and so never acknowledged.
            let has = |offer: &Offer| known.get(name).is_some_and(|known| **known == *offer.sent_version());
            if let Some(offer) = one.quarantine.next().filter(has) {
                one.quarantine.on_ack(offer);
            }
            one.offer = one.quarantine.next().or_else(|| one.quarantine.last_accepted().cloned());
            one.sent_version = one.offer.as_ref().map(Offer::sent_version).unwrap_or_default().into();
        }
    }

    /// Whether a resource is made of parts.
    pub(super) fn holds(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// The version of a resource to send; `None` if there is nothing of it that the node takes.
    pub(super) fn version<'a>(&'a self, name: &str, resource: &'a Resource) -> Option<&'a Arc<str>> {
        match self.by_name.get(name) {
            Some(one) => one.offer.as_ref().map(|_| &one.sent_version),
            None => Some(resource.shared_version()),
        }
    }

    /// The body of a resource to send.
    pub(super) fn body(&self, name: &str, resource: &Resource) -> ByteChunks {
        let offer = self.by_name.get(name).and_then(|one| one.offer.as_ref());
        let body = offer.and_then(|offer| bodies(&offer.chunks).remove(name));
        body.unwrap_or_else(|| resource.pieces())
    }

    /// Takes an acknowledgement of what was to be sent last.
    pub(super) fn on_ack(&mut self, name: &str) {
        if let Some(one) = self.by_name.get_mut(name)
            && let Some(offer) = one.offer.take()
        {
            one.quarantine.on_ack(offer);
        }
    }

    /// Takes a refusal of what was to be sent last.
    pub(super) fn on_nack(&mut self, name: &str, message: &str) {
        if let Some(one) = self.by_name.get_mut(name)
            && let Some(offer) = one.offer.take()
        {
            one.quarantine.on_nack(&offer, message);
        }
    }

    /// Forgets a resource that is gone.
    pub(super) fn remove(&mut self, name: &str) {
        self.by_name.remove(name);
    }

    /// Whether the node has of every resource exactly what is wanted.
    pub(super) fn is_in_sync(&self) -> bool {
        self.by_name.values().all(|one| one.quarantine.is_in_sync())
    }

    /// The same, apart from the resources of which it has nothing.
    pub(super) fn is_in_sync_but_for(&self, is_lacking: impl Fn(&str) -> bool) -> bool {
        self.by_name.iter().all(|(name, one)| one.quarantine.is_in_sync() || is_lacking(name))
    }

    /// Whether a resource is refused without any of its parts.
    pub(super) fn is_refused_whole(&self, name: &str) -> bool {
        let is_whole = |key: Option<&ChunkKey>| key.is_none_or(|key| key.part.is_none());
        self.by_name.get(name).is_some_and(|one| one.quarantine.refusals().any(|(key, _)| is_whole(key)))
    }

    /// Whether something is refused, or being looked for.
    pub(super) fn is_refused(&self) -> bool {
        self.by_name.values().any(|one| one.quarantine.refusals().next().is_some() || one.quarantine.is_searching())
    }

    /// Bytes of the reasons that are kept.
    pub(super) fn reason_bytes(&self) -> usize {
        self.by_name.values().map(|one| one.quarantine.reason_bytes()).sum()
    }

    /// The name of a resource, the owner of the part if it is one, and why it is refused.
    pub(super) fn refused(&self) -> impl Iterator<Item = (&str, Option<&str>, &ChunkRefusal)> {
        self.by_name.iter().flat_map(|(name, one)| {
            one.quarantine
                .refusals()
                .map(move |(key, refusal)| (name.as_str(), key.and_then(|key| key.part.as_deref()), refusal))
        })
    }

    /// The node's progress with a part.
    pub(super) fn progress(&self, name: &str, owner: &str, version: &str) -> GatewayProgress {
        let key = ChunkKey { resource: name.into(), part: Some(owner.into()) };
        self.by_name.get(name).map_or(GatewayProgress::Pending, |one| one.quarantine.progress(&key, version))
    }
}

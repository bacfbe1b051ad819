//! Finds the bad chunk of a resource that a node only accepts or refuses (NACK) as a whole: the listener.
//!
//! - A chunk is a piece of the resource's bytes: the resource without its parts, or one part. A part of a listener is the filter
//!   chains of one owner, an `UpstreamCluster`.
//! - The target is what is wanted: every chunk of the resource in the newest snapshot.
//! - An offer is the chunks that are sent together. A trial is an offer with some of the wanted chunks, to find out which is bad.
//! - A fallback is the bytes to send in place of a part that is left out.
//!
//! The offer is computed from the wanted chunks, the chunks that were accepted last and the bad ones. After a refusal the
//! chunks that differ from the accepted ones are tried in groups, until the bad one is alone; a chunk that is bad, or not tried
//! yet, stays as it was accepted. No trial therefore takes anything out of service.
//!
//! A version lists the chunks of an offer, also of one that another control plane sent. Those of them that are wanted count as
//! accepted. The bytes of the others are unknown here: while a bad chunk is looked for among them, they are out of service.

mod offer;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::chunk::{Chunk, ChunkKey, Chunks};
use portcullis_api::status::GatewayProgress;

pub(crate) use offer::Offer;
use offer::ReportedVersion;

/// Why a chunk or everything is not offered again.
#[derive(Clone, Debug)]
pub(crate) struct ChunkRefusal {
    pub(crate) version: String,
    pub(crate) message: String,
    /// The version that was accepted at that time.
    accepted_version: String,
}

/// The chunks that a node has, and those that it refused.
#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    target: Offer,
    accepted: Offer,
    /// The node has something else than `accepted`, which holds only what it certainly has of that.
    unknown: bool,
    /// The positions at which the node has an unknown chunk.
    unknown_places: BTreeSet<String>,
    /// Single chunks that were found bad.
    refused: BTreeMap<ChunkKey, Vec<ChunkRefusal>>,
    /// Groups of chunks that are tried, the last first. All that is in none of them waits.
    candidates: Vec<BTreeSet<ChunkKey>>,
    /// Refusals in a row.
    consecutive_nacks: u32,
    /// Whether new parts that are not tried yet are left out instead of replaced by their fallbacks, which may be bad.
    without_fallbacks: bool,
    /// Whole offers that were refused, and why. They are not sent again.
    rejected_offers: BTreeMap<String, String>,
    /// Chunks that were tried again next to other accepted chunks than the first time.
    retried: BTreeSet<(ChunkKey, String)>,
    /// A refusal for which no chunk can be found.
    whole: Option<ChunkRefusal>,
}

impl Quarantine {
    /// Says what is wanted now.
    pub(crate) fn set_target(&mut self, target: Offer) {
        if target.version == self.target.version {
            return;
        }
        self.target = target;
        self.rejected_offers.clear();
        self.whole = None;
        self.without_fallbacks = false;
        let is_current = |key: &ChunkKey, version: &str| {
            let wanted = self.target.chunks.get(key);
            wanted.is_some_and(|wanted| alternatives(wanted).any(|chunk| chunk.version() == version))
        };
        self.retried.retain(|(key, version)| is_current(key, version));
        for (key, refusals) in &mut self.refused {
            refusals.retain(|refusal| is_current(key, &refusal.version));
        }
        self.refused.retain(|_, refusals| !refusals.is_empty());
    }

    /// The offer to send now, if any.
    pub(crate) fn next(&mut self) -> Option<Offer> {
        loop {
            let offer = self.compose();
            let is_same = self.is_there(&offer);
            if is_same && self.candidates.is_empty() && self.has_new_refusals(&offer) {
                return Some(offer);
            }
            let rejected_offers = self.rejected_offers.get(offer.hash()).filter(|_| !is_same).cloned();
            if !is_same && rejected_offers.is_none() {
                return Some(offer);
            }
            match rejected_offers {
                Some(message) if !self.candidates.is_empty() => self.on_nack(&offer, &message),
                _ if self.candidates.pop().is_some() || self.retry_refused() => {}
                _ => return None,
            }
        }
    }

    /// Whether nothing is to be sent for an offer.
    fn is_there(&self, offer: &Offer) -> bool {
        if self.unknown { self.only_takes_away(offer) } else { offer.is_same(&self.accepted) }
    }

    /// Whether parts were refused since an offer was accepted last: the version has to list them, so that no other control
    /// plane sends them again.
    fn has_new_refusals(&self, offer: &Offer) -> bool {
        let has_parts = offer.chunks.keys().any(|key| key.part.is_some());
        !self.unknown && has_parts && offer.left_out() != self.accepted.left_out() && !offer.left_out().is_empty()
    }

    pub(crate) fn on_ack(&mut self, offer: Offer) {
        self.consecutive_nacks = 0;
        self.unknown = false;
        self.whole = None;
        self.accepted = offer;
        self.candidates.pop();
    }

    pub(crate) fn on_nack(&mut self, offer: &Offer, message: &str) {
        self.rejected_offers.insert(offer.hash().to_owned(), message.to_owned());
        let group = self.candidates.pop();
        self.consecutive_nacks += 1;
        let refusal = |version: &str| ChunkRefusal {
            version: version.to_owned(),
            message: message.to_owned(),
            accepted_version: self.accepted.version.clone(),
        };
        let differing = offer.chunks.iter().filter(|(key, chunk)| self.differs(key, chunk));
        let is_stand_in = |(key, chunk): &(&ChunkKey, &Chunk)| {
            let is_tried = group.as_ref().is_none_or(|group| group.contains(*key));
            !is_tried && self.target.chunks.get(*key).is_some_and(|wanted| wanted.version() != chunk.version())
        };
        let (stand_ins, changed): (Vec<_>, Vec<_>) = differing.partition(is_stand_in);
        match changed.as_slice() {
            [] => self.whole = Some(refusal(&offer.version)),
            // Before one is blamed: the fallbacks of others may be bad themselves.
            [_] if !stand_ins.is_empty() => {
                self.without_fallbacks = true;
                self.candidates.extend(group);
            }
            [(key, chunk)] => {
                let refusal = refusal(chunk.version());
                if group.is_none() {
                    self.retried.insert(((*key).clone(), chunk.version().to_owned()));
                }
                self.without_fallbacks = false;
                self.refused.entry((*key).clone()).or_default().push(refusal);
            }
            _ => {
                let keys = changed.into_iter().map(|(key, _)| key.clone()).collect();
                self.suspect(keys, message);
            }
        }
    }

    /// A new resource that has parts cannot be left out of a trial of them; whether it is bad itself is asked after the
    /// second refusal.
    fn suspect(&mut self, keys: Vec<ChunkKey>, message: &str) {
        let has_parts = |base: &ChunkKey| keys.iter().any(|key| key.part.is_some() && key.resource == base.resource);
        let is_base = |key: &ChunkKey| key.part.is_none() && !self.accepted.chunks.contains_key(key) && has_parts(key);
        let (bases, others): (Vec<_>, Vec<_>) = keys.iter().cloned().partition(is_base);
        let (first, second) = offer::split(if others.is_empty() { &bases } else { &others }, message);
        self.candidates.extend([second, first].into_iter().filter(|group| !group.is_empty()));
        if !others.is_empty() && !bases.is_empty() && (self.consecutive_nacks > 1 || others.len() == 1) {
            self.candidates.push(bases.into_iter().collect());
        }
    }

    /// A part that was refused alone in a trial may have been refused because of another part that was wrong or missing, like two that
    /// exchange a name. Next to other accepted chunks it is tried once more.
    fn retry_refused(&mut self) -> bool {
        let mut group = BTreeSet::new();
        for (key, wanted) in self.target.chunks.iter().filter(|(key, _)| key.part.is_some()) {
            let version = wanted.version();
            let is_due = |refusal: &ChunkRefusal| {
                refusal.version == version && refusal.accepted_version != self.accepted.version
            };
            let due = self.refused.get(key).is_some_and(|refusals| refusals.iter().any(is_due));
            if due && self.retried.insert((key.clone(), version.to_owned())) {
                group.insert(key.clone());
            }
        }
        if group.is_empty() {
            return false;
        }
        let before = self.refused.clone();
        for key in &group {
            let wanted = self.target.chunks.get(key).map(Chunk::version);
            self.refused.entry(key.clone()).or_default().retain(|refusal| Some(refusal.version.as_str()) != wanted);
        }
        self.candidates.push(group);
        if self.rejected_offers.contains_key(self.compose().hash()) {
            self.candidates.pop();
            self.refused = before;
            return false;
        }
        true
    }

    fn compose(&self) -> Offer {
        if !self.unknown && self.accepted.version == self.target.version {
            return self.accepted.clone();
        }
        let mut chunks = Chunks::new();
        for (key, wanted) in &self.target.chunks {
            let accepted = self.accepted.chunks.get(key);
            let resolved = self.resolve(key, wanted);
            let is_change = resolved.map(Chunk::version) != accepted.map(Chunk::version);
            let chosen = if !is_change || self.is_tried(key) {
                resolved
            } else {
                // A new part that is not tried yet keeps its names from other clusters.
                accepted.or_else(|| {
                    wanted.fallback().filter(|one| !self.without_fallbacks && !self.is_refused(key, one.version()))
                })
            };
            // Parts of what is not there are nothing.
            let stands_alone = key.part.is_none() || chunks.contains_key(&ChunkKey::whole(&key.resource));
            if let Some(chosen) = chosen.filter(|_| stands_alone) {
                chunks.insert(key.clone(), chosen.clone());
            }
        }
        Offer::of(chunks, &self.target, self.refused.values().flatten().map(|refusal| refusal.version.as_str()))
    }

    /// The chunk to have at a key in the end.
    fn resolve<'a>(&'a self, key: &ChunkKey, wanted: &'a Chunk) -> Option<&'a Chunk> {
        let is_good = |chunk: &&Chunk| !self.is_refused(key, chunk.version());
        Some(wanted)
            .filter(is_good)
            .or_else(|| self.accepted.chunks.get(key))
            .or_else(|| wanted.fallback().filter(is_good))
    }

    fn is_tried(&self, key: &ChunkKey) -> bool {
        let Some(group) = self.candidates.last() else { return true };
        let is_new_base = || key.part.is_none() && !self.accepted.chunks.contains_key(key);
        group.contains(key) || (is_new_base() && group.iter().any(|other| other.resource == key.resource))
    }

    fn differs(&self, key: &ChunkKey, chunk: &Chunk) -> bool {
        self.accepted.chunks.get(key).is_none_or(|accepted| accepted.version() != chunk.version())
    }

    fn is_refused(&self, key: &ChunkKey, version: &str) -> bool {
        self.refused.get(key).is_some_and(|refusals| refusals.iter().any(|refusal| refusal.version == version))
    }

    /// Whether the node has exactly what is wanted.
    pub(crate) fn is_in_sync(&self) -> bool {
        let is_same = || self.accepted.version == self.target.version || self.accepted.is_same(&self.target);
        !self.unknown && is_same()
    }

    /// The refusals of wanted chunks, or of the whole if no chunk was found to be bad.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = (Option<&ChunkKey>, &ChunkRefusal)> {
        let whole = self.whole.iter().map(|refusal| (None, refusal));
        whole.chain(self.refused().map(|(key, refusal)| (Some(key), refusal)))
    }

    /// Bytes of the reasons that are kept.
    pub(crate) fn reason_bytes(&self) -> usize {
        let refused = self.refused.values().flatten().chain(&self.whole).map(|refusal| refusal.message.len());
        refused.chain(self.rejected_offers.values().map(String::len)).sum()
    }

    /// Whether a bad chunk is being looked for.
    pub(crate) fn is_searching(&self) -> bool {
        !self.candidates.is_empty()
    }

    /// Whether this version is wanted already.
    pub(crate) fn has_target(&self, version: &str) -> bool {
        self.target.version == version
    }

    /// The offer that the node has, if it has one that is known.
    pub(crate) fn last_accepted(&self) -> Option<&Offer> {
        Some(&self.accepted).filter(|accepted| !self.unknown && !accepted.chunks.is_empty())
    }

    /// The node's progress with a version of a chunk.
    pub(crate) fn progress(&self, key: &ChunkKey, version: &str) -> GatewayProgress {
        let refusal = self.refused.get(key).and_then(|all| all.iter().find(|refusal| refusal.version == version));
        match refusal {
            Some(refusal) => GatewayProgress::Refused { message: refusal.message.clone() },
            None if self.accepted(key) == Some(version) => GatewayProgress::Acknowledged,
            None => GatewayProgress::Pending,
        }
    }

    /// The refused chunks whose refused version is the wanted one.
    pub(crate) fn refused(&self) -> impl Iterator<Item = (&ChunkKey, &ChunkRefusal)> {
        let is_wanted = |key: &ChunkKey, refusal: &ChunkRefusal| {
            self.target.chunks.get(key).is_some_and(|chunk| chunk.version() == refusal.version)
        };
        let all = self.refused.iter().flat_map(|(key, all)| all.iter().map(move |one| (key, one)));
        all.filter(move |(key, refusal)| is_wanted(key, refusal))
    }

    /// The version of a chunk that the node is known to have.
    pub(crate) fn accepted(&self, key: &ChunkKey) -> Option<&str> {
        self.accepted.chunks.get(key).map(Chunk::version)
    }

    /// The node has something already, of this version, from an earlier stream.
    pub(crate) fn resume(&mut self, version: &str) {
        let reported = ReportedVersion::read(version);
        for (key, wanted) in &self.target.chunks {
            for chunk in alternatives(wanted).filter(|chunk| reported.refused.contains(offer::short(chunk.version()))) {
                let message = "refused before this stream".to_owned();
                let refusal =
                    ChunkRefusal { version: chunk.version().to_owned(), message, accepted_version: String::new() };
                self.retried.insert((key.clone(), chunk.version().to_owned()));
                self.refused.entry(key.clone()).or_default().push(refusal);
            }
        }
        let offer = self.compose();
        self.unknown = offer.version != reported.version;
        self.accepted = if self.unknown { self.recognise(&reported) } else { offer };
        let known: BTreeSet<String> =
            self.accepted.chunks.iter().map(|(key, chunk)| offer::digest(key, chunk)).collect();
        let unknown_places = reported.digests.iter().filter(|one| self.unknown && !known.contains(**one));
        self.unknown_places = unknown_places.map(|one| offer::place_of(one).to_owned()).collect();
    }

    /// The known chunks of the node's offer.
    fn recognise(&self, reported: &ReportedVersion<'_>) -> Offer {
        let known = |(key, wanted): (&ChunkKey, &Chunk)| {
            let has = |chunk: &&Chunk| reported.digests.contains(offer::digest(key, chunk).as_str());
            Some((key.clone(), alternatives(wanted).find(has)?.clone()))
        };
        let chunks: Chunks = self.target.chunks.iter().filter_map(known).collect();
        Offer { version: String::new(), chunks }
    }

    /// Whether an offer would only replace unknown chunks by fallbacks of chunks that are refused as they are wanted. That can
    /// wait until something else changes.
    fn only_takes_away(&self, offer: &Offer) -> bool {
        let stands_in = |key: &ChunkKey, chunk: &Chunk| {
            let wanted = self.target.chunks.get(key);
            wanted.is_some_and(|wanted| wanted.version() != chunk.version() && self.is_refused(key, wanted.version()))
        };
        let mut others = offer.chunks.iter().filter(|(key, chunk)| self.differs(key, chunk)).peekable();
        let mut places: BTreeSet<String> = BTreeSet::new();
        let is_spared = others.peek().is_some()
            && others.all(|(key, chunk)| {
                places.insert(offer::place(key));
                stands_in(key, chunk)
            });
        let removes = self.accepted.chunks.keys().any(|key| !offer.chunks.contains_key(key));
        is_spared && !removes && self.unknown_places == places
    }
}

/// The chunks for a key, the best first.
fn alternatives(wanted: &Chunk) -> impl Iterator<Item = &Chunk> {
    std::iter::once(wanted).chain(wanted.fallback())
}

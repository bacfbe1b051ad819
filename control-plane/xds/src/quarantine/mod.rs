//! Finds the bad piece of what the other side only takes or refuses as a whole.
//!
//! What is offered is computed from what is wanted, what was accepted last and what was found bad. After a refusal the
//! pieces that differ from what was accepted are tried in groups, until the bad one stands alone; a piece that is bad, or
//! not tried yet, stays as it was accepted. So no trial takes anything out of service that was in it.
//!
//! Of what somebody else sent, a version tells which pieces it was made of. Those that are wanted as they are count as
//! accepted. Of the others nobody here knows the bytes: while a bad one is looked for among them, they are out of service.

mod memory;
mod offer;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::Standing;
use crate::resource::{Chunk, ChunkKey, Chunks};

pub(crate) use offer::Offer;

/// Why a piece or everything is not offered again.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) version: String,
    pub(crate) message: String,
    /// What was accepted beside it.
    beside: String,
}

/// What the other side has, and what it refused.
#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    target: Offer,
    accepted: Offer,
    /// The other side has something else than `accepted`, which holds only what it certainly has of that.
    unknown: bool,
    /// Where it has a piece that is not known.
    unknown_places: BTreeSet<String>,
    /// Single pieces that were found bad.
    refused: BTreeMap<ChunkKey, Vec<Refusal>>,
    /// Groups of pieces that are tried, the last first. All that is in none of them waits.
    candidates: Vec<BTreeSet<ChunkKey>>,
    /// Refusals in a row.
    consecutive_nacks: u32,
    /// Whether nothing stands for parts that are new and not tried yet, because that may be bad.
    without_fallbacks: bool,
    /// Whole offers that were refused, and why. They are not sent again.
    rejected_offers: BTreeMap<String, String>,
    /// Pieces that were tried again beside others than the first time.
    retried: BTreeSet<(ChunkKey, String)>,
    /// A refusal for which no piece can be found.
    whole: Option<Refusal>,
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
            if is_same && self.candidates.is_empty() && self.has_to_tell(&offer) {
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

    /// Whether parts were refused since something was accepted last: that has to stand in the version, so that nobody who
    /// is told it sends them again.
    fn has_to_tell(&self, offer: &Offer) -> bool {
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
        let refusal = |version: &str| Refusal {
            version: version.to_owned(),
            message: message.to_owned(),
            beside: self.accepted.version.clone(),
        };
        let differing = offer.chunks.iter().filter(|(key, chunk)| self.differs(key, chunk));
        let is_stand_in = |(key, chunk): &(&ChunkKey, &Chunk)| {
            let is_tried = group.as_ref().is_none_or(|group| group.contains(*key));
            !is_tried && self.target.chunks.get(*key).is_some_and(|wanted| wanted.version() != chunk.version())
        };
        let (stand_ins, changed): (Vec<_>, Vec<_>) = differing.partition(is_stand_in);
        match changed.as_slice() {
            [] => self.whole = Some(refusal(&offer.version)),
            // Before one is blamed: what stands for others may be bad itself.
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
    /// exchange a name. Beside others than the first time it is tried once more.
    fn retry_refused(&mut self) -> bool {
        let mut group = BTreeSet::new();
        for (key, wanted) in self.target.chunks.iter().filter(|(key, _)| key.part.is_some()) {
            let version = wanted.version();
            let is_due = |refusal: &Refusal| refusal.version == version && refusal.beside != self.accepted.version;
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
                // A new part that is not tried yet keeps its names from everybody else.
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

    /// What is to stand at a key in the end.
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

    /// Whether the other side has exactly what is wanted.
    pub(crate) fn is_in_sync(&self) -> bool {
        let is_same = || self.accepted.version == self.target.version || self.accepted.is_same(&self.target);
        !self.unknown && is_same()
    }

    /// What is refused as it is wanted: pieces, or everything, if no piece was found that is at fault.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = (Option<&ChunkKey>, &Refusal)> {
        let whole = self.whole.iter().map(|refusal| (None, refusal));
        whole.chain(self.refused().map(|(key, refusal)| (Some(key), refusal)))
    }

    /// Whether a bad piece is being looked for.
    pub(crate) fn is_searching(&self) -> bool {
        !self.candidates.is_empty()
    }

    /// Whether this version is wanted already.
    pub(crate) fn has_target(&self, version: &str) -> bool {
        self.target.version == version
    }

    /// What the other side has, if it has something and that is known.
    pub(crate) fn last_accepted(&self) -> Option<&Offer> {
        Some(&self.accepted).filter(|accepted| !self.unknown && !accepted.chunks.is_empty())
    }

    /// Where the other side stands with a version of a piece.
    pub(crate) fn standing(&self, key: &ChunkKey, version: &str) -> Standing {
        let refusal = self.refused.get(key).and_then(|all| all.iter().find(|refusal| refusal.version == version));
        match refusal {
            Some(refusal) => Standing::Refused { message: refusal.message.clone() },
            None if self.accepted(key) == Some(version) => Standing::Acknowledged,
            None => Standing::Pending,
        }
    }

    /// Pieces that are refused as they are wanted.
    pub(crate) fn refused(&self) -> impl Iterator<Item = (&ChunkKey, &Refusal)> {
        let is_wanted = |key: &ChunkKey, refusal: &Refusal| {
            self.target.chunks.get(key).is_some_and(|chunk| chunk.version() == refusal.version)
        };
        let all = self.refused.iter().flat_map(|(key, all)| all.iter().map(move |one| (key, one)));
        all.filter(move |(key, refusal)| is_wanted(key, refusal))
    }

    /// The version of a piece that the other side is known to have.
    pub(crate) fn accepted(&self, key: &ChunkKey) -> Option<&str> {
        self.accepted.chunks.get(key).map(Chunk::version)
    }
}

/// What may stand at a key, the best first.
fn alternatives(wanted: &Chunk) -> impl Iterator<Item = &Chunk> {
    std::iter::once(wanted).chain(wanted.fallback())
}

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
use crate::piece::{Key, Piece, Pieces};

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
    strange: BTreeSet<String>,
    /// Single pieces that were found bad.
    refused: BTreeMap<Key, Vec<Refusal>>,
    /// Groups of pieces that are tried, the last first. All that is in none of them waits.
    suspects: Vec<BTreeSet<Key>>,
    /// Refusals in a row.
    strikes: u32,
    /// Whether nothing stands for parts that are new and not tried yet, because that may be bad.
    bare: bool,
    /// Whole offers that were refused, and why. They are not sent again.
    barred: BTreeMap<String, String>,
    /// Pieces that were tried again beside others than the first time.
    retried: BTreeSet<(Key, String)>,
    /// A refusal for which no piece can be found.
    whole: Option<Refusal>,
}

impl Quarantine {
    /// Says what is wanted now.
    pub(crate) fn aim(&mut self, target: Offer) {
        if target.version == self.target.version {
            return;
        }
        self.target = target;
        self.barred.clear();
        self.whole = None;
        self.bare = false;
        let is_current = |key: &Key, version: &str| {
            let wanted = self.target.pieces.get(key);
            wanted.is_some_and(|wanted| candidates(wanted).any(|piece| piece.version() == version))
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
            if is_same && self.suspects.is_empty() && self.has_to_tell(&offer) {
                return Some(offer);
            }
            let barred = self.barred.get(offer.hash()).filter(|_| !is_same).cloned();
            if !is_same && barred.is_none() {
                return Some(offer);
            }
            match barred {
                Some(message) if !self.suspects.is_empty() => self.on_nack(&offer, &message),
                _ if self.suspects.pop().is_some() || self.second_chance() => {}
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
        let has_parts = offer.pieces.keys().any(|key| key.part.is_some());
        !self.unknown && has_parts && offer.left_out() != self.accepted.left_out() && !offer.left_out().is_empty()
    }

    pub(crate) fn on_ack(&mut self, offer: Offer) {
        self.strikes = 0;
        self.unknown = false;
        self.whole = None;
        self.accepted = offer;
        self.suspects.pop();
    }

    pub(crate) fn on_nack(&mut self, offer: &Offer, message: &str) {
        self.barred.insert(offer.hash().to_owned(), message.to_owned());
        let group = self.suspects.pop();
        self.strikes += 1;
        let refusal = |version: &str| Refusal {
            version: version.to_owned(),
            message: message.to_owned(),
            beside: self.accepted.version.clone(),
        };
        let differing = offer.pieces.iter().filter(|(key, piece)| self.differs(key, piece));
        let is_stand_in = |(key, piece): &(&Key, &Piece)| {
            let is_tried = group.as_ref().is_none_or(|group| group.contains(*key));
            !is_tried && self.target.pieces.get(*key).is_some_and(|wanted| wanted.version() != piece.version())
        };
        let (stand_ins, changed): (Vec<_>, Vec<_>) = differing.partition(is_stand_in);
        match changed.as_slice() {
            [] => self.whole = Some(refusal(&offer.version)),
            // Before one is blamed: what stands for others may be bad itself.
            [_] if !stand_ins.is_empty() => {
                self.bare = true;
                self.suspects.extend(group);
            }
            [(key, piece)] => {
                let refusal = refusal(piece.version());
                if group.is_none() {
                    self.retried.insert(((*key).clone(), piece.version().to_owned()));
                }
                self.bare = false;
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
    fn suspect(&mut self, keys: Vec<Key>, message: &str) {
        let has_parts = |base: &Key| keys.iter().any(|key| key.part.is_some() && key.resource == base.resource);
        let is_base = |key: &Key| key.part.is_none() && !self.accepted.pieces.contains_key(key) && has_parts(key);
        let (bases, others): (Vec<_>, Vec<_>) = keys.iter().cloned().partition(is_base);
        let (first, second) = offer::split(if others.is_empty() { &bases } else { &others }, message);
        self.suspects.extend([second, first].into_iter().filter(|group| !group.is_empty()));
        if !others.is_empty() && !bases.is_empty() && (self.strikes > 1 || others.len() == 1) {
            self.suspects.push(bases.into_iter().collect());
        }
    }

    /// A part that was refused alone in a trial may have been refused because of another part that was wrong or missing, like two that
    /// exchange a name. Beside others than the first time it is tried once more.
    fn second_chance(&mut self) -> bool {
        let mut group = BTreeSet::new();
        for (key, wanted) in self.target.pieces.iter().filter(|(key, _)| key.part.is_some()) {
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
            let wanted = self.target.pieces.get(key).map(Piece::version);
            self.refused.entry(key.clone()).or_default().retain(|refusal| Some(refusal.version.as_str()) != wanted);
        }
        self.suspects.push(group);
        if self.barred.contains_key(self.compose().hash()) {
            self.suspects.pop();
            self.refused = before;
            return false;
        }
        true
    }

    fn compose(&self) -> Offer {
        if !self.unknown && self.accepted.version == self.target.version {
            return self.accepted.clone();
        }
        let mut pieces = Pieces::new();
        for (key, wanted) in &self.target.pieces {
            let accepted = self.accepted.pieces.get(key);
            let resolved = self.resolve(key, wanted);
            let is_change = resolved.map(Piece::version) != accepted.map(Piece::version);
            let chosen = if !is_change || self.is_tried(key) {
                resolved
            } else {
                // A new part that is not tried yet keeps its names from everybody else.
                accepted.or_else(|| wanted.instead().filter(|one| !self.bare && !self.is_refused(key, one.version())))
            };
            // Parts of what is not there are nothing.
            let stands_alone = key.part.is_none() || pieces.contains_key(&Key::whole(&key.resource));
            if let Some(chosen) = chosen.filter(|_| stands_alone) {
                pieces.insert(key.clone(), chosen.clone());
            }
        }
        Offer::of(pieces, &self.target, self.refused.values().flatten().map(|refusal| refusal.version.as_str()))
    }

    /// What is to stand at a key in the end.
    fn resolve<'a>(&'a self, key: &Key, wanted: &'a Piece) -> Option<&'a Piece> {
        let is_good = |piece: &&Piece| !self.is_refused(key, piece.version());
        Some(wanted)
            .filter(is_good)
            .or_else(|| self.accepted.pieces.get(key))
            .or_else(|| wanted.instead().filter(is_good))
    }

    fn is_tried(&self, key: &Key) -> bool {
        let Some(group) = self.suspects.last() else { return true };
        let is_new_base = || key.part.is_none() && !self.accepted.pieces.contains_key(key);
        group.contains(key) || (is_new_base() && group.iter().any(|other| other.resource == key.resource))
    }

    fn differs(&self, key: &Key, piece: &Piece) -> bool {
        self.accepted.pieces.get(key).is_none_or(|accepted| accepted.version() != piece.version())
    }

    fn is_refused(&self, key: &Key, version: &str) -> bool {
        self.refused.get(key).is_some_and(|refusals| refusals.iter().any(|refusal| refusal.version == version))
    }

    /// Whether the other side has exactly what is wanted.
    pub(crate) fn is_in_sync(&self) -> bool {
        let is_same = || self.accepted.version == self.target.version || self.accepted.is_same(&self.target);
        !self.unknown && is_same()
    }

    /// What is refused as it is wanted: pieces, or everything, if no piece was found that is at fault.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = (Option<&Key>, &Refusal)> {
        let whole = self.whole.iter().map(|refusal| (None, refusal));
        whole.chain(self.refused().map(|(key, refusal)| (Some(key), refusal)))
    }

    /// Whether a bad piece is being looked for.
    pub(crate) fn is_searching(&self) -> bool {
        !self.suspects.is_empty()
    }

    /// Whether this version is wanted already.
    pub(crate) fn is_aimed_at(&self, version: &str) -> bool {
        self.target.version == version
    }

    /// What the other side has, if it has something and that is known.
    pub(crate) fn last_accepted(&self) -> Option<&Offer> {
        Some(&self.accepted).filter(|accepted| !self.unknown && !accepted.pieces.is_empty())
    }

    /// Where the other side stands with a version of a piece.
    pub(crate) fn standing(&self, key: &Key, version: &str) -> Standing {
        let refusal = self.refused.get(key).and_then(|all| all.iter().find(|refusal| refusal.version == version));
        match refusal {
            Some(refusal) => Standing::Refused { message: refusal.message.clone() },
            None if self.accepted(key) == Some(version) => Standing::Acknowledged,
            None => Standing::Pending,
        }
    }

    /// Pieces that are refused as they are wanted.
    pub(crate) fn refused(&self) -> impl Iterator<Item = (&Key, &Refusal)> {
        let is_wanted = |key: &Key, refusal: &Refusal| {
            self.target.pieces.get(key).is_some_and(|piece| piece.version() == refusal.version)
        };
        let all = self.refused.iter().flat_map(|(key, all)| all.iter().map(move |one| (key, one)));
        all.filter(move |(key, refusal)| is_wanted(key, refusal))
    }

    /// The version of a piece that the other side is known to have.
    pub(crate) fn accepted(&self, key: &Key) -> Option<&str> {
        self.accepted.pieces.get(key).map(Piece::version)
    }
}

/// What may stand at a key, the best first.
fn candidates(wanted: &Piece) -> impl Iterator<Item = &Piece> {
    std::iter::once(wanted).chain(wanted.instead())
}

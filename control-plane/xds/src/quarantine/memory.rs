//! What the other side has from an earlier conversation, as far as a version tells it.

use std::collections::BTreeSet;

use super::offer::{self, Offer, Told};
use super::{Quarantine, Refusal, candidates};
use crate::piece::{Key, Piece, Pieces};

impl Quarantine {
    /// The other side has something already, of this version, from an earlier conversation.
    pub(crate) fn resume(&mut self, version: &str) {
        let told = Told::read(version);
        for (key, wanted) in &self.target.pieces {
            for piece in candidates(wanted).filter(|piece| told.refused.contains(offer::short(piece.version()))) {
                let message = "refused before this conversation".to_owned();
                let refusal = Refusal { version: piece.version().to_owned(), message, beside: String::new() };
                self.retried.insert((key.clone(), piece.version().to_owned()));
                self.refused.entry(key.clone()).or_default().push(refusal);
            }
        }
        let offer = self.compose();
        self.unknown = offer.version != told.version;
        self.accepted = if self.unknown { self.recognise(&told) } else { offer };
        let known: BTreeSet<String> =
            self.accepted.pieces.iter().map(|(key, piece)| offer::digest(key, piece)).collect();
        let strange = told.made_of.iter().filter(|one| self.unknown && !known.contains(**one));
        self.strange = strange.map(|one| offer::place_of(one).to_owned()).collect();
    }

    /// What is known of what the other side has.
    fn recognise(&self, told: &Told<'_>) -> Offer {
        let known = |(key, wanted): (&Key, &Piece)| {
            let has = |piece: &&Piece| told.made_of.contains(offer::digest(key, piece).as_str());
            Some((key.clone(), candidates(wanted).find(has)?.clone()))
        };
        let pieces: Pieces = self.target.pieces.iter().filter_map(known).collect();
        Offer { version: String::new(), pieces }
    }

    /// Whether an offer would only take away what is not known: pieces that stand for others that are refused as they are
    /// wanted. That can wait until something else changes.
    pub(super) fn only_takes_away(&self, offer: &Offer) -> bool {
        let stands_in = |key: &Key, piece: &Piece| {
            let wanted = self.target.pieces.get(key);
            wanted.is_some_and(|wanted| wanted.version() != piece.version() && self.is_refused(key, wanted.version()))
        };
        let mut others = offer.pieces.iter().filter(|(key, piece)| self.differs(key, piece)).peekable();
        let mut places: BTreeSet<String> = BTreeSet::new();
        let is_spared = others.peek().is_some()
            && others.all(|(key, piece)| {
                places.insert(offer::place(key));
                stands_in(key, piece)
            });
        let removes = self.accepted.pieces.keys().any(|key| !offer.pieces.contains_key(key));
        is_spared && !removes && self.strange == places
    }
}

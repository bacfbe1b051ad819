//! What the other side has from an earlier conversation, as far as a version tells it.

use std::collections::BTreeSet;

use super::offer::{self, Offer, ReportedVersion};
use super::{Quarantine, Refusal, alternatives};
use crate::resource::{Chunk, ChunkKey, Chunks};

impl Quarantine {
    /// The other side has something already, of this version, from an earlier conversation.
    pub(crate) fn resume(&mut self, version: &str) {
        let told = ReportedVersion::read(version);
        for (key, wanted) in &self.target.chunks {
            for chunk in alternatives(wanted).filter(|chunk| told.refused.contains(offer::short(chunk.version()))) {
                let message = "refused before this conversation".to_owned();
                let refusal = Refusal { version: chunk.version().to_owned(), message, beside: String::new() };
                self.retried.insert((key.clone(), chunk.version().to_owned()));
                self.refused.entry(key.clone()).or_default().push(refusal);
            }
        }
        let offer = self.compose();
        self.unknown = offer.version != told.version;
        self.accepted = if self.unknown { self.recognise(&told) } else { offer };
        let known: BTreeSet<String> =
            self.accepted.chunks.iter().map(|(key, chunk)| offer::digest(key, chunk)).collect();
        let unknown_places = told.made_of.iter().filter(|one| self.unknown && !known.contains(**one));
        self.unknown_places = unknown_places.map(|one| offer::place_of(one).to_owned()).collect();
    }

    /// What is known of what the other side has.
    fn recognise(&self, told: &ReportedVersion<'_>) -> Offer {
        let known = |(key, wanted): (&ChunkKey, &Chunk)| {
            let has = |chunk: &&Chunk| told.made_of.contains(offer::digest(key, chunk).as_str());
            Some((key.clone(), alternatives(wanted).find(has)?.clone()))
        };
        let chunks: Chunks = self.target.chunks.iter().filter_map(known).collect();
        Offer { version: String::new(), chunks }
    }

    /// Whether an offer would only take away what is not known: pieces that stand for others that are refused as they are
    /// wanted. That can wait until something else changes.
    pub(super) fn only_takes_away(&self, offer: &Offer) -> bool {
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

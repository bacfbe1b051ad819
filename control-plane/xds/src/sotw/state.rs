use std::collections::{BTreeMap, BTreeSet};

use envoy_types::pb::envoy::service::discovery::v3::DiscoveryRequest;

use crate::hash::Hash;
use crate::kind::Kind;
use crate::piece::{Body, Key, Piece, Pieces, add_pieces, bodies};
use crate::quarantine::{Hold, Offer, Quarantine};
use crate::wait::Wait;
use crate::{Refused, Resource, Snapshot, Standing, TypeStatus};

/// A response's content.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// What the other side has when it accepts.
    pub(super) offer: Offer,
    /// What is sent of it: name and body.
    pub(super) bodies: BTreeMap<String, Body>,
    /// Names of what the other side does not have like this.
    pub(super) changed: BTreeSet<String>,
}

#[derive(Debug)]
struct InFlight {
    offer: Offer,
    /// Whose resources it changes, and whose it removes.
    busy: (Wait, Wait),
}

/// One type of one stream.
#[derive(Debug, Default)]
pub(super) struct State {
    kind: Option<Kind>,
    wildcard: bool,
    names: BTreeSet<String>,
    /// The version that the other side says it has, until it is looked at.
    resume: Option<String>,
    /// Whether the other side had something of this type before this stream.
    resumed: bool,
    /// The nonce of the last response.
    nonce: String,
    in_flight: Option<InFlight>,
    /// Names that are sent with the next response, even if they did not change.
    touched: BTreeSet<String>,
    /// A first answer is owed, even if it is empty: the other side waits for it.
    owes_answer: bool,
    quarantine: Quarantine,
    /// Snapshot and names that the quarantine aims at.
    aim: Option<(String, BTreeSet<String>)>,
    /// Whose resources are to be sent and whose are to go.
    waiting: (Wait, Wait),
    status: TypeStatus,
}

impl State {
    pub(super) fn on_request(&mut self, request: DiscoveryRequest) {
        let kind = Kind::of(&request.type_url);
        let is_first = self.kind.replace(kind).is_none();
        if is_first {
            self.wildcard = request.resource_names.is_empty() && kind.allows_wildcard();
            self.owes_answer = request.version_info.is_empty() && kind.allows_wildcard();
            self.resumed = !request.version_info.is_empty();
            // Of other types it may have dropped what it asks for again, and still tell the version.
            self.resume = Some(request.version_info).filter(|version| !version.is_empty() && kind.allows_wildcard());
        } else if request.response_nonce != self.nonce {
            // Said before it saw the last response; it will say so again.
            return;
        } else if let Some(in_flight) = self.in_flight.take() {
            match request.error_detail {
                Some(error) => {
                    self.status.nack = Some(error.message.clone());
                    self.quarantine.on_nack(&in_flight.offer, &error.message);
                }
                None => {
                    self.status.acked.clone_from(&in_flight.offer.version);
                    self.quarantine.on_ack(in_flight.offer);
                }
            }
        }
        let (wild, names): (Vec<_>, Vec<_>) = request.resource_names.into_iter().partition(|name| name == "*");
        self.wildcard |= !wild.is_empty() && kind.allows_wildcard();
        let names: BTreeSet<_> = names.into_iter().collect();
        self.touched.extend(names.difference(&self.names).filter(|_| !is_first || self.resume.is_none()).cloned());
        self.names = names;
    }

    /// Has a resource sent again.
    pub(super) fn touch(&mut self, name: &str) {
        if self.names.contains(name) {
            self.touched.insert(name.to_owned());
        }
    }

    /// Whether what is not sent is gone.
    fn is_full(&self) -> bool {
        self.kind.is_some_and(Kind::allows_wildcard)
    }

    /// Follows the snapshot and the names, before anything else is asked.
    pub(super) fn refresh(&mut self, snapshot: &Snapshot, type_url: &str) {
        let aim = (snapshot.type_version(type_url).to_owned(), self.names.clone());
        let is_newer = self.aim.as_ref() != Some(&aim);
        if self.in_flight.is_some() {
            if is_newer {
                // What will be sent behind the answer, nobody has looked at yet.
                self.waiting = (Wait::Everybody, Wait::Everybody);
            }
            return;
        }
        if is_newer {
            self.quarantine.aim(self.target(snapshot, type_url));
            self.aim = Some(aim);
        }
        if let Some(version) = self.resume.take() {
            let left = snapshot.retired(type_url).map(|(name, resource)| (Key::whole(name), Piece::whole(resource)));
            self.quarantine.resume(&version, left.collect());
            if !self.is_full() {
                self.quarantine.forget_unknown();
            }
        }
        self.waiting = self.quarantine.waiting();
    }

    fn target(&self, snapshot: &Snapshot, type_url: &str) -> Offer {
        let mut pieces = Pieces::new();
        let mut hash = Hash::default();
        let mut add = |name: &String, resource: &Resource| {
            add_pieces(&mut pieces, name, resource);
            hash.add(name);
            hash.add(resource.version());
        };
        let names: Vec<_> =
            if self.wildcard { snapshot.names(type_url).collect() } else { self.names.iter().collect() };
        for name in names {
            // What others hold is never sent, and of these types what is not told stays as it is.
            if let Some(resource) = snapshot.get(type_url, name).filter(|resource| !resource.is_held()) {
                add(name, resource);
            }
        }
        Offer::wanted(&hash.finish(), pieces)
    }

    /// What is to be sent now, if anything may be.
    pub(super) fn next_change(&mut self, updates: Wait, removals: Wait) -> Option<Change> {
        if self.in_flight.is_some() || self.kind.is_none() {
            return None;
        }
        let is_open = updates == Wait::Nobody;
        // Of types that are told in parts, what goes is not told.
        let hold = Hold { updates, removals: if self.is_full() { removals } else { Wait::Nobody } };
        let offer = self.quarantine.next(&hold);
        self.forget_nack();
        let offer = offer.or_else(|| {
            let is_owed = self.owes_answer && is_open && self.is_full();
            (is_owed || self.has_touched()).then(|| self.quarantine.last().clone())
        })?;
        let changed: BTreeSet<String> = self.quarantine.changed(&offer).map(str::to_owned).collect();
        let is_sent = |name: &str| self.is_full() || changed.contains(name) || self.touched.contains(name);
        let bodies: BTreeMap<_, _> = bodies(&offer.pieces)
            .into_iter()
            .filter(|(name, _)| is_sent(name))
            .map(|(name, body)| (name.to_owned(), body))
            .collect();
        self.touched.retain(|name| self.names.contains(name) && !bodies.contains_key(name));
        if bodies.is_empty() && !self.is_full() {
            self.quarantine.on_ack(offer);
            return None;
        }
        Some(Change { offer, bodies, changed })
    }

    /// Whether something is to be sent again that the other side is known to take.
    fn has_touched(&self) -> bool {
        let has = |name: &String| self.quarantine.accepted(&Key::whole(name)).is_some();
        self.quarantine.is_known() && self.touched.iter().any(has)
    }

    fn forget_nack(&mut self) {
        if self.quarantine.refusals().next().is_none() && !self.quarantine.is_searching() {
            self.status.nack = None;
        }
    }

    pub(super) fn sent(&mut self, nonce: &str, change: &Change) {
        self.owes_answer = false;
        self.nonce = nonce.to_owned();
        self.status.sent.clone_from(&change.offer.version);
        let busy = self.quarantine.changes(&change.offer);
        self.in_flight = Some(InFlight { offer: change.offer.clone(), busy });
    }

    /// The number of the response without an answer.
    pub(super) fn unanswered(&self) -> Option<u64> {
        self.in_flight.as_ref().and_then(|_| self.nonce.parse().ok())
    }

    /// How many names are remembered.
    pub(super) fn burden(&self) -> usize {
        self.names.len()
    }

    /// The nonce of the last response.
    #[cfg(test)]
    pub(super) fn nonce(&self) -> &str {
        &self.nonce
    }

    /// Whether the other side had something of this type before this stream.
    pub(super) fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Whether the other side has nothing of this type.
    pub(super) fn knows_nothing(&self) -> bool {
        self.quarantine.is_known() && self.quarantine.last().pieces.is_empty()
    }

    /// Whose resources are changing: what refers to them has to wait.
    pub(super) fn updating(&self) -> Wait {
        let under_way = self.in_flight.as_ref().map_or(Wait::Nobody, |in_flight| in_flight.busy.0.clone());
        under_way.and(self.waiting.0.clone())
    }

    /// Whose resources are not as they are wanted.
    pub(super) fn out_of_sync(&self) -> Wait {
        let under_way = self.in_flight.as_ref().map_or(Wait::Nobody, |in_flight| in_flight.busy.1.clone());
        let owed = if self.owes_answer { Wait::Everybody } else { Wait::Nobody };
        let refused = self.quarantine.refusals().map(|(key, _)| match key {
            Some(key) => Wait::for_owner(self.quarantine.owner(key)),
            None => Wait::Everybody,
        });
        let going = if self.is_full() { self.waiting.1.clone().and(under_way) } else { Wait::Nobody };
        refused.fold(self.updating().and(going).and(owed), Wait::and)
    }

    pub(super) fn is_in_sync(&self) -> bool {
        self.in_flight.is_none() && !self.owes_answer && self.quarantine.is_in_sync()
    }

    /// What is refused of the snapshot.
    pub(super) fn refused(&self, snapshot: &Snapshot, type_url: &str) -> impl Iterator<Item = Refused> {
        self.quarantine.refusals().map(move |(key, refusal)| {
            let name = key.map(|key| key.resource.clone()).unwrap_or_default();
            let owner = || snapshot.get(type_url, &name).and_then(Resource::owner).map(str::to_owned);
            Refused {
                type_url: type_url.to_owned(),
                version: refusal.version.clone(),
                message: refusal.message.clone(),
                owner: key.and_then(|key| key.part.clone()).or_else(owner),
                name,
            }
        })
    }

    /// Owners of what is refused and of which the other side has no other version.
    pub(super) fn lacking(&self) -> impl Iterator<Item = &str> {
        let lacking = self.quarantine.refused().filter(|(key, _)| self.quarantine.accepted(key).is_none());
        lacking.filter_map(|(key, _)| self.quarantine.owner(key))
    }

    /// Whether the other side has something of an owner.
    pub(super) fn has_of(&self, owner: &str) -> bool {
        self.quarantine.last().pieces.values().any(|piece| piece.owner() == Some(owner))
    }

    /// Where the other side stands with a piece.
    pub(super) fn standing(&self, key: &Key, version: &str) -> Standing {
        self.quarantine.standing(key, version)
    }

    pub(super) fn status(&self) -> TypeStatus {
        self.status.clone()
    }
}

//! The names with the most requests in bounded memory: the space-saving sketch of Metwally, Agrawal and El Abbadi (2005).
//!
//! A name that finds no room takes the place of the one with the fewest requests, and its count: it can have had that many
//! before. A count is therefore never too low, and too high by at most what it took over (`error`), which is at most all requests
//! divided by the number of places; a name with more requests than that is always there.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use portcullis_filter_config::activity::{OTHER, Talker};

/// Numbers of the requests of one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    pub(crate) requests: u64,
    /// Lists and watches.
    pub(crate) lists: u64,
    /// Bytes of answers.
    pub(crate) bytes: u64,
    /// Requests that the gateway refused.
    pub(crate) refusals: u64,
}

impl Amounts {
    pub(super) fn add(&mut self, more: Amounts) {
        let Amounts { requests, lists, bytes, refusals } = more;
        self.requests = self.requests.saturating_add(requests);
        self.lists = self.lists.saturating_add(lists);
        self.bytes = self.bytes.saturating_add(bytes);
        self.refusals = self.refusals.saturating_add(refusals);
    }

    fn without(self, part: Amounts) -> Amounts {
        Amounts {
            requests: self.requests.saturating_sub(part.requests),
            lists: self.lists.saturating_sub(part.lists),
            bytes: self.bytes.saturating_sub(part.bytes),
            refusals: self.refusals.saturating_sub(part.refusals),
        }
    }
}

/// Names with their counts, as many as have room.
#[derive(Debug, Default)]
pub(super) struct Sketch {
    places: Vec<SketchEntry>,
    by_name: HashMap<Arc<str>, usize>,
    /// Requests and number of each place.
    order: BTreeSet<(u64, usize)>,
    /// Everything that was counted. The requests of all places are as many, as long as no name is [`OTHER`].
    total: Amounts,
    /// The most requests of a name that was given up for want of room: a name that comes can have had that many before.
    floor: u64,
}

#[derive(Debug)]
struct SketchEntry {
    name: Arc<str>,
    amounts: Amounts,
    error: u64,
}

impl Sketch {
    /// Counts amounts of a name. `has_room` says whether one more may be kept beside that many.
    pub(super) fn count(&mut self, name: &str, amounts: Amounts, has_room: impl FnOnce(usize) -> bool) {
        self.total.add(amounts);
        // A client of the same name as the rest counts there: two entries of one name would be an error to readers.
        if name == OTHER {
            return;
        }
        if let Some(place) = self.by_name.get(name).copied() {
            self.change(place, |place| place.amounts.add(amounts));
        } else if amounts.requests == 0 {
            // The end of a request whose name was displaced since it began.
        } else if has_room(self.places.len()) {
            self.insert(name, amounts);
        } else if let Some((fewest, place)) = self.order.first().copied() {
            self.displace((fewest, place), name, amounts);
        }
    }

    fn insert(&mut self, name: &str, amounts: Amounts) {
        let (name, place, error) = (Arc::from(name), self.places.len(), self.floor);
        let amounts = Amounts { requests: error.saturating_add(amounts.requests), ..amounts };
        self.by_name.insert(Arc::clone(&name), place);
        self.order.insert((amounts.requests, place));
        self.places.push(SketchEntry { name, amounts, error });
    }

    /// Gives a place to another name, with the requests of the one that had it. The rest of its amounts is forgotten: for the new
    /// name they are counted from now on.
    fn displace(&mut self, (fewest, place): (u64, usize), name: &str, amounts: Amounts) {
        let name: Arc<str> = Arc::from(name);
        let Some(displaced) = self.places.get(place).map(|place| Arc::clone(&place.name)) else { return };
        self.by_name.remove(&displaced);
        self.by_name.insert(Arc::clone(&name), place);
        self.change(place, |place| {
            place.name = name;
            place.error = fewest;
            place.amounts = Amounts { requests: fewest.saturating_add(amounts.requests), ..amounts };
        });
    }

    /// Gives up the names with the fewest requests until only so many are left, and returns how many it gave up. Their requests
    /// stay in the rest.
    pub(super) fn shrink(&mut self, places: usize) -> usize {
        let surplus = self.places.len().saturating_sub(places);
        if surplus == 0 {
            return 0;
        }
        let given_up: BTreeSet<usize> = self.order.iter().take(surplus).map(|(_, number)| *number).collect();
        let most = self.order.iter().take(surplus).next_back().map_or(0, |(requests, _)| *requests);
        self.floor = self.floor.max(most);
        let all = std::mem::take(&mut self.places).into_iter().enumerate();
        self.places = all.filter(|(number, _)| !given_up.contains(number)).map(|(_, place)| place).collect();
        let numbered = || self.places.iter().enumerate();
        self.by_name = numbered().map(|(number, place)| (Arc::clone(&place.name), number)).collect();
        self.order = numbered().map(|(number, place)| (place.amounts.requests, number)).collect();
        surplus
    }

    fn change(&mut self, number: usize, change: impl FnOnce(&mut SketchEntry)) {
        let Some(place) = self.places.get_mut(number) else { return };
        let before = place.amounts.requests;
        change(place);
        let after = place.amounts.requests;
        if before != after {
            self.order.remove(&(before, number));
            self.order.insert((after, number));
        }
    }

    /// The names with the most requests, most first, and the rest.
    pub(super) fn top(&self, shown: usize) -> Vec<Talker> {
        let most = self.order.iter().rev().take(shown).filter_map(|(_, place)| self.places.get(*place));
        let mut rest = self.total;
        let mut talkers: Vec<_> = most
            .map(|place| {
                rest = rest.without(place.amounts);
                talker(&place.name, place.amounts, place.error)
            })
            .collect();
        if rest != Amounts::default() {
            talkers.push(talker(OTHER, rest, 0));
        }
        talkers
    }
}

fn talker(name: &str, amounts: Amounts, error: u64) -> Talker {
    let Amounts { requests, lists, bytes, refusals } = amounts;
    Talker { name: name.to_owned(), requests, error, lists, bytes, refusals }
}

//! Who waits for the end of its TLS handshake, and who has to give way to a newcomer.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use super::limits::Limits;

/// Where somebody comes from: whoever has one address of an IPv6 network usually has all of its last 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Source(IpAddr);

impl Source {
    pub(super) fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        })
    }
}

/// Handshakes under way. `T` is what ends one.
#[derive(Debug)]
pub(super) struct PendingHandshakes<T> {
    total: usize,
    per_source: usize,
    next: u64,
    /// In the order in which they came.
    guests: BTreeMap<u64, PendingHandshake<T>>,
}

#[derive(Debug)]
struct PendingHandshake<T> {
    source: Source,
    has_spoken: bool,
    handle: T,
}

impl<T> PendingHandshakes<T> {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            total: limits.handshakes.max(1),
            per_source: limits.handshakes_per_source.max(1),
            next: 0,
            guests: BTreeMap::new(),
        }
    }

    /// Lets a newcomer in. Returns its number, and who has to go for it.
    pub(super) fn enter(&mut self, source: Source, handle: impl FnOnce(u64) -> T) -> Option<T> {
        let number = self.next;
        self.next += 1;
        let crowded = if self.count(source) >= self.per_source {
            Some(source)
        } else if self.guests.len() >= self.total {
            self.largest()
        } else {
            None
        };
        let leaves = crowded.and_then(|source| self.oldest_of(source));
        let gone = leaves.and_then(|number| self.guests.remove(&number));
        self.guests.insert(number, PendingHandshake { source, has_spoken: false, handle: handle(number) });
        gone.map(|guest| guest.handle)
    }

    /// A whole first message came: it is no longer silent.
    pub(super) fn mark_spoken(&mut self, number: u64) {
        if let Some(guest) = self.guests.get_mut(&number) {
            guest.has_spoken = true;
        }
    }

    /// Its handshake is over.
    pub(super) fn leave(&mut self, number: u64) {
        self.guests.remove(&number);
    }

    /// Makes room where the system has none left.
    pub(super) fn make_room(&mut self) -> Option<T> {
        let number = self.oldest_of(self.largest()?)?;
        self.guests.remove(&number).map(|guest| guest.handle)
    }

    fn count(&self, source: Source) -> usize {
        self.guests.values().filter(|guest| guest.source == source).count()
    }

    /// Who has most handshakes under way; of several who has waited longest in silence.
    fn largest(&self) -> Option<Source> {
        let mut counts: BTreeMap<Source, usize> = BTreeMap::new();
        self.guests.values().for_each(|guest| *counts.entry(guest.source).or_default() += 1);
        let most = counts.values().max().copied()?;
        let is_largest = |guest: &&PendingHandshake<T>| counts.get(&guest.source) == Some(&most);
        let candidates = || self.guests.values().filter(is_largest);
        candidates().find(|guest| !guest.has_spoken).or_else(|| candidates().next()).map(|guest| guest.source)
    }

    /// The oldest of a source, silent ones first.
    fn oldest_of(&self, source: Source) -> Option<u64> {
        let own = || self.guests.iter().filter(|(_, guest)| guest.source == source);
        own().find(|(_, guest)| !guest.has_spoken).or_else(|| own().next()).map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lobby(total: usize, per_source: usize) -> PendingHandshakes<u64> {
        PendingHandshakes::new(&Limits { handshakes: total, handshakes_per_source: per_source, ..Limits::default() })
    }

    fn source(text: &str) -> Source {
        Source::of(text.parse().unwrap())
    }

    fn enter(lobby: &mut PendingHandshakes<u64>, from: &str) -> Option<u64> {
        lobby.enter(source(from), |number| number)
    }

    #[test]
    fn the_oldest_silent_one_of_the_same_source_gives_way() {
        let mut lobby = lobby(100, 3);
        assert_eq!([(); 3].map(|()| enter(&mut lobby, "192.0.2.1")), [None; 3]);
        assert_eq!(enter(&mut lobby, "192.0.2.2"), None, "others have room of their own");
        lobby.mark_spoken(0);
        assert_eq!(enter(&mut lobby, "192.0.2.1"), Some(1));
        lobby.leave(2);
        assert_eq!(enter(&mut lobby, "192.0.2.1"), None);
        lobby.mark_spoken(4);
        lobby.mark_spoken(5);
        assert_eq!(enter(&mut lobby, "192.0.2.1"), Some(0), "the oldest, if all have spoken");
    }

    #[test]
    fn who_has_most_gives_way_where_all_is_full() {
        let mut lobby = lobby(6, 4);
        for from in ["192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.2", "192.0.2.3", "192.0.2.3"] {
            assert_eq!(enter(&mut lobby, from), None);
        }
        assert_eq!(enter(&mut lobby, "192.0.2.4"), Some(1), "the one with three");
        lobby.mark_spoken(0);
        // Of 2 and 3, with two each, the one that has waited longest in silence.
        assert_eq!(enter(&mut lobby, "192.0.2.5"), Some(2));
        assert_eq!(lobby.make_room(), Some(4));
    }

    #[test]
    fn a_flood_of_addresses_leaves_whoever_speaks() {
        let mut lobby = lobby(64, 8);
        enter(&mut lobby, "192.0.2.1");
        lobby.mark_spoken(0);
        for number in 0..10_000_u32 {
            let from = IpAddr::from((0x7f00_0000 + number % 1_000).to_be_bytes());
            assert_ne!(lobby.enter(Source::of(from), |number| number), Some(0));
        }
    }

    #[test]
    fn an_ipv6_network_is_one_source() {
        for (one, other, same) in [
            ("2001:db8::1", "2001:db8::ffff:1", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("::ffff:192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
        ] {
            assert_eq!(source(one) == source(other), same, "{one} {other}");
        }
    }
}

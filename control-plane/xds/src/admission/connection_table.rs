use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// The origin of a connection: an IPv4 address, or the first 64 bits of an IPv6 address, as a client usually has all the
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceNetwork(IpAddr);

impl SourceNetwork {
    /// The origin of connections from an address.
    pub fn from_address(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        })
    }
}

/// Connections of unauthenticated clients, bounded for all and for each source. A new connection is always admitted: the
/// oldest one of the source that has most is closed for it, one without a message first. `T` closes a connection.
#[derive(Debug)]
pub struct ConnectionTable<T> {
    max_total: usize,
    max_per_source: usize,
    next: u64,
    /// In the order of their arrival.
    connections: BTreeMap<u64, Entry<T>>,
}

#[derive(Debug)]
struct Entry<T> {
    source: SourceNetwork,
    is_active: bool,
    handle: T,
}

impl<T> ConnectionTable<T> {
    /// An empty table. Each bound is at least one.
    pub fn new(max_total: usize, max_per_source: usize) -> Self {
        Self {
            max_total: max_total.max(1),
            max_per_source: max_per_source.max(1),
            next: 0,
            connections: BTreeMap::new(),
        }
    }

    /// Adds a connection; `handle` gets its number. Returns the connection to close for it.
    pub fn insert(&mut self, address: IpAddr, handle: impl FnOnce(u64) -> T) -> Option<T> {
        let source = SourceNetwork::from_address(address);
        let number = self.next;
        self.next += 1;
        let crowded = if self.count(source) >= self.max_per_source {
            Some(source)
        } else if self.connections.len() >= self.max_total {
            self.largest_source()
        } else {
            None
        };
        let oldest = crowded.and_then(|source| self.oldest_of(source));
        let closed = oldest.and_then(|number| self.connections.remove(&number));
        self.connections.insert(number, Entry { source, is_active: false, handle: handle(number) });
        closed.map(|entry| entry.handle)
    }

    /// Marks a connection on which a whole message came.
    pub fn mark_active(&mut self, number: u64) {
        if let Some(entry) = self.connections.get_mut(&number) {
            entry.is_active = true;
        }
    }

    /// Removes a connection that is closed or needs no bound any more.
    pub fn remove(&mut self, number: u64) {
        self.connections.remove(&number);
    }

    /// Removes connections that are closed.
    pub fn retain(&mut self, is_open: impl Fn(&T) -> bool) {
        self.connections.retain(|_, entry| is_open(&entry.handle));
    }

    /// Removes the connection to close where the system has no room for another one.
    pub fn evict(&mut self) -> Option<T> {
        let number = self.oldest_of(self.largest_source()?)?;
        self.connections.remove(&number).map(|entry| entry.handle)
    }

    fn count(&self, source: SourceNetwork) -> usize {
        self.connections.values().filter(|entry| entry.source == source).count()
    }

    /// The source with most connections; of several the one with the oldest, inactive ones first.
    fn largest_source(&self) -> Option<SourceNetwork> {
        let mut counts: BTreeMap<SourceNetwork, usize> = BTreeMap::new();
        self.connections.values().for_each(|entry| *counts.entry(entry.source).or_default() += 1);
        let most = counts.values().max().copied()?;
        let candidates = || self.connections.values().filter(|entry| counts.get(&entry.source) == Some(&most));
        candidates().find(|entry| !entry.is_active).or_else(|| candidates().next()).map(|entry| entry.source)
    }

    /// The oldest connection of a source, inactive ones first.
    fn oldest_of(&self, source: SourceNetwork) -> Option<u64> {
        let own = || self.connections.iter().filter(|(_, entry)| entry.source == source);
        own().find(|(_, entry)| !entry.is_active).or_else(|| own().next()).map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(table: &mut ConnectionTable<u64>, from: &str) -> Option<u64> {
        table.insert(from.parse().unwrap(), |number| number)
    }

    #[test]
    fn oldest_inactive_connection_of_the_same_source_is_closed() {
        let mut table = ConnectionTable::new(100, 3);
        assert_eq!([(); 3].map(|()| insert(&mut table, "192.0.2.1")), [None; 3]);
        assert_eq!(insert(&mut table, "192.0.2.2"), None, "another source has room of its own");
        table.mark_active(0);
        assert_eq!(insert(&mut table, "192.0.2.1"), Some(1));
        table.remove(2);
        assert_eq!(insert(&mut table, "192.0.2.1"), None);
        table.mark_active(4);
        table.mark_active(5);
        assert_eq!(insert(&mut table, "192.0.2.1"), Some(0), "the oldest, if all are active");
    }

    #[test]
    fn largest_source_gives_room_in_a_full_table() {
        let mut table = ConnectionTable::new(6, 4);
        for from in ["192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.2", "192.0.2.3", "192.0.2.3"] {
            assert_eq!(insert(&mut table, from), None);
        }
        assert_eq!(insert(&mut table, "192.0.2.4"), Some(1), "the source with three");
        table.mark_active(0);
        // Of 2 and 3, with two each, the source of the oldest inactive connection.
        assert_eq!(insert(&mut table, "192.0.2.5"), Some(2));
        assert_eq!(table.evict(), Some(4));
        table.retain(|number| *number != 0);
        assert_eq!([(); 2].map(|()| insert(&mut table, "192.0.2.6")), [None; 2], "a closed connection takes no room");
    }

    #[test]
    fn equal_sources_lose_their_oldest_connections_in_turn() {
        let mut table = ConnectionTable::new(256, 256);
        for number in 0..256_u32 {
            table.insert(std::net::Ipv4Addr::from_bits(number).into(), |number| number);
        }
        assert_eq!(insert(&mut table, "192.0.2.1"), Some(0));
        assert_eq!(insert(&mut table, "192.0.2.1"), Some(1));
        assert_eq!(insert(&mut table, "192.0.2.2"), Some(256), "of the source with two");
    }

    #[test]
    fn flood_of_addresses_closes_no_active_connection() {
        let mut table = ConnectionTable::new(64, 8);
        insert(&mut table, "192.0.2.1");
        table.mark_active(0);
        for number in 0..10_000_u32 {
            let from = IpAddr::from((0x7f00_0000 + number % 1_000).to_be_bytes());
            assert_ne!(table.insert(from, |number| number), Some(0));
        }
    }

    #[test]
    fn ipv6_network_is_one_source() {
        let source = |text: &str| SourceNetwork::from_address(text.parse().unwrap());
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

//! Sets of host patterns in an order in which those that a pattern covers come right behind it: they are found, and counted, and so are
//! those above a name, by a few comparisons, whatever the number of its labels.

use std::borrow::Borrow;
use std::cmp::Ordering;

use crate::host::HostPattern;

/// A set of host patterns.
pub(crate) struct HostIndex<H> {
    hosts: Vec<H>,
    /// Of each the place of the narrowest other one that covers it.
    above: Vec<Option<usize>>,
}

/// A dot in [`key`].
const DOT: u16 = b'.' as u16 + 1;

impl<H: Borrow<HostPattern>> HostIndex<H> {
    pub(crate) fn of(hosts: impl IntoIterator<Item = H>) -> Self {
        let mut hosts: Vec<H> = hosts.into_iter().collect();
        hosts.sort_unstable_by(|one, other| order(one.borrow(), other.borrow()));
        hosts.dedup_by(|one, other| order((*one).borrow(), (*other).borrow()) == Ordering::Equal);
        let mut above = Vec::with_capacity(hosts.len());
        // Those that cover the one before, the widest first.
        let mut open: Vec<(usize, &HostPattern)> = Vec::new();
        for (place, host) in hosts.iter().enumerate() {
            let host: &HostPattern = host.borrow();
            while open.last().is_some_and(|(_, wider)| !wider.covers(host)) {
                open.pop();
            }
            above.push(open.last().map(|(wider, _)| *wider));
            open.push((place, host));
        }
        Self { hosts, above }
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &H> {
        self.hosts.iter()
    }

    /// The place of a pattern, if it is one of them.
    pub(crate) fn place(&self, host: &HostPattern) -> Option<usize> {
        self.hosts.binary_search_by(|one| order(one.borrow(), host)).ok()
    }

    /// The narrowest one that covers these host names, or is the same.
    pub(crate) fn narrowest(&self, host: &HostPattern) -> Option<&H> {
        let end = self.hosts.partition_point(|one| order(one.borrow(), host) != Ordering::Greater);
        self.covering(end, host).next().and_then(|place| self.hosts.get(place))
    }

    /// The places of those that cover these host names and others, the narrowest first.
    pub(crate) fn wider(&self, host: &HostPattern) -> impl Iterator<Item = usize> {
        self.covering(self.first_from(host), host)
    }

    /// The narrowest one that covers these host names and others.
    pub(crate) fn narrowest_above(&self, host: &HostPattern) -> Option<&H> {
        self.wider(host).next().and_then(|place| self.hosts.get(place))
    }

    /// Those that these host names cover, the same pattern among them.
    pub(crate) fn below(&self, host: &HostPattern) -> &[H] {
        let rest = self.hosts.get(self.first_from(host)..).unwrap_or_default();
        let count = rest.partition_point(|one| host.covers(one.borrow()));
        rest.get(..count).unwrap_or_default()
    }

    /// Those of which this one is the narrowest that covers them and others.
    pub(crate) fn directly_below(&self, host: &HostPattern) -> impl Iterator<Item = &H> {
        let own = self.place(host);
        let below = self.above.iter().zip(&self.hosts).filter(move |(above, _)| own.is_some() && **above == own);
        below.map(|(_, host)| host)
    }

    /// Whether one of them has a name of these in common.
    pub(crate) fn meets(&self, host: &HostPattern) -> bool {
        let first = self.hosts.get(self.first_from(host));
        first.is_some_and(|one| host.covers(one.borrow())) || self.narrowest_above(host).is_some()
    }

    /// The place of the first one that is not before a pattern.
    fn first_from(&self, host: &HostPattern) -> usize {
        self.hosts.partition_point(|one| order(one.borrow(), host) == Ordering::Less)
    }

    /// The places of those before `end` that cover a name. Whatever is between one that covers it and the name is below that one, too.
    fn covering(&self, end: usize, host: &HostPattern) -> impl Iterator<Item = usize> {
        let above = move |place: &usize| self.above.get(*place).copied().flatten();
        let is_other = move |place: &usize| {
            let one: Option<&HostPattern> = self.hosts.get(*place).map(Borrow::borrow);
            one.is_none_or(|one| !one.covers(host))
        };
        std::iter::successors(end.checked_sub(1), above).skip_while(is_other)
    }
}

fn order(one: &HostPattern, other: &HostPattern) -> Ordering {
    key(one).cmp(key(other))
}

/// The name from its end. A wildcard is before all names below it, also before those that are no DNS names.
fn key(host: &HostPattern) -> impl Iterator<Item = u16> {
    let (name, end): (&str, &[u16]) = match host {
        HostPattern::Any => ("", &[0]),
        HostPattern::Exact(name) => (name, &[]),
        HostPattern::Wildcard(suffix) => (suffix, &[DOT, 0]),
    };
    name.bytes().rev().map(|byte| u16::from(byte) + 1).chain(end.iter().copied())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::tests::steps::{Step, steps};

    fn host() -> impl Strategy<Value = HostPattern> {
        let labels = prop::collection::vec(prop::sample::select(vec!["a", "b", "a-b", "0"]), 0..5);
        let pattern = |(labels, is_wildcard): (Vec<&str>, bool)| {
            let name = labels.join(".");
            match (labels.is_empty(), is_wildcard) {
                (true, _) => HostPattern::Any,
                (false, true) => HostPattern::Wildcard(name),
                (false, false) => HostPattern::Exact(name),
            }
        };
        (labels, any::<bool>()).prop_map(pattern)
    }

    proptest! {
        #[test]
        fn index_finds_what_all_comparisons_find(
            hosts in prop::collection::btree_set(host(), 0..20),
            asked in prop::collection::vec(host(), 1..10),
        ) {
            let index = HostIndex::of(hosts.iter().chain(hosts.iter().take(3)));
            prop_assert_eq!(index.iter().copied().collect::<BTreeSet<_>>(), hosts.iter().collect::<BTreeSet<_>>());
            for host in asked.iter().chain(&hosts) {
                let covering = |of: &HostPattern| -> Vec<&HostPattern> {
                    std::iter::once(of.clone()).chain(of.wider()).filter_map(|one| hosts.get(&one)).collect()
                };
                let wider: Vec<&HostPattern> = covering(host).into_iter().filter(|one| *one != host).collect();
                let found: Vec<&HostPattern> = index.wider(host).map(|place| index.hosts[place]).collect();
                prop_assert_eq!(&found, &wider, "above {}", host);
                prop_assert_eq!(index.narrowest(host).copied(), covering(host).first().copied(), "for {}", host);
                let below: BTreeSet<&HostPattern> = hosts.iter().filter(|one| host.covers(one)).collect();
                prop_assert_eq!(index.below(host).iter().copied().collect::<BTreeSet<_>>(), below, "below {}", host);
                let is_child = |one: &&HostPattern| covering(one).into_iter().find(|wider| wider != one) == Some(host);
                let children: BTreeSet<&HostPattern> = hosts.iter().filter(is_child).collect();
                prop_assert_eq!(index.directly_below(host).copied().collect::<BTreeSet<_>>(), children);
                prop_assert_eq!(index.place(host).map(|place| index.hosts[place]), hosts.get(host));
                let meets = hosts.iter().any(|one| one.intersection(host).is_some());
                prop_assert_eq!(index.meets(host), meets, "{}", host);
            }
        }
    }

    #[test]
    fn name_of_many_labels_takes_as_many_steps_as_another_one() {
        let below = |labels: usize| HostPattern::Exact(format!("x.{}test", "a.".repeat(labels)));
        let index = HostIndex::of(["*.test", "*.a.test", "*.b.test"].map(|text| HostPattern::parse(text).unwrap()));
        let of = |labels: usize| {
            steps(Step::Host, || {
                assert!(index.narrowest(&below(labels)).is_some() && index.meets(&below(labels)));
            })
        };
        assert_eq!(of(100), of(2));
    }
}

//! The host names that a route shares with listeners. Each route may have a thousand of them at two thousand listeners: they are counted
//! before they are listed, and a number costs a few comparisons.

use super::JudgedRoute;
use crate::host::HostPattern;
use crate::host_index::HostIndex;

/// The host names of a route; without any of its own it has those of the listener.
#[derive(Clone, Copy)]
pub(crate) struct SharedHosts<'a>(Option<&'a HostIndex<HostPattern>>);

/// The number of host names that a route shares with a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedCount {
    pub(crate) all: usize,
    /// Those that no narrower listener has.
    pub(crate) own: usize,
}

impl<'a> SharedHosts<'a> {
    pub(crate) fn of(route: &'a JudgedRoute<'_>) -> Self {
        Self(route.hosts.as_ref())
    }

    /// Whether there are some at a listener.
    pub(crate) fn has_any(self, listener: &HostPattern) -> bool {
        self.0.is_none_or(|hosts| hosts.meets(listener))
    }

    /// Whether all names there are, are shared with a listener.
    pub(crate) fn has_all(self, listener: &HostPattern) -> bool {
        self.0.is_none() && *listener == HostPattern::Any
    }

    /// Whether a name that a listener covers is one of them.
    pub(crate) fn has(self, listener: &HostPattern, host: &HostPattern) -> bool {
        match self.0 {
            None => host == listener,
            Some(hosts) => {
                hosts.place(host).is_some() || (host == listener && hosts.narrowest_above(listener).is_some())
            }
        }
    }

    /// The names of the route alone, whatever the listener.
    pub(crate) fn of_route(self) -> impl Iterator<Item = &'a HostPattern> {
        self.0.into_iter().flat_map(HostIndex::iter)
    }

    /// The number of those at a listener. `narrower` are the host names of the widest listeners that are narrower than this one.
    pub(crate) fn count<'b>(
        self,
        listener: &HostPattern,
        narrower: impl Iterator<Item = &'b HostPattern>,
    ) -> SharedCount {
        let Some(hosts) = self.0 else { return SharedCount { all: 1, own: 1 } };
        let all = hosts.below(listener).len().saturating_add(usize::from(Self::own_name(hosts, listener).is_some()));
        let of_others = narrower.map(|other| hosts.below(other).len()).fold(0, usize::saturating_add);
        SharedCount { all, own: all.saturating_sub(of_others) }
    }

    /// Those at a listener, in order.
    pub(crate) fn list<'b>(self, listener: &'b HostPattern) -> Vec<&'b HostPattern>
    where
        'a: 'b,
    {
        let Some(hosts) = self.0 else { return vec![listener] };
        let mut shared: Vec<&HostPattern> = hosts.below(listener).iter().collect();
        shared.extend(Self::own_name(hosts, listener));
        shared.sort_unstable();
        #[cfg(test)]
        shared.iter().for_each(|_| crate::tests::steps::count(crate::tests::steps::Step::Name));
        shared
    }

    /// The host names of a listener, if the route has them by a wildcard alone.
    fn own_name<'b>(hosts: &HostIndex<HostPattern>, listener: &'b HostPattern) -> Option<&'b HostPattern> {
        let is_own = hosts.below(listener).first() == Some(listener);
        (!is_own && hosts.narrowest_above(listener).is_some()).then_some(listener)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const HOSTS: [&str; 8] = ["test", "a.test", "*.test", "x.a.test", "*.a.test", "y.x.a.test", "*.x.a.test", "b.test"];

    fn patterns(most: usize) -> impl Strategy<Value = BTreeSet<HostPattern>> {
        let host = (0..HOSTS.len()).prop_map(|index| HostPattern::parse(HOSTS[index]).unwrap());
        prop::collection::btree_set(host, 0..most)
    }

    proptest! {
        #[test]
        fn shared_names_are_counted_as_they_are_listed(
            route in patterns(8),
            at_port in patterns(4),
            has_open in any::<bool>(),
        ) {
            let index = HostIndex::of(route.iter().cloned());
            let open = has_open.then_some(HostPattern::Any);
            let listeners: BTreeSet<HostPattern> = at_port.into_iter().chain(open).collect();
            let of_port = HostIndex::of(&listeners);
            for (shared, own) in [(SharedHosts(Some(&index)), Some(&route)), (SharedHosts(None), None)] {
                for listener in &listeners {
                    let all: BTreeSet<HostPattern> = match own {
                        Some(route) => route.iter().filter_map(|host| host.intersection(listener)).collect(),
                        None => [listener.clone()].into(),
                    };
                    prop_assert_eq!(shared.list(listener), all.iter().collect::<Vec<_>>(), "at {}", listener);
                    prop_assert_eq!(shared.has_any(listener), !all.is_empty(), "at {}", listener);
                    prop_assert_eq!(shared.has_all(listener), all.contains(&HostPattern::Any));
                    for host in listeners.iter().chain(&route).filter(|host| listener.covers(host)) {
                        prop_assert_eq!(shared.has(listener, host), all.contains(host), "{} at {}", host, listener);
                    }
                    let is_own = |host: &&HostPattern| of_port.narrowest(host).copied() == Some(listener);
                    let own = all.iter().filter(is_own).count();
                    let found = shared.count(listener, of_port.directly_below(listener).copied());
                    prop_assert_eq!(found, SharedCount { all: all.len(), own }, "at {}", listener);
                }
            }
        }
    }
}

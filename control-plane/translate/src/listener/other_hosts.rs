//! Host names at a listener that are below wildcards of others: connections by the wildcard are not theirs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use portcullis_attach::{HostPattern, HostTable};

#[cfg(test)]
thread_local! {
    /// Looks at patterns above host names.
    pub(crate) static WIDER_STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Bytes of a host name in a route configuration beside its text.
const NAME_BYTES: usize = 16;
/// The most copies of it there: with a dot at its end and without, and in the filter's configuration.
const NAME_COPIES: usize = 3;

/// By owner of host names: those of the listener below its wildcards that are not its own, of other owners and withheld ones.
pub(super) fn other_hosts<'a, K: Ord + Copy>(
    owners: &HashMap<&'a HostPattern, K>,
    table: &'a HostTable,
) -> BTreeMap<K, BTreeSet<&'a HostPattern>> {
    let mut others: BTreeMap<K, BTreeSet<&HostPattern>> = BTreeMap::new();
    below(owners, table, |owner, host| {
        if owners.get(host) != Some(&owner) {
            others.entry(owner).or_default().insert(host);
        }
    });
    others
}

/// By owner: the bytes that its host names and those below its wildcards take in its route configuration, at the most.
pub(crate) fn host_bytes<K: Ord + Copy>(owners: &HashMap<&HostPattern, K>, table: &HostTable) -> BTreeMap<K, usize> {
    let mut bytes: BTreeMap<K, usize> = BTreeMap::new();
    let mut add = |owner: K, host: &HostPattern| {
        let all = bytes.entry(owner).or_default();
        *all = all.saturating_add(host_length(host).saturating_add(NAME_BYTES).saturating_mul(NAME_COPIES));
    };
    owners.iter().for_each(|(host, owner)| add(*owner, host));
    below(owners, table, add);
    bytes
}

/// Each host name with each owner of a wildcard above it, once for each owner, as its route configuration has it; a name of an
/// `UpstreamCluster` that is also a route's, or below two wildcards of which neither is above the other, at most once more. All names are
/// gone through once, whatever owners there are.
fn below<'a, K: Ord + Copy>(
    owners: &HashMap<&'a HostPattern, K>,
    table: &'a HostTable,
    mut found: impl FnMut(K, &'a HostPattern),
) {
    if owners.keys().all(|host| matches!(host, HostPattern::Exact(_))) {
        return;
    }
    for host in table.routes.keys().chain(&table.withheld) {
        let mut known = BTreeSet::new();
        for wider in host.wider() {
            #[cfg(test)]
            WIDER_STEPS.set(WIDER_STEPS.get() + 1);
            if let Some(owner) = owners.get(&wider).filter(|owner| known.insert(**owner)) {
                found(*owner, host);
            }
        }
    }
    for (wildcard, names) in &table.owned {
        let Some(owner) = owners.get(wildcard) else { continue };
        // All of them are below a wider wildcard of the same owner, too.
        if wildcard.wider().all(|wider| owners.get(&wider) != Some(owner)) {
            names.iter().for_each(|host| found(*owner, host));
        }
    }
}

fn host_length(host: &HostPattern) -> usize {
    match host {
        HostPattern::Any => 1,
        HostPattern::Exact(name) => name.len(),
        HostPattern::Wildcard(suffix) => suffix.len().saturating_add(2),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use portcullis_attach::{BoundRoute, ObjectName, RouteKind};
    use proptest::prelude::*;

    use super::*;

    fn host() -> impl Strategy<Value = HostPattern> {
        let labels = prop::collection::vec(prop::sample::select(vec!["a", "b"]), 1..5);
        let pattern = |(labels, is_wildcard): (Vec<&str>, bool)| {
            let name = labels.join(".");
            if is_wildcard { HostPattern::Wildcard(name) } else { HostPattern::Exact(name) }
        };
        (labels, any::<bool>()).prop_map(pattern)
    }

    fn route() -> BoundRoute {
        let name = ObjectName::new("team", "route");
        BoundRoute { kind: RouteKind::Http, route: name, backends: Vec::new(), refused_weight: 0 }
    }

    proptest! {
        #[test]
        fn others_are_the_names_below_wildcards_that_are_not_own(
            routes in prop::collection::btree_map(host(), prop::option::of(0..4_usize), 0..20),
            withheld in prop::collection::btree_set(host(), 0..10),
            owned in prop::collection::btree_set(host(), 0..10),
        ) {
            let wildcards = routes.keys().filter(|host| matches!(host, HostPattern::Wildcard(_)));
            let owned = wildcards.map(|wildcard| {
                let below = owned.iter().filter(|host| *host != wildcard && wildcard.covers(host)).cloned();
                (wildcard.clone(), Arc::new(below.collect()))
            });
            let owned: BTreeMap<HostPattern, Arc<BTreeSet<HostPattern>>> = owned.collect();
            let of_routes = routes.keys().map(|host| (host.clone(), route())).collect();
            let table = HostTable { routes: of_routes, withheld, owned };
            let owners: HashMap<&HostPattern, usize> =
                routes.iter().filter_map(|(host, owner)| Some((host, (*owner)?))).collect();
            let (found, bytes) = (other_hosts(&owners, &table), host_bytes(&owners, &table));
            for owner in 0..4 {
                let own: BTreeSet<&HostPattern> =
                    owners.iter().filter(|(_, of)| **of == owner).map(|(host, _)| *host).collect();
                let owned = own.iter().filter_map(|host| table.owned.get(*host)).flat_map(|names| &**names);
                let listed = table.routes.keys().chain(&table.withheld);
                let below = listed.filter(|host| own.iter().any(|of| of.covers(host))).chain(owned);
                let expected: BTreeSet<&HostPattern> = below.filter(|host| !own.contains(host)).collect();
                let found = found.get(&owner).cloned().unwrap_or_default();
                let text = own.iter().chain(&found).map(|host| host.to_string().len() * 2 + 1).sum::<usize>();
                prop_assert!(text <= bytes.get(&owner).copied().unwrap_or_default());
                prop_assert_eq!(found, expected);
            }
        }
    }

    /// However many wildcards of one owner are above a name: its routes have it once.
    #[test]
    fn name_below_many_wildcards_of_one_owner_counts_once() {
        let wildcard = |depth: usize| HostPattern::Wildcard(format!("{}t.test", "a.".repeat(depth)));
        let wildcards: Vec<HostPattern> = (0..50).map(wildcard).collect();
        let name = HostPattern::Exact(format!("{}t.test", "a.".repeat(60)));
        let owned = HostPattern::Exact(format!("x.{}t.test", "a.".repeat(60)));
        let table = HostTable {
            routes: wildcards.iter().chain([&name]).map(|host| (host.clone(), route())).collect(),
            withheld: BTreeSet::new(),
            owned: wildcards.iter().map(|host| (host.clone(), Arc::new([owned.clone()].into()))).collect(),
        };
        let bytes = |count: usize| {
            let owners: HashMap<&HostPattern, usize> = wildcards.iter().take(count).map(|host| (host, 0)).collect();
            host_bytes(&owners, &table)[&0]
        };
        let own: usize = wildcards.iter().skip(1).map(|host| (host_length(host) + NAME_BYTES) * NAME_COPIES).sum();
        assert_eq!(bytes(50), bytes(1) + own, "a name costs what it costs below one of them");
    }
}

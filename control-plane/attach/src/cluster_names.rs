//! Host names that `UpstreamClusters` own.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::host::HostPattern;
use crate::input::Inventory;

/// Host names that `UpstreamClusters` own below a wildcard.
pub(crate) type OwnedHosts = Arc<BTreeSet<HostPattern>>;

/// Host names that `UpstreamClusters` own.
pub(crate) struct ClusterNames<'a> {
    by_name: HashMap<&'a str, &'a str>,
    /// Those that are wildcards, by their suffixes.
    wildcards: HashMap<&'a str, &'a str>,
    /// The numbers of labels of these suffixes: no other suffix of a name is looked for, whatever number a tenant gives it.
    depths: BTreeSet<usize>,
    /// Those below wildcards, for all listeners and routes the same allocations. None has no entry.
    below: HashMap<HostPattern, OwnedHosts>,
}

impl<'a> ClusterNames<'a> {
    /// Those of the inventory, with those below the wildcards among `asked`.
    pub(crate) fn of<'b>(inventory: &'a Inventory, asked: impl Iterator<Item = &'b HostPattern>) -> Self {
        let names =
            inventory.clusters.iter().flat_map(|(cluster, names)| names.iter().map(move |name| (name, cluster)));
        let mut by_name: HashMap<&str, &str> = HashMap::new();
        for (name, cluster) in names {
            by_name.entry(name).or_insert(cluster);
        }
        let asked: HashSet<&HostPattern> = asked.filter(|host| matches!(host, HostPattern::Wildcard(_))).collect();
        let mut below: HashMap<HostPattern, BTreeSet<HostPattern>> = HashMap::new();
        let hosts = by_name.keys().filter(|_| !asked.is_empty()).filter_map(|name| HostPattern::parse(name));
        for host in hosts {
            for wildcard in host.wider().filter(|wider| asked.contains(wider)) {
                below.entry(wildcard).or_default().insert(host.clone());
            }
        }
        let below = below.into_iter().map(|(wildcard, hosts)| (wildcard, Arc::new(hosts))).collect();
        let wildcards: HashMap<&str, &str> =
            by_name.iter().filter_map(|(name, cluster)| Some((name.strip_prefix("*.")?, *cluster))).collect();
        let depths = wildcards.keys().map(|suffix| suffix.split('.').count()).collect();
        Self { by_name, wildcards, depths, below }
    }

    /// Those below a wildcard that was asked for; `None` if there are none.
    pub(crate) fn below(&self, wildcard: &HostPattern) -> Option<&OwnedHosts> {
        self.below.get(wildcard)
    }

    /// The narrowest one that covers these host names, or is the same, and that is below a wildcard.
    pub(crate) fn narrowest(&self, host: &HostPattern, wildcard: &HostPattern) -> Option<HostPattern> {
        let mut chain = std::iter::once(host.clone()).chain(host.wider()).take_while(|one| one != wildcard);
        chain.find(|one| self.by_name.contains_key(one.to_string().as_str()))
    }

    /// The cluster that owns these host names, by itself or by a wildcard that covers them.
    pub(crate) fn owner(&self, host: &HostPattern) -> Option<&'a str> {
        if let Some(owner) = self.by_name.get(host.to_string().as_str()) {
            return Some(owner);
        }
        let owner = |suffix: &str| {
            #[cfg(test)]
            crate::tests::steps::count(crate::tests::steps::Step::Host);
            self.wildcards.get(suffix).copied()
        };
        host.suffixes().filter(|(labels, _)| self.depths.contains(labels)).find_map(|(_, suffix)| owner(suffix))
    }
}

//! Plain HTTP at a Gateway: the ports for HTTPS to which its host names are redirected. Browsers keep a redirect, so that none leads to
//! where connections are closed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::claims::{ClusterNames, OwnedHosts};
use crate::host::HostPattern;

/// Ports for HTTPS by host names. The narrowest one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedirectTable {
    /// The ports.
    pub ports: BTreeMap<HostPattern, u16>,
    /// Host names of routes that are not accepted: a port of a wider one would lead to another owner.
    pub withheld: BTreeSet<HostPattern>,
    /// By wildcards: host names below them that `UpstreamClusters` own, and that are withheld unless they have a port. All listeners share
    /// them.
    pub owned: BTreeMap<HostPattern, Arc<BTreeSet<HostPattern>>>,
}

/// The host names of a Gateway's listeners for HTTPS.
pub(crate) struct HttpsHosts<'a> {
    clusters: &'a ClusterNames<'a>,
    /// The port of each, and whether requests for it are answered there.
    hosts: BTreeMap<HostPattern, (u16, bool)>,
    /// Wildcards with the host names below them that `UpstreamClusters` own.
    owned: BTreeMap<HostPattern, OwnedHosts>,
}

/// Host names of a listener for plain HTTP with the narrowest ones that have them, and their port if requests for them are answered.
type SharedWildcards = BTreeMap<HostPattern, (HostPattern, Option<u16>)>;

impl<'a> HttpsHosts<'a> {
    pub(crate) fn new(clusters: &'a ClusterNames<'a>) -> Self {
        Self { clusters, hosts: BTreeMap::new(), owned: BTreeMap::new() }
    }

    /// Adds host names of a route at a port.
    pub(crate) fn add(&mut self, host: &HostPattern, port: u16, is_served: bool) {
        let known = self.hosts.entry(host.clone()).or_insert((port, is_served));
        if preferred(known.0, port) != known.0 {
            *known = (port, is_served);
        }
    }

    /// Adds host names that are not served at a port, as far as no route has them, and those that `UpstreamClusters` own.
    pub(crate) fn withhold(
        &mut self,
        withheld: &BTreeSet<HostPattern>,
        owned: &BTreeMap<HostPattern, OwnedHosts>,
        port: u16,
    ) {
        for host in withheld {
            self.hosts.entry(host.clone()).or_insert((port, false));
        }
        self.owned.extend(owned.iter().map(|(wildcard, owned)| (wildcard.clone(), Arc::clone(owned))));
    }

    /// The host names of a listener for plain HTTP. Several hosts may share the same ones with it, and the narrowest has them.
    pub(crate) fn redirects(&self, host: &HostPattern) -> RedirectTable {
        let mut shared = SharedWildcards::new();
        for (of, (port, is_served)) in &self.hosts {
            let Some(names) = of.intersection(host) else { continue };
            let known = shared.get(&names).map(|(known, _)| known);
            if known.is_none_or(|known| known.covers(of)) {
                shared.insert(names, (of.clone(), is_served.then_some(*port)));
            }
        }
        let mut table = RedirectTable::default();
        for (wildcard, owned) in &self.owned {
            if host.covers(wildcard) {
                table.owned.insert(wildcard.clone(), Arc::clone(owned));
            } else if wildcard.covers(host) {
                let below = self.clusters.below(host).map(|owned| (host.clone(), Arc::clone(owned)));
                table.owned.extend(below);
                self.withhold_all(host, wildcard, &mut shared);
            }
        }
        for (names, (_, port)) in shared {
            match port {
                Some(port) => drop(table.ports.insert(names, port)),
                None => drop(table.withheld.insert(names)),
            }
        }
        table
    }

    /// Withholds all names of a listener that an `UpstreamCluster` owns below a wildcard, unless a route has some that are narrower, or
    /// the same.
    fn withhold_all(&self, host: &HostPattern, wildcard: &HostPattern, shared: &mut SharedWildcards) {
        let Some(owned) = self.clusters.narrowest(host, wildcard) else { return };
        let has_narrower = shared.get(host).is_some_and(|(known, _)| owned.covers(known));
        if !has_narrower {
            shared.insert(host.clone(), (owned, None));
        }
    }
}

/// 443 needs no port in the location of a redirect; of others the lowest is as good as any.
fn preferred(one: u16, other: u16) -> u16 {
    if [one, other].contains(&443) { 443 } else { one.min(other) }
}

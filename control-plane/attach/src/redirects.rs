//! Plain HTTP at a Gateway: the ports for HTTPS to which its host names are redirected. Browsers keep a redirect, so that none leads to
//! where connections are closed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::claims::{ClusterNames, OwnedHosts};
use crate::host::HostPattern;
use crate::https_names::{HttpsName, HttpsNames};

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
    /// The port of each, if requests for it are redirected.
    hosts: BTreeMap<HostPattern, Option<u16>>,
    /// Wildcards with the host names below them that `UpstreamClusters` own.
    owned: BTreeMap<HostPattern, OwnedHosts>,
}

/// Host names of a listener for plain HTTP with the narrowest ones that have them, and their port if requests for them are redirected.
type SharedWildcards = BTreeMap<HostPattern, (HostPattern, Option<u16>)>;

impl<'a> HttpsHosts<'a> {
    /// Those that routes hold. `has_room`: whether there is room for a route's, by its index; `is_answered`: whether requests for a name
    /// are answered at its port.
    ///
    /// A name without room, or that several namespaces have, is not redirected. Of those without room only the ones below a wildcard that
    /// is redirected are listed, because they are not that wildcard's.
    pub(crate) fn of(
        names: &HttpsNames<'_>,
        clusters: &'a ClusterNames<'a>,
        has_room: impl Fn(usize) -> bool,
        is_answered: impl Fn(&HttpsName<'_>) -> bool,
    ) -> Self {
        let is_redirected = |name: &HttpsName<'_>| has_room(name.route) && !name.is_of_several && is_answered(name);
        let is_listed = |name: &&HttpsName<'_>| has_room(name.route) || names.above(name).is_some_and(&is_redirected);
        let listed = names.iter().filter(is_listed);
        let hosts = listed.map(|name| (name.host.clone(), is_redirected(name).then_some(name.port))).collect();
        Self { clusters, hosts, owned: BTreeMap::new() }
    }

    /// Adds host names that are not served at a listener, as far as no route has them, and those that `UpstreamClusters` own.
    pub(crate) fn withhold<'b>(
        &mut self,
        withheld: impl Iterator<Item = &'b HostPattern>,
        owned: &BTreeMap<HostPattern, OwnedHosts>,
    ) {
        for host in withheld {
            self.hosts.entry(host.clone()).or_insert(None);
        }
        self.owned.extend(owned.iter().map(|(wildcard, owned)| (wildcard.clone(), Arc::clone(owned))));
    }

    /// The host names of a listener for plain HTTP. Several hosts may share the same ones with it, and the narrowest has them.
    pub(crate) fn redirects(&self, host: &HostPattern) -> RedirectTable {
        let mut shared = SharedWildcards::new();
        for (of, port) in &self.hosts {
            let Some(names) = of.intersection(host) else { continue };
            let known = shared.get(&names).map(|(known, _)| known);
            if known.is_none_or(|known| known.covers(of)) {
                shared.insert(names, (of.clone(), *port));
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

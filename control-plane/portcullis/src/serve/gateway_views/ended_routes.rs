use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use portcullis_api::upstream_of_key;
use portcullis_translate::{Resource, ResourceGroup, misdirected_routes, place_of_routes, type_urls};
use portcullis_xds::Snapshot;

use super::cluster_route_namespaces::ClusterRouteNamespaces;

const MIB: usize = 1024 * 1024;
/// The ended route configurations of one namespace's routes to `UpstreamClusters` above which the oldest go, as soon as they may, and no
/// new one of that owner is opened: as many as a namespace has routes at a Gateway. Or twice what is served, if that is more: all may get
/// other names.
const MAX_OF_ROUTES: RouteSum = RouteSum { number: 256, bytes: 64 * MIB };
/// The same of its routes to upstreams. Those are bounded by number for the namespace of the upstreams.
const MAX_OF_ROUTES_TO_UPSTREAMS: RouteSum = RouteSum { number: usize::MAX, ..MAX_OF_ROUTES };
/// The same of an `UpstreamCluster`, and of one namespace's upstreams: routes of other namespaces lead there, too, each with its room for
/// policies at each of a Gateway's listeners.
const MAX_OF_SERVERS: RouteSum = RouteSum { number: 256, bytes: 512 * MIB };
/// The same of all upstreams at a Gateway, and of all `UpstreamClusters`. Beyond it each owner among these keeps a few.
const MAX_OF_ALL: RouteSum = RouteSum { number: 4_096, bytes: 512 * MIB };
/// Of one namespace's upstreams: as many as it has of these.
const KEPT_OF_UPSTREAMS: RouteSum = RouteSum { number: 16, bytes: 512 * MIB };
/// Of one namespace's routes to `UpstreamClusters`: as many as a Gateway has listeners.
const KEPT_OF_ROUTES: RouteSum = RouteSum { number: 64, bytes: 16 * MIB };
/// Of its routes to upstreams.
const KEPT_OF_ROUTES_TO_UPSTREAMS: RouteSum = RouteSum { number: usize::MAX, ..KEPT_OF_ROUTES };
/// Of an `UpstreamCluster`: as many as a Gateway has listeners.
const KEPT_OF_CLUSTER: RouteSum = RouteSum { number: 64, bytes: 512 * MIB };
/// How long each is kept at the least: longer than Envoy's drain time of ten minutes.
const KEPT_FOR: Duration = Duration::from_secs(15 * 60);

/// Route configurations of a Gateway to which no chain refers any more.
///
/// Connections of before go on for Envoy's drain time, and Envoy keeps the routes of a configuration that is removed. As long as
/// another route leads to the same servers, their next requests would reach these. Each is therefore replaced by one that answers 421,
/// after which clients connect anew. Authors of upstreams choose the names, those of routes the `UpstreamClusters`, and none may be
/// forgotten too early: where there are too many of one owner, new configurations of that owner answer 421, too, until the oldest are old
/// enough. Envoy keeps them in the size that they had, and that is bounded as well.
#[derive(Debug, Default)]
pub(super) struct EndedRoutes {
    /// By name.
    kept: BTreeMap<Arc<str>, EndedRoute>,
    /// New ones that are not opened. Connections have nothing else of them.
    withheld: BTreeMap<String, Arc<Resource>>,
    /// When one of these may be opened.
    opening: Option<Instant>,
    /// The namespaces of the routes that are served.
    namespaces: Arc<ClusterRouteNamespaces>,
}

#[derive(Debug)]
struct EndedRoute {
    resource: Arc<Resource>,
    /// The bytes of the configuration that it replaces.
    bytes: usize,
    since: Instant,
    /// Of the last routes that led there, as far as they are known.
    namespaces: BTreeSet<String>,
}

/// Those who have bounds of ended route configurations.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum RouteOwner<'a> {
    /// The namespace of the upstreams behind them.
    Upstreams(&'a str),
    /// The `UpstreamCluster` behind them. A name of another kind is one of its own.
    Cluster(&'a str),
    /// The namespace of routes to `UpstreamClusters`.
    RoutesToClusters(&'a str),
    /// The namespace of routes to upstreams, which may be those of another one.
    RoutesToUpstreams(&'a str),
}

/// The owners of one route configuration.
#[derive(Clone, Copy)]
struct RouteOwners<'a> {
    /// The one of the servers behind it.
    of_servers: RouteOwner<'a>,
    /// Of the routes that lead there.
    namespaces: Option<&'a BTreeSet<String>>,
}

/// The route configurations of each owner, ended and served.
#[derive(Default)]
struct OwnerCounts<'a> {
    of_owners: HashMap<RouteOwner<'a>, RouteCounts>,
    of_upstreams: RouteCounts,
    of_clusters: RouteCounts,
}

#[derive(Clone, Copy, Default)]
struct RouteCounts {
    ended: RouteSum,
    served: RouteSum,
}

/// Route configurations, and their bytes.
#[derive(Clone, Copy, Default)]
struct RouteSum {
    number: usize,
    bytes: usize,
}

/// The bytes of each route configuration that is served, by name.
type ServedBytes<'a> = HashMap<&'a str, usize>;

impl EndedRoutes {
    /// Takes the newest resources; none if the Gateway is not served any more. Returns those to serve.
    pub(super) fn follow(
        &mut self,
        before: &Snapshot,
        group: Option<&ResourceGroup>,
        namespaces: Arc<ClusterRouteNamespaces>,
        now: Instant,
    ) -> Option<ResourceGroup> {
        let url = type_urls::route_configuration();
        let routes = group.iter().flat_map(|group| group.iter()).filter(|one| one.type_url == url);
        let served: ServedBytes<'_> = routes.map(|one| (one.name.as_ref(), one.value.len())).collect();
        // One that answers 421 is on demand, and no other one is: after a restart it is not known which of these were withheld.
        let is_open = |name: &str| before.get(url, name).is_some_and(|one| !one.is_on_demand());
        let is_new = |name: &&str| !is_open(name) && !self.kept.contains_key(*name);
        let new: Vec<&str> = served.keys().copied().filter(is_new).collect();
        let is_ended = |name: &&str| !served.contains_key(name) && !self.withheld.contains_key(*name);
        let ended: Vec<&str> = before.names(url).filter(is_ended).collect();
        self.kept.retain(|name, _| !served.contains_key(&**name));
        for name in ended {
            if !self.kept.contains_key(name) {
                let resource = Arc::new(misdirected_routes(name));
                let namespaces = self.namespaces.of_routes(name).cloned().unwrap_or_default();
                let bytes = before.get(url, name).map_or(0, bytes_of);
                self.kept.insert(Arc::clone(&resource.name), EndedRoute { resource, bytes, since: now, namespaces });
            }
        }
        self.namespaces = namespaces;
        self.forget_old(&served, now);
        self.withhold(new, &served);
        let group = group?;
        if self.withheld.is_empty() {
            return Some(Arc::clone(group));
        }
        let served = |one: &Arc<Resource>| {
            let closed = self.withheld.get(&*one.name).filter(|closed| closed.type_url == one.type_url);
            Arc::clone(closed.unwrap_or(one))
        };
        Some(group.iter().map(served).collect())
    }

    /// Forgets those that are old enough where there are too many.
    fn forget_old(&mut self, served: &ServedBytes<'_>, now: Instant) {
        let counts = self.counts(served);
        let may_go = |(name, one): &(&Arc<str>, &EndedRoute)| {
            let owners = one.owners(name);
            let is_beyond =
                || counts.are_too_many(owners.of_servers) || owners.all().any(|owner| counts.is_full(owner));
            one.expiry() <= now && is_beyond()
        };
        let gone: Vec<Arc<str>> = self.kept.iter().filter(may_go).map(|(name, _)| Arc::clone(name)).collect();
        for name in gone {
            self.kept.remove(&name);
        }
    }

    /// Opens those new configurations for whose owners there is room, and no others.
    fn withhold(&mut self, new: Vec<&str>, served: &ServedBytes<'_>) {
        let mut before = std::mem::take(&mut self.withheld);
        let counts = self.counts(served);
        let owners = |name| RouteOwners::of(name, self.namespaces.of_routes(name));
        let closed: Vec<&str> = new.into_iter().filter(|name| counts.has_no_room(owners(name))).collect();
        let full: HashSet<RouteOwner<'_>> =
            closed.iter().flat_map(|name| owners(name).all()).filter(|owner| counts.is_full(*owner)).collect();
        let makes_room = |owners: RouteOwners<'_>| {
            counts.are_too_many(owners.of_servers) || owners.all().any(|owner| full.contains(&owner))
        };
        let waited_for = self.kept.iter().filter(|(name, one)| !full.is_empty() && makes_room(one.owners(name)));
        let opening = waited_for.map(|(_, one)| one.expiry()).min();
        let withheld = closed.into_iter().map(|name| {
            let known = before.remove(name).unwrap_or_else(|| Arc::new(misdirected_routes(name)));
            (name.to_owned(), known)
        });
        let withheld: BTreeMap<String, Arc<Resource>> = withheld.collect();
        if !withheld.is_empty() {
            tracing::warn!(
                count = withheld.len(),
                "new routes of a Gateway answer 421: too many others of their owners have ended of late, or too large ones"
            );
        }
        (self.withheld, self.opening) = (withheld, opening);
    }

    fn counts<'a>(&'a self, served: &ServedBytes<'a>) -> OwnerCounts<'a> {
        let mut counts = OwnerCounts::default();
        for (name, one) in &self.kept {
            counts.count(one.owners(name), one.bytes, |counts| &mut counts.ended);
        }
        for (&name, &bytes) in served {
            counts.count(RouteOwners::of(name, self.namespaces.of_routes(name)), bytes, |counts| &mut counts.served);
        }
        counts
    }

    /// When configurations may be opened that are not, though nothing else changes.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.opening
    }

    pub(super) fn tombstones(&self) -> Vec<Arc<Resource>> {
        self.kept.values().map(|kept| Arc::clone(&kept.resource)).collect()
    }
}

/// The bytes of a configuration as Envoy has it. Of one that was misdirected before this program started nothing else is known.
fn bytes_of(resource: &portcullis_xds::Resource) -> usize {
    resource.pieces().iter().map(Bytes::len).sum()
}

impl EndedRoute {
    fn expiry(&self) -> Instant {
        self.since + KEPT_FOR
    }

    fn owners<'a>(&'a self, name: &'a str) -> RouteOwners<'a> {
        RouteOwners::of(name, Some(&self.namespaces))
    }
}

impl<'a> RouteOwners<'a> {
    /// Those of a name: the namespace of an upstream or the cluster is in it.
    fn of(name: &'a str, namespaces: Option<&'a BTreeSet<String>>) -> Self {
        let cluster = place_of_routes(name).map_or(name, |(_, cluster)| cluster);
        let of_servers = match upstream_of_key(cluster) {
            Some((namespace, _)) => RouteOwner::Upstreams(namespace),
            None => RouteOwner::Cluster(cluster),
        };
        Self { of_servers, namespaces }
    }

    fn of_routes(self) -> impl Iterator<Item = RouteOwner<'a>> {
        let is_of_upstream = matches!(self.of_servers, RouteOwner::Upstreams(_));
        self.namespaces.into_iter().flatten().map(move |namespace| {
            if is_of_upstream {
                RouteOwner::RoutesToUpstreams(namespace)
            } else {
                RouteOwner::RoutesToClusters(namespace)
            }
        })
    }

    /// The bytes that count for each namespace of the routes. In full, a few large ones would fill the bounds of all who share them; all
    /// shares together are no less than the configuration.
    fn share(self, bytes: usize) -> usize {
        bytes.div_ceil(self.namespaces.map_or(1, |namespaces| namespaces.len().max(1)))
    }

    fn all(self) -> impl Iterator<Item = RouteOwner<'a>> {
        std::iter::once(self.of_servers).chain(self.of_routes())
    }
}

impl<'a> OwnerCounts<'a> {
    fn count(&mut self, owners: RouteOwners<'a>, bytes: usize, sum: impl Fn(&mut RouteCounts) -> &mut RouteSum) {
        sum(self.of_owners.entry(owners.of_servers).or_default()).add(bytes);
        let share = owners.share(bytes);
        for owner in owners.of_routes() {
            sum(self.of_owners.entry(owner).or_default()).add(share);
        }
        let of_all = match owners.of_servers {
            RouteOwner::Upstreams(_) | RouteOwner::RoutesToUpstreams(_) => &mut self.of_upstreams,
            RouteOwner::Cluster(_) | RouteOwner::RoutesToClusters(_) => &mut self.of_clusters,
        };
        sum(of_all).add(bytes);
    }

    /// Whether all owners like this one together have too many.
    fn are_too_many(&self, owner: RouteOwner<'_>) -> bool {
        match owner {
            RouteOwner::Upstreams(_) | RouteOwner::RoutesToUpstreams(_) => self.of_upstreams.exceeds(MAX_OF_ALL),
            RouteOwner::Cluster(_) | RouteOwner::RoutesToClusters(_) => self.of_clusters.exceeds(MAX_OF_ALL),
        }
    }

    /// Whether no new one is opened on behalf of an owner.
    fn is_full(&self, owner: RouteOwner<'_>) -> bool {
        let counts = self.of_owners.get(&owner).copied().unwrap_or_default();
        counts.exceeds(match (self.are_too_many(owner), owner) {
            (false, RouteOwner::Upstreams(_) | RouteOwner::Cluster(_)) => MAX_OF_SERVERS,
            (false, RouteOwner::RoutesToClusters(_)) => MAX_OF_ROUTES,
            (false, RouteOwner::RoutesToUpstreams(_)) => MAX_OF_ROUTES_TO_UPSTREAMS,
            (true, RouteOwner::Upstreams(_)) => KEPT_OF_UPSTREAMS,
            (true, RouteOwner::RoutesToClusters(_)) => KEPT_OF_ROUTES,
            (true, RouteOwner::RoutesToUpstreams(_)) => KEPT_OF_ROUTES_TO_UPSTREAMS,
            (true, RouteOwner::Cluster(_)) => KEPT_OF_CLUSTER,
        })
    }

    /// Whether a new one is not opened. One namespace's routes hold up none that another one has, too.
    fn has_no_room(&self, owners: RouteOwners<'_>) -> bool {
        let mut of_routes = owners.of_routes().peekable();
        let are_full = of_routes.peek().is_some() && of_routes.all(|owner| self.is_full(owner));
        are_full || self.is_full(owners.of_servers)
    }
}

impl RouteCounts {
    /// Whether there are too many, or they are too large.
    fn exceeds(self, most: RouteSum) -> bool {
        let is_beyond = |ended: usize, most: usize, served: usize| ended > most.max(served.saturating_mul(2));
        is_beyond(self.ended.number, most.number, self.served.number)
            || is_beyond(self.ended.bytes, most.bytes, self.served.bytes)
    }
}

impl RouteSum {
    fn add(&mut self, bytes: usize) {
        self.number += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

#[cfg(test)]
impl EndedRoutes {
    /// Some that may be opened at a time.
    pub(super) fn opening_at(opening: Instant) -> Self {
        Self { opening: Some(opening), ..Self::default() }
    }
}

#[cfg(test)]
mod tests;

//! From accepted Gateways of the Gateway API to Envoy's resources: for each one everything that its own Envoys have, and nothing of
//! another's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{Settings, upstream_of_key};
use portcullis_attach::{
    BoundRoute, Door, ListenerRole, ObjectName, RouteClosures, ServedBackend, ServedGateway, ServedListener,
    UnfitPolicy,
};
use serde_json::Value;

use crate::backend::{
    BackendPool, JudgedCluster, JudgedClusters, KnownPools, KnownTightenings, Passage, PoolOrigin, Pools,
    RequestedObject, ResolvedUpstream, ServicePort, ServiceServers, Tightenings,
};
use crate::gateway_secrets::GatewaySecrets;
use crate::listener::{GatewayBackends, GatewayBudget, gateway_listeners, only_cluster};
use crate::resource::ResourceGroup;

/// The input of a translation of Gateways.
#[derive(Clone, Copy, Debug)]
pub struct GatewayInput<'a> {
    /// The gateway's settings.
    pub settings: &'a Settings,
    /// The accepted Gateways.
    pub gateways: &'a [Arc<ServedGateway>],
    /// The accepted `UpstreamCluster` documents that are served, with references resolved, by name.
    pub clusters: &'a BTreeMap<String, Arc<Value>>,
    /// The `KubernetesUpstreams` to which routes lead, by their [`portcullis_api::upstream_key`].
    pub upstreams: &'a BTreeMap<String, Arc<ResolvedUpstream>>,
    /// The ports of Services to which routes lead. One that is not here has no servers.
    pub services: &'a BTreeMap<ServicePort, ServiceServers>,
    /// The certificates of listeners. One that is not here is not served.
    pub secrets: &'a GatewaySecrets,
}

/// Clusters and upstreams to which routes may not lead, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedClusters {
    /// No connection may be passed on.
    pub connections: BTreeMap<String, String>,
    /// No request may be sent.
    pub requests: BTreeMap<String, String>,
    /// Policies of Gateways, listeners and routes that are left out at a cluster, and why.
    pub policies: BTreeMap<UnfitPolicy, String>,
}

/// Translates Gateways repeatedly: one for which nothing is other than before has the same group.
///
/// The output depends on the input alone, not on earlier translations.
#[derive(Default)]
pub struct GatewayTranslator {
    settings: Option<Settings>,
    passages: CheckedDocuments<Passage>,
    judged: CheckedDocuments<JudgedCluster>,
    upstreams: CheckedDocuments<JudgedCluster, ResolvedUpstream>,
    pools: KnownPools,
    tightenings: KnownTightenings,
    unfit: BTreeMap<UnfitPolicy, String>,
    known: BTreeMap<ObjectName, KnownGateway>,
}

/// The outcome of documents, by the name of their object.
struct CheckedDocuments<T, S = Value>(BTreeMap<String, (Arc<S>, Arc<T>)>);

struct KnownGateway {
    served: Arc<ServedGateway>,
    backends: OwnBackends,
    group: ResourceGroup,
    closures: Arc<RouteClosures>,
}

/// The part of everything that one Gateway refers to.
struct OwnBackends {
    pools: Pools,
    clusters: JudgedClusters,
    secrets: GatewaySecrets,
}

impl GatewayTranslator {
    /// The resources of each Gateway's Envoys. A server that cannot be reached has its share of connections closed.
    pub fn translate(&mut self, input: &GatewayInput<'_>) -> BTreeMap<ObjectName, ResourceGroup> {
        self.follow(input.settings);
        self.keep(input);
        let wanted: BTreeSet<&ServedBackend> =
            input.gateways.iter().flat_map(|gateway| gateway.passed_on_backends()).collect();
        self.pools.keep(|backend| wanted.contains(backend));
        let pools: Pools = wanted.into_iter().map(|one| (one.clone(), self.pool(one, input))).collect();
        let requested: BTreeSet<&str> = input.gateways.iter().flat_map(|gateway| requested(gateway)).collect();
        let judge = |name: &str| Some((name.to_owned(), self.judged(name, input)?));
        let clusters: JudgedClusters = requested.into_iter().filter_map(judge).collect();
        let tightened = self.tightened(input, &clusters);
        let made = tightened.values().flat_map(BTreeMap::values);
        self.unfit = made.flat_map(|one| one.unfit.clone()).collect();
        let (none, before) = (Tightenings::new(), std::mem::take(&mut self.known));
        let of_gateway = |gateway: &Arc<ServedGateway>| {
            let tightened = tightened.get(&gateway.gateway).unwrap_or(&none);
            let all = GatewayBackends { pools: &pools, clusters: &clusters, secrets: input.secrets, tightened };
            known(gateway, all, input.settings, &before)
        };
        self.known = input.gateways.iter().map(of_gateway).collect();
        self.known.iter().map(|(name, known)| (name.clone(), Arc::clone(&known.group))).collect()
    }

    /// The routes of the last translation whose connections are closed, though their objects do not say so.
    pub fn closures(&self) -> RouteClosures {
        let mut all = RouteClosures::new();
        for (route, closures) in self.known.values().flat_map(|known| known.closures.iter()) {
            all.entry(route.clone()).or_default().extend(closures.iter().cloned());
        }
        all
    }

    /// Of the clusters `connections` those to which no connection may be passed on, and of `requests` those to which no request may be
    /// sent, and why.
    pub fn refused<'a>(
        &mut self,
        connections: impl IntoIterator<Item = &'a String>,
        requests: impl IntoIterator<Item = &'a String>,
        input: &GatewayInput<'_>,
    ) -> RefusedClusters {
        self.follow(input.settings);
        let connections = connections.into_iter().filter_map(|name| {
            match self.passages.of(name, input.settings, input.clusters)?.as_ref() {
                Passage::Refused(why) => Some((name.clone(), why.clone())),
                Passage::Open(_) | Passage::Closed => None,
            }
        });
        let connections = connections.collect();
        let requests = requests.into_iter().filter_map(|name| match self.judged(name, input)?.as_ref() {
            JudgedCluster::Refused(why) => Some((name.clone(), why.clone())),
            JudgedCluster::Open(_) => None,
        });
        let requests = requests.collect();
        RefusedClusters { connections, requests, policies: self.unfit.clone() }
    }

    /// The clusters behind doors with policies, by Gateway.
    fn tightened(&mut self, input: &GatewayInput<'_>, clusters: &JudgedClusters) -> BTreeMap<ObjectName, Tightenings> {
        let with_policies = input.gateways.iter().filter(|gateway| !gateway.policies.is_empty());
        let all: BTreeMap<ObjectName, Tightenings> = with_policies
            .map(|gateway| (gateway.gateway.clone(), self.tightened_at(gateway, input, clusters)))
            .collect();
        self.tightenings.keep(all.values());
        all
    }

    /// Those of a Gateway. Tenants make routes and policies, and each one is a check of the cluster and a copy of its configuration: one
    /// for which the Gateway has no room is not made, and its routes are closed.
    fn tightened_at(
        &mut self,
        gateway: &ServedGateway,
        input: &GatewayInput<'_>,
        clusters: &JudgedClusters,
    ) -> Tightenings {
        let (mut tightened, mut refused) = (Tightenings::new(), BTreeSet::new());
        let mut budget = GatewayBudget::new(gateway.addresses.len());
        for (listener, route) in requested_routes(gateway) {
            let Some(cluster) = only_cluster(route) else { continue };
            let open = clusters.get(cluster).and_then(|judged| judged.open());
            let Some((object, open)) = object_of(cluster, input).zip(open) else { continue };
            let doors = gateway.policies.doors(&gateway.gateway, &listener.name, &route.route, cluster);
            let key = (cluster.to_owned(), doors);
            if key.1.is_empty() || tightened.contains_key(&key) || refused.contains(&key) {
                continue;
            }
            // It is about as large as the cluster's own.
            let tightened_bytes = open.config_bytes.saturating_add(open.bytes_of_more_groups());
            let has_room = match key.1.iter().any(|door| matches!(door, Door::Route(_))) {
                true => budget.takes_tightened(&route.route.namespace, tightened_bytes),
                false => budget.takes_config(open.config_bytes),
            };
            if !has_room {
                refused.insert(key);
                continue;
            }
            let policies = gateway.policies.of_doors(&key.1, cluster);
            let made = self.tightenings.of((cluster, &key.1), policies, (&object, open), input.settings);
            tightened.insert(key, made);
        }
        tightened
    }

    /// Number of tightened clusters that are kept.
    #[cfg(test)]
    pub(crate) fn tightened_count(&self) -> usize {
        self.tightenings.count()
    }

    /// A cluster by its name, or an upstream by its key. `None` if there is none.
    fn judged(&mut self, name: &str, input: &GatewayInput<'_>) -> Option<Arc<JudgedCluster>> {
        match upstream_of_key(name) {
            Some(_) => self.upstreams.of(name, input.settings, input.upstreams),
            None => self.judged.of(name, input.settings, input.clusters),
        }
    }

    /// Forgets objects that are gone, with their credentials: tenants make upstreams, of any name.
    fn keep(&mut self, input: &GatewayInput<'_>) {
        self.passages.keep(input.clusters);
        self.judged.keep(input.clusters);
        self.upstreams.keep(input.upstreams);
    }

    fn follow(&mut self, settings: &Settings) {
        if self.settings.as_ref() != Some(settings) {
            *self = Self { settings: Some(settings.clone()), ..Self::default() };
        }
    }

    fn pool(&mut self, backend: &ServedBackend, input: &GatewayInput<'_>) -> Arc<BackendPool> {
        let origin = match backend {
            ServedBackend::Cluster(name) => {
                let passage = self.passages.of(name, input.settings, input.clusters);
                passage.map_or(PoolOrigin::Absent, PoolOrigin::Cluster)
            }
            ServedBackend::Service { name, port } => {
                let key = ServicePort { service: name.clone(), port: *port };
                match input.services.get(&key) {
                    Some(servers) => PoolOrigin::Service(key, servers.clone()),
                    None => PoolOrigin::Absent,
                }
            }
        };
        self.pools.pool(backend, origin, input.settings)
    }
}

/// A document that is checked for one use.
trait OfDocument<S = Value> {
    fn of(document: &S, name: &str, settings: &Settings) -> Self;
}

impl OfDocument for Passage {
    fn of(document: &Value, name: &str, settings: &Settings) -> Self {
        Self::of(document, name, settings)
    }
}

impl OfDocument for JudgedCluster {
    fn of(document: &Value, name: &str, settings: &Settings) -> Self {
        Self::of(document, name, settings)
    }
}

impl OfDocument<ResolvedUpstream> for JudgedCluster {
    fn of(upstream: &ResolvedUpstream, _: &str, settings: &Settings) -> Self {
        Self::of_upstream(upstream, settings)
    }
}

impl<T, S> Default for CheckedDocuments<T, S> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<S: PartialEq, T: OfDocument<S>> CheckedDocuments<T, S> {
    /// Forgets all but these.
    fn keep(&mut self, all: &BTreeMap<String, Arc<S>>) {
        self.0.retain(|name, _| all.contains_key(name));
    }

    /// `None` if there is no such object.
    fn of(&mut self, name: &str, settings: &Settings, all: &BTreeMap<String, Arc<S>>) -> Option<Arc<T>> {
        let Some(document) = all.get(name) else {
            self.0.remove(name);
            return None;
        };
        if let Some((known, checked)) = self.0.get(name)
            && (Arc::ptr_eq(known, document) || known == document)
        {
            return Some(Arc::clone(checked));
        }
        let checked = Arc::new(T::of(document, name, settings));
        self.0.insert(name.to_owned(), (Arc::clone(document), Arc::clone(&checked)));
        Some(checked)
    }
}

/// The object by the name of a cluster, or the key of an upstream.
fn object_of(name: &str, input: &GatewayInput<'_>) -> Option<RequestedObject> {
    match upstream_of_key(name) {
        Some(_) => input.upstreams.get(name).cloned().map(RequestedObject::Upstream),
        None => input.clusters.get(name).cloned().map(RequestedObject::Cluster),
    }
}

/// The clusters and upstreams to which requests are sent.
fn requested(gateway: &ServedGateway) -> impl Iterator<Item = &str> {
    requested_routes(gateway).filter_map(|(_, route)| only_cluster(route))
}

/// The routes for requests, each for every of its host names.
fn requested_routes(gateway: &ServedGateway) -> impl Iterator<Item = (&ServedListener, &BoundRoute)> {
    let tables = gateway.listeners.iter().filter_map(|listener| match &listener.role {
        ListenerRole::Terminate { routes, .. } => Some((listener, routes)),
        ListenerRole::Passthrough(_) | ListenerRole::Redirect(_) => None,
    });
    tables.flat_map(|(listener, table)| table.routes.values().map(move |route| (listener, route)))
}

impl OwnBackends {
    fn of(served: &ServedGateway, all: GatewayBackends<'_>) -> Self {
        let pool = |one: &ServedBackend| Some((one.clone(), Arc::clone(all.pools.get(one)?)));
        let cluster = |name: &str| Some((name.to_owned(), Arc::clone(all.clusters.get(name)?)));
        let certificates = served.listeners.iter().flat_map(|listener| match &listener.role {
            ListenerRole::Terminate { certificates, .. } => certificates.as_slice(),
            ListenerRole::Passthrough(_) | ListenerRole::Redirect(_) => &[],
        });
        let secret = |name: &ObjectName| Some((name.clone(), Arc::clone(all.secrets.serving.get(name)?)));
        let authorities = served.listeners.iter().flat_map(|listener| match &listener.role {
            ListenerRole::Terminate { client_ca: Some(client_ca), .. } => client_ca.config_maps.as_slice(),
            _ => &[],
        });
        let authority = |name: &ObjectName| Some((name.clone(), Arc::clone(all.secrets.client_authorities.get(name)?)));
        Self {
            pools: served.passed_on_backends().filter_map(pool).collect(),
            clusters: requested(served).filter_map(cluster).collect(),
            secrets: GatewaySecrets {
                serving: certificates.filter_map(secret).collect(),
                client_authorities: authorities.filter_map(authority).collect(),
            },
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        are_same(&self.pools, &other.pools)
            && are_same(&self.clusters, &other.clusters)
            && self.secrets == other.secrets
    }
}

fn are_same<K: PartialEq, V>(one: &BTreeMap<K, Arc<V>>, other: &BTreeMap<K, Arc<V>>) -> bool {
    let same = |(one, other): (&Arc<V>, &Arc<V>)| Arc::ptr_eq(one, other);
    one.keys().eq(other.keys()) && one.values().zip(other.values()).all(same)
}

fn known(
    served: &Arc<ServedGateway>,
    all: GatewayBackends<'_>,
    settings: &Settings,
    before: &BTreeMap<ObjectName, KnownGateway>,
) -> (ObjectName, KnownGateway) {
    let backends = OwnBackends::of(served, all);
    let is_same = |known: &&KnownGateway| known.served == *served && known.backends.is_same(&backends);
    let (group, closures) = match before.get(&served.gateway).filter(is_same) {
        Some(known) => (Arc::clone(&known.group), Arc::clone(&known.closures)),
        None => group(served, &backends, all.tightened, settings),
    };
    (served.gateway.clone(), KnownGateway { served: Arc::clone(served), backends, group, closures })
}

/// The tightened clusters depend on the Gateway's policies and on the clusters alone, so that they are no part of what is compared.
fn group(
    served: &ServedGateway,
    own: &OwnBackends,
    tightened: &Tightenings,
    settings: &Settings,
) -> (ResourceGroup, Arc<RouteClosures>) {
    let backends = GatewayBackends { pools: &own.pools, clusters: &own.clusters, secrets: &own.secrets, tightened };
    let listeners = gateway_listeners(served, backends, settings);
    let is_used = |(name, _): &(&String, &Arc<JudgedCluster>)| listeners.clusters.contains(*name);
    let clusters = own.clusters.iter().filter(is_used).filter_map(|(_, cluster)| cluster.open());
    let clusters: Vec<_> = clusters.flat_map(|open| open.resources.iter().cloned()).collect();
    let pools = own.pools.values().flat_map(|pool| pool.resources.iter().cloned());
    let group = listeners.resources.into_iter().map(Arc::new).chain(clusters).chain(pools).collect();
    (group, Arc::new(listeners.closures))
}

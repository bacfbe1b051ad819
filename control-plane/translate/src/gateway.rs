//! From accepted Gateways of the Gateway API to Envoy's resources: for each one everything that its own Envoys have, and nothing of
//! another's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{Settings, upstream_of_key};
use portcullis_attach::{ListenerRole, ObjectName, ServedBackend, ServedGateway};
use serde_json::Value;

use crate::backend::{
    BackendPool, JudgedCluster, JudgedClusters, KnownPools, Passage, PoolOrigin, Pools, ResolvedUpstream, ServicePort,
    ServiceServers,
};
use crate::gateway_secrets::GatewaySecrets;
use crate::listener::{GatewayBackends, gateway_listeners, only_cluster};
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
    known: BTreeMap<ObjectName, KnownGateway>,
}

/// The outcome of documents, by the name of their object.
struct CheckedDocuments<T, S = Value>(BTreeMap<String, (Arc<S>, Arc<T>)>);

struct KnownGateway {
    served: Arc<ServedGateway>,
    backends: OwnBackends,
    group: ResourceGroup,
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
        let wanted: BTreeSet<&ServedBackend> =
            input.gateways.iter().flat_map(|gateway| gateway.passed_on_backends()).collect();
        self.pools.keep(|backend| wanted.contains(backend));
        let pools: Pools = wanted.into_iter().map(|one| (one.clone(), self.pool(one, input))).collect();
        let requested: BTreeSet<&str> = input.gateways.iter().flat_map(|gateway| requested(gateway)).collect();
        let judge = |name: &str| Some((name.to_owned(), self.judged(name, input)?));
        let clusters: JudgedClusters = requested.into_iter().filter_map(judge).collect();
        let all = GatewayBackends { pools: &pools, clusters: &clusters, secrets: input.secrets };
        let before = std::mem::take(&mut self.known);
        self.known = input.gateways.iter().map(|gateway| known(gateway, all, input.settings, &before)).collect();
        self.known.iter().map(|(name, known)| (name.clone(), Arc::clone(&known.group))).collect()
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
        RefusedClusters { connections, requests: requests.collect() }
    }

    /// A cluster by its name, or an upstream by its key. `None` if there is none.
    fn judged(&mut self, name: &str, input: &GatewayInput<'_>) -> Option<Arc<JudgedCluster>> {
        match upstream_of_key(name) {
            Some(_) => self.upstreams.of(name, input.settings, input.upstreams),
            None => self.judged.of(name, input.settings, input.clusters),
        }
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

/// The clusters and upstreams to which requests are sent.
fn requested(gateway: &ServedGateway) -> impl Iterator<Item = &str> {
    let tables = gateway.listeners.iter().filter_map(|listener| match &listener.role {
        ListenerRole::Terminate { routes, .. } => Some(routes),
        ListenerRole::Passthrough(_) | ListenerRole::Redirect(_) => None,
    });
    tables.flat_map(|table| table.routes.values()).filter_map(only_cluster)
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
        Self {
            pools: served.passed_on_backends().filter_map(pool).collect(),
            clusters: requested(served).filter_map(cluster).collect(),
            secrets: GatewaySecrets { serving: certificates.filter_map(secret).collect() },
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
    let group = match before.get(&served.gateway).filter(is_same) {
        Some(known) => Arc::clone(&known.group),
        None => group(served, &backends, settings),
    };
    (served.gateway.clone(), KnownGateway { served: Arc::clone(served), backends, group })
}

fn group(served: &ServedGateway, own: &OwnBackends, settings: &Settings) -> ResourceGroup {
    let backends = GatewayBackends { pools: &own.pools, clusters: &own.clusters, secrets: &own.secrets };
    let listeners = gateway_listeners(served, backends, settings);
    let is_used = |(name, _): &(&String, &Arc<JudgedCluster>)| listeners.clusters.contains(*name);
    let clusters = own.clusters.iter().filter(is_used).filter_map(|(_, cluster)| cluster.open());
    let clusters: Vec<_> = clusters.flat_map(|open| open.resources.iter().cloned()).collect();
    let pools = own.pools.values().flat_map(|pool| pool.resources.iter().cloned());
    listeners.resources.into_iter().map(Arc::new).chain(clusters).chain(pools).collect()
}

//! From accepted Gateways of the Gateway API to Envoy's resources: for each one everything that its own Envoys have, and nothing of
//! another's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{Settings, upstream_of_key};
use portcullis_attach::{ListenerRole, ObjectName, RouteClosures, ServedBackend, ServedGateway, UnfitPolicy};
use serde_json::Value;

use crate::backend::{
    BackendPool, JudgedCluster, JudgedClusters, KnownPolicySizes, KnownPools, KnownTightenings, Passage, PoolOrigin,
    Pools, RequestedObject, ResolvedUpstream, ServicePort, ServiceServers, Tightenings,
};
use crate::gateway_configs::{GatewayConfigs, GatewayPlan, requested_routes};
use crate::gateway_secrets::GatewaySecrets;
use crate::listener::{ConfigKey, GatewayBackends, RoomOfAll, gateway_listeners, only_cluster};
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
    /// Policies of Gateways, listeners and routes that do not fit a cluster or an upstream, and why.
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
    policy_sizes: KnownPolicySizes,
    unfit: BTreeMap<UnfitPolicy, String>,
    known: BTreeMap<ObjectName, KnownGateway>,
}

/// The outcome of documents, by the name of their object.
struct CheckedDocuments<T, S = Value>(BTreeMap<String, (Arc<S>, Arc<T>)>);

struct KnownGateway {
    planned: PlannedGateway,
    /// The configurations for which there is no room, at the Gateway or among all.
    refused: BTreeSet<ConfigKey>,
    group: ResourceGroup,
    closures: Arc<RouteClosures>,
}

/// A Gateway with all that it refers to.
struct PlannedGateway {
    served: Arc<ServedGateway>,
    backends: OwnBackends,
    plan: Arc<GatewayPlan>,
    /// Whether all of it is what it was.
    is_same: bool,
}

/// The part of everything that one Gateway refers to.
struct OwnBackends {
    pools: Pools,
    clusters: JudgedClusters,
    secrets: GatewaySecrets,
}

/// Translates the Gateways of several instances, each by its own settings: the resources of each Gateway's Envoys. A server that cannot be
/// reached has its share of connections closed.
///
/// Tenants make routes, policies and Gateways, and each configuration of the filter is a check of the cluster and a copy: one for which
/// its Gateway has no room, or all of them together have none, is not made, and its routes are closed.
pub fn translate_gateways(
    parts: &mut [(&mut GatewayTranslator, GatewayInput<'_>)],
) -> Vec<BTreeMap<ObjectName, ResourceGroup>> {
    let planned: Vec<Vec<PlannedGateway>> =
        parts.iter_mut().map(|(translator, input)| translator.plan(input)).collect();
    let mut room = RoomOfAll::default();
    planned.iter().flatten().for_each(|one| one.plan.want(&one.served.gateway, &mut room));
    let refused = room.refused();
    let parts = parts.iter_mut().zip(planned);
    parts.map(|((translator, input), planned)| translator.make(planned, &refused, input)).collect()
}

impl GatewayTranslator {
    /// Translates the Gateways of one instance, where there are no others.
    pub fn translate(&mut self, input: &GatewayInput<'_>) -> BTreeMap<ObjectName, ResourceGroup> {
        translate_gateways(&mut [(self, *input)]).pop().unwrap_or_default()
    }

    fn plan(&mut self, input: &GatewayInput<'_>) -> Vec<PlannedGateway> {
        self.follow(input.settings);
        self.keep(input);
        let wanted: BTreeSet<&ServedBackend> =
            input.gateways.iter().flat_map(|gateway| gateway.passed_on_backends()).collect();
        self.pools.keep(|backend| wanted.contains(backend));
        let pools: Pools = wanted.into_iter().map(|one| (one.clone(), self.pool(one, input))).collect();
        let requested: BTreeSet<&str> = input.gateways.iter().flat_map(|gateway| requested(gateway)).collect();
        let judge = |name: &str| Some((name.to_owned(), self.judged(name, input)?));
        let clusters: JudgedClusters = requested.into_iter().filter_map(judge).collect();
        let plan = |served: &Arc<ServedGateway>| {
            let backends = OwnBackends::of(served, &pools, &clusters, input.secrets);
            let before = self.known.get(&served.gateway).map(|known| &known.planned);
            let before = before.filter(|known| known.served == *served && known.backends.is_same(&backends));
            let (is_same, plan) = match before {
                Some(known) => (true, Arc::clone(&known.plan)),
                None => {
                    let (clusters, secrets) = (&backends.clusters, &backends.secrets);
                    (false, Arc::new(GatewayPlan::of(served, clusters, secrets, &mut self.policy_sizes)))
                }
            };
            PlannedGateway { served: Arc::clone(served), backends, plan, is_same }
        };
        input.gateways.iter().map(plan).collect()
    }

    fn make(
        &mut self,
        planned: Vec<PlannedGateway>,
        refused: &BTreeMap<ObjectName, BTreeSet<ConfigKey>>,
        input: &GatewayInput<'_>,
    ) -> BTreeMap<ObjectName, ResourceGroup> {
        let configs = |one: &PlannedGateway| self.configs(one, refused.get(&one.served.gateway), input);
        let configs: Vec<GatewayConfigs> = planned.iter().map(configs).collect();
        self.tightenings.keep(configs.iter().map(|one| &one.tightened));
        let made = configs.iter().flat_map(|one| one.tightened.values());
        self.unfit = made.flat_map(|one| one.unfit.clone()).collect();
        let mut before = std::mem::take(&mut self.known);
        let of_gateway = |(planned, configs): (PlannedGateway, GatewayConfigs)| {
            let before = before.remove(&planned.served.gateway);
            (planned.served.gateway.clone(), known(planned, configs, before, input.settings))
        };
        self.known = planned.into_iter().zip(configs).map(of_gateway).collect();
        drop(before);
        self.policy_sizes.forget_unused();
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

    /// The configurations of a Gateway. `of_all` are those for which all Gateways together have no room.
    fn configs(
        &mut self,
        planned: &PlannedGateway,
        of_all: Option<&BTreeSet<ConfigKey>>,
        input: &GatewayInput<'_>,
    ) -> GatewayConfigs {
        let PlannedGateway { served, backends, plan, .. } = planned;
        let refused = plan.refused_with(of_all);
        let mut tightened = Tightenings::new();
        for ConfigKey { cluster, doors, .. } in plan.tightened(&refused) {
            let open = backends.clusters.get(cluster).and_then(|judged| judged.open());
            let (Some(object), Some(open)) = (object_of(cluster, input), open) else { continue };
            tightened.entry((cluster.clone(), doors.clone())).or_insert_with(|| {
                let policies = served.policies.of_doors(doors, cluster);
                self.tightenings.of((cluster, doors), policies, (&object, open), input.settings)
            });
        }
        GatewayConfigs { tightened, refused }
    }

    /// Number of tightened clusters that are kept.
    #[cfg(test)]
    pub(crate) fn tightened_count(&self) -> usize {
        self.tightenings.count()
    }

    /// The bytes of their configurations.
    #[cfg(test)]
    pub(crate) fn tightened_text(&self) -> usize {
        self.tightenings.text()
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
    requested_routes(gateway).filter_map(only_cluster)
}

impl OwnBackends {
    fn of(served: &ServedGateway, pools: &Pools, clusters: &JudgedClusters, secrets: &GatewaySecrets) -> Self {
        let pool = |one: &ServedBackend| Some((one.clone(), Arc::clone(pools.get(one)?)));
        let cluster = |name: &str| Some((name.to_owned(), Arc::clone(clusters.get(name)?)));
        let certificates = served.listeners.iter().flat_map(|listener| match &listener.role {
            ListenerRole::Terminate { certificates, .. } => certificates.as_slice(),
            ListenerRole::Passthrough(_) | ListenerRole::Redirect(_) => &[],
        });
        let secret = |name: &ObjectName| Some((name.clone(), Arc::clone(secrets.serving.get(name)?)));
        let authorities = served.listeners.iter().flat_map(|listener| match &listener.role {
            ListenerRole::Terminate { client_ca: Some(client_ca), .. } => client_ca.config_maps.as_slice(),
            _ => &[],
        });
        let authority = |name: &ObjectName| Some((name.clone(), Arc::clone(secrets.client_authorities.get(name)?)));
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
    planned: PlannedGateway,
    configs: GatewayConfigs,
    before: Option<KnownGateway>,
    settings: &Settings,
) -> KnownGateway {
    let same = before.filter(|known| planned.is_same && known.refused == configs.refused);
    let (group, closures) = match same {
        Some(known) => (known.group, known.closures),
        None => group(&planned.served, &planned.backends, &configs, settings),
    };
    KnownGateway { planned, refused: configs.refused, group, closures }
}

/// The configurations depend on the Gateway's policies, on the clusters and on what is refused, so that they are no part of what is
/// compared.
fn group(
    served: &ServedGateway,
    own: &OwnBackends,
    GatewayConfigs { tightened, refused }: &GatewayConfigs,
    settings: &Settings,
) -> (ResourceGroup, Arc<RouteClosures>) {
    let (pools, clusters, secrets) = (&own.pools, &own.clusters, &own.secrets);
    let backends = GatewayBackends { pools, clusters, secrets, tightened, refused };
    let listeners = gateway_listeners(served, backends, settings);
    let is_used = |(name, _): &(&String, &Arc<JudgedCluster>)| listeners.clusters.contains(*name);
    let clusters = own.clusters.iter().filter(is_used).filter_map(|(_, cluster)| cluster.open());
    let clusters: Vec<_> = clusters.flat_map(|open| open.resources.iter().cloned()).collect();
    let pools = own.pools.values().flat_map(|pool| pool.resources.iter().cloned());
    let group = listeners.resources.into_iter().map(Arc::new).chain(clusters).chain(pools).collect();
    (group, Arc::new(listeners.closures))
}

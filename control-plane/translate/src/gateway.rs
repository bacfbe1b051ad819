//! From accepted Gateways of the Gateway API to Envoy's resources: for each one everything that its own Envoys have, and nothing of
//! another's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::Settings;
use portcullis_attach::{ObjectName, ServedBackend, ServedGateway};
use serde_json::Value;

use crate::backend::{BackendPool, KnownPools, Passage, PoolOrigin, Pools, ServicePort, ServiceServers};
use crate::listener::gateway_listeners;
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
    /// The ports of Services to which routes lead. One that is not here has no servers.
    pub services: &'a BTreeMap<ServicePort, ServiceServers>,
}

/// Translates Gateways repeatedly: one for which nothing is other than before has the same group.
///
/// The output depends on the input alone, not on earlier translations.
#[derive(Default)]
pub struct GatewayTranslator {
    settings: Option<Settings>,
    passages: BTreeMap<String, (Arc<Value>, Arc<Passage>)>,
    pools: KnownPools,
    known: BTreeMap<ObjectName, KnownGateway>,
}

struct KnownGateway {
    served: Arc<ServedGateway>,
    pools: Pools,
    group: ResourceGroup,
}

impl GatewayTranslator {
    /// The resources of each Gateway's Envoys. A server that cannot be reached has its share of connections closed.
    pub fn translate(&mut self, input: &GatewayInput<'_>) -> BTreeMap<ObjectName, ResourceGroup> {
        self.follow(input.settings);
        let wanted: BTreeSet<&ServedBackend> =
            input.gateways.iter().flat_map(|gateway| gateway.passed_on_backends()).collect();
        self.pools.keep(|backend| wanted.contains(backend));
        let pools: Pools = wanted.into_iter().map(|one| (one.clone(), self.pool(one, input))).collect();
        let before = std::mem::take(&mut self.known);
        self.known = input.gateways.iter().map(|gateway| known(gateway, &pools, input.settings, &before)).collect();
        self.known.iter().map(|(name, known)| (name.clone(), Arc::clone(&known.group))).collect()
    }

    /// Of these `UpstreamClusters` those to which no connection may be passed on, and why.
    pub fn refused<'a>(
        &mut self,
        names: impl IntoIterator<Item = &'a String>,
        settings: &Settings,
        clusters: &BTreeMap<String, Arc<Value>>,
    ) -> BTreeMap<String, String> {
        self.follow(settings);
        let refused = |name: &String| match self.passage(name, settings, clusters)?.as_ref() {
            Passage::Refused(why) => Some((name.clone(), why.clone())),
            Passage::Open(_) | Passage::Closed => None,
        };
        names.into_iter().filter_map(refused).collect()
    }

    fn follow(&mut self, settings: &Settings) {
        if self.settings.as_ref() != Some(settings) {
            *self = Self { settings: Some(settings.clone()), ..Self::default() };
        }
    }

    fn pool(&mut self, backend: &ServedBackend, input: &GatewayInput<'_>) -> Arc<BackendPool> {
        let origin = match backend {
            ServedBackend::Cluster(name) => {
                self.passage(name, input.settings, input.clusters).map_or(PoolOrigin::Absent, PoolOrigin::Cluster)
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

    /// `None` if there is no such `UpstreamCluster`.
    fn passage(
        &mut self,
        name: &String,
        settings: &Settings,
        clusters: &BTreeMap<String, Arc<Value>>,
    ) -> Option<Arc<Passage>> {
        let Some(document) = clusters.get(name) else {
            self.passages.remove(name);
            return None;
        };
        if let Some((known, passage)) = self.passages.get(name)
            && (Arc::ptr_eq(known, document) || known == document)
        {
            return Some(Arc::clone(passage));
        }
        let passage = Arc::new(Passage::of(document, name, settings));
        self.passages.insert(name.clone(), (Arc::clone(document), Arc::clone(&passage)));
        Some(passage)
    }
}

fn known(
    served: &Arc<ServedGateway>,
    pools: &Pools,
    settings: &Settings,
    before: &BTreeMap<ObjectName, KnownGateway>,
) -> (ObjectName, KnownGateway) {
    let own = served.passed_on_backends();
    let own: Pools = own.filter_map(|one| Some((one.clone(), Arc::clone(pools.get(one)?)))).collect();
    let is_same = |known: &&KnownGateway| {
        let same_pool = |(one, other): (&Arc<BackendPool>, &Arc<BackendPool>)| Arc::ptr_eq(one, other);
        known.served == *served
            && known.pools.keys().eq(own.keys())
            && known.pools.values().zip(own.values()).all(same_pool)
    };
    let group = match before.get(&served.gateway).filter(is_same) {
        Some(known) => Arc::clone(&known.group),
        None => group(served, &own, settings),
    };
    (served.gateway.clone(), KnownGateway { served: Arc::clone(served), pools: own, group })
}

fn group(served: &ServedGateway, pools: &Pools, settings: &Settings) -> ResourceGroup {
    let listeners = gateway_listeners(served, pools, settings).into_iter().map(Arc::new);
    listeners.chain(pools.values().flat_map(|pool| pool.resources.iter().cloned())).collect()
}

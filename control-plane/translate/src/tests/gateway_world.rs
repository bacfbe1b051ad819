//! Gateways for tests, and the parts of what is made of them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener};
use portcullis_api::{DiscoveredServer, Settings};
use portcullis_attach::{
    BoundRoute, DoorPolicies, HostPattern, HostTable, ListenerRole, ObjectName, RouteKind, ServedBackend,
    ServedGateway, ServedListener, WeightedBackend,
};
use prost::Message;
use serde_json::Value;

use super::fixture::{Pki, set};
use crate::resource::{Resource, ResourceGroup, type_urls};
use crate::{GatewayInput, GatewaySecrets, GatewayTranslator, ResolvedUpstream, ServicePort, ServiceServers};

pub(super) const NAME: &str = "prod.example.com";
pub(super) const OTHER: &str = "other.example.com";

pub(super) fn cluster(name: &str, weight: u32) -> WeightedBackend {
    WeightedBackend { backend: ServedBackend::Cluster(name.to_owned()), weight }
}

pub(super) fn service(weight: u32) -> WeightedBackend {
    WeightedBackend { backend: ServedBackend::Service { name: ObjectName::new("team", "web"), port: 443 }, weight }
}

pub(super) fn route(name: &str, backends: Vec<WeightedBackend>, refused_weight: u32) -> BoundRoute {
    BoundRoute { kind: RouteKind::Tls, route: ObjectName::new("team", name), backends, refused_weight }
}

pub(super) fn host(text: &str) -> HostPattern {
    HostPattern::parse(text).unwrap()
}

pub(super) fn listener(name: &str, port: u16, routes: Vec<(&str, BoundRoute)>, withheld: &[&str]) -> ServedListener {
    let routes = routes.into_iter().map(|(name, route)| (host(name), route)).collect();
    let table =
        HostTable { routes, withheld: withheld.iter().map(|name| host(name)).collect(), owned: BTreeMap::new() };
    ServedListener { name: name.to_owned(), port, host: HostPattern::Any, role: ListenerRole::Passthrough(table) }
}

pub(super) fn gateway(name: &str, addresses: Vec<IpAddr>, listeners: Vec<ServedListener>) -> ServedGateway {
    let policies = DoorPolicies::default();
    ServedGateway { gateway: ObjectName::new("infra", name), addresses, settings: None, listeners, policies }
}

/// The inputs of a translation beside the Gateways.
pub(super) struct World {
    pub(super) settings: Settings,
    pub(super) clusters: BTreeMap<String, Arc<Value>>,
    pub(super) services: BTreeMap<ServicePort, ServiceServers>,
    pub(super) secrets: GatewaySecrets,
    pub(super) upstreams: BTreeMap<String, Arc<ResolvedUpstream>>,
}

impl World {
    pub(super) fn new(pki: &Pki) -> Self {
        let named = |name: &str| (name.to_owned(), Arc::new(pki.cluster(name)));
        let port = ServicePort { service: ObjectName::new("team", "web"), port: 443 };
        let servers = vec![DiscoveredServer { ip: [10, 8, 0, 1].into(), port: 8443, zone: "zone-a".to_owned() }];
        Self {
            settings: pki.settings(),
            clusters: [named(NAME), named(OTHER)].into(),
            services: [(port, ServiceServers { uid: "1111-2222".to_owned(), servers })].into(),
            secrets: GatewaySecrets::default(),
            upstreams: BTreeMap::new(),
        }
    }

    pub(super) fn edit(&mut self, name: &str, pointer: &str, value: Value) {
        let mut document = self.clusters[name].as_ref().clone();
        set(&mut document, pointer, value);
        self.clusters.insert(name.to_owned(), Arc::new(document));
    }

    pub(super) fn translate(
        &self,
        translator: &mut GatewayTranslator,
        gateways: &[Arc<ServedGateway>],
    ) -> BTreeMap<ObjectName, ResourceGroup> {
        translator.translate(&self.input(gateways))
    }

    pub(super) fn input<'a>(&'a self, gateways: &'a [Arc<ServedGateway>]) -> GatewayInput<'a> {
        let Self { settings, clusters, services, secrets, upstreams } = self;
        GatewayInput { settings, gateways, clusters, upstreams, services, secrets }
    }

    pub(super) fn one(&self, gateway: ServedGateway) -> ResourceGroup {
        let name = gateway.gateway.clone();
        self.translate(&mut GatewayTranslator::default(), &[Arc::new(gateway)]).remove(&name).unwrap()
    }
}

pub(super) fn listeners(group: &[Arc<Resource>]) -> Vec<Listener> {
    let listeners = group.iter().filter(|one| one.type_url == type_urls::listener());
    listeners.map(|one| Listener::decode(one.message().as_slice()).unwrap()).collect()
}

pub(super) fn chain_of(group: &[Arc<Resource>], server_name: &str) -> FilterChain {
    let chains = listeners(group).into_iter().flat_map(|listener| listener.filter_chains);
    let has = |chain: &FilterChain| {
        chain.filter_chain_match.as_ref().unwrap().server_names.iter().any(|name| name == server_name)
    };
    let mut found: Vec<_> = chains.filter(has).collect();
    assert_eq!(found.len(), 1, "{server_name}");
    found.remove(0)
}

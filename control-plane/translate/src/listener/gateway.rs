//! The listeners of a Gateway: one for each of its addresses and ports, with a filter chain for each route.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, FilterChainMatch, Listener, ListenerFilter};
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::weighted_cluster::ClusterWeight;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::{
    ClusterSpecifier, WeightedCluster,
};
use portcullis_api::{Cidr, Settings};
use portcullis_attach::{
    BoundRoute, HostPattern, HostTable, ListenerRole, ObjectName, RedirectTable, RouteClosure, RouteClosures,
    ServedGateway, ServedListener,
};
use prost::Message;

use super::closed_route::ClosedBecause;
use super::config_room::ConfigKey;
use super::encoded_chain::{EncodedChains, ListenerPart};
use super::gateway_budget::GatewayBudget;
use super::https::{HttpsInput, HttpsListener};
use super::port::{range, tls_inspector};
use super::{BUFFER_LIMIT, LISTENER_FILTERS_TIMEOUT, NO_NAME, access_log, chain, passthrough, redirect};
use crate::backend::{JudgedClusters, Pools, Tightenings};
use crate::gateway_secrets::GatewaySecrets;
use crate::names::{ResourceNames, stat_name};
use crate::proto::{ip_socket, seconds, uint};
use crate::resource::Resource;

/// A cluster that is never there: connections to it are closed.
const NO_CLUSTER: &str = "nowhere";

/// Everything that routes and listeners of Gateways refer to.
#[derive(Clone, Copy)]
pub(crate) struct GatewayBackends<'a> {
    /// For connections that are passed on.
    pub(crate) pools: &'a Pools,
    /// For requests.
    pub(crate) clusters: &'a JudgedClusters,
    pub(crate) secrets: &'a GatewaySecrets,
    /// Clusters behind doors with policies.
    pub(crate) tightened: &'a Tightenings,
    /// The configurations of the filter for which the Gateway has no room.
    pub(crate) refused: &'a BTreeSet<ConfigKey>,
}

/// The listeners of a Gateway, and what their chains refer to beside their servers.
pub(crate) struct GatewayResources {
    pub(crate) resources: Vec<Resource>,
    /// The `UpstreamClusters` to which requests are sent.
    pub(crate) clusters: BTreeSet<String>,
    /// Routes whose connections are closed, though their objects do not say so.
    pub(crate) closures: RouteClosures,
}

/// The listeners of a Gateway.
pub(crate) fn gateway_listeners(
    gateway: &ServedGateway,
    backends: GatewayBackends<'_>,
    settings: &Settings,
) -> GatewayResources {
    let mut ports: BTreeMap<u16, Vec<(&ServedListener, &HostTable)>> = BTreeMap::new();
    let mut plain: BTreeMap<u16, Vec<&Arc<RedirectTable>>> = BTreeMap::new();
    let mut open: BTreeSet<u16> = BTreeSet::new();
    for listener in &gateway.listeners {
        match &listener.role {
            ListenerRole::Passthrough(table) => ports.entry(listener.port).or_default().push((listener, table)),
            ListenerRole::Redirect(table) => plain.entry(listener.port).or_default().push(table),
            ListenerRole::Terminate { routes, .. } => {
                ports.entry(listener.port).or_default().push((listener, routes));
                open.extend(backends.secrets.closed_because(listener).is_none().then_some(listener.port));
            }
        }
    }
    let addresses = if gateway.addresses.is_empty() { settings.ips() } else { gateway.addresses.clone() };
    let addresses: BTreeSet<IpAddr> = addresses.into_iter().collect();
    let translator = GatewayListeners { gateway, backends, settings };
    let mut referred =
        Referred { resources: BTreeMap::new(), clusters: BTreeSet::new(), closures: RouteClosures::new() };
    let (mut of_ports, answering): (Vec<Vec<RouteChain<'_>>>, Vec<Vec<FilterChain>>) =
        ports.values().map(|tables| translator.route_chains(tables, &mut referred)).unzip();
    close_without_room(&mut of_ports, addresses.len());
    let mut listeners = Vec::new();
    for ((port, tables), (of_port, answering)) in ports.iter().zip(of_ports.into_iter().zip(answering)) {
        let chains = translator.chains(tables, of_port, answering, &mut referred);
        listeners.extend(addresses.iter().map(|address| translator.listener(*address, *port, &chains)));
    }
    // Ports with the same tables have the same chain, which may be of megabytes.
    let mut made: HashMap<Vec<*const RedirectTable>, PortChains> = HashMap::new();
    for (port, tables) in &plain {
        let same = tables.iter().map(|table| Arc::as_ptr(table)).collect();
        let chains = &*made.entry(same).or_insert_with(|| PortChains::plain(tables, &open, settings));
        listeners.extend(addresses.iter().map(|address| translator.listener(*address, *port, chains)));
    }
    let Referred { resources, clusters, closures } = referred;
    GatewayResources { resources: listeners.into_iter().chain(resources.into_values()).collect(), clusters, closures }
}

/// The port of one of a Gateway's listeners in Envoy, by the name of that.
pub fn gateway_listener_port(name: &str) -> Option<u16> {
    name.rsplit_once('-')?.1.parse().ok()
}

/// Closes routes whose client addresses take more memory than their namespaces have.
fn close_without_room(of_ports: &mut [Vec<RouteChain<'_>>], addresses: usize) {
    let mut budget = GatewayBudget::new(addresses);
    for (number, one) in of_ports.iter().flatten().enumerate() {
        one.chain.iter().for_each(|chain| budget.want(number, &one.route.route.namespace, chain));
    }
    let refused = budget.refused();
    let all = of_ports.iter_mut().flatten().enumerate();
    all.filter(|(number, _)| refused.contains(number)).for_each(|(_, one)| one.close(ClosedBecause::ClientAddresses));
}

#[derive(Clone, Copy)]
struct GatewayListeners<'a> {
    gateway: &'a ServedGateway,
    backends: GatewayBackends<'a>,
    settings: &'a Settings,
}

/// Routes and Secrets that chains refer to, by name, and the clusters behind them. Envoy asks for no others.
struct Referred {
    resources: BTreeMap<String, Resource>,
    clusters: BTreeSet<String>,
    closures: RouteClosures,
}

/// The chain of a route at a listener.
struct RouteChain<'a> {
    listener: &'a ServedListener,
    route: &'a BoundRoute,
    /// None if its connections are closed.
    chain: Option<FilterChain>,
    /// The one in its place.
    closed: FilterChain,
    because: Option<ClosedBecause>,
}

/// The chains of a route, and those in their place.
type ChainsOfRoute = (Vec<FilterChain>, Vec<FilterChain>);

/// The chains of a port, encoded. The listeners of all addresses share their bytes.
struct PortChains {
    listener_filters: Vec<ListenerFilter>,
    /// Those of no route.
    own: Bytes,
    /// By owner, with those in their place if Envoy refuses them.
    of_routes: BTreeMap<String, ListenerPart>,
}

impl PortChains {
    /// Those of plain HTTP.
    fn plain(tables: &[&Arc<RedirectTable>], open: &BTreeSet<u16>, settings: &Settings) -> Self {
        let chain = FilterChain {
            name: ResourceNames::gateway(&settings.instance).part("plain"),
            filters: vec![chain::http_connection_manager(redirect::manager(tables, open, settings))],
            ..Default::default()
        };
        let own = EncodedChains::of([chain.encode_to_vec()]).into();
        Self { listener_filters: Vec::new(), own, of_routes: BTreeMap::new() }
    }
}

impl GatewayListeners<'_> {
    /// The chains of routes at a port, in the order of listeners and of the routes' names, and those of routes without a backend that can
    /// be used, one for each listener.
    fn route_chains<'b>(
        &self,
        listeners: &[(&'b ServedListener, &'b HostTable)],
        referred: &mut Referred,
    ) -> (Vec<RouteChain<'b>>, Vec<FilterChain>) {
        let (mut chains, mut answering) = (Vec::new(), Vec::new());
        for (listener, table) in listeners.iter().copied() {
            let https = self.https(listener);
            referred.extend(https.as_ref());
            answering.extend(https.as_ref().and_then(HttpsListener::unresolved_chain));
            let mut hosts: BTreeMap<&ObjectName, (&BoundRoute, BTreeSet<&HostPattern>)> = BTreeMap::new();
            let is_answered = |host: &HostPattern| https.as_ref().is_some_and(|https| https.is_unresolved(host));
            for (host, route) in table.routes.iter().filter(|(host, _)| !is_answered(host)) {
                hosts.entry(&route.route).or_insert_with(|| (route, BTreeSet::new())).1.insert(host);
            }
            for (route, hosts) in hosts.into_values() {
                let (name, hosts) = (self.chain_name(listener, route), server_names(&hosts));
                let closed = chain::closed(name.clone(), hosts.clone());
                let chain = match (&listener.role, &https) {
                    (ListenerRole::Passthrough(_), _) => self.chain(name, route, hosts),
                    (_, Some(https)) => https.chain(&name, route, hosts),
                    (_, None) => None,
                };
                let because = https.as_ref().and_then(|https| https.closed_because(route));
                chains.push(RouteChain { listener, route, chain, closed, because });
            }
        }
        (chains, answering)
    }

    fn chains(
        &self,
        listeners: &[(&ServedListener, &HostTable)],
        chains: Vec<RouteChain<'_>>,
        answering: Vec<FilterChain>,
        referred: &mut Referred,
    ) -> PortChains {
        let mut of_routes: BTreeMap<String, ChainsOfRoute> = BTreeMap::new();
        let tables = || listeners.iter().map(|(_, table)| table);
        for RouteChain { listener, route, chain, closed, because } in chains {
            referred.close(route, because.map(|because| self.closure(listener, &because)));
            let chain = chain.unwrap_or_else(|| closed.clone());
            let (chains, fallback) = of_routes.entry(format!("{} {}", route.kind, route.route)).or_default();
            chains.push(chain);
            fallback.push(closed);
        }
        let served: BTreeSet<&HostPattern> = tables().flat_map(|table| table.routes.keys()).collect();
        // Of wildcards of several listeners the same names are below, and are there once.
        let owned: BTreeMap<&HostPattern, &Arc<BTreeSet<HostPattern>>> =
            tables().flat_map(|table| &table.owned).collect();
        let withheld = tables().flat_map(|table| &table.withheld).chain(owned.into_values().flat_map(|names| &**names));
        let withheld: BTreeSet<&HostPattern> = withheld.collect();
        let mut closed: Vec<String> = withheld.difference(&served).filter_map(|host| server_name(host)).collect();
        if served.is_empty() && closed.is_empty() {
            // Envoy refuses a listener without any chain.
            closed.push(NO_NAME.to_owned());
        }
        let name = || ResourceNames::gateway(&self.settings.instance).part("withheld");
        let withheld = if closed.is_empty() { None } else { Some(chain::closed(name(), closed)) };
        let own = EncodedChains::of(withheld.iter().chain(&answering).map(Message::encode_to_vec));
        let part =
            |(owner, (chains, fallback)): (String, ChainsOfRoute)| (owner, ListenerPart::new(&chains, &fallback));
        let of_routes = of_routes.into_iter().map(part).collect();
        PortChains { listener_filters: vec![tls_inspector()], own: own.into(), of_routes }
    }

    fn closure(&self, listener: &ServedListener, because: &ClosedBecause) -> RouteClosure {
        RouteClosure {
            gateway: self.gateway.gateway.clone(),
            listener: listener.name.clone(),
            reason: because.reason(),
            message: because.to_string().into(),
        }
    }

    fn chain_name(&self, listener: &ServedListener, route: &BoundRoute) -> String {
        ResourceNames::namespaced(&self.settings.instance, &route.route).part(&listener.name)
    }

    fn https<'a>(&'a self, listener: &'a ServedListener) -> Option<HttpsListener<'a>> {
        let GatewayBackends { clusters, secrets, tightened, refused, .. } = self.backends;
        HttpsInput { gateway: self.gateway, clusters, secrets, tightened, refused, settings: self.settings }
            .listener(listener)
    }

    /// The chain of a route by which connections are passed on; `None` if they are closed.
    fn chain(&self, name: String, route: &BoundRoute, server_names: Vec<String>) -> Option<FilterChain> {
        let (pools, client_addresses) = self.pools(route)?;
        let log = access_log::of_route(
            &self.settings.access_log,
            &self.gateway.gateway.to_string(),
            &route.route.to_string(),
        );
        Some(FilterChain {
            name,
            filter_chain_match: Some(FilterChainMatch {
                server_names,
                source_prefix_ranges: client_addresses.iter().map(range).collect(),
                transport_protocol: "tls".to_owned(),
                source_type: chain::passed_on_source_type(self.settings),
                ..Default::default()
            }),
            filters: vec![passthrough::proxy(stat_name(&route.route.to_string()), pools, log)],
            ..Default::default()
        })
    }

    /// The clusters by weight, and the client addresses that may connect to them; `None` if no connection reaches a server. A server
    /// without weight is none.
    ///
    /// Client addresses are a match of the whole chain: where a cluster has some and another one has others, the former's share is
    /// closed.
    fn pools(&self, route: &BoundRoute) -> Option<(ClusterSpecifier, Vec<Cidr>)> {
        let weighted = || route.backends.iter().filter(|one| one.weight > 0);
        let pools = weighted().filter_map(|one| self.backends.pools.get(&one.backend));
        let mut open = pools.filter(|pool| pool.name.is_some()).map(|pool| &pool.client_addresses);
        let first = open.next().cloned().unwrap_or_default();
        let addresses = if open.all(|other| *other == first) { first } else { Vec::new() };
        let mut weights: BTreeMap<String, u32> = BTreeMap::new();
        let mut refused = route.refused_weight;
        for one in weighted() {
            let pool = self.backends.pools.get(&one.backend).filter(|pool| pool.client_addresses == addresses);
            match pool.and_then(|pool| pool.name.as_ref()) {
                Some(name) => {
                    let weight = weights.entry(name.clone()).or_default();
                    *weight = weight.saturating_add(one.weight);
                }
                None => refused = refused.saturating_add(one.weight),
            }
        }
        match (weights.len(), refused) {
            (0, _) => None,
            (1, 0) => Some((ClusterSpecifier::Cluster(weights.into_keys().next()?), addresses)),
            _ => {
                let nowhere = ResourceNames::gateway(&self.settings.instance).part(NO_CLUSTER);
                weights.extend((refused > 0).then_some((nowhere, refused)));
                let clusters =
                    weights.into_iter().map(|(name, weight)| ClusterWeight { name, weight, ..Default::default() });
                let weighted = WeightedCluster { clusters: clusters.collect() };
                Some((ClusterSpecifier::WeightedClusters(weighted), addresses))
            }
        }
    }

    fn listener(&self, address: IpAddr, port: u16, chains: &PortChains) -> Resource {
        // Neither the Gateway nor the instance is in it: see [`ResourceNames::listener`].
        let name = ResourceNames::listener().part(&format!("gateway-{address}-{port}"));
        let of = &self.gateway.gateway;
        let stat_prefix = format!("{}/{}/{}/{address}/{port}", self.settings.instance, of.namespace, of.name);
        let listener = Listener {
            // A colon would end the name where statistics are listed.
            stat_prefix: stat_name(&stat_prefix).replace(':', "-"),
            address: Some(ip_socket(address, port)),
            per_connection_buffer_limit_bytes: Some(uint(BUFFER_LIMIT)),
            listener_filters: chains.listener_filters.clone(),
            listener_filters_timeout: Some(seconds(LISTENER_FILTERS_TIMEOUT)),
            name: name.clone(),
            ..Default::default()
        };
        let mut resource = Resource::new(name, &listener);
        resource.common = chains.own.clone();
        resource.parts = chains.of_routes.iter().map(|(owner, part)| part.owned_by(&owner.as_str().into())).collect();
        resource
    }
}

impl RouteChain<'_> {
    fn close(&mut self, because: ClosedBecause) {
        self.chain = None;
        self.because.get_or_insert(because);
    }
}

impl Referred {
    fn close(&mut self, route: &BoundRoute, closure: Option<RouteClosure>) {
        if let Some(closure) = closure {
            self.closures.entry((route.kind, route.route.clone())).or_default().push(closure);
        }
    }

    fn extend(&mut self, listener: Option<&HttpsListener<'_>>) {
        let Some(listener) = listener else { return };
        self.clusters.extend(listener.clusters().map(str::to_owned));
        self.resources.extend(listener.resources().map(|one| (format!("{} {}", one.type_url, one.name), one)));
    }
}

fn server_names(hosts: &BTreeSet<&HostPattern>) -> Vec<String> {
    hosts.iter().filter_map(|host| server_name(host)).collect()
}

/// As Envoy has it: `None` are all names.
fn server_name(host: &HostPattern) -> Option<String> {
    (*host != HostPattern::Any).then(|| host.to_string())
}

//! The accepted part of all objects, which is served.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use crate::claim_rights::Holder;
use crate::claims::{HostClaims, is_narrower};
use crate::cluster_names::ClusterNames;
use crate::credentials::CredentialGrants;
use crate::gateway::JudgedGateway;
use crate::host::HostPattern;
use crate::host_index::HostIndex;
use crate::https_names::{HeldAt, held};
use crate::listener::{JudgedListener, ListenerProtocol, ServedClientCa};
use crate::name::{ObjectName, RouteKind};
use crate::policy::DoorPolicies;
use crate::redirect_budget::PlainHttp;
use crate::redirects::{HttpsHosts, RedirectTable};
use crate::route::{JudgedRoute, ServedBackend, WeightedBackend};

/// An accepted Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedGateway {
    /// Its name.
    pub gateway: ObjectName,
    /// Its addresses. If there are none, its Envoys listen at those of their settings.
    pub addresses: Vec<IpAddr>,
    /// The `GatewaySettings` of its class.
    pub settings: Option<String>,
    /// Its accepted listeners with all they need.
    pub listeners: Vec<ServedListener>,
    /// The policies that hold for requests at it.
    pub policies: DoorPolicies,
}

/// A listener that accepts connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedListener {
    /// Its name.
    pub name: String,
    /// Its port.
    pub port: u16,
    /// Its host names. One without a route is its own all the same, and not a wider listener's.
    pub host: HostPattern,
    /// Its use.
    pub role: ListenerRole,
}

/// The use of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerRole {
    /// Answers plain HTTP: 308 to HTTPS, and 404 for all other host names. Listeners of a Gateway with the same host name share the table.
    Redirect(Arc<RedirectTable>),
    /// Ends TLS and serves requests.
    Terminate {
        /// The Secrets with its certificates; at least one.
        certificates: Vec<ObjectName>,
        /// The CAs for client certificates.
        client_ca: Option<ServedClientCa>,
        /// By host names, which do not repeat.
        routes: HostTable,
    },
    /// Passes TLS on, by the name in the `ClientHello`.
    Passthrough(HostTable),
}

/// Routes by their host names. The narrowest one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostTable {
    /// The routes.
    pub routes: BTreeMap<HostPattern, BoundRoute>,
    /// Host names that one of `routes` covers and that are not served here: their owner is another one, or is not accepted.
    pub withheld: BTreeSet<HostPattern>,
    /// By the wildcards of `routes`: host names below them that `UpstreamClusters` own. They are not served here either, except those
    /// of `routes`. All listeners share them.
    pub owned: BTreeMap<HostPattern, Arc<BTreeSet<HostPattern>>>,
}

/// A route at a host name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundRoute {
    /// Its kind.
    pub kind: RouteKind,
    /// Its name.
    pub route: ObjectName,
    /// The servers.
    pub backends: Vec<WeightedBackend>,
    /// The share of connections or requests that is refused, because their server cannot be used.
    pub refused_weight: u32,
}

impl ServedGateway {
    /// The servers that connections are passed on to.
    pub fn passed_on_backends(&self) -> impl Iterator<Item = &ServedBackend> {
        let routes = self.listeners.iter().flat_map(|listener| match &listener.role {
            ListenerRole::Passthrough(table) => table.routes.values().collect::<Vec<&BoundRoute>>(),
            ListenerRole::Redirect(_) | ListenerRole::Terminate { .. } => Vec::new(),
        });
        routes.flat_map(|route| route.backends.iter().map(|one| &one.backend))
    }

    /// The Services among them, with their ports.
    pub fn services(&self) -> impl Iterator<Item = (&ObjectName, u16)> {
        self.passed_on_backends().filter_map(|backend| match backend {
            ServedBackend::Service { name, port } => Some((name, *port)),
            ServedBackend::Cluster(_) => None,
        })
    }
}

impl ServedGateway {
    /// The same without the clusters to which it may not lead: their share of connections or requests is refused. `None` if it may lead
    /// to all.
    pub fn without_clusters(&self, may_lead: impl Fn(&str) -> bool) -> Option<Self> {
        let is_permitted = |one: &WeightedBackend| match &one.backend {
            ServedBackend::Cluster(cluster) => may_lead(cluster),
            ServedBackend::Service { .. } => true,
        };
        let mut without = self.clone();
        let mut is_other = false;
        for listener in &mut without.listeners {
            let table = match &mut listener.role {
                ListenerRole::Terminate { routes, .. } | ListenerRole::Passthrough(routes) => routes,
                ListenerRole::Redirect(_) => continue,
            };
            for route in table.routes.values_mut() {
                let refused = route.backends.iter().filter(|one| !is_permitted(one)).map(|one| one.weight);
                let weight = refused.fold(0_u32, u32::saturating_add);
                let before = route.backends.len();
                route.backends.retain(is_permitted);
                route.refused_weight = route.refused_weight.saturating_add(weight);
                is_other |= route.backends.len() != before;
            }
        }
        is_other.then_some(without)
    }
}

/// The tables of listeners for plain HTTP, by the host names of these.
type RedirectTables = BTreeMap<HostPattern, Arc<RedirectTable>>;

/// Everything that decides what is served.
pub(crate) struct Settled<'a> {
    pub(crate) gateways: &'a [JudgedGateway<'a>],
    pub(crate) routes: &'a [JudgedRoute<'a>],
    pub(crate) claims: &'a HostClaims<'a>,
    pub(crate) clusters: &'a ClusterNames<'a>,
    pub(crate) plain: &'a PlainHttp<'a>,
    pub(crate) credentials: CredentialGrants<'a>,
}

impl Settled<'_> {
    pub(crate) fn served(&self) -> Vec<Arc<ServedGateway>> {
        let accepted = self.gateways.iter().enumerate().filter(|(_, gateway)| gateway.is_accepted());
        accepted.map(|(index, gateway)| Arc::new(self.gateway(index, gateway))).collect()
    }

    fn gateway(&self, index: usize, gateway: &JudgedGateway<'_>) -> ServedGateway {
        let bound = self.bound_routes(index, gateway);
        let listeners = gateway.listeners.iter().enumerate().filter(|(_, listener)| listener.is_served());
        let tables: Vec<(&JudgedListener<'_>, HostTable)> =
            listeners.map(|(at, listener)| (listener, self.table((index, gateway), at, &bound))).collect();
        let redirects = self.redirects((index, gateway), &tables, &bound);
        let listeners: Vec<ServedListener> =
            tables.into_iter().filter_map(|(listener, table)| serve(listener, table, &redirects)).collect();
        ServedGateway {
            gateway: gateway.name.clone(),
            addresses: gateway.addresses.clone(),
            settings: gateway.settings.map(str::to_owned),
            policies: self.policies(gateway, &listeners),
            listeners,
        }
    }

    fn policies(&self, gateway: &JudgedGateway<'_>, listeners: &[ServedListener]) -> DoorPolicies {
        let tables = listeners.iter().filter_map(|listener| match &listener.role {
            ListenerRole::Terminate { routes, .. } => Some(routes),
            ListenerRole::Redirect(_) | ListenerRole::Passthrough(_) => None,
        });
        let bound: Vec<&BoundRoute> = tables.flat_map(|table| table.routes.values()).collect();
        let clusters = bound.iter().flat_map(|one| &one.backends).filter_map(|one| match &one.backend {
            ServedBackend::Cluster(name) => Some(name.as_str()),
            ServedBackend::Service { .. } => None,
        });
        let (routes, clusters) = (bound.iter().map(|one| &one.route).collect(), clusters.collect());
        self.credentials.inventory.door_policies.of_gateway(&gateway.name, &routes, &clusters)
    }

    /// The tables of listeners for plain HTTP, by the host names of these.
    fn redirects(
        &self,
        (gateway_index, gateway): (usize, &JudgedGateway<'_>),
        tables: &[(&JudgedListener<'_>, HostTable)],
        bound: &BTreeMap<usize, BoundRoute>,
    ) -> RedirectTables {
        let Some(names) = self.plain.names(gateway_index) else { return RedirectTables::new() };
        let is_served = |listener: usize| gateway.listeners.get(listener).is_some_and(JudgedListener::is_served);
        let leads_on = |route: usize| bound.get(&route).is_some_and(BoundRoute::leads_on);
        let is_answered = |to: &HeldAt| leads_on(to.route) && to.listener.is_some_and(is_served);
        let has_room = |route: usize| self.plain.has_room((route, gateway_index));
        let mut https = HttpsHosts::of(names, self.clusters, has_room, is_answered);
        let of_listeners: BTreeSet<&HostPattern> = gateway.listeners.iter().map(|listener| &listener.host).collect();
        let ends_tls = |listener: &JudgedListener<'_>| listener.protocol == Some(ListenerProtocol::Https);
        for (_, table) in tables.iter().filter(|(listener, _)| ends_tls(listener)) {
            // Those of routes are known.
            let withheld = table.withheld.iter().filter(|host| of_listeners.contains(host));
            https.withhold(withheld, &table.owned);
        }
        let plain: BTreeSet<&HostPattern> =
            tables.iter().filter(|(listener, _)| listener.is_plain()).map(|(listener, _)| &listener.host).collect();
        plain.into_iter().map(|host| (host.clone(), Arc::new(https.redirects(host)))).collect()
    }

    /// The accepted routes that have host names at a Gateway, by their indices. The servers of each are resolved once, however many
    /// names it has.
    fn bound_routes(&self, gateway_index: usize, gateway: &JudgedGateway<'_>) -> BTreeMap<usize, BoundRoute> {
        let mut bound = BTreeMap::new();
        for listener in 0..gateway.listeners.len() {
            for (_, holder) in held(self.claims, gateway_index, listener) {
                let Holder::Route(index) = holder else { continue };
                let accepted = self.routes.get(*index).filter(|route| route.refusal_at(gateway_index).is_none());
                if let Some(route) = accepted {
                    bound.entry(*index).or_insert_with(|| self.bound(&gateway.name, route));
                }
            }
        }
        bound
    }

    /// The routes of a listener.
    fn table(
        &self,
        (gateway_index, gateway): (usize, &JudgedGateway<'_>),
        listener_index: usize,
        bound: &BTreeMap<usize, BoundRoute>,
    ) -> HostTable {
        let mut table = HostTable::default();
        let mut unserved: BTreeSet<HostPattern> = BTreeSet::new();
        for (host, holder) in held(self.claims, gateway_index, listener_index) {
            let route = match holder {
                // The wildcard above it is here, too; or it is the cluster's whether it is claimed or not: what the cluster owns below
                // wildcards of others is withheld from these, and a claim of a stranger takes nothing from its own routes.
                // The same holds for the host names of a narrower listener: its routes have a name of it that is claimed here.
                Holder::Wider(_) | Holder::Cluster(_) | Holder::Listener(_) => continue,
                Holder::Route(route) => bound.get(route),
            };
            match route {
                Some(route) => drop(table.routes.insert(host.clone(), route.clone())),
                None => drop(unserved.insert(host.clone())),
            }
        }
        let own = gateway.listeners.get(listener_index);
        let narrower = gateway.listeners.iter().filter(|other| own.is_some_and(|own| is_narrower(other, own)));
        unserved.extend(narrower.map(|other| other.host.clone()));
        let wildcards = HostIndex::of(table.routes.keys().filter(|host| !matches!(host, HostPattern::Exact(_))));
        let is_covered = |host: &HostPattern| wildcards.narrowest_above(host).is_some();
        unserved.retain(|host| !table.routes.contains_key(host) && is_covered(host));
        table.withheld = unserved;
        let owned = |host: &HostPattern| Some((host.clone(), Arc::clone(self.clusters.below(host)?)));
        table.owned = table.routes.keys().filter_map(owned).collect();
        table
    }

    fn bound(&self, gateway: &ObjectName, route: &JudgedRoute<'_>) -> BoundRoute {
        let is_permitted = |one: &&WeightedBackend| self.credentials.permit_backend(gateway, route.kind, one);
        let (permitted, refused): (Vec<_>, Vec<_>) = route.backends.iter().partition(is_permitted);
        let refused = refused.into_iter().fold(0_u32, |sum, one| sum.saturating_add(one.weight));
        BoundRoute {
            kind: route.kind,
            route: route.name.clone(),
            backends: permitted.into_iter().cloned().collect(),
            refused_weight: route.refused_weight.saturating_add(refused),
        }
    }
}

impl BoundRoute {
    /// Whether some request may reach a server.
    pub fn leads_on(&self) -> bool {
        self.backends.iter().any(|one| one.weight > 0)
    }
}

fn serve(listener: &JudgedListener<'_>, table: HostTable, redirects: &RedirectTables) -> Option<ServedListener> {
    let role = match listener.protocol? {
        ListenerProtocol::Http => ListenerRole::Redirect(redirects.get(&listener.host).cloned().unwrap_or_default()),
        ListenerProtocol::Https => ListenerRole::Terminate {
            certificates: listener.certificates.clone(),
            client_ca: listener.client_ca.clone(),
            routes: table,
        },
        ListenerProtocol::Passthrough => ListenerRole::Passthrough(table),
    };
    Some(ServedListener {
        name: listener.spec.name.clone(),
        port: listener.spec.port,
        host: listener.host.clone(),
        role,
    })
}

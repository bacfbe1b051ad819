//! The accepted part of all objects, which is served.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::claims::{ClusterNames, Holder, HostClaims, Site, is_narrower};
use crate::credentials::CredentialGrants;
use crate::gateway::JudgedGateway;
use crate::host::HostPattern;
use crate::listener::{JudgedListener, ListenerProtocol, ServedClientCa};
use crate::name::{ObjectName, RouteKind};
use crate::policy::DoorPolicies;
use crate::route::{JudgedRoute, ServedBackend, WeightedBackend};

/// An accepted Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedGateway {
    /// Its name.
    pub gateway: ObjectName,
    /// Its addresses; none are all of its Envoys'.
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
    /// Answers plain HTTP: 308 to HTTPS, and 404 for all other host names.
    Redirect(RedirectTable),
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
}

/// Ports for HTTPS by host names. The narrowest one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedirectTable {
    /// The ports.
    pub ports: BTreeMap<HostPattern, u16>,
    /// Host names of routes that are not accepted: a port of a wider one would lead to another owner.
    pub withheld: BTreeSet<HostPattern>,
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

/// Everything that decides what is served.
pub(crate) struct Settled<'a> {
    pub(crate) gateways: &'a [JudgedGateway<'a>],
    pub(crate) routes: &'a [JudgedRoute<'a>],
    pub(crate) claims: &'a HostClaims<'a>,
    pub(crate) clusters: &'a ClusterNames<'a>,
    pub(crate) credentials: CredentialGrants<'a>,
}

impl Settled<'_> {
    pub(crate) fn served(&self) -> Vec<ServedGateway> {
        let accepted = self.gateways.iter().enumerate().filter(|(_, gateway)| gateway.is_accepted());
        accepted.map(|(index, gateway)| self.gateway(index, gateway)).collect()
    }

    fn gateway(&self, index: usize, gateway: &JudgedGateway<'_>) -> ServedGateway {
        let listeners = gateway.listeners.iter().enumerate().filter(|(_, listener)| listener.is_served());
        let tables: Vec<(&JudgedListener<'_>, HostTable)> =
            listeners.map(|(at, listener)| (listener, self.table(index, gateway, at))).collect();
        let https = self.https(index, gateway, &tables);
        let listeners: Vec<ServedListener> =
            tables.into_iter().filter_map(|(listener, table)| serve(listener, table, &https)).collect();
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
        let routes: BTreeSet<&ObjectName> =
            tables.flat_map(|table| table.routes.values()).map(|one| &one.route).collect();
        self.credentials.inventory.door_policies.of_gateway(&gateway.name, &routes)
    }

    /// The ports at which routes have host names, and whether requests for the name are answered there. Browsers keep a redirect,
    /// so that none leads to where connections are closed.
    fn https(
        &self,
        gateway_index: usize,
        gateway: &JudgedGateway<'_>,
        tables: &[(&JudgedListener<'_>, HostTable)],
    ) -> BTreeMap<HostPattern, (u16, bool)> {
        let mut https: BTreeMap<HostPattern, (u16, bool)> = BTreeMap::new();
        for (at, listener) in gateway.listeners.iter().enumerate() {
            if listener.protocol != Some(ListenerProtocol::Https) {
                continue;
            }
            for (host, holder) in self.held(gateway_index, at) {
                let Holder::Route(route) = holder else { continue };
                let route = self.accepted(*route).filter(|_| listener.is_served());
                let is_served = route.is_some_and(|route| self.leads_on(&gateway.name, route));
                let new = (listener.spec.port, is_served);
                let known = https.entry(host.clone()).or_insert(new);
                *known = if preferred(known.0, new.0) == known.0 { *known } else { new };
            }
        }
        let ends_tls = |listener: &JudgedListener<'_>| listener.protocol == Some(ListenerProtocol::Https);
        for (listener, table) in tables.iter().filter(|(listener, _)| ends_tls(listener)) {
            for host in &table.withheld {
                https.entry(host.clone()).or_insert((listener.spec.port, false));
            }
        }
        https
    }

    /// The host names that are claimed at a listener.
    fn held(&self, gateway: usize, listener: usize) -> impl Iterator<Item = (&HostPattern, &Holder<'_>)> {
        let first: Site = (gateway, listener, HostPattern::Any);
        let held =
            self.claims.holders.range(first..).take_while(move |(site, _)| (site.0, site.1) == (gateway, listener));
        held.map(|((_, _, host), holder)| (host, holder))
    }

    fn accepted(&self, route: usize) -> Option<&JudgedRoute<'_>> {
        self.routes.get(route).filter(|route| route.refusal.is_none())
    }

    /// The routes of a listener.
    fn table(&self, gateway_index: usize, gateway: &JudgedGateway<'_>, listener_index: usize) -> HostTable {
        let mut table = HostTable::default();
        let mut unserved: BTreeSet<HostPattern> = BTreeSet::new();
        for (host, holder) in self.held(gateway_index, listener_index) {
            let route = match holder {
                // The wildcard above it is here, too.
                Holder::Wider(_) => continue,
                Holder::Route(route) => self.accepted(*route),
                Holder::Cluster(_) | Holder::Listener(_) => None,
            };
            match route {
                Some(route) => drop(table.routes.insert(host.clone(), self.bound(&gateway.name, route))),
                None => drop(unserved.insert(host.clone())),
            }
        }
        let own = gateway.listeners.get(listener_index);
        let narrower = gateway.listeners.iter().filter(|other| own.is_some_and(|own| is_narrower(other, own)));
        unserved.extend(narrower.map(|other| other.host.clone()));
        let is_wildcard = |host: &HostPattern| !matches!(host, HostPattern::Exact(_));
        if table.routes.keys().any(is_wildcard) {
            unserved.extend(self.clusters.hosts().iter().cloned());
        }
        let is_covered = |host: &HostPattern| host.wider().any(|wider| table.routes.contains_key(&wider));
        unserved.retain(|host| !table.routes.contains_key(host) && is_covered(host));
        table.withheld = unserved;
        table
    }

    /// Whether a request at this Gateway reaches a server by the route.
    fn leads_on(&self, gateway: &ObjectName, route: &JudgedRoute<'_>) -> bool {
        self.bound(gateway, route).backends.iter().any(|one| one.weight > 0)
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

/// 443 needs no port in the location of a redirect; of others the lowest is as good as any.
fn preferred(one: u16, other: u16) -> u16 {
    if [one, other].contains(&443) { 443 } else { one.min(other) }
}

/// The host names of a listener for plain HTTP. Several hosts may share the same ones with it, and the narrowest has them.
fn redirects(host: &HostPattern, https: &BTreeMap<HostPattern, (u16, bool)>) -> RedirectTable {
    let mut shared: BTreeMap<HostPattern, (&HostPattern, u16, bool)> = BTreeMap::new();
    for (of, (port, is_served)) in https {
        let Some(names) = of.intersection(host) else { continue };
        let known = shared.entry(names).or_insert((of, *port, *is_served));
        if known.0.covers(of) {
            *known = (of, *port, *is_served);
        }
    }
    let mut table = RedirectTable::default();
    for (names, (_, port, is_served)) in shared {
        if is_served {
            table.ports.insert(names, port);
        } else {
            table.withheld.insert(names);
        }
    }
    table
}

fn serve(
    listener: &JudgedListener<'_>,
    table: HostTable,
    https: &BTreeMap<HostPattern, (u16, bool)>,
) -> Option<ServedListener> {
    let role = match listener.protocol? {
        ListenerProtocol::Http => ListenerRole::Redirect(redirects(&listener.host, https)),
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

//! The accepted part of all objects, which is served.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::claims::{ClusterNames, Holder, HostClaims, Site};
use crate::gateway::JudgedGateway;
use crate::host::HostPattern;
use crate::listener::{JudgedListener, ListenerProtocol, ServedClientCa};
use crate::name::{ObjectName, RouteKind};
use crate::route::{JudgedRoute, WeightedBackend};

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
    /// Answers plain HTTP: 308 to HTTPS at the port of a host name, and 404 for all others.
    Redirect(BTreeMap<HostPattern, u16>),
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

/// Everything that decides what is served.
pub(crate) struct Settled<'a> {
    pub(crate) gateways: &'a [JudgedGateway<'a>],
    pub(crate) routes: &'a [JudgedRoute<'a>],
    pub(crate) claims: &'a HostClaims<'a>,
    pub(crate) clusters: &'a ClusterNames<'a>,
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
        let mut https: BTreeMap<HostPattern, u16> = BTreeMap::new();
        for (listener, table) in tables.iter().filter(|(one, _)| one.protocol == Some(ListenerProtocol::Https)) {
            for host in table.routes.keys() {
                let port = https.entry(host.clone()).or_insert(listener.spec.port);
                *port = preferred(*port, listener.spec.port);
            }
        }
        let listeners = tables.into_iter().filter_map(|(listener, table)| serve(listener, table, &https)).collect();
        ServedGateway {
            gateway: gateway.name.clone(),
            addresses: gateway.addresses.clone(),
            settings: gateway.settings.map(str::to_owned),
            listeners,
        }
    }

    /// The routes of a listener.
    fn table(&self, gateway_index: usize, gateway: &JudgedGateway<'_>, listener_index: usize) -> HostTable {
        let mut table = HostTable::default();
        let mut unserved: BTreeSet<HostPattern> = BTreeSet::new();
        let first: Site = (gateway_index, listener_index, HostPattern::Any);
        let is_here = |site: &Site| (site.0, site.1) == (gateway_index, listener_index);
        for ((_, _, host), holder) in self.claims.holders.range(first..).take_while(|(site, _)| is_here(site)) {
            let route = match holder {
                Holder::Route(route) => self.routes.get(*route).filter(|route| route.refusal.is_none()),
                Holder::Cluster(_) | Holder::Listener(_) => None,
            };
            match route {
                Some(route) => drop(table.routes.insert(host.clone(), bound(route))),
                None => drop(unserved.insert(host.clone())),
            }
        }
        let own = gateway.listeners.get(listener_index);
        let others = gateway.listeners.iter().filter(|other| !other.is_served());
        let others = others.filter(|other| own.is_some_and(|own| own.spec.port == other.spec.port));
        unserved.extend(others.map(|other| other.host.clone()));
        let is_wildcard = |host: &HostPattern| !matches!(host, HostPattern::Exact(_));
        if table.routes.keys().any(is_wildcard) {
            unserved.extend(self.clusters.hosts());
        }
        unserved.retain(|host| !table.routes.contains_key(host) && table.routes.keys().any(|wider| wider.covers(host)));
        table.withheld = unserved;
        table
    }
}

/// 443 needs no port in the location of a redirect; of others the lowest is as good as any.
fn preferred(one: u16, other: u16) -> u16 {
    if [one, other].contains(&443) { 443 } else { one.min(other) }
}

fn bound(route: &JudgedRoute<'_>) -> BoundRoute {
    BoundRoute {
        kind: route.kind,
        route: route.name.clone(),
        backends: route.backends.clone(),
        refused_weight: route.refused_weight,
    }
}

fn serve(
    listener: &JudgedListener<'_>,
    table: HostTable,
    https: &BTreeMap<HostPattern, u16>,
) -> Option<ServedListener> {
    let role = match listener.protocol? {
        ListenerProtocol::Http => {
            let shared = https.iter().filter_map(|(host, port)| Some((host.intersection(&listener.host)?, *port)));
            ListenerRole::Redirect(shared.collect())
        }
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

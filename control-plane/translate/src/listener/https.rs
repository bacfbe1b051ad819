//! Listeners of a Gateway that end TLS. Each route has the chain of the cluster behind it, with the listener's certificates and the
//! route's host names in the place of the cluster's own; routes to one cluster share its route configuration.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

use envoy_types::pb::envoy::config::listener::v3::FilterChain;
use portcullis_api::Settings;
use portcullis_attach::{
    BoundRoute, Door, HostPattern, HostTable, ListenerRole, ObjectName, ServedBackend, ServedGateway, ServedListener,
};
use portcullis_filter_config::ClusterConfig;

use super::access_log;
use super::chain::Door as ChainDoor;
use super::closed_route::ClosedBecause;
use super::gateway_budget::GatewayBudget;
use super::handshake::{DifferentAuthorities, HandshakeValidation};
use crate::backend::{DoorRules, JudgedClusters, OpenCluster, Tightenings, owner};
use crate::filter_build::FilterBuild;
use crate::gateway_secrets::GatewaySecrets;
use crate::names::{ResourceNames, parts};
use crate::resource::Resource;
use crate::route::{RoutePlace, routes};
use crate::secrets::listener_certificate;

/// The inputs of these listeners.
#[derive(Clone, Copy)]
pub(super) struct HttpsInput<'a> {
    pub(super) gateway: &'a ServedGateway,
    pub(super) clusters: &'a JudgedClusters,
    pub(super) secrets: &'a GatewaySecrets,
    pub(super) tightened: &'a Tightenings,
    pub(super) settings: &'a Settings,
}

/// A listener that ends TLS and has a certificate.
pub(super) struct HttpsListener<'a> {
    input: HttpsInput<'a>,
    table: &'a HostTable,
    /// The beginning of its resources' names.
    names: ResourceNames,
    name: &'a str,
    /// The Secrets with its certificates.
    certificates: Vec<Resource>,
    /// The clusters that requests are sent to.
    served: BTreeMap<&'a str, ServedCluster<'a>>,
    /// The variants of clusters' configurations that are not served, and why.
    closed: BTreeMap<(&'a str, String), ClosedBecause>,
}

/// A cluster at a listener.
struct ServedCluster<'a> {
    /// Host names by the variant of the configuration that judges their requests.
    variants: BTreeMap<String, VariantHosts<'a>>,
    validation: HandshakeValidation,
}

/// Host names whose requests are judged by one configuration.
struct VariantHosts<'a> {
    config: &'a ClusterConfig,
    hosts: BTreeSet<&'a HostPattern>,
}

impl<'a> HttpsInput<'a> {
    /// `None` if no request is served at this listener.
    pub(super) fn listener(
        self,
        listener: &'a ServedListener,
        budget: &mut GatewayBudget,
    ) -> Option<HttpsListener<'a>> {
        let ListenerRole::Terminate { certificates, routes, .. } = &listener.role else { return None };
        if self.secrets.closed_because(listener).is_some() {
            return None;
        }
        let frontend = self.secrets.frontend(listener).ok()?;
        let names = ResourceNames::namespaced(&self.settings.instance, &self.gateway.gateway);
        let certificate = |secret: &ObjectName| {
            let part = format!("{}/{}/{}", parts::CERTIFICATE, secret.namespace, secret.name);
            names.part(&part)
        };
        let certificates = self
            .secrets
            .of(certificates)
            .map(|(secret, pair)| listener_certificate(certificate(secret), pair))
            .collect();
        let mut served: BTreeMap<&str, ServedCluster<'_>> = BTreeMap::new();
        let mut closed: BTreeMap<(&str, String), ClosedBecause> = BTreeMap::new();
        for (host, route) in &routes.routes {
            let Some(open) = self.open(route) else { continue };
            let Ok(judged) = self.judged(&listener.name, route, open) else { continue };
            let name = open.cluster.name.as_str();
            let key = (name, judged.variant.clone());
            if closed.contains_key(&key) {
                continue;
            }
            let of_cluster = match served.entry(name) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    match HandshakeValidation::at_gateway(&frontend, &open.cluster, &open.names, &names) {
                        Ok(validation) => new.insert(ServedCluster { variants: BTreeMap::new(), validation }),
                        Err(DifferentAuthorities) => {
                            closed.insert(key, ClosedBecause::ClientAuthorities);
                            continue;
                        }
                    }
                }
            };
            if let Some(known) = of_cluster.variants.get_mut(&judged.variant) {
                known.hosts.insert(host);
            } else if judged.has_room(route, open, budget) {
                let new = VariantHosts { config: judged.config, hosts: [host].into() };
                of_cluster.variants.insert(judged.variant, new);
            } else {
                closed.insert(key, ClosedBecause::Configurations);
            }
        }
        served.retain(|_, one| !one.variants.is_empty());
        Some(HttpsListener { input: self, table: routes, names, name: &listener.name, certificates, served, closed })
    }

    /// The cluster of a route; `None` if connections to it are closed.
    fn open(self, route: &BoundRoute) -> Option<&'a OpenCluster> {
        self.clusters.get(only_cluster(route)?)?.open()
    }

    /// The configuration by which requests of a route are judged: the cluster's own, or one with the policies of its doors.
    ///
    /// # Errors
    /// Why connections to it are closed.
    fn judged(
        self,
        listener: &str,
        route: &BoundRoute,
        open: &'a OpenCluster,
    ) -> Result<JudgedRoute<'a>, ClosedBecause> {
        let gateway = &self.gateway.gateway;
        let own = || JudgedRoute { variant: String::new(), config: &open.config, bytes: open.config_bytes };
        if self.gateway.policies.are_unread(gateway, listener, &route.route, &open.cluster.name) {
            return Err(ClosedBecause::UnreadPolicies);
        }
        let doors = self.gateway.policies.doors(gateway, listener, &route.route, &open.cluster.name);
        if doors.is_empty() {
            return Ok(own());
        }
        let variant = variant(&doors);
        // One for which there is no room is not made.
        let tightened = self.tightened.get(&(open.cluster.name.clone(), doors)).ok_or(ClosedBecause::Configurations)?;
        match &tightened.rules {
            DoorRules::Own => Ok(own()),
            DoorRules::Tightened(made) => Ok(JudgedRoute { variant, config: &made.config, bytes: made.bytes }),
            DoorRules::Closed => Err(ClosedBecause::Policies),
        }
    }
}

/// The configuration for a route.
struct JudgedRoute<'a> {
    variant: String,
    config: &'a ClusterConfig,
    bytes: usize,
}

impl JudgedRoute<'_> {
    /// Those of routes are counted by the namespaces that may attach policies to them.
    fn has_room(&self, route: &BoundRoute, open: &OpenCluster, budget: &mut GatewayBudget) -> bool {
        let tightened = || self.bytes.saturating_add(open.bytes_of_more_groups());
        match self.variant.contains(OF_ROUTE) {
            true => budget.takes_tightened(&route.route.namespace, tightened()),
            false => budget.takes_config(self.bytes),
        }
    }
}

/// In the name of a variant before that of a route. No name of a listener has it.
const OF_ROUTE: char = '/';

/// The name of a variant, which is the same over all edits of the policies at these doors.
fn variant(doors: &[Door]) -> String {
    let (mut listener, mut of_route) = ("*", String::new());
    for door in doors {
        match door {
            Door::Gateway(_) => {}
            Door::Listener(_, name) => listener = name,
            Door::Route(name) => of_route = format!("{OF_ROUTE}{name}"),
        }
    }
    format!("{listener}{of_route}")
}

impl HttpsListener<'_> {
    /// The clusters to which requests are sent.
    pub(super) fn clusters(&self) -> impl Iterator<Item = &str> {
        self.served.keys().copied()
    }

    /// Why connections of a route are closed here, if the route and its cluster do not say so themselves.
    pub(super) fn closed_because(&self, route: &BoundRoute) -> Option<ClosedBecause> {
        let open = self.input.open(route)?;
        match self.input.judged(self.name, route, open) {
            Ok(judged) => self.closed.get(&(open.cluster.name.as_str(), judged.variant)).copied(),
            Err(because) => Some(because),
        }
    }

    /// The chain of a route, with its host names; `None` if connections to it are closed.
    pub(super) fn chain(&self, name: &str, route: &BoundRoute, server_names: Vec<String>) -> Option<FilterChain> {
        let open = self.input.open(route)?;
        let variant = self.input.judged(self.name, route, open).ok()?.variant;
        let served = self.served.get(open.cluster.name.as_str())?;
        served.variants.get(&variant)?;
        let gateway = self.input.gateway.gateway.to_string();
        let door = ChainDoor {
            name: name.to_owned(),
            server_names,
            certificates: self.certificates.iter().map(|one| one.name.to_string()).collect(),
            validation: served.validation.clone(),
            routes: self.routes_name(open),
            more_logs: access_log::of_misdirected(&self.input.settings.access_log, &gateway),
            // The proxies of the settings are in front of other Envoys.
            hops: 0,
            // The collector of the settings is no part of the view.
            traced: None,
        };
        Some(door.chain(&open.cluster, self.input.settings, FilterBuild::Module))
    }

    /// The resources to which its chains refer, beside those of clusters: Envoy asks for no others.
    pub(super) fn resources(&self) -> impl Iterator<Item = Resource> {
        let certificates = self.certificates.iter().filter(|_| !self.served.is_empty()).cloned();
        let validations = self.served.values().filter_map(|served| served.validation.resource()).cloned();
        let open =
            self.served.iter().filter_map(|(name, served)| Some((self.input.clusters.get(*name)?.open()?, served)));
        certificates.chain(validations).chain(open.filter_map(|(open, served)| self.routes(open, &served.variants)))
    }

    /// The cluster is in the name, because a route may lead to another one tomorrow: connections of today stay with this one.
    fn routes_name(&self, open: &OpenCluster) -> String {
        self.names.part(&format!("{}/{}/{}", self.name, open.cluster.name, parts::ROUTES))
    }

    /// One route configuration for all routes to a cluster, whatever policies they have: an edit of these turns no connection away.
    fn routes(&self, open: &OpenCluster, variants: &BTreeMap<String, VariantHosts<'_>>) -> Option<Resource> {
        let all: BTreeSet<&HostPattern> = variants.values().flat_map(|one| &one.hosts).copied().collect();
        let others = self.others(&all);
        let configs = variants.iter().map(|(variant, one)| ClusterConfig {
            variant: variant.clone(),
            authorities: one.hosts.iter().map(ToString::to_string).collect(),
            ..one.config.clone()
        });
        let mut configs: Vec<ClusterConfig> = configs.collect();
        // An address as authority names no route: it is one of the routes without policies of their own, or the only one.
        let rest = configs.iter().position(|one| !one.variant.contains(OF_ROUTE));
        let has_rest = rest.is_some() || configs.len() == 1;
        let rest = rest.unwrap_or_default();
        if rest >= configs.len() {
            return None;
        }
        let config = configs.remove(rest);
        let name = self.routes_name(open);
        let place = RoutePlace { name: &name, own: &config.authorities, others: &others, variants: &configs, has_rest };
        let made = routes(place, &open.cluster, &open.groups, &open.names, &config, FilterBuild::Module);
        Some(Resource { owner: Some(owner(&open.cluster.name).into()), ..made })
    }

    /// Host names below these wildcards that are not among these: of other clusters, and withheld ones.
    fn others(&self, own: &BTreeSet<&HostPattern>) -> Vec<String> {
        let is_other = |host: &&HostPattern| !own.contains(*host) && host.wider().any(|wider| own.contains(&wider));
        let all: BTreeSet<&HostPattern> =
            self.table.routes.keys().chain(&self.table.withheld).filter(is_other).collect();
        all.into_iter().map(ToString::to_string).collect()
    }
}

/// The one cluster of a route. A decision for one cluster is none for another: shares of several are not served.
pub fn only_cluster(route: &BoundRoute) -> Option<&str> {
    let mut clusters = route.backends.iter().filter(|one| one.weight > 0).map(|one| match &one.backend {
        ServedBackend::Cluster(name) => Some(name.as_str()),
        ServedBackend::Service { .. } => None,
    });
    let first = clusters.next()??;
    (route.refused_weight == 0 && clusters.all(|other| other == Some(first))).then_some(first)
}

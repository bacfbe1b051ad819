//! Listeners of a Gateway that end TLS. Each route has the chain of the cluster behind it, with the listener's certificates and the
//! route's host names in the place of the cluster's own; routes to one cluster share its route configuration.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

use envoy_types::pb::envoy::config::listener::v3::FilterChain;
use portcullis_api::Settings;
use portcullis_attach::{
    BoundRoute, Door, HostPattern, HostTable, ListenerRole, ObjectName, ServedGateway, ServedListener,
};
use portcullis_filter_config::ClusterConfig;

use super::access_log;
use super::chain::Door as ChainDoor;
use super::closed_route::ClosedBecause;
use super::config_room::{ConfigKey, UNRESOLVED};
use super::handshake::{DifferentAuthorities, HandshakeValidation};
use super::narrower_names::narrower_names;
use super::other_hosts::other_hosts;
use super::requested::{is_unresolved, only_cluster};
use super::unresolved::{UnresolvedHosts, UnresolvedPlace};
use crate::backend::{DoorRules, JudgedClusters, OpenCluster, Tightenings, owner_at_gateways};
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
    /// The configurations for which the Gateway has no room.
    pub(super) refused: &'a BTreeSet<ConfigKey>,
    pub(super) settings: &'a Settings,
}

/// A listener that ends TLS and has a certificate.
pub(super) struct HttpsListener<'a> {
    input: HttpsInput<'a>,
    /// The beginning of its resources' names.
    names: ResourceNames,
    name: &'a str,
    /// The Secrets with its certificates.
    certificates: Vec<Resource>,
    /// The clusters that requests are sent to.
    served: BTreeMap<&'a str, ServedCluster<'a>>,
    /// Host names whose requests get 500.
    unresolved: UnresolvedHosts<'a>,
    /// By cluster: host names below its wildcards that are not its own, of other clusters, and withheld ones.
    others: BTreeMap<&'a str, BTreeSet<&'a HostPattern>>,
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
    pub(super) fn listener(self, listener: &'a ServedListener) -> Option<HttpsListener<'a>> {
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
            let JudgedRoute { variant, config } = judged;
            let new = || VariantHosts { config, hosts: BTreeSet::new() };
            of_cluster.variants.entry(variant).or_insert_with(new).hosts.insert(host);
        }
        served.retain(|_, one| !one.variants.is_empty());
        let owned = served.iter().flat_map(|(name, one)| {
            one.variants.values().flat_map(|variant| &variant.hosts).map(move |host| (*host, *name))
        });
        let unresolved = UnresolvedHosts::new(self.unresolved(&listener.name, routes), &frontend, &names);
        let owned = owned.chain(unresolved.iter().map(|host| (host, UNRESOLVED)));
        let others = other_hosts(&owned.collect(), routes);
        let name = listener.name.as_str();
        Some(HttpsListener { input: self, names, name, certificates, served, unresolved, others, closed })
    }

    /// The host names whose requests get 500. Without room for them their connections are closed.
    fn unresolved(self, listener: &str, table: &'a HostTable) -> BTreeSet<&'a HostPattern> {
        let key = ConfigKey::of_unresolved(listener);
        let has_room = |namespace: &str| {
            self.refused.is_empty() || !(self.refused.contains(&key) || self.refused.contains(&key.of_hosts(namespace)))
        };
        let is_answered = |route: &BoundRoute| is_unresolved(route, self.clusters) && has_room(&route.route.namespace);
        let unresolved = table.routes.iter().filter(|(_, route)| is_answered(route));
        // A chain of all names would be that of names without a route, too.
        unresolved.map(|(host, _)| host).filter(|host| **host != HostPattern::Any).collect()
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
        let own = || JudgedRoute { variant: String::new(), config: &open.config };
        if self.gateway.policies.are_unread(gateway, listener, &route.route, &open.cluster.name) {
            return Err(ClosedBecause::UnreadPolicies);
        }
        let doors = self.gateway.policies.doors(gateway, listener, &route.route, &open.cluster.name);
        if !self.has_room(listener, open, (&doors, &route.route.namespace)) {
            return Err(ClosedBecause::Configurations);
        }
        if doors.is_empty() {
            return Ok(own());
        }
        let variant = variant(&doors);
        // One for which there is no room is not made.
        let tightened = self.tightened.get(&(open.cluster.name.clone(), doors)).ok_or(ClosedBecause::Configurations)?;
        match &tightened.rules {
            DoorRules::Own => Ok(own()),
            DoorRules::Tightened(config) => Ok(JudgedRoute { variant, config }),
            DoorRules::Closed(which) => Err(ClosedBecause::Policies(Arc::clone(which))),
        }
    }

    fn has_room(self, listener: &str, open: &OpenCluster, (doors, namespace): (&[Door], &str)) -> bool {
        if self.refused.is_empty() {
            return true;
        }
        let (listener, cluster, doors) = (listener.to_owned(), open.cluster.name.clone(), doors.to_vec());
        let key = ConfigKey { listener, cluster, doors, hosts_of: None };
        !self.refused.contains(&key.of_hosts(namespace)) && !self.refused.contains(&key)
    }
}

/// The configuration for a route.
struct JudgedRoute<'a> {
    variant: String,
    config: &'a ClusterConfig,
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
            Ok(judged) => self.closed.get(&(open.cluster.name.as_str(), judged.variant)).cloned(),
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
            certificates: self.certificate_names(),
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

    /// Whether requests for a host name get 500 by [`Self::unresolved_chain`].
    pub(super) fn is_unresolved(&self, host: &HostPattern) -> bool {
        self.unresolved.contains(host)
    }

    /// The chain of all host names whose requests get 500.
    pub(super) fn unresolved_chain(&self) -> Option<FilterChain> {
        self.unresolved.chain(UnresolvedPlace {
            name: self.names.part(&format!("{}/{}", parts::UNRESOLVED, self.name)),
            certificates: self.certificate_names(),
            others: self.others.get(UNRESOLVED).into_iter().flatten().map(ToString::to_string).collect(),
            gateway: &self.input.gateway.gateway.to_string(),
            settings: self.input.settings,
        })
    }

    fn certificate_names(&self) -> Vec<String> {
        self.certificates.iter().map(|one| one.name.to_string()).collect()
    }

    /// The resources to which its chains refer, beside those of clusters: Envoy asks for no others.
    pub(super) fn resources(&self) -> impl Iterator<Item = Resource> {
        let has_chain = !(self.served.is_empty() && self.unresolved.is_empty());
        let certificates = self.certificates.iter().filter(move |_| has_chain).cloned();
        let validations = self.served.values().filter_map(|served| served.validation.resource());
        let validations = validations.chain(self.unresolved.validation()).cloned();
        let open =
            self.served.iter().filter_map(|(name, served)| Some((self.input.clusters.get(*name)?.open()?, served)));
        certificates.chain(validations).chain(open.filter_map(|(open, served)| self.routes(open, &served.variants)))
    }

    /// The cluster is in the name, because a route may lead to another one tomorrow: connections of today stay with this one.
    fn routes_name(&self, open: &OpenCluster) -> String {
        self.names.routes_at(self.name, &open.cluster.name)
    }

    /// One route configuration for all routes to a cluster, whatever policies they have: an edit of these turns no connection away.
    fn routes(&self, open: &OpenCluster, variants: &BTreeMap<String, VariantHosts<'_>>) -> Option<Resource> {
        let others = self.others.get(open.cluster.name.as_str()).into_iter().flatten();
        let others: Vec<String> = others.map(ToString::to_string).collect();
        // The cluster's own configuration denies for each host name.
        let has_doors = variants.keys().any(|variant| !variant.is_empty());
        let named = variants.iter().filter(|_| has_doors).map(|(variant, one)| (variant.as_str(), &one.hosts));
        let mut narrower = narrower_names(named, &others);
        let mut narrower = |variant: &str| narrower.remove(variant).filter(|_| !variant.is_empty());
        let configs = variants.iter().map(|(variant, one)| ClusterConfig {
            variant: variant.clone(),
            listener: self.name.to_owned(),
            authorities: one.hosts.iter().map(ToString::to_string).collect(),
            narrower_authorities: narrower(variant).unwrap_or_default(),
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
        Some(Resource { owner: Some(owner_at_gateways(&open.cluster.name).into()), ..made })
    }
}

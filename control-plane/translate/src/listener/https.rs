//! Listeners of a Gateway that end TLS. Each route has the chain of the cluster behind it, with the listener's certificates and the
//! route's host names in the place of the cluster's own; routes to one cluster share its route configuration.

use std::collections::{BTreeMap, BTreeSet};

use envoy_types::pb::envoy::config::listener::v3::FilterChain;
use portcullis_api::Settings;
use portcullis_attach::{BoundRoute, HostPattern, HostTable, ListenerRole, ObjectName, ServedBackend, ServedListener};
use portcullis_filter_config::ClusterConfig;

use super::access_log;
use super::chain::Door;
use super::closed_route::ClosedBecause;
use super::gateway_budget::GatewayBudget;
use super::handshake::{DifferentAuthorities, HandshakeValidation};
use crate::backend::{JudgedClusters, OpenCluster, owner};
use crate::filter_build::FilterBuild;
use crate::gateway_secrets::GatewaySecrets;
use crate::names::{ResourceNames, parts};
use crate::resource::Resource;
use crate::route::{RoutePlace, routes};
use crate::secrets::listener_certificate;

/// The inputs of these listeners.
#[derive(Clone, Copy)]
pub(super) struct HttpsInput<'a> {
    pub(super) gateway: &'a ObjectName,
    pub(super) clusters: &'a JudgedClusters,
    pub(super) secrets: &'a GatewaySecrets,
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
    /// Those that are not, and why.
    closed: BTreeMap<&'a str, ClosedBecause>,
}

/// A cluster at a listener.
struct ServedCluster<'a> {
    hosts: BTreeSet<&'a HostPattern>,
    validation: HandshakeValidation,
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
        let names = ResourceNames::namespaced(&self.settings.instance, self.gateway);
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
        let mut closed: BTreeMap<&str, ClosedBecause> = BTreeMap::new();
        for (host, route) in &routes.routes {
            let Some(open) = self.open(route) else { continue };
            let name = open.cluster.name.as_str();
            if closed.contains_key(name) {
                continue;
            }
            if let Some(known) = served.get_mut(name) {
                known.hosts.insert(host);
                continue;
            }
            match HandshakeValidation::at_gateway(&frontend, &open.cluster, &open.names, &names) {
                Err(DifferentAuthorities) => {
                    closed.insert(name, ClosedBecause::ClientAuthorities);
                }
                Ok(_) if !budget.takes_config(open.config_bytes) => {
                    closed.insert(name, ClosedBecause::Configurations);
                }
                Ok(validation) => drop(served.insert(name, ServedCluster { hosts: [host].into(), validation })),
            }
        }
        Some(HttpsListener { input: self, table: routes, names, name: &listener.name, certificates, served, closed })
    }

    /// The cluster of a route; `None` if connections to it are closed.
    fn open(self, route: &BoundRoute) -> Option<&'a OpenCluster> {
        self.clusters.get(only_cluster(route)?)?.open()
    }
}

impl HttpsListener<'_> {
    /// The clusters to which requests are sent.
    pub(super) fn clusters(&self) -> impl Iterator<Item = &str> {
        self.served.keys().copied()
    }

    /// Why connections of a route are closed here, if the route and its cluster do not say so themselves.
    pub(super) fn closed_because(&self, route: &BoundRoute) -> Option<ClosedBecause> {
        self.closed.get(only_cluster(route)?).copied()
    }

    /// The chain of a route, with its host names; `None` if connections to it are closed.
    pub(super) fn chain(&self, name: &str, route: &BoundRoute, server_names: Vec<String>) -> Option<FilterChain> {
        let open = self.input.open(route)?;
        let served = self.served.get(open.cluster.name.as_str())?;
        let gateway = self.input.gateway.to_string();
        let door = Door {
            name: name.to_owned(),
            server_names,
            certificates: self.certificates.iter().map(|one| one.name.clone()).collect(),
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
        certificates.chain(validations).chain(open.map(|(open, served)| self.routes(open, &served.hosts)))
    }

    /// The cluster is in the name, because a route may lead to another one tomorrow: connections of today stay with this one.
    fn routes_name(&self, open: &OpenCluster) -> String {
        self.names.part(&format!("{}/{}/{}", self.name, open.cluster.name, parts::ROUTES))
    }

    fn routes(&self, open: &OpenCluster, hosts: &BTreeSet<&HostPattern>) -> Resource {
        let own: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let (others, config) = (self.others(hosts), ClusterConfig { authorities: own.clone(), ..open.config.clone() });
        let place = RoutePlace { name: &self.routes_name(open), own: &own, others: &others };
        let made = routes(place, &open.cluster, &open.groups, &open.names, &config, FilterBuild::Module);
        Resource { owner: Some(owner(&open.cluster.name)), ..made }
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
pub(crate) fn only_cluster(route: &BoundRoute) -> Option<&str> {
    let mut clusters = route.backends.iter().filter(|one| one.weight > 0).map(|one| match &one.backend {
        ServedBackend::Cluster(name) => Some(name.as_str()),
        ServedBackend::Service { .. } => None,
    });
    let first = clusters.next()??;
    (route.refused_weight == 0 && clusters.all(|other| other == Some(first))).then_some(first)
}

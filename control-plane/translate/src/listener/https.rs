//! The chain of a route for requests at a listener of a Gateway that ends TLS: that of the cluster behind it, with the listener's
//! certificates and the route's host names in the place of the cluster's own.

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::listener::v3::FilterChain;
use portcullis_api::Settings;
use portcullis_attach::{BoundRoute, HostPattern, HostTable, ListenerRole, ObjectName, ServedBackend, ServedListener};
use portcullis_filter_config::ClusterConfig;

use super::chain::Door;
use crate::backend::{JudgedClusters, OpenCluster, owner};
use crate::filter_build::FilterBuild;
use crate::gateway_secrets::GatewaySecrets;
use crate::names::{ResourceNames, parts};
use crate::resource::Resource;
use crate::route::{RoutePlace, routes};
use crate::secrets::listener_certificate;

/// The inputs of these chains.
#[derive(Clone, Copy)]
pub(super) struct HttpsInput<'a> {
    pub(super) gateway: &'a ObjectName,
    pub(super) clusters: &'a JudgedClusters,
    pub(super) secrets: &'a GatewaySecrets,
    pub(super) settings: &'a Settings,
}

/// A route at a listener.
pub(super) struct RouteAtListener<'a> {
    pub(super) listener: &'a ServedListener,
    pub(super) table: &'a HostTable,
    pub(super) route: &'a BoundRoute,
    /// Its host names there.
    pub(super) hosts: &'a BTreeSet<&'a HostPattern>,
}

/// A chain and what it refers to.
pub(super) struct HttpsChain {
    pub(super) chain: FilterChain,
    /// The `UpstreamCluster` behind it.
    pub(super) cluster: String,
    /// The routes.
    pub(super) routes: Resource,
    /// The Secrets with the listener's certificates.
    pub(super) certificates: Vec<Resource>,
}

impl HttpsInput<'_> {
    /// The chain with this name; `None` if connections to the route are closed.
    pub(super) fn chain(&self, name: &str, at: &RouteAtListener<'_>) -> Option<HttpsChain> {
        let ListenerRole::Terminate { certificates, .. } = &at.listener.role else { return None };
        if self.secrets.closed_because(at.listener).is_some() {
            return None;
        }
        let open = self.clusters.get(only_cluster(at.route)?)?.open()?;
        let names = ResourceNames::namespaced(&self.settings.instance, self.gateway);
        let certificates: Vec<Resource> = self
            .secrets
            .of(certificates)
            .map(|(secret, pair)| {
                let part = format!("{}/{}/{}", parts::CERTIFICATE, secret.namespace, secret.name);
                listener_certificate(names.part(&part), pair)
            })
            .collect();
        let routes = self.routes(open, at);
        let door = Door {
            name: name.to_owned(),
            server_names: at.hosts.iter().map(ToString::to_string).collect(),
            certificates: certificates.iter().map(|one| one.name.clone()).collect(),
            routes: routes.name.clone(),
            // The proxies of the settings are in front of other Envoys.
            hops: 0,
            // So is the collector's credential, if it has one: it is no part of the view.
            traced: None,
        };
        let chain = door.chain(&open.cluster, &open.names, self.settings, FilterBuild::Module);
        Some(HttpsChain { chain, cluster: open.cluster.name.clone(), routes, certificates })
    }

    /// The cluster is in the name, because a route may lead to another one tomorrow: connections of today stay with the routes that
    /// they have.
    fn routes(&self, open: &OpenCluster, at: &RouteAtListener<'_>) -> Resource {
        let names = ResourceNames::namespaced(&self.settings.instance, &at.route.route);
        let name = names.part(&format!("{}/{}/{}", at.listener.name, open.cluster.name, parts::ROUTES));
        let own: Vec<String> = at.hosts.iter().map(ToString::to_string).collect();
        let (others, config) = (others(at), ClusterConfig { authorities: own.clone(), ..open.config.clone() });
        let place = RoutePlace { name: &name, own: &own, others: &others };
        let made = routes(place, &open.cluster, &open.groups, &open.names, &config, FilterBuild::Module);
        Resource { owner: Some(owner(&open.cluster.name)), ..made }
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

/// Host names below the route's wildcards that are not its own: those of other routes, and withheld ones.
fn others(at: &RouteAtListener<'_>) -> Vec<String> {
    let of_others = at.table.routes.iter().filter(|(_, route)| route.route != at.route.route).map(|(host, _)| host);
    let is_covered = |host: &&HostPattern| at.hosts.iter().any(|own| own.covers(host) && own != host);
    let all: BTreeSet<&HostPattern> = of_others.chain(&at.table.withheld).filter(is_covered).collect();
    all.into_iter().map(ToString::to_string).collect()
}

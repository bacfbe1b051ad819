//! The namespaces of routes by the servers behind them: many tenants may lead to an `UpstreamCluster`, and to an upstream by a grant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_attach::{ListenerRole, ServedGateway};
use portcullis_translate::{only_cluster, place_of_routes};

/// The namespaces of a Gateway's routes by listener and by `UpstreamCluster` or the key of an upstream.
#[derive(Debug, Default)]
pub(super) struct ClusterRouteNamespaces(BTreeMap<String, BTreeMap<String, BTreeSet<String>>>);

/// Those of the newest state of a Gateway.
#[derive(Debug, Default)]
pub(super) struct KnownNamespaces(Option<(Arc<ServedGateway>, Arc<ClusterRouteNamespaces>)>);

impl ClusterRouteNamespaces {
    fn of(gateway: &ServedGateway) -> Self {
        let mut all = Self::default();
        for listener in &gateway.listeners {
            let ListenerRole::Terminate { routes, .. } = &listener.role else { continue };
            // A route may have thousands of host names.
            let led = routes.routes.values().filter_map(|route| Some((only_cluster(route)?, &*route.route.namespace)));
            for (cluster, namespace) in led.collect::<BTreeSet<_>>() {
                all.add(&listener.name, cluster, namespace);
            }
        }
        all
    }

    pub(super) fn add(&mut self, listener: &str, cluster: &str, namespace: &str) {
        let of_listener = self.0.entry(listener.to_owned()).or_default();
        of_listener.entry(cluster.to_owned()).or_default().insert(namespace.to_owned());
    }

    /// Those of the routes that have a route configuration.
    pub(super) fn of_routes(&self, name: &str) -> Option<&BTreeSet<String>> {
        let (listener, cluster) = place_of_routes(name)?;
        self.0.get(listener)?.get(cluster)
    }
}

impl KnownNamespaces {
    /// Those of a Gateway, the same as long as it is.
    pub(super) fn follow(&mut self, gateway: Option<&Arc<ServedGateway>>) -> Arc<ClusterRouteNamespaces> {
        let same = self.0.take().filter(|(known, _)| gateway.is_some_and(|gateway| Arc::ptr_eq(known, gateway)));
        self.0 = same.or_else(|| Some((Arc::clone(gateway?), Arc::new(ClusterRouteNamespaces::of(gateway?)))));
        self.0.as_ref().map(|(_, namespaces)| Arc::clone(namespaces)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use portcullis_attach::{
        BoundRoute, DoorPolicies, HostPattern, HostTable, ObjectName, RouteKind, ServedBackend, ServedListener,
        WeightedBackend,
    };

    use super::*;

    fn gateway(routes: &[(&str, &str, &str)]) -> Arc<ServedGateway> {
        let one = |(host, namespace, cluster): &(&str, &str, &str)| {
            let route = BoundRoute {
                kind: RouteKind::Http,
                route: ObjectName::new(*namespace, "route"),
                backends: vec![WeightedBackend { backend: ServedBackend::Cluster((*cluster).to_owned()), weight: 1 }],
                refused_weight: 0,
            };
            (HostPattern::parse(host).unwrap(), route)
        };
        let routes = HostTable { routes: routes.iter().map(one).collect(), ..HostTable::default() };
        let role = ListenerRole::Terminate { certificates: Vec::new(), client_ca: None, routes };
        Arc::new(ServedGateway {
            gateway: ObjectName::new("infra", "edge"),
            addresses: Vec::new(),
            settings: None,
            listeners: vec![ServedListener { name: "https".to_owned(), port: 443, host: HostPattern::Any, role }],
            policies: DoorPolicies::default(),
        })
    }

    #[test]
    fn namespaces_of_routes_are_found_by_their_configuration() {
        let mut known = KnownNamespaces::default();
        let served = gateway(&[("a.test", "a", "prod"), ("b.test", "b", "prod"), ("u.test", "c", "a/prod")]);
        let found = known.follow(Some(&served));
        let of = |name: &str| found.of_routes(name).into_iter().flatten().cloned().collect::<Vec<_>>();
        assert_eq!(of("lab/infra/edge/https/prod/routes"), ["a", "b"]);
        assert_eq!(of("lab/infra/edge/https/a/prod/routes"), ["c"], "and not the namespace of the upstream");
        for none in ["lab/infra/edge/https/c/prod/routes", "lab/infra/edge/other/prod/routes", "prod", "routes"] {
            assert!(of(none).is_empty(), "{none}");
        }
        assert!(Arc::ptr_eq(&found, &known.follow(Some(&served))));
        let other = known.follow(Some(&gateway(&[("a.test", "c", "prod")])));
        assert_eq!(other.of_routes("lab/infra/edge/https/prod/routes"), Some(&BTreeSet::from(["c".to_owned()])));
        assert!(known.follow(None).of_routes("lab/infra/edge/https/prod/routes").is_none());
    }
}

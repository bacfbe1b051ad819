//! HTTPRoutes among the objects of files, and what the policies at their doors make of the clusters and upstreams behind them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{CLUSTER_KIND, UPSTREAM_KIND, assumed_material, parse_upstream, upstream_of_key, upstream_rules};
use portcullis_attach::{
    Attached, AttachedPolicies, BoundRoute, Door, DoorPolicies, Inventory, ListenerRole, ObjectName, UnfitPolicy,
    UpstreamPolicies, attach, behind_doors, upstream_behind_doors,
};
use portcullis_instances::Settlement;
use portcullis_sources::ObjectSet;
use portcullis_translate::only_cluster;
use serde_json::Value;

use crate::gateway_objects::gateway_objects_of;
use crate::policies::{name_of, upstreams};

/// A route at a listener, with the one cluster or upstream to which its requests go.
#[derive(Debug)]
pub(crate) struct RoutedCluster {
    /// Its host names there.
    pub(crate) hosts: BTreeSet<String>,
    /// The Gateway, the listener and the route.
    pub(crate) doors: [Door; 3],
    /// The cluster's document with the policies of these; the upstream's own one.
    pub(crate) document: Arc<Value>,
    /// The rules of an upstream, with the policies of these.
    pub(crate) rules: Option<Arc<Value>>,
    /// The policies that do not fit, and why: they are left out, and close a route to an upstream.
    pub(crate) unfit: BTreeMap<UnfitPolicy, String>,
}

/// The host names of listeners for HTTPS.
#[derive(Debug, Default)]
pub(crate) struct RoutedNames {
    /// The routes that lead to a cluster or an upstream among the objects.
    pub(crate) open: Vec<RoutedCluster>,
    pub(crate) closed: Vec<ClosedNames>,
}

/// Host names of a listener that lead nowhere, or to an object that is not here: a wider route there has none of their requests.
#[derive(Debug)]
pub(crate) struct ClosedNames {
    pub(crate) hosts: BTreeSet<String>,
    /// Why, for people.
    pub(crate) why: String,
}

/// The routes that would be served, and the host names that lead to nothing among the objects. Gateways lead to clusters of their own
/// owner alone.
pub(crate) fn routes(
    objects: &ObjectSet,
    attached: &AttachedPolicies,
    home_namespace: &str,
    owners: Settlement,
) -> RoutedNames {
    let inventory = Inventory { home_namespace: home_namespace.to_owned(), owners, ..Inventory::default() };
    let routes = attach(&gateway_objects_of(objects), &inventory);
    RoutedObjects::of(objects, &attached.at_upstreams).routes(&routes, &attached.at_doors)
}

/// The policies that do not fit the clusters and upstreams behind their doors, and why. `at_upstreams` are those that upstreams have
/// themselves.
pub(crate) fn unfit(
    attached: &Attached,
    objects: &ObjectSet,
    at_upstreams: &UpstreamPolicies,
) -> BTreeMap<UnfitPolicy, String> {
    let policies = attached.served.iter().flat_map(|gateway| gateway.policies.all());
    let policies = DoorPolicies::new(policies.map(|(door, policies)| (door.clone(), policies.to_vec())));
    let routes = RoutedObjects::of(objects, at_upstreams).routes(attached, &policies);
    routes.open.into_iter().flat_map(|route| route.unfit).collect()
}

/// The object behind a route, or why there is none.
type Behind = Result<RoutedCluster, String>;

/// The objects to which requests of routes go.
struct RoutedObjects<'a> {
    clusters: BTreeMap<&'a str, &'a Arc<Value>>,
    upstreams: BTreeMap<ObjectName, Arc<Value>>,
    at_upstreams: &'a UpstreamPolicies,
}

impl<'a> RoutedObjects<'a> {
    /// Of two of one name the first one counts.
    fn of(objects: &'a ObjectSet, at_upstreams: &'a UpstreamPolicies) -> Self {
        let mut clusters: BTreeMap<&str, &Arc<Value>> = BTreeMap::new();
        for document in &objects.clusters {
            clusters.entry(name_of(document)).or_insert(document);
        }
        Self { clusters, upstreams: upstreams(objects), at_upstreams }
    }

    fn routes(&self, attached: &Attached, policies: &DoorPolicies) -> RoutedNames {
        let mut names = RoutedNames::default();
        let mut routes: BTreeMap<[Door; 3], (BTreeSet<String>, Behind)> = BTreeMap::new();
        for gateway in &attached.served {
            for listener in &gateway.listeners {
                let ListenerRole::Terminate { routes: table, .. } = &listener.role else { continue };
                for (host, route) in &table.routes {
                    let doors = Door::all(&gateway.gateway, &listener.name, &route.route);
                    let behind = |doors: &[Door; 3]| (BTreeSet::new(), self.behind(route, doors, policies));
                    routes.entry(doors).or_insert_with_key(behind).0.insert(host.to_string());
                }
                if !table.withheld.is_empty() {
                    let (hosts, at) = (table.withheld.iter().map(ToString::to_string).collect(), &listener.name);
                    let why = "its route is not accepted, or the name is a narrower listener's";
                    let why = format!("the name leads nowhere at listener {at} of Gateway {}: {why}", gateway.gateway);
                    names.closed.push(ClosedNames { hosts, why });
                }
            }
        }
        for (hosts, behind) in routes.into_values() {
            match behind {
                Ok(route) => names.open.push(RoutedCluster { hosts, ..route }),
                Err(why) => names.closed.push(ClosedNames { hosts, why }),
            }
        }
        names
    }

    /// That of a route which is served.
    fn behind(&self, route: &BoundRoute, doors: &[Door; 3], policies: &DoorPolicies) -> Behind {
        let name = &route.route;
        match only_cluster(route) {
            Some(key) => self.routed(key, doors, policies).ok_or_else(|| {
                let kind = if upstream_of_key(key).is_some() { UPSTREAM_KIND } else { CLUSTER_KIND };
                format!("HTTPRoute {name} leads to {kind} {key}, which is not among the objects")
            }),
            None if route.leads_on() => Err(format!(
                "connections of HTTPRoute {name} are closed: only some of its backends can be used, or they are several"
            )),
            None => Err(format!("HTTPRoute {name} has no backend that can be used, and its requests get 500")),
        }
    }

    /// A cluster by its name, or an upstream by its key, behind doors; none that is not here.
    fn routed(&self, key: &str, doors: &[Door; 3], policies: &DoorPolicies) -> Option<RoutedCluster> {
        let all = doors.iter().flat_map(|door| policies.at(door));
        let (document, rules, unfit) = match upstream_of_key(key) {
            None => {
                let (document, unfit) = behind_doors(self.clusters.get(key)?, key, all);
                (document, None, unfit)
            }
            Some((namespace, name)) => {
                let name = ObjectName::new(namespace, name);
                let (document, own) = (self.upstreams.get(&name)?, self.at_upstreams.get(&name));
                let rules = upstream_rules(own.map_or(&[][..], Vec::as_slice));
                // Contents of references make no difference.
                let behind = |raw| upstream_behind_doors(&raw, &assumed_material(&raw), &rules, all);
                let (rules, unfit) =
                    parse_upstream(document).map_or_else(|_| (Arc::clone(&rules), BTreeMap::new()), behind);
                (Arc::clone(document), Some(rules), unfit)
            }
        };
        Some(RoutedCluster { hosts: BTreeSet::new(), doors: doors.clone(), document, rules, unfit })
    }
}

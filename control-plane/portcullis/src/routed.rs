//! HTTPRoutes among the objects of files, and what the policies at their doors make of the clusters behind them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_attach::{Attached, Door, DoorPolicies, Inventory, ListenerRole, UnfitPolicy, attach, behind_doors};
use portcullis_instances::Settlement;
use portcullis_sources::ObjectSet;
use portcullis_translate::only_cluster;
use serde_json::Value;

use crate::gateway_objects::gateway_objects_of;
use crate::policies::name_of;

/// A route at a listener, with the one cluster to which its requests go.
#[derive(Debug)]
pub(crate) struct RoutedCluster {
    /// Its host names there.
    pub(crate) hosts: BTreeSet<String>,
    /// The Gateway, the listener and the route.
    pub(crate) doors: [Door; 3],
    /// The cluster's document with the policies of these.
    pub(crate) document: Arc<Value>,
    /// The policies that are left out, and why.
    pub(crate) unfit: BTreeMap<UnfitPolicy, String>,
}

/// The routes that would be served, as far as the cluster behind them is among the objects. Gateways lead to clusters of their own
/// owner alone.
pub(crate) fn routes(
    objects: &ObjectSet,
    policies: &DoorPolicies,
    home_namespace: &str,
    owners: Settlement,
) -> Vec<RoutedCluster> {
    let inventory = Inventory { home_namespace: home_namespace.to_owned(), owners, ..Inventory::default() };
    of_attached(&attach(&gateway_objects_of(objects), &inventory), policies, &objects.clusters)
}

/// The policies that are left out at the clusters behind their doors, and why.
pub(crate) fn unfit(attached: &Attached, clusters: &[Arc<Value>]) -> BTreeMap<UnfitPolicy, String> {
    let policies = attached.served.iter().flat_map(|gateway| gateway.policies.all());
    let policies = DoorPolicies::new(policies.map(|(door, policies)| (door.clone(), policies.to_vec())));
    of_attached(attached, &policies, clusters).into_iter().flat_map(|route| route.unfit).collect()
}

fn of_attached(attached: &Attached, policies: &DoorPolicies, clusters: &[Arc<Value>]) -> Vec<RoutedCluster> {
    let mut documents: BTreeMap<&str, &Arc<Value>> = BTreeMap::new();
    for document in clusters {
        documents.entry(name_of(document)).or_insert(document);
    }
    let mut routes: BTreeMap<[Door; 3], RoutedCluster> = BTreeMap::new();
    for gateway in &attached.served {
        for listener in &gateway.listeners {
            let ListenerRole::Terminate { routes: table, .. } = &listener.role else { continue };
            for (host, route) in &table.routes {
                let Some(cluster) = only_cluster(route) else { continue };
                let Some(document) = documents.get(cluster) else { continue };
                let doors = Door::all(&gateway.gateway, &listener.name, &route.route);
                let new = || {
                    let all = doors.iter().flat_map(|door| policies.at(door));
                    let (document, unfit) = behind_doors(document, cluster, all);
                    RoutedCluster { hosts: BTreeSet::new(), doors: doors.clone(), document, unfit }
                };
                let known = routes.entry(doors.clone()).or_insert_with(new);
                known.hosts.insert(host.to_string());
            }
        }
    }
    routes.into_values().collect()
}

use std::collections::BTreeSet;

use portcullis_xds::node_owner;

use crate::serve::fleet::view::{ClusterSummary, FleetView, GatewaySummary, InstanceSummary};

/// The part of the fleet that is about these clusters and instances: the Envoys are those of the instances.
pub(in super::super) fn part_of_fleet(
    view: &FleetView,
    clusters: &BTreeSet<String>,
    instances: &BTreeSet<String>,
) -> FleetView {
    let is_own = |gateway: &&GatewaySummary| node_owner(&gateway.node).is_some_and(|owner| instances.contains(owner));
    let is_seen = |cluster: &&ClusterSummary| clusters.contains(&cluster.name);
    // The list by gateway is in the order of all of them.
    let plain = |cluster: &ClusterSummary| ClusterSummary { by_gateway: Vec::new(), ..cluster.clone() };
    let is_of_reader = |instance: &&InstanceSummary| instances.contains(&instance.name);
    FleetView {
        time: view.time,
        clusters: view.clusters.iter().filter(is_seen).map(plain).collect(),
        gateways: view.gateways.iter().filter(is_own).cloned().collect(),
        instances: view.instances.iter().filter(is_of_reader).cloned().collect(),
        ..FleetView::default()
    }
}

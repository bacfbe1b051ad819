use std::collections::BTreeSet;

use portcullis_xds::node_owner;

use crate::serve::fleet::view::{ClusterSummary, FleetView, GatewaySummary, InstanceSummary};

/// The part of the fleet that is about these clusters and instances: the Envoys are those of the instances.
pub(super) fn part_of_fleet(view: &FleetView, clusters: &BTreeSet<String>, instances: &BTreeSet<String>) -> FleetView {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::serve::fleet::view::GatewayTraffic;

    /// Envoys, each with the instance that has it alone.
    const NODES: [(&str, Option<&str>); 7] = [
        ("azure/e0", Some("azure")),
        ("crimson/e1", Some("crimson")),
        ("azure+crimson/e2", None),
        ("socket", None),
        ("/azure/e3", None),
        ("gateway:azure/door/e4", None),
        ("azure-2/e5", Some("azure-2")),
    ];
    const INSTANCES: [&str; 3] = ["azure", "azure-2", "crimson"];

    fn view() -> FleetView {
        let gateway = |(node, _): (&str, _)| GatewaySummary { node: node.to_owned(), ..GatewaySummary::default() };
        let summary = |number: usize| ClusterSummary {
            name: number.to_string(),
            by_gateway: vec![None; NODES.len()],
            ..ClusterSummary::default()
        };
        let instance = |name: &str| InstanceSummary { name: name.to_owned(), ..InstanceSummary::default() };
        FleetView {
            time: 1,
            instance: "everything".to_owned(),
            clusters: (0..6).map(summary).collect(),
            gateways: NODES.map(gateway).into(),
            instances: INSTANCES.map(instance).into(),
            at_gateways: vec![GatewayTraffic::default()],
        }
    }

    proptest! {
        #[test]
        fn fleet_of_a_tenant_has_envoys_of_its_instances_alone(
            clusters in prop::collection::btree_set(0..6_usize, 0..6),
            tenants in prop::collection::btree_set(prop::sample::select(&INSTANCES[..]), 0..3),
        ) {
            let seen: BTreeSet<String> = clusters.iter().map(usize::to_string).collect();
            let own: BTreeSet<String> = tenants.iter().map(|one| (*one).to_owned()).collect();
            let part = part_of_fleet(&view(), &seen, &own);
            let nodes = NODES.iter().filter(|(_, owner)| owner.is_some_and(|owner| own.contains(owner)));
            prop_assert!(part.gateways.iter().map(|one| one.node.as_str()).eq(nodes.map(|(node, _)| *node)));
            prop_assert!(part.instances.iter().map(|one| &one.name).eq(&own));
            prop_assert!(part.clusters.iter().map(|one| &one.name).eq(&seen));
            prop_assert!(part.clusters.iter().all(|one| one.by_gateway.is_empty()) && part.instance.is_empty());
            prop_assert!(part.at_gateways.is_empty());
        }
    }
}

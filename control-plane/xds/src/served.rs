//! What is served in tests of both variants of the protocol: any objects, as a control plane makes resources of them.

use std::collections::BTreeMap;

use proptest::prelude::*;

pub(crate) const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
pub(crate) const EDS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
pub(crate) const LDS: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
pub(crate) const RDS: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";

/// One served object: a listener and its route, which refers to the clusters.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    object: u8,
    clusters: Vec<u8>,
    content: u8,
}

/// All that is served at one time.
pub(crate) fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let clusters = proptest::collection::vec(0..5_u8, 0..3);
    let entry =
        (0..4_u8, clusters, 0..3_u8).prop_map(|(object, clusters, content)| Entry { object, clusters, content });
    proptest::collection::vec(entry, 0..4)
}

/// The contents of its resources, by type and name.
pub(crate) fn resources(entries: &[Entry]) -> BTreeMap<(&'static str, String), String> {
    let mut all = BTreeMap::new();
    for entry in entries {
        let clusters: Vec<String> = entry.clusters.iter().map(|number| format!("c{number}")).collect();
        for cluster in &clusters {
            all.insert((CDS, cluster.clone()), entry.content.to_string());
            all.insert((EDS, cluster.clone()), entry.content.to_string());
        }
        all.insert((LDS, format!("o{}", entry.object)), entry.content.to_string());
        all.insert((RDS, format!("o{}", entry.object)), clusters.join(","));
    }
    all
}

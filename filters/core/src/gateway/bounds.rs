use portcullis_filter_config::ActivityReports;

/// Whether reports can be sent so, and no more often than control planes take them.
pub(super) fn is_within_bounds(activity: &ActivityReports) -> bool {
    let ActivityReports { clusters, node, interval_seconds } = activity;
    are_named(clusters, node) && (5..=15).contains(interval_seconds)
}

/// Whether there are Envoy clusters of control planes and a node, and not too many.
pub(super) fn are_named(clusters: &[String], node: &str) -> bool {
    (1..=8).contains(&clusters.len())
        && clusters.iter().all(|cluster| !cluster.is_empty())
        && (1..=256).contains(&node.len())
}

//! The statistics that Envoy makes. It has some 680 for each `UpstreamCluster`, which take as much memory as its filter chain and
//! policies together; dashboards, alerts, the agent and docs/operations.md read a tenth.

use serde_json::{Value, json};

/// Whole families, by the first part of their names: they do not grow with the number of clusters.
const PREFIXES: [&str; 23] = [
    "access_logs.",
    "cluster.portcullis-xds.",
    "cluster_manager.",
    "control_plane.",
    "dns.",
    "dynamicmodulescustom.",
    "envoy.",
    "filesystem.",
    "http1.",
    "http2.",
    "listener.admin.",
    "listener_manager.",
    "main_thread.",
    "overload.",
    "portcullis.",
    "runtime.",
    "sds.portcullis-xds",
    "server.",
    "thread_local_cluster_manager.",
    "tls_inspector.",
    "tracing.",
    "wasm",
    "workers.",
];

/// Those of a pool. Envoy goes by some itself: without `upstream_cx_total` it would take a pool for one that was never used, and
/// check its servers as such.
const OF_POOLS: [&str; 17] = [
    "membership_(healthy|total)",
    "outlier_detection.ejections_active",
    "health_check.(attempt|failure|network_failure)",
    "upstream_cx_active",
    "upstream_cx_connect_fail",
    "upstream_cx_max_duration_reached",
    "upstream_cx_overflow",
    "upstream_cx_total",
    "upstream_rq_active",
    "upstream_rq_active_overflow",
    "upstream_rq_pending_active",
    "upstream_rq_pending_overflow",
    "upstream_rq_per_try_timeout",
    "upstream_rq_retry",
    "upstream_rq_timeout",
    "upstream_rq_total",
    "upstream_rq_tx_reset",
];

/// Those of the connections and requests of a cluster's clients.
const OF_CLIENTS: [&str; 6] = [
    "downstream_cx_active",
    "downstream_cx_total",
    "downstream_rq_active",
    "downstream_rq_rx_reset",
    "downstream_rq_too_many_premature_resets",
    "downstream_rq_total",
];

/// Those of the connections that are passed on.
const OF_PASSED_ON: [&str; 4] =
    ["downstream_cx_total", "downstream_cx_rx_bytes_total", "downstream_cx_tx_bytes_total", "idle_timeout"];

/// Those of a listener. The connections of each chain count here too; what only a chain has does not.
const OF_LISTENERS: &str =
    r"(worker_[0-9]+\.)?(downstream_[a-z_]+|no_filter_chain_match|connections_accepted_per_socket_event)|ssl\.[a-z_]+";

/// `stats_config` of the bootstrap.
pub(super) fn config() -> Value {
    let prefixes = PREFIXES.iter().map(|prefix| json!({"prefix": prefix}));
    let regexes = [
        format!(r"cluster\.[^.]+\.({})", alternatives(&OF_POOLS)),
        // The gateway itself has one cluster, the collector of traces.
        r"cluster\.[^.]+/-/-/.*".to_owned(),
        format!(r"http\.[^.]+\.({})", alternatives(&OF_CLIENTS)),
        format!(r"listener\.[^.]+\.({OF_LISTENERS})"),
        format!(r"tcp\.[^.]+\.({})", alternatives(&OF_PASSED_ON)),
    ];
    let regexes = regexes.into_iter().map(|regex| json!({"safe_regex": {"regex": regex}}));
    let patterns: Vec<Value> = prefixes.chain(regexes).collect();
    json!({"stats_matcher": {"inclusion_list": {"patterns": patterns}}})
}

fn alternatives(names: &[&str]) -> String {
    names.join("|").replace('.', r"\.")
}

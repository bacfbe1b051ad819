//! Every metric of the control plane, for its page and for `docs/reference/control-plane-metrics.md`.

use portcullis_api::{CLUSTER_KIND, INSTANCE_KIND, PolicyKind, SETTINGS_KIND, UPSTREAM_KIND};
use portcullis_xds::Rejection;

/// A metric.
#[cfg_attr(not(test), expect(dead_code, reason = "the reference shows more than the page"))]
pub(super) struct Metric {
    /// The full name, with `_total` where it is a counter.
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
}

/// A label and its values, a closed set.
#[cfg(test)]
pub(super) struct Label {
    pub(super) name: &'static str,
    pub(super) values: &'static [&'static str],
    pub(super) help: &'static str,
}

const fn metric(name: &'static str, kind: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind, labels, help }
}

pub(super) const OBJECTS: Metric = metric(
    "portcullis_objects",
    "gauge",
    &["kind", "state"],
    "Objects of the source by outcome, and files of it that cannot be used",
);
pub(super) const REJECTED_UPDATES: Metric = metric(
    "portcullis_rejected_updates_total",
    "counter",
    &["kind"],
    "Updates of objects and files that were refused, each once; the version that was accepted before stays in use",
);
pub(super) const GATEWAY_API_OBJECTS: Metric = metric(
    "portcullis_gateway_api_objects",
    "gauge",
    &["kind"],
    "Objects of the Gateway API, KubernetesUpstreams and policies that are judged, those of other controllers left out; with --gateway-api alone",
);
pub(super) const GATEWAY_API_FALSE_CONDITIONS: Metric = metric(
    "portcullis_gateway_api_false_conditions",
    "gauge",
    &["kind", "condition"],
    "Those of these objects of which a condition is False: their own, or that of a listener, a parent or a target",
);
pub(super) const TRANSLATION: Metric =
    metric("portcullis_translation_seconds", "histogram", &[], "Time from a set of objects to the snapshot of it");
pub(super) const PROPAGATION: Metric = metric(
    "portcullis_propagation_seconds",
    "histogram",
    &[],
    "Time from reading a set of objects to the acknowledgement of its whole snapshot by a connected node",
);
pub(super) const RESOURCES: Metric =
    metric("portcullis_resources", "gauge", &["type"], "Resources of the snapshot that is served");
pub(super) const XDS_RESPONSES: Metric =
    metric("portcullis_xds_responses_total", "counter", &["type"], "xDS responses sent to nodes");
pub(super) const XDS_ACKS: Metric =
    metric("portcullis_xds_acks_total", "counter", &["type"], "xDS responses that nodes acknowledged");
pub(super) const XDS_NACKS: Metric =
    metric("portcullis_xds_nacks_total", "counter", &["type"], "xDS responses that nodes refused (NACK)");
pub(super) const XDS_NODES: Metric = metric("portcullis_xds_nodes", "gauge", &["state"], "Nodes by state");
pub(super) const SOURCE_STALE: Metric = metric(
    "portcullis_source_stale_seconds",
    "gauge",
    &[],
    "Time for which the source could not be read, 0 if it can be: the objects that were read before stay in use",
);
pub(super) const SNAPSHOT_SOURCE: Metric = metric(
    "portcullis_snapshot_source",
    "gauge",
    &["source"],
    "1 for the source of the served snapshot, 0 for the others; all 0 while nothing is served",
);
pub(super) const STATE_WRITES: Metric = metric(
    "portcullis_state_writes_total",
    "counter",
    &["outcome"],
    "Writes of the last good configuration to --state-dir",
);
pub(super) const XDS_REJECTIONS: Metric = metric(
    "portcullis_xds_rejections_total",
    "counter",
    &["reason"],
    "Handshakes, connections, streams and messages that the xDS server refused or ended",
);
pub(super) const REVOKED_REFERENCES: Metric = metric(
    "portcullis_revoked_references",
    "gauge",
    &[],
    "Objects that are served with keys whose Secret or file is revoked",
);
pub(super) const UNHEALTHY: Metric = metric(
    "portcullis_unhealthy_servers",
    "gauge",
    &[],
    "Unhealthy servers of all clusters; gateways may differ, and the one that finds most of a cluster counts",
);
pub(super) const LIMITS_STORE_UP: Metric =
    metric("portcullis_limits_store_up", "gauge", &[], "Whether --limits-store answered when it was last asked");
pub(super) const LIMITS_STORE_ROUNDS: Metric = metric(
    "portcullis_limits_store_rounds_total",
    "counter",
    &[],
    "Rounds in which reports of shared limits were answered by --limits-store, or should have been",
);
pub(super) const LIMITS_STORE_FAILURES: Metric = metric(
    "portcullis_limits_store_failures_total",
    "counter",
    &[],
    "Rounds that failed; gateways keep their parts of shared limits for three seconds and report again meanwhile",
);
pub(super) const LIMITS_STORE_CONFLICTS: Metric = metric(
    "portcullis_limits_store_conflicts_total",
    "counter",
    &[],
    "Changes that were made anew because another control plane had changed the same limits",
);
pub(super) const DISCOVERY_SOURCES: Metric = metric(
    "portcullis_discovery_sources",
    "gauge",
    &["state"],
    "Sources of discovered servers; those that are not current keep their last servers",
);
pub(super) const DISCOVERED_SERVERS: Metric =
    metric("portcullis_discovered_servers", "gauge", &[], "Servers in the last answers of all these sources");
pub(super) const DISCOVERY_CHANGES: Metric =
    metric("portcullis_discovery_changes_total", "counter", &[], "Times that the servers of a source became others");
pub(super) const INSTANCE_EDITS_WAITING: Metric = metric(
    "portcullis_instance_edits_waiting",
    "gauge",
    &[INSTANCE_LABEL],
    "Edits of UpstreamClusters that wait for translation, because others of the same instance come first",
);
pub(super) const INSTANCE_NODES: Metric =
    metric("portcullis_instance_xds_nodes", "gauge", &[INSTANCE_LABEL, "state"], "Nodes of an instance by state");
pub(super) const INSTANCE_PROPAGATION: Metric = metric(
    "portcullis_instance_propagation_seconds",
    "histogram",
    &[INSTANCE_LABEL],
    "Time from reading a set of objects to the acknowledgement of an instance's whole view by a node of it",
);
pub(super) const BUILD: Metric =
    metric("portcullis_build_info", "gauge", &["version"], "Always 1; the control plane's version");

/// The label of an instance. Prometheus would rename one that is called `instance`.
pub(super) const INSTANCE_LABEL: &str = "portcullis_instance";

#[cfg(test)]
pub(super) const METRICS: [&Metric; 28] = [
    &OBJECTS,
    &REJECTED_UPDATES,
    &GATEWAY_API_OBJECTS,
    &GATEWAY_API_FALSE_CONDITIONS,
    &TRANSLATION,
    &PROPAGATION,
    &RESOURCES,
    &XDS_RESPONSES,
    &XDS_ACKS,
    &XDS_NACKS,
    &XDS_NODES,
    &SOURCE_STALE,
    &SNAPSHOT_SOURCE,
    &STATE_WRITES,
    &XDS_REJECTIONS,
    &REVOKED_REFERENCES,
    &UNHEALTHY,
    &LIMITS_STORE_UP,
    &LIMITS_STORE_ROUNDS,
    &LIMITS_STORE_FAILURES,
    &LIMITS_STORE_CONFLICTS,
    &DISCOVERY_SOURCES,
    &DISCOVERED_SERVERS,
    &DISCOVERY_CHANGES,
    &INSTANCE_EDITS_WAITING,
    &INSTANCE_NODES,
    &INSTANCE_PROPAGATION,
    &BUILD,
];

pub(super) const KINDS: [&str; 4] = [CLUSTER_KIND, SETTINGS_KIND, INSTANCE_KIND, "File"];
pub(super) const GATEWAY_API_KINDS: [&str; 8] = [
    "GatewayClass",
    "Gateway",
    "HTTPRoute",
    "TLSRoute",
    UPSTREAM_KIND,
    PolicyKind::Dispatch.as_str(),
    PolicyKind::FlowControl.as_str(),
    PolicyKind::UpstreamIdentity.as_str(),
];
/// Those of which False means that something is not as it is written.
pub(super) const CONDITIONS: [&str; 3] = ["Accepted", "ResolvedRefs", "Programmed"];
pub(super) const STATES: [&str; 3] = ["accepted", "invalid", "conflicted"];
pub(super) const TYPES: [&str; 6] = ["clusters", "endpoints", "secrets", "listeners", "routes", "other"];
pub(super) const NODE_STATES: [&str; 6] = ["connected", "in_sync", "refusing", "of_gateways", "reporting", "frozen"];
pub(super) const INSTANCE_NODE_STATES: [&str; 3] = ["connected", "in_sync", "refusing"];
pub(super) const DISCOVERY_STATES: [&str; 3] = ["current", "empty", "unavailable"];
pub(super) const ORIGINS: [&str; 2] = ["source", "last_good"];
pub(super) const OUTCOMES: [&str; 2] = ["written", "failed"];
/// The reasons of xDS rejections.
pub(super) const REASONS: [&str; 13] = Rejection::LABELS;

#[cfg(test)]
pub(super) const LABELS: [Label; 12] = [
    Label {
        name: "kind",
        values: &KINDS,
        help: "The object's kind; `File` for a file or document that holds none of ours.",
    },
    Label {
        name: "kind",
        values: &GATEWAY_API_KINDS,
        help: "The kind of an object that is judged with `--gateway-api`.",
    },
    Label {
        name: "condition",
        values: &CONDITIONS,
        help: "The type of the condition. `Programmed` is that of Gateways by the Envoys of this replica, and that of policies: False of one that another one overrides.",
    },
    Label { name: "state", values: &STATES, help: "The outcome of an object: `accepted` is served." },
    Label {
        name: "state",
        values: &NODE_STATES,
        help: "The state of a node; a node may be counted under several. `of_gateways`: it is of a Gateway, and connected. `reporting`: its agent reported the health of endpoints in the last 30 seconds, whichever replica Envoy is connected to; nodes of Gateways are not among these. `frozen`: its filter reads another configuration version, so it keeps its last configuration.",
    },
    Label {
        name: "state",
        values: &DISCOVERY_STATES,
        help: "The state of a source of discovered servers. `empty`: it names no server that may be used.",
    },
    Label { name: "type", values: &TYPES, help: "The type of resource." },
    Label {
        name: "source",
        values: &ORIGINS,
        help: "`source` are the objects, `last_good` is the file of --state-dir.",
    },
    Label { name: "outcome", values: &OUTCOMES, help: "The outcome of the write." },
    Label {
        name: "reason",
        values: &REASONS,
        help: "`handshakes`: ended in favour of newer ones. `handshake_time`: took too long. `handshake_failed`: no \
               trusted certificate. `connections`, `streams`, `exchanges`: too many of one peer. `idle`: no node id was sent in time. \
               `message`, `names`: too large, or too many. `unread`: a response was not read in time. `answer`: a response was \
               neither acknowledged nor refused in time. `node`: the node id is no name of the certificate, or the Envoy cannot be served.",
    },
    Label {
        name: INSTANCE_LABEL,
        values: &[],
        help: "The name of an Instance that is served, of a hundred at most; `other/` for those beyond and for names that are none; empty for what belongs to no Instance.",
    },
    Label { name: "version", values: &[], help: "The version of the program." },
];

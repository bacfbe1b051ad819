//! Every metric of the control plane, for its page and for `docs/reference/control-plane-metrics.md`.

use portcullis_xds::Rejection;

/// A metric as it is told.
#[cfg_attr(not(test), expect(dead_code, reason = "the reference tells more than the page"))]
pub(super) struct Metric {
    /// As it stands on the page.
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
    "Objects of the source by what became of them, and files of it that cannot be used",
);
pub(super) const REFUSED_EDITS: Metric = metric(
    "portcullis_refused_edits_total",
    "counter",
    &["kind"],
    "Editions of objects and files that were refused, each once; what was accepted before stays in use",
);
pub(super) const TRANSLATION: Metric = metric(
    "portcullis_translation_seconds",
    "histogram",
    &[],
    "Time from a set of objects to the snapshot that is served",
);
pub(super) const CHANGE: Metric = metric(
    "portcullis_change_to_acknowledgement_seconds",
    "histogram",
    &[],
    "Time from a set of objects, read, to the acknowledgement of all of it by one node that was connected",
);
pub(super) const RESOURCES: Metric =
    metric("portcullis_resources", "gauge", &["type"], "Resources of the snapshot that is served");
pub(super) const PUSHES: Metric =
    metric("portcullis_pushes_total", "counter", &["type"], "xDS responses sent to nodes");
pub(super) const ACKNOWLEDGEMENTS: Metric =
    metric("portcullis_acknowledgements_total", "counter", &["type"], "xDS responses that nodes acknowledged");
pub(super) const REFUSALS: Metric =
    metric("portcullis_refusals_total", "counter", &["type"], "xDS responses that nodes refused (NACK)");
pub(super) const NODES: Metric = metric("portcullis_nodes", "gauge", &["state"], "Nodes by where they stand");
pub(super) const SOURCE_STALE: Metric = metric(
    "portcullis_source_stale_seconds",
    "gauge",
    &[],
    "For how long the source could not be read, 0 if it can: what was read before stays in use",
);
pub(super) const SERVING: Metric = metric(
    "portcullis_serving",
    "gauge",
    &["from"],
    "1 for where that comes from which is served, 0 for the others; all 0 while nothing is served",
);
pub(super) const STATE_WRITES: Metric = metric(
    "portcullis_state_writes_total",
    "counter",
    &["outcome"],
    "Times that the last good configuration was written to --state-dir",
);
pub(super) const TURNED_AWAY: Metric = metric(
    "portcullis_xds_turned_away_total",
    "counter",
    &["reason"],
    "Handshakes, connections, streams and messages at the doors of xDS that were refused or ended",
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
    "Servers that a gateway finds unhealthy, of all clusters: of each cluster as many as the gateway that finds most",
);
pub(super) const BUILD: Metric =
    metric("portcullis_build_info", "gauge", &["version"], "Always 1; the control plane's version");

#[cfg(test)]
pub(super) const METRICS: [&Metric; 16] = [
    &OBJECTS,
    &REFUSED_EDITS,
    &TRANSLATION,
    &CHANGE,
    &RESOURCES,
    &PUSHES,
    &ACKNOWLEDGEMENTS,
    &REFUSALS,
    &NODES,
    &SOURCE_STALE,
    &SERVING,
    &STATE_WRITES,
    &TURNED_AWAY,
    &REVOKED_REFERENCES,
    &UNHEALTHY,
    &BUILD,
];

pub(super) const KINDS: [&str; 3] = ["UpstreamCluster", "GatewaySettings", "File"];
pub(super) const STATES: [&str; 3] = ["accepted", "invalid", "conflicted"];
pub(super) const TYPES: [&str; 6] = ["clusters", "endpoints", "secrets", "listeners", "routes", "other"];
pub(super) const NODE_STATES: [&str; 5] = ["connected", "in_sync", "refusing", "reporting", "frozen"];
pub(super) const ORIGINS: [&str; 2] = ["source", "last_good"];
pub(super) const OUTCOMES: [&str; 2] = ["written", "failed"];
/// Why xDS turns somebody away.
pub(super) const REASONS: [&str; 11] = Rejection::LABELS;

#[cfg(test)]
pub(super) const LABELS: [Label; 8] = [
    Label {
        name: "kind",
        values: &KINDS,
        help: "The object's kind; `File` for a file or document that holds none of ours.",
    },
    Label { name: "state", values: &STATES, help: "Of an object: whether it is served, or why not." },
    Label {
        name: "state",
        values: &NODE_STATES,
        help: "Of a node; one may be counted under several. `reporting` are those whose agents told in the last 30 seconds how their endpoints are, at whatever replica Envoy is connected. `frozen` are those whose filter reads another configuration version: they keep their last configuration.",
    },
    Label { name: "type", values: &TYPES, help: "The type of resource." },
    Label { name: "from", values: &ORIGINS, help: "`last_good` is the file of --state-dir." },
    Label { name: "outcome", values: &OUTCOMES, help: "What became of it." },
    Label {
        name: "reason",
        values: &REASONS,
        help: "`handshakes`: one gave way to newer ones. `handshake_time`: it took too long. `handshake_failed`: no \
               certificate of ours. `connections`, `streams`: too many of one peer. `idle`: nobody said which node it is. \
               `message`, `names`: too large, or too many. `answer`: a response stayed without one. `node`: a node id that \
               is no name of the certificate, or an Envoy that cannot be served.",
    },
    Label { name: "version", values: &[], help: "The version of the program." },
];

//! Every metric of the filter, with its labels and the sets that their values come from.

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down; at most a second old.
    Gauge,
    /// Counts values by size.
    Histogram,
}

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, without Envoy's prefix.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Its description, for `docs/reference/metrics.md`.
    pub help: &'static str,
    /// Its labels, in order.
    pub labels: &'static [&'static str],
}

/// A label, wherever it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Which values it has.
    pub values: &'static str,
}

/// All labels.
pub const LABELS: [Label; 8] = [
    Label { name: "cluster", values: "The name of the `UpstreamCluster`; `-` for what reached none." },
    Label {
        name: "verb",
        values: "Kubernetes' verbs; for plain paths lower-case HTTP methods. Other methods are `other`.",
    },
    Label {
        name: "resource",
        values: "A resource of Kubernetes' own, as `pods` or `pods/exec`, whatever its API group (listed below), or one that \
                 a dispatch policy of the cluster names, up to 1,024 of them. `NonResourceRequest` for plain paths. \
                 Everything else is `other`.",
    },
    Label {
        name: "policy",
        values: "The number of the dispatch policy in the object, from 0; `-` where none decided.",
    },
    Label { name: "schema", values: "The flow control schema of that policy; `-` if it names none." },
    Label { name: "decision", values: "The outcome of the request, see below." },
    Label {
        name: "reason",
        values: "Why it was not forwarded, why its answer was replaced, or why it was ended; `-` otherwise.",
    },
    Label { name: "kind", values: "The kind of answer that is remembered." },
];

/// Envoy's prefix of every name on its Prometheus page: its own word and our namespace.
pub const PREFIX: &str = "envoy_portcullis_";

/// Requests.
pub const REQUESTS: Metric = Metric {
    name: "requests_total",
    kind: Kind::Counter,
    help: "Requests, counted when the gateway decides about them. One that went upstream and whose answer the gateway \
           replaced, or that it ended later, counts twice: as `forwarded`, and as `replaced` or `ended`.",
    labels: &["cluster", "verb", "resource", "policy", "schema", "decision", "reason"],
};

/// The gateway's own time for a request.
pub const FILTER_DURATION: Metric = Metric {
    name: "filter_duration_microseconds",
    kind: Kind::Histogram,
    help: "Time that the filter worked on a request before it went on or was refused, without waiting. Envoy's histograms \
           hold whole numbers, so the unit is not seconds.",
    labels: &[],
};

/// The time that a request waited for reviews.
pub const REVIEW_WAIT: Metric = Metric {
    name: "review_wait_milliseconds",
    kind: Kind::Histogram,
    help: "Time that a request waited for TokenReviews and SubjectAccessReviews. Requests whose answers were cached do \
           not count.",
    labels: &[],
};

/// Requests in flight.
pub const REQUESTS_IN_FLIGHT: Metric = Metric {
    name: "requests_in_flight",
    kind: Kind::Gauge,
    help: "Requests in flight that hold a place of `maxRequestsInflight`.",
    labels: &["cluster", "schema"],
};

/// Reviews under way.
pub const REVIEWS: Metric = Metric {
    name: "reviews_in_flight",
    kind: Kind::Gauge,
    help: "TokenReviews and SubjectAccessReviews under way.",
    labels: &["cluster"],
};

/// Cached answers.
pub const CREDENTIAL_CACHE_ENTRIES: Metric = Metric {
    name: "credential_cache_entries",
    kind: Kind::Gauge,
    help: "Answers about credentials that are remembered, expired ones included until they are forgotten.",
    labels: &["cluster", "kind"],
};

/// All of them.
pub const METRICS: [Metric; 6] =
    [REQUESTS, FILTER_DURATION, REVIEW_WAIT, REQUESTS_IN_FLIGHT, REVIEWS, CREDENTIAL_CACHE_ENTRIES];

/// The label `resource` of what is no resource.
pub const NON_RESOURCE: &str = "NonResourceRequest";

/// Kubernetes' own resources, and subresources in common use. Another resource counts under the name that a dispatch policy of
/// the cluster gives it, or as `other`.
#[rustfmt::skip]
pub const BUILT_IN: [&str; 125] = [
    // core
    "bindings", "componentstatuses", "configmaps", "endpoints", "events", "limitranges", "namespaces", "namespaces/finalize",
    "namespaces/status", "nodes", "nodes/proxy", "nodes/status", "persistentvolumeclaims", "persistentvolumeclaims/status",
    "persistentvolumes", "persistentvolumes/status", "pods", "pods/attach", "pods/binding", "pods/ephemeralcontainers",
    "pods/eviction", "pods/exec", "pods/log", "pods/portforward", "pods/proxy", "pods/resize", "pods/status",
    "podtemplates", "replicationcontrollers", "replicationcontrollers/scale", "replicationcontrollers/status",
    "resourcequotas", "resourcequotas/status", "secrets", "serviceaccounts", "serviceaccounts/token", "services",
    "services/proxy", "services/status",
    // apps
    "controllerrevisions", "daemonsets", "daemonsets/status", "deployments", "deployments/scale", "deployments/status",
    "replicasets", "replicasets/scale", "replicasets/status", "statefulsets", "statefulsets/scale", "statefulsets/status",
    // batch, autoscaling, policy
    "cronjobs", "cronjobs/status", "horizontalpodautoscalers", "horizontalpodautoscalers/status", "jobs", "jobs/status",
    "poddisruptionbudgets", "poddisruptionbudgets/status",
    // networking.k8s.io, discovery.k8s.io
    "endpointslices", "ingressclasses", "ingresses", "ingresses/status", "ipaddresses", "networkpolicies", "servicecidrs",
    "servicecidrs/status",
    // rbac.authorization.k8s.io
    "clusterrolebindings", "clusterroles", "rolebindings", "roles",
    // storage.k8s.io
    "csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments", "volumeattachments/status",
    "volumeattributesclasses",
    // admissionregistration.k8s.io
    "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
    "validatingadmissionpolicies", "validatingadmissionpolicies/status", "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
    // apiextensions.k8s.io, apiregistration.k8s.io
    "apiservices", "apiservices/status", "customresourcedefinitions", "customresourcedefinitions/status",
    // authentication.k8s.io, authorization.k8s.io
    "localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectreviews", "selfsubjectrulesreviews",
    "subjectaccessreviews", "tokenreviews",
    // certificates.k8s.io
    "certificatesigningrequests", "certificatesigningrequests/approval", "certificatesigningrequests/status",
    "clustertrustbundles", "podcertificaterequests", "podcertificaterequests/status",
    // coordination.k8s.io, flowcontrol.apiserver.k8s.io
    "flowschemas", "flowschemas/status", "leasecandidates", "leases", "prioritylevelconfigurations",
    "prioritylevelconfigurations/status",
    // node.k8s.io, scheduling.k8s.io
    "priorityclasses", "runtimeclasses",
    // resource.k8s.io
    "deviceclasses", "devicetaintrules", "resourceclaims", "resourceclaims/status", "resourceclaimtemplates", "resourceslices", "workloads",
    "podgroups", "podgroups/status",
    // internal.apiserver.k8s.io, storagemigration.k8s.io
    "storageversionmigrations", "storageversionmigrations/status", "storageversions", "storageversions/status",
    // metrics.k8s.io and what else asks for logs and numbers of nodes
    "nodes/log", "nodes/metrics", "nodes/stats",
];

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
pub const LABELS: [Label; 18] = [
    Label {
        name: "cluster",
        values: "The name of the `UpstreamCluster`, or `namespace/name` of a `KubernetesUpstream`; `-` for what reached none; `(other)` in histograms of what has no room.",
    },
    Label {
        name: "server",
        values: "The server that the request went to last, as the object's `spec.servers` names it; `-` for an answer of the \
                 gateway's own to a request that was not forwarded, `none` for a forwarded request that came to no server; \
                 `other` for a server that is not in the object any more, and for any server in what has no \
                 room; `unknown` for one without a name (an Envoy without the control plane).",
    },
    Label {
        name: "verb",
        values: "kube-apiserver's word for its metrics: the method, but `LIST` and `WATCH` for collections, `APPLY` for \
                 server-side apply and `CONNECT` for `exec`, `attach`, `portforward`, `log` and `proxy`. Other methods are \
                 `other`.",
    },
    Label {
        name: "resource",
        values: "A resource of Kubernetes' own, whatever its API group (listed below), or one that a dispatch policy of the \
                 cluster names, up to 1,024 of them. Empty for plain paths. Everything else is `other`, and so is every \
                 resource that a client asks for which is not authenticated.",
    },
    Label { name: "subresource", values: "The subresource, listed below with its resource; or empty." },
    Label {
        name: "scope",
        values: "`resource` for an object and a creation, `namespace` and `cluster` for collections; empty for plain paths.",
    },
    Label {
        name: "code",
        values: "The status of the answer; `0` if the request ended without one. The class alone, as `2xx`, for a status that \
                 neither kube-apiserver nor the gateway uses, and for what has no room.",
    },
    Label { name: "le", values: "The upper bound of a histogram's bucket, in the metric's unit." },
    Label { name: "request_kind", values: "`readOnly` or `mutating`." },
    Label {
        name: "policy",
        values: "The number of the dispatch policy in the object, from 0; `-` where none decided.",
    },
    Label {
        name: "shadow_policy",
        values: "The number of the shadow's policy, from 0; `-` where none decides. `(other)` in both labels of policies for what has \
                 no room: of a cluster 256 pairs have.",
    },
    Label {
        name: "agreement",
        values: "`same`; `other_policy` if the request would go to other servers or come under another schema; `would_refuse` (403), \
                 `would_limit` (429) or `would_allow`. Requests of `same` are counted together, without their policies.",
    },
    Label {
        name: "schema",
        values: "The flow control schema of that policy; `-` if it names none; `(other)` in gauges of what has no room.",
    },
    Label { name: "decision", values: "The outcome of the request, see below." },
    Label {
        name: "reason",
        values: "Why it was not forwarded, why its answer was replaced, or why it was ended; `-` otherwise.",
    },
    Label { name: "kind", values: "The kind of answer that is remembered." },
    Label {
        name: "result",
        values: "`confirmed`; `rejected` if the token is not valid any more, `other_user` if it is another user's for the server: then it \
                 is reviewed as any other from then on; `failed` if there was no answer, which changes nothing.",
    },
    Label {
        name: "trigger",
        values: "The condition of `rebalance.when` that held: `inFlight`, `requestsPerSecond`, `memory` or `onLimited`; `chance` \
                 where there are no conditions.",
    },
];

/// Envoy's prefix of every name on its Prometheus page: its own word and our namespace.
pub const PREFIX: &str = "envoy_portcullis_";

/// Requests.
pub const REQUESTS: Metric = Metric {
    name: "requests_total",
    kind: Kind::Counter,
    help: "Requests, counted when the gateway decides about them. One that went upstream and whose answer the gateway \
           replaced, or that it ended later, counts twice: as `forwarded`, and as `replaced` or `ended`.",
    labels: &["cluster", "verb", "resource", "subresource", "policy", "schema", "decision", "reason"],
};

/// Answers. The name and the labels behind the prefix are kube-apiserver's.
pub const RESPONSES: Metric = Metric {
    name: "apiserver_request_total",
    kind: Kind::Counter,
    help: "Requests that have ended, as kube-apiserver counts them: when the answer has ended.",
    labels: &["cluster", "server", "verb", "resource", "subresource", "scope", "code"],
};

/// A histogram that the filter counts itself, as counters: Envoy's own histograms of many labels cost 7,000 instructions a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistogramMetrics {
    /// Name, help and labels, without the suffixes and `le`.
    pub histogram: Metric,
    /// Values up to a bound.
    pub bucket: Metric,
    /// The sum of all values.
    pub sum: Metric,
    /// All values.
    pub count: Metric,
}

/// A [`HistogramMetrics`] of that name.
macro_rules! histogram {
    ($name:literal, $help:expr, [$($label:literal),+]) => {{
        const LABELS: &[&str] = &[$($label),+];
        const BUCKET_LABELS: &[&str] = &[$($label,)+ "le"];
        const fn counter(name: &'static str, labels: &'static [&'static str]) -> Metric {
            Metric { name, kind: Kind::Counter, help: "", labels }
        }
        HistogramMetrics {
            histogram: Metric { name: $name, kind: Kind::Histogram, help: $help, labels: LABELS },
            bucket: counter(concat!($name, "_bucket"), BUCKET_LABELS),
            sum: counter(concat!($name, "_sum"), LABELS),
            count: counter(concat!($name, "_count"), LABELS),
        }
    }};
}

/// Bounds of durations in microseconds, and their labels: a part of those of kube-apiserver, with those of its objectives.
pub const DURATION_BOUNDS: [(u64, &str); 12] = [
    (5_000, "0.005"),
    (25_000, "0.025"),
    (100_000, "0.1"),
    (200_000, "0.2"),
    (400_000, "0.4"),
    (800_000, "0.8"),
    (1_000_000, "1"),
    (2_000_000, "2"),
    (5_000_000, "5"),
    (10_000_000, "10"),
    (30_000_000, "30"),
    (60_000_000, "60"),
];

/// Bounds of sizes in bytes, and their labels: kube-apiserver's.
pub const SIZE_BOUNDS: [(u64, &str); 7] = [
    (1_000, "1000"),
    (10_000, "10000"),
    (100_000, "100000"),
    (1_000_000, "1e+06"),
    (10_000_000, "1e+07"),
    (100_000_000, "1e+08"),
    (1_000_000_000, "1e+09"),
];

/// Durations of requests.
pub const DURATIONS: HistogramMetrics = histogram!(
    "apiserver_request_duration_seconds",
    "Time from a request's headers to the end of its answer; to the headers of the answer for watches and other long-running \
     requests, which kube-apiserver counts to their end. Only of requests that were forwarded. The sum grows in whole seconds.",
    ["cluster", "verb", "resource", "subresource", "scope"]
);

/// The servers' part of the durations.
pub const SERVER_DURATIONS: HistogramMetrics = histogram!(
    "server_duration_seconds",
    "Time from a request's departure to a server until the headers of the answer. The gateway's own part, reviews included, and \
     the transfer of the answer are not in it. Only of clients that were let in by a credential. The sum grows in whole seconds.",
    ["cluster", "server", "verb"]
);

/// Sizes of answers.
pub const RESPONSE_SIZES: HistogramMetrics = histogram!(
    "apiserver_response_sizes",
    "Bytes of the answers to `GET` and `LIST` that were forwarded, as they were sent to the client. Envoy 1.38 does not count \
     them.",
    ["cluster", "verb", "resource", "subresource", "scope"]
);

/// Running requests that end by themselves.
pub const IN_FLIGHT: Metric = Metric {
    name: "apiserver_current_inflight_requests",
    kind: Kind::Gauge,
    help: "Forwarded requests that are running, without long-running ones.",
    labels: &["cluster", "request_kind"],
};

/// Running requests that last.
pub const LONG_RUNNING: Metric = Metric {
    name: "apiserver_longrunning_requests",
    kind: Kind::Gauge,
    help: "Forwarded watches and other long-running requests that are running.",
    labels: &["cluster", "verb", "resource", "subresource", "scope"],
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
    help: "Time that a request waited for TokenReviews and SubjectAccessReviews, not those whose answers were cached.",
    labels: &[],
};

/// The time that a request waited for a seat of a fair queue.
pub const QUEUE_WAIT: Metric = Metric {
    name: "queue_wait_milliseconds",
    kind: Kind::Histogram,
    help: "Time that a request waited in a fair queue until it got a seat, waited for too long or left.",
    labels: &[],
};

/// Requests that wait in fair queues.
pub const QUEUED_REQUESTS: Metric = Metric {
    name: "queued_requests",
    kind: Kind::Gauge,
    help: "Requests that wait in a fair queue.",
    labels: &["cluster", "schema"],
};

/// Requests in flight.
pub const REQUESTS_IN_FLIGHT: Metric = Metric {
    name: "requests_in_flight",
    kind: Kind::Gauge,
    help: "Requests in flight that hold a permit of `maxRequestsInflight`, or seats of a fair queue that are taken.",
    labels: &["cluster", "schema"],
};

/// The limit of requests in flight.
pub const IN_FLIGHT_LIMIT: Metric = Metric {
    name: "requests_in_flight_limit",
    kind: Kind::Gauge,
    help: "Requests in flight that `maxRequestsInflight` allows, or seats of a fair queue.",
    labels: &["cluster", "schema"],
};

/// The limit of requests per second.
pub const REQUESTS_PER_SECOND_LIMIT: Metric = Metric {
    name: "requests_per_second_limit",
    kind: Kind::Gauge,
    help: "Requests per second that `tokenBucket` allows in the long run (`qps`). The part in use is the rate of `requests_total` \
           with `decision=\"forwarded\"` and this schema.",
    labels: &["cluster", "schema"],
};

/// The state of limits of all gateways, where the filter exchanges them itself.
pub const LIMITS_DEGRADED: Metric = Metric {
    name: "limits_degraded",
    kind: Kind::Gauge,
    help: "Whether a local limit holds in this gateway in the place of one that gateways share, because no control plane gives it \
           a part. Only where the filter exchanges limits itself (`globalLimits`); beside `portcullis agent` it is \
           `portcullis_limits_degraded` on the agent's page.",
    labels: &[],
};

/// Reviews under way.
pub const REVIEWS: Metric = Metric {
    name: "reviews_in_flight",
    kind: Kind::Gauge,
    help: "TokenReviews and SubjectAccessReviews under way.",
    labels: &["cluster"],
};

/// Reviews of verified tokens.
pub const REVOCATION_CHECKS: Metric = Metric {
    name: "revocation_checks_total",
    kind: Kind::Counter,
    help: "Reviews of tokens that the gateway has verified by the keys of their issuers (`checkRevocation`), while their requests \
           went on.",
    labels: &["cluster", "result"],
};

/// Cached answers.
pub const CREDENTIAL_CACHE_ENTRIES: Metric = Metric {
    name: "credential_cache_entries",
    kind: Kind::Gauge,
    help: "Answers about credentials that are remembered, expired ones included until they are forgotten.",
    labels: &["cluster", "kind"],
};

/// Connections drained at random.
pub const REBALANCED_CONNECTIONS: Metric = Metric {
    name: "rebalanced_connections_total",
    kind: Kind::Counter,
    help: "Connections that requests drained because of `rebalance` in the GatewaySettings.",
    labels: &["cluster", "trigger"],
};

/// Requests by what a shadow would have made of them.
pub const SHADOW: Metric = Metric {
    name: "shadow_total",
    kind: Kind::Counter,
    help: "Requests that were judged by a shadow beside what decided about them: all whose user was known, unless a server refused \
           an impersonation.",
    labels: &["cluster", "policy", "shadow_policy", "agreement"],
};

/// All of them.
pub const METRICS: [Metric; 20] = [
    REQUESTS,
    RESPONSES,
    DURATIONS.histogram,
    SERVER_DURATIONS.histogram,
    RESPONSE_SIZES.histogram,
    IN_FLIGHT,
    LONG_RUNNING,
    FILTER_DURATION,
    REVIEW_WAIT,
    QUEUE_WAIT,
    QUEUED_REQUESTS,
    REQUESTS_IN_FLIGHT,
    IN_FLIGHT_LIMIT,
    REQUESTS_PER_SECOND_LIMIT,
    LIMITS_DEGRADED,
    REVIEWS,
    REVOCATION_CHECKS,
    CREDENTIAL_CACHE_ENTRIES,
    REBALANCED_CONNECTIONS,
    SHADOW,
];

/// The counters that a host defines, those of histograms included.
pub const COUNTERS: [Metric; 14] = [
    REQUESTS,
    RESPONSES,
    DURATIONS.bucket,
    DURATIONS.sum,
    DURATIONS.count,
    SERVER_DURATIONS.bucket,
    SERVER_DURATIONS.sum,
    SERVER_DURATIONS.count,
    RESPONSE_SIZES.bucket,
    RESPONSE_SIZES.sum,
    RESPONSE_SIZES.count,
    REVOCATION_CHECKS,
    REBALANCED_CONNECTIONS,
    SHADOW,
];

/// The gauges that a host defines.
pub const GAUGES: [Metric; 9] = [
    IN_FLIGHT,
    LONG_RUNNING,
    QUEUED_REQUESTS,
    REQUESTS_IN_FLIGHT,
    IN_FLIGHT_LIMIT,
    REQUESTS_PER_SECOND_LIMIT,
    LIMITS_DEGRADED,
    REVIEWS,
    CREDENTIAL_CACHE_ENTRIES,
];

/// The proxy's metrics, as a publisher writes them.
pub trait MetricsSink {
    /// Adds to the counter of these label values.
    fn add(&mut self, metric: Metric, labels: &[&str], count: u64);
    /// Changes the gauge of these label values, which this publisher had set to `before`.
    fn set(&mut self, metric: Metric, labels: &[&str], before: u64, value: u64);
}

use super::cluster_counts::{ClusterCounts, Gauges, PolicyLabels};
use super::counters::CounterKey;
use super::limit_gauges::SchemaLimit;
use super::resource::ResourceLabels;
use super::responses::Response;
use super::running::{RunningRequest, RunningRequests};
use super::servers::{ServerCode, ServerLabels};
use super::shadow::ShadowKey;
use super::shadow_counts::ShadowCounts;
use super::slow_log::{Conspicuous, SlowLog};
use super::talkers::Talkers;
use super::totals::{ClusterTotals, Limit, LimitSource};
use super::{Outcome, SeriesLedger};
use crate::fair::FairQueue;
use crate::flow_limit::FlowLimit;
use crate::rebalance::Rebalance;
use crate::review::CredentialCaches;
use portcullis_filter_config as config;
use portcullis_filter_config::{object_name, without_generation};
use std::sync::Arc;
use std::time::Duration;

/// The counts of one cluster's requests under one configuration, and the choice of those for the access log. Alive while the
/// configuration is in use, or a request of it runs.
#[derive(Debug)]
pub struct ClusterMetrics {
    /// Beside the pointer: asked for at each count.
    id: u64,
    pub(super) counts: Arc<ClusterCounts>,
    /// Whether requests are logged that no policy decides about.
    logs_refused: bool,
    /// Whether users are recorded.
    pub(super) tells_users: bool,
    /// The attributes of requests that are exported, if any.
    pub(super) export: Option<config::RequestInfoExport>,
    slow_log: SlowLog,
}

/// State of metrics that outlives a cluster's configurations.
pub(crate) trait MetricsState {
    /// The limit of a flow control schema, by the name under which the cluster counts.
    fn flow_limit(&self, cluster: &str, schema: &config::FlowControlSchema) -> FlowLimit;

    /// The queues of a fair queue.
    fn fair_queue(&self, cluster: &str, config: &config::FairQueueConfig) -> Arc<FairQueue>;

    /// The running requests of a cluster, by the name under which it counts.
    fn running(&self, cluster: &str) -> Arc<RunningRequests>;

    /// The series that a cluster has had, by its name over all edits and objects.
    fn ledger(&self, cluster: &str) -> Arc<SeriesLedger>;

    /// The activity of a cluster, by the name under which it counts.
    fn totals(&self, cluster: &str) -> Option<Arc<ClusterTotals>>;
}

impl ClusterMetrics {
    /// For the requests of one cluster.
    pub(crate) fn new(
        config: &config::ClusterConfig,
        policies: &[config::Policy],
        memory: &impl MetricsState,
        caches: &Arc<CredentialCaches>,
        rebalance: Option<Rebalance>,
    ) -> Self {
        let servers =
            config.servers.as_ref().map_or_else(ServerLabels::default, |servers| ServerLabels::of(&servers.names));
        let shows_users = config.request_info.as_ref().is_some_and(|shown| shown.user);
        let counted = config.counted_name();
        let totals = memory.totals(&counted);
        let limits = limits(config, &counted, memory);
        let shadow = config.shadow.as_ref().map(|shadow| shadow.generation.as_str());
        let talkers = totals.as_ref().and_then(|totals| totals.configure(&servers, limits, config.top_talkers, shadow));
        let tells_users = config.log_refused
            || config.log_failed
            || config.log_slow_milliseconds.is_some()
            || shows_users
            || talkers.is_some()
            || policies.iter().any(|policy| policy.log);
        let cluster = object_name(&config.name);
        let counts = ClusterCounts {
            policies: policies.iter().zip(0_usize..).map(policy_labels).collect(),
            resources: ResourceLabels::of(policies),
            running: memory.running(&counted),
            limits: schema_limits(config, &counted, memory),
            rebalance,
            caches: Some(Arc::clone(caches)),
            totals,
            talkers,
            shadow: ShadowCounts::new(shadow),
            ..ClusterCounts::new(cluster, memory.ledger(&config.name), servers)
        };
        ClusterMetrics {
            logs_refused: config.log_refused,
            tells_users,
            export: config.request_info.clone(),
            slow_log: SlowLog::of(config),
            ..ClusterMetrics::of(counts)
        }
    }

    /// For requests that reach no cluster: the label `cluster` is `-`.
    pub fn unrouted(totals: Option<Arc<ClusterTotals>>) -> Self {
        let counts = ClusterCounts::new("-", Arc::<SeriesLedger>::default(), ServerLabels::default());
        ClusterMetrics::of(ClusterCounts { totals, ..counts })
    }

    fn of(counts: ClusterCounts) -> Self {
        ClusterMetrics {
            id: counts.id,
            counts: Arc::new(counts),
            logs_refused: true,
            tells_users: true,
            export: None,
            slow_log: SlowLog::default(),
        }
    }

    /// Unique in the process, never 0.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Counts a decision. Allocates nothing, unless nothing like it was counted before.
    pub(crate) fn count(&self, key: CounterKey, outcome: Outcome) {
        self.counts.count(CounterKey { outcome: outcome.code(), ..key });
    }

    /// Counts what the shadow would have made of a request. Allocates nothing, unless nothing like it was counted before.
    pub(crate) fn count_shadow(&self, key: ShadowKey, request: CounterKey) {
        self.counts.count_shadow(key, request);
    }

    /// Counts an answer, or a request that ended without one. Allocates nothing, unless nothing like it was counted before.
    pub(crate) fn count_response(&self, key: CounterKey, response: &Response<'_>) {
        self.counts.count_response(key, response);
    }

    /// The server whose address and port are its name. One that is named by DNS has another name than its address.
    pub(crate) fn server_at(&self, address: &[u8]) -> Option<ServerCode> {
        self.counts.responses.servers.find(address)
    }

    /// A forwarded request runs until the guard is dropped.
    pub(crate) fn start(&self, key: CounterKey, is_long: bool) -> RunningRequest {
        self.counts.start(key, is_long)
    }

    /// Why a request has a line of the access log that its policy does not ask for. `duration` is `None` if its time says nothing
    /// about the cluster.
    pub(crate) fn conspicuous(&self, code: u16, duration: Option<Duration>) -> Option<Conspicuous> {
        self.slow_log.conspicuous(code, duration)
    }

    /// Whether there is room for such a line now, and how many there was none for since the last one.
    pub(crate) fn admit_line(&self, why: Conspicuous, is_known: bool, uptime: Duration) -> Option<u32> {
        self.slow_log.admit(why, is_known, uptime)
    }

    /// The choice of the requests that drain their connections, if any do.
    pub(crate) fn rebalance(&self) -> Option<&Rebalance> {
        self.counts.rebalance.as_ref()
    }

    /// Takes out the decisions that were counted since the last time.
    #[cfg(test)]
    pub(crate) fn take(&self, each: impl FnMut(super::cluster_counts::Labels<'_>, u64)) {
        self.counts.take_decisions(each);
    }

    /// Writes what was counted since the last time, and adds it to the cluster's activity.
    #[cfg(test)]
    pub(crate) fn publish(&self, sink: &mut impl super::MetricsSink) {
        self.counts.pending().for_each(|count| self.counts.write(count, sink));
        if let Some(talkers) = self.talkers() {
            talkers.merge();
        }
    }

    /// The counts of clients by name, if there are any.
    pub(crate) fn talkers(&self) -> Option<&Talkers> {
        self.counts.talkers.as_deref()
    }

    /// The present values of the gauges.
    pub fn gauges(&self) -> Gauges {
        self.counts.gauges()
    }

    /// Whether the access log has requests of this policy; of no policy for `None`.
    pub(super) fn is_logged(&self, policy: Option<usize>) -> bool {
        match policy {
            Some(policy) => self.counts.policies.get(policy).is_some_and(|policy| policy.is_logged),
            None => self.logs_refused,
        }
    }
}

fn policy_labels((policy, number): (&config::Policy, usize)) -> PolicyLabels {
    PolicyLabels {
        number: number.to_string().into(),
        schema: policy.flow_control_schema.as_deref().unwrap_or("-").into(),
        group: without_generation(&policy.group).into(),
        is_logged: policy.log,
    }
}

fn schema_limits(config: &config::ClusterConfig, counted: &str, memory: &impl MetricsState) -> Vec<SchemaLimit> {
    let limits = config
        .flow_control_schemas
        .iter()
        .map(|schema| SchemaLimit::of_limit(&schema.name, memory.flow_limit(counted, schema)));
    let seats = |queue: &config::FairQueueConfig| SchemaLimit::of_seats(&queue.name, memory.fair_queue(counted, queue));
    limits.chain(config.fair_queues.iter().map(seats)).collect()
}

/// The limits of the configuration's schemas, to be shown as they are used.
fn limits(config: &config::ClusterConfig, counted: &str, memory: &impl MetricsState) -> Vec<Limit> {
    let limit = |schema: &config::FlowControlSchema| {
        let source = LimitSource::Limit(memory.flow_limit(counted, schema));
        Limit { schema: schema.name.as_str().into(), source }
    };
    let seats = |queue: &config::FairQueueConfig| {
        let source = LimitSource::Seats(memory.fair_queue(counted, queue));
        Limit { schema: queue.name.as_str().into(), source }
    };
    config.flow_control_schemas.iter().map(limit).chain(config.fair_queues.iter().map(seats)).collect()
}

use super::catalog::{
    CREDENTIAL_CACHE_ENTRIES, IN_FLIGHT, IN_FLIGHT_LIMIT, LONG_RUNNING, Metric, MetricsSink, REBALANCED_CONNECTIONS,
    REQUESTS, REQUESTS_IN_FLIGHT, REQUESTS_PER_SECOND_LIMIT, REVIEWS,
};
use super::counters::{CounterKey, CounterTable};
use super::resource::ResourceLabels;
use super::responses::{Response, ResponseTable, ServerCode, ServerLabels};
use super::running::{LongRunningKey, RunningRequest, RunningRequests};
use super::series_budget::SeriesBudget;
use super::slow_log::{Conspicuous, SlowLog};
use super::talkers::Talkers;
use super::totals::{ClusterTotals, Limit, LimitSource};
use super::verb::{ReportedVerb, Scope};
use super::{Outcome, response_series};
use crate::bucket::{Rate, TokenBucket};
use crate::limit::InFlight;
use crate::rebalance::Rebalance;
use crate::review::CredentialCaches;
use portcullis_filter_config as config;
use portcullis_filter_config::without_generation;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Values of the labels of [`super::catalog::REQUESTS`], in its order.
pub type Labels<'a> = [&'a str; 8];

/// The counts of one cluster's requests under one configuration, and the choice of those for the access log and of those that
/// drain their connections.
#[derive(Debug)]
pub struct ClusterMetrics {
    id: u64,
    pub(super) cluster: Box<str>,
    pub(super) policies: Box<[PolicyLabels]>,
    pub(super) resources: ResourceLabels,
    /// Whether requests are logged that no policy decides about.
    logs_refused: bool,
    /// Whether users are recorded.
    pub(super) tells_users: bool,
    /// The attributes of requests that are exported, if any.
    pub(super) shown: Option<config::ShownRequest>,
    slow_log: SlowLog,
    rebalance: Option<Rebalance>,
    decisions: CounterTable,
    responses: ResponseTable,
    running: Arc<RunningRequests>,
    slots: Vec<InFlightLimit>,
    /// Schemas with a token bucket, and its requests per second.
    rates: Vec<(Box<str>, u32)>,
    caches: Option<Arc<CredentialCaches>>,
    /// `None` where the host shows no activity.
    totals: Option<Arc<ClusterTotals>>,
    /// `None` if clients are not counted by name.
    talkers: Option<Arc<Talkers>>,
}

/// Words for what one policy decides.
#[derive(Debug)]
pub(super) struct PolicyLabels {
    pub(super) number: Box<str>,
    pub(super) schema: Box<str>,
    pub(super) group: Box<str>,
    is_logged: bool,
}

/// The limit of the requests in flight of one schema.
#[derive(Debug)]
struct InFlightLimit {
    schema: Box<str>,
    running: Arc<InFlight>,
    max: u32,
}

/// A gauge, its labels' values and its value.
pub type Gauges = Vec<(Metric, Vec<String>, u64)>;

/// State of metrics that outlives a cluster's configurations.
pub(crate) trait MetricsState {
    /// The running requests of a flow control schema, by the cluster's name and the schema's.
    fn in_flight(&self, cluster: &str, schema: &str) -> Arc<InFlight>;

    /// The token bucket of a flow control schema with this rate.
    fn token_bucket(&self, cluster: &str, schema: &str, rate: Rate) -> Arc<TokenBucket>;

    /// The running requests of a cluster, by its name.
    fn running(&self, cluster: &str) -> Arc<RunningRequests>;

    /// The series that all clusters may make together.
    fn series_budget(&self) -> Arc<SeriesBudget>;

    /// The activity of a cluster, by its name over all edits.
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
        let in_flight = |schema: &config::FlowControlSchema| match schema.limit {
            config::FlowControlLimit::MaxRequestsInflight(max) => {
                let running = memory.in_flight(&config.name, &schema.name);
                Some(InFlightLimit { schema: schema.name.as_str().into(), running, max })
            }
            _ => None,
        };
        let rate = |schema: &config::FlowControlSchema| match schema.limit {
            config::FlowControlLimit::TokenBucket { qps, .. } => Some((schema.name.as_str().into(), qps)),
            config::FlowControlLimit::MaxRequestsInflight(_) => None,
        };
        let words = policies.iter().zip(0_usize..).map(|(policy, number)| PolicyLabels {
            number: number.to_string().into(),
            schema: policy.flow_control_schema.as_deref().unwrap_or("-").into(),
            group: without_generation(&policy.group).into(),
            is_logged: policy.log,
        });
        let budget = memory.series_budget();
        let servers =
            config.servers.as_ref().map_or_else(ServerLabels::default, |servers| ServerLabels::of(&servers.names));
        let shows_users = config.request_info.as_ref().is_some_and(|shown| shown.user);
        let totals = memory.totals(&config.name);
        let talkers =
            totals.as_ref().and_then(|totals| totals.configure(&servers, limits(config, memory), config.top_talkers));
        ClusterMetrics {
            // The last part is the object's name, the rest is the gateway's own.
            cluster: config.name.rsplit('/').next().unwrap_or_default().into(),
            policies: words.collect(),
            resources: ResourceLabels::of(policies),
            logs_refused: config.log_refused,
            tells_users: config.log_refused
                || config.log_failed
                || config.log_slow_milliseconds.is_some()
                || shows_users
                || talkers.is_some()
                || policies.iter().any(|policy| policy.log),
            slow_log: SlowLog::of(config),
            rebalance,
            shown: config.request_info.clone(),
            decisions: CounterTable::new(&budget),
            responses: ResponseTable::new(servers, &budget),
            running: memory.running(&config.name),
            slots: config.flow_control_schemas.iter().filter_map(in_flight).collect(),
            rates: config.flow_control_schemas.iter().filter_map(rate).collect(),
            caches: Some(Arc::clone(caches)),
            totals,
            talkers,
            ..ClusterMetrics::unrouted(None)
        }
    }

    /// For requests that reach no cluster: the label `cluster` is `-`.
    pub fn unrouted(totals: Option<Arc<ClusterTotals>>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        ClusterMetrics {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            cluster: "-".into(),
            policies: Box::default(),
            resources: ResourceLabels::of(&[]),
            logs_refused: true,
            tells_users: true,
            shown: None,
            slow_log: SlowLog::default(),
            rebalance: None,
            decisions: CounterTable::new(&Arc::default()),
            responses: ResponseTable::new(ServerLabels::default(), &Arc::default()),
            running: Arc::default(),
            slots: Vec::new(),
            rates: Vec::new(),
            caches: None,
            totals,
            talkers: None,
        }
    }

    /// Unique in the process, never 0.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Counts a decision. Allocates nothing, unless nothing like it was counted before.
    pub(crate) fn count(&self, key: CounterKey, outcome: Outcome) {
        self.decisions.count(CounterKey { outcome: outcome.code(), ..key });
    }

    /// Counts an answer, or a request that ended without one. Allocates nothing, unless nothing like it was counted before.
    pub(crate) fn count_response(&self, key: CounterKey, response: &Response<'_>) {
        self.responses.count(key, response);
    }

    /// The server whose address and port are its name. One that is named by DNS has another name than its address.
    pub(crate) fn server_at(&self, address: &[u8]) -> Option<ServerCode> {
        self.responses.servers.find(address)
    }

    /// A forwarded request runs until the guard is dropped.
    pub(crate) fn start(&self, key: CounterKey, is_long: bool) -> RunningRequest {
        let verb = ReportedVerb::of_code(key.verb);
        if !is_long {
            return self.running.start(verb);
        }
        let (resource, subresource) = self.resources.labels(key.resource);
        let (resource, subresource, scope) = (resource.into(), subresource.into(), Scope::of_code(key.scope));
        self.running.start_long(LongRunningKey { verb, resource, subresource, scope })
    }

    /// Why a request has a line of the access log that its policy does not ask for.
    pub(crate) fn conspicuous(&self, code: u16, duration: Duration) -> Option<Conspicuous> {
        self.slow_log.conspicuous(code, duration)
    }

    /// Whether there is room for such a line, and how many there was none for since the last one.
    pub(crate) fn admit_line(&self, uptime: Duration) -> Option<u32> {
        self.slow_log.admit(uptime)
    }

    /// The choice of the requests that drain their connections, if any do.
    pub(crate) fn rebalance(&self) -> Option<&Rebalance> {
        self.rebalance.as_ref()
    }

    /// Takes out the decisions that were counted since the last time.
    pub fn take(&self, mut each: impl FnMut(Labels<'_>, u64)) {
        self.decisions.take(|key, count| each(self.labels(key), count));
    }

    /// Writes what was counted since the last time, and adds it to the cluster's activity.
    pub fn publish(&self, sink: &mut impl MetricsSink) {
        let mut totals = self.totals.as_ref().map(|totals| totals.lock());
        self.decisions.take(|key, count| {
            sink.add(REQUESTS, &self.labels(key), count);
            if let Some(totals) = &mut totals {
                totals.decided(key.policy, Outcome::of_code(key.outcome), self.policy_words(key).1, count);
            }
        });
        response_series::publish(&self.cluster, &self.resources, &self.responses, sink, totals.as_deref_mut());
        drop(totals);
        self.publish_drains(sink);
        if let Some(talkers) = &self.talkers {
            talkers.merge();
        }
    }

    /// The counts of clients by name, if there are any.
    pub(crate) fn talkers(&self) -> Option<&Talkers> {
        self.talkers.as_deref()
    }

    /// Number and schema of the policy.
    fn policy_words(&self, key: CounterKey) -> (&str, &str) {
        let policy = key.policy.checked_sub(1).and_then(|policy| self.policies.get(policy as usize));
        policy.map_or(("-", "-"), |policy| (&*policy.number, &*policy.schema))
    }

    /// Writes the drained connections that were counted since the last time.
    fn publish_drains(&self, sink: &mut impl MetricsSink) {
        for (trigger, count) in self.rebalance.iter().flat_map(Rebalance::take_counts) {
            sink.add(REBALANCED_CONNECTIONS, &[&self.cluster, trigger.label()], count);
        }
    }

    fn labels(&self, key: CounterKey) -> Labels<'_> {
        let (number, schema) = self.policy_words(key);
        let outcome = Outcome::of_code(key.outcome);
        let (resource, subresource) = self.resources.labels(key.resource);
        let verb = ReportedVerb::of_code(key.verb).label();
        [&self.cluster, verb, resource, subresource, number, schema, outcome.decision(), outcome.reason()]
    }

    /// The present values of the gauges.
    pub fn gauges(&self) -> Gauges {
        let cluster = || self.cluster.to_string();
        let mut gauges = Gauges::new();
        for InFlightLimit { schema, running, max } in &self.slots {
            let labels = || vec![cluster(), schema.to_string()];
            gauges.push((REQUESTS_IN_FLIGHT, labels(), u64::from(running.count())));
            gauges.push((IN_FLIGHT_LIMIT, labels(), u64::from(*max)));
        }
        let rates = self.rates.iter().map(|(schema, qps)| (vec![cluster(), schema.to_string()], u64::from(*qps)));
        gauges.extend(rates.map(|(labels, qps)| (REQUESTS_PER_SECOND_LIMIT, labels, qps)));
        let by_kind = self.running.by_kind().into_iter();
        gauges.extend(by_kind.map(|(kind, count)| (IN_FLIGHT, vec![cluster(), kind.to_owned()], u64::from(count))));
        for (key, count) in self.running.long_running() {
            let labels = [key.verb.label(), &key.resource, &key.subresource, key.scope.label()].map(str::to_owned);
            gauges.push((LONG_RUNNING, [cluster()].into_iter().chain(labels).collect(), u64::from(count)));
        }
        if let Some(caches) = &self.caches {
            gauges.push((REVIEWS, vec![cluster()], caches.under_way()));
            let entries = caches.entries();
            gauges.extend(
                entries.map(|(kind, count)| (CREDENTIAL_CACHE_ENTRIES, vec![cluster(), kind.to_owned()], count)),
            );
        }
        gauges
    }

    /// Whether the access log has requests of this policy; of no policy for `None`.
    pub(super) fn is_logged(&self, policy: Option<usize>) -> bool {
        match policy {
            Some(policy) => self.policies.get(policy).is_some_and(|policy| policy.is_logged),
            None => self.logs_refused,
        }
    }
}

/// The limits of the configuration's schemas, to be shown as they are used.
fn limits(config: &config::ClusterConfig, memory: &impl MetricsState) -> Vec<Limit> {
    let limit = |schema: &config::FlowControlSchema| {
        let source = match schema.limit {
            config::FlowControlLimit::MaxRequestsInflight(max) => {
                LimitSource::InFlight { running: memory.in_flight(&config.name, &schema.name), max }
            }
            config::FlowControlLimit::TokenBucket { qps, burst } => {
                LimitSource::Bucket(memory.token_bucket(&config.name, &schema.name, Rate { qps, burst }))
            }
        };
        Limit { schema: schema.name.as_str().into(), source }
    };
    config.flow_control_schemas.iter().map(limit).collect()
}

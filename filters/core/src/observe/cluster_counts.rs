//! The counts of one cluster's requests under one configuration, and their series in the proxy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Outcome;
use super::catalog::{
    CREDENTIAL_CACHE_ENTRIES, DURATION_BOUNDS, DURATIONS, IN_FLIGHT, LONG_RUNNING, Metric, MetricsSink,
    REBALANCED_CONNECTIONS, REQUESTS, RESPONSE_SIZES, RESPONSES, REVIEWS, REVOCATION_CHECKS, SERVER_DURATIONS, SHADOW,
    SIZE_BOUNDS,
};
use super::counters::{CounterKey, CounterTable};
use super::histogram_series::{SERIES_BESIDE_BOUNDS, write};
use super::limit_gauges::{self, SchemaLimit};
use super::resource::ResourceLabels;
use super::response_key::ResponseKey;
use super::responses::{Response, ResponseTable};
use super::running::{LongRunningKey, RunningRequest, RunningRequests};
use super::series_ledger::SeriesLedger;
use super::servers::ServerLabels;
use super::shadow::ShadowKey;
use super::shadow_counts::{PendingShadow, ShadowCounts, ShadowedCluster};
use super::status_code;
use super::talkers::Talkers;
use super::totals::ClusterTotals;
use super::verb::{ReportedVerb, Scope};
use crate::rebalance::Rebalance;
use crate::review::CredentialCaches;

/// Values of the labels of [`REQUESTS`], in its order.
pub(super) type Labels<'a> = [&'a str; 8];

/// A gauge, its labels' values and its value.
pub type Gauges = Vec<(Metric, Vec<String>, u64)>;

/// The label for all that has no room of its own, where an object may be named `other`.
const REST: &str = "(other)";

/// The part of [`super::ClusterMetrics`] that publishers keep until the last count is written.
#[derive(Debug)]
pub(super) struct ClusterCounts {
    /// Unique in the process, never 0.
    pub(super) id: u64,
    pub(super) cluster: Box<str>,
    pub(super) policies: Box<[PolicyLabels]>,
    pub(super) resources: ResourceLabels,
    pub(super) ledger: Arc<SeriesLedger>,
    pub(super) decisions: CounterTable,
    pub(super) shadow: ShadowCounts,
    pub(super) responses: ResponseTable,
    pub(super) running: Arc<RunningRequests>,
    pub(super) limits: Vec<SchemaLimit>,
    /// The choice of requests that drain their connections, if any do.
    pub(super) rebalance: Option<Rebalance>,
    /// `None` for requests that reach no cluster.
    pub(super) caches: Option<Arc<CredentialCaches>>,
    /// `None` where the host shows no activity.
    pub(super) totals: Option<Arc<ClusterTotals>>,
    /// `None` if clients are not counted by name.
    pub(super) talkers: Option<Arc<Talkers>>,
}

/// Words for what one policy decides.
#[derive(Debug)]
pub(super) struct PolicyLabels {
    pub(super) number: Box<str>,
    pub(super) schema: Box<str>,
    pub(super) group: Box<str>,
    pub(super) is_logged: bool,
}

/// Counts that are to be written: of one key each, of all drains, or of all reviews of verified tokens.
#[derive(Clone, Copy, Debug)]
pub(super) enum PendingCount {
    Decisions(CounterKey),
    Responses(ResponseKey),
    Shadow(PendingShadow),
    Drains,
    RevocationChecks,
}

impl ClusterCounts {
    /// Of one cluster, by that label, and nothing counted.
    pub(super) fn new(cluster: &str, ledger: Arc<SeriesLedger>, servers: ServerLabels) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        ClusterCounts {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            cluster: cluster.into(),
            policies: Box::default(),
            resources: ResourceLabels::of(&[]),
            ledger,
            decisions: CounterTable::default(),
            shadow: ShadowCounts::default(),
            responses: ResponseTable::new(servers),
            running: Arc::default(),
            limits: Vec::new(),
            rebalance: None,
            caches: None,
            totals: None,
            talkers: None,
        }
    }

    pub(super) fn count(&self, key: CounterKey) {
        self.decisions.count(key, |key| self.admits_decision(key));
    }

    /// Counts what the shadow would have made of a request.
    pub(super) fn count_shadow(&self, key: ShadowKey, request: CounterKey) {
        self.shadow.count(key, request, |key| self.admits_shadow(key, request.is_known));
    }

    pub(super) fn count_response(&self, key: CounterKey, response: &Response<'_>) {
        self.responses.count(key, response, |one| self.admits_response(one, key.is_known));
    }

    pub(super) fn start(&self, key: CounterKey, is_long: bool) -> RunningRequest {
        let verb = ReportedVerb::of_code(key.verb);
        if !is_long {
            return self.running.start(verb);
        }
        let (resource, subresource) = self.resources.labels(key.resource);
        let (resource, subresource, scope) = (resource.into(), subresource.into(), Scope::of_code(key.scope));
        let labels = LongRunningKey { verb, resource, subresource, scope };
        self.running.start_long(labels, |labels| self.admits_long(labels, key.is_known))
    }

    #[cold]
    fn admits_decision(&self, key: CounterKey) -> bool {
        let [_, labels @ ..] = self.labels(key);
        self.ledger.admit(&[self.ledger.combination(REQUESTS.name, &labels, 1)], key.is_known)
    }

    #[cold]
    fn admits_shadow(&self, key: ShadowKey, is_known: bool) -> bool {
        let labels = key.labels(REST);
        let labels = labels.each_ref().map(String::as_str);
        self.ledger.admit(&[self.ledger.combination(SHADOW.name, &labels, 1)], is_known)
    }

    #[cold]
    fn admits_response(&self, key: ResponseKey, is_known: bool) -> bool {
        let of = |bounds: usize| u32::try_from(bounds).unwrap_or(u32::MAX).saturating_add(SERIES_BESIDE_BOUNDS);
        let (durations, sizes) = (of(DURATION_BOUNDS.len()), of(SIZE_BOUNDS.len()));
        let combination =
            |metric: Metric, labels: &[&str], series| self.ledger.combination(metric.name, labels, series);
        let (server, group) = (self.responses.servers.label(key.server), self.group_labels(key));
        let [verb, resource, subresource, scope] = group;
        let code = status_code::label(key.code);
        let mut made = vec![combination(RESPONSES, &[server, verb, resource, subresource, scope, &code], 1)];
        if key.server.is_forwarded() {
            made.push(combination(DURATIONS.histogram, &group, durations));
            if key.verb.is_read() {
                made.push(combination(RESPONSE_SIZES.histogram, &group, sizes));
            }
        }
        if key.server.is_server() {
            made.push(combination(SERVER_DURATIONS.histogram, &[server, verb], durations));
        }
        self.ledger.admit(&made, is_known)
    }

    fn admits_long(&self, key: &LongRunningKey, is_known: bool) -> bool {
        let labels = [key.verb.label(), &key.resource, &key.subresource, key.scope.label()];
        self.ledger.admit(&[self.ledger.combination(LONG_RUNNING.name, &labels, 1)], is_known)
    }

    /// Keys under which something was counted that is not written yet.
    pub(super) fn pending(&self) -> impl Iterator<Item = PendingCount> + use<> {
        let decisions = self.decisions.changed().into_iter().map(PendingCount::Decisions);
        let responses = self.responses.changed().into_iter().map(PendingCount::Responses);
        let drains = self.rebalance.as_ref().is_some_and(Rebalance::has_counts).then_some(PendingCount::Drains);
        let has_checks = self.caches.as_ref().is_some_and(|caches| caches.has_check_counts());
        let checks = has_checks.then_some(PendingCount::RevocationChecks);
        let shadow = self.shadow.pending().map(PendingCount::Shadow);
        decisions.chain(responses).chain(shadow).chain(drains).chain(checks)
    }

    /// Writes what was counted under a key, and adds it to the cluster's activity. No lock is held meanwhile that counting takes.
    pub(super) fn write(&self, count: PendingCount, sink: &mut impl MetricsSink) {
        match count {
            PendingCount::Decisions(key) => self.write_decisions(key, sink),
            PendingCount::Responses(key) => self.write_responses(key, sink),
            PendingCount::Shadow(pending) => self.write_shadow(pending, sink),
            PendingCount::Drains => self.write_drains(sink),
            PendingCount::RevocationChecks => self.write_checks(sink),
        }
    }

    fn write_decisions(&self, key: CounterKey, sink: &mut impl MetricsSink) {
        let count = self.decisions.take(key);
        if count == 0 {
            return;
        }
        if let Some(totals) = &self.totals {
            totals.lock().decided(key.policy, Outcome::of_code(key.outcome), self.policy_words(key).1, count);
        }
        sink.add(REQUESTS, &self.labels(key), count);
    }

    fn write_responses(&self, key: ResponseKey, sink: &mut impl MetricsSink) {
        let Some(taken) = self.responses.take(key) else { return };
        let server = self.responses.servers.label(key.server);
        if let Some(totals) = &self.totals {
            totals.lock().answered(server, &taken.answered(key));
        }
        let [verb, resource, subresource, scope] = self.group_labels(key);
        let code = status_code::label(key.code);
        sink.add(RESPONSES, &[&self.cluster, server, verb, resource, subresource, scope, &code], taken.count);
        // Without room, all clusters share the histograms of what has none.
        let cluster = if key.is_rest() { REST } else { &*self.cluster };
        let labels = [cluster, verb, resource, subresource, scope];
        write(sink, &DURATIONS, &labels, &DURATION_BOUNDS, taken.durations.as_ref());
        write(sink, &RESPONSE_SIZES, &labels, &SIZE_BOUNDS, taken.sizes.as_ref());
        write(sink, &SERVER_DURATIONS, &[cluster, server, verb], &DURATION_BOUNDS, taken.server_durations.as_ref());
    }

    fn write_shadow(&self, pending: PendingShadow, sink: &mut impl MetricsSink) {
        let (name, resources) = (&*self.cluster, &self.resources);
        let cluster = ShadowedCluster { name, resources, totals: self.totals.as_deref(), rest: REST };
        self.shadow.write(pending, cluster, sink);
    }

    fn write_drains(&self, sink: &mut impl MetricsSink) {
        for (trigger, count) in self.rebalance.iter().flat_map(Rebalance::take_counts) {
            sink.add(REBALANCED_CONNECTIONS, &[&self.cluster, trigger.label()], count);
        }
    }

    fn write_checks(&self, sink: &mut impl MetricsSink) {
        for (result, count) in self.caches.iter().flat_map(|caches| caches.take_check_counts()) {
            sink.add(REVOCATION_CHECKS, &[&self.cluster, result], count);
        }
    }

    /// The labels of the durations of whole requests, without the cluster.
    fn group_labels(&self, key: ResponseKey) -> [&str; 4] {
        let (resource, subresource) = self.resources.labels(key.resource);
        [key.verb.label(), resource, subresource, key.scope.label()]
    }

    /// Number and schema of the policy.
    fn policy_words(&self, key: CounterKey) -> (&str, &str) {
        let policy = key.policy.checked_sub(1).and_then(|policy| self.policies.get(policy as usize));
        policy.map_or(("-", "-"), |policy| (&*policy.number, &*policy.schema))
    }

    pub(super) fn labels(&self, key: CounterKey) -> Labels<'_> {
        let (number, schema) = self.policy_words(key);
        let outcome = Outcome::of_code(key.outcome);
        let (resource, subresource) = self.resources.labels(key.resource);
        let verb = ReportedVerb::of_code(key.verb).label();
        [&self.cluster, verb, resource, subresource, number, schema, outcome.decision(), outcome.reason()]
    }

    /// Takes out the decisions that were counted since the last time.
    #[cfg(test)]
    pub(super) fn take_decisions(&self, mut each: impl FnMut(Labels<'_>, u64)) {
        for key in self.decisions.changed() {
            each(self.labels(key), self.decisions.take(key));
        }
    }

    /// The present values of the gauges.
    pub(super) fn gauges(&self) -> Gauges {
        let cluster = || self.cluster.to_string();
        let mut gauges = Gauges::new();
        // A request that reaches no cluster runs nowhere.
        let Some(caches) = &self.caches else { return gauges };
        limit_gauges::gauges(&self.limits, &self.ledger, REST, |metric, schema, value| {
            gauges.push((metric, vec![cluster(), schema.to_owned()], value));
        });
        let by_kind = self.running.by_kind().into_iter();
        gauges.extend(by_kind.map(|(kind, count)| (IN_FLIGHT, vec![cluster(), kind.to_owned()], u64::from(count))));
        for (key, count) in self.running.long_running() {
            let labels = [key.verb.label(), &key.resource, &key.subresource, key.scope.label()].map(str::to_owned);
            gauges.push((LONG_RUNNING, [cluster()].into_iter().chain(labels).collect(), u64::from(count)));
        }
        gauges.push((REVIEWS, vec![cluster()], caches.under_way()));
        let entries = caches.entries();
        gauges.extend(entries.map(|(kind, count)| (CREDENTIAL_CACHE_ENTRIES, vec![cluster(), kind.to_owned()], count)));
        gauges
    }
}

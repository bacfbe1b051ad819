use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use portcullis_filter_config as config;
use portcullis_filter_config::without_generation;

use super::catalog::{CACHED, Metric, REVIEWS, SLOTS};
use super::counters::{CounterKey, CounterTable};
use super::resource::Resources;
use super::verb::Verb;
use super::{Outcome, RequestRecord};
use crate::limit::InFlight;
use crate::review::CredentialCaches;
use crate::state_store::StateStore;

/// Values of the labels of [`super::catalog::REQUESTS`], in its order.
pub type Labels<'a> = [&'a str; 7];

/// What is counted of one cluster's requests under one configuration, and which of them the access log tells.
#[derive(Debug)]
pub struct ClusterMetrics {
    id: u64,
    pub(super) cluster: Box<str>,
    pub(super) policies: Box<[Policy]>,
    pub(super) resources: Resources,
    /// Whether requests are logged that no policy decides about.
    logs_refused: bool,
    /// Whether it is told of any who sent it.
    pub(super) tells_users: bool,
    /// What is written for somebody's own routes and logs, if anything is.
    pub(super) shown: Option<config::ShownRequest>,
    tally: CounterTable,
    slots: Vec<(Box<str>, Arc<InFlight>)>,
    caches: Option<Arc<CredentialCaches>>,
}

/// Words for what one policy decides.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) number: Box<str>,
    pub(super) schema: Box<str>,
    pub(super) group: Box<str>,
    is_logged: bool,
}

/// A gauge, its labels' values and its value.
pub type Gauges = Vec<(Metric, Vec<String>, u64)>;

impl ClusterMetrics {
    /// For the requests of one cluster.
    pub(crate) fn new(
        config: &config::ClusterConfig,
        policies: &[config::Policy],
        memory: &impl StateStore,
        caches: &Arc<CredentialCaches>,
    ) -> Self {
        let in_flight = |schema: &config::FlowControlSchema| match schema.limit {
            config::FlowControlLimit::MaxRequestsInflight(_) => {
                Some((schema.name.as_str().into(), memory.in_flight(&config.name, &schema.name)))
            }
            _ => None,
        };
        let words = policies.iter().zip(0_usize..).map(|(policy, number)| Policy {
            number: number.to_string().into(),
            schema: policy.flow_control_schema.as_deref().unwrap_or("-").into(),
            group: without_generation(&policy.group).into(),
            is_logged: policy.log,
        });
        let shows_users = config.request_info.as_ref().is_some_and(|shown| shown.user);
        ClusterMetrics {
            // The last part is the object's name, the rest is the gateway's own.
            cluster: config.name.rsplit('/').next().unwrap_or_default().into(),
            policies: words.collect(),
            resources: Resources::of(policies),
            logs_refused: config.log_refused,
            tells_users: config.log_refused || shows_users || policies.iter().any(|policy| policy.log),
            shown: config.request_info.clone(),
            slots: config.flow_control_schemas.iter().filter_map(in_flight).collect(),
            caches: Some(Arc::clone(caches)),
            ..ClusterMetrics::unrouted()
        }
    }

    /// For requests that reach no cluster: the label `cluster` is `-`.
    pub fn unrouted() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        ClusterMetrics {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            cluster: "-".into(),
            policies: Box::default(),
            resources: Resources::of(&[]),
            logs_refused: true,
            tells_users: true,
            shown: None,
            tally: CounterTable::default(),
            slots: Vec::new(),
            caches: None,
        }
    }

    /// Unique in the process, never 0.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Counts a request. Allocates nothing, unless nothing like it was counted before.
    pub fn count(&self, seen: &RequestRecord, outcome: Outcome) {
        self.tally.count(CounterKey { outcome: outcome.code(), ..seen.cell });
    }

    /// Takes out what was counted since the last time.
    pub fn take(&self, mut each: impl FnMut(Labels<'_>, u64)) {
        self.tally.take(|cell, count| each(self.labels(cell), count));
    }

    fn labels(&self, cell: CounterKey) -> Labels<'_> {
        let policy = cell.policy.checked_sub(1).and_then(|policy| self.policies.get(policy as usize));
        let (number, schema) = policy.map_or(("-", "-"), |policy| (&*policy.number, &*policy.schema));
        let outcome = Outcome::of_code(cell.outcome);
        let resource = self.resources.label(cell.resource);
        [&self.cluster, Verb::label(cell.verb), resource, number, schema, outcome.decision(), outcome.reason()]
    }

    /// What the gauges say now.
    pub fn gauges(&self) -> Gauges {
        let cluster = || self.cluster.to_string();
        let mut gauges: Gauges = self
            .slots
            .iter()
            .map(|(schema, running)| (SLOTS, vec![cluster(), schema.to_string()], u64::from(running.count())))
            .collect();
        if let Some(caches) = &self.caches {
            gauges.push((REVIEWS, vec![cluster()], caches.under_way()));
            let entries = caches.entries();
            gauges.extend(entries.map(|(kind, count)| (CACHED, vec![cluster(), kind.to_owned()], count)));
        }
        gauges
    }

    /// Whether the access log tells requests that this policy decides about; those that none does for `None`.
    pub(super) fn is_logged(&self, policy: Option<usize>) -> bool {
        match policy {
            Some(policy) => self.policies.get(policy).is_some_and(|policy| policy.is_logged),
            None => self.logs_refused,
        }
    }
}

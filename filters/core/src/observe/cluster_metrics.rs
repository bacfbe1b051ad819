use super::Outcome;
use super::catalog::{CREDENTIAL_CACHE_ENTRIES, Metric, REQUESTS_IN_FLIGHT, REVIEWS};
use super::resource::ResourceLabels;
use super::resource::Verb;
use crate::limit::InFlight;
use crate::review::CredentialCaches;
use crate::state_store::StateStore;
use portcullis_filter_config as config;
use portcullis_filter_config::without_generation;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// Values of the labels of [`super::catalog::REQUESTS`], in its order.
pub type Labels<'a> = [&'a str; 7];

/// The counts of one cluster's requests under one configuration, and the choice of those for the access log.
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
    tally: CounterTable,
    slots: Vec<(Box<str>, Arc<InFlight>)>,
    caches: Option<Arc<CredentialCaches>>,
}

/// Words for what one policy decides.
#[derive(Debug)]
pub(super) struct PolicyLabels {
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
        let words = policies.iter().zip(0_usize..).map(|(policy, number)| PolicyLabels {
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
            resources: ResourceLabels::of(policies),
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
            resources: ResourceLabels::of(&[]),
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
    pub(crate) fn count(&self, key: CounterKey, outcome: Outcome) {
        self.tally.count(CounterKey { outcome: outcome.code(), ..key });
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

    /// The present values of the gauges.
    pub fn gauges(&self) -> Gauges {
        let cluster = || self.cluster.to_string();
        let mut gauges: Gauges = self
            .slots
            .iter()
            .map(|(schema, running)| {
                (REQUESTS_IN_FLIGHT, vec![cluster(), schema.to_string()], u64::from(running.count()))
            })
            .collect();
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

/// The most combinations of labels that are counted apart; what comes later counts under [`CounterKey::REST`].
const MAX_VALUE_CHARS: usize = 16_384;

/// A combination of labels of closed sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CounterKey {
    /// The policy's number from 1, or 0.
    pub(super) policy: u32,
    /// [`super::resource::Verb::code`]
    pub(super) verb: u8,
    /// [`super::resource::ResourceLabels::code`]
    pub(super) resource: u16,
    /// [`super::Outcome::code`]
    pub(super) outcome: u8,
}

impl CounterKey {
    fn key(self) -> u64 {
        let CounterKey { policy, verb, resource, outcome } = self;
        u64::from(policy) << 32 | u64::from(resource) << 16 | u64::from(verb) << 8 | u64::from(outcome)
    }

    #[allow(clippy::cast_possible_truncation, reason = "takes apart what `key` has put together")]
    const fn of_key(key: u64) -> Self {
        CounterKey {
            policy: (key >> 32) as u32,
            resource: (key >> 16) as u16,
            verb: (key >> 8) as u8,
            outcome: key as u8,
        }
    }

    /// The key of everything that has no room of its own; the outcome is kept.
    const fn rest(self) -> Self {
        CounterKey { policy: 0, verb: 0, resource: 0, outcome: self.outcome }
    }
}

/// Keys are made here, from closed sets: no client can choose them so that they collide.
#[derive(Debug, Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, key: u64) {
        // Fibonacci hashing; the high bits are the good ones, and a map looks at both ends.
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// Counts by cell, shared by all workers. Counting what was counted before takes no lock exclusively and allocates nothing.
#[derive(Debug, Default)]
struct CounterTable(RwLock<HashMap<u64, AtomicU64, BuildHasherDefault<Mix>>>);

impl CounterTable {
    pub(super) fn count(&self, cell: CounterKey) {
        if !self.count_known(cell) {
            self.count_new(cell);
        }
    }

    fn count_known(&self, cell: CounterKey) -> bool {
        let cells = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let known = cells.get(&cell.key());
        known.inspect(|count| _ = count.fetch_add(1, Ordering::Relaxed)).is_some()
    }

    #[cold]
    fn count_new(&self, cell: CounterKey) {
        let mut cells = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let has_room = cells.len() < MAX_VALUE_CHARS || cells.contains_key(&cell.key());
        let cell = if has_room { cell } else { cell.rest() };
        cells.entry(cell.key()).or_default().fetch_add(1, Ordering::Relaxed);
    }

    /// Takes out what was counted since the last time.
    pub(super) fn take(&self, mut each: impl FnMut(CounterKey, u64)) {
        let cells = self.0.read().unwrap_or_else(PoisonError::into_inner);
        for (key, count) in &*cells {
            // Most cells of a large table stand still; a swap would make each of them travel between processors.
            if count.load(Ordering::Relaxed) != 0 {
                each(CounterKey::of_key(*key), count.swap(0, Ordering::Relaxed));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn taken(tally: &CounterTable) -> BTreeMap<u64, u64> {
        let mut all = BTreeMap::new();
        tally.take(|cell, count| assert!(all.insert(cell.key(), count).is_none()));
        all
    }

    #[test]
    fn cell_survives_its_key() {
        for cell in [
            CounterKey::default(),
            CounterKey { policy: u32::MAX, verb: 1, resource: u16::MAX, outcome: 2 },
            CounterKey { policy: 3, verb: u8::MAX, resource: 4, outcome: u8::MAX },
        ] {
            assert_eq!(CounterKey::of_key(cell.key()), cell);
        }
    }

    #[test]
    fn counts_of_many_threads_are_exact() {
        let (tally, total) = (CounterTable::default(), AtomicU64::new(0));
        let add = |counts: BTreeMap<u64, u64>| _ = total.fetch_add(counts.values().sum::<u64>(), Ordering::Relaxed);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let tally = &tally;
                scope.spawn(move || {
                    (0..10_000)
                        .for_each(|n| tally.count(CounterKey { policy: thread + n % 7, ..CounterKey::default() }))
                });
            }
            (0..100).for_each(|_| add(taken(&tally)));
        });
        add(taken(&tally));
        assert_eq!(total.into_inner(), 40_000);
        assert!(taken(&tally).is_empty());
    }

    #[test]
    fn full_table_counts_the_rest_together() {
        let tally = CounterTable::default();
        for policy in 1..=20_000 {
            tally.count(CounterKey { policy, outcome: 4, ..CounterKey::default() });
        }
        let counts = taken(&tally);
        assert_eq!(counts.len(), MAX_VALUE_CHARS + 1);
        assert_eq!(counts[&CounterKey { outcome: 4, ..CounterKey::default() }.key()], 20_000 - MAX_VALUE_CHARS as u64);
    }
}

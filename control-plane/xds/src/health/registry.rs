use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::{Answers, UnhealthyServer};

/// Endpoints of one cluster as one node sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// How many get requests.
    pub healthy: u32,
    /// How many there are.
    pub total: u32,
    /// Those that are not healthy, as far as they are named.
    pub unhealthy: Vec<UnhealthyServer>,
}

/// The newest report of every node, up to a bound. Reports that are older than [`HealthRegistry::MAX_AGE`] do not count.
#[derive(Debug)]
pub struct HealthRegistry {
    reports: Mutex<BTreeMap<String, Report>>,
    changes: watch::Sender<u64>,
}

#[derive(Debug)]
struct Report {
    at: Instant,
    clusters: BTreeMap<String, Endpoints>,
    answers: Arc<Answers>,
}

/// Most nodes that are remembered.
const MAX_NODES: usize = 1_000;

impl Default for HealthRegistry {
    fn default() -> Self {
        Self { reports: Mutex::default(), changes: watch::Sender::new(0) }
    }
}

impl HealthRegistry {
    /// How long a report counts.
    pub const MAX_AGE: Duration = Duration::from_secs(30);

    /// How each node that has reported lately sees a cluster, by node id. A node that knows no such cluster is left out;
    /// nothing at all means that nobody reports.
    pub fn endpoints(&self, cluster: &str, now: Instant) -> BTreeMap<String, Endpoints> {
        let reports = self.lock();
        let fresh = reports.iter().filter(|(_, report)| report.is_fresh(now));
        fresh.filter_map(|(node, report)| Some((node.clone(), report.clusters.get(cluster)?.clone()))).collect()
    }

    /// Everything that was reported lately, by cluster and node id.
    pub fn all(&self, now: Instant) -> BTreeMap<String, BTreeMap<String, Endpoints>> {
        let mut all: BTreeMap<String, BTreeMap<String, Endpoints>> = BTreeMap::new();
        for (node, report) in self.lock().iter().filter(|(_, report)| report.is_fresh(now)) {
            for (cluster, endpoints) in &report.clusters {
                all.entry(cluster.clone()).or_default().insert(node.clone(), endpoints.clone());
            }
        }
        all
    }

    /// The nodes that have reported lately.
    pub fn reporting(&self, now: Instant) -> Vec<String> {
        self.lock().iter().filter(|(_, report)| report.is_fresh(now)).map(|(node, _)| node.clone()).collect()
    }

    /// Told when a report differs from the one before it. That a report grew too old is not told: ask again after
    /// [`HealthRegistry::MAX_AGE`].
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Takes a node's report in the place of its last one. Of more than a thousand nodes those that report are kept.
    /// What it answered at other replicas stays until [`HealthRegistry::answered`].
    pub fn record(&self, node: &str, clusters: BTreeMap<String, Endpoints>, at: Instant) {
        let mut reports = self.lock();
        if !reports.contains_key(node) && reports.len() >= MAX_NODES {
            reports.retain(|_, report| report.is_fresh(at));
            if reports.len() >= MAX_NODES {
                return;
            }
        }
        let answers = reports.get(node).filter(|before| before.is_fresh(at)).map(|before| Arc::clone(&before.answers));
        let report = Report { at, clusters, answers: answers.unwrap_or_default() };
        let before = reports.insert(node.to_owned(), report);
        let is_same = |before: &Report| {
            before.is_fresh(at) && reports.get(node).is_some_and(|now| now.clusters == before.clusters)
        };
        if !before.as_ref().is_some_and(is_same) {
            self.changes.send_modify(|changes| *changes += 1);
        }
    }

    /// Takes what a node answered at the replica that it follows, in the place of what was known of that. A node without
    /// a report is not remembered.
    pub fn answered(&self, node: &str, answers: Answers) {
        let mut reports = self.lock();
        let Some(report) = reports.get_mut(node).filter(|report| *report.answers != answers) else { return };
        report.answers = Arc::new(answers);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// What nodes answered at replicas that they follow, by node id, as their agents say. A node that follows none, or
    /// whose agent does not say, is left out.
    pub fn answers(&self, now: Instant) -> BTreeMap<String, Arc<Answers>> {
        let reports = self.lock();
        let known = reports.iter().filter(|(_, report)| report.is_fresh(now) && !report.answers.is_empty());
        known.map(|(node, report)| (node.clone(), Arc::clone(&report.answers))).collect()
    }

    /// A panic elsewhere leaves the map whole: each change is one insertion or removal.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Report>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Report {
    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) <= HealthRegistry::MAX_AGE
    }
}

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use portcullis_api::status::{ClusterStatus, Condition, Observation, Timestamp, accepted};
use portcullis_api::{CLUSTER_KIND, Code, Problem};
use portcullis_translate::{Diagnosis, Reason};
use portcullis_xds::{HealthRegistry, Registry, Snapshot};
use tokio::sync::watch;

use super::gateway_states::{GatewayStates, reports};
use super::source_state::SourceState;
use super::status::{Object, Status};

/// How long an observation is good for: however many ask, the objects are judged no more often.
const FRESH: Duration = Duration::from_millis(250);
/// How often it is looked without being asked to.
const TURN: Duration = Duration::from_secs(1);

/// What is looked at.
pub(super) struct Observed {
    /// What translation said of the newest objects. Published behind the snapshot that they led to.
    pub(super) diagnoses: watch::Receiver<Arc<Vec<Diagnosis>>>,
    /// What is served.
    pub(super) snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
    /// What the gateways acknowledged.
    pub(super) registry: Arc<Registry>,
    /// Which endpoints they find healthy.
    pub(super) health: Arc<HealthRegistry>,
    /// Where the objects come from.
    pub(super) source: SourceState,
}

/// Judges all objects, and remembers since when their conditions are as they are.
pub(super) struct Observer {
    observed: Observed,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    conditions: BTreeMap<Key, Vec<Condition>>,
    hashes: Hashes,
    newest: Option<(Instant, Arc<Status>)>,
}

/// The hashes of what is served of the objects, by name, in one version of the snapshot.
#[derive(Default)]
struct Hashes {
    snapshot: String,
    by_name: BTreeMap<String, String>,
}

impl Hashes {
    fn of(&mut self, snapshot: &Snapshot, name: &str) -> String {
        if self.snapshot != snapshot.version() {
            *self = Self { snapshot: snapshot.version().to_owned(), by_name: BTreeMap::new() };
        }
        let hash = || snapshot.version_of(name).unwrap_or_default();
        self.by_name.entry(name.to_owned()).or_insert_with(hash).clone()
    }
}

/// Kind, name, UID, and which one of those that share all three: objects of files have no UID.
type Key = (String, String, String, usize);

impl Observer {
    pub(super) fn new(observed: Observed) -> Self {
        Self { observed, memory: Mutex::default() }
    }

    /// Where everything stands, at most a quarter of a second ago.
    pub(super) fn status(&self) -> Arc<Status> {
        let mut memory = self.lock();
        if let Some((at, status)) = &memory.newest
            && at.elapsed() < FRESH
        {
            return Arc::clone(status);
        }
        let status = Arc::new(self.observe(&mut memory));
        memory.newest = Some((Instant::now(), Arc::clone(&status)));
        status
    }

    /// Looks every second, so that times are right even if nobody asks.
    pub(super) async fn watch(self: Arc<Self>) {
        let mut turns = tokio::time::interval(TURN);
        turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            drop(self.status());
        }
    }

    /// Takes over conditions that somebody else wrote, so that times stay where nothing else has changed.
    pub(super) fn remember(&self, name: &str, uid: &str, conditions: Vec<Condition>) {
        let key = (CLUSTER_KIND.to_owned(), name.to_owned(), uid.to_owned(), 0);
        let mut memory = self.lock();
        memory.conditions.insert(key, conditions);
        memory.newest = None;
    }

    fn observe(&self, memory: &mut Memory) -> Status {
        let now = Timestamp::from_seconds(seconds());
        // Diagnoses first: they are published behind the snapshot that they belong to.
        let diagnoses = self.observed.diagnoses.borrow().clone();
        let snapshot = self.observed.snapshots.borrow().clone();
        let version = snapshot.as_ref().map(|one| one.version().to_owned()).unwrap_or_default();
        let endpoints = reports(&self.observed.health);
        let gateways = GatewayStates::new(&self.observed.registry, &self.observed.health, snapshot.clone(), &endpoints);
        let mut known = BTreeMap::new();
        let objects = diagnoses.iter().map(|diagnosis| {
            let key = key(diagnosis, &known);
            let hash = snapshot.as_ref().map(|snapshot| memory.hashes.of(snapshot, &diagnosis.name));
            let before = memory.conditions.get(&key).map(Vec::as_slice).unwrap_or_default();
            let status = judge(diagnosis, &gateways, &hash.unwrap_or_default(), before, &now);
            known.insert(key, status.conditions.clone());
            Object::new(diagnosis.clone(), status)
        });
        let objects = objects.collect();
        // What is gone is forgotten.
        memory.conditions = known;
        let turned_away = self.observed.registry.turned_away();
        Status::new(objects, gateways.nodes(), endpoints.clone(), version, self.observed.source.told(), turned_away)
    }

    /// A panic elsewhere leaves the memory whole: it is replaced in one step.
    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(diagnosis: &Diagnosis, known: &BTreeMap<Key, Vec<Condition>>) -> Key {
    let uid = diagnosis.version.uid.clone().unwrap_or_default();
    let first = (diagnosis.kind.clone(), diagnosis.name.clone(), uid, 0);
    let last = (first.0.clone(), first.1.clone(), first.2.clone(), usize::MAX);
    let twins = known.range(first.clone()..=last).count();
    (first.0, first.1, first.2, twins)
}

fn judge(
    diagnosis: &Diagnosis,
    gateways: &GatewayStates<'_>,
    content_hash: &str,
    before: &[Condition],
    now: &Timestamp,
) -> ClusterStatus {
    let reason = reason(diagnosis);
    let verdict = diagnosis.verdict(&reason);
    let generation = diagnosis.version.generation;
    if diagnosis.kind != CLUSTER_KIND {
        let conditions = vec![accepted(&verdict, generation, before, now)];
        return ClusterStatus { observed_generation: generation, conditions, ..ClusterStatus::default() };
    }
    let gateways = gateways.gateways(&diagnosis.name, content_hash);
    let served = diagnosis.version.served;
    let seen = Observation { verdict, generation, served, content_hash, gateways };
    ClusterStatus::of(&seen, before, now)
}

/// What is wrong with the object itself, and what with what it refers to, different people mend.
fn reason(diagnosis: &Diagnosis) -> String {
    let is_unresolved = |problem: &Problem| problem.code == Code::Unresolved;
    let problems = &diagnosis.problems;
    if diagnosis.reason == Reason::Invalid && !problems.is_empty() && problems.iter().all(is_unresolved) {
        return "ReferenceNotResolved".to_owned();
    }
    diagnosis.reason.to_string()
}

/// Seconds since 1970.
fn seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use portcullis_api::status::{ClusterStatus, Condition, Served, StatusInput, Timestamp, accepted};
use portcullis_api::{CLUSTER_KIND, Problem, ProblemCode};
use portcullis_translate::{Diagnosis, Reason};
use portcullis_xds::{HealthRegistry, OwnerVersions, Registry, Snapshot};
use tokio::sync::watch;

use super::discovery::Answers;
use super::former_statuses::FormerStatuses;
use super::gateway_states::{GatewayStates, reports};
use super::instance_status::InstanceEnvoys;
use super::instance_views::{InstanceStates, is_lasting_view};
use super::limit_reports::LimitReports;
use super::policies::PolicyVerdicts;
use super::shadow_reports::ShadowReports;
use super::source::SourceState;
use super::status::{ObjectStatus, StatusBody};
use super::token_keys::KeysByObject;

/// The age to which a status is reused, so that many readers cost no more than one.
const MAX_STATUS_AGE: Duration = Duration::from_millis(250);
/// The interval of observations without a reader.
const OBSERVE_INTERVAL: Duration = Duration::from_secs(1);

/// The inputs of the observer.
pub(super) struct ObserverInputs {
    /// The diagnoses of the newest objects. Published after the snapshot of the same objects.
    pub(super) diagnoses: watch::Receiver<Arc<Vec<Arc<Diagnosis>>>>,
    /// The snapshot that is served.
    pub(super) snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
    /// The instances, and what belongs to them. Published before the diagnoses of the same objects.
    pub(super) instances: watch::Receiver<Arc<InstanceStates>>,
    /// The gateways' acknowledgements.
    pub(super) registry: Arc<Registry>,
    /// The gateways' reports of endpoint health.
    pub(super) health: Arc<HealthRegistry>,
    /// The source of the objects.
    pub(super) source: SourceState,
    /// The sources of discovered servers.
    pub(super) answers: watch::Receiver<Arc<Answers>>,
    /// The gateways' reports about shadows.
    pub(super) shadows: Arc<ShadowReports>,
    /// The sources of keys of tokens.
    pub(super) token_keys: watch::Receiver<Arc<KeysByObject>>,
    /// Those about limits that they share.
    pub(super) limits: Arc<LimitReports>,
    /// The verdicts about policies, if they are attached.
    pub(super) policies: Option<watch::Receiver<Arc<PolicyVerdicts>>>,
}

/// Derives the conditions of all objects, and remembers their transition times.
pub(super) struct StatusObserver {
    observed: ObserverInputs,
    state: Mutex<ObserverState>,
}

#[derive(Default)]
struct ObserverState {
    /// Conditions that another replica wrote, until the next observation: by kind, name and UID.
    written: BTreeMap<(String, String, String), Vec<Condition>>,
    versions: OwnerVersions,
    newest: Option<Arc<StatusBody>>,
    /// When that was observed; `None` if it is out of date.
    observed: Option<Instant>,
}

impl StatusObserver {
    pub(super) fn new(observed: ObserverInputs) -> Self {
        Self { observed, state: Mutex::default() }
    }

    /// The status of everything, at most a quarter of a second old.
    pub(super) fn status(&self) -> Arc<StatusBody> {
        self.status_within(MAX_STATUS_AGE)
    }

    /// The status of everything as the last observation has it, for what happens once a second anyway.
    pub(super) fn last_status(&self) -> Arc<StatusBody> {
        self.status_within(OBSERVE_INTERVAL.saturating_add(MAX_STATUS_AGE))
    }

    fn status_within(&self, age: Duration) -> Arc<StatusBody> {
        let mut state = self.lock();
        if let (Some(status), Some(at)) = (&state.newest, state.observed)
            && at.elapsed() < age
        {
            return Arc::clone(status);
        }
        let status = Arc::new(self.observe(&mut state));
        state.newest = Some(Arc::clone(&status));
        state.observed = Some(Instant::now());
        status
    }

    /// Observes every second, so that transition times are right even if no client asks.
    pub(super) async fn watch(self: Arc<Self>) {
        let mut turns = tokio::time::interval(OBSERVE_INTERVAL);
        turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            drop(self.status());
        }
    }

    /// Takes over conditions that another replica wrote, so that transition times stay if nothing else changed.
    pub(super) fn remember(&self, (kind, name): (&str, &str), uid: &str, conditions: Vec<Condition>) {
        let key = (kind.to_owned(), name.to_owned(), uid.to_owned());
        let mut state = self.lock();
        state.written.insert(key, conditions);
        state.observed = None;
    }

    fn observe(&self, state: &mut ObserverState) -> StatusBody {
        let now = Timestamp::from_seconds(seconds());
        // Diagnoses first: they are published behind the snapshot that they belong to.
        let diagnoses = self.observed.diagnoses.borrow().clone();
        let snapshot = self.observed.snapshots.borrow().clone();
        let instances = self.observed.instances.borrow().clone();
        let endpoints = reports(&self.observed.health, snapshot.as_deref());
        let gateways = GatewayStates::new(&self.observed.registry, &self.observed.health, snapshot.clone(), &endpoints);
        let answers = self.observed.answers.borrow().clone();
        let token_keys = self.observed.token_keys.borrow().clone();
        let policies = self.observed.policies.as_ref().map(|verdicts| verdicts.borrow().clone()).unwrap_or_default();
        self.observed.shadows.follow(shadows(&diagnoses), Instant::now());
        let none = BTreeMap::new();
        let versions = snapshot.as_ref().map_or(&none, |snapshot| state.versions.of(snapshot));
        let version = |diagnosis: &Arc<Diagnosis>| {
            let of_instance = || instance_version(snapshot.as_deref()?, &diagnosis.name);
            versions.get(&diagnosis.name).cloned().or_else(of_instance).unwrap_or_default()
        };
        let versions: Vec<String> = diagnoses.iter().map(version).collect();
        let of_clusters = diagnoses.iter().zip(&versions).filter(|(_, version)| !version.is_empty());
        let of_clusters = of_clusters.map(|(diagnosis, version)| (diagnosis.name.as_str(), version.as_str())).collect();
        let envoys = InstanceEnvoys::new(&instances, &self.observed.registry, snapshot.as_deref())
            .with_answers(&self.observed.health, &of_clusters);
        let last = state.newest.clone();
        let mut former = FormerStatuses::new(last.iter().flat_map(|last| &last.objects), &state.written);
        let objects = diagnoses.iter().zip(&versions).map(|(diagnosis, version)| {
            let before = former.of(diagnosis);
            let conditions = before.conditions();
            let (gateways, answers, shadows) = (&gateways, &answers, &self.observed.shadows);
            let (token_keys, limits) = (&token_keys, &self.observed.limits);
            let observed = ObservedStates { gateways, answers, shadows, token_keys, limits, policies: &policies };
            let (status, counts) = match envoys.status(diagnosis, conditions, &now) {
                Some((status, counts)) => (status, Some(counts)),
                None => (status_of(diagnosis, &observed, version, (conditions, &now)), None),
            };
            let instances = envoys.of_object(diagnosis);
            before.followed_by(ObjectStatus { instances, counts, ..ObjectStatus::new(Arc::clone(diagnosis), status) })
        });
        let objects = objects.collect();
        state.written.clear();
        let rejected_nodes = self.observed.registry.rejected_nodes();
        StatusBody::new(
            objects,
            gateways.nodes(),
            endpoints.clone(),
            snapshot.as_deref(),
            self.observed.source.status(),
            rejected_nodes,
        )
    }

    /// A panic elsewhere leaves the state whole: it is replaced in one step.
    fn lock(&self) -> MutexGuard<'_, ObserverState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The hash of what the Envoys of an instance are served of an object, if it belongs to one.
fn instance_version(snapshot: &Snapshot, name: &str) -> Option<String> {
    snapshot.views().filter(|(view, _)| is_lasting_view(view)).find_map(|(_, view)| view.version_of(name))
}

/// The edition of the shadow of each object that is served with one, by name.
fn shadows(diagnoses: &[Arc<Diagnosis>]) -> BTreeMap<String, String> {
    diagnoses.iter().filter_map(|one| Some((one.name.clone(), one.shadow.clone()?))).collect()
}

/// Reports of gateways and of sources of servers about objects.
struct ObservedStates<'a> {
    gateways: &'a GatewayStates<'a>,
    answers: &'a Answers,
    shadows: &'a ShadowReports,
    token_keys: &'a KeysByObject,
    limits: &'a LimitReports,
    policies: &'a PolicyVerdicts,
}

fn status_of(
    diagnosis: &Diagnosis,
    observed: &ObservedStates<'_>,
    content_hash: &str,
    (before, now): (&[Condition], &Timestamp),
) -> ClusterStatus {
    let reason = reason(diagnosis);
    let acceptance = diagnosis.acceptance(&reason);
    let generation = diagnosis.version.generation;
    if diagnosis.kind != CLUSTER_KIND {
        let conditions = vec![accepted(&acceptance, generation, before, now)];
        return ClusterStatus { observed_generation: generation, conditions, ..ClusterStatus::default() };
    }
    let gateways = observed.gateways.gateways(&diagnosis.name, content_hash);
    let served = diagnosis.version.served;
    let discovery = observed.answers.facts(&diagnosis.name, diagnosis.version.uid.as_deref());
    let shadow = diagnosis.shadow.as_ref().and_then(|_| observed.shadows.facts(&diagnosis.name));
    let token_keys = observed.token_keys.facts(&diagnosis.name, diagnosis.version.uid.as_deref());
    let limits = observed.limits.facts(&diagnosis.name).filter(|_| served != Served::Nothing);
    let seen = StatusInput {
        acceptance,
        generation,
        served,
        content_hash,
        gateways,
        discovery,
        shadow,
        token_keys,
        limits,
        policies: observed.policies.affecting(&diagnosis.name),
    };
    ClusterStatus::of(&seen, before, now)
}

/// The reason of `Accepted`. Unresolved references have one of their own: another person may have to act.
fn reason(diagnosis: &Diagnosis) -> String {
    let is_unresolved = |problem: &Problem| problem.code == ProblemCode::Unresolved;
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

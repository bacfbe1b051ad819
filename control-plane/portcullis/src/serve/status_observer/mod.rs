//! The status of all objects. An observation costs what has changed since the one before: an object's status is made anew if its
//! diagnosis is another one, or an input that is about it ([`inputs`]).

mod inputs;
#[cfg(test)]
mod status_cost;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use portcullis_api::status::{ClusterStatus, Condition, Served, StatusInput, Timestamp, accepted};
use portcullis_api::{CLUSTER_KIND, Problem, ProblemCode};
use portcullis_translate::{Diagnosis, Reason};
use portcullis_xds::{ChangedNames, HealthRegistry, Registry, Snapshot};
use tokio::sync::watch;

use super::discovery::Answers;
use super::gateway_states::GatewayStates;
use super::gateway_views::served_version;
use super::instance_status::InstanceEnvoys;
use super::instance_views::InstanceStates;
use super::limit_reports::LimitReports;
use super::object_status::ObjectStatus;
use super::object_statuses::{ChangedInputs, ObjectStatuses, WrittenConditions};
use super::policies::PolicyVerdicts;
use super::shadow_reports::ShadowReports;
use super::source::SourceState;
use super::status::{NodeReport, RejectedNodeStatus, StatusBody};
use super::status_part::is_of_own_envoys;
use super::token_keys::KeysByObject;
use inputs::{COMPARISONS, Comparison, FollowedInputs, StatusInputs};

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
    /// The time between two looks at what Envoys of Gateways report of it.
    pub(super) gateway_health_pace: Duration,
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
    /// Conditions that another replica wrote, until the next observation.
    written: WrittenConditions,
    /// The inputs of the last observation.
    inputs: Option<StatusInputs>,
    followed: FollowedInputs,
    /// The diagnoses of the statuses, and these.
    diagnoses: Arc<Vec<Arc<Diagnosis>>>,
    objects: Arc<ObjectStatuses>,
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
        let status = self.observe(&mut state, &COMPARISONS, &Timestamp::from_seconds(seconds()));
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

    /// The status of everything as of now; the same allocation if nothing is otherwise. `comparisons` find the objects of which an input
    /// is another one.
    fn observe(
        &self,
        state: &mut ObserverState,
        comparisons: &[(&str, Comparison)],
        now: &Timestamp,
    ) -> Arc<StatusBody> {
        // Taken, so that after a panic everything is observed anew.
        let before = state.inputs.take();
        if before.is_none() {
            state.followed = FollowedInputs::default();
        }
        let inputs = StatusInputs::read(&self.observed, &mut state.followed, before.as_ref(), Instant::now());
        let mut names = ChangedNames::default();
        match &before {
            Some(before) => comparisons.iter().for_each(|(_, compare)| compare(before, &inputs, &mut names)),
            None => names.add_all(),
        }
        let written = std::mem::take(&mut state.written);
        state.objects = self.objects(state, &inputs, (&names, &written), now);
        state.diagnoses = Arc::clone(&inputs.diagnoses);
        let known = state.newest.as_ref().zip(before.as_ref());
        let newest = self.body(known, &inputs, state);
        state.newest = Some(Arc::clone(&newest));
        state.inputs = Some(inputs);
        newest
    }

    fn objects(
        &self,
        state: &ObserverState,
        inputs: &StatusInputs,
        (names, written): (&ChangedNames, &WrittenConditions),
        now: &Timestamp,
    ) -> Arc<ObjectStatuses> {
        let FollowedInputs { versions, endpoints, .. } = &state.followed;
        let here = (&*self.observed.registry, inputs.nodes.as_slice());
        let served = (inputs.snapshot.as_deref(), &**endpoints.endpoints());
        let gateways = GatewayStates::new(here, &inputs.frozen, &inputs.reports, served);
        let envoys = InstanceEnvoys { states: &inputs.instances, envoys: &inputs.envoys };
        let changed = ChangedInputs { before: &state.diagnoses, after: &inputs.diagnoses, names, written };
        state.objects.follow(&changed, |diagnosis, conditions| {
            let instances = envoys.of_object(diagnosis);
            if let Some((status, counts)) = envoys.status(diagnosis, conditions, now) {
                let counts = Some(counts);
                return ObjectStatus { instances, counts, ..ObjectStatus::new(Arc::clone(diagnosis), status) };
            }
            let version = versions.version(&diagnosis.name).unwrap_or_default();
            let observed = ObservedStates { gateways: &gateways, inputs };
            let (status, is_of_own_envoys) = status_of(diagnosis, &observed, (version, &instances), (conditions, now));
            let holder = envoys.holder(diagnosis, &instances);
            ObjectStatus { instances, holder, is_of_own_envoys, ..ObjectStatus::new(Arc::clone(diagnosis), status) }
        })
    }

    /// The body with these parts; the one before, if it has the same.
    fn body(
        &self,
        known: Option<(&Arc<StatusBody>, &StatusInputs)>,
        inputs: &StatusInputs,
        state: &ObserverState,
    ) -> Arc<StatusBody> {
        let (objects, endpoints) = (Arc::clone(&state.objects), Arc::clone(state.followed.endpoints.endpoints()));
        let source = self.observed.source.status();
        let is_served = |before: &StatusInputs| before.has_snapshot(inputs.snapshot.as_ref());
        let snapshot = match known.filter(|(_, before)| is_served(before)) {
            Some((body, _)) => body.snapshot.clone(),
            None => inputs.snapshot.as_deref().map(served_version).unwrap_or_default(),
        };
        let has_nodes = |before: &StatusInputs| is_served(before) && Arc::ptr_eq(&before.nodes, &inputs.nodes);
        let nodes = match known.filter(|(_, before)| has_nodes(before)) {
            Some((body, _)) => Arc::clone(&body.nodes),
            None => Arc::new(NodeReport::of_all(&inputs.nodes, inputs.snapshot.as_deref())),
        };
        let is_same = |(body, before): &(&Arc<StatusBody>, &StatusInputs)| {
            Arc::ptr_eq(&body.objects, &objects)
                && Arc::ptr_eq(&body.endpoints, &endpoints)
                && Arc::ptr_eq(&body.nodes, &nodes)
                && Arc::ptr_eq(&before.rejected, &inputs.rejected)
                && is_served(before)
                && body.source == source
        };
        if let Some((body, _)) = known.filter(is_same) {
            return Arc::clone(body);
        }
        let rejected_nodes = inputs.rejected.iter().cloned().map(RejectedNodeStatus::from).collect();
        Arc::new(StatusBody { objects, nodes, endpoints, snapshot, source, rejected_nodes })
    }

    /// After a panic elsewhere all is observed anew.
    fn lock(&self) -> MutexGuard<'_, ObserverState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reports of gateways, and all other inputs.
struct ObservedStates<'a> {
    gateways: &'a GatewayStates<'a>,
    inputs: &'a StatusInputs,
}

/// The status of an object of these instances, and whether everything in it comes from Envoys of the only one.
fn status_of(
    diagnosis: &Diagnosis,
    observed: &ObservedStates<'_>,
    (content_hash, instances): (&str, &[String]),
    (before, now): (&[Condition], &Timestamp),
) -> (ClusterStatus, bool) {
    let reason = reason(diagnosis);
    let acceptance = diagnosis.acceptance(&reason);
    let generation = diagnosis.version.generation;
    if diagnosis.kind != CLUSTER_KIND {
        let conditions = vec![accepted(&acceptance, generation, before, now)];
        return (ClusterStatus { observed_generation: generation, conditions, ..ClusterStatus::default() }, false);
    }
    let gateways = observed.gateways.gateways(&diagnosis.name, content_hash);
    let served = diagnosis.version.served;
    let inputs = observed.inputs;
    let discovery = inputs.answers.facts(&diagnosis.name, diagnosis.version.uid.as_deref());
    let shadow = diagnosis.shadow.as_ref().and_then(|_| inputs.shadows.get(&diagnosis.name).cloned());
    let token_keys = inputs.token_keys.facts(&diagnosis.name, diagnosis.version.uid.as_deref());
    let limits = inputs.limits.facts(&diagnosis.name).filter(|_| served != Served::Nothing);
    let seen = StatusInput {
        acceptance,
        generation,
        served,
        content_hash,
        instance: inputs.instances.settled_instance(&diagnosis.name),
        gateways,
        at_gateways: inputs.at_gateways.get(&diagnosis.name).cloned().unwrap_or_default(),
        discovery,
        shadow,
        token_keys,
        limits,
        policies: inputs.policies.affecting(&diagnosis.name),
    };
    (ClusterStatus::of(&seen, before, now), is_of_own_envoys(&seen, instances))
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

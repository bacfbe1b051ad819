//! Status, written back to Kubernetes by the replica that leads.
//!
//! - [`settings_use`]: the status of `GatewaySettings`, and of those that are not used.
//! - [`plan`]: which statuses are wanted, for objects of which something has changed.
//! - [`write_queue`]: what is written when; pure, time is an argument.
//! - [`write`](mod@write): one write.
//! - [`apply`]: that of kinds whose status is ours, as a server-side apply of the status alone.
//! - [`replaced_lists`], [`replace`]: that of lists which other controllers write, too, as a JSON patch; [`go_strings`] has its text.
//!
//! Translation never waits for it: the writer takes the newest status whenever it is free.

mod apply;
mod go_strings;
mod plan;
mod replace;
mod replaced_lists;
mod settings_use;
mod write;
mod write_error;
mod write_queue;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use kube::Client;
use portcullis_api::status::{Condition, Timestamp};
use portcullis_sources::{ObjectKey, StoredStatuses, WatchedKind};
use portcullis_translate::Diagnosis;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::gateway_api::GatewayApiVerdicts;
use super::list_origins::origins;
use super::policies::PolicyVerdicts;
use super::status_observer::StatusObserver;
use plan::{GATEWAY_API, JudgedPlan, ObjectPlan, POLICIES, Plan, Plans};
pub(super) use settings_use::SettingsUse;
use write::{StatusWrite, write};
use write_queue::{Uptime, WriteOutcome, WriteQueue};

/// The field manager of the written fields.
const MANAGER: &str = "portcullis";

/// The number of concurrent writes.
const MAX_CONCURRENT_WRITES: usize = 8;
/// The interval of plans without a change of objects: acknowledgements and reports of gateways change the status, too.
const PLAN_INTERVAL: Duration = Duration::from_secs(1);
/// The time for gateways to acknowledge a change before its status is written, which saves a write.
const ACK_DELAY: Duration = Duration::from_millis(150);

/// The inputs of the writer.
pub(super) struct Writer {
    /// The API that the objects come from.
    pub(super) client: Client,
    /// Whether this replica leads.
    pub(super) leads: watch::Receiver<bool>,
    /// The `status` of each object as the server has it.
    pub(super) statuses: watch::Receiver<Arc<StoredStatuses>>,
    /// Changes when the objects have been reconciled anew.
    pub(super) diagnoses: watch::Receiver<Arc<Vec<Arc<Diagnosis>>>>,
    /// The status of all objects.
    pub(super) observer: Arc<StatusObserver>,
    /// Which settings are used.
    pub(super) settings: SettingsUse,
    /// The verdicts about objects of the Gateway API, if they are judged.
    pub(super) gateway_api: Option<watch::Receiver<Arc<GatewayApiVerdicts>>>,
    /// The verdicts about policies, if they are attached.
    pub(super) policies: Option<watch::Receiver<Arc<PolicyVerdicts>>>,
}

/// The queue of writes.
type Writes = WriteQueue<ObjectKey, StatusWrite>;

impl Writer {
    /// Writes until the senders are gone.
    pub(super) async fn run(mut self) {
        let start = Instant::now();
        let mut queue = Writes::default();
        let mut writes = FuturesUnordered::new();
        let mut planned: Option<Instant> = None;
        let (mut plans, mut seen) = (Plans::default(), None);
        let mut led = false;
        loop {
            let leads = *self.leads.borrow_and_update();
            if std::mem::replace(&mut led, leads) != leads {
                // Another replica may have written since, or begins to.
                (planned, plans, seen) = (None, Plans::default(), None);
            }
            if !leads {
                queue.forget();
                if start.elapsed() < plan::RECONNECT_TIME + PLAN_INTERVAL {
                    // Gateways come back one by one, and move times that are stored.
                    seen = None;
                }
                self.remember(&queue, &mut seen);
            } else if planned.is_none_or(|at| at.elapsed() >= PLAN_INTERVAL) {
                self.plan(&mut queue, (&mut plans, &mut seen), start.elapsed());
                planned = Some(Instant::now());
            }
            while writes.len() < MAX_CONCURRENT_WRITES
                && let Some((key, status)) = queue.take(start.elapsed())
            {
                writes.push(write(self.client.clone(), key, status));
            }
            let next = queue.next().filter(|_| writes.len() < MAX_CONCURRENT_WRITES);
            let pause = next.map_or(PLAN_INTERVAL, |next| next.saturating_sub(start.elapsed()).min(PLAN_INTERVAL));
            tokio::select! {
                Some((key, outcome, why)) = writes.next() => {
                    log_outcome(&queue, &key, outcome, &why);
                    queue.done(&key, outcome, start.elapsed());
                }
                changed = self.diagnoses.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    tokio::time::sleep(ACK_DELAY).await;
                    planned = None;
                }
                changed = self.leads.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Hands the wanted status of every object to the queue of which something has changed since the plan before.
    fn plan(&self, queue: &mut Writes, (plans, seen): (&mut Plans, &mut Option<SeenStatuses>), now: Uptime) {
        if plans.objects.as_ref().is_some_and(ObjectPlan::has_left_out) {
            // Gateways come back one by one: a status that is left out until then must not move a time that is stored.
            *seen = None;
        }
        let statuses = self.remember(queue, seen);
        let status = self.observer.status();
        let repeated = queue.take_repeats(now);
        let mut plan = Plan { queue, statuses: &statuses, settings: &self.settings, now, repeated };
        plan.follow_objects(&mut plans.objects, &status.objects);
        if let Some(verdicts) = &self.gateway_api {
            let newest = JudgedPlan { verdicts: verdicts.borrow().clone(), statuses: Arc::clone(&statuses) };
            let wanted = |verdicts: &GatewayApiVerdicts, now: &str| verdicts.statuses(&statuses, now).collect();
            plan.follow_judged(&mut plans.gateway_api, newest, GATEWAY_API, wanted);
        }
        if let Some(verdicts) = &self.policies {
            let newest = JudgedPlan { verdicts: verdicts.borrow().clone(), statuses: Arc::clone(&statuses) };
            let wanted = |verdicts: &PolicyVerdicts, now: &str| verdicts.statuses(&statuses, now).collect();
            plan.follow_judged(&mut plans.policies, newest, POLICIES, wanted);
        }
    }

    /// Takes over the transition times of objects that are new here: another replica may have written their status. The source may
    /// show a status before its object is translated. Looks at what has changed since `seen`; returns the newest statuses.
    fn remember(&self, queue: &Writes, seen: &mut Option<SeenStatuses>) -> Arc<StoredStatuses> {
        let newest =
            SeenStatuses { diagnoses: self.diagnoses.borrow().clone(), statuses: self.statuses.borrow().clone() };
        let before = seen.take().unwrap_or_default();
        for diagnosis in newest.changed_diagnoses(&before, |key| queue.knows(key)) {
            let Some(key) = key(diagnosis).filter(|key| !queue.knows(key)) else { continue };
            if let (Some(stored), Some(uid)) = (newest.statuses.get(&key), &diagnosis.version.uid) {
                self.observer.remember((key.kind.kind(), &key.name), uid, conditions(&stored.status));
            }
        }
        let statuses = Arc::clone(&newest.statuses);
        *seen = Some(newest);
        statuses
    }
}

/// The diagnoses and stored statuses of one moment.
#[derive(Default)]
struct SeenStatuses {
    diagnoses: Arc<Vec<Arc<Diagnosis>>>,
    statuses: Arc<StoredStatuses>,
}

impl SeenStatuses {
    /// The diagnoses that are others than before, and those of objects whose stored status is, but for objects of `known` keys.
    fn changed_diagnoses(
        &self,
        before: &Self,
        is_known: impl Fn(&ObjectKey) -> bool,
    ) -> impl Iterator<Item = &Diagnosis> {
        let changed = KINDS.into_iter().flat_map(|kind| self.statuses.changed_keys(&before.statuses, kind));
        let stored: BTreeSet<String> = changed.filter(|key| !is_known(key)).map(|key| key.name.clone()).collect();
        let has_same_diagnoses = Arc::ptr_eq(&self.diagnoses, &before.diagnoses);
        let origins = if has_same_diagnoses { Vec::new() } else { origins(&before.diagnoses, &self.diagnoses) };
        let is_new = move |place: usize| origins.get(place).is_some_and(Option::is_none);
        let all = if has_same_diagnoses && stored.is_empty() { &[][..] } else { self.diagnoses.as_slice() };
        let changed = all.iter().enumerate().filter(move |(place, one)| is_new(*place) || stored.contains(&one.name));
        changed.map(|(_, one)| one.as_ref())
    }
}

/// The kinds whose status follows from the observation.
const KINDS: [WatchedKind; 3] = [WatchedKind::UpstreamCluster, WatchedKind::GatewaySettings, WatchedKind::Instance];

/// The key of the object that a diagnosis is about; none of files.
fn key(diagnosis: &Diagnosis) -> Option<ObjectKey> {
    let kind = KINDS.into_iter().find(|kind| kind.kind() == diagnosis.kind)?;
    Some(ObjectKey::cluster_scoped(kind, diagnosis.name.as_str()))
}

/// The time of a write.
fn timestamp() -> Timestamp {
    Timestamp::from_seconds(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs())
}

/// The conditions of ours in a status; those of others are not understood and left out.
fn conditions(status: &Value) -> Vec<Condition> {
    let listed = status.get("conditions").and_then(Value::as_array).into_iter().flatten();
    listed.filter_map(|one| serde_json::from_value(one.clone()).ok()).collect()
}

fn log_outcome(queue: &Writes, key: &ObjectKey, outcome: WriteOutcome, why: &str) {
    let (kind, name) = (key.kind.kind(), key.name.as_str());
    match outcome {
        WriteOutcome::Written if queue.is_away() => tracing::info!("the status is written to Kubernetes again"),
        WriteOutcome::Refused => tracing::warn!(kind, name, why, "Kubernetes refuses a status"),
        WriteOutcome::Failed => tracing::warn!(kind, name, why, "Kubernetes fails to keep a status"),
        WriteOutcome::Away if !queue.is_away() => {
            tracing::warn!(kind, name, why, "the status cannot be written to Kubernetes")
        }
        _ => tracing::debug!(kind, name, ?outcome, why, "status"),
    }
}

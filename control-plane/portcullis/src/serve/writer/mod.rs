//! Status, written back to Kubernetes by the replica that leads.
//!
//! - [`settings_use`]: the status of `GatewaySettings`, and of those that are not used.
//! - [`write_queue`]: what is written when; pure, time is an argument.
//! - [`apply`]: one write, as a server-side apply of the status alone.
//!
//! Translation never waits for it: the writer takes the newest status whenever it is free.

mod apply;
mod settings_use;
mod write_queue;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use kube::Client;
use portcullis_api::status::{Condition, ConditionType, Timestamp};
use portcullis_sources::{ObjectKey, StoredStatuses, WatchedKind};
use portcullis_translate::Diagnosis;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::gateway_api::GatewayApiVerdicts;
use super::policies::PolicyVerdicts;
use super::status::ObjectStatus;
use super::status_observer::StatusObserver;
use apply::apply;
pub(super) use settings_use::SettingsUse;
use write_queue::{REPEAT_AFTER, Uptime, WriteOutcome, WriteQueue};

/// The number of concurrent writes.
const MAX_CONCURRENT_WRITES: usize = 8;
/// The interval of plans without a change of objects: acknowledgements and reports of gateways change the status, too.
const PLAN_INTERVAL: Duration = Duration::from_secs(1);
/// The time for gateways to acknowledge a change before its status is written, which saves a write.
const ACK_DELAY: Duration = Duration::from_millis(150);
/// The time after the start in which gateways reconnect; conditions that only say so are not written.
const RECONNECT_TIME: Duration = Duration::from_secs(10);

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

/// The queue of writes, with the objects to apply.
type Writes = WriteQueue<ObjectKey, Value>;

impl Writer {
    /// Writes until the senders are gone.
    pub(super) async fn run(mut self) {
        let start = Instant::now();
        let mut queue = Writes::default();
        let mut writes = FuturesUnordered::new();
        let mut planned: Option<Instant> = None;
        let mut followed = None;
        let mut judged = JudgedPlans::default();
        loop {
            if !*self.leads.borrow_and_update() {
                self.follow(&mut queue, &mut followed);
                (planned, judged) = (None, JudgedPlans::default());
            } else if planned.is_none_or(|at| at.elapsed() >= PLAN_INTERVAL) {
                self.plan(&mut queue, &mut judged, start.elapsed());
                planned = Some(Instant::now());
            }
            while writes.len() < MAX_CONCURRENT_WRITES
                && let Some((key, object)) = queue.take(start.elapsed())
            {
                writes.push(apply(self.client.clone(), key, object));
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

    /// Takes over the transition times that another replica writes, whenever it has written, and for the objects of each
    /// reconciliation: the source may show a status before its object is translated. `followed` is the last reconciliation.
    fn follow(&mut self, queue: &mut Writes, followed: &mut Option<Arc<Vec<Arc<Diagnosis>>>>) {
        queue.forget();
        let diagnoses = self.diagnoses.borrow().clone();
        let is_followed = followed.as_ref().is_some_and(|known| Arc::ptr_eq(known, &diagnoses));
        if !is_followed || self.statuses.has_changed().unwrap_or_default() {
            *followed = Some(diagnoses);
            let statuses = self.statuses.borrow_and_update().clone();
            self.remember(queue, &statuses);
        }
    }

    /// Hands the wanted status of every object to the queue.
    fn plan(&self, queue: &mut Writes, judged: &mut JudgedPlans, now: Uptime) {
        let statuses = self.statuses.borrow().clone();
        self.remember(queue, &statuses);
        let status = self.observer.status();
        let (present, mut used) = (BTreeSet::new(), BTreeSet::new());
        let mut plan = Plan { queue: &mut *queue, statuses: &statuses, present, now };
        for (object, key) in status.objects.iter().filter_map(|object| Some((object.as_ref(), key(&object.diagnosis)?)))
        {
            let Some(uid) = &object.diagnosis.version.uid else { continue };
            match key.kind {
                WatchedKind::UpstreamCluster if now < RECONNECT_TIME && waits_for_gateways(object) => plan.keep(key),
                WatchedKind::UpstreamCluster => plan.want(key, uid, &object.status),
                WatchedKind::Instance if now < RECONNECT_TIME && waits_for_envoys(object) => plan.keep(key),
                WatchedKind::Instance => {
                    if let Some(status) = object.instance_status() {
                        plan.want(key, uid, &status);
                    }
                }
                WatchedKind::GatewaySettings if self.settings.uses(&key.name) || is_of_api(object) => {
                    plan.want_by_any(key, uid, &self.settings.used(object));
                    used.insert(object.diagnosis.name.clone());
                }
                // Of a file, which may have the name and the UID of an object.
                _ => {}
            }
        }
        for (name, uid, status) in self.settings.not_used(&statuses, &used) {
            let key = ObjectKey::cluster_scoped(WatchedKind::GatewaySettings, name);
            plan.want(key, uid, &status);
        }
        let keeps_gateway_api = self.gateway_api.as_ref().is_some_and(|verdicts| {
            let newest = JudgedPlan { verdicts: verdicts.borrow().clone(), statuses: Arc::clone(&statuses), at: now };
            let wanted = |verdicts: &GatewayApiVerdicts, now: &str| verdicts.statuses(&statuses, now).collect();
            plan.follow(&mut judged.gateway_api, newest, StoredStatuses::shares_gateway_api, wanted)
        });
        let keeps_policies = self.policies.as_ref().is_some_and(|verdicts| {
            let newest = JudgedPlan { verdicts: verdicts.borrow().clone(), statuses: Arc::clone(&statuses), at: now };
            let wanted = |verdicts: &PolicyVerdicts, now: &str| verdicts.statuses(&statuses, now).collect();
            plan.follow(&mut judged.policies, newest, StoredStatuses::shares_policies, wanted)
        });
        let present = plan.present;
        queue.keep(|key| {
            let is_kept = keeps_gateway_api && key.kind.is_for_gateway_api()
                || keeps_policies && matches!(key.kind, WatchedKind::Policy(_));
            is_kept || present.contains(key)
        });
    }

    /// Takes over the transition times of objects that are new here: another replica may have written their status.
    fn remember(&self, queue: &Writes, statuses: &StoredStatuses) {
        let diagnoses = self.diagnoses.borrow().clone();
        for (diagnosis, key) in diagnoses.iter().filter_map(|one| Some((one, key(one)?))) {
            let stored = statuses.get(&key).filter(|_| !queue.knows(&key));
            if let (Some(stored), Some(uid)) = (stored, &diagnosis.version.uid) {
                self.observer.remember((key.kind.kind(), &key.name), uid, conditions(&stored.status));
            }
        }
    }
}

/// The wanted statuses of one moment.
struct Plan<'a> {
    queue: &'a mut Writes,
    statuses: &'a StoredStatuses,
    present: BTreeSet<ObjectKey>,
    now: Uptime,
}

/// The inputs of statuses that were wanted last, of objects that are judged together: thousands are computed only if one may be another.
struct JudgedPlan<V> {
    verdicts: Arc<V>,
    statuses: Arc<StoredStatuses>,
    at: Uptime,
}

/// Those of each group of kinds.
#[derive(Default)]
struct JudgedPlans {
    gateway_api: Option<JudgedPlan<GatewayApiVerdicts>>,
    policies: Option<JudgedPlan<PolicyVerdicts>>,
}

/// Whether no status of a group of kinds is another one.
type SharesStatuses = fn(&StoredStatuses, &StoredStatuses) -> bool;

impl<V> JudgedPlan<V> {
    /// Also after a while, for writes without a visible effect.
    fn is_outdated_by(&self, newest: &Self, shares: SharesStatuses) -> bool {
        let is_same = Arc::ptr_eq(&self.verdicts, &newest.verdicts);
        let has_same_statuses = shares(&newest.statuses, &self.statuses);
        !is_same || !has_same_statuses || newest.at >= self.at.saturating_add(REPEAT_AFTER)
    }
}

impl Plan<'_> {
    /// Has the statuses written that verdicts lead to, if they may be others than those that were wanted last. Returns whether all of
    /// these stay wanted.
    fn follow<V>(
        &mut self,
        last: &mut Option<JudgedPlan<V>>,
        newest: JudgedPlan<V>,
        shares: SharesStatuses,
        wanted: impl FnOnce(&V, &str) -> Vec<(ObjectKey, Value)>,
    ) -> bool {
        if last.as_ref().is_some_and(|last| !last.is_outdated_by(&newest, shares)) {
            return true;
        }
        for (key, status) in wanted(&newest.verdicts, &timestamp().to_string()) {
            self.want_whole(key, status);
        }
        *last = Some(newest);
        false
    }

    /// Has a status written, unless it is there.
    fn want(&mut self, key: ObjectKey, uid: &str, status: &impl Serialize) {
        self.want_unless(key, uid, status, apply::is_there);
    }

    /// Has a status written, unless this or another control plane has written it.
    fn want_by_any(&mut self, key: ObjectKey, uid: &str, status: &impl Serialize) {
        self.want_unless(key, uid, status, apply::is_there_by_any);
    }

    fn want_unless(
        &mut self,
        key: ObjectKey,
        uid: &str,
        status: &impl Serialize,
        is_there: impl Fn(&Value, &Value) -> bool,
    ) {
        if let Ok(wanted) = apply::applied(&key, uid, status) {
            let found = self.statuses.get(&key).map_or(&Value::Null, |stored| &stored.status);
            let is_there = wanted.get("status").is_some_and(|wanted| is_there(found, wanted));
            self.queue.want(&key, wanted, is_there, self.now);
        }
        self.keep(key);
    }

    /// Has a status of the Gateway API written as a whole, unless it is there: it has what others wrote into it.
    fn want_whole(&mut self, key: ObjectKey, status: Value) {
        if let Some(stored) = self.statuses.get(&key) {
            let is_there = apply::is_whole_there(&stored.status, &status);
            self.queue.want(&key, apply::replaced(stored, status), is_there, self.now);
        }
        self.keep(key);
    }

    /// Leaves an object as it is.
    fn keep(&mut self, key: ObjectKey) {
        self.present.insert(key);
    }
}

/// The key of the object that a diagnosis is about; none of files.
fn key(diagnosis: &Diagnosis) -> Option<ObjectKey> {
    let kinds = [WatchedKind::UpstreamCluster, WatchedKind::GatewaySettings, WatchedKind::Instance];
    let kind = kinds.into_iter().find(|kind| kind.kind() == diagnosis.kind)?;
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

/// Whether settings are an object of the API, which an instance names. One of a file may have its name and its UID.
fn is_of_api(settings: &ObjectStatus) -> bool {
    settings.diagnosis.at.is_none()
}

fn waits_for_envoys(instance: &ObjectStatus) -> bool {
    let ready = instance.status.condition(ConditionType::Ready);
    ready.is_some_and(|one| ["NoEnvoys", "NotServed", "Pending"].contains(&one.reason.as_str()))
}

fn waits_for_gateways(object: &ObjectStatus) -> bool {
    let reason = |kind| object.status.condition(kind).map(|one| one.reason.as_str());
    reason(ConditionType::Programmed) == Some("NoGateways")
        || [ConditionType::Ready, ConditionType::ShadowDiffers, ConditionType::LimitsShared]
            .into_iter()
            .any(|kind| reason(kind) == Some("NoReport"))
}

fn log_outcome(queue: &Writes, key: &ObjectKey, outcome: WriteOutcome, why: &str) {
    let (kind, name) = (key.kind.kind(), key.name.as_str());
    match outcome {
        WriteOutcome::Written if queue.is_away() => tracing::info!("the status is written to Kubernetes again"),
        WriteOutcome::Refused => tracing::warn!(kind, name, why, "Kubernetes refuses a status"),
        WriteOutcome::Away if !queue.is_away() => {
            tracing::warn!(kind, name, why, "the status cannot be written to Kubernetes")
        }
        _ => tracing::debug!(kind, name, ?outcome, why, "status"),
    }
}

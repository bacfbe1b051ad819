//! Status, written back to Kubernetes by the replica that leads.
//!
//! - [`desired`]: the status to write, and whether the server has it already.
//! - [`queue`]: what is written when; pure, time is an argument.
//! - [`apply`]: one write, as a server-side apply of the status alone.
//!
//! Translation never waits for it: the writer takes the newest status whenever it is free.

mod apply;
mod write_queue;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use kube::Client;
use portcullis_api::CLUSTER_KIND;
use portcullis_api::status::{Condition, ConditionType};
use portcullis_translate::Diagnosis;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::status::ObjectStatus;
use super::status_observer::StatusObserver;
use apply::apply;
use write_queue::{Uptime, WriteOutcome, WriteQueue};

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
    /// The `status` of each object as the server has it, by name.
    pub(super) statuses: watch::Receiver<Arc<BTreeMap<String, Value>>>,
    /// Changes when the objects have been reconciled anew.
    pub(super) diagnoses: watch::Receiver<Arc<Vec<Diagnosis>>>,
    /// The status of all objects.
    pub(super) observer: Arc<StatusObserver>,
}

impl Writer {
    /// Writes until the senders are gone.
    pub(super) async fn run(mut self) {
        let clusters = apply::clusters(self.client.clone());
        let start = Instant::now();
        let mut queue = WriteQueue::default();
        let mut writes = FuturesUnordered::new();
        let mut planned: Option<Instant> = None;
        let mut followed = None;
        loop {
            if !*self.leads.borrow_and_update() {
                self.follow(&mut queue, &mut followed);
                planned = None;
            } else if planned.is_none_or(|at| at.elapsed() >= PLAN_INTERVAL) {
                self.plan(&mut queue, start.elapsed());
                planned = Some(Instant::now());
            }
            while writes.len() < MAX_CONCURRENT_WRITES
                && let Some((name, object)) = queue.take(start.elapsed())
            {
                writes.push(apply(clusters.clone(), name, object));
            }
            let next = queue.next().filter(|_| writes.len() < MAX_CONCURRENT_WRITES);
            let pause = next.map_or(PLAN_INTERVAL, |next| next.saturating_sub(start.elapsed()).min(PLAN_INTERVAL));
            tokio::select! {
                Some((name, outcome, why)) = writes.next() => {
                    log_outcome(&queue, &name, outcome, &why);
                    queue.done(&name, outcome, start.elapsed());
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
    fn follow(&mut self, queue: &mut WriteQueue<Value>, followed: &mut Option<Arc<Vec<Diagnosis>>>) {
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
    fn plan(&self, queue: &mut WriteQueue<Value>, now: Uptime) {
        let statuses = self.statuses.borrow().clone();
        self.remember(queue, &statuses);
        let status = self.observer.status();
        let objects = status.objects.iter().filter_map(|object| Some((object, uid(object)?)));
        let mut present = std::collections::BTreeSet::new();
        for (object, uid) in objects {
            let name = &object.diagnosis.name;
            present.insert(name.clone());
            if now < RECONNECT_TIME && waits_for_gateways(object) {
                continue;
            }
            let Ok(wanted) = apply::applied(name, uid, &object.status) else { continue };
            let found = statuses.get(name).unwrap_or(&Value::Null);
            let is_there = wanted.get("status").is_some_and(|wanted| apply::is_there(found, wanted));
            queue.want(name, wanted, is_there, now);
        }
        queue.keep(|name| present.contains(name));
    }

    /// Takes over the transition times of objects that are new here: another replica may have written their status.
    fn remember(&self, queue: &WriteQueue<Value>, statuses: &BTreeMap<String, Value>) {
        let diagnoses = self.diagnoses.borrow().clone();
        let objects = diagnoses.iter().filter(|one| one.kind == CLUSTER_KIND && !queue.knows(&one.name));
        for (diagnosis, uid) in objects.filter_map(|one| Some((one, one.version.uid.as_deref()?))) {
            if let Some(status) = statuses.get(&diagnosis.name) {
                self.observer.remember(&diagnosis.name, uid, conditions(status));
            }
        }
    }
}

/// The conditions of ours in a status; those of others are not understood and left out.
fn conditions(status: &Value) -> Vec<Condition> {
    let listed = status.get("conditions").and_then(Value::as_array).into_iter().flatten();
    listed.filter_map(|one| serde_json::from_value(one.clone()).ok()).collect()
}

fn uid(object: &ObjectStatus) -> Option<&str> {
    object.diagnosis.version.uid.as_deref().filter(|_| object.diagnosis.kind == CLUSTER_KIND)
}

fn waits_for_gateways(object: &ObjectStatus) -> bool {
    let reason = |kind| object.status.condition(kind).map(|one| one.reason.as_str());
    reason(ConditionType::Programmed) == Some("NoGateways")
        || [ConditionType::Ready, ConditionType::ShadowDiffers, ConditionType::LimitsShared]
            .into_iter()
            .any(|kind| reason(kind) == Some("NoReport"))
}

fn log_outcome(queue: &WriteQueue<Value>, name: &str, outcome: WriteOutcome, why: &str) {
    match outcome {
        WriteOutcome::Written if queue.is_away() => tracing::info!("the status is written to Kubernetes again"),
        WriteOutcome::Refused => tracing::warn!(name, why, "Kubernetes refuses a status"),
        WriteOutcome::Away if !queue.is_away() => {
            tracing::warn!(name, why, "the status cannot be written to Kubernetes")
        }
        _ => tracing::debug!(name, ?outcome, why, "status"),
    }
}

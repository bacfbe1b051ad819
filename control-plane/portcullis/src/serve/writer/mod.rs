//! Status, written back to Kubernetes by the replica that leads.
//!
//! - [`desired`]: what is written, and whether it is there already.
//! - [`queue`]: what is written when; pure, time is an argument.
//! - [`apply`]: one write, as a server-side apply of the status alone.
//!
//! Translation never waits for it: it looks at what was judged last, whenever it gets to it.

mod apply;
mod desired;
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

use super::observer::Observer;
use super::status::Object;
use apply::apply;
use write_queue::{Moment, Outcome, WriteQueue};

/// Most writes at a time.
const AT_ONCE: usize = 8;
/// How often it is looked without a change: gateways' answers and reports are no changes of objects.
const TURN: Duration = Duration::from_secs(1);
/// How long an answer of the gateways to a change is waited for, which saves a write.
const DELAY: Duration = Duration::from_millis(150);
/// How long after the start nothing is said that is only because gateways have not come back yet.
const RETURN: Duration = Duration::from_secs(10);

/// What the writer needs.
pub(super) struct Writer {
    /// The API that the objects come from.
    pub(super) client: Client,
    /// Whether this replica leads.
    pub(super) leads: watch::Receiver<bool>,
    /// The `status` of each object as the server has it, by name.
    pub(super) statuses: watch::Receiver<Arc<BTreeMap<String, Value>>>,
    /// Tells when the objects have been judged anew.
    pub(super) diagnoses: watch::Receiver<Arc<Vec<Diagnosis>>>,
    /// What is judged.
    pub(super) observer: Arc<Observer>,
}

impl Writer {
    /// Writes until the senders are gone.
    pub(super) async fn run(mut self) {
        let clusters = apply::clusters(self.client.clone());
        let start = Instant::now();
        let mut queue = WriteQueue::default();
        let mut writes = FuturesUnordered::new();
        let mut planned: Option<Instant> = None;
        loop {
            if !*self.leads.borrow_and_update() {
                self.follow(&mut queue);
                planned = None;
            } else if planned.is_none_or(|at| at.elapsed() >= TURN) {
                self.plan(&mut queue, start.elapsed());
                planned = Some(Instant::now());
            }
            while writes.len() < AT_ONCE
                && let Some((name, object)) = queue.take(start.elapsed())
            {
                writes.push(apply(clusters.clone(), name, object));
            }
            let next = queue.next().filter(|_| writes.len() < AT_ONCE);
            let pause = next.map_or(TURN, |next| next.saturating_sub(start.elapsed()).min(TURN));
            tokio::select! {
                Some((name, outcome, why)) = writes.next() => {
                    tell(&queue, &name, outcome, &why);
                    queue.done(&name, outcome, start.elapsed());
                }
                changed = self.diagnoses.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    tokio::time::sleep(DELAY).await;
                    planned = None;
                }
                changed = self.leads.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Another replica writes: what it says of times holds here, too.
    fn follow(&mut self, queue: &mut WriteQueue<Value>) {
        queue.forget();
        if self.statuses.has_changed().unwrap_or_default() {
            let statuses = self.statuses.borrow_and_update().clone();
            self.remember(queue, &statuses);
        }
    }

    /// Tells the queue what every object's status is to be.
    fn plan(&self, queue: &mut WriteQueue<Value>, now: Moment) {
        let statuses = self.statuses.borrow().clone();
        self.remember(queue, &statuses);
        let status = self.observer.status();
        let objects = status.objects.iter().filter_map(|object| Some((object, uid(object)?)));
        let mut present = std::collections::BTreeSet::new();
        for (object, uid) in objects {
            let name = &object.diagnosis.name;
            present.insert(name.clone());
            if now < RETURN && waits_for_gateways(object) {
                continue;
            }
            let Ok(wanted) = desired::applied(name, uid, &object.status) else { continue };
            let found = statuses.get(name).unwrap_or(&Value::Null);
            let is_there = wanted.get("status").is_some_and(|wanted| desired::is_there(found, wanted));
            queue.want(name, wanted, is_there, now);
        }
        queue.keep(|name| present.contains(name));
    }

    /// Of objects that are new here, somebody else may have written the status: its times go on.
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

fn uid(object: &Object) -> Option<&str> {
    object.diagnosis.version.uid.as_deref().filter(|_| object.diagnosis.kind == CLUSTER_KIND)
}

fn waits_for_gateways(object: &Object) -> bool {
    let reason = |kind| object.status.condition(kind).map(|one| one.reason.as_str());
    reason(ConditionType::Programmed) == Some("NoGateways") || reason(ConditionType::Ready) == Some("NoReport")
}

fn tell(queue: &WriteQueue<Value>, name: &str, outcome: Outcome, why: &str) {
    match outcome {
        Outcome::Written if queue.is_away() => tracing::info!("the status is written to Kubernetes again"),
        Outcome::Refused => tracing::warn!(name, why, "Kubernetes refuses a status"),
        Outcome::Away if !queue.is_away() => tracing::warn!(name, why, "the status cannot be written to Kubernetes"),
        _ => tracing::debug!(name, ?outcome, why, "status"),
    }
}

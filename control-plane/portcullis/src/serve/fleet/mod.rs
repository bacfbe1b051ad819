//! Memory of the fleet: the newest activity of each gateway and cluster, an hour of history, changes of conditions. The
//! console and `portcullis top` read it as [`view`]s.
//!
//! | step | module |
//! |---|---|
//! | take a gateway's report | `activity`, of one process `process`, of one cluster in it `samples` |
//! | subtract two reports | `counts`, `growth`, `keys`, `rates` |
//! | remember the past | `history`, `transitions` |
//! | read what is served | `served_objects` |
//! | find gateways that go by their local limits | `local_limits` |
//! | make the views | `inputs`, `fleet_view`, `cluster_view`, `severity` |
//!
//! Everything is in memory and bounded, and time is an argument of all of it but [`Fleet`]. A control plane that restarts begins
//! anew, and has numbers after two reports of each gateway.

mod activity;
mod cluster_view;
mod counts;
mod fleet_time;
mod fleet_view;
mod growth;
mod history;
mod inputs;
mod keys;
mod local_limits;
mod process;
mod rates;
mod samples;
mod served_objects;
mod severity;
#[cfg(test)]
mod tests;
mod transitions;
pub(crate) mod view;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use portcullis_translate::object_word;
use portcullis_xds::{GatewayReport, UnreadableReport};
use tokio::sync::watch;

use activity::GatewayActivity;
use cluster_view::cluster_view;
pub(crate) use fleet_time::FleetTime;
use fleet_view::{fleet_view, rates_by_cluster};
use history::Histories;
use inputs::{Inputs, objects};
use local_limits::limit_facts;
use process::NO_CLUSTER;
pub(crate) use served_objects::{ServedObjectCache, ServedObjects, SharedLimits};
use transitions::Transitions;
use view::{ClusterView, FleetView};

use super::limit_reports::LimitReports;
use super::report_origin::ReportOrigin;
use super::shadow_reports::ShadowReports;
use super::status::{ObjectStatus, StatusBody};
use super::status_observer::StatusObserver;
use crate::activity_report::{ReadError, ReportPart};

/// The age to which a view of the fleet is reused, so that many readers cost no more than one.
const MAX_VIEW_AGE: Duration = Duration::from_secs(1);
/// The interval of looking for changes.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// The time after which views have changed in any case: they hold ages.
const MAX_QUIET: Duration = Duration::from_secs(5);

/// The state of the fleet.
pub(crate) struct Fleet {
    observer: Arc<StatusObserver>,
    served: watch::Receiver<Arc<ServedObjects>>,
    shadows: Arc<ShadowReports>,
    limits: Arc<LimitReports>,
    memory: Mutex<Memory>,
    newest: Mutex<Option<(Instant, Arc<FleetView>)>>,
    changes: watch::Sender<u64>,
}

/// Everything that is remembered.
#[derive(Debug, Default)]
struct Memory {
    activity: GatewayActivity,
    histories: Histories,
    transitions: Transitions,
    /// The UID of each object, by name, as soon as the source was read.
    owners: Option<BTreeMap<String, String>>,
    /// The objects with the instances that had them at the last look.
    divided: Arc<ServedObjects>,
    /// Whether a report was taken since the last look.
    is_news: bool,
    /// When readers were last notified.
    notified: Option<Instant>,
}

impl Fleet {
    /// A fleet that hands on what gateways report about `shadows` and about `limits` of all gateways.
    pub(super) fn new(
        observer: Arc<StatusObserver>,
        served: watch::Receiver<Arc<ServedObjects>>,
        shadows: Arc<ShadowReports>,
        limits: Arc<LimitReports>,
    ) -> Self {
        let changes = watch::Sender::new(0);
        Self { observer, served, shadows, limits, memory: Mutex::default(), newest: Mutex::default(), changes }
    }

    /// All clusters, worst first, and all gateways; at most a second old.
    pub(crate) fn fleet(&self, now: FleetTime) -> Arc<FleetView> {
        // The lock is held meanwhile: of readers who come together, one makes the view.
        let mut newest = lock(&self.newest);
        if let Some((at, view)) = &*newest
            && now.since(*at) < MAX_VIEW_AGE
        {
            return Arc::clone(view);
        }
        let status = self.observer.status();
        let view = self.with_inputs(&status, now, |inputs, _| Arc::new(fleet_view(inputs)));
        *newest = Some((now.uptime, Arc::clone(&view)));
        view
    }

    /// Everything about one cluster; `None` if no object has that name. `-` is for requests that reached none.
    pub(crate) fn cluster(&self, name: &str, now: FleetTime) -> Option<ClusterView> {
        let status = self.observer.status();
        self.with_inputs(&status, now, |inputs, memory| {
            cluster_view(inputs, name, &memory.histories, &memory.transitions)
        })
    }

    /// Changes when the views do, at most once a second.
    pub(crate) fn changed(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Follows the objects and writes history until the runtime ends.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut turns = tokio::time::interval(WATCH_INTERVAL);
        turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            if self.look(&self.observer.last_status(), FleetTime::now()) {
                self.changes.send_modify(|changes| *changes += 1);
            }
        }
    }

    /// Returns whether readers should look again.
    fn look(&self, status: &StatusBody, now: FleetTime) -> bool {
        let mut memory = lock(&self.memory);
        // Within the lock, so that none is taken for newer than one that is followed already.
        let served = self.served.borrow().clone();
        memory.follow_instances(&served, &self.shadows);
        let is_due = memory.look(status, &served, now);
        self.limits.replace(limit_facts(&memory.activity, &served, now));
        is_due
    }

    fn with_inputs<T>(&self, status: &StatusBody, now: FleetTime, make: impl FnOnce(Inputs<'_>, &Memory) -> T) -> T {
        let mut memory = lock(&self.memory);
        // Within the lock, so that none is taken for newer than one that is followed already.
        let served = self.served.borrow().clone();
        memory.follow_instances(&served, &self.shadows);
        memory.follow_owners(status);
        make(Inputs { status, served: &served, activity: &memory.activity, now }, &memory)
    }

    fn record(&self, from: ReportOrigin<'_>, report: &ReportPart, at: Instant) -> Result<(), ReadError> {
        let mut clusters = report.clusters().collect::<Result<Vec<_>, _>>()?;
        let mut memory = lock(&self.memory);
        let served = self.served.borrow().clone();
        clusters.retain(|cluster| served.may_report(from.membership, &cluster.cluster));
        self.shadows.take(from, report.process, &clusters, at);
        memory.activity.take(from, report, clusters, at);
        memory.is_news |= !report.more;
        Ok(())
    }
}

impl Memory {
    /// Follows the objects. Returns whether readers should look again.
    fn look(&mut self, status: &StatusBody, served: &ServedObjects, now: FleetTime) -> bool {
        self.follow_owners(status);
        let inputs = Inputs { status, served, activity: &self.activity, now };
        let objects = inputs.objects();
        let conditions = objects.iter().map(|(name, object)| (*name, object.status.conditions.as_slice()));
        self.is_news |= self.transitions.look(conditions, now);
        if self.histories.is_due(now) {
            let is_known = |name: &str| name == NO_CLUSTER || objects.contains_key(name);
            self.histories.add(&rates_by_cluster(&inputs), is_known, now);
        }
        self.activity.forget_gone(now.uptime);
        self.is_due(now)
    }

    /// Forgets what gateways of former owners have reported about objects that passed over.
    fn follow_instances(&mut self, served: &Arc<ServedObjects>, shadows: &ShadowReports) {
        if Arc::ptr_eq(&self.divided, served) {
            return;
        }
        for name in served.with_other_owners(&self.divided) {
            self.activity.forget_foreign(name, |membership| served.may_report(membership, name));
            shadows.forget_foreign(name, |membership| served.may_report(membership, name));
        }
        self.divided = Arc::clone(served);
    }

    /// Forgets everything about a name that is another object's since the last time: its owner may be another tenant.
    fn follow_owners(&mut self, status: &StatusBody) {
        // Before the source was read, nothing is known of its objects.
        if status.snapshot.is_empty() {
            return;
        }
        let uid = |object: &ObjectStatus| object.diagnosis.version.uid.clone().unwrap_or_default();
        let owners: BTreeMap<String, String> =
            objects(status).into_iter().map(|(name, object)| (name.to_owned(), uid(object))).collect();
        if self.owners.as_ref() == Some(&owners) {
            return;
        }
        let before = self.owners.take().unwrap_or_default();
        let gone = before.iter().filter(|(name, uid)| owners.get(*name) != Some(*uid));
        for (name, _) in gone {
            self.activity.forget_cluster(name);
            self.histories.forget(name);
            self.transitions.forget(name);
        }
        // At the same time: a report that comes next must not be taken for the former object's.
        let word = |uid: &str| if uid.is_empty() { String::new() } else { object_word(uid) };
        self.activity.follow(owners.iter().map(|(name, uid)| (name.clone(), word(uid))).collect());
        self.owners = Some(owners);
    }

    /// Whether readers should look again.
    fn is_due(&mut self, now: FleetTime) -> bool {
        let is_quiet = self.notified.is_some_and(|notified| now.since(notified) < MAX_QUIET);
        if is_quiet && !self.is_news {
            return false;
        }
        (self.is_news, self.notified) = (false, Some(now.uptime));
        true
    }
}

impl Fleet {
    /// Takes a gateway's report of its activity.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn take(&self, report: GatewayReport) -> Result<(), UnreadableReport> {
        // There is one instance id. A gateway that names one knows of several.
        if !report.instance.is_empty() && report.instance != self.served.borrow().instance {
            return Ok(());
        }
        let read = ReportPart::read(report.content.clone())
            .and_then(|part| self.record(ReportOrigin::of(&report), &part, Instant::now()));
        read.map_err(|error| UnreadableReport(error.to_string()))
    }
}

/// A panic elsewhere leaves at most one report half taken.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

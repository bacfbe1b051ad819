//! Memory of the fleet: the newest activity of each gateway and cluster, an hour of history, changes of conditions. The
//! console and `portcullis top` read it as [`view`]s.
//!
//! | step | module |
//! |---|---|
//! | take a gateway's report | `activity`, of one process `process`, of one cluster in it `samples`; of a Gateway's Envoy `at_gateways` |
//! | subtract two reports | `counts`, `growth`, `keys`, `rates` |
//! | remember the past | `history`, `transitions` |
//! | read what is served | `served_objects` |
//! | find gateways that go by their local limits | `local_limits` |
//! | make the views | `inputs`, `fleet_view`, `cluster_view`, `severity` |
//!
//! Everything is in memory and bounded, and time is an argument of all of it but [`Fleet`]. A control plane that restarts begins
//! anew, and has numbers after two reports of each gateway.

mod activity;
mod at_gateways;
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

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use portcullis_translate::object_word;
use portcullis_xds::{GatewayReport, Membership, UnreadableReport};
use tokio::sync::watch;

use activity::GatewayActivity;
use at_gateways::ActivityAtGateways;
use cluster_view::cluster_view;
pub(crate) use fleet_time::FleetTime;
use fleet_view::{fleet_view, rates_by_cluster};
use history::Histories;
use inputs::Inputs;
use local_limits::SharedLimitFacts;
use process::{KnownObjects, NO_CLUSTER};
pub(crate) use served_objects::{ServedObjectCache, ServedObjects, SharedLimits};
use transitions::Transitions;
use view::{ClusterView, FleetView};

use super::limit_reports::LimitReports;
use super::object_status::ObjectStatus;
use super::object_statuses::ObjectStatuses;
use super::report_origin::ReportOrigin;
use super::shadow_reports::ShadowReports;
use super::status::StatusBody;
use super::status_observer::StatusObserver;
use crate::activity_report::{ClusterMessage, ReadError, ReportPart};

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
    at_gateways: ActivityAtGateways,
    histories: Histories,
    transitions: Transitions,
    /// The UID of each object, by name, and the statuses that they are from, as soon as the source was read.
    owners: Option<(BTreeMap<String, String>, Arc<ObjectStatuses>)>,
    /// The statuses at the last look.
    seen: Arc<ObjectStatuses>,
    limits: SharedLimitFacts,
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
        let view = self.with_inputs(&status, now, |inputs, memory| {
            let at_gateways = memory.at_gateways.lines(None, inputs.served, now);
            Arc::new(FleetView { at_gateways, ..fleet_view(inputs) })
        });
        *newest = Some((now.uptime, Arc::clone(&view)));
        view
    }

    /// Everything about one cluster; `None` if no object has that name. `-` is for requests that reached none.
    pub(crate) fn cluster(&self, name: &str, now: FleetTime) -> Option<ClusterView> {
        let status = self.observer.status();
        self.with_inputs(&status, now, |inputs, memory| {
            let view = cluster_view(inputs, name, &memory.histories, &memory.transitions)?;
            Some(ClusterView { at_gateways: memory.at_gateways.lines(Some(name), inputs.served, now), ..view })
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
        let Memory { limits, activity, .. } = &mut *memory;
        self.limits.replace(limits.follow(activity, &served, now));
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
        let clusters = report.clusters().collect::<Result<Vec<_>, _>>()?;
        let mut memory = lock(&self.memory);
        // Within the lock, so that none is taken for newer than one that is followed already.
        let served = self.served.borrow().clone();
        memory.take(from, (report, clusters), (&served, &self.shadows), at);
        Ok(())
    }
}

impl Memory {
    /// Follows the objects. Returns whether readers should look again.
    fn look(&mut self, status: &StatusBody, served: &ServedObjects, now: FleetTime) -> bool {
        self.follow_owners(status);
        self.look_at_conditions(status, now);
        let inputs = Inputs { status, served, activity: &self.activity, now };
        if self.histories.is_due(now) {
            let is_known = |name: &str| name == NO_CLUSTER || status.objects.cluster(name).is_some();
            self.histories.add(&rates_by_cluster(&inputs), is_known, now);
        }
        self.activity.forget_gone(now.uptime);
        self.at_gateways.forget_gone(now.uptime);
        self.is_due(now)
    }

    /// Takes what a gateway reports about objects that its instance or its Gateway has. That of an owner between two looks would else
    /// outlive its part of an object that has the same owner at both.
    fn take(
        &mut self,
        from: ReportOrigin<'_>,
        (report, mut clusters): (&ReportPart, Vec<ClusterMessage>),
        (served, shadows): (&Arc<ServedObjects>, &ShadowReports),
        at: Instant,
    ) {
        self.follow_instances(served, shadows);
        let sent = clusters.len();
        clusters.retain(|cluster| served.may_report(from.membership, &cluster.cluster));
        // One that is left out and comes later had counts before: after a start nothing is known of owners and views.
        let lacking = (clusters.len() < sent).then(|| report.lacking());
        let report = lacking.as_ref().unwrap_or(report);
        if from.membership.gateway().is_some() {
            // No reader is woken by what a tenant may repeat without end.
            self.at_gateways.take(from, report, clusters, at);
            return;
        }
        shadows.take(from, report.process, &clusters, at);
        self.activity.take(from, report, clusters, at);
        self.is_news |= !report.more;
    }

    /// Forgets what gateways of former owners have reported about objects that passed over, and those of Gateways about objects that their
    /// views had before.
    fn follow_instances(&mut self, served: &Arc<ServedObjects>, shadows: &ShadowReports) {
        if Arc::ptr_eq(&self.divided, served) {
            return;
        }
        let before = std::mem::replace(&mut self.divided, Arc::clone(served));
        self.at_gateways.follow_views(served, &before);
        let names = served.passed_over_since(&before);
        if names.is_empty() {
            return;
        }
        let may_report = |membership: &Membership, name: &str| served.may_report(membership, name);
        self.activity.forget_clusters(&names, may_report);
        shadows.forget_foreign(&names, may_report);
    }

    /// Forgets everything about a name that is another object's since the last time: its owner may be another tenant.
    fn follow_owners(&mut self, status: &StatusBody) {
        // Before the source was read, nothing is known of its objects.
        if status.snapshot.is_empty() {
            return;
        }
        let objects = &status.objects;
        let uid = |object: &ObjectStatus| object.diagnosis.version.uid.clone().unwrap_or_default();
        let word = |uid: &str| if uid.is_empty() { String::new() } else { object_word(uid) };
        let Some((owners, followed)) = &mut self.owners else {
            let none = ObjectStatuses::default();
            let named = objects
                .changed_names(&none)
                .into_iter()
                .filter_map(|name| Some((name.to_owned(), uid(objects.cluster(name)?))));
            let owners: BTreeMap<String, String> = named.collect();
            let words: KnownObjects = owners.iter().map(|(name, uid)| (name.clone(), word(uid))).collect();
            self.activity.follow(words.clone());
            self.at_gateways.follow(words);
            self.owners = Some((owners, Arc::clone(objects)));
            return;
        };
        if Arc::ptr_eq(followed, objects) {
            return;
        }
        let before = std::mem::replace(followed, Arc::clone(objects));
        let (mut changed, mut gone) = (BTreeMap::new(), BTreeSet::new());
        for name in objects.changed_names(&before) {
            let owner = objects.cluster(name).map(uid);
            if owners.get(name) == owner.as_ref() {
                continue;
            }
            changed.insert(name, owner.as_deref().map(word));
            let former = match owner {
                Some(owner) => owners.insert(name.to_owned(), owner),
                None => owners.remove(name),
            };
            if former.is_some() {
                gone.insert(name);
            }
        }
        // At the same time: a report that comes next must not be taken for a former object's.
        self.activity.follow_some(&changed);
        self.activity.forget_clusters(&gone, |_, _| false);
        self.at_gateways.follow_some(&changed);
        self.at_gateways.forget_clusters(&gone);
        for name in gone {
            self.histories.forget(name);
            self.transitions.forget(name);
        }
    }

    /// Looks for changes of conditions since the last look.
    fn look_at_conditions(&mut self, status: &StatusBody, now: FleetTime) {
        if Arc::ptr_eq(&self.seen, &status.objects) {
            return;
        }
        let before = std::mem::replace(&mut self.seen, Arc::clone(&status.objects));
        for name in status.objects.changed_names(&before) {
            match status.objects.cluster(name) {
                Some(object) => self.is_news |= self.transitions.look(name, &object.status.conditions, now),
                None => self.transitions.forget(name),
            }
        }
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

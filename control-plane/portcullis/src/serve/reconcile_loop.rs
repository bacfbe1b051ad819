//! Follows the source: runs the [`Reconciler`] for each newer set of objects, and publishes its snapshot and diagnoses. The
//! reconciler has the steps in between, such as the fallback to an accepted version.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_attach::ObjectName;
use portcullis_sources::ObjectSet;
use portcullis_translate::Diagnosis;
use portcullis_xds::{Registry, Snapshot};
use tokio::sync::watch;

use super::diagnosis_log::DiagnosisLog;
use super::discovery::DiscoveryHandle;
use super::edit_traces::{EditTraces, PublishedEdit};
use super::explained_diagnoses::diagnosis_of_file;
use super::fleet::ServedObjects;
use super::gateway_views::{GatewayDemand, GatewayLink, GatewayOutcome, served_version, without_gateways};
use super::instance_views::{GatewayOwners, InstanceStates};
use super::metrics::{ControlPlaneMetrics, Origin};
use super::reconciler::{ReconcileError, Reconciled, Reconciler};
use super::state::{LastGood, SavedState, StateSender};
use super::wanted_views::{WantedView, WantedViews, other_than};
use super::watchdog::Watchdog;

/// Receivers of the results.
pub(super) struct Outputs {
    pub(super) snapshots: watch::Sender<Option<Arc<Snapshot>>>,
    pub(super) diagnoses: watch::Sender<Arc<Vec<Arc<Diagnosis>>>>,
    pub(super) served: watch::Sender<Arc<ServedObjects>>,
    pub(super) instances: watch::Sender<Arc<InstanceStates>>,
    /// The number of the policies at doors that are served.
    pub(super) doors_served: watch::Sender<u64>,
    pub(super) metrics: Arc<ControlPlaneMetrics>,
    pub(super) watchdog: Arc<Watchdog>,
    /// Saves the snapshot for the next start; none without --state-dir.
    pub(super) state: Option<StateSender>,
    /// Traces of edits, and the gateways that acknowledge them.
    pub(super) traces: Option<(Arc<EditTraces>, Arc<Registry>)>,
}

/// Reconciles every newer set of objects and publishes the result.
pub(super) struct ReconcileLoop {
    outputs: Outputs,
    reconciler: Reconciler,
    log: DiagnosisLog,
    /// The snapshot from before this program started, served until the source has led to one.
    last_good: LastGood,
    /// Whether a source without any object is taken for what the operator wants.
    trusts_empty_source: bool,
    /// Has servers discovered.
    discovery: DiscoveryHandle,
    /// The Gateway API.
    gateways: GatewayLink,
    /// The objects that were reconciled last.
    traced: Arc<ObjectSet>,
}

impl ReconcileLoop {
    pub(super) fn new(
        outputs: Outputs,
        mut last_good: LastGood,
        trusts_empty_source: bool,
        revoked_reference_grace: Duration,
        discovery: DiscoveryHandle,
        gateways: GatewayLink,
    ) -> Self {
        if gateways.serves_none() {
            last_good.snapshot = last_good.snapshot.map(|snapshot| Arc::new(without_gateways(&snapshot)));
        }
        let mut reconciler = Reconciler::resume(last_good.snapshot.as_deref(), revoked_reference_grace);
        reconciler.resume_gateways(std::mem::take(&mut last_good.gateway_owners));
        let log = DiagnosisLog::default();
        let traced = Arc::default();
        let this = Self { outputs, reconciler, log, last_good, trusts_empty_source, discovery, gateways, traced };
        if let Some(snapshot) = this.last_good.snapshot.clone() {
            this.publish(snapshot, None, Instant::now());
        }
        let diagnoses = this.last_good.diagnoses();
        this.outputs.diagnoses.send_replace(Arc::new(diagnoses));
        this
    }

    /// Has the owners of clusters follow those that statuses name, while another replica leads and writes them.
    pub(super) fn follow_leader(&mut self, leads: watch::Receiver<bool>) {
        self.reconciler.follow_leader(leads);
    }

    /// Runs until the senders are gone.
    pub(super) async fn run(
        mut self,
        mut objects: watch::Receiver<Arc<ObjectSet>>,
        mut filters: watch::Receiver<WantedViews>,
    ) {
        loop {
            let newest = objects.borrow_and_update().clone();
            let now = Instant::now();
            let wanted = filters.borrow_and_update().at(now);
            self.follow(newest, wanted.clone(), now).await;
            if !self.wait(&mut objects, (&wanted, &mut filters)).await {
                return;
            }
        }
    }

    /// Waits for newer objects, for other wanted views, for other discovered servers or Gateways, or for an expiry, which is past while
    /// edits wait; false if the senders are gone.
    async fn wait(
        &mut self,
        objects: &mut watch::Receiver<Arc<ObjectSet>>,
        (wanted, filters): (&BTreeSet<WantedView>, &mut watch::Receiver<WantedViews>),
    ) -> bool {
        let answers = &mut self.discovery.answers;
        let gateways = &mut self.gateways;
        let changed = async {
            tokio::select! {
                () = gateways.changed() => true,
                changed = objects.changed() => changed.is_ok(),
                changed = answers.changed() => changed.is_ok(),
                is_open = other_than(wanted, filters) => is_open,
            }
        };
        match self.reconciler.next_expiry() {
            None => changed.await,
            Some(expiry) => tokio::time::timeout_at(expiry.into(), changed).await.unwrap_or(true),
        }
    }

    async fn follow(&mut self, objects: Arc<ObjectSet>, wanted: BTreeSet<WantedView>, now: Instant) {
        self.outputs.metrics.source(objects.is_stale());
        let is_empty = objects.clusters.is_empty() && objects.settings.is_empty();
        if is_empty && self.last_good.snapshot.is_some() && !self.trusts_empty_source {
            let mut diagnoses = self.last_good.diagnoses();
            diagnoses.extend(objects.diagnoses.iter().map(|file| Arc::new(diagnosis_of_file(file))));
            diagnoses.push(Arc::new(self.last_good.diagnosis_of_empty_source()));
            self.report(&objects, diagnoses);
            return;
        }
        // One demand for both: the Services of a newer one were not wanted yet, and it would count as seen.
        let (demand, claimed) = self.gateways.newest();
        let doors_number = demand.as_ref().map_or(0, |newest| newest.doors_number);
        let gateways = (demand.map(|newest| newest.demand), claimed);
        let mut outcome = self.reconcile(&objects, wanted.clone(), gateways.clone(), now).await;
        if let Ok(reconciled) = &outcome
            && self.discovery.want(&reconciled.wants, reconciled.gateways.0.is_some()).await
        {
            outcome = self.reconcile(&objects, wanted, gateways, now).await;
        }
        match outcome {
            Ok(mut reconciled) => {
                let objects = reconciled.paced.take().unwrap_or(objects);
                self.last_good = LastGood::default();
                self.outputs.metrics.reconciled(&reconciled.diagnoses, now.elapsed());
                self.outputs.metrics.revoked_references(reconciled.serving_revoked);
                self.outputs.metrics.edits_waiting(&reconciled.waiting);
                self.trace(&objects, &reconciled, now);
                self.outputs.served.send_replace(Arc::new(reconciled.served));
                self.outputs.instances.send_replace(reconciled.instances);
                // In this order: a reader of the diagnoses and then of the snapshot never takes an older snapshot for the
                // result of an object's newest version.
                let snapshot = Arc::new(reconciled.snapshot);
                let (served, refusals, owners) = reconciled.gateways;
                self.publish(Arc::clone(&snapshot), Some(owners), now);
                self.outputs.doors_served.send_replace(doors_number);
                self.gateways.outcome.send_replace(Arc::new(GatewayOutcome {
                    served: served.unwrap_or_default(),
                    snapshot: Some(snapshot),
                    refusals,
                    progress: reconciled.progress,
                }));
                self.report(&objects, reconciled.diagnoses);
            }
            Err(ReconcileError::NoSettings(mut diagnoses)) => {
                self.outputs.metrics.reconciled(&diagnoses, now.elapsed());
                diagnoses.extend(self.last_good.diagnoses());
                self.report(&objects, diagnoses);
            }
        }
    }

    /// Reconciles on a thread of its own: thousands of objects take seconds, in which a worker of the runtime would serve no
    /// stream. A panic there is a panic here.
    async fn reconcile(
        &mut self,
        objects: &Arc<ObjectSet>,
        wanted: BTreeSet<WantedView>,
        (demand, claimed): (Option<Arc<GatewayDemand>>, BTreeSet<ObjectName>),
        now: Instant,
    ) -> Result<Reconciled, ReconcileError> {
        let mut reconciler = std::mem::take(&mut self.reconciler);
        reconciler.discover(self.discovery.answers.borrow_and_update().clone());
        reconciler.serve_gateways(demand, claimed);
        let objects = Arc::clone(objects);
        let work = tokio::task::spawn_blocking(move || {
            let result = reconciler.reconcile(&objects, &wanted, now);
            (reconciler, result)
        });
        let blocked = self.outputs.watchdog.block();
        let done = work.await;
        drop(blocked);
        match done {
            Ok((reconciler, result)) => {
                self.reconciler = reconciler;
                result
            }
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Has an edit traced that gateways learn of next.
    fn trace(&mut self, objects: &Arc<ObjectSet>, reconciled: &Reconciled, now: Instant) {
        let Some((traces, registry)) = &self.outputs.traces else { return };
        let before = std::mem::replace(&mut self.traced, Arc::clone(objects));
        // Another build of the filter, or an expiry, is no edit.
        if Arc::ptr_eq(&before, objects) {
            return;
        }
        let noticed = objects.noticed.0.unwrap_or(now);
        let mut steps = vec![("read", noticed, now)];
        steps.extend(&reconciled.steps);
        let served = self.outputs.snapshots.borrow().clone();
        let is_new = served.is_none_or(|served| is_other(&served, &reconciled.snapshot));
        traces.published(&PublishedEdit {
            objects: (&before, objects),
            diagnoses: &reconciled.diagnoses,
            steps: &steps,
            snapshot: is_new.then_some(&reconciled.snapshot),
            registry,
        });
    }

    fn report(&mut self, objects: &Arc<ObjectSet>, diagnoses: Vec<Arc<Diagnosis>>) {
        self.log.follow(objects, &diagnoses);
        self.outputs.diagnoses.send_replace(Arc::new(diagnoses));
    }

    /// Publishes a snapshot, with the owners of Gateways if it comes from the source.
    fn publish(&self, snapshot: Arc<Snapshot>, owners: Option<Arc<GatewayOwners>>, since: Instant) {
        let origin = if owners.is_some() { Origin::Source } else { Origin::LastGood };
        if let (Some(state), Some(gateway_owners)) = (&self.outputs.state, owners) {
            state.save(SavedState { snapshot: Arc::clone(&snapshot), gateway_owners });
        }
        let before = self.outputs.snapshots.borrow().clone();
        let is_new = before.is_none_or(|before| is_other(&before, &snapshot));
        self.outputs.metrics.published(&snapshot, origin, since, is_new);
        if is_new {
            tracing::info!(snapshot = served_version(&snapshot), "serving");
            self.outputs.snapshots.send_replace(Some(snapshot));
        }
    }
}

/// Whether two snapshots differ. The hashes of their contents are compared first: of thousands of resources the first ones may be the
/// same.
pub(super) fn is_other(one: &Snapshot, other: &Snapshot) -> bool {
    one.version() != other.version() || one != other
}

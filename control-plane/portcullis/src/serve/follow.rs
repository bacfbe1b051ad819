use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_sources::ObjectSet;
use portcullis_translate::{Diagnosis, FilterBuild};
use portcullis_xds::Snapshot;
use tokio::sync::watch;

use super::metrics::{Metrics, Origin};
use super::state::{Keeper, LastGood};
use super::tell::Teller;
use super::{Model, ModelError};

/// Where the outcome goes.
pub(super) struct Outlets {
    pub(super) snapshots: watch::Sender<Option<Arc<Snapshot>>>,
    pub(super) diagnoses: watch::Sender<Arc<Vec<Diagnosis>>>,
    pub(super) metrics: Arc<Metrics>,
    /// Where what is served is kept for the next start.
    pub(super) keeper: Option<Keeper>,
}

/// Translates sets of objects and serves what they lead to.
pub(super) struct Follower {
    outlets: Outlets,
    model: Model,
    teller: Teller,
    /// What was served before this program started; until the source has led to something, it is served still.
    last_good: LastGood,
    /// Whether a source without any object may be meant so.
    trusts_emptiness: bool,
}

impl Follower {
    pub(super) fn new(outlets: Outlets, last_good: LastGood, trusts_emptiness: bool, keep_withdrawn: Duration) -> Self {
        let model = Model::after(last_good.snapshot.as_deref(), keep_withdrawn);
        let follower = Self { outlets, model, teller: Teller::default(), last_good, trusts_emptiness };
        if let Some(snapshot) = follower.last_good.snapshot.clone() {
            follower.publish(snapshot, Origin::LastGood, Instant::now());
        }
        let told = follower.last_good.told();
        follower.outlets.diagnoses.send_replace(Arc::new(told));
        follower
    }

    /// Takes every newer set of objects, until there will be no more.
    pub(super) async fn follow(
        mut self,
        mut objects: watch::Receiver<Arc<ObjectSet>>,
        mut filters: watch::Receiver<BTreeSet<FilterBuild>>,
    ) {
        loop {
            let newest = objects.borrow_and_update().clone();
            let wanted = filters.borrow_and_update().clone();
            self.take(&newest, &wanted, Instant::now());
            if !self.wait(&mut objects, &mut filters).await {
                return;
            }
        }
    }

    /// Until there are newer objects, an Envoy with another build of the filter has come, or what they lead to changes by itself; false if
    /// there will be none.
    async fn wait(
        &self,
        objects: &mut watch::Receiver<Arc<ObjectSet>>,
        filters: &mut watch::Receiver<BTreeSet<FilterBuild>>,
    ) -> bool {
        let changed = async {
            tokio::select! {
                changed = objects.changed() => changed.is_ok(),
                changed = filters.changed() => changed.is_ok(),
            }
        };
        match self.model.next_change() {
            None => changed.await,
            Some(then) => tokio::time::timeout_at(then.into(), changed).await.unwrap_or(true),
        }
    }

    fn take(&mut self, objects: &Arc<ObjectSet>, filters: &BTreeSet<FilterBuild>, now: Instant) {
        self.outlets.metrics.source(objects.is_stale());
        let is_empty = objects.clusters.is_empty() && objects.settings.is_empty();
        let mut told = self.last_good.told();
        if is_empty && self.last_good.snapshot.is_some() && !self.trusts_emptiness {
            told.extend(objects.diagnoses.iter().map(super::model::file));
            told.push(self.last_good.told_empty());
            self.finish(objects, told);
            return;
        }
        let outcome = self.model.update(objects, filters, now);
        match outcome {
            Ok(update) => {
                self.last_good = LastGood::default();
                self.outlets.metrics.translated(&update.diagnoses, now.elapsed());
                self.outlets.metrics.withdrawn(update.withdrawn);
                // In this order: whoever reads the diagnoses and then the snapshot never takes an older snapshot for what
                // the newest version of an object led to.
                self.publish(Arc::new(update.snapshot), Origin::Source, now);
                self.finish(objects, update.diagnoses);
            }
            Err(ModelError::Settings(diagnoses)) => {
                self.outlets.metrics.translated(&diagnoses, now.elapsed());
                told.splice(..0, diagnoses);
                self.finish(objects, told);
            }
        }
    }

    fn finish(&mut self, objects: &Arc<ObjectSet>, diagnoses: Vec<Diagnosis>) {
        self.teller.tell(objects, &diagnoses);
        self.outlets.diagnoses.send_replace(Arc::new(diagnoses));
    }

    fn publish(&self, snapshot: Arc<Snapshot>, origin: Origin, since: Instant) {
        if let (Some(keeper), Origin::Source) = (&self.outlets.keeper, origin) {
            keeper.keep(Arc::clone(&snapshot));
        }
        let before = self.outlets.snapshots.borrow().clone();
        let is_new = before.is_none_or(|before| *before != *snapshot);
        self.outlets.metrics.published(&snapshot, origin, since, is_new);
        if is_new {
            tracing::info!(snapshot = snapshot.version(), "serving");
            self.outlets.snapshots.send_replace(Some(snapshot));
        }
    }
}

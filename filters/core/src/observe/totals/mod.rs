//! The activity of one cluster over all its configurations: what was published of its counts, added up, and its limits as they
//! are. Fed once a second where counts are published, so that no request pays for it.

mod answers;
mod limits;
mod policies;
mod shadows;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_filter_config::activity::{ClusterActivity, ShadowDifference};
use portcullis_filter_config::{GENERATION_MARK, object_name, without_generation};

use self::answers::AnswerTotals;
use self::limits::LimitTotals;
pub(super) use self::limits::{Limit, LimitSource};
use self::policies::PolicyTotals;
use self::shadows::ShadowTotals;
use super::Outcome;
use super::responses::AnsweredRequests;
use super::running::RunningRequests;
use super::servers::ServerLabels;
use super::talkers::{TalkerBudget, Talkers};
use crate::refusal::Cause;

/// The cumulative counts of one cluster. Configurations of the cluster share them, if they are of one object; freed with the last
/// one.
#[derive(Debug)]
pub struct ClusterTotals {
    name: Box<str>,
    /// The object of that name that the counts belong to; empty where it has no mark.
    object: Box<str>,
    /// The number of the newest configuration.
    configured: AtomicU64,
    running: Arc<RunningRequests>,
    budget: Arc<TalkerBudget>,
    counts: Mutex<ClusterSums>,
}

/// The numbers of a cluster, while they are read or added to.
#[derive(Debug, Default)]
pub(super) struct ClusterSums {
    policies: PolicyTotals,
    answers: AnswerTotals,
    limits: LimitTotals,
    shadows: ShadowTotals,
    talkers: Option<Arc<Talkers>>,
}

impl ClusterTotals {
    /// For the cluster of this name, with the object's mark behind it.
    pub(crate) fn new(cluster: &str, running: Arc<RunningRequests>, budget: &Arc<TalkerBudget>) -> Self {
        let name = without_generation(cluster);
        let object = cluster.get(name.len()..).unwrap_or_default().trim_start_matches(GENERATION_MARK);
        let (configured, counts) = (AtomicU64::new(0), Mutex::default());
        let budget = Arc::clone(budget);
        ClusterTotals { name: name.into(), object: object.into(), configured, running, budget, counts }
    }

    /// The cluster's name in its configurations.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The number of the newest configuration: that of a later one is greater.
    pub(crate) fn configured(&self) -> u64 {
        self.configured.load(Ordering::Relaxed)
    }

    /// Notes another configuration.
    pub(crate) fn note_configured(&self, number: u64) {
        self.configured.fetch_max(number, Ordering::Relaxed);
    }

    /// Follows a new configuration: its servers, its limits, the number of talkers to be shown, and the edition of its shadow.
    /// Returns where talkers are counted.
    pub(super) fn configure(
        &self,
        servers: &ServerLabels,
        limits: Vec<Limit>,
        top: Option<u32>,
        shadow: Option<&str>,
    ) -> Option<Arc<Talkers>> {
        let mut counts = self.lock();
        counts.answers.keep(servers);
        counts.limits.replace(limits);
        shadow.into_iter().for_each(|generation| counts.shadows.configure(generation));
        counts.talkers = top.map(|top| {
            let known = counts.talkers.take().filter(|known| !known.is_forgotten());
            let talkers = known.unwrap_or_else(|| self.budget.start(&self.name));
            talkers.show(top);
            talkers
        });
        counts.talkers.clone()
    }

    /// For adding several counts.
    pub(super) fn lock(&self) -> MutexGuard<'_, ClusterSums> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The activity so far. `None` if there was none and nothing is limited.
    pub(crate) fn activity(&self, uptime: Duration) -> Option<ClusterActivity> {
        let [(_, reading), (_, writing)] = self.running.by_kind();
        let (watches, sessions) = self.running.watches_and_sessions();
        let counts = self.lock();
        let talkers = counts.talkers.clone();
        let mut activity = ClusterActivity {
            policies: counts.policies.activity(),
            servers: counts.answers.activity(),
            limits: counts.limits.activity(uptime),
            shadows: counts.shadows.activity(),
            running: reading.saturating_add(writing),
            watches,
            sessions,
            ..ClusterActivity::default()
        };
        drop(counts);
        if activity == ClusterActivity::default() && talkers.is_none() {
            return None;
        }
        object_name(&self.name).clone_into(&mut activity.cluster);
        self.object.as_ref().clone_into(&mut activity.object);
        activity.top = talkers.map(|talkers| talkers.top());
        Some(activity)
    }
}

impl ClusterSums {
    /// Adds decisions of a policy, by its number from 1 or 0 for none, under the schema that it names.
    pub(super) fn decided(&mut self, policy: u32, outcome: Outcome, schema: &str, count: u64) {
        self.policies.add(policy, outcome, count);
        if let Outcome::Refused(Cause::FlowControl | Cause::QueueFull | Cause::QueueTimeout) = outcome {
            self.limits.refused(schema, count);
        }
    }

    /// Adds requests that this edition of the shadow has judged, and the kind of their difference, if they have one. Those of clients
    /// that are not authenticated, or of no client, leave places for others.
    pub(super) fn judged(
        &mut self,
        generation: &str,
        difference: Option<ShadowDifference>,
        is_known: bool,
        count: u64,
    ) {
        self.shadows.add(generation, difference, is_known, count);
    }

    /// Adds answers of a server.
    pub(super) fn answered(&mut self, server: &str, answered: &AnsweredRequests) {
        self.answers.add(server, answered);
    }
}

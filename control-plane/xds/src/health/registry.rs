use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::AckStates;
use super::endpoints::Endpoints;
use super::health_room::{HealthRoom, OF_GATEWAYS, OF_INSTANCES, ReportBounds, weight_of_answers, weight_of_clusters};
use crate::node::View;
use crate::node_name::is_of_gateway;

/// The newest report of every node, by its name, up to bounds of nodes and of bytes. Reports that are older than
/// [`HealthRegistry::MAX_AGE`] do not count.
#[derive(Debug)]
pub struct HealthRegistry {
    reports: Mutex<KnownReports>,
    /// Those of Envoys of Gateways: none of them takes the place or the bytes of an instance's.
    of_gateways: Mutex<KnownReports>,
}

impl Default for HealthRegistry {
    fn default() -> Self {
        let none = |bounds| Mutex::new(KnownReports::new(bounds));
        Self { reports: none(&OF_INSTANCES), of_gateways: none(&OF_GATEWAYS) }
    }
}

/// The newest report of one node. As long as nothing is otherwise, it is the same allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthReport {
    /// The endpoints of each cluster. The same allocation as long as they are the same.
    pub clusters: Arc<BTreeMap<String, Endpoints>>,
    /// The views about which the node may report; `None` are all.
    pub views: Option<Vec<View>>,
    /// The node's answers at the replica that it follows, as its agent repeats them. The same allocation as long as they are the same.
    pub answers: Arc<AckStates>,
}

#[derive(Debug)]
struct KnownReports {
    by_node: BTreeMap<String, KnownReport>,
    room: HealthRoom,
}

#[derive(Debug)]
struct KnownReport {
    at: Instant,
    report: Arc<HealthReport>,
    /// Bytes of the clusters, and of the answers.
    weights: (usize, usize),
}

impl HealthRegistry {
    /// How long a report counts.
    pub const MAX_AGE: Duration = Duration::from_secs(30);

    /// The reports of the nodes that belong to no Gateway and have reported lately, by the names of the nodes.
    pub fn reports(&self, now: Instant) -> BTreeMap<String, Arc<HealthReport>> {
        lock(&self.reports).fresh(now).map(|(node, report)| (node.clone(), Arc::clone(report))).collect()
    }

    /// The same of Envoys of Gateways, each about the view of its Gateway alone.
    pub fn gateway_reports(&self, now: Instant) -> BTreeMap<String, Arc<HealthReport>> {
        lock(&self.of_gateways).fresh(now).map(|(node, report)| (node.clone(), Arc::clone(report))).collect()
    }

    /// The nodes that belong to no Gateway and have reported lately.
    pub fn reporting(&self, now: Instant) -> Vec<String> {
        lock(&self.reports).fresh(now).map(|(node, _)| node.clone()).collect()
    }

    /// Takes a node's report about whatever is served, as [`HealthRegistry::record_within`].
    pub fn record(&self, node: &str, clusters: BTreeMap<String, Endpoints>, at: Instant) {
        self.record_within(node, clusters, None, at);
    }

    /// Takes a node's report in the place of its last one. It may report about these views; `None` are all. Of more than a thousand nodes
    /// those that report are kept, and of more than a hundred of one owner, an instance or the namespace of a Gateway, these. If its
    /// owner has no more room, servers that are not healthy are counted without their names, and beyond that nothing is taken. Its
    /// answers at other replicas stay until [`HealthRegistry::answered`].
    pub fn record_within(
        &self,
        node: &str,
        mut clusters: BTreeMap<String, Endpoints>,
        views: Option<Vec<View>>,
        at: Instant,
    ) {
        let mut reports = lock(self.of(node));
        let Some(weight) = reports.make_room(node, &mut clusters, at) else { return };
        let known = reports.by_node.remove(node);
        let weight_of_answers = known.as_ref().map_or(0, |known| known.weights.1);
        let is_fresh = known.as_ref().is_some_and(|known| known.is_fresh(at));
        let before = known.map(|known| known.report).unwrap_or_default();
        let is_same = is_fresh && *before.clusters == clusters;
        let report = if is_same && before.views == views {
            before
        } else {
            let clusters = if is_same { Arc::clone(&before.clusters) } else { Arc::new(clusters) };
            Arc::new(HealthReport { clusters, views, answers: Arc::clone(&before.answers) })
        };
        reports.by_node.insert(node.to_owned(), KnownReport { at, report, weights: (weight, weight_of_answers) });
        if !is_fresh {
            reports.answer(node, AckStates::new());
        }
    }

    /// Takes what a node answered at the replica that it follows, in the place of what was known of that. A node without
    /// a report is not remembered, and neither are answers for which its owner has no room.
    pub fn answered(&self, node: &str, answers: AckStates) {
        lock(self.of(node)).answer(node, answers);
    }

    /// The reports among which those of a node are.
    fn of(&self, node: &str) -> &Mutex<KnownReports> {
        if is_of_gateway(node) { &self.of_gateways } else { &self.reports }
    }
}

/// A panic elsewhere leaves the maps whole.
fn lock(reports: &Mutex<KnownReports>) -> MutexGuard<'_, KnownReports> {
    reports.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KnownReports {
    fn new(bounds: &'static ReportBounds) -> Self {
        Self { by_node: BTreeMap::new(), room: HealthRoom::new(bounds) }
    }

    /// The reports that count, by the names of their nodes.
    fn fresh(&self, now: Instant) -> impl Iterator<Item = (&String, &Arc<HealthReport>)> {
        self.by_node.iter().filter(move |(_, known)| known.is_fresh(now)).map(|(node, known)| (node, &known.report))
    }

    /// Takes room for a node's report, in the place of its last one: of the clusters as they are then. Returns their bytes.
    fn make_room(&mut self, node: &str, clusters: &mut BTreeMap<String, Endpoints>, at: Instant) -> Option<usize> {
        let weight = weight_of_clusters(clusters);
        if !self.has_room(node, weight) {
            self.forget_stale(at);
        }
        if !self.has_room(node, weight) {
            clusters.values_mut().for_each(|seen| seen.unhealthy = Vec::new());
        }
        let weight = weight_of_clusters(clusters);
        if !self.has_room(node, weight) {
            return None;
        }
        let former = self.weight(node);
        self.room.change(node, former, weight);
        Some(weight)
    }

    /// Bytes of the clusters in a node's last report.
    fn weight(&self, node: &str) -> usize {
        self.by_node.get(node).map_or(0, |known| known.weights.0)
    }

    fn has_room(&self, node: &str, bytes: usize) -> bool {
        let is_known = self.by_node.contains_key(node);
        (is_known || !self.room.is_crowded(self.by_node.keys(), node))
            && self.room.has_room(node, self.weight(node), bytes)
    }

    fn forget_stale(&mut self, now: Instant) {
        self.by_node.retain(|_, known| known.is_fresh(now));
        let weights = self.by_node.iter().map(|(node, known)| (node, known.weights.0 + known.weights.1));
        self.room.count(weights);
    }

    /// Takes a node's answers in the place of what was known of them.
    fn answer(&mut self, node: &str, answers: AckStates) {
        let Some(known) = self.by_node.get_mut(node) else { return };
        let weight = weight_of_answers(&answers);
        let has_room = self.room.has_room(node, known.weights.1, weight);
        let (answers, weight) = if has_room { (answers, weight) } else { Default::default() };
        self.room.change(node, known.weights.1, weight);
        known.weights.1 = weight;
        if *known.report.answers != answers {
            known.report = Arc::new(HealthReport { answers: Arc::new(answers), ..HealthReport::clone(&known.report) });
        }
    }
}

impl KnownReport {
    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) <= HealthRegistry::MAX_AGE
    }
}

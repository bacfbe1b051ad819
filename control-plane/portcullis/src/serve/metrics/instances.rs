//! Metrics of one instance each. Their label has a name of its own: `instance` is Prometheus' word for what it scrapes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_instances::MemberHolder;
use portcullis_xds::{NodeStatus, Snapshot, View};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry as MetricRegistry;

use super::super::instance_views::instance_of_view;
use super::{BUCKETS, add, catalog, number};

/// Most instances that have series of their own, the first by name.
const MAX_INSTANCES: usize = 100;

/// The label's value for all others, and for what belongs to no instance. No instance has such a name.
const OTHERS: &str = "other/";
const NONE: &str = "";

type InstanceLabel = [(&'static str, String); 1];
type StateLabels = [(&'static str, String); 2];

/// The metrics.
#[derive(Debug)]
pub(super) struct InstanceMetrics {
    waiting: Family<InstanceLabel, Gauge>,
    nodes: Family<StateLabels, Gauge>,
    propagation: Family<InstanceLabel, Histogram>,
    /// The instances that have series.
    known: Mutex<BTreeSet<String>>,
}

impl Default for InstanceMetrics {
    fn default() -> Self {
        let propagation = Family::new_with_constructor(histogram as fn() -> Histogram);
        let metrics =
            Self { waiting: Family::default(), nodes: Family::default(), propagation, known: Mutex::default() };
        [NONE, OTHERS].into_iter().for_each(|label| metrics.make_series(label));
        metrics
    }
}

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

impl InstanceMetrics {
    pub(super) fn register(&self, page: &mut MetricRegistry) {
        add(page, &catalog::INSTANCE_EDITS_WAITING, self.waiting.clone());
        add(page, &catalog::INSTANCE_NODES, self.nodes.clone());
        add(page, &catalog::INSTANCE_PROPAGATION, self.propagation.clone());
    }

    /// Follows the instances of the served snapshot.
    pub(super) fn follow(&self, snapshot: &Snapshot) {
        let names: BTreeSet<&str> = snapshot.views().filter_map(|(view, _)| instance_of_view(view)).collect();
        let names: BTreeSet<String> = names.into_iter().take(MAX_INSTANCES).map(str::to_owned).collect();
        let mut known = self.lock();
        known.difference(&names).for_each(|gone| self.remove_series(gone));
        names.difference(&known).for_each(|new| self.make_series(new));
        *known = names;
    }

    /// Takes the number of edits that wait, by the owner of their objects.
    pub(super) fn edits_waiting(&self, waiting: &BTreeMap<MemberHolder, usize>) {
        let known = self.lock();
        let mut counts: BTreeMap<&str, usize> = known.iter().map(|name| (name.as_str(), 0)).collect();
        counts.extend([(NONE, 0), (OTHERS, 0)]);
        for (owner, count) in waiting {
            *counts.entry(label(&known, owner.instance())).or_default() += count;
        }
        for (instance, count) in counts {
            self.waiting.get_or_create(&of(instance)).set(number(count));
        }
    }

    /// Takes the nodes that there are.
    pub(super) fn nodes(&self, nodes: &[NodeStatus]) {
        let known = self.lock();
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for name in known.iter().map(String::as_str).chain([NONE, OTHERS]) {
            counts.extend(catalog::INSTANCE_NODE_STATES.map(|state| ((name, state), 0)));
        }
        for node in nodes.iter().filter(|node| node.connected) {
            let instance = label(&known, node.view.0.as_deref().and_then(instance_of_view));
            let states = [("connected", true), ("in_sync", node.in_sync), ("refusing", !node.refused.is_empty())];
            for (state, _) in states.into_iter().filter(|(_, is_one)| *is_one) {
                *counts.entry((instance, state)).or_default() += 1;
            }
        }
        for ((instance, state), count) in counts {
            self.nodes.get_or_create(&of_state(instance, state)).set(number(count));
        }
    }

    /// Takes the time after which a node of a view had acknowledged a snapshot.
    pub(super) fn propagated(&self, view: &View, took: Duration) {
        let known = self.lock();
        let instance = label(&known, view.0.as_deref().and_then(instance_of_view));
        self.propagation.get_or_create(&of(instance)).observe(took.as_secs_f64());
    }

    /// Creates every series with 0: a rate needs a first value.
    fn make_series(&self, instance: &str) {
        drop(self.waiting.get_or_create(&of(instance)));
        drop(self.propagation.get_or_create(&of(instance)));
        catalog::INSTANCE_NODE_STATES
            .iter()
            .for_each(|state| drop(self.nodes.get_or_create(&of_state(instance, state))));
    }

    fn remove_series(&self, instance: &str) {
        self.waiting.remove(&of(instance));
        self.propagation.remove(&of(instance));
        for state in catalog::INSTANCE_NODE_STATES {
            self.nodes.remove(&of_state(instance, state));
        }
    }

    /// A panic elsewhere leaves the set whole: it is replaced in one step.
    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The label's value. Names come with certificates: only those of instances that are served have series.
fn label<'a>(known: &'a BTreeSet<String>, instance: Option<&str>) -> &'a str {
    let Some(instance) = instance else { return NONE };
    known.get(instance).map_or(OTHERS, String::as_str)
}

fn of(instance: &str) -> InstanceLabel {
    [(catalog::INSTANCE_LABEL, instance.to_owned())]
}

fn of_state(instance: &str, state: &str) -> StateLabels {
    [(catalog::INSTANCE_LABEL, instance.to_owned()), ("state", state.to_owned())]
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    fn snapshot(instances: std::ops::Range<usize>) -> Snapshot {
        let view = |number| (format!("instance/i{number:03}"), Snapshot::default());
        Snapshot::default().with_views(instances.map(view))
    }

    fn node(view: Option<&str>) -> NodeStatus {
        NodeStatus {
            id: "envoy-0".to_owned(),
            connected: true,
            types: BTreeMap::new(),
            snapshot: String::new(),
            in_sync: false,
            refused: Vec::new(),
            view: View(view.map(str::to_owned)),
        }
    }

    #[test]
    fn series_are_of_served_instances_and_bounded() {
        let (metrics, mut page) = (InstanceMetrics::default(), MetricRegistry::default());
        metrics.register(&mut page);
        let text = || {
            let mut text = String::new();
            encode(&mut text, &page).unwrap();
            text
        };
        let has = |line: &str| assert!(text().lines().any(|found| found == line), "{line}\n{}", text());
        metrics.follow(&snapshot(0..150));
        let waiting = ["i001", "i120", "i130"].map(|name| (MemberHolder::Instance(name.to_owned()), 2));
        metrics.edits_waiting(&waiting.into_iter().chain([(MemberHolder::Free, 5)]).collect());
        has("portcullis_instance_edits_waiting{portcullis_instance=\"i001\"} 2");
        has("portcullis_instance_edits_waiting{portcullis_instance=\"other/\"} 4");
        has("portcullis_instance_edits_waiting{portcullis_instance=\"\"} 5");
        metrics.nodes(&[
            node(None),
            node(Some("wasm")),
            node(Some("instance/i001/wasm")),
            node(Some("instance/thief")),
        ]);
        has("portcullis_instance_xds_nodes{portcullis_instance=\"\",state=\"connected\"} 2");
        has("portcullis_instance_xds_nodes{portcullis_instance=\"i001\",state=\"connected\"} 1");
        has("portcullis_instance_xds_nodes{portcullis_instance=\"other/\",state=\"connected\"} 1");
        metrics.propagated(&View(Some("instance/i001".to_owned())), Duration::from_millis(3));
        has("portcullis_instance_propagation_seconds_count{portcullis_instance=\"i001\"} 1");
        let count = || text().lines().filter(|line| line.starts_with("portcullis_instance_edits_waiting{")).count();
        assert_eq!(count(), 102, "of a hundred, of the others and of none");
        // Neither is the series of all others.
        let named = ["other", "others"].map(|name| (format!("instance/{name}"), Snapshot::default()));
        metrics.follow(&Snapshot::default().with_views(named));
        metrics.nodes(&[node(Some("instance/other")), node(Some("instance/other/wasm")), node(Some("instance/gone"))]);
        has("portcullis_instance_xds_nodes{portcullis_instance=\"other\",state=\"connected\"} 2");
        has("portcullis_instance_xds_nodes{portcullis_instance=\"others\",state=\"connected\"} 0");
        has("portcullis_instance_xds_nodes{portcullis_instance=\"other/\",state=\"connected\"} 1");
        metrics.follow(&snapshot(0..1));
        assert!(!text().contains("i001"), "what is gone has no series");
        metrics.edits_waiting(&BTreeMap::new());
        has("portcullis_instance_edits_waiting{portcullis_instance=\"\"} 0");
        has("portcullis_instance_edits_waiting{portcullis_instance=\"other/\"} 0");
        metrics.nodes(&[]);
        has("portcullis_instance_xds_nodes{portcullis_instance=\"other/\",state=\"connected\"} 0");
    }
}

//! The metrics of the control plane.

mod catalog;
mod discovery;
mod gateway_api;
mod instances;
mod limits_store;
mod object_counts;
#[cfg(test)]
mod page;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use portcullis_instances::MemberHolder;
use portcullis_limits_store::StoreStatistics;
use portcullis_sources::SourceHealth;
use portcullis_translate::Diagnosis;
use portcullis_xds::{HealthRegistry, Registry, Rejection, Snapshot, View, XdsMetrics};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry as MetricRegistry;

use super::gateway_views::gateway_of_view;
use catalog::Metric;
use discovery::DiscoveryMetrics;
use gateway_api::GatewayApiMetrics;
use instances::InstanceMetrics;
use limits_store::LimitsStoreMetrics;
use object_counts::{CountedObjects, ObjectMetrics};

pub(crate) use discovery::DiscoveryCounts;
pub(crate) use gateway_api::GatewayApiCounts;

/// The type of the page's text.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The number of snapshots whose propagation is timed, the latest ones.
const MAX_TIMED_SNAPSHOTS: usize = 64;

/// Upper bounds of histogram buckets, in seconds.
const BUCKETS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Label values are those of the catalog.
type OneLabel = [(&'static str, &'static str); 1];
type TwoLabels = [(&'static str, &'static str); 2];

/// The origin of the served snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Source,
    LastGood,
}

impl Origin {
    fn label(self) -> &'static str {
        match self {
            Origin::Source => "source",
            Origin::LastGood => "last_good",
        }
    }
}

/// All metrics, and the page at /metrics.
#[derive(Debug)]
pub(crate) struct ControlPlaneMetrics {
    page: MetricRegistry,
    objects: ObjectMetrics,
    gateway_api: GatewayApiMetrics,
    translation: Histogram,
    propagation: Histogram,
    resources: Family<OneLabel, Gauge>,
    responses: Family<OneLabel, Counter>,
    acks: Family<OneLabel, Counter>,
    nacks: Family<OneLabel, Counter>,
    nodes: Family<OneLabel, Gauge>,
    source_stale: Gauge,
    snapshot_source: Family<OneLabel, Gauge>,
    state_writes: Family<OneLabel, Counter>,
    rejections: Family<OneLabel, Counter>,
    revoked: Gauge,
    unhealthy: Gauge,
    limits_store: LimitsStoreMetrics,
    discovery: DiscoveryMetrics,
    instances: InstanceMetrics,
    state: Mutex<MetricsState>,
}

/// State between two events.
#[derive(Debug, Default)]
struct MetricsState {
    /// The versions of the snapshot that is served, and of its views.
    versions: BTreeSet<String>,
    /// The versions that were new with each snapshot, and the time at which its objects were read.
    changes: VecDeque<(BTreeSet<String>, Instant)>,
    objects: CountedObjects,
    stale_since: Option<Instant>,
}

impl Default for ControlPlaneMetrics {
    fn default() -> Self {
        let mut metrics = Self {
            page: MetricRegistry::default(),
            objects: ObjectMetrics::default(),
            gateway_api: GatewayApiMetrics::default(),
            translation: Histogram::new(BUCKETS),
            propagation: Histogram::new(BUCKETS),
            resources: Family::default(),
            responses: Family::default(),
            acks: Family::default(),
            nacks: Family::default(),
            nodes: Family::default(),
            source_stale: Gauge::default(),
            snapshot_source: Family::default(),
            state_writes: Family::default(),
            rejections: Family::default(),
            revoked: Gauge::default(),
            unhealthy: Gauge::default(),
            limits_store: LimitsStoreMetrics::default(),
            discovery: DiscoveryMetrics::default(),
            instances: InstanceMetrics::default(),
            state: Mutex::default(),
        };
        metrics.register();
        metrics.make_series();
        metrics
    }
}

impl ControlPlaneMetrics {
    fn register(&mut self) {
        let page = &mut self.page;
        self.objects.register(page);
        self.gateway_api.register(page);
        add(page, &catalog::TRANSLATION, self.translation.clone());
        add(page, &catalog::PROPAGATION, self.propagation.clone());
        add(page, &catalog::RESOURCES, self.resources.clone());
        add(page, &catalog::XDS_RESPONSES, self.responses.clone());
        add(page, &catalog::XDS_ACKS, self.acks.clone());
        add(page, &catalog::XDS_NACKS, self.nacks.clone());
        add(page, &catalog::XDS_NODES, self.nodes.clone());
        add(page, &catalog::SOURCE_STALE, self.source_stale.clone());
        add(page, &catalog::SNAPSHOT_SOURCE, self.snapshot_source.clone());
        add(page, &catalog::STATE_WRITES, self.state_writes.clone());
        add(page, &catalog::XDS_REJECTIONS, self.rejections.clone());
        add(page, &catalog::REVOKED_REFERENCES, self.revoked.clone());
        add(page, &catalog::UNHEALTHY, self.unhealthy.clone());
        self.limits_store.register(page);
        self.discovery.register(page);
        self.instances.register(page);
        let build: Family<OneLabel, Gauge> = Family::default();
        build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        add(page, &catalog::BUILD, build);
    }

    /// Creates every series with 0: a rate needs a first value.
    fn make_series(&self) {
        for kind in catalog::TYPES {
            drop(self.resources.get_or_create(&[("type", kind)]));
            for counter in [&self.responses, &self.acks, &self.nacks] {
                drop(counter.get_or_create(&[("type", kind)]));
            }
        }
        catalog::NODE_STATES.iter().for_each(|state| drop(self.nodes.get_or_create(&[("state", *state)])));
        catalog::ORIGINS.iter().for_each(|origin| drop(self.snapshot_source.get_or_create(&[("source", *origin)])));
        catalog::REASONS.iter().for_each(|why| drop(self.rejections.get_or_create(&[("reason", *why)])));
        catalog::OUTCOMES.iter().for_each(|outcome| drop(self.state_writes.get_or_create(&[("outcome", *outcome)])));
    }

    /// The page.
    pub(crate) fn text(&self, nodes: &Registry, health: &HealthRegistry, source: &SourceHealth) -> String {
        let frozen = number(nodes.frozen(Instant::now()).len());
        self.nodes.get_or_create(&[("state", "frozen")]).set(frozen);
        let nodes = nodes.nodes();
        let count = |state, counts: &dyn Fn(&portcullis_xds::NodeStatus) -> bool| {
            let count = nodes.iter().filter(|node| counts(node)).count();
            self.nodes.get_or_create(&[("state", state)]).set(number(count));
        };
        count("connected", &|node| node.connected);
        count("in_sync", &|node| node.connected && node.in_sync);
        count("refusing", &|node| node.connected && !node.refused.is_empty());
        count("of_gateways", &|node| {
            node.connected && gateway_of_view(node.view.0.as_deref().unwrap_or_default()).is_some()
        });
        self.instances.nodes(&nodes);
        self.unhealthy.set(unhealthy(health));
        self.limits_store.read();
        let reporting = number(health.reporting(Instant::now()).len());
        self.nodes.get_or_create(&[("state", "reporting")]).set(reporting);
        let stale = self.lock().stale_since.map(|since| since.elapsed());
        let also = source.stale_since.map(|since| since.elapsed().unwrap_or_default());
        let stale = stale.max(also).unwrap_or_default().as_secs();
        self.source_stale.set(i64::try_from(stale).unwrap_or(i64::MAX));
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.page);
        text
    }

    /// Takes the diagnoses of a set of objects, and how long it took to reconcile it.
    pub(crate) fn reconciled(&self, diagnoses: &[Arc<Diagnosis>], took: Duration) {
        self.translation.observe(took.as_secs_f64());
        self.objects.follow(&mut self.lock().objects, diagnoses);
    }

    /// Takes the numbers of all objects of the Gateway API, in parts.
    pub(crate) fn judged(&self, parts: &[&GatewayApiCounts]) {
        self.gateway_api.count(parts);
    }

    /// Takes a snapshot that is served from now on, made of objects that came at `since`; whether it differs from what was
    /// served before.
    pub(crate) fn published(&self, snapshot: &Snapshot, origin: Origin, since: Instant, is_new: bool) {
        for kind in catalog::TYPES {
            self.resources.get_or_create(&[("type", kind)]).set(number(snapshot.count(kind)));
        }
        for other in catalog::ORIGINS {
            self.snapshot_source.get_or_create(&[("source", other)]).set(i64::from(other == origin.label()));
        }
        if !is_new {
            return;
        }
        self.instances.follow(snapshot);
        let mut state = self.lock();
        let views = snapshot.views().map(|(_, view)| view);
        let versions = std::iter::once(snapshot).chain(views).map(|one| one.version().to_owned()).collect();
        let before = std::mem::replace(&mut state.versions, versions);
        let new = state.versions.difference(&before).cloned().collect();
        state.changes.push_back((new, since));
        if state.changes.len() > MAX_TIMED_SNAPSHOTS {
            state.changes.pop_front();
        }
    }

    /// Takes the numbers of the store in which limits are divided.
    pub(crate) fn keep_limits_in(&self, statistics: Arc<StoreStatistics>) {
        self.limits_store.follow(statistics);
    }

    /// Takes the state of all sources of discovered servers.
    pub(crate) fn discovered(&self, counts: DiscoveryCounts) {
        self.discovery.count(counts);
    }

    /// Takes the number of objects that are served with revoked references.
    pub(crate) fn revoked_references(&self, count: usize) {
        self.revoked.set(number(count));
    }

    /// Takes the number of edits that wait for translation, by the owner of their objects.
    pub(crate) fn edits_waiting(&self, waiting: &BTreeMap<MemberHolder, usize>) {
        self.instances.edits_waiting(waiting);
    }

    /// Takes whether the source can be read.
    pub(crate) fn source(&self, is_stale: bool) {
        let mut state = self.lock();
        state.stale_since = is_stale.then(|| state.stale_since.unwrap_or_else(Instant::now));
    }

    /// Takes whether the last good configuration could be written.
    pub(crate) fn state_written(&self, is_written: bool) {
        let outcome = if is_written { "written" } else { "failed" };
        self.state_writes.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// Each change is whole: a panic elsewhere leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, MetricsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl XdsMetrics for ControlPlaneMetrics {
    fn responded(&self, kind: &'static str) {
        self.responses.get_or_create(&[("type", kind)]).inc();
    }

    fn acked(&self, kind: &'static str) {
        self.acks.get_or_create(&[("type", kind)]).inc();
    }

    fn nacked(&self, kind: &'static str) {
        self.nacks.get_or_create(&[("type", kind)]).inc();
    }

    fn rejected(&self, why: Rejection) {
        self.rejections.get_or_create(&[("reason", why.label())]).inc();
    }

    fn propagated(&self, view: &View, _node: &str, snapshot: &str) {
        let since = {
            let state = self.lock();
            state.changes.iter().rev().find(|(versions, _)| versions.contains(snapshot)).map(|(_, since)| *since)
        };
        if let Some(took) = since.map(|since| since.elapsed()) {
            self.propagation.observe(took.as_secs_f64());
            self.instances.propagated(view, took);
        }
    }
}

fn add(page: &mut MetricRegistry, metric: &Metric, made: impl prometheus_client::registry::Metric) {
    // The page's writer adds _total itself.
    page.register(metric.name.trim_end_matches("_total"), metric.help, made);
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The groups of all servers count, once for each cluster.
fn unhealthy(health: &HealthRegistry) -> i64 {
    let reports = health.reports(Instant::now());
    let mut most: BTreeMap<&str, u32> = BTreeMap::new();
    let pools = reports.values().flat_map(|report| report.clusters.iter());
    for (pool, seen) in pools.filter(|(pool, seen)| seen.healthy < seen.total && pool.ends_with("/all.h2")) {
        let most = most.entry(pool).or_default();
        *most = seen.total.saturating_sub(seen.healthy).max(*most);
    }
    most.into_values().map(i64::from).sum()
}

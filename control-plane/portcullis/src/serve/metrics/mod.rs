//! What the control plane counts.

mod catalog;
#[cfg(test)]
mod page;

use std::collections::VecDeque;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use portcullis_sources::SourceHealth;
use portcullis_translate::{Diagnosis, Reason};
use portcullis_xds::{Endpoints, HealthRegistry, Observer, Registry, Rejection, Snapshot};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry as Page;

use catalog::Metric;

/// The type of the page's text.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Snapshots whose acknowledgement is timed at most.
const TIMED: usize = 64;

/// Upper bounds of times, in seconds.
const SECONDS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Every value is one of the catalog's.
type One = [(&'static str, &'static str); 1];
type Two = [(&'static str, &'static str); 2];

/// Where that comes from which is served.
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

/// Counters, and the page that tells them.
#[derive(Debug)]
pub(crate) struct Metrics {
    page: Page,
    objects: Family<Two, Gauge>,
    refused_edits: Family<One, Counter>,
    translation: Histogram,
    change: Histogram,
    resources: Family<One, Gauge>,
    pushes: Family<One, Counter>,
    acknowledgements: Family<One, Counter>,
    refusals: Family<One, Counter>,
    nodes: Family<One, Gauge>,
    source_stale: Gauge,
    serving: Family<One, Gauge>,
    state_writes: Family<One, Counter>,
    turned_away: Family<One, Counter>,
    revoked: Gauge,
    unhealthy: Gauge,
    memory: Mutex<Memory>,
}

/// What is remembered between two events.
#[derive(Debug, Default)]
struct Memory {
    /// Snapshots and when the objects came that they were made of.
    changes: VecDeque<(String, Instant)>,
    /// What was refused in the last set.
    refused: BTreeSet<(String, String, String)>,
    stale_since: Option<Instant>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            page: Page::default(),
            objects: Family::default(),
            refused_edits: Family::default(),
            translation: Histogram::new(SECONDS),
            change: Histogram::new(SECONDS),
            resources: Family::default(),
            pushes: Family::default(),
            acknowledgements: Family::default(),
            refusals: Family::default(),
            nodes: Family::default(),
            source_stale: Gauge::default(),
            serving: Family::default(),
            state_writes: Family::default(),
            turned_away: Family::default(),
            revoked: Gauge::default(),
            unhealthy: Gauge::default(),
            memory: Mutex::default(),
        };
        metrics.register();
        metrics.make_series();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let page = &mut self.page;
        add(page, &catalog::OBJECTS, self.objects.clone());
        add(page, &catalog::REFUSED_EDITS, self.refused_edits.clone());
        add(page, &catalog::TRANSLATION, self.translation.clone());
        add(page, &catalog::CHANGE, self.change.clone());
        add(page, &catalog::RESOURCES, self.resources.clone());
        add(page, &catalog::PUSHES, self.pushes.clone());
        add(page, &catalog::ACKNOWLEDGEMENTS, self.acknowledgements.clone());
        add(page, &catalog::REFUSALS, self.refusals.clone());
        add(page, &catalog::NODES, self.nodes.clone());
        add(page, &catalog::SOURCE_STALE, self.source_stale.clone());
        add(page, &catalog::SERVING, self.serving.clone());
        add(page, &catalog::STATE_WRITES, self.state_writes.clone());
        add(page, &catalog::TURNED_AWAY, self.turned_away.clone());
        add(page, &catalog::REVOKED_REFERENCES, self.revoked.clone());
        add(page, &catalog::UNHEALTHY, self.unhealthy.clone());
        let build: Family<One, Gauge> = Family::default();
        build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        add(page, &catalog::BUILD, build);
    }

    /// A rate needs a first value.
    fn make_series(&self) {
        self.count_objects(&[]);
        catalog::KINDS.iter().for_each(|kind| drop(self.refused_edits.get_or_create(&[("kind", *kind)])));
        for kind in catalog::TYPES {
            drop(self.resources.get_or_create(&[("type", kind)]));
            for counter in [&self.pushes, &self.acknowledgements, &self.refusals] {
                drop(counter.get_or_create(&[("type", kind)]));
            }
        }
        catalog::NODE_STATES.iter().for_each(|state| drop(self.nodes.get_or_create(&[("state", *state)])));
        catalog::ORIGINS.iter().for_each(|origin| drop(self.serving.get_or_create(&[("from", *origin)])));
        catalog::REASONS.iter().for_each(|why| drop(self.turned_away.get_or_create(&[("reason", *why)])));
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
        self.unhealthy.set(unhealthy(health));
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
    pub(crate) fn reconciled(&self, diagnoses: &[Diagnosis], took: Duration) {
        self.translation.observe(took.as_secs_f64());
        self.count_objects(diagnoses);
        let told = |one: &Diagnosis| (one.kind.clone(), one.name.clone(), one.message.clone());
        let refused: BTreeSet<_> = diagnoses.iter().filter(|one| !one.accepted).map(told).collect();
        let mut memory = self.lock();
        for (kind, ..) in refused.difference(&memory.refused) {
            self.refused_edits.get_or_create(&[("kind", kind_label(kind))]).inc();
        }
        memory.refused = refused;
    }

    fn count_objects(&self, diagnoses: &[Diagnosis]) {
        for kind in catalog::KINDS {
            for state in catalog::STATES {
                let is_it = |one: &&Diagnosis| kind_label(&one.kind) == kind && state_label(one.reason) == state;
                let count = diagnoses.iter().filter(is_it).count();
                self.objects.get_or_create(&[("kind", kind), ("state", state)]).set(number(count));
            }
        }
    }

    /// Takes a snapshot that is served from now on, made of objects that came at `since`; whether it differs from what was
    /// served before.
    pub(crate) fn published(&self, snapshot: &Snapshot, origin: Origin, since: Instant, is_new: bool) {
        for kind in catalog::TYPES {
            self.resources.get_or_create(&[("type", kind)]).set(number(snapshot.count(kind)));
        }
        for other in catalog::ORIGINS {
            self.serving.get_or_create(&[("from", other)]).set(i64::from(other == origin.label()));
        }
        if !is_new {
            return;
        }
        let mut memory = self.lock();
        memory.changes.push_back((snapshot.version().to_owned(), since));
        if memory.changes.len() > TIMED {
            memory.changes.pop_front();
        }
    }

    /// Takes the number of objects that are served with revoked references.
    pub(crate) fn revoked_references(&self, count: usize) {
        self.revoked.set(number(count));
    }

    /// Takes whether the source can be read.
    pub(crate) fn source(&self, is_stale: bool) {
        let mut memory = self.lock();
        memory.stale_since = is_stale.then(|| memory.stale_since.unwrap_or_else(Instant::now));
    }

    /// Takes whether the last good configuration could be written.
    pub(crate) fn state_written(&self, is_written: bool) {
        let outcome = if is_written { "written" } else { "failed" };
        self.state_writes.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// Each change is whole: a panic elsewhere leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Metrics {
    fn sent(&self, kind: &'static str) {
        self.pushes.get_or_create(&[("type", kind)]).inc();
    }

    fn acknowledged(&self, kind: &'static str) {
        self.acknowledgements.get_or_create(&[("type", kind)]).inc();
    }

    fn refused(&self, kind: &'static str) {
        self.refusals.get_or_create(&[("type", kind)]).inc();
    }

    fn turned_away(&self, why: Rejection) {
        self.turned_away.get_or_create(&[("reason", why.label())]).inc();
    }

    fn caught_up(&self, snapshot: &str) {
        let since = self.lock().changes.iter().rev().find(|(version, _)| version == snapshot).map(|(_, since)| *since);
        if let Some(since) = since {
            self.change.observe(since.elapsed().as_secs_f64());
        }
    }
}

fn add(page: &mut Page, metric: &Metric, made: impl prometheus_client::registry::Metric) {
    // The page's writer adds _total itself.
    page.register(metric.name.trim_end_matches("_total"), metric.help, made);
}

fn kind_label(kind: &str) -> &'static str {
    catalog::KINDS.into_iter().find(|known| *known == kind).unwrap_or("File")
}

fn state_label(reason: Reason) -> &'static str {
    match reason {
        Reason::Accepted => "accepted",
        Reason::Invalid => "invalid",
        Reason::Conflicted => "conflicted",
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The groups of all servers count, once for each cluster.
fn unhealthy(health: &HealthRegistry) -> i64 {
    let all = health.all(Instant::now());
    let pools = all.iter().filter(|(pool, _)| pool.ends_with("/all.h2"));
    let most = |nodes: &BTreeMap<String, Endpoints>| {
        nodes.values().map(|seen| i64::from(seen.total.saturating_sub(seen.healthy))).max().unwrap_or_default()
    };
    pools.map(|(_, nodes)| most(nodes)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(accepted: bool, message: &str) -> Diagnosis {
        Diagnosis {
            kind: "UpstreamCluster".to_owned(),
            name: "a.test".to_owned(),
            at: None,
            accepted,
            reason: if accepted { Reason::Accepted } else { Reason::Invalid },
            message: message.to_owned(),
            warnings: Vec::new(),
            problems: Vec::new(),
            cautions: Vec::new(),
            names: Vec::new(),
            version: portcullis_translate::Version::default(),
        }
    }

    #[test]
    fn an_edit_that_is_refused_counts_once() {
        let metrics = Metrics::default();
        let has = |line: &str| {
            let text = metrics.text(&Registry::default(), &HealthRegistry::default(), &SourceHealth::current());
            assert!(text.lines().any(|told| told == line), "{line}\n{text}");
        };
        metrics.reconciled(&[told(true, "")], Duration::ZERO);
        has("portcullis_objects{kind=\"UpstreamCluster\",state=\"accepted\"} 1");
        for message in ["one", "one", "two"] {
            metrics.reconciled(&[told(false, message)], Duration::ZERO);
        }
        has("portcullis_refused_edits_total{kind=\"UpstreamCluster\"} 2");
        has("portcullis_objects{kind=\"UpstreamCluster\",state=\"accepted\"} 0");
        has("portcullis_translation_seconds_count 4");
    }

    #[test]
    fn a_change_is_timed_until_each_acknowledgement() {
        let metrics = Metrics::default();
        let snapshot = Snapshot::default();
        metrics.published(&snapshot, Origin::LastGood, Instant::now(), true);
        metrics.caught_up(snapshot.version());
        metrics.caught_up("another");
        let text = metrics.text(&Registry::default(), &HealthRegistry::default(), &SourceHealth::current());
        assert!(text.contains("portcullis_change_to_acknowledgement_seconds_count 1\n"), "{text}");
        assert!(text.contains("portcullis_serving{from=\"last_good\"} 1\n"), "{text}");
    }
}

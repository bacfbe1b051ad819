//! Traces of edits: from the source's notice to the last acknowledgement of a gateway.
//!
//! `tracker` follows edits, `spans` writes them as spans, in the messages of `otlp`; both are pure. `export` sends them.

mod export;
mod otlp;
mod spans;
mod tracker;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use export::Exporter;
pub(crate) use export::{TracingArguments, TracingError};
use portcullis_sources::ObjectSet;
use portcullis_translate::Diagnosis;
use portcullis_xds::{Registry, Rejection, Snapshot, View, XdsMetrics};
use ring::rand::{SecureRandom, SystemRandom};
use tracker::{Edit, EditTracker, Finished, Phase};

use super::gateway_views::served_version;
use super::metrics::ControlPlaneMetrics;

/// How often edits are looked for that no gateway acknowledges.
const LOOK: Duration = Duration::from_secs(5);
/// The most changed objects that a trace names.
const MAX_NAMED: usize = 10;

/// A part of a reconciliation: its name, start and end.
pub(super) type Step = (&'static str, Instant, Instant);

/// Follows edits and sends their traces.
#[derive(Debug)]
pub(super) struct EditTraces {
    tracker: Mutex<EditTracker>,
    exporter: Exporter,
}

/// The parts of an edit that its trace contains.
pub(super) struct PublishedEdit<'a> {
    /// The objects before, and now.
    pub(super) objects: (&'a ObjectSet, &'a ObjectSet),
    pub(super) diagnoses: &'a [Arc<Diagnosis>],
    /// The steps from the source to the snapshot, in order.
    pub(super) steps: &'a [Step],
    /// The snapshot; `None` if nothing changes for gateways.
    pub(super) snapshot: Option<&'a Snapshot>,
    /// The gateways before they know it.
    pub(super) registry: &'a Registry,
}

impl EditTraces {
    /// Starts to trace edits, if they are to be.
    pub(super) fn start(arguments: &TracingArguments) -> Result<Option<Arc<Self>>, TracingError> {
        let Some(exporter) = arguments.open()? else { return Ok(None) };
        let traces = Arc::new(Self { tracker: Mutex::default(), exporter });
        let watched = Arc::downgrade(&traces);
        tokio::spawn(async move {
            let mut turns = tokio::time::interval(LOOK);
            loop {
                turns.tick().await;
                let Some(traces) = watched.upgrade() else { return };
                let late = traces.lock().expired(SystemTime::now());
                traces.send(&late);
            }
        });
        Ok(Some(traces))
    }

    /// Takes an edit that gateways learn of next.
    pub(super) fn published(&self, edit: &PublishedEdit<'_>) {
        let finished = self.lock().published(edit.describe());
        self.send(&finished);
    }

    fn acknowledged(&self, gateway: &str, version: &str) {
        let finished = self.lock().acknowledged(gateway, version, SystemTime::now());
        self.send(&finished);
    }

    fn send(&self, finished: &[Finished]) {
        let random = SystemRandom::new();
        for edit in finished {
            self.exporter.send(spans::spans(edit, || number(&random)));
        }
    }

    /// Each change is whole: a panic elsewhere leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, EditTracker> {
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn number(random: &SystemRandom) -> u64 {
    let mut bytes = [0; 8];
    // Without randomness ids are equal, and traces run together.
    let _ = random.fill(&mut bytes);
    u64::from_be_bytes(bytes)
}

impl PublishedEdit<'_> {
    fn describe(&self) -> Edit {
        let (instant, system) = (Instant::now(), SystemTime::now());
        let at = |one: Instant| system.checked_sub(instant.saturating_duration_since(one)).unwrap_or(system);
        let phase = |(name, start, end): &Step| Phase { name, start: at(*start), end: at(*end) };
        let phases: Vec<_> = self.steps.iter().map(phase).collect();
        let views = self.snapshot.into_iter().flat_map(Snapshot::views).map(|(_, view)| view);
        let versions = self.snapshot.into_iter().chain(views).map(|one| one.version().to_owned());
        Edit {
            start: phases.first().map_or(system, |first| first.start),
            published: system,
            phases,
            versions: versions.collect(),
            waiting: self.waiting(),
            acknowledged: BTreeMap::new(),
            attributes: self.attributes(),
        }
    }

    /// The connected gateways for which the snapshot is another one.
    fn waiting(&self) -> BTreeSet<String> {
        let Some(snapshot) = self.snapshot else { return BTreeSet::new() };
        let nodes = self.registry.nodes().into_iter().filter(|node| node.connected);
        let is_other = |node: &portcullis_xds::NodeStatus| {
            snapshot.view(&node.view).is_some_and(|view| view.version() != node.snapshot)
        };
        nodes.filter(is_other).map(|node| node.id).collect()
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        let (before, now) = self.objects;
        let refused = self.diagnoses.iter().filter(|one| !one.accepted).count();
        let mut attributes = vec![
            ("portcullis.changed", changed(before, now)),
            ("portcullis.objects", now.clusters.len().to_string()),
            ("portcullis.refused_objects", refused.to_string()),
        ];
        if let Some(snapshot) = self.snapshot {
            attributes.push(("portcullis.snapshot", served_version(snapshot)));
        }
        attributes
    }
}

/// The names of the objects that differ, at most so many.
fn changed(before: &ObjectSet, now: &ObjectSet) -> String {
    let name = |document: &serde_json::Value| {
        document.pointer("/metadata/name").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
    };
    let known: BTreeMap<String, _> = before.clusters.iter().map(|one| (name(one), one)).collect();
    let new: BTreeSet<String> = now.clusters.iter().map(|one| name(one)).collect();
    let is_other = |one: &Arc<serde_json::Value>| {
        known.get(&name(one)).is_none_or(|before| !Arc::ptr_eq(before, one) && *before != one)
    };
    let mut changed: BTreeSet<String> = now.clusters.iter().filter(|one| is_other(one)).map(|one| name(one)).collect();
    changed.extend(known.keys().filter(|name| !new.contains(*name)).cloned());
    if before.settings != now.settings {
        changed.insert("GatewaySettings".to_owned());
    }
    let more = changed.len().saturating_sub(MAX_NAMED);
    let named: Vec<_> = changed.into_iter().take(MAX_NAMED).collect();
    let named = named.join(" ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}

/// The observers of xDS streams: metrics, and traces if there are any.
pub(super) struct StreamObserver {
    pub(super) metrics: Arc<ControlPlaneMetrics>,
    pub(super) traces: Option<Arc<EditTraces>>,
}

impl XdsMetrics for StreamObserver {
    fn responded(&self, kind: &'static str) {
        self.metrics.responded(kind);
    }

    fn acked(&self, kind: &'static str) {
        self.metrics.acked(kind);
    }

    fn nacked(&self, kind: &'static str) {
        self.metrics.nacked(kind);
    }

    fn propagated(&self, view: &View, node: &str, snapshot: &str) {
        self.metrics.propagated(view, node, snapshot);
        if let Some(traces) = &self.traces {
            traces.acknowledged(node, snapshot);
        }
    }

    fn rejected(&self, reason: Rejection) {
        self.metrics.rejected(reason);
    }
}

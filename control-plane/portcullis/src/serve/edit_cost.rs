//! The cost of an edit among many objects, step by step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_sources::ObjectSet;
use portcullis_xds::Snapshot;
use serde_json::{Value, json};

use super::diagnosis_log::DiagnosisLog;
use super::fleet::ServedObjects;
use super::metrics::ControlPlaneMetrics;
use super::reconcile_loop::is_other;
use super::reconciler::{Reconciled, Reconciler};
use super::served_versions::ServedVersions;
use super::token_keys::key_step;

/// Policies of an object.
const POLICIES: usize = 20;
/// Edits of which the middle one counts.
const EDITS: usize = 9;

/// An object of 20 policies, in one of its editions.
pub(super) fn object(number: usize, edition: usize, serving: &(String, String)) -> Arc<Value> {
    let rule = |policy: usize, rule: usize| {
        json!({
            "verbs": ["get", "list", "watch"], "apiGroups": [format!("group-{number}-{policy}.example.com")],
            "resources": [format!("things-{rule}"), "others"], "userGroups": [format!("team-{policy}-{edition}")],
        })
    };
    let policy = |number: usize| json!({"rules": (0..3).map(|one| rule(number, one)).collect::<Vec<_>>()});
    Arc::new(json!({
        "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster",
        "metadata": {"name": format!("c{number:05}.scale.example.com"), "uid": format!("u{number}"), "generation": edition},
        "spec": {
            "servers": [{"endpoint": format!("https://10.0.{}.{}", number / 250, number % 250)}],
            "clientConfig": {
                "certData": serving.0, "keyData": serving.1, "caData": serving.0, "serverName": "kubernetes",
            },
            "secureServing": {"certData": serving.0, "keyData": serving.1, "clientCAData": serving.0},
            "dispatchPolicies": (0..POLICIES).map(policy).collect::<Vec<_>>(),
        },
    }))
}

/// A certificate and its key, for all purposes.
pub(super) fn serving() -> (String, String) {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["kubernetes".to_owned()]).unwrap().self_signed(&key).unwrap();
    (STANDARD.encode(certificate.pem()), STANDARD.encode(key.serialize_pem()))
}

/// Times of steps, by name.
type Times = BTreeMap<&'static str, Vec<Duration>>;

fn timed<T>(times: &mut Times, name: &'static str, step: impl FnOnce() -> T) -> T {
    let since = Instant::now();
    let result = step();
    times.entry(name).or_default().push(since.elapsed());
    result
}

/// Puts keys of tokens into a set.
type PutKeys = dyn FnMut(&Arc<ObjectSet>) -> Arc<ObjectSet>;

/// Everything that a control plane does about a set of objects from its source, but for its streams.
struct Pipeline {
    keys: Box<PutKeys>,
    objects: Arc<ObjectSet>,
    reconciler: Reconciler,
    metrics: ControlPlaneMetrics,
    shown: ServedObjects,
    log: DiagnosisLog,
    versions: ServedVersions,
    served: Arc<Snapshot>,
}

impl Default for Pipeline {
    fn default() -> Self {
        Self {
            keys: Box::new(key_step()),
            objects: Arc::default(),
            reconciler: Reconciler::default(),
            metrics: ControlPlaneMetrics::default(),
            shown: ServedObjects::default(),
            log: DiagnosisLog::default(),
            versions: ServedVersions::default(),
            served: Arc::default(),
        }
    }
}

impl Pipeline {
    fn take(&mut self, objects: ObjectSet, times: &mut Times) {
        let objects = Arc::new(objects);
        let objects = timed(times, "keys of tokens", || (self.keys)(&objects));
        assert!(timed(times, "is it another set", || *self.objects != *objects));
        let reconciled = self.reconciler.reconcile(&objects, &BTreeSet::new(), Instant::now()).unwrap();
        let Reconciled { snapshot, diagnoses, served, steps, .. } = reconciled;
        for (name, from, to) in steps {
            times.entry(name).or_default().push(to - from);
        }
        timed(times, "metrics", || self.metrics.reconciled(&diagnoses, Duration::ZERO));
        self.shown = served;
        timed(times, "log", || self.log.follow(&objects, &diagnoses));
        let snapshot = Arc::new(snapshot);
        timed(times, "is it new", || is_other(&self.served, &snapshot));
        timed(times, "versions of objects", || self.versions.follow(Some(&snapshot)));
        let before = (std::mem::replace(&mut self.served, snapshot), std::mem::replace(&mut self.objects, objects));
        timed(times, "drop", || drop((before, diagnoses)));
    }
}

/// Settings with all defaults.
fn settings() -> Value {
    json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings", "metadata": {"name": "a"}, "spec": {}})
}

fn edits_among(count: usize) {
    let serving = serving();
    let mut set = ObjectSet {
        clusters: (0..count).map(|number| object(number, 0, &serving)).collect(),
        settings: vec![settings()],
        ..ObjectSet::default()
    };
    let mut pipeline = Pipeline::default();
    let mut first = Times::new();
    let since = Instant::now();
    pipeline.take(set.clone(), &mut first);
    println!("{count} objects: the first translation takes {:?}", since.elapsed());
    assert!(pipeline.served.version_of("c00000.scale.example.com").is_some());
    let mut times = Times::new();
    for edition in 1..=EDITS {
        let before = Arc::clone(&pipeline.served);
        set.clusters[count / 2] = object(count / 2, edition, &serving);
        pipeline.take(set.clone(), &mut times);
        assert_ne!(*before, *pipeline.served);
    }
    let mut sum = Duration::ZERO;
    for (name, mut all) in times {
        all.sort();
        sum += all[all.len() / 2];
        println!("  {name}: {:?}", all[all.len() / 2]);
    }
    println!("  an edit: {sum:?}");
}

/// The time of a round whatever is edited, and of each edit in it: the bound of a round's edits is made of both.
fn rounds_among(count: usize) {
    const MANY: usize = 33;
    let serving = serving();
    let instance = |name: &str| {
        Arc::new(json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": "Instance", "metadata": {"name": name},
            "spec": {"clustersSelector": {"matchLabels": {"team": name}}, "gatewaysSelector": {}}}))
    };
    for (instances, edits) in [(vec![], 1), (vec![], MANY), (vec![instance("a"), instance("b")], 1)] {
        let labelled = |number: usize, edition| {
            let mut document = object(number, edition, &serving).as_ref().clone();
            document["metadata"]["labels"] = json!({"team": "a"});
            Arc::new(document)
        };
        let mut set = ObjectSet {
            clusters: (0..count).map(|number| labelled(number, 0)).collect(),
            settings: vec![settings()],
            instances: instances.clone(),
            ..ObjectSet::default()
        };
        let mut pipeline = Pipeline::default();
        pipeline.take(set.clone(), &mut Times::new());
        let mut took = Vec::new();
        for edition in 1..=EDITS {
            for number in 0..edits {
                set.clusters[number] = labelled(number, edition);
            }
            let (edited, since) = (set.clone(), Instant::now());
            pipeline.take(edited, &mut Times::new());
            took.push(since.elapsed());
        }
        took.sort();
        println!("{count} objects, {} instances, {edits} edits: {:?}", instances.len(), took[took.len() / 2]);
    }
}

#[test]
#[ignore = "a measurement: cargo test --release --workspace --bins -- --ignored --nocapture rounds_are"]
fn rounds_are_measured() {
    [100, 1_000, 10_000].into_iter().for_each(rounds_among);
}

#[test]
#[ignore = "a measurement: cargo test --release --workspace --bins -- --ignored --nocapture edit_among"]
fn edit_among_many_objects_is_measured() {
    edits_among(1_000);
    edits_among(10_000);
}

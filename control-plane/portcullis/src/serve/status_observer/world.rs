//! The inputs of an observer, for tests, with what changes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portcullis_api::status::{LimitFacts, Served};
use portcullis_api::{CLUSTER_KIND, INSTANCE_KIND};
use portcullis_instances::InstanceVerdict;
use portcullis_translate::{Diagnosis, Reason, Version, type_urls};
use portcullis_xds::testing::{RegisteredStream, reject};
use portcullis_xds::{
    AckState, AckStates, Endpoints, HealthRegistry, Registry, RejectedNode, Resource, Snapshot, View,
};
use prost::Message;
use tokio::sync::watch;

use super::{ObserverInputs, StatusObserver};
use crate::activity_report::{ClusterMessage, ShadowMessage};
use crate::serve::discovery::Answers;
use crate::serve::instance_views::{InstanceState, InstanceStates};
use crate::serve::limit_reports::LimitReports;
use crate::serve::policies::PolicyVerdicts;
use crate::serve::report_origin::ReportOrigin;
use crate::serve::shadow_reports::ShadowReports;
use crate::serve::source::SourceState;
use crate::serve::token_keys::KeysByObject;

/// The contents of each object's pool in one view; 0 is none.
pub(super) type Contents = Vec<u8>;

pub(super) struct World {
    pub(super) diagnoses: watch::Sender<Arc<Vec<Arc<Diagnosis>>>>,
    pub(super) snapshots: watch::Sender<Option<Arc<Snapshot>>>,
    pub(super) instances: watch::Sender<Arc<InstanceStates>>,
    pub(super) answers: watch::Sender<Arc<Answers>>,
    pub(super) token_keys: watch::Sender<Arc<KeysByObject>>,
    pub(super) policies: watch::Sender<Arc<PolicyVerdicts>>,
    pub(super) registry: Arc<Registry>,
    pub(super) health: Arc<HealthRegistry>,
    pub(super) shadows: Arc<ShadowReports>,
    pub(super) limited: Arc<Mutex<Arc<BTreeSet<String>>>>,
    pub(super) limits: Arc<LimitReports>,
    pub(super) streams: BTreeMap<usize, RegisteredStream>,
}

/// The views of Envoys of none, of two instances, and of a Gateway, which has what the first ones have.
pub(super) const VIEWS: [Option<&str>; 4] = [None, Some("instance/a"), Some("instance/b"), Some("gateway/infra/edge")];

pub(super) fn cluster(number: usize) -> String {
    format!("c{number:05}.test")
}

/// A diagnosis of an `UpstreamCluster`.
pub(super) fn diagnosis(number: usize, edition: u8) -> Arc<Diagnosis> {
    diagnosis_of(CLUSTER_KIND, cluster(number), edition)
}

pub(super) fn diagnosis_of(kind: &str, name: String, edition: u8) -> Arc<Diagnosis> {
    Arc::new(Diagnosis {
        kind: kind.to_owned(),
        name,
        at: None,
        accepted: edition > 0,
        reason: if edition > 0 { Reason::Accepted } else { Reason::Invalid },
        message: String::new(),
        warnings: Vec::new(),
        problems: Vec::new(),
        cautions: Vec::new(),
        names: Vec::new(),
        shadow: (edition == 2).then(|| "edition".to_owned()),
        version: Version { generation: Some(edition.into()), served: Served::Newest, ..Version::default() },
    })
}

/// The diagnoses of two instances, which come last.
pub(super) fn instance_diagnoses() -> Vec<Arc<Diagnosis>> {
    ["a", "b"].map(|name| diagnosis_of(INSTANCE_KIND, name.to_owned(), 1)).into()
}

/// A snapshot of pools, and of a listener that is no object's.
pub(super) fn snapshot(views: &[Contents; 3], listener: u8, is_divided: bool) -> Snapshot {
    let owned = |contents: &Contents, owner: &dyn Fn(usize) -> String| {
        let pools = contents.iter().enumerate().filter(|(_, content)| **content > 0).map(|(number, content)| {
            let resource = Resource::new(vec![*content]);
            let pool = format!("{}@{}", pool(number), content % 2);
            (type_urls::cluster(), pool, resource.owned_by(owner(number)))
        });
        let shared = (type_urls::listener(), "listener".to_owned(), Resource::new(vec![listener]));
        Snapshot::new(pools.chain([shared]))
    };
    let of = |contents: &Contents| owned(contents, &cluster);
    let [base, a, b] = views;
    let divided = [(VIEWS[1], a), (VIEWS[2], b)].into_iter().filter(|_| is_divided);
    let of_gateway = owned(base, &|number| format!("{CLUSTER_KIND} {}", cluster(number)));
    let views = divided.map(|(name, contents)| (name.unwrap().to_owned(), of(contents)));
    of(base).with_views(views.chain([(VIEWS[3].unwrap().to_owned(), of_gateway)]))
}

fn pool(number: usize) -> String {
    format!("lab/-/{}/all.h2", cluster(number))
}

fn sender<T>(value: T) -> watch::Sender<T> {
    watch::Sender::new(value)
}

impl World {
    pub(super) fn new() -> Self {
        let limited: Arc<Mutex<Arc<BTreeSet<String>>>> = Arc::default();
        let of_objects = Arc::clone(&limited);
        Self {
            diagnoses: sender(Arc::default()),
            snapshots: sender(None),
            instances: sender(Arc::default()),
            answers: sender(Arc::default()),
            token_keys: sender(Arc::default()),
            policies: sender(Arc::default()),
            registry: Arc::default(),
            health: Arc::default(),
            shadows: Arc::default(),
            limits: Arc::new(LimitReports::new(move || Arc::clone(&of_objects.lock().unwrap()))),
            limited,
            streams: BTreeMap::new(),
        }
    }

    pub(super) fn observer(&self) -> StatusObserver {
        StatusObserver::new(ObserverInputs {
            diagnoses: self.diagnoses.subscribe(),
            snapshots: self.snapshots.subscribe(),
            instances: self.instances.subscribe(),
            registry: Arc::clone(&self.registry),
            health: Arc::clone(&self.health),
            gateway_health_pace: Duration::ZERO,
            source: SourceState::of_files(),
            answers: self.answers.subscribe(),
            shadows: Arc::clone(&self.shadows),
            token_keys: self.token_keys.subscribe(),
            limits: Arc::clone(&self.limits),
            policies: Some(self.policies.subscribe()),
        })
    }

    /// Opens or closes the stream of a node of a view.
    pub(super) fn toggle(&mut self, view: usize) {
        let served = self.snapshots.borrow().clone().unwrap_or_default();
        if self.streams.remove(&view).is_none() {
            let of_view = View(VIEWS[view].map(str::to_owned));
            let name = ["n", "a/n", "b/n", "gateway:infra/edge/n"][view];
            self.streams.insert(view, RegisteredStream::open(&self.registry, name, of_view, &served));
        }
    }

    /// Has all streams take the newest snapshot.
    pub(super) fn follow(&mut self) {
        if let Some(served) = self.snapshots.borrow().clone() {
            self.streams.values_mut().for_each(|stream| stream.follow(&served));
        }
    }

    /// Has all streams acknowledge everything.
    pub(super) fn acknowledge(&mut self) {
        self.streams.values_mut().for_each(|stream| while stream.answer(false) {});
    }

    /// A report of an agent about the pools of these numbers of healthy servers.
    pub(super) fn report(&self, node: usize, healthy: &[u8], age: Duration) {
        let seen = |(number, healthy): (usize, &u8)| {
            let endpoints = Endpoints { healthy: u32::from(*healthy), total: 2, unhealthy: Vec::new() };
            (healthy < &3).then(|| (pool(number), endpoints))
        };
        let of_view = |view: usize| Some(vec![View(VIEWS[view].map(str::to_owned))]);
        let views = [None, of_view(1), of_view(0), of_view(3)][node].clone();
        let clusters = healthy.iter().enumerate().filter_map(seen).collect();
        let at = Instant::now().checked_sub(age).unwrap();
        self.health.record_within(AGENTS[node], clusters, views, at);
    }

    /// The answers that an agent repeats: to the version that is served, or to another one.
    pub(super) fn repeat(&self, node: usize, answers: &[u8]) {
        let served = self.snapshots.borrow().clone().unwrap_or_default();
        let one = |(number, answer): (usize, &u8)| {
            let in_view =
                |view: &Option<&str>| served.view(&View(view.map(str::to_owned)))?.version_of(&cluster(number));
            let version = VIEWS.iter().find_map(in_view).filter(|_| *answer < 3).unwrap_or_default();
            let state = if answer % 2 == 0 { AckState::Acknowledged } else { AckState::Refused };
            (*answer > 0).then(|| ((cluster(number), version), state))
        };
        self.health.answered(AGENTS[node], answers.iter().enumerate().filter_map(one).collect::<AckStates>());
    }

    pub(super) fn freeze(&self, age: Duration) {
        let last = Instant::now().checked_sub(age).unwrap();
        let (node, by, reason) = ("frozen".to_owned(), "a peer".to_owned(), "reads another version".to_owned());
        reject(&self.registry, RejectedNode { node, by, reason, times: 0, is_frozen: true, last });
    }

    /// The instances of each object, in so many states.
    pub(super) fn divide(&self, owners: &[u8], is_served: bool) {
        let one = |(number, owner): (usize, &u8)| {
            let instances = [vec![], vec!["a"], vec!["b"], vec!["a", "b"]][usize::from(*owner)].clone();
            (!instances.is_empty()).then(|| (cluster(number), instances.into_iter().map(str::to_owned).collect()))
        };
        let verdict = InstanceVerdict { is_accepted: true, reason: "Accepted", ..InstanceVerdict::default() };
        let state = || InstanceState { verdict: verdict.clone(), is_served };
        let states = InstanceStates {
            by_name: ["a", "b"].map(|name| (name.to_owned(), state())).into(),
            of_clusters: owners.iter().enumerate().filter_map(one).collect(),
            ..InstanceStates::default()
        };
        self.instances.send_replace(Arc::new(states));
    }

    /// A gateway's counts of the shadow of an object.
    pub(super) fn shadow(&self, number: usize, judged: u64) {
        let shadow = ShadowMessage { generation: "edition".to_owned(), judged, differences: Vec::new(), others: 0 };
        let shadows = vec![shadow.encode_to_vec().into()];
        let message = ClusterMessage { cluster: cluster(number), shadows, ..ClusterMessage::default() };
        self.shadows.take(ReportOrigin::free("n"), 1, &[message], Instant::now());
    }

    /// The objects with limits of all gateways, and as many gateways that report about each.
    pub(super) fn limit(&self, gateways: &[u8]) {
        let limited = gateways.iter().enumerate().filter(|(_, gateways)| **gateways > 0);
        *self.limited.lock().unwrap() = Arc::new(limited.map(|(number, _)| cluster(number)).collect());
        let facts = |(number, gateways): (usize, &u8)| {
            (cluster(number), LimitFacts { gateways: usize::from(*gateways / 2), ..LimitFacts::default() })
        };
        self.limits.replace(&Arc::new(gateways.iter().enumerate().map(facts).collect()));
    }
}

/// The nodes of agents: of this machine, of an instance, of none, and of a Gateway.
const AGENTS: [&str; 4] = ["n", "a/away", "free", "gateway:infra/edge/n"];

/// The value of each object that has one, by its name.
pub(super) fn named<T>(all: &[u8], one: impl Fn(u8) -> T) -> Vec<(String, T)> {
    let there = all.iter().enumerate().filter(|(_, value)| **value > 0);
    there.map(|(number, value)| (cluster(number), one(*value))).collect()
}

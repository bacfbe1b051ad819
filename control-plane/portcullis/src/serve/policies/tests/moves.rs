//! A policy that moves between a door and the cluster behind it, with the real steps in any order: policies, judgement, translation.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_api::{KeyPair, PublicBytes, SecretBytes};
use portcullis_attach::{
    BoundRoute, DoorPolicies, HostPattern, HostTable, ListenerRole, ObjectName, RouteKind, ServedBackend,
    ServedGateway, ServedListener, WeightedBackend,
};
use portcullis_xds::Snapshot;
use proptest::prelude::*;

use super::super::super::cluster_progress::ClusterProgress;
use super::super::super::gateway_api::FormerDoors;
use super::super::super::gateway_views::{GatewayDemand, gateway_view};
use super::super::super::reconciler::Reconciler;
use super::*;

const NAME: &str = "a.test";
/// A path that the cluster lets in.
const OPEN: &str = "/open";
const PATHS: [&str; 3] = ["/p0", "/p1", "/p2"];

/// An event.
#[derive(Clone, Copy, Debug)]
enum MoveEvent {
    /// The policy denies some of the paths, at the door (1), the cluster (2), both or neither.
    Policy { paths: u8, targets: u8 },
    /// The cluster's owner denies paths, and may make a mistake.
    Owner { paths: u8, is_wrong: bool },
    /// Policies are attached.
    Attach,
    /// Gateways are judged.
    Judge,
    /// The newest set and the newest demand are translated.
    Translate,
}

fn event() -> impl Strategy<Value = MoveEvent> {
    prop_oneof![
        3 => (0..8_u8, 0..4_u8).prop_map(|(paths, targets)| MoveEvent::Policy { paths, targets }),
        3 => (1..4_u8).prop_map(|targets| MoveEvent::Policy { paths: 7, targets }),
        1 => (0..8_u8, any::<bool>()).prop_map(|(paths, is_wrong)| MoveEvent::Owner { paths, is_wrong }),
        5 => Just(MoveEvent::Attach),
        4 => Just(MoveEvent::Judge),
        4 => Just(MoveEvent::Translate),
    ]
}

struct World {
    stage: PolicyStage,
    sets: watch::Sender<Arc<ObjectSet>>,
    memory: StepMemory,
    doors: FormerDoors,
    progress: ClusterProgress,
    /// The number of the policies at doors of the demand, and of what is served.
    doors_number: u64,
    doors_served: u64,
    demand: Option<Arc<GatewayDemand>>,
    reconciler: Reconciler,
    pair: Arc<KeyPair>,
    policy: Arc<Value>,
    cluster: Arc<Value>,
    /// The namespace of the policy and of the route: in that of the control plane it decides at the cluster.
    namespace: &'static str,
    /// The paths and the targets of the newest policy, and the paths that the newest cluster denies itself.
    newest: (u8, u8),
    owners: u8,
    /// The paths that each version denied.
    always: u8,
}

fn edge() -> ObjectName {
    ObjectName::new("infra", "edge")
}

fn denials(paths: u8) -> Vec<Value> {
    let denied = PATHS.iter().enumerate().filter(|(index, _)| paths & (1 << index) != 0);
    let denial =
        |path: &str| json!({"rules": [{"verbs": ["*"], "nonResourceURLs": [path]}], "portcullis": {"action": "Deny"}});
    denied.map(|(_, path)| denial(path)).collect()
}

fn policy_of(namespace: &str, paths: u8, targets: u8) -> Arc<Value> {
    let all = [
        json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "r"}),
        json!({"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": NAME}),
    ];
    let targets: Vec<&Value> =
        all.iter().enumerate().filter(|(index, _)| targets & (1 << index) != 0).map(|(_, one)| one).collect();
    Arc::new(json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "DispatchPolicy",
        "metadata": {"name": "x", "namespace": namespace, "uid": "u"},
        "spec": {"targetRefs": targets, "overrides": {"dispatchPolicies": denials(paths)}},
    }))
}

fn owned(paths: u8, is_wrong: bool, pair: &KeyPair) -> Arc<Value> {
    let mut policies = denials(paths);
    policies.push(json!({"rules": [{"verbs": ["*"], "nonResourceURLs": [OPEN]}]}));
    let mut document = cluster(NAME).as_ref().clone();
    document["spec"]["dispatchPolicies"] = json!(policies);
    let [certificate, key] = [pair.chain.as_slice(), pair.key.expose()].map(|pem| STANDARD.encode(pem));
    document["spec"]["secureServing"] = json!({"certData": certificate, "keyData": key});
    if is_wrong {
        document["spec"]["servers"] = json!([]);
    }
    Arc::new(document)
}

fn grant() -> Arc<Value> {
    Arc::new(json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
        "metadata": {"name": "g", "namespace": "portcullis"},
        "spec": {
            "from": [{"group": "portcullis.dev", "kind": "DispatchPolicy", "namespace": "team"}],
            "to": [{"group": "proxy.kubegateway.io", "kind": "UpstreamCluster"}],
        },
    }))
}

fn served(namespace: &str, policies: DoorPolicies) -> ServedGateway {
    let backend = WeightedBackend { backend: ServedBackend::Cluster(NAME.to_owned()), weight: 1 };
    let route = ObjectName::new(namespace, "r");
    let route = BoundRoute { kind: RouteKind::Http, route, backends: vec![backend], refused_weight: 0 };
    let routes = HostTable { routes: [(HostPattern::parse("r.test").unwrap(), route)].into(), ..HostTable::default() };
    let role = ListenerRole::Terminate { certificates: vec![edge()], client_ca: None, routes };
    let listener = ServedListener { name: "https".to_owned(), port: 443, host: HostPattern::Any, role };
    ServedGateway { gateway: edge(), addresses: vec![], settings: None, listeners: vec![listener], policies }
}

fn key_pair() -> Arc<KeyPair> {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["r.test".to_owned()]).unwrap().self_signed(&key).unwrap();
    let chain = PublicBytes::new(certificate.pem().into_bytes());
    let key = SecretBytes::new(key.serialize_pem().into_bytes());
    Arc::new(KeyPair { chain, key, validity: Duration::from_secs(3_600), holder: Vec::new() })
}

impl World {
    fn new(namespace: &'static str) -> Self {
        let stage = PolicyStage {
            policies: watch::channel(Arc::default()).1,
            gateway_api: None,
            home_namespace: "portcullis".to_owned(),
            verdicts: watch::Sender::new(Arc::default()),
            instances: watch::channel(Arc::default()).1,
            doors_served: watch::channel(0).1,
        };
        let pair = key_pair();
        let mut world = Self {
            stage,
            sets: watch::Sender::new(Arc::default()),
            memory: StepMemory::default(),
            doors: FormerDoors::default(),
            progress: ClusterProgress::default(),
            doors_number: 0,
            doors_served: 0,
            demand: None,
            reconciler: Reconciler::resume(None, Duration::from_secs(3_600)),
            policy: policy_of(namespace, 7, 1),
            cluster: owned(0, false, &pair),
            pair,
            namespace,
            newest: (7, 1),
            owners: 0,
            always: 7,
        };
        for event in [MoveEvent::Attach, MoveEvent::Translate, MoveEvent::Judge] {
            world.take(event);
        }
        world
    }

    fn take(&mut self, event: MoveEvent) -> Option<Snapshot> {
        match event {
            MoveEvent::Policy { paths, targets } => {
                // One that decides cannot be without a policy.
                let paths = if self.decides() { paths.max(1) } else { paths };
                self.policy = policy_of(self.namespace, paths, targets);
                self.newest = (paths, targets);
            }
            MoveEvent::Owner { paths, is_wrong } => {
                // A path that an owner leaves to a door has to be there first.
                let paths = paths | (self.owners & self.always);
                self.cluster = owned(paths, is_wrong, &self.pair);
                self.owners = paths;
            }
            MoveEvent::Attach => self.attach(),
            MoveEvent::Judge => self.judge(),
            MoveEvent::Translate => return Some(self.translate()),
        }
        self.always &= self.denied();
        None
    }

    fn decides(&self) -> bool {
        self.namespace == self.stage.home_namespace
    }

    /// The paths that the newest objects deny. A list of denials in the place of the owner's lets nothing in.
    fn denied(&self) -> u8 {
        match self.newest {
            (_, 2 | 3) if self.decides() => 7,
            (_, 0) => self.owners,
            (paths, _) => paths | self.owners,
        }
    }

    fn attach(&mut self) {
        let spec = json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings", "metadata": {"name": "s"}, "spec": {}});
        let objects =
            ObjectSet { clusters: vec![Arc::clone(&self.cluster)], settings: vec![spec], ..ObjectSet::default() };
        let dispatch = WatchedKind::Policy(PolicyKind::Dispatch);
        let policies = [(dispatch, vec![Arc::clone(&self.policy)]), (WatchedKind::ReferenceGrant, vec![grant()])];
        let input = StepInput {
            objects: Arc::new(objects),
            policies: Arc::new(GatewayApiObjects::of_policies(policies)),
            gateway_api: Some(Arc::default()),
            home_namespace: self.stage.home_namespace.clone(),
            instances: Arc::default(),
            doors_served: self.doors_served,
        };
        let Merged { step, memory } = merge(&input, std::mem::take(&mut self.memory));
        self.memory = memory;
        self.stage.publish(&self.sets, step);
    }

    fn judge(&mut self) {
        let verdicts = self.stage.verdicts.borrow();
        let policies = self.doors.follow(verdicts.at_doors().unwrap(), &self.progress);
        self.demand = Some(Arc::new(GatewayDemand {
            served: Arc::new(vec![Arc::new(served(self.namespace, DoorPolicies::clone(&policies)))]),
            requested_clusters: [NAME.to_owned()].into(),
            certificates: [(edge(), Arc::clone(&self.pair))].into(),
            ..GatewayDemand::default()
        }));
        self.doors_number = verdicts.doors_number();
    }

    fn translate(&mut self) -> Snapshot {
        let set = Arc::clone(&self.sets.borrow());
        self.reconciler.serve_gateways(self.demand.clone(), BTreeSet::new());
        let reconciled = self.reconciler.reconcile(&set, &BTreeSet::new(), Instant::now()).unwrap();
        self.doors_served = self.doors_number;
        self.progress = reconciled.progress;
        reconciled.snapshot
    }
}

/// The paths that are denied to requests of the route; `None` if none are served.
fn denied(snapshot: &Snapshot) -> Option<u8> {
    let view = snapshot.view(&gateway_view(&edge()))?;
    let routes = view.resources().filter(|(url, _, _)| url.ends_with("RouteConfiguration"));
    let mut bodies = routes.map(|(_, _, resource)| resource.pieces().concat());
    let has = |body: &[u8], text: &str| body.windows(text.len()).any(|part| part == text.as_bytes());
    let body = bodies.find(|body| has(body, "\"policies\":"))?;
    if !has(&body, OPEN) {
        return Some(7);
    }
    let paths = PATHS.iter().enumerate().filter(|(_, path)| has(&body, path));
    Some(paths.map(|(index, _)| 1 << index).sum())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// A path that each version of policy and cluster denies together is denied by all that is ever served, whether the policy tightens at
    /// the cluster or decides there.
    #[test]
    fn policy_that_moves_has_no_unprotected_moment(
        namespace in prop::sample::select(vec!["team", "portcullis"]),
        events in prop::collection::vec(event(), 1..40),
    ) {
        let mut world = World::new(namespace);
        for event in events {
            let Some(found) = world.take(event).as_ref().and_then(denied) else { continue };
            prop_assert_eq!(world.always & !found, 0, "{:?} serves {}", event, found);
        }
        // All that waited is done in the end.
        world.take(MoveEvent::Owner { paths: 0, is_wrong: false });
        let mut last = None;
        for event in [MoveEvent::Attach, MoveEvent::Judge, MoveEvent::Translate].into_iter().cycle().take(12) {
            last = world.take(event).as_ref().and_then(denied).or(last);
        }
        prop_assert_eq!(last, Some(world.denied()));
    }
}

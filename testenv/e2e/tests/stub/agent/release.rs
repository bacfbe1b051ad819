//! An upgrade to a release with another configuration version, under load: control planes first, then the gateways.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use portcullis_filter_config::{CONFIG_VERSION, NODE_CONFIG_VERSION};
use portcullis_harness::agent::{Agent, AgentOptions};
use portcullis_harness::balancer::{Backend, Balancer};
use portcullis_harness::client::{ClientPool, OpenLoopLoad, Outcome};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::process::Signal;
use portcullis_harness::{wait, write_private};
use portcullis_translate::{FilterBuild, Input, choose_settings, translate};
use portcullis_xds::{Listeners, NodeInfo, Registry, ServerState, Snapshot, Socket, Unserved, View, Views};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::fixture::{AgentFixture, SOON};
use super::rolling::lanes;
use crate::bad_control_plane::entry;
use crate::fixture::{NAME, PODS};

/// The configuration version of the release before.
const OLDER: u32 = CONFIG_VERSION - 1;
/// How often the load balancer asks for readiness.
const ASKS: Duration = Duration::from_millis(200);
const PER_SECOND: f64 = 300.0;

/// Serves gateways of the release before, and no others.
struct OlderViews;

impl Views for OlderViews {
    fn view(&self, node: &NodeInfo) -> Result<View, Unserved> {
        let is_served = node.metadata.get(NODE_CONFIG_VERSION) == Some(&OLDER.to_string());
        is_served.then(View::default).ok_or_else(|| Unserved::Frozen("newer than this control plane".to_owned()))
    }
}

/// A control plane of the release before, in this process. It serves resources in the shape of today's release.
struct OlderPlane {
    socket: PathBuf,
    registry: Arc<Registry>,
    _snapshots: watch::Sender<Option<Arc<Snapshot>>>,
    _runtime: tokio::runtime::Runtime,
}

impl OlderPlane {
    fn start(socket: PathBuf, manifests: &Path) -> Self {
        let document = |name: &str| -> Value {
            serde_json::from_str(&std::fs::read_to_string(manifests.join(name)).unwrap()).unwrap()
        };
        let settings = choose_settings(&[document("settings.yaml")], None).settings.unwrap();
        let clusters = [Arc::new(document("cluster.yaml"))];
        let translation = translate(&Input { settings: &settings, clusters: &clusters, filter: FilterBuild::Module });
        let resources = translation.resources().into_iter().map(|one| entry(one.as_ref().clone(), &[]));
        let (sender, snapshots) = watch::channel(Some(Arc::new(Snapshot::new(resources))));
        let registry = Arc::new(Registry::default());
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let bound = runtime.block_on(async { Socket::bind(&socket) }).unwrap();
        let views = Arc::new(OlderViews);
        let served =
            ServerState { snapshots, registry: Arc::clone(&registry), health: Arc::default(), views, reports: None };
        let doors = Listeners { socket: Some(bound), ..Listeners::default() };
        runtime.spawn(portcullis_xds::serve(doors, served, std::future::pending()));
        Self { socket, registry, _snapshots: sender, _runtime: runtime }
    }
}

/// A gateway with its control planes: the one of the release before, and the one of this release once that is started.
struct Site {
    older: Option<OlderPlane>,
    plane: ControlPlane,
    manifests: PathBuf,
    agent: Agent,
    options: AgentOptions,
    address: std::net::SocketAddr,
}

impl Site {
    fn start(fixture: &AgentFixture, name: &str) -> Self {
        let (mut planes, manifests, address) = fixture.site(name).control_planes().unwrap();
        let plane = planes.remove(0);
        plane.process().kill();
        let older = OlderPlane::start(plane.xds_socket().with_file_name("older.sock"), &manifests);
        let sockets = [older.socket.clone(), plane.xds_socket().to_owned()];
        let mut options = AgentOptions::new(sockets.iter().map(PathBuf::as_path));
        (options.shutdown_delay_seconds, options.drain_timeout_seconds) = (1, 5);
        let flags = ["--config-version".to_owned(), OLDER.to_string()].to_vec();
        let agent = Agent::start(fixture.run.path(), name, &AgentOptions { flags, ..options.clone() }).unwrap();
        agent.wait_ready(SOON).unwrap();
        Site { older: Some(older), plane, manifests, agent, options, address }
    }

    /// How many updates the gateway's Envoy has taken, and how many it has refused.
    fn updates(&self) -> [u64; 4] {
        let names = ["cluster_manager.cds", "listener_manager.lds"];
        let [cds, lds] = names.map(|name| {
            ["success", "rejected"].map(|end| self.agent.admin().stat(&format!("{name}.update_{end}")).unwrap())
        });
        [cds[0], cds[1], lds[0], lds[1]]
    }

    /// The control plane's upgrade: the new one starts, then the older one ends.
    fn upgrade_plane(&mut self, name: &str) {
        let before = self.updates();
        self.plane.restart().unwrap();
        assert!(self.older.take().unwrap().registry.nodes().iter().any(|node| node.id == name && node.in_sync));
        let is_frozen = |status: &Value| {
            let reason = status["rejectedNodes"][0]["reason"].as_str().unwrap_or_default();
            status["rejectedNodes"][0]["node"] == name && reason.contains(&format!("configuration version {OLDER},"))
        };
        self.plane.wait_status("the status says that the gateway keeps its configuration", SOON, is_frozen).unwrap();
        // An edit does not reach it, and its writer learns the reason from the object's status.
        let path = self.manifests.join("cluster.yaml");
        let mut edited: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        edited["spec"]["portcullis"] = json!({"drainPeriod": "7s"});
        write_private(&path, edited.to_string().as_bytes()).unwrap();
        let names_it = |status: &Value| {
            let object = status["objects"].as_array().into_iter().flatten().find(|one| one["name"] == NAME);
            object.is_some_and(|object| object["conditions"].to_string().contains("keeps its last configuration"))
        };
        self.plane.wait_status("the object's status names the gateway", SOON, names_it).unwrap();
        assert_eq!(self.updates(), before, "it took nothing and refused nothing");
        assert_eq!(self.agent.status_of("/readyz").unwrap(), 200, "it is ready, and serves what it has");
    }

    fn stop_agent(&self) {
        self.agent.process().signal(Signal::Term).unwrap();
        assert_eq!(self.agent.process().wait_exit(SOON * 4).unwrap().code(), Some(0));
    }
}

fn at_least(load: &OpenLoopLoad, good: u64) -> Outcome {
    let mut outcome = Outcome::default();
    wait::until("so many requests are answered", SOON, || {
        outcome = std::mem::take(&mut outcome).and(load.take());
        (outcome.good() >= good || outcome.failed > 0).then_some(())
    })
    .unwrap();
    outcome
}

#[test]
fn release_upgrade_freezes_gateways_and_fails_no_request() {
    let fixture = AgentFixture::new("release-upgrade");
    let names = ["envoy-0", "envoy-1"];
    let mut sites = names.map(|name| Site::start(&fixture, name));
    let backends = sites.iter().map(|site| Backend { address: site.address, readiness: site.agent.http_address() });
    let balancer = Balancer::start(backends.collect(), ASKS).unwrap();
    let are_ready = |count| wait::until("gateways are ready", SOON, || (balancer.ready().len() == count).then_some(()));
    are_ready(2).unwrap();
    let crowd = ClientPool::new(2).unwrap();
    let load = crowd.steady(&lanes(&fixture.target(balancer.address()), 10), &[PODS], PER_SECOND).unwrap();
    let mut outcome = at_least(&load, 100);
    for (site, name) in sites.iter_mut().zip(names) {
        site.upgrade_plane(name);
    }
    outcome = outcome.and(at_least(&load, 100));

    // A gateway of the release before that starts now gets no configuration, and no client.
    sites[0].stop_agent();
    sites[0].agent.start_again().unwrap();
    let refused = |site: &Site| site.plane.status().unwrap()["rejectedNodes"][0]["times"].as_u64().unwrap_or_default();
    let before = refused(&sites[0]);
    wait::until("it asks again", SOON, || (refused(&sites[0]) > before).then_some(())).unwrap();
    assert_ne!(sites[0].agent.status_of("/readyz").unwrap(), 200);
    assert!(!sites[0].agent.admin().config_dump().unwrap().to_string().contains(NAME));
    outcome = outcome.and(at_least(&load, 100));

    for site in &mut sites {
        site.stop_agent();
        site.agent.start_again_with(&site.options).unwrap();
        site.agent.wait_ready(SOON).unwrap();
        are_ready(2).unwrap();
        let is_served = |status: &Value| status["nodes"][0]["inSync"] == true && status.get("rejectedNodes").is_none();
        site.plane.wait_status("it is served, and no longer turned away", SOON, is_served).unwrap();
        outcome = outcome.and(at_least(&load, 100));
    }
    let outcome = outcome.and(load.stop().unwrap());
    assert_eq!(outcome.failed, 0, "{outcome}");
}

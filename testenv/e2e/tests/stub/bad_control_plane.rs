//! A control plane that serves what the product translates, but with parts that Envoy refuses.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use portcullis_e2e::{Manifest, default_certificate, settings};
use portcullis_filter_config::CONFIG_VERSION;
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, ports, wait};
use portcullis_translate::{FilterBuild, Input, Resource as Translated, choose_settings, translate, type_urls};
use portcullis_xds::{Listeners, NodeStatus, OneView, Part, Registry, Resource, ServerState, Snapshot, Socket};
use prost::Message;
use serde_json::Value;
use tokio::sync::watch;

/// A control plane in this process, and an Envoy.
pub(crate) struct BadControlPlane {
    snapshots: watch::Sender<Option<Arc<Snapshot>>>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) address: SocketAddr,
    pub(crate) serving_ca: Ca,
    settings: Value,
    pub(crate) envoy: Envoy,
    // Prints the bootstrap; serves no client.
    _plane: ControlPlane,
    _runtime: tokio::runtime::Runtime,
}

impl BadControlPlane {
    pub(crate) fn start(run: &RunDir) -> Self {
        Self::start_with(run, |_| {})
    }

    /// Starts an Envoy with a bootstrap that was changed.
    pub(crate) fn start_with(run: &RunDir, change: impl Fn(&mut Value)) -> Self {
        let dir = run.make_dir("control_plane").unwrap();
        let address = ports::free_address().unwrap();
        let serving_ca = Ca::new("gateway serving authority").unwrap();
        let default = default_certificate(&serving_ca).unwrap();
        let settings = serde_json::from_str(&settings("e2e", address, &default)).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (snapshots, receiver) = watch::channel(None);
        let registry = Arc::new(Registry::default());
        let plane = ControlPlane::start(&dir, &run.make_dir("control_plane/manifests").unwrap()).unwrap();
        let socket_path: PathBuf = plane.xds_socket().with_file_name("bad.sock");
        let socket_flag = socket_path.display().to_string();
        let mut flags = vec!["--xds-socket", &*socket_flag];
        if deps::runs_wasm() {
            flags.extend(["--filter", "wasm"]);
        }
        let mut bootstrap = plane.bootstrap_at("envoy-0", &flags).unwrap();
        change(&mut bootstrap);
        let socket = runtime.block_on(async { Socket::bind(&socket_path) }).unwrap();
        let served = ServerState {
            snapshots: receiver,
            registry: Arc::clone(&registry),
            health: Arc::default(),
            views: Arc::new(OneView),
            reports: None,
        };
        let doors = Listeners { socket: Some(socket), ..Listeners::default() };
        runtime.spawn(portcullis_xds::serve(doors, served, std::future::pending()));
        let envoy = Envoy::start(&dir, "envoy-0", &EnvoyOptions::new(bootstrap)).unwrap();
        Self { snapshots, registry, address, serving_ca, settings, envoy, _plane: plane, _runtime: runtime }
    }

    pub(crate) fn serving_identity(&self, name: &str) -> Identity {
        self.serving_ca.issue(&CertSpec::server(name, [name])).unwrap()
    }

    /// Opens a port for tunnels with the next manifests.
    pub(crate) fn open_tunnels(&mut self) -> SocketAddr {
        let door = ports::free_address().unwrap();
        self.settings["spec"]["listener"]["tunnel"] = serde_json::json!({"port": door.port()});
        door
    }

    /// Serves the manifests; the chains of those named are such that Envoy refuses them.
    pub(crate) fn publish(&self, manifests: &[Manifest], bad: &[&str]) -> Arc<Snapshot> {
        self.publish_as(manifests, |one| entry(one, bad))
    }

    /// Serves the manifests in the words of another configuration version.
    pub(crate) fn publish_version(&self, manifests: &[Manifest], version: u32) {
        let (written, other) = (format!("\"version\":{CONFIG_VERSION},"), format!("\"version\":{version},"));
        assert_eq!(written.len(), other.len(), "lengths of messages stay as they are");
        let replaced = |bytes: &[u8]| replace(bytes, written.as_bytes(), other.as_bytes());
        self.publish_as(manifests, |mut one| {
            one.value = replaced(&one.value);
            one.parts.iter_mut().for_each(|part| part.body = vec![replaced(&part.body.concat()).into()]);
            entry(one, &[])
        });
    }

    fn publish_as(
        &self,
        manifests: &[Manifest],
        served: impl Fn(Translated) -> (String, String, Resource),
    ) -> Arc<Snapshot> {
        let documents: Vec<Arc<Value>> =
            manifests.iter().map(|one| Arc::new(serde_json::from_str(&one.to_text()).unwrap())).collect();
        let settings = choose_settings(std::slice::from_ref(&self.settings), None).settings.unwrap();
        let translation = translate(&Input { settings: &settings, clusters: &documents, filter: filter() });
        assert!(translation.diagnoses.iter().all(|one| one.accepted), "{:?}", translation.diagnoses);
        let resources = translation.resources().into_iter().map(|one| served(one.as_ref().clone()));
        let snapshot = Arc::new(Snapshot::new(resources));
        self.snapshots.send_replace(Some(Arc::clone(&snapshot)));
        snapshot
    }

    /// Waits until the node's status satisfies a condition.
    pub(crate) fn wait(&self, what: &str, holds: impl Fn(&NodeStatus) -> bool) -> NodeStatus {
        let found = || self.registry.nodes().into_iter().find(&holds);
        wait::until(what, Duration::from_secs(20), found)
            .unwrap_or_else(|error| panic!("{error}: {:#?}\n{}", self.registry, self.envoy.process().log()))
    }
}

/// The build of the filter that the tests run.
fn filter() -> FilterBuild {
    if deps::runs_wasm() { FilterBuild::Wasm } else { FilterBuild::Module }
}

/// A resource as a control plane serves it; the chains of the clusters in `bad` are such that Envoy refuses them.
pub(crate) fn entry(one: Translated, bad: &[&str]) -> (String, String, Resource) {
    let is_optional = one.is_optional();
    let parts = one.parts.into_iter().map(|part| {
        let is_bad = bad.contains(&&*part.owner);
        let body = if is_bad { vec![spoilt(&part.body.concat()).into()] } else { part.body };
        Part { owner: part.owner, body, fallback: Some(part.fallback) }
    });
    let mut resource = Resource::new(one.value);
    if one.type_url == type_urls::listener() {
        resource = resource.with_parts(parts);
    }
    if is_optional {
        resource = resource.optional();
    }
    if let Some(assignment) = one.assignment {
        resource = resource.with_companion(type_urls::assignment(), assignment);
    }
    if let Some(owner) = one.owner {
        resource = resource.owned_by(owner);
    }
    (one.type_url.to_owned(), one.name.to_string(), resource)
}

fn replace(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut replaced = bytes.to_vec();
    for start in 0..replaced.len().saturating_sub(old.len()) {
        if replaced[start..].starts_with(old) {
            replaced[start..start + old.len()].copy_from_slice(new);
        }
    }
    replaced
}

/// A chain with a filter that no Envoy has.
fn spoilt(chain: &[u8]) -> Vec<u8> {
    let mut listener = Listener::decode(chain).unwrap();
    let Some(ConfigType::TypedConfig(config)) = &mut listener.filter_chains[0].filters[0].config_type else { panic!() };
    config.type_url = "type.googleapis.com/portcullis.test.Nonsense".to_owned();
    listener.encode_to_vec()
}

//! The gateway as operators run it: a control plane over a directory, and `portcullis agent`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use portcullis_harness::agent::{Agent, AgentOptions};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{Result, deps, ports, write_private};
use serde_json::Value;

use crate::apiservers::Apiservers;
use crate::keys::{self, Serving};
use crate::manifests::Keys;
use crate::object_store::ObjectStore;
use crate::users::Users;
use crate::{CLUSTER, Filter, IdentityMode, manifests};

/// How long the gateway may take until it serves.
const SERVES: Duration = Duration::from_secs(60);

/// A control plane and a gateway that follows it. The gateway ends first.
pub(crate) struct Gateway {
    /// `None` until it is started.
    agent: Option<Agent>,
    plane: ControlPlane,
    serving: Serving,
    address: SocketAddr,
    manifests: PathBuf,
    keys: PathBuf,
    filter: Filter,
    /// Of the objects; `None` if they are in the directory. Ends last.
    store: Option<ObjectStore>,
}

impl Gateway {
    /// Writes the manifests and starts the control plane. Envoy comes with [`Gateway::serve`].
    pub(crate) fn prepare(
        run: &RunDir,
        apiservers: &Apiservers,
        users: &Users,
        identity: IdentityMode,
        filter: Filter,
        store: Option<ObjectStore>,
    ) -> Result<Self> {
        let address = ports::free_address()?;
        let serving = Serving::new()?;
        let keys = keys::write(run, &serving, &users.gateway, apiservers.server_ca(), apiservers.client_ca())?;
        let manifests = run.make_dir("manifests")?;
        let wasm = match filter {
            Filter::Module => None,
            Filter::Wasm => Some(deps::wasm()?),
        };
        write_private(&manifests.join("settings.yaml"), manifests::settings(address, wasm.as_deref()).as_bytes())?;
        let keys_are = if store.is_some() { Keys::Secrets } else { Keys::Files };
        let cluster = manifests::cluster(address, &apiservers.addresses(), identity, keys_are);
        let file = manifests.join(format!("{CLUSTER}.yaml"));
        write_private(&file, cluster.as_bytes())?;
        let (root, settings) = (keys.display().to_string(), manifests.join("settings.yaml").display().to_string());
        let logs = run.make_dir("logs")?;
        let references = ["--references-root", &root];
        let plane = match &store {
            None => ControlPlane::start_with(&logs, &manifests, &references)?,
            Some(store) => {
                store.put(&keys, &file)?;
                let flags = store.flags();
                let flags: Vec<&str> = flags.iter().map(String::as_str).chain(["--settings", &settings]).collect();
                ControlPlane::start_from(&logs, &[&flags[..], &references].concat())?
            }
        };
        Ok(Gateway { agent: None, plane, serving, address, manifests, keys, filter, store })
    }

    /// Starts `portcullis agent` and waits until clients are served and the cluster is Ready.
    pub(crate) fn serve(&mut self, run: &RunDir) -> Result<()> {
        let mut options = AgentOptions::new([self.plane.xds_socket()]);
        if self.filter == Filter::Wasm {
            options.flags.extend(["--filter", "wasm"].map(str::to_owned));
        }
        let agent = self.agent.insert(Agent::start(&run.join("logs"), "envoy-0", &options)?);
        agent.wait_ready(SERVES)?;
        self.plane.wait_status("the cluster is Ready", SERVES, is_ready).map(drop)
    }

    pub(crate) fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    pub(crate) fn agent(&self) -> Option<&Agent> {
        self.agent.as_ref()
    }

    /// The address for clients.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The directory that the control plane watches.
    pub(crate) fn manifests(&self) -> &Path {
        &self.manifests
    }

    /// The directory of the files that the manifests refer to.
    pub(crate) fn keys(&self) -> &Path {
        &self.keys
    }

    /// The administrator's kubeconfig of the objects' store, if they have one.
    pub(crate) fn store_kubeconfig(&self) -> Option<PathBuf> {
        self.store.as_ref().map(ObjectStore::kubeconfig)
    }

    /// Writes the CA that signs what clients see.
    pub(crate) fn write_ca(&self, path: &Path) -> Result<()> {
        self.serving.ca.write_pem(path)
    }

    /// A kubeconfig for the cluster, without a credential.
    pub(crate) fn kubeconfig(&self) -> Kubeconfig {
        Kubeconfig::new(format!("https://{}", self.address)).ca(&self.serving.ca).tls_server_name(CLUSTER)
    }
}

/// Whether the status says that the lab's cluster is programmed and has a healthy server.
fn is_ready(status: &Value) -> bool {
    let objects = status.get("objects").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let holds = |object: &Value, kind: &str| {
        let conditions = object.get("conditions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        conditions.iter().any(|one| {
            one.get("type").is_some_and(|is| is == kind) && one.get("status").is_some_and(|status| status == "True")
        })
    };
    let cluster = objects.iter().find(|object| object.get("name").is_some_and(|name| name == CLUSTER));
    cluster.is_some_and(|object| holds(object, "Programmed") && holds(object, "Ready"))
}

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use portcullis_harness::agent::{Agent, AgentOptions};
use portcullis_harness::certs::Ca;
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{Error, Result, ports, write_private};
use serde_json::{Value, json};

use crate::manifest::{Manifest, default_certificate, settings};

/// How long a gateway may take to be ready.
const READY: Duration = Duration::from_secs(20);

/// Control planes over one directory of manifests, and a gateway whose agent reports to each of them.
#[derive(Debug)]
pub struct AgentSite {
    /// The agent.
    pub agent: Agent,
    /// The control planes.
    pub planes: Vec<ControlPlane>,
    /// The directory of the manifests.
    pub manifests: PathBuf,
    /// The gateway's address for clients.
    pub address: SocketAddr,
}

/// How to run control planes, and a gateway with an agent.
#[derive(Debug)]
pub struct AgentSiteSetup<'a> {
    run: &'a RunDir,
    name: &'a str,
    serving_ca: &'a Ca,
    files: Vec<(String, String)>,
    settings: Value,
    replicas: usize,
    plane_flags: Vec<String>,
    agent: AgentOptions,
}

/// The files of one end of an xDS connection: its certificate, its key, and the CA of the other end.
type XdsFiles<'a> = [&'a Path; 3];

/// The flags of a control plane that serves xDS by mutual TLS.
pub fn xds_server_flags(address: SocketAddr, files: XdsFiles<'_>) -> Vec<String> {
    tls_flags(address, "--xds-client-ca", files)
}

/// The flags of a gateway that follows a control plane of this name by mutual TLS.
pub fn xds_client_flags(address: SocketAddr, files: XdsFiles<'_>, server_name: &str) -> Vec<String> {
    let mut flags = tls_flags(address, "--xds-server-ca", files);
    flags.extend(["--xds-server-name", server_name].map(str::to_owned));
    flags
}

fn tls_flags(address: SocketAddr, ca_flag: &str, [cert, key, ca]: XdsFiles<'_>) -> Vec<String> {
    let path = |path: &Path| path.display().to_string();
    let pairs = [("--xds-address", address.to_string()), ("--xds-cert", path(cert)), ("--xds-key", path(key))];
    pairs.into_iter().chain([(ca_flag, path(ca))]).flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
}

impl<'a> AgentSiteSetup<'a> {
    /// One control plane without a cluster, and a gateway of this node id.
    pub fn new(run: &'a RunDir, name: &'a str, serving_ca: &'a Ca) -> Self {
        AgentSiteSetup {
            run,
            name,
            serving_ca,
            files: Vec::new(),
            settings: Value::Null,
            replicas: 1,
            plane_flags: Vec::new(),
            agent: AgentOptions::new([]),
        }
    }

    /// Adds a cluster, in a file of its own.
    #[must_use]
    pub fn cluster(mut self, file: &str, manifest: &Manifest) -> Self {
        self.files.push((file.to_owned(), manifest.to_text()));
        self
    }

    /// Adds an instance with the clusters that it selects.
    #[must_use]
    pub fn instance(mut self, name: &str, clusters: &Value) -> Self {
        let object = json!({
            "apiVersion": "portcullis.dev/v1alpha1", "kind": "Instance",
            "metadata": {"name": name}, "spec": {"clustersSelector": clusters},
        });
        self.files.push((format!("instance-{name}.yaml"), object.to_string()));
        self
    }

    /// Adds to the `spec` of the settings.
    #[must_use]
    pub fn settings(mut self, more: Value) -> Self {
        self.settings = more;
        self
    }

    /// Runs more than one control plane.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// Adds flags of `portcullis serve`.
    #[must_use]
    pub fn plane_flags(mut self, flags: impl IntoIterator<Item = String>) -> Self {
        self.plane_flags.extend(flags);
        self
    }

    /// Changes how the agent runs.
    #[must_use]
    pub fn agent(mut self, change: impl FnOnce(&mut AgentOptions)) -> Self {
        change(&mut self.agent);
        self
    }

    /// Starts the control planes alone, over a directory of manifests for a gateway at that address.
    ///
    /// # Errors
    /// The step that failed.
    pub fn control_planes(&self) -> Result<(Vec<ControlPlane>, PathBuf, SocketAddr)> {
        let address = ports::free_address()?;
        let manifests = self.run.make_dir(&format!("{}-manifests", self.name))?;
        write_private(&manifests.join("settings.yaml"), self.settings_text(address)?.as_bytes())?;
        for (file, text) in &self.files {
            write_private(&manifests.join(file), text.as_bytes())?;
        }
        let flags: Vec<&str> = self.plane_flags.iter().map(String::as_str).collect();
        let start = |number: usize| {
            let dir = self.run.make_dir(&format!("{}-plane-{number}", self.name))?;
            ControlPlane::start_with(&dir, &manifests, &flags)
        };
        let planes = (0..self.replicas).map(start).collect::<Result<_>>()?;
        Ok((planes, manifests, address))
    }

    /// Starts the control planes and the gateway, and waits until that is ready. It follows their sockets, unless its own flags
    /// name an address.
    ///
    /// # Errors
    /// The step that failed.
    pub fn start(mut self) -> Result<AgentSite> {
        let (planes, manifests, address) = self.control_planes()?;
        if !self.agent.flags.iter().any(|flag| flag == "--xds-address") {
            self.agent.xds_sockets.extend(planes.iter().map(|plane| plane.xds_socket().to_owned()));
        }
        let agent = Agent::start(self.run.path(), self.name, &self.agent)?;
        agent.wait_ready(READY)?;
        Ok(AgentSite { agent, planes, manifests, address })
    }

    fn settings_text(&self, address: SocketAddr) -> Result<String> {
        let text = settings("e2e", address, &default_certificate(self.serving_ca)?);
        let what = || "the settings".to_owned();
        let mut object: Value = serde_json::from_str(&text).map_err(|source| Error::Json { what: what(), source })?;
        let spec = object.pointer_mut("/spec").and_then(Value::as_object_mut);
        if let (Some(spec), Some(more)) = (spec, self.settings.as_object()) {
            spec.extend(more.clone());
        }
        Ok(object.to_string())
    }
}

impl AgentSite {
    /// The first control plane.
    ///
    /// # Panics
    /// If the test has taken it away.
    #[expect(clippy::indexing_slicing, reason = "there is at least one")]
    pub fn plane(&self) -> &ControlPlane {
        &self.planes[0]
    }
}

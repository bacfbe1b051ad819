//! A real Kubernetes API: etcd and one or more kube-apiservers that share it.

mod apiserver;
mod audit;
mod etcd;
mod kubectl;
mod node;
mod objects;
mod options;
mod store;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use apiserver::ApiServer;
pub use kubectl::{Kubectl, Output};
pub use node::FakeNode;
pub use options::{Anonymous, KubeOptions, RequestHeader};

use crate::certs::{Ca, CertSpec, Identity};
use crate::deps::{self, KubeBinaries};
use crate::error::{Error, Result};
use crate::kubeconfig::Kubeconfig;
use crate::process::Process;
use crate::rundir::RunDir;

/// etcd with kube-apiservers, all on free loopback ports with certificates of their own authorities. Ends with this
/// value.
#[derive(Debug)]
pub struct RealKube {
    // Order matters: servers end before the store does.
    apiservers: Vec<ApiServer>,
    node: Option<FakeNode>,
    etcd: Process,
    binaries: KubeBinaries,
    dir: PathBuf,
    server_ca: Ca,
    client_ca: Ca,
    admin: Identity,
}

impl Drop for RealKube {
    /// Kills the process: its exit does not matter, and an orderly one takes kube-apiserver a second.
    fn drop(&mut self) {
        for server in &self.apiservers {
            server.process().kill();
        }
        self.etcd.kill();
    }
}

impl RealKube {
    /// Starts everything below `<run>/<name>` and waits until every kube-apiserver is ready.
    ///
    /// # Errors
    /// [`Error::Missing`] when the executables are not built; else the step that failed, with the last log lines.
    pub fn start(run: &RunDir, name: &str, options: &KubeOptions) -> Result<Self> {
        let binaries = deps::kube()?;
        let dir = run.make_dir(name)?;
        if let Some(filled) = store::filled(&binaries)? {
            store::copy(&filled, &etcd::data(&dir))?;
        }
        Self::begin(binaries, dir, name, options)
    }

    /// Starts everything on the store in `dir`, or on an empty one.
    fn begin(binaries: KubeBinaries, dir: PathBuf, name: &str, options: &KubeOptions) -> Result<Self> {
        let server_ca = Ca::new(&format!("{name} server authority"))?;
        let client_ca = Ca::new(&format!("{name} client authority"))?;
        let admin = client_ca.issue(&CertSpec::client("admin", ["system:masters"]))?;
        let (etcd, etcd_address) = etcd::start(&binaries.etcd, &dir, options.traces)?;
        let etcd_url = format!("http://{etcd_address}");
        let mut kube = Self { apiservers: Vec::new(), node: None, etcd, binaries, dir, server_ca, client_ca, admin };
        kube.write_shared_files(options)?;
        if options.node {
            kube.node = Some(FakeNode::start(&kube.binaries.fake_node, &kube.dir, &kube.server_ca, &kube.client_ca)?);
        }
        for index in 0..options.apiservers.max(1) {
            let server = ApiServer::start(&kube.setup(options, &etcd_url), index)?;
            kube.apiservers.push(server);
        }
        for server in &kube.apiservers {
            server.wait_ready(&kube.server_ca, &kube.admin, Duration::from_secs(90))?;
        }
        if kube.node.is_some() {
            kube.create("/api/v1/nodes", &node::object())?;
        }
        Ok(kube)
    }

    /// The kube-apiservers.
    pub fn apiservers(&self) -> &[ApiServer] {
        &self.apiservers
    }

    /// The address of one kube-apiserver.
    ///
    /// # Errors
    /// [`Error::Lacks`] when there are fewer.
    pub fn address(&self, index: usize) -> Result<SocketAddr> {
        Ok(self.apiserver(index)?.address())
    }

    /// One kube-apiserver.
    ///
    /// # Errors
    /// [`Error::Lacks`] when there are fewer.
    pub fn apiserver(&self, index: usize) -> Result<&ApiServer> {
        let lacks = || Error::Lacks { what: "the real Kubernetes".to_owned(), field: format!("apiserver {index}") };
        self.apiservers.get(index).ok_or_else(lacks)
    }

    /// Stops one kube-apiserver in order and starts it again on the same port; waits until it is ready.
    ///
    /// # Errors
    /// The step that failed.
    pub fn restart(&mut self, index: usize) -> Result<()> {
        let lacks = || Error::Lacks { what: "the real Kubernetes".to_owned(), field: format!("apiserver {index}") };
        let server = self.apiservers.get_mut(index).ok_or_else(lacks)?;
        server.restart()?;
        server.wait_ready(&self.server_ca, &self.admin, Duration::from_secs(90))
    }

    /// The node, if there shall be one.
    ///
    /// # Errors
    /// [`Error::Lacks`].
    pub fn node(&self) -> Result<&FakeNode> {
        let lacks = || Error::Lacks { what: "the real Kubernetes".to_owned(), field: "node".to_owned() };
        self.node.as_ref().ok_or_else(lacks)
    }

    /// Runs a pod on the node: it has one container, `main`, and is ready at once.
    ///
    /// # Errors
    /// [`Error::Http`] with kube-apiserver's answer.
    pub fn run_pod(&self, name: &str) -> Result<()> {
        self.create("/api/v1/namespaces/default/pods", &node::pod(name))?;
        self.patch_status(&format!("/api/v1/namespaces/default/pods/{name}"), &node::pod_status())
    }

    /// The CA of the servers' certificates.
    pub fn server_ca(&self) -> &Ca {
        &self.server_ca
    }

    /// The CA of users' certificates.
    pub fn client_ca(&self) -> &Ca {
        &self.client_ca
    }

    /// A client certificate in the group `system:masters`.
    pub fn admin(&self) -> &Identity {
        &self.admin
    }

    /// A kubeconfig of the first kube-apiserver without a credential.
    pub fn kubeconfig(&self) -> Kubeconfig {
        let server = self.apiservers.first().map(|server| format!("https://{}", server.address()));
        Kubeconfig::new(server.unwrap_or_default()).ca(&self.server_ca)
    }

    /// kubectl as the administrator, straight to the first kube-apiserver.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn admin_kubectl(&self) -> Result<Kubectl> {
        let path = self.kubeconfig().identity(&self.admin).write(&self.dir.join("admin.kubeconfig"))?;
        Ok(self.kubectl(&path))
    }

    /// Applies a file as the administrator, server-side.
    ///
    /// # Errors
    /// [`Error::Command`] with what kubectl says.
    pub fn apply(&self, file: &Path) -> Result<()> {
        let kubectl = self.admin_kubectl()?.timeout(Duration::from_secs(60));
        kubectl.args(["apply", "--server-side", "-f"]).args([file]).run_ok().map(drop)
    }

    /// Prepares another project's control plane: installs the definitions of its objects, makes its namespace, and gives the file of an
    /// administrator's kubeconfig in `directory`.
    pub(crate) fn prepare(&self, definitions: &Path, namespace: &str, directory: &Path) -> Result<PathBuf> {
        self.apply(definitions)?;
        self.admin_kubectl()?.args(["create", "namespace", namespace]).run_ok()?;
        self.kubeconfig().identity(&self.admin).write(&directory.join("kubeconfig"))
    }

    /// kubectl with any kubeconfig.
    pub fn kubectl(&self, kubeconfig: &Path) -> Kubectl {
        Kubectl::new(&self.binaries.kubectl, kubeconfig, &self.dir)
    }

    /// The store's process.
    pub fn etcd(&self) -> &Process {
        &self.etcd
    }

    fn setup<'a>(&'a self, options: &'a KubeOptions, etcd_url: &'a str) -> apiserver::Setup<'a> {
        apiserver::Setup {
            binary: &self.binaries.kube_apiserver,
            dir: &self.dir,
            server_ca: &self.server_ca,
            etcd_url,
            options,
        }
    }

    fn write_shared_files(&self, options: &KubeOptions) -> Result<()> {
        use crate::certs::PrivateKey;
        use crate::rundir::write_private;
        let accounts = PrivateKey::generate()?;
        let client_cas = self.client_ca.pem() + &options.more_client_cas;
        write_private(&self.dir.join("client-ca.pem"), client_cas.as_bytes())?;
        write_private(&self.dir.join("accounts.key"), accounts.pem().as_bytes())?;
        write_private(&self.dir.join("accounts.pub"), accounts.public_pem().as_bytes())?;
        write_private(&self.dir.join("audit-policy.json"), audit::POLICY.as_bytes())?;
        if let Some(config) = options.anonymous.authentication_configuration() {
            write_private(&self.dir.join("authentication.json"), config.as_bytes())?;
        }
        if let Some(receiver) = options.traces {
            let config = serde_json::json!({
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": "TracingConfiguration",
                "endpoint": receiver.to_string(),
            });
            write_private(&self.dir.join("tracing.json"), config.to_string().as_bytes())?;
        }
        if let Some(front) = &options.request_header {
            front.ca.write_pem(&self.dir.join("requestheader-ca.pem"))?;
        }
        Ok(())
    }
}

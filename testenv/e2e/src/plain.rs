use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::TlsTarget;
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{Error, Result, ports, write_private};
use serde_json::json;

use crate::render::{Settings, render};

/// How long until Envoy has read its files.
const ARRIVES: Duration = Duration::from_secs(20);

/// A folder from which an Envoy runs without a control plane, laid out by `envoy/plain/render` as a user does it.
#[derive(Debug)]
pub struct PlainFiles {
    folder: PathBuf,
    address: SocketAddr,
    admin: SocketAddr,
    name: String,
    serving_ca: Ca,
}

/// The content of the folder.
#[derive(Debug)]
pub struct PlainSetup<'a> {
    /// The folder below `envoy/plain`.
    pub mode: &'a str,
    /// The host name of the cluster.
    pub name: &'a str,
    /// The servers.
    pub servers: Vec<SocketAddr>,
    /// The certificate that is presented to them, and its file names (`client`, `front-proxy-client`).
    pub client: &'a Identity,
    /// The CA of their certificates.
    pub upstream_ca: &'a Ca,
    /// The CA of clients' certificates.
    pub client_ca: &'a Ca,
}

impl PlainFiles {
    /// Lays the folder out.
    ///
    /// # Errors
    /// The step that failed; [`Error::Command`] with what the script says.
    pub fn lay_out(run: &RunDir, setup: &PlainSetup<'_>) -> Result<Self> {
        let serving_ca = Ca::new("plain serving authority")?;
        let serving = serving_ca.issue(&CertSpec::server(setup.name, [setup.name]))?;
        let pki = run.make_dir("given-pki")?;
        let pair = |name: &str, identity: &Identity| {
            identity.write_pem(&pki.join(format!("{name}.crt")), &pki.join(format!("{name}.key")))
        };
        pair("serving", &serving)?;
        pair("client", setup.client)?;
        setup.upstream_ca.write_pem(&pki.join("upstream-ca.crt"))?;
        setup.client_ca.write_pem(&pki.join("client-ca.crt"))?;
        Self::render(run, setup.mode, setup.name, &setup.servers, &pki, serving_ca)
    }

    /// Lays the folder out from certificates that are in a folder already.
    ///
    /// # Errors
    /// As [`PlainFiles::lay_out`].
    pub fn render(
        run: &RunDir,
        mode: &str,
        name: &str,
        servers: &[SocketAddr],
        pki: &Path,
        serving_ca: Ca,
    ) -> Result<Self> {
        let (address, admin) = (ports::free_address()?, ports::free_address()?);
        let folder = run.join(&format!("plain-{mode}"));
        let more = [format!("listen={address}"), format!("admin={admin}")];
        render("plain", &[mode.as_ref(), folder.as_os_str()], &Settings { name, servers, pki, more: &more })?;
        Ok(Self { folder, address, admin, name: name.to_owned(), serving_ca })
    }

    /// Changes one of the files, in one step, as Envoy wants it.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn edit(&self, file: &str, change: impl FnOnce(String) -> String) -> Result<()> {
        let path = self.folder.join(file);
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|source| Error::File { step: "reading", path: path.clone(), source })?;
        write_private(&path, change(text).as_bytes())
    }

    /// The folder. Its input (`pki` of `render`) is in `given-pki` next to it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs Envoy from the folder, of the pinned version if none is given.
    ///
    /// # Errors
    /// The step that failed, with Envoy's last words.
    pub fn start(self, run: &RunDir, version: Option<String>) -> Result<PlainGateway> {
        self.start_with(run, version, None)
    }

    /// As [`PlainFiles::start`], with the module of a directory; the built one if none is given.
    ///
    /// # Errors
    /// As there.
    pub fn start_with(
        self,
        run: &RunDir,
        version: Option<String>,
        module_dir: Option<PathBuf>,
    ) -> Result<PlainGateway> {
        let admin = json!({"address": self.admin.ip().to_string(), "port_value": self.admin.port()});
        let options = EnvoyOptions {
            version,
            module_dir,
            file: Some(self.folder.join("envoy.yaml")),
            flags: ["--file-flush-interval-msec", "50"].map(str::to_owned).into(),
            ..EnvoyOptions::new(json!({"admin": {"address": {"socket_address": admin}}}))
        };
        let envoy = Envoy::start(run.path(), &format!("plain-envoy-{}", self.admin.port()), &options)?;
        envoy.wait_ready(ARRIVES)?;
        envoy.wait_listening(self.address, ARRIVES)?;
        Ok(PlainGateway { files: self, envoy })
    }
}

/// An Envoy that runs from [`PlainFiles`]. Ends with this value.
#[derive(Debug)]
pub struct PlainGateway {
    files: PlainFiles,
    envoy: Envoy,
}

impl PlainGateway {
    /// The gateway under the cluster's name.
    pub fn target(&self) -> TlsTarget {
        TlsTarget::new(self.files.address).sni(&self.files.name).trust(&self.files.serving_ca)
    }

    /// A kubeconfig for the cluster, without a credential.
    pub fn kubeconfig(&self) -> Kubeconfig {
        let files = &self.files;
        Kubeconfig::new(format!("https://{}", files.address)).ca(&files.serving_ca).tls_server_name(&files.name)
    }

    /// The folder.
    pub fn files(&self) -> &PlainFiles {
        &self.files
    }

    /// The folder of the files.
    pub fn folder(&self) -> &Path {
        &self.files.folder
    }

    /// Envoy.
    pub fn envoy(&self) -> &Envoy {
        &self.envoy
    }
}

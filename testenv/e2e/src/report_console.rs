use std::net::SocketAddr;
use std::path::PathBuf;

use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::plain;
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{Result, ports, write_private};
use serde_json::Value;

use crate::manifest::{Manifest, default_certificate, settings};
use crate::metrics_page::MetricsPage;

/// A control plane that serves no gateway, and takes reports of those that run without it. It has an object of one name.
#[derive(Debug)]
pub struct ReportConsole {
    /// The control plane.
    pub plane: ControlPlane,
    /// The authority of its certificate, which has the name `portcullis-xds.internal`.
    pub server_ca: Ca,
    manifest: Manifest,
    file: PathBuf,
    xds: SocketAddr,
    client_ca: Ca,
}

impl ReportConsole {
    /// Starts it in a folder of its own.
    ///
    /// # Errors
    /// The step that failed.
    pub fn start(run: &RunDir, cluster: &str) -> Result<Self> {
        Self::start_with(run, cluster, |manifest| manifest)
    }

    /// As [`ReportConsole::start`], with a changed object.
    ///
    /// # Errors
    /// As there.
    pub fn start_with(run: &RunDir, cluster: &str, change: impl FnOnce(Manifest) -> Manifest) -> Result<Self> {
        let [server_ca, client_ca, serving_ca] =
            [Ca::new("xds servers")?, Ca::new("xds clients")?, Ca::new("serving")?];
        let (folder, manifests) = (run.make_dir("console")?, run.make_dir("console/manifests")?);
        run.write(
            "console/manifests/settings.yaml",
            settings("e2e", ports::free_address()?, &default_certificate(&serving_ca)?),
        )?;
        let gateway = client_ca.issue(&CertSpec::client("portcullis", [""; 0]))?;
        let serving = serving_ca.issue(&CertSpec::server(cluster, [cluster]))?;
        let manifest = Manifest::new(cluster, [SocketAddr::from(([192, 0, 2, 1], 6443))]);
        let manifest = change(manifest.upstream(&gateway, &server_ca, "kubernetes").serving(&serving, &client_ca));
        let file = run.write("console/manifests/cluster.yaml", manifest.to_text())?;
        let own = server_ca.issue(&CertSpec::server("xds", ["portcullis-xds.internal"]))?;
        own.write_pem(&folder.join("xds.crt"), &folder.join("xds.key"))?;
        client_ca.write_pem(&folder.join("clients.crt"))?;
        let xds = ports::free_address()?;
        let address = xds.to_string();
        let [cert, key, ca] = ["xds.crt", "xds.key", "clients.crt"].map(|name| folder.join(name).display().to_string());
        let flags = ["--xds-address", &address, "--xds-cert", &cert, "--xds-key", &key, "--xds-client-ca", &ca];
        let plane = ControlPlane::start_with(&folder, &manifests, &flags)?;
        Ok(Self { plane, server_ca, manifest, file, xds, client_ca })
    }

    /// Changes the object.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn change(&mut self, change: impl FnOnce(Manifest) -> Manifest) -> Result<()> {
        self.manifest = change(self.manifest.clone());
        write_private(&self.file, self.manifest.to_text().as_bytes())
    }

    /// The address for gateways.
    pub fn xds(&self) -> SocketAddr {
        self.xds
    }

    /// A certificate for gateways of a name.
    ///
    /// # Errors
    /// As [`Ca::issue`].
    pub fn identity(&self, name: &str) -> Result<Identity> {
        self.client_ca.issue(&CertSpec::client(name, [""; 0]))
    }

    /// The fleet, as the console shows it.
    ///
    /// # Errors
    /// The control plane does not answer.
    pub fn fleet(&self) -> Result<Value> {
        plain::get(self.plane.http_address(), "/ui/api/fleet")?.json()
    }

    /// Whether the console shows requests of a gateway, and of the cluster. The error is what it shows.
    ///
    /// # Errors
    /// It shows none, or does not answer.
    pub fn shows_rates_of(&self, node: &str) -> std::result::Result<(), String> {
        let fleet = self.fleet().map_err(|error| error.to_string())?;
        let is_shown = |list: &str, key: &str, name: &str| {
            let all = fleet.get(list).and_then(Value::as_array).into_iter().flatten();
            let mut own = all.filter(|one| one.get(key).and_then(Value::as_str) == Some(name));
            let rate = own.next().and_then(|one| one.pointer("/numbers/requestsPerSecond")?.as_f64());
            rate.is_some_and(|rate| rate > 0.0)
        };
        let is_shown = is_shown("gateways", "node", node) && is_shown("clusters", "name", self.manifest.name());
        if is_shown { Ok(()) } else { Err(format!("{fleet:#}")) }
    }

    /// The number of rejections with these labels.
    ///
    /// # Errors
    /// The control plane does not answer.
    pub fn rejections(&self, labels: &[(&str, &str)]) -> Result<u64> {
        let page = plain::get(self.plane.http_address(), "/metrics")?.text();
        Ok(MetricsPage::read(&page, "portcullis_").sum("xds_rejections_total", labels))
    }
}

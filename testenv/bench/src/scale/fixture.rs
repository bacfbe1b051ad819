//! Servers, manifests, the control plane and Envoy.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use portcullis_e2e::settings;
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::rundir::{RunDir, write_private};
use portcullis_harness::{Error as HarnessError, ports, wait};
use portcullis_stub_apiserver::{Action, Fault, StubOptions, StubServer};
use serde_json::{Value, json};

use super::Scale;
use super::figures::Figures;
use super::manifests::{Parts, name};
use crate::error::BenchError;
use crate::plane_log::Log;
use crate::usage;

/// The requested path.
pub(crate) const POD: &str = "/api/v1/namespaces/default/pods/web-0";

/// A gateway with many clusters.
pub(crate) struct Fixture {
    pub(crate) parts: Parts,
    pub(crate) count: u32,
    pub(crate) log: Log,
    /// How long the slowest step may take.
    pub(crate) patience: Duration,
    manifests: PathBuf,
    address: SocketAddr,
    alice: Identity,
    figures: Figures,
    envoy: Envoy,
    plane: ControlPlane,
    stubs: Vec<StubServer>,
}

impl Fixture {
    /// Writes the manifests, starts everything and waits until Envoy has acknowledged all.
    pub(crate) fn start(run: &RunDir, options: &Scale, count: u32) -> Result<Self, BenchError> {
        let dir = run.make_dir(&format!("{count}"))?;
        let manifests = run.make_dir(&format!("{count}/manifests"))?;
        let address = ports::free_address()?;
        let (server_ca, client_ca) = (Ca::new("servers")?, Ca::new("clients")?);
        let gateway = client_ca.issue(&CertSpec::client("portcullis", [""; 0]))?;
        let stubs = stubs(options.servers, &server_ca, &client_ca)?;
        let serving = server_ca.issue(&CertSpec::server("scale", ["*.scale.example.com"]))?;
        let alice = client_ca.issue(&CertSpec::client("alice", ["developers"]))?;
        let mut settings: Value = serde_json::from_str(&settings("bench", address, &serving))
            .map_err(|source| HarnessError::Json { what: "the settings".to_owned(), source })?;
        if options.on_demand
            && let Some(spec) = settings.pointer_mut("/spec")
        {
            spec["secondaryPools"] = json!("OnDemand");
        }
        write_private(&manifests.join("settings.yaml"), settings.to_string().as_bytes())?;
        let servers = stubs.iter().map(StubServer::address).collect();
        let (policies, check_interval) = (options.policies, options.check_interval);
        let parts = Parts { servers, gateway, server_ca, serving, client_ca, policies, check_interval };
        let mut figures = Figures { clusters: count, ..Figures::default() };
        for number in 0..count {
            let text = parts.manifest(number, true).to_text();
            figures.bytes += u64::try_from(text.len()).unwrap_or_default();
            write_private(&manifests.join(format!("{}.yaml", name(number))), text.as_bytes())?;
        }
        let patience = options.patience(count);
        let start = Instant::now();
        let plane = ControlPlane::start(&dir, &manifests)?;
        let mut log = Log::open(plane.process().log_path())?;
        log.line_with("serving", patience)?;
        figures.served = start.elapsed();
        let flags: &[&str] = if options.all_envoy_statistics { &["--all-envoy-statistics"] } else { &[] };
        let mut options = EnvoyOptions::new(plane.bootstrap_with("bench", flags)?);
        options.patience = patience;
        let start = Instant::now();
        let envoy = Envoy::start(&dir, "envoy", &options)?;
        envoy.wait_ready(patience)?;
        plane.wait_in_sync(1, patience)?;
        figures.pushed = start.elapsed();
        Ok(Self { parts, count, log, patience, manifests, address, alice, figures, envoy, plane, stubs })
    }

    /// Measures everything.
    pub(crate) fn measure(&mut self, options: &Scale) -> Result<Figures, BenchError> {
        self.figures.plane = usage::of(self.plane.process().pid())?;
        self.figures.push_cpu = self.spent()?;
        self.edit(options.edits)?;
        self.figures.edit_cpu = self.each(self.figures.push_cpu, options.edits * 2)?;
        for number in 0..options.edits.min(10) {
            let (acked, seen) = self.add_cluster(self.count + number)?;
            self.figures.added_acked.push(acked);
            self.figures.added_seen.push(seen);
        }
        self.figures.plane_after = usage::of(self.plane.process().pid())?;
        self.figures.envoy = usage::of(self.envoy.process().pid())?;
        Ok(std::mem::take(&mut self.figures))
    }

    fn edit(&mut self, edits: u32) -> Result<(), BenchError> {
        for number in 0..edits {
            for (acked, seen) in self.edit_policy(number % self.count)? {
                self.figures.policy_acked.push(acked);
                self.figures.policy_seen.push(seen);
            }
        }
        Ok(())
    }

    /// CPU time of the control plane and of Envoy so far.
    fn spent(&self) -> Result<(Duration, Duration), BenchError> {
        Ok((usage::spent(self.plane.process().pid())?, usage::spent(self.envoy.process().pid())?))
    }

    fn each(&self, before: (Duration, Duration), edits: u32) -> Result<(Duration, Duration), BenchError> {
        let (plane, envoy) = self.spent()?;
        let edits = edits.max(1);
        Ok((plane.saturating_sub(before.0) / edits, envoy.saturating_sub(before.1) / edits))
    }

    /// Writes a cluster's file by renaming it into place.
    pub(crate) fn write(&self, number: u32, text: &str) -> Result<(), BenchError> {
        Ok(write_private(&self.manifests.join(format!("{}.yaml", name(number))), text.as_bytes())?)
    }

    /// A connection to a cluster, whose server answers already.
    pub(crate) fn connect(&self, number: u32) -> Result<H2Client, BenchError> {
        let target = self.target(number).timeout(Duration::from_secs(30));
        let client = H2Client::connect(&target)?;
        wait::until("the cluster's answer", self.patience, || {
            let answer = client.get(POD, &[]).ok()?;
            (answer.status == 200).then_some(())
        })?;
        self.stubs.iter().for_each(StubServer::clear);
        Ok(client)
    }

    /// A cluster, for a client with a certificate.
    pub(crate) fn target(&self, number: u32) -> TlsTarget {
        TlsTarget::new(self.address).sni(&name(number)).trust(&self.parts.server_ca).identity(&self.alice)
    }
}

fn stubs(count: u32, server_ca: &Ca, client_ca: &Ca) -> Result<Vec<StubServer>, BenchError> {
    let one = |_| {
        let identity = server_ca.issue(&CertSpec::server("stub", ["kubernetes"]))?;
        let mut options = StubOptions::new(identity.pem(), identity.key_pem()).client_ca(client_ca.pem());
        options.impersonators = vec!["portcullis".to_owned()];
        let stub = StubServer::start(options)?;
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        stub.fault(Fault::new(POD, Action::Respond { status: 200, headers, body: "{}".to_owned() }));
        Ok(stub)
    };
    (0..count.max(1)).map(one).collect()
}

//! Servers, certificates, the control plane and Envoy of a measurement.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use portcullis_e2e::{Manifest, settings};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, ports, wait};
use portcullis_stub_apiserver::{Action, Fault, StubOptions, StubServer, TokenEntry};
use serde_json::Value;

use crate::case::Case;
use crate::error::BenchError;
use crate::profile::Profile;
use crate::{Options, bare, callgrind, client};

const NAME: &str = "prod.example.com";
/// Starting Envoy under valgrind takes its time.
const STARTS: Duration = Duration::from_secs(120);
/// Requests before anything is counted: connections, caches and the credential's review.
const WARM_UP: u32 = 300;
/// Bytes of a small pod as JSON.
const BODY: usize = 2_048;

/// What all cases share.
pub(crate) struct World<'a> {
    run: &'a RunDir,
    options: &'a Options,
    server_ca: Ca,
    client_ca: Ca,
    serving: Identity,
    gateway: Identity,
    alice: Identity,
    token: String,
    stub: StubServer,
}

/// What one round took.
pub(crate) struct Round {
    /// Instructions, or nanoseconds of CPU time, of the worker's thread.
    pub(crate) amount: u64,
    /// Where instructions went.
    pub(crate) profile: Option<Profile>,
}

impl<'a> World<'a> {
    pub(crate) fn new(run: &'a RunDir, options: &'a Options) -> Result<Self, BenchError> {
        let (server_ca, client_ca) = (Ca::new("servers")?, Ca::new("clients")?);
        let token = format!("header.{}.signature", "x".repeat(client::TOKEN_LEN));
        let gateway = client_ca.issue(&CertSpec::client("portcullis", [""; 0]))?;
        let server = server_ca.issue(&CertSpec::server("stub", ["kubernetes"]))?;
        let robot =
            TokenEntry { user: "robot".to_owned(), groups: vec!["developers".to_owned()], ..TokenEntry::default() };
        let mut stub = StubOptions::new(server.pem(), server.key_pem()).client_ca(client_ca.pem());
        stub.impersonators = vec!["portcullis".to_owned()];
        let stub = StubServer::start(stub.token(&token, robot))?;
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let answer = Action::Respond { status: 200, headers, body: "x".repeat(BODY) };
        stub.fault(Fault::new("/api/v1/namespaces/", answer));
        let serving = server_ca.issue(&CertSpec::server(NAME, [NAME]))?;
        let alice = client_ca.issue(&CertSpec::client("alice", ["developers"]))?;
        Ok(World { run, options, server_ca, client_ca, serving, gateway, alice, token, stub })
    }

    /// Runs a case in an Envoy of its own.
    pub(crate) fn measure(&self, case: Case) -> Result<Vec<Round>, BenchError> {
        let dir = self.run.make_dir(case.slug())?;
        let manifests = self.run.make_dir(&format!("{}/manifests", case.slug()))?;
        let address = ports::free_address()?;
        self.run
            .write(&format!("{}/manifests/settings.yaml", case.slug()), settings("bench", address, &self.serving))?;
        self.run.write(&format!("{}/manifests/cluster.yaml", case.slug()), self.manifest(case).to_text())?;
        let plane = ControlPlane::start(&dir, &manifests)?;
        let flags: &[&str] = if case.is_wasm() { &["--filter", "wasm"] } else { &[] };
        let mut bootstrap = plane.bootstrap_with("bench", flags)?;
        if case.is_bare() {
            bootstrap = self.bare(case, &dir, &bootstrap, address)?;
        }
        let out = dir.join("callgrind.out");
        let envoy = self.envoy(case, &dir, bootstrap, &out)?;
        let client = self.connect(case, &envoy, address)?;
        (0..=self.options.rounds).map(|round| self.round(case, &envoy, &client, &out, round)).skip(1).collect()
    }

    fn manifest(&self, case: Case) -> Manifest {
        Manifest::new(NAME, [self.stub.address()])
            .upstream(&self.gateway, &self.server_ca, "kubernetes")
            .serving(&self.serving, &self.client_ca)
            .policies(case.policies())
    }

    /// The configuration of an Envoy without the filter, made from what a gateway's Envoy says that it runs.
    fn bare(&self, case: Case, dir: &Path, bootstrap: &Value, address: SocketAddr) -> Result<Value, BenchError> {
        let mut options = EnvoyOptions::new(bootstrap.clone());
        options.concurrency = 1;
        let gateway = Envoy::start(dir, "gateway", &options)?;
        gateway.wait_listening(address, STARTS)?;
        let dump = gateway.admin().config_dump()?;
        gateway.quit()?;
        let secrets = bare::Secrets {
            serving: &self.serving,
            upstream: &self.gateway,
            client_ca: &self.client_ca,
            server_ca: &self.server_ca,
        };
        bare::bootstrap(case, bootstrap, &dump, &secrets)
    }

    fn envoy(&self, case: Case, dir: &Path, bootstrap: Value, out: &Path) -> Result<Envoy, BenchError> {
        let mut options = EnvoyOptions::new(bootstrap);
        options.concurrency = 1;
        options.patience = STARTS;
        if case == Case::Idle {
            options.module_dir = Some(deps::module_dir().map_err(portcullis_harness::Error::from)?.join("examples"));
        }
        if !self.options.cpu_time {
            options.wrapper = callgrind::wrapper(out);
        }
        Ok(Envoy::start(dir, "envoy", &options)?)
    }

    /// Connects, and waits until the server is healthy and the credential known.
    fn connect(&self, case: Case, envoy: &Envoy, address: SocketAddr) -> Result<H2Client, BenchError> {
        envoy.wait_listening(address, STARTS)?;
        let mut target = TlsTarget::new(address).sni(NAME).trust(&self.server_ca).timeout(Duration::from_secs(30));
        if !case.uses_token() {
            target = target.identity(&self.alice);
        }
        let client = H2Client::connect(&target)?;
        wait::until_ok("the case's answer", STARTS, || client::send(&client, case, &self.token, 1))?;
        client::send(&client, case, &self.token, WARM_UP)?;
        Ok(client)
    }

    /// The first round is for warming up what is counted.
    fn round(&self, case: Case, envoy: &Envoy, client: &H2Client, out: &Path, round: u32) -> Result<Round, BenchError> {
        let pid = envoy.process().pid();
        if round == 0 && !self.options.cpu_time {
            callgrind::control(pid, "--instr=on")?;
        }
        let before = worker_time(pid)?;
        let requests = if round == 0 { WARM_UP } else { self.options.requests };
        client::send(client, case, &self.token, requests)?;
        self.stub.clear();
        if self.options.cpu_time {
            return Ok(Round { amount: worker_time(pid)?.saturating_sub(before), profile: None });
        }
        callgrind::control(pid, "--dump")?;
        let mut worker = Profile::default();
        for path in callgrind::dumps(out, round + 1) {
            let text = std::fs::read_to_string(&path)
                .map_err(|source| BenchError::Read { path: path.display().to_string(), source })?;
            let profile = Profile::parse(&text);
            // The main thread checks health and collects statistics; the worker has the load.
            if profile.total > worker.total {
                worker = profile;
            }
        }
        Ok(Round { amount: worker.total, profile: Some(worker) })
    }
}

/// CPU time of the worker's thread so far, in nanoseconds.
fn worker_time(pid: u32) -> Result<u64, BenchError> {
    let path = format!("/proc/{pid}/task");
    let failed = |source| BenchError::Read { path: path.clone(), source };
    let mut worker = 0;
    for task in std::fs::read_dir(&path).map_err(failed)?.flatten() {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        if read("comm").starts_with("wrk:worker_") {
            let spent = read("schedstat").split(' ').next().and_then(|spent| spent.parse().ok());
            worker += spent.unwrap_or(0_u64);
        }
    }
    Ok(worker)
}

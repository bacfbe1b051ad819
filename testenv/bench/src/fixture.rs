//! Servers, certificates, the control plane and Envoy of a measurement.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use portcullis_e2e::{Manifest, settings};
use portcullis_harness::agent::{Agent, AgentOptions};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{H2Client, TlsTarget, plain};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::otel::Sink;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, ports, wait};
use portcullis_stub_apiserver::{Action, Fault, StubOptions, StubServer};
use serde_json::{Value, json};

use crate::bare::NAME;
use crate::case::Case;
use crate::error::BenchError;
use crate::peers::{Files, Peer, RunningPeer};
use crate::profile::Profile;
use crate::{bare, callgrind, client, verified};

/// Starting Envoy under valgrind takes its time.
const STARTS: Duration = Duration::from_secs(120);
/// Requests before anything is counted: connections, caches and the credential's review.
const WARM_UP: u32 = 300;
const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// Bytes of a small pod as JSON.
const BODY: usize = 2_048;

/// The common parts of all cases.
pub(crate) struct Fixture<'a> {
    run: &'a RunDir,
    /// Whether Envoys run under callgrind.
    is_counted: bool,
    server_ca: Ca,
    client_ca: Ca,
    serving: Identity,
    gateway: Identity,
    /// A certificate that servers believe to be a front proxy's.
    front: Identity,
    alice: Identity,
    token: String,
    stub: StubServer,
    collector: Sink,
}

/// A case's Envoy, and a connection to it on which the credential is known.
pub(crate) struct Running {
    pub(crate) case: Case,
    pub(crate) client: H2Client,
    pub(crate) address: SocketAddr,
    envoy: CaseEnvoy,
    /// Runs as long as Envoy does.
    _plane: ControlPlane,
}

/// The Envoy of a case.
enum CaseEnvoy {
    Alone(Box<Envoy>),
    /// Run by an agent.
    OfAgent {
        agent: Box<Agent>,
        pid: u32,
    },
}

impl CaseEnvoy {
    fn wait_listening(&self, address: SocketAddr) -> Result<(), BenchError> {
        match self {
            CaseEnvoy::Alone(envoy) => envoy.wait_listening(address, STARTS)?,
            CaseEnvoy::OfAgent { agent, .. } => agent.wait_ready(STARTS)?,
        }
        Ok(())
    }

    /// Waits until Envoy has its part of a limit that gateways share, if there is one.
    fn wait_leased(&self) -> Result<(), BenchError> {
        let CaseEnvoy::OfAgent { agent, .. } = self else { return Ok(()) };
        let has_part = || {
            let page = plain::get(agent.http_address(), "/metrics").ok()?.text();
            page.lines().any(|line| line == "portcullis_limits_degraded 0").then_some(())
        };
        Ok(wait::until("the part of the limit", STARTS, has_part)?)
    }
}

/// The servers' answer to every question for a token's user.
fn robot_review() -> Value {
    json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "status": {
            "authenticated": true,
            "user": {"username": "robot", "groups": ["developers", "system:authenticated"]},
            "audiences": ["https://kubernetes.default.svc"],
        },
    })
}

impl Running {
    /// Envoy's process.
    pub(crate) fn pid(&self) -> u32 {
        match &self.envoy {
            CaseEnvoy::Alone(envoy) => envoy.process().pid(),
            CaseEnvoy::OfAgent { pid, .. } => *pid,
        }
    }
}

impl<'a> Fixture<'a> {
    pub(crate) fn new(run: &'a RunDir, is_counted: bool) -> Result<Self, BenchError> {
        let (server_ca, client_ca) = (Ca::new("servers")?, Ca::new("clients")?);
        let token = format!("header.{}.signature", "x".repeat(client::TOKEN_LEN));
        let gateway = client_ca.issue(&CertSpec::client("portcullis", [""; 0]))?;
        let front_ca = Ca::new("front proxies")?;
        let front = front_ca.issue(&CertSpec::client("front-proxy", [""; 0]))?;
        let server = server_ca.issue(&CertSpec::server("stub", ["kubernetes"]))?;
        let mut stub = StubOptions::new(server.pem(), server.key_pem()).client_ca(client_ca.pem());
        stub.requestheader_ca = Some(front_ca.pem());
        stub.impersonators = ["portcullis", "alice"].map(str::to_owned).to_vec();
        let stub = StubServer::start(stub)?;
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let answer = |status, body| Action::Respond { status, headers: headers.clone(), body };
        stub.fault(Fault::new("/api/v1/namespaces/", answer(200, "x".repeat(BODY))));
        // Any token is the robot's.
        stub.fault(Fault::new(TOKEN_REVIEWS, answer(201, robot_review().to_string())));
        let serving = server_ca.issue(&CertSpec::server(NAME, [NAME]))?;
        let alice = client_ca.issue(&CertSpec::client("alice", ["developers"]))?;
        let collector = Sink::start_grpc()?;
        Ok(Fixture { run, is_counted, server_ca, client_ca, serving, gateway, front, alice, token, stub, collector })
    }

    /// The token of the cases with one.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Has the stub forget what it was asked.
    pub(crate) fn forget(&self) {
        self.stub.clear();
    }

    /// Counts the instructions of a case in an Envoy of its own, round by round.
    pub(crate) fn measure(&self, case: Case, requests: u32, rounds: u32) -> Result<Vec<Profile>, BenchError> {
        let running = self.start(case)?;
        (0..=rounds).map(|round| self.round(&running, round, requests)).skip(1).collect()
    }

    /// Starts an Envoy for a case.
    pub(crate) fn start(&self, case: Case) -> Result<Running, BenchError> {
        let dir = self.run.make_dir(case.slug())?;
        let manifests = self.run.make_dir(&format!("{}/manifests", case.slug()))?;
        let address = ports::free_address()?;
        self.run.write(&format!("{}/manifests/settings.yaml", case.slug()), self.settings(case, address)?)?;
        self.run.write(&format!("{}/manifests/cluster.yaml", case.slug()), self.manifest(case)?.to_text())?;
        let plane = ControlPlane::start(&dir, &manifests)?;
        let flags: &[&str] = if case.is_wasm() { &["--filter", "wasm"] } else { &[] };
        let mut bootstrap = plane.bootstrap_with("bench", flags)?;
        if case.is_remade() {
            bootstrap = self.bare(case, &dir, &bootstrap, address)?;
        }
        let envoy = match case.has_agent() {
            true => self.envoy_of_agent(&dir, &plane)?,
            false => CaseEnvoy::Alone(Box::new(self.envoy(case, &dir, bootstrap)?)),
        };
        let client = self.connect(case, &envoy, address)?;
        Ok(Running { case, client, address, envoy, _plane: plane })
    }

    fn settings(&self, case: Case, address: SocketAddr) -> Result<String, BenchError> {
        let text = settings("bench", address, &self.serving);
        let mut settings: Value = serde_json::from_str(&text).map_err(|_| BenchError::Lacks("settings"))?;
        let collector = self.collector.address().to_string();
        let tracing = |rate| ("tracing", json!({"endpoint": collector, "samplingRatePerMillion": rate}));
        if let (Some((field, value)), Some(spec)) = (
            case.settings().or(case.sampling_rate().map(tracing)),
            settings.pointer_mut("/spec").and_then(Value::as_object_mut),
        ) {
            spec.insert(field.to_owned(), value);
        }
        Ok(settings.to_string())
    }

    fn manifest(&self, case: Case) -> Result<Manifest, BenchError> {
        let portcullis = match case {
            Case::Verified => json!({"tokens": {"issuers": [verified::issuer()?]}}),
            _ => case.portcullis(),
        };
        let manifest = Manifest::new(NAME, [self.stub.address()])
            .upstream(if case == Case::FrontProxy { &self.front } else { &self.gateway }, &self.server_ca, "kubernetes")
            .serving(&self.serving, &self.client_ca)
            .policies(case.policies())
            .set("/spec/portcullis", portcullis);
        Ok(match case.flow_control() {
            Some(limits) => manifest.set("/spec/flowControl", limits),
            None => manifest,
        })
    }

    /// The configuration of an Envoy without the filter, or with another part of it, made from what a gateway's Envoy says that it runs.
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

    fn envoy(&self, case: Case, dir: &Path, bootstrap: Value) -> Result<Envoy, BenchError> {
        let mut options = EnvoyOptions::new(bootstrap);
        options.concurrency = 1;
        options.patience = STARTS;
        if case == Case::Idle {
            options.module_dir = Some(deps::module_dir().map_err(portcullis_harness::Error::from)?.join("examples"));
        }
        if self.is_counted {
            options.wrapper = callgrind::wrapper(&dir.join(callgrind::OUT));
        }
        Ok(Envoy::start(dir, "envoy", &options)?)
    }

    fn envoy_of_agent(&self, dir: &Path, plane: &ControlPlane) -> Result<CaseEnvoy, BenchError> {
        let mut options = AgentOptions::new([plane.xds_socket()]);
        options.envoy_flags = ["--concurrency", "1"].map(str::to_owned).into();
        if self.is_counted {
            options.envoy = Some(callgrind::script(&dir.join(callgrind::OUT), &dir.join("counted-envoy"))?);
        }
        let agent = Box::new(Agent::start(dir, "envoy", &options)?);
        let pid = wait::until("Envoy's process", STARTS, || agent.envoy_pid())?;
        Ok(CaseEnvoy::OfAgent { agent, pid })
    }

    /// A proxy at an address, or the server itself, for the case's client.
    pub(crate) fn target(&self, case: Case, address: SocketAddr) -> TlsTarget {
        let name = if address == self.stub.address() { "kubernetes" } else { NAME };
        let target = TlsTarget::new(address).sni(name).trust(&self.server_ca).timeout(Duration::from_secs(30));
        if case.uses_token() { target } else { target.identity(&self.alice) }
    }

    /// The server's own address.
    pub(crate) fn server(&self) -> SocketAddr {
        self.stub.address()
    }

    /// Starts another proxy in front of the server.
    pub(crate) fn peer(&self, peer: Peer) -> Result<RunningPeer, BenchError> {
        let dir = self.run.make_dir(peer.title())?;
        let files = Files {
            serving: &self.serving,
            client_ca: &self.client_ca,
            gateway: &self.gateway,
            server_ca: &self.server_ca,
        };
        peer.start(&dir, &files, &[self.stub.address()])
    }

    /// Connects, and waits until the server is healthy and the credential known.
    fn connect(&self, case: Case, envoy: &CaseEnvoy, address: SocketAddr) -> Result<H2Client, BenchError> {
        envoy.wait_listening(address)?;
        // Under callgrind V8 compiles for minutes, and Envoy ends handshakes that last 15 seconds.
        let client =
            wait::until_ok("the case's connection", STARTS, || H2Client::connect(&self.target(case, address)))?;
        wait::until_ok("the case's answer", STARTS, || client::send(&client, case, &self.token, 1))?;
        client::send(&client, case, &self.token, WARM_UP)?;
        envoy.wait_leased()?;
        Ok(client)
    }

    /// The first round is for warming up what is counted.
    fn round(&self, running: &Running, round: u32, requests: u32) -> Result<Profile, BenchError> {
        if round == 0 {
            callgrind::control(running.pid(), "--instr=on")?;
        }
        let requests = if round == 0 { WARM_UP } else { requests };
        running.envoy.wait_leased()?;
        client::send(&running.client, running.case, &self.token, requests)?;
        self.stub.clear();
        callgrind::control(running.pid(), "--dump")?;
        let out = self.run.make_dir(running.case.slug())?.join(callgrind::OUT);
        callgrind::worker(&callgrind::dumps(&out, round + 1))
    }
}

//! A control plane, and two instances with two Envoys each.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use portcullis_e2e::{default_certificate, settings};
use portcullis_harness::agent::{Agent, AgentOptions};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{TlsTarget, plain};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{ports, wait, write_private};
use serde_json::json;

use super::clusters::Clusters;
use super::cores::Cores;
use super::priority;
use super::xds::XdsNetwork;
use crate::error::BenchError;
use crate::pause::pause;
use crate::plane_log::Log;
use crate::servers::{Authorities, Server};
use crate::usage;

/// The longest time of one step.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);
/// The time in which an agent has parts of limits, if the control plane takes its reports.
const PARTS: Duration = Duration::from_secs(10);
/// The time in which a control plane has begun with what was written last.
const READ: Duration = Duration::from_secs(2);
const ENVOYS: u32 = 2;
/// The known user.
const TOKEN: &str = "the-token-of-robot";
/// The beginning of the paths of all requests, answered with 2 KiB.
pub(super) const NAMESPACES_PATH: &str = "/api/v1/namespaces/";

/// The control plane and both instances.
pub(super) struct TwoInstances {
    pub(super) a: Tenant,
    pub(super) b: Tenant,
    /// The control plane's log.
    pub(super) log: Log,
    pub(super) manifests: PathBuf,
    /// The number of `a`'s last edit or load.
    pub(super) edit: u64,
    /// The cores of `a`, if `b` has others.
    pub(super) of_a: Option<Cores>,
    plane: ControlPlane,
    address: SocketAddr,
    serving_ca: Ca,
    alice: Identity,
}

/// An instance: its clusters, their server, and its Envoys.
pub(super) struct Tenant {
    pub(super) clusters: Clusters,
    pub(super) agents: Vec<Agent>,
    server: Server,
}

/// CPU time so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CpuTimes {
    pub(super) plane: Duration,
    /// Envoys and agents of an instance.
    pub(super) of_a: Duration,
    pub(super) of_b: Duration,
    /// All processes of the machine.
    pub(super) machine: Duration,
}

impl TwoInstances {
    /// Starts everything, and waits until each Envoy has acknowledged what is its own. `counts` are the numbers of clusters.
    pub(super) fn start(run: &RunDir, counts: [u32; 2], is_lowered: bool) -> Result<Self, BenchError> {
        let (dir, manifests) = (run.make_dir("plane")?, run.make_dir("manifests")?);
        let address = ports::free_address()?;
        let (trusts, serving_ca) = (Authorities::new()?, Ca::new("gateway serving authority")?);
        let text = settings("bench", address, &default_certificate(&serving_ca)?);
        write_private(&manifests.join("settings.yaml"), text.as_bytes())?;
        let server = |team: &str| -> Result<Server, BenchError> {
            let mut server =
                Server::start(&dir, &format!("server-{team}"), &trusts, &json!({TOKEN: {"user": "robot"}}))?;
            server.answers(&[(NAMESPACES_PATH, 2_048)])?;
            Ok(server)
        };
        let mut sides = Vec::new();
        for (team, count) in ["a", "b"].into_iter().zip(counts) {
            write_private(&manifests.join(format!("instance-{team}.yaml")), instance(team).as_bytes())?;
            let server = server(team)?;
            let clusters = Clusters::new(team, count, server.address, &trusts, &serving_ca)?;
            for number in 0..count {
                clusters.write(&manifests, number, 0, 0)?;
            }
            sides.push((team, clusters, server));
        }
        let network = XdsNetwork::new(&dir)?;
        let flags = network.server_flags();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let plane = ControlPlane::start_with(&dir, &manifests, &flags)?;
        let log = Log::open(plane.process().log_path())?;
        let tenants = sides.into_iter().map(|(team, clusters, server)| {
            let agents = (0..ENVOYS).map(|number| {
                let node = node(team, number);
                let mut options = AgentOptions::new([]);
                options.flags = network.member_flags(&node, team)?;
                options.envoy_flags = ["--concurrency", "1"].map(str::to_owned).into();
                Ok(Agent::start(&dir, &node, &options)?)
            });
            Ok(Tenant { clusters, agents: agents.collect::<Result<_, BenchError>>()?, server })
        });
        let mut tenants = tenants.collect::<Result<Vec<_>, BenchError>>()?.into_iter();
        let (Some(a), Some(b)) = (tenants.next(), tenants.next()) else { return Err(BenchError::Lacks("instances")) };
        let alice = trusts.client.issue(&CertSpec::client("alice", ["developers"]))?;
        let this = TwoInstances { a, b, log, manifests, edit: 0, of_a: None, plane, address, serving_ca, alice };
        for agent in this.a.agents.iter().chain(&this.b.agents) {
            agent.wait_ready(PATIENCE)?;
        }
        this.settle()?;
        if is_lowered {
            this.a.lower()?;
        }
        Ok(this)
    }

    /// Keeps the control plane and `a` on the first of these cores, and `b` on the second, with this thread and those that it starts later.
    pub(super) fn keep_apart(&mut self, first: Cores, second: Cores) -> Result<(), BenchError> {
        self.a
            .pids()
            .into_iter()
            .chain([self.a.server.pid(), self.plane.process().pid()])
            .try_for_each(|pid| first.keep(pid))?;
        self.b.pids().into_iter().chain([self.b.server.pid()]).try_for_each(|pid| second.keep(pid))?;
        self.of_a = Some(first);
        second.keep_this_thread()
    }

    /// Waits until all Envoys have acknowledged what was written last.
    pub(super) fn settle(&self) -> Result<(), BenchError> {
        pause(READ);
        self.plane.wait_in_sync(2 * ENVOYS as usize, PATIENCE)?;
        Ok(())
    }

    /// The servers' records would grow with each request.
    pub(super) fn forget(&self) -> Result<(), BenchError> {
        self.a.server.forget()?;
        self.b.server.forget()
    }

    /// A cluster, for a client without a credential.
    pub(super) fn stranger(&self, clusters: &Clusters, number: u32) -> TlsTarget {
        let name = clusters.name(number);
        TlsTarget::new(self.address).sni(&name).trust(&self.serving_ca).timeout(Duration::from_secs(10))
    }

    /// A cluster, for a client with a certificate.
    pub(super) fn alice(&self, clusters: &Clusters, number: u32) -> TlsTarget {
        self.stranger(clusters, number).identity(&self.alice)
    }

    pub(super) fn cpu_times(&self) -> Result<CpuTimes, BenchError> {
        Ok(CpuTimes {
            plane: usage::spent(self.plane.process().pid())?,
            of_a: self.a.cpu_time()?,
            of_b: self.b.cpu_time()?,
            machine: usage::spent_by_all()?,
        })
    }
}

impl CpuTimes {
    /// The time since then.
    pub(super) fn since(self, before: Self) -> Self {
        CpuTimes {
            plane: self.plane.saturating_sub(before.plane),
            of_a: self.of_a.saturating_sub(before.of_a),
            of_b: self.of_b.saturating_sub(before.of_b),
            machine: self.machine.saturating_sub(before.machine),
        }
    }
}

impl Tenant {
    /// The bearer token of a known user.
    pub(super) const TOKEN: &str = TOKEN;

    /// The names under which the control plane knows its Envoys.
    pub(super) fn nodes(&self) -> Vec<String> {
        self.agents.iter().map(|agent| agent.process().name().to_owned()).collect()
    }

    /// Whether all of its Envoys have parts of the limits of all gateways, now or soon.
    pub(super) fn gets_parts(&self) -> bool {
        let has_parts = |agent: &Agent| {
            let page = plain::get(agent.http_address(), "/metrics").ok()?.text();
            page.lines().any(|line| line == "portcullis_limits_degraded 0").then_some(())
        };
        wait::until("parts of limits", PARTS, || self.agents.iter().try_for_each(has_parts)).is_ok()
    }

    /// The requests of clients that each of its Envoys got so far.
    pub(super) fn requests(&self) -> Result<Vec<u64>, BenchError> {
        let count = |agent: &Agent| {
            // Those of clusters, whose names begin so.
            let counts = agent.admin().stats(r"^http\.c[0-9].*\.downstream_rq_total$")?;
            Ok(counts.iter().map(|(_, count)| count).sum::<u64>())
        };
        self.agents.iter().map(count).collect()
    }

    fn lower(&self) -> Result<(), BenchError> {
        self.pids().into_iter().chain([self.server.pid()]).try_for_each(priority::lower)
    }

    fn cpu_time(&self) -> Result<Duration, BenchError> {
        self.pids().into_iter().map(usage::spent).sum()
    }

    /// Agents and Envoys.
    fn pids(&self) -> Vec<u32> {
        self.agents.iter().flat_map(|agent| [Some(agent.process().pid()), agent.envoy_pid()]).flatten().collect()
    }
}

fn node(team: &str, number: u32) -> String {
    format!("{team}-{number}")
}

fn instance(team: &str) -> String {
    let spec = json!({"clustersSelector": {"matchLabels": {"team": team}}});
    json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": "Instance", "metadata": {"name": team}, "spec": spec})
        .to_string()
}

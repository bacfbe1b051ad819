//! Limits of all gateways while the replica that divides them ends: a real Lease, three gateways in a storm, and a server that counts.

use std::time::{Duration, Instant};

use portcullis_e2e::Manifest;
use portcullis_harness::agent::{Agent, AgentOptions};
use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::client::{ClientPool, LoadProfile, OpenLoopLoad, Protocol, TlsTarget, plain};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::process::Signal;
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault, StubOptions, StubServer};
use serde_json::{Value, json};

use super::control_plane::{SOON, object};
use super::fixture::SourceFixture;

const NAME: &str = "a.example.com";
const PODS: &str = "/api/v1/namespaces/default/pods";
/// A path that the server does not count among the requests at a time.
const UNCOUNTED: &str = "/readyz";
const GATEWAYS: usize = 3;
/// Connections, which the kernel divides among the gateways.
const LANES: usize = 18;
/// Requests in flight of all gateways; one of a gateway alone.
const MAX: usize = 12;
/// Requests per second of all gateways, and at once after a pause; one of a gateway alone.
const QPS: u64 = 60;
/// Longer than a Lease.
const EXPIRY: Duration = Duration::from_secs(40);
/// The time that a new leader learns for, and one more report.
const LEARNS: Duration = Duration::from_secs(10);

/// Gateways that follow two replicas, in front of a server.
struct LeaderFixture {
    planes: Vec<ControlPlane>,
    agents: Vec<Agent>,
    stub: StubServer,
    fixture: SourceFixture,
}

/// The moments of a change of leaders, since the end of the one before.
#[derive(Debug, Default)]
struct Moments {
    leads: Option<Duration>,
    first_alone: Option<Duration>,
    all_alone: Option<Duration>,
    last_alone: Option<Duration>,
    /// When the server had more than the limit.
    first_above: Option<Duration>,
    last_above: Option<Duration>,
    /// The most that it had.
    peak: usize,
}

fn limits() -> Value {
    let (few, all) = (json!({"max": 1}), json!({"max": MAX}));
    let (slow, fast) = (json!({"qps": 1, "burst": 1}), json!({"qps": QPS, "burst": QPS}));
    json!({"flowControlSchemas": [
        {"name": "few", "strategy": "globalAllocate", "maxRequestsInflight": few, "globalMaxRequestsInflight": all},
        {"name": "rate", "strategy": "globalAllocate", "tokenBucket": slow, "globalTokenBucket": fast},
    ]})
}

fn manifest(fixture: &SourceFixture, stub: &StubServer, stub_ca: &Ca) -> Manifest {
    let resources = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    let nonresources = json!({"verbs": ["*"], "nonResourceURLs": ["*"]});
    Manifest::new(NAME, [stub.address()])
        .upstream(&fixture.gateway, stub_ca, "kubernetes")
        .serving(&fixture.serving(NAME), fixture.kube.client_ca())
        .set("/spec/flowControl", limits())
        .policies(json!([
            {"rules": [resources], "flowControlSchemaName": "few"},
            {"rules": [nonresources], "flowControlSchemaName": "rate"},
        ]))
}

fn leads(plane: &ControlPlane) -> bool {
    plane.status().is_ok_and(|status| status["source"]["leader"] == true)
}

impl LeaderFixture {
    fn start(test: &str) -> Option<Self> {
        let fixture = SourceFixture::start(test)?;
        let stub_ca = Ca::new("servers").unwrap();
        let identity = stub_ca.issue(&CertSpec::server("stub", ["kubernetes"])).unwrap();
        let mut options =
            StubOptions::new(identity.pem(), identity.key_pem()).client_ca(fixture.kube.client_ca().pem());
        options.impersonators = vec!["portcullis".to_owned()];
        let stub = StubServer::start(options).unwrap();
        fixture.apply(&manifest(&fixture, &stub, &stub_ca).to_text());
        let flags = fixture.kubernetes_flags(&fixture.settings.display().to_string());
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let dir = |number| fixture.run.make_dir(&format!("plane-{number}")).unwrap();
        let planes: Vec<_> = (0..2).map(|number| ControlPlane::start_from(&dir(number), &flags).unwrap()).collect();
        let served = |status: &Value| object(status, NAME).is_some_and(|one| one["accepted"] == true);
        for plane in &planes {
            plane.wait_status("the object is served", SOON, served).unwrap();
        }
        let options = AgentOptions::new(planes.iter().map(ControlPlane::xds_socket));
        let start = |number| Agent::start(fixture.run.path(), &format!("envoy-{number}"), &options).unwrap();
        let agents: Vec<_> = (0..GATEWAYS).map(start).collect();
        agents.iter().for_each(|agent| agent.wait_ready(SOON).unwrap());
        let fixture = LeaderFixture { planes, agents, stub, fixture };
        wait::until("gateways have their parts", EXPIRY, || (fixture.alone() == 0).then_some(())).unwrap();
        Some(fixture)
    }

    /// Gateways that go by what they have without a control plane.
    fn alone(&self) -> usize {
        let is_alone = |agent: &&Agent| {
            let page = plain::get(agent.http_address(), "/metrics").unwrap().text();
            page.lines()
                .find_map(|line| line.strip_prefix("portcullis_limits_degraded "))
                .is_none_or(|value| value != "0")
        };
        self.agents.iter().filter(is_alone).count()
    }

    /// More than all limits allow, over connections to all gateways.
    fn storm(&self, pool: &ClientPool) -> [OpenLoopLoad; 2] {
        let alice = self.fixture.kube.client_ca().issue(&CertSpec::client("alice", ["dev"])).unwrap();
        let target = TlsTarget::new(self.fixture.address).sni(NAME).trust(&self.fixture.serving_ca).identity(&alice);
        let lane =
            |number| LoadProfile::new(format!("lane-{number}"), &target.clone().timeout(EXPIRY), Protocol::Http2);
        let lanes: Vec<_> = (0..LANES).map(lane).collect();
        self.stub.fault(Fault::new(PODS, Action::Delay { millis: 100 }));
        [(PODS, 300.0), (UNCOUNTED, 150.0)].map(|(path, rate)| pool.steady(&lanes, &[path], rate).unwrap())
    }

    /// Ends the leader, and looks on until the other one has led for a while and all gateways have parts.
    fn change(&mut self, signal: Signal) -> Moments {
        let leader = wait::until("one leads", EXPIRY, || self.planes.iter().position(leads)).unwrap();
        let other = &self.planes[1 - leader];
        let (ended, mut moments) = (Instant::now(), Moments::default());
        self.planes[leader].process().signal(signal).unwrap();
        wait::until("the other one leads and all have parts", EXPIRY * 2, || {
            let (peak, alone, now) = (self.stub.take_peak(), self.alone(), ended.elapsed());
            moments.peak = moments.peak.max(peak);
            if peak > MAX {
                moments.first_above.get_or_insert(now);
                moments.last_above = Some(now);
            }
            if alone > 0 {
                moments.first_alone.get_or_insert(now);
                moments.last_alone = Some(now);
            }
            if alone == GATEWAYS {
                moments.all_alone.get_or_insert(now);
            }
            if moments.leads.is_none() && leads(other) {
                moments.leads = Some(now);
            }
            (alone == 0 && moments.leads.is_some_and(|since| now > since + LEARNS)).then_some(())
        })
        .unwrap();
        self.planes[leader].restart().unwrap();
        let is_current = |status: &Value| status["source"]["staleSince"].is_null();
        self.planes[leader].wait_status("the source is current", SOON, is_current).unwrap();
        moments
    }
}

#[test]
#[ignore = "a Lease runs out, twice, and counts are compared with time"]
fn limits_of_all_gateways_hold_while_their_leader_ends() {
    let Some(mut fixture) = LeaderFixture::start("limits-leader") else { return };
    let pool = ClientPool::new(2).unwrap();
    let [pods, others] = fixture.storm(&pool);
    let is_full = |fixture: &LeaderFixture| {
        wait::until("all of the limit is in use", SOON * 2, || (fixture.stub.peak() >= MAX).then_some(())).unwrap();
    };
    is_full(&fixture);
    for signal in [Signal::Kill, Signal::Term, Signal::Kill] {
        let before = fixture.stub.take_peak();
        others.take();
        let start = Instant::now();
        let moments = fixture.change(signal);
        let (during, took, good) = (moments.peak, start.elapsed(), others.take().good());
        is_full(&fixture);
        let after = fixture.stub.take_peak();
        let promised = QPS as f64 * (1.0 + took.as_secs_f64());
        eprintln!("{signal:?}: {moments:?}");
        eprintln!(
            "peaks before, during and after: {before}, {during}, {after} of {MAX}; {good} of at most {promised:.0} in {took:.1?}"
        );
        // A gateway that is alone has its local limit of one at least.
        assert!(during <= MAX + GATEWAYS, "{during}");
        assert!(before <= MAX && after <= MAX, "{before}, {after}");
        assert!(good as f64 <= promised * 1.05, "{good} of {promised}");
        fixture.stub.clear();
    }
    let [pods, others] = [pods, others].map(|load| load.stop().unwrap());
    eprintln!("by status: {:?} in flight, {:?} of the rate since the last change", pods.statuses, others.statuses);
}

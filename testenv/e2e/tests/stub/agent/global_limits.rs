//! Limits of three gateways together, at one control plane: requests per second and requests in flight, as clients and the server count
//! them.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use portcullis_e2e::allow_all;
use portcullis_harness::agent::{Agent, AgentOptions};
use portcullis_harness::client::{H2Client, TlsTarget, plain};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::process::Signal;
use portcullis_harness::{wait, write_private};
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::{Value, json};

use super::fixture::{AgentFixture, SOON};
use crate::fixture::PODS;

const GATEWAYS: usize = 3;
/// Requests per second of all gateways.
const QPS: u64 = 60;
/// Requests in flight of all gateways.
const MAX: usize = 12;
const READY: Duration = Duration::from_secs(20);
/// The time in which a rate has to settle.
const SETTLED: Duration = Duration::from_secs(40);
/// Seconds that a rate is measured over.
const WINDOW: usize = 8;

/// Gateways of one control plane at one address, which the kernel divides connections among.
struct Fleet {
    fixture: AgentFixture,
    plane: ControlPlane,
    agents: Vec<Agent>,
    target: TlsTarget,
    manifests: std::path::PathBuf,
}

fn schema(limits: &Value) -> Value {
    let mut schema = json!({"name": "shared"});
    for (field, value) in limits.as_object().unwrap() {
        schema[field] = value.clone();
    }
    json!({"flowControlSchemas": [schema]})
}

fn rate(strategy: &str) -> Value {
    let (local, global) = (json!({"qps": 1, "burst": 1}), json!({"qps": QPS, "burst": QPS}));
    json!({"strategy": strategy, "tokenBucket": local, "globalTokenBucket": global})
}

fn in_flight(strategy: &str) -> Value {
    json!({"strategy": strategy, "maxRequestsInflight": {"max": 1}, "globalMaxRequestsInflight": {"max": MAX}})
}

impl Fleet {
    fn start(test: &str, limits: &Value) -> Self {
        let fixture = AgentFixture::new(test);
        let policies = json!([{"rules": [allow_all()], "flowControlSchemaName": "shared"}]);
        let manifest = fixture.manifest().set("/spec/flowControl", schema(limits)).policies(policies);
        let (mut planes, manifests, address) = fixture.site_of("plane", &manifest).control_planes().unwrap();
        let plane = planes.remove(0);
        let options = AgentOptions::new([plane.xds_socket()]);
        let start = |number: usize| Agent::start(fixture.run.path(), &format!("envoy-{number}"), &options).unwrap();
        let agents: Vec<_> = (0..GATEWAYS).map(start).collect();
        agents.iter().for_each(|agent| agent.wait_ready(READY).unwrap());
        let target = fixture.target(address);
        let fleet = Fleet { plane, agents, target, manifests, fixture };
        fleet.wait_for_parts();
        fleet
    }

    /// Gives all gateways other limits.
    fn limit(&self, limits: &Value) {
        let path = self.manifests.join("cluster.yaml");
        let mut object: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        object["spec"]["flowControl"] = schema(limits);
        let before = self.plane.status().unwrap()["snapshot"].clone();
        write_private(&path, format!("{object:#}").as_bytes()).unwrap();
        let has_it = |status: &Value| {
            let nodes = status["nodes"].as_array().unwrap();
            nodes.iter().all(|node| node["inSync"] == true) && status["snapshot"] != before
        };
        self.plane.wait_status("the change is acknowledged", SOON, has_it).unwrap();
    }

    fn is_degraded(&self, number: usize) -> Option<bool> {
        let page = plain::get(self.agents[number].http_address(), "/metrics").ok()?.text();
        let value = page.lines().find_map(|line| line.strip_prefix("portcullis_limits_degraded "))?;
        Some(value != "0")
    }

    fn wait_for_parts(&self) {
        let have_parts = || (0..self.agents.len()).all(|number| self.is_degraded(number) == Some(false)).then_some(());
        wait::until("gateways have their parts", SOON, have_parts).unwrap();
    }

    fn requests(&self) -> Vec<u64> {
        let count = |agent: &Agent| {
            let stats = agent.admin().stats(r"^http\.prod_example_com\.downstream_rq_total$").unwrap();
            stats.iter().map(|(_, count)| count).sum()
        };
        self.agents.iter().map(count).collect()
    }

    /// A connection to that gateway: of several the kernel gives it one sooner or later.
    fn connect(&self, number: usize) -> H2Client {
        let found = || {
            let before = self.requests();
            let client = H2Client::connect(&self.target).unwrap();
            client.get(PODS, &[]).unwrap();
            let is_counted = || {
                let after = self.requests();
                before.iter().zip(&after).position(|(before, after)| after > before)
            };
            let gateway = wait::until("the request is counted", SOON, is_counted).unwrap();
            (gateway == number).then_some(client)
        };
        wait::until("a connection to the gateway", SOON, found).unwrap()
    }

    /// Has each client ask as fast as it can, with that many threads, until the requests that went through in [`WINDOW`] seconds are
    /// as many as `enough` says. Returns how many went through in a second.
    fn ask(&self, clients: &[&H2Client], threads: usize, enough: impl Fn(u64) -> bool) -> u64 {
        let (good, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for client in clients {
                for _ in 0..threads {
                    scope.spawn(|| {
                        while !stop.load(Ordering::Relaxed) {
                            match client.get(PODS, &[]).map(|answer| answer.status) {
                                Ok(200) => _ = good.fetch_add(1, Ordering::Relaxed),
                                Ok(429) => std::thread::park_timeout(Duration::from_millis(20)),
                                other => panic!("{other:?}"),
                            }
                        }
                    });
                }
            }
            let mut samples = vec![(Instant::now(), 0)];
            let settled = wait::until("the rate settles", SETTLED, || {
                let last = samples.last()?.0;
                if last.elapsed() < Duration::from_secs(1) {
                    return None;
                }
                samples.push((Instant::now(), good.load(Ordering::Relaxed)));
                let (end, after) = *samples.last()?;
                let (start, before) = *samples.iter().rev().nth(WINDOW)?;
                let rate = ((after - before) as f64 / end.duration_since(start).as_secs_f64()).round() as u64;
                enough(rate).then_some(rate)
            });
            stop.store(true, Ordering::Relaxed);
            settled.unwrap_or_else(|error| panic!("{error}: {samples:?}"))
        })
    }
}

/// Requests per second within so many parts of a hundred of the limit, spread over the gateways and at one of them.
fn holds(fleet: &Fleet, strategy: &str, within: u64) {
    let clients: Vec<_> = (0..GATEWAYS).map(|number| fleet.connect(number)).collect();
    let all: Vec<_> = clients.iter().collect();
    for (what, asked) in [("all", &all[..]), ("one", &all[..1])] {
        let bounds = QPS * (100 - within) / 100..=QPS * (100 + within) / 100;
        let passed = fleet.ask(asked, 2, |rate| bounds.contains(&rate));
        eprintln!("{strategy}, {what}: {passed} of {QPS} requests a second");
    }
}

#[test]
fn rate_of_three_gateways_is_that_of_the_limit() {
    let fleet = Fleet::start("global-rate", &rate("globalCount"));
    holds(&fleet, "globalCount", 3);
    fleet.limit(&rate("globalAllocate"));
    holds(&fleet, "globalAllocate", 10);
}

#[test]
fn requests_in_flight_of_three_gateways_are_never_more() {
    let fleet = Fleet::start("global-in-flight", &in_flight("globalAllocate"));
    fleet.fixture.stub.fault(Fault::new(PODS, Action::Delay { millis: 50 }));
    let clients: Vec<_> = (0..GATEWAYS).map(|number| fleet.connect(number)).collect();
    let all: Vec<_> = clients.iter().collect();
    for strategy in ["globalAllocate", "globalCount"] {
        if strategy != "globalAllocate" {
            fleet.limit(&in_flight(strategy));
        }
        // Gateways without requests keep one each, to begin with.
        for (what, asked, least) in [("all", &all[..], MAX), ("one", &all[..1], MAX - GATEWAYS + 1)] {
            // Those of the limit before have ended.
            wait::until("nothing runs", SOON, || (fleet.fixture.stub.running() == 0).then_some(())).unwrap();
            fleet.fixture.stub.take_peak();
            let passed = fleet.ask(asked, MAX + 2, |_| fleet.fixture.stub.peak() >= least);
            let peak = fleet.fixture.stub.take_peak();
            eprintln!("{strategy}, {what}: {peak} of {MAX} in flight, {passed} requests a second");
            assert!((least..=MAX).contains(&peak), "{strategy}, {what}: {peak} in flight");
        }
    }
}

#[test]
fn gateway_without_a_control_plane_keeps_what_it_had_in_use() {
    let mut fleet = Fleet::start("global-alone", &rate("globalAllocate"));
    let clients: Vec<_> = (0..GATEWAYS).map(|number| fleet.connect(number)).collect();
    let all: Vec<_> = clients.iter().collect();
    let about = |low: u64, high: u64| move |rate| (QPS * low / 100..=QPS * high / 100).contains(&rate);
    let (is_killed, lost) = (Cell::new(false), about(70, 105));
    let passed = fleet.ask(&all, 2, |rate| {
        if !is_killed.get() && about(90, 105)(rate) {
            fleet.plane.process().signal(Signal::Kill).unwrap();
            fleet.plane.process().wait_exit(SOON).unwrap();
            is_killed.set(true);
        }
        let are_alone = (0..GATEWAYS).all(|number| fleet.is_degraded(number) == Some(true));
        // Each has what was in use when its lease ended, or its local limit.
        is_killed.get() && are_alone && lost(rate)
    });
    eprintln!("without a control plane: {passed} of {QPS} requests a second");
    fleet.plane.restart().unwrap();
    fleet.wait_for_parts();
    fleet.ask(&all, 2, about(90, 105));
}

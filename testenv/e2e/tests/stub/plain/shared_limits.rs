//! Limits that Envoys without an agent share, by exchanges of their filter with a control plane that serves none of them.

use std::time::Duration;

use portcullis_e2e::{MetricsPage, PlainFiles, PlainGateway, PlainSetup, ReportConsole};
use portcullis_harness::client::H2Client;
use portcullis_harness::process::Signal;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault, StubServer};
use serde_json::{Value, json};

use super::reports::add_control_plane;
use crate::askers::ask;
use crate::fixture::{NAME, PODS, Pki};

const GATEWAYS: usize = 3;
const SOON: Duration = Duration::from_secs(20);
/// Requests per second of all gateways.
const QPS: u64 = 60;
/// Requests in flight of all gateways.
const MAX: usize = 12;

/// Envoys in front of one server, and the control plane that divides their limit.
struct PlainFleet {
    console: ReportConsole,
    gateways: Vec<PlainGateway>,
    stub: StubServer,
    pki: Pki,
    // Removed last.
    _folders: Vec<RunDir>,
    _run: RunDir,
}

/// The limit as the object has it: one request, or one in a second, of a gateway alone.
fn schema(strategy: &str, kind: &str, local: &Value, global: &Value) -> Value {
    let global_kind = format!("global{}{}", kind[..1].to_uppercase(), &kind[1..]);
    json!({"flowControlSchemas": [{"name": "shared", "strategy": strategy, kind: local, global_kind: global}]})
}

fn rate(strategy: &str) -> Value {
    schema(strategy, "tokenBucket", &json!({"qps": 1, "burst": 1}), &json!({"qps": QPS, "burst": QPS}))
}

fn in_flight(strategy: &str) -> Value {
    schema(strategy, "maxRequestsInflight", &json!({"max": 1}), &json!({"max": MAX}))
}

impl PlainFleet {
    /// With the limit in the object, and in the filter's configuration of each Envoy.
    fn start(test: &str, object: &Value, limit: &Value, global: &Value) -> Self {
        let run = RunDir::new(test).unwrap();
        let pki = Pki::new();
        let mut options = pki.stub_options("stub-0");
        let names = ["kubernetes", "kubernetes.default.svc"];
        let serving = portcullis_harness::certs::CertSpec::server("stub-0", names);
        let serving = pki.server_ca.issue(&serving).unwrap();
        (options.tls_cert, options.tls_key) = (serving.pem(), serving.key_pem());
        let stub = StubServer::start(options).unwrap();
        let console =
            ReportConsole::start_with(&run, NAME, |manifest| manifest.set("/spec/flowControl", object.clone()));
        let console = console.unwrap();
        let schema = json!({"name": "shared", "limit": limit, "global": {"limit": global, "strategy": "Allocate"}});
        let gateway = |number: usize| {
            let folder = RunDir::new(&format!("{test}-{number}")).unwrap();
            let setup = PlainSetup {
                mode: "impersonate",
                name: NAME,
                servers: vec![stub.address()],
                client: &pki.gateway,
                upstream_ca: &pki.server_ca,
                client_ca: &pki.client_ca,
            };
            let files = PlainFiles::lay_out(&folder, &setup).unwrap();
            let node = format!("plain-{number}.test");
            add_control_plane(&console, &files, &node);
            share(&files, &node, &schema);
            (files.start(&folder, None).unwrap(), folder)
        };
        let (gateways, folders): (Vec<_>, Vec<_>) = (0..GATEWAYS).map(gateway).unzip();
        let fleet = PlainFleet { console, gateways, stub, pki, _folders: folders, _run: run };
        fleet.wait_degraded(false);
        fleet
    }

    /// Waits until local limits hold in all gateways, or in none.
    fn wait_degraded(&self, is_degraded: bool) {
        let states = || -> Vec<u64> {
            let page = |one: &PlainGateway| one.envoy().admin().get("/stats/prometheus").unwrap().text();
            let value = |page: String| MetricsPage::read(&page, "envoy_portcullis_").sum("limits_degraded", &[]);
            self.gateways.iter().map(|one| value(page(one))).collect()
        };
        wait::until_ok("all are degraded, or none", SOON, || {
            let states = states();
            if states == [u64::from(is_degraded); GATEWAYS] { Ok(()) } else { Err(format!("{states:?}")) }
        })
        .unwrap();
    }

    fn change(&mut self, object: &Value) {
        self.console.change(|manifest| manifest.set("/spec/flowControl", object.clone())).unwrap();
    }

    fn clients(&self) -> Vec<H2Client> {
        let client = |one: &PlainGateway| H2Client::connect(&one.target().identity(&self.pki.alice).timeout(SOON * 3));
        self.gateways.iter().map(|one| client(one).unwrap()).collect()
    }

    /// The most requests that the server had at a time, once they are as many as is said.
    fn peak(&self, clients: &[&H2Client], least: usize) -> usize {
        wait::until("nothing runs", SOON, || (self.stub.running() == 0).then_some(())).unwrap();
        self.stub.take_peak();
        ask(clients, MAX + 2, |_| self.stub.peak() >= least);
        self.stub.take_peak()
    }
}

/// Makes an Envoy share a limit as that node.
fn share(files: &PlainFiles, node: &str, schema: &Value) {
    let limits = format!("globalLimits: {{clusters: [control-plane-0], node: \"{node}\"}}");
    let sample = "# globalLimits: {clusters: [control-plane-0], node: portcullis-0}";
    files.edit("listener.yaml", |text| text.replace(sample, &limits)).unwrap();
    let policies = "            policies:\n            - group: all\n";
    let limited = format!(
        "            flowControlSchemas: [{schema}]\n{}",
        policies.replace("- group: all\n", "- group: all\n              flowControlSchema: shared\n")
    );
    files.edit("routes.yaml", |text| text.replace(policies, &limited)).unwrap();
}

#[test]
fn rate_of_envoys_without_an_agent_is_that_of_the_limit() {
    let bucket = |qps: u64| json!({"tokenBucket": {"qps": qps, "burst": qps}});
    let mut fleet = PlainFleet::start("plain-rate", &rate("globalCount"), &bucket(1), &bucket(QPS));
    let clients = fleet.clients();
    let all: Vec<_> = clients.iter().collect();
    for (strategy, within) in [("globalCount", 3), ("globalAllocate", 10)] {
        fleet.change(&rate(strategy));
        for (what, asked) in [("all", &all[..]), ("one", &all[..1])] {
            let bounds = QPS * (100 - within) / 100..=QPS * (100 + within) / 100;
            let passed = ask(asked, 2, |rate| bounds.contains(&rate));
            eprintln!("{strategy}, {what}: {passed} of {QPS} requests a second");
        }
    }
}

#[test]
fn requests_in_flight_of_envoys_without_an_agent_are_never_more() {
    let max = |max: usize| json!({"maxRequestsInflight": max});
    let mut fleet = PlainFleet::start("plain-in-flight", &in_flight("globalAllocate"), &max(1), &max(MAX));
    fleet.stub.fault(Fault::new(PODS, Action::Delay { millis: 50 }));
    let clients = fleet.clients();
    let all: Vec<_> = clients.iter().collect();
    for strategy in ["globalAllocate", "globalCount"] {
        fleet.change(&in_flight(strategy));
        // Gateways without requests keep one each, to begin with.
        for (what, asked, least) in [("all", &all[..], MAX), ("one", &all[..1], MAX - GATEWAYS + 1)] {
            let peak = fleet.peak(asked, least);
            eprintln!("{strategy}, {what}: {peak} of {MAX} in flight");
            assert!((least..=MAX).contains(&peak), "{strategy}, {what}: {peak} in flight");
        }
    }
    // Nothing is in use when the leases end, so that the local limits hold.
    wait::until("nothing runs", SOON, || (fleet.stub.running() == 0).then_some(())).unwrap();
    fleet.console.plane.process().signal(Signal::Kill).unwrap();
    fleet.console.plane.process().wait_exit(SOON).unwrap();
    fleet.wait_degraded(true);
    let peak = fleet.peak(&all, GATEWAYS);
    eprintln!("without a control plane: {peak} in flight");
    assert_eq!(peak, GATEWAYS);
    fleet.console.plane.restart().unwrap();
    fleet.wait_degraded(false);
    assert_eq!(fleet.peak(&all, MAX), MAX);
    assert_eq!(fleet.console.rejections(&[]).unwrap(), 0);
}

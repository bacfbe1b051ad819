//! Envoys without an agent that share a limit, and the control plane that divides it.

use std::time::Duration;

use portcullis_e2e::{MetricsPage, PlainFiles, PlainGateway, PlainSetup, ReportConsole};
use portcullis_harness::certs::CertSpec;
use portcullis_harness::client::H2Client;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, wait};
use portcullis_stub_apiserver::StubServer;
use serde_json::{Value, json};

use super::reports::add_control_plane;
use crate::askers::ask;
use crate::fixture::{NAME, Pki};

pub(super) const GATEWAYS: usize = 3;
pub(super) const SOON: Duration = Duration::from_secs(20);
/// Requests per second of all gateways.
pub(super) const QPS: u64 = 60;
/// Requests in flight of all gateways.
pub(super) const MAX: usize = 12;

/// The build of the filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Build {
    Module,
    Wasm,
}

/// Envoys in front of one server, and the control plane that divides their limit.
pub(super) struct PlainFleet {
    pub(super) console: ReportConsole,
    gateways: Vec<PlainGateway>,
    pub(super) stub: StubServer,
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

pub(super) fn rate(strategy: &str) -> Value {
    schema(strategy, "tokenBucket", &json!({"qps": 1, "burst": 1}), &json!({"qps": QPS, "burst": QPS}))
}

pub(super) fn in_flight(strategy: &str) -> Value {
    schema(strategy, "maxRequestsInflight", &json!({"max": 1}), &json!({"max": MAX}))
}

impl PlainFleet {
    /// With the limit in the object, and in the filter's configuration of each Envoy.
    pub(super) fn start(build: Build, object: &Value, limit: &Value, global: &Value) -> Self {
        let kind = object.pointer("/flowControlSchemas/0/tokenBucket").map_or("in-flight", |_| "rate");
        let test = format!("plain-{kind}-{build:?}").to_lowercase();
        let run = RunDir::new(&test).unwrap();
        let pki = Pki::new();
        let mut options = pki.stub_options("stub-0");
        let names = ["kubernetes", "kubernetes.default.svc"];
        let serving = CertSpec::server("stub-0", names);
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
            if build == Build::Wasm {
                files.use_wasm(&deps::wasm().unwrap()).unwrap();
            }
            (files.start(&folder, None).unwrap(), folder)
        };
        let (gateways, folders): (Vec<_>, Vec<_>) = (0..GATEWAYS).map(gateway).unzip();
        let fleet = PlainFleet { console, gateways, stub, pki, _folders: folders, _run: run };
        fleet.wait_degraded(false);
        fleet
    }

    /// Waits until local limits hold in all gateways, or in none.
    pub(super) fn wait_degraded(&self, is_degraded: bool) {
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

    pub(super) fn change(&mut self, object: &Value) {
        self.console.change(|manifest| manifest.set("/spec/flowControl", object.clone())).unwrap();
    }

    pub(super) fn clients(&self) -> Vec<H2Client> {
        let client = |one: &PlainGateway| H2Client::connect(&one.target().identity(&self.pki.alice).timeout(SOON * 3));
        self.gateways.iter().map(|one| client(one).unwrap()).collect()
    }

    /// The most requests that the server had at a time, once they are as many as is said.
    pub(super) fn peak(&self, clients: &[&H2Client], least: usize) -> usize {
        wait::until("nothing runs", SOON, || (self.stub.running() == 0).then_some(())).unwrap();
        self.stub.take_peak();
        ask(clients, MAX + 2, |_| self.stub.peak() >= least);
        self.stub.take_peak()
    }

    /// The same, once each gateway has its part: one that has none yet adds what its local limit allows.
    pub(super) fn shared_peak(&self, clients: &[&H2Client], least: usize) -> usize {
        let of_parts = || {
            let peak = self.peak(clients, least);
            assert!(peak <= MAX + GATEWAYS, "{peak} in flight");
            (peak <= MAX).then_some(peak)
        };
        wait::until("all requests are within the limit", SOON, of_parts).unwrap()
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

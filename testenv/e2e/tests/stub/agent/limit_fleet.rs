//! Three gateways at one address, with a limit that they share.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use portcullis_e2e::{AgentSiteSetup, MetricsPage, allow_all};
use portcullis_harness::agent::{Agent, AgentOptions};
use portcullis_harness::client::{ClientPool, H2Client, TlsTarget, plain};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::{wait, write_private};
use serde_json::{Value, json};

use super::fixture::{AgentFixture, SOON};
use crate::askers::{self, Asker};
use crate::fixture::PODS;

pub(super) const GATEWAYS: usize = 3;
const READY: Duration = Duration::from_secs(20);

/// Gateways of the same control planes at one address, which the kernel divides connections among.
pub(super) struct Fleet {
    pub(super) fixture: AgentFixture,
    pub(super) planes: Vec<ControlPlane>,
    pub(super) agents: Vec<Agent>,
    target: TlsTarget,
    manifests: PathBuf,
}

fn schema(limits: &Value) -> Value {
    let mut schema = json!({"name": "shared"});
    for (field, value) in limits.as_object().unwrap() {
        schema[field] = value.clone();
    }
    json!({"flowControlSchemas": [schema]})
}

/// Requests per second of all gateways; one of a gateway alone.
pub(super) fn rate(strategy: &str, qps: u64, burst: u64) -> Value {
    let (local, global) = (json!({"qps": 1, "burst": 1}), json!({"qps": qps, "burst": burst}));
    json!({"strategy": strategy, "tokenBucket": local, "globalTokenBucket": global})
}

/// Requests in flight of all gateways; one of a gateway alone.
pub(super) fn in_flight(strategy: &str, max: usize) -> Value {
    json!({"strategy": strategy, "maxRequestsInflight": {"max": 1}, "globalMaxRequestsInflight": {"max": max}})
}

impl Fleet {
    /// With one control plane.
    pub(super) fn start(test: &str, limits: &Value) -> Self {
        Self::start_at(test, limits, |site| site)
    }

    /// With the control planes of that site.
    pub(super) fn start_at(
        test: &str,
        limits: &Value,
        planes: impl FnOnce(AgentSiteSetup<'_>) -> AgentSiteSetup<'_>,
    ) -> Self {
        Self::start_behind(test, limits, planes, |_, socket| socket.to_owned())
    }

    /// Each gateway follows the control planes at the sockets that `socket` makes of theirs and of its number.
    pub(super) fn start_behind(
        test: &str,
        limits: &Value,
        planes: impl FnOnce(AgentSiteSetup<'_>) -> AgentSiteSetup<'_>,
        mut socket: impl FnMut(usize, &Path) -> PathBuf,
    ) -> Self {
        let fixture = AgentFixture::new(test);
        let policies = json!([{"rules": [allow_all()], "flowControlSchemaName": "shared"}]);
        let manifest = fixture.manifest().set("/spec/flowControl", schema(limits)).policies(policies);
        let (planes, manifests, address) = planes(fixture.site_of("plane", &manifest)).control_planes().unwrap();
        let start = |number: usize| {
            let sockets: Vec<_> = planes.iter().map(|plane| socket(number, plane.xds_socket())).collect();
            let options = AgentOptions::new(sockets.iter().map(PathBuf::as_path));
            Agent::start(fixture.run.path(), &format!("envoy-{number}"), &options).unwrap()
        };
        let agents: Vec<_> = (0..GATEWAYS).map(start).collect();
        agents.iter().for_each(|agent| agent.wait_ready(READY).unwrap());
        let target = fixture.target(address).timeout(SOON.saturating_mul(wait::deadline_factor()));
        let fleet = Fleet { planes, agents, target, manifests, fixture };
        fleet.wait_for_parts();
        fleet
    }

    /// Gives all gateways other limits.
    pub(super) fn limit(&self, limits: &Value) {
        let path = self.manifests.join("cluster.yaml");
        let mut object: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        object["spec"]["flowControl"] = schema(limits);
        let before: Vec<_> = self.planes.iter().map(|plane| plane.status().unwrap()["snapshot"].clone()).collect();
        write_private(&path, format!("{object:#}").as_bytes()).unwrap();
        for (plane, before) in self.planes.iter().zip(before) {
            let has_it = |status: &Value| {
                let nodes = status["nodes"].as_array().unwrap();
                nodes.iter().all(|node| node["inSync"] == true) && status["snapshot"] != before
            };
            plane.wait_status("the change is acknowledged", SOON, has_it).unwrap();
        }
    }

    /// The gateway's page of metrics; `None` while it does not answer.
    fn page(&self, number: usize) -> Option<String> {
        plain::get(self.agents[number].http_address(), "/metrics").ok().map(|page| page.text())
    }

    pub(super) fn is_degraded(&self, number: usize) -> Option<bool> {
        let page = self.page(number)?;
        let value = page.lines().find_map(|line| line.strip_prefix("portcullis_limits_degraded "))?;
        Some(value != "0")
    }

    /// The gateway's part of the limit, as its metrics have it.
    pub(super) fn part(&self, number: usize) -> u64 {
        let page = MetricsPage::read(&self.page(number).unwrap_or_default(), "envoy_portcullis_");
        let limits = ["requests_in_flight_limit", "requests_per_second_limit"];
        limits.iter().flat_map(|name| page.series_of(name)).map(|(_, value)| value).sum()
    }

    pub(super) fn wait_for_parts(&self) {
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

    /// A connection to each gateway.
    pub(super) fn clients(&self) -> Vec<H2Client> {
        (0..self.agents.len()).map(|number| self.connect(number, &ClientPool::new(1).unwrap())).collect()
    }

    /// As [`Fleet::clients`], on the threads of a pool.
    pub(super) fn clients_on(&self, pool: &ClientPool) -> Vec<H2Client> {
        (0..self.agents.len()).map(|number| self.connect(number, pool)).collect()
    }

    /// A connection to that gateway: of several the kernel gives it one sooner or later.
    fn connect(&self, number: usize, pool: &ClientPool) -> H2Client {
        let found = || {
            let before = self.requests();
            let client = pool.connect(&self.target).unwrap();
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

    /// As [`askers::storm`].
    pub(super) fn storm<T>(&self, askers: &[Asker<'_>], watch: impl FnOnce(&AtomicU64) -> T) -> T {
        askers::storm(askers, watch)
    }

    /// As [`askers::ask`].
    pub(super) fn ask(&self, clients: &[&H2Client], threads: usize, enough: impl Fn(u64) -> bool) -> u64 {
        askers::ask(clients, threads, enough)
    }
}

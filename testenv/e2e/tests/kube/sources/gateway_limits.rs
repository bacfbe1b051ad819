//! A limit of all gateways at the Envoys of a Gateway: requests that are held at a server, by a Gateway's Envoy and by one of the fleet,
//! are never more than it together, and each of both has some.

use std::time::Duration;

use portcullis_e2e::Manifest;
use portcullis_harness::agent::{Agent, AgentOptions};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{ClientPool, LoadProfile, OpenLoopLoad, Protocol, TlsTarget, plain};
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault, StubServer};
use serde_json::{Value, json};

use super::control_plane::SOON;
use super::gateway_api::CLUSTER;
use super::gateway_https::{HttpsSite, JUDGED};
use super::limits::counting_server;

const PODS: &str = "/api/v1/namespaces/default/pods";
/// Requests in flight of all gateways. One without a part admits none, so that the limit holds to the unit.
const MAX: usize = 8;
/// Requests per second at each door: more than the limit within a second.
const RATE: f64 = 60.0;
/// Longer than all requests are held.
const PATIENCE: Duration = Duration::from_secs(120);
/// The users of the clients: of the fleet's Envoy, and of the Gateway's.
const USERS: [&str; 2] = ["of-fleet", "of-gateway"];
/// Answers, or refusals, after which an Envoy has asked for its part several times.
const SEVERAL: usize = 60;

struct LimitSite {
    agents: [Agent; 2],
    stub: StubServer,
    stub_ca: Ca,
    gateway: HttpsSite,
}

/// Ends what the server holds, so that no client waits for it at the end of a test.
struct Released<'a>(&'a StubServer);

impl Drop for Released<'_> {
    fn drop(&mut self) {
        self.0.clear_faults();
    }
}

impl LimitSite {
    fn start(test: &str) -> Option<Self> {
        let gateway = HttpsSite::start_with(test, &["--policies"])?;
        let fixture = &gateway.site.fixture;
        let (stub, stub_ca) = counting_server(fixture);
        let sockets = || AgentOptions::new([gateway.site.plane.xds_socket()]);
        let flags = ["--gateway", "infra/edge"].map(str::to_owned).to_vec();
        let agents = [("fleet", sockets()), ("edge", AgentOptions { flags, ..sockets() })]
            .map(|(name, options)| Agent::start(fixture.run.path(), name, &options).unwrap());
        Some(Self { agents, stub, stub_ca, gateway })
    }

    fn limit(&self, strategy: &str) {
        let fixture = &self.gateway.site.fixture;
        let (local, global) = (json!({"max": 0}), json!({"max": MAX}));
        let schema = json!({"name": "few", "strategy": strategy, "maxRequestsInflight": local, "globalMaxRequestsInflight": global});
        let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        let manifest = Manifest::new(CLUSTER, [self.stub.address()])
            .upstream(&fixture.gateway, &self.stub_ca, "kubernetes")
            .serving(&fixture.serving(CLUSTER), fixture.kube.client_ca())
            .set("/spec/flowControl", json!({"flowControlSchemas": [schema]}))
            .policies(json!([{"rules": [all], "flowControlSchemaName": "few"}]));
        fixture.apply(&manifest.to_text());
    }

    fn client(&self, user: &str) -> Identity {
        self.gateway.site.fixture.kube.client_ca().issue(&CertSpec::client(user, ["dev"])).unwrap()
    }

    /// More requests than the limit allows, by the cluster's own name and by the Gateway's.
    fn loads(&self, pool: &ClientPool) -> [OpenLoopLoad; 2] {
        let fixture = &self.gateway.site.fixture;
        let itself = TlsTarget::new(fixture.address).sni(CLUSTER).trust(&fixture.serving_ca);
        let targets = [itself, self.gateway.target(JUDGED)];
        let mut loads = targets.into_iter().zip(USERS).map(|(target, user)| {
            let target = target.identity(&self.client(user)).timeout(PATIENCE);
            pool.steady(&[LoadProfile::new(user, &target, Protocol::Http2)], &[PODS], RATE).unwrap()
        });
        [loads.next().unwrap(), loads.next().unwrap()]
    }

    fn hold(&self) {
        self.stub.clear();
        self.stub.fault(Fault::new(PODS, Action::Hold));
    }

    fn release(&self) {
        self.stub.clear_faults();
        self.stub.clear();
        self.stub.fault(Fault::new(PODS, Action::Delay { millis: 50 }));
    }

    /// Requests of each user that the server has, and those that it answered since the last change.
    fn seen(&self) -> [(usize, usize); 2] {
        let records = self.stub.records_for(PODS);
        USERS.map(|user| {
            let of_user = || records.iter().filter(|one| one.header("impersonate-user").as_deref() == Some(user));
            let held = of_user().filter(|one| one.status.is_none()).count();
            (held, of_user().count() - held)
        })
    }

    fn wait_seen(&self, what: &str, is_seen: impl Fn([(usize, usize); 2]) -> bool) {
        wait::until_ok(what, SOON * 2, || {
            let seen = self.seen();
            if is_seen(seen) {
                Ok(())
            } else {
                Err(format!("held and answered, of the fleet and the Gateway: {seen:?}"))
            }
        })
        .unwrap();
    }

    /// Agents whose Envoys have their parts.
    fn shared(&self) -> usize {
        let has_parts = |agent: &&Agent| {
            let page = plain::get(agent.http_address(), "/metrics").unwrap().text();
            page.lines().any(|line| line == "portcullis_limits_degraded 0")
        };
        self.agents.iter().filter(has_parts).count()
    }

    /// Both are answered by turns; then all that the limit admits is held, some of both.
    fn holds_some_of_both(&self, strategy: &str) {
        self.release();
        let both_answered = |seen: [(usize, usize); 2]| seen.iter().all(|(_, answered)| *answered >= SEVERAL);
        self.wait_seen(&format!("{strategy}: both have parts"), both_answered);
        self.hold();
        let are_held =
            |[(fleet, _), (gateway, _)]: [(usize, usize); 2]| fleet + gateway == MAX && fleet >= MAX / 2 && gateway > 0;
        self.wait_seen(&format!("{strategy}: all of the limit is held"), are_held);
        let peak = self.stub.peak();
        assert!(peak <= MAX, "{strategy}: {peak} in flight of {MAX}");
    }
}

fn conditions(found: &Value) -> Vec<String> {
    let all = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
    all.iter().map(|one| format!("{} {}", text(one, "type"), text(one, "status"))).collect()
}

#[test]
fn requests_at_a_gateway_and_the_fleet_keep_to_a_limit() {
    let Some(site) = LimitSite::start("gateway-limits") else { return };
    site.limit("globalCount");
    site.agents.iter().for_each(|agent| agent.wait_ready(SOON).unwrap());
    wait::until("both have parts", SOON, || (site.shared() == 2).then_some(())).unwrap();
    let (pool, _released) = (ClientPool::new(2).unwrap(), Released(&site.stub));
    let _loads = site.loads(&pool);
    for strategy in ["globalCount", "globalAllocate"] {
        site.release();
        site.limit(strategy);
        site.holds_some_of_both(strategy);
    }
    let found = site.gateway.site.fixture.stored(CLUSTER);
    assert!(!conditions(&found).contains(&"LimitsShared False".to_owned()), "{:#}", found["status"]);

    // The part of a Gateway ends with its route, and the fleet has all.
    site.gateway.site.fixture.admin(&["delete", "httproutes", "route", "-n", "team"]);
    site.release();
    site.wait_seen("the fleet is answered", |[(_, answered), _]| answered >= SEVERAL);
    site.hold();
    site.wait_seen("the fleet has all", |[(fleet, _), (gateway, _)]| fleet == MAX && gateway == 0);
    assert!(site.stub.peak() <= MAX, "{} in flight", site.stub.peak());
}

/// The number of a route's policy holds beside the part of its Envoy, which is half of the limit.
#[test]
fn lowered_limit_of_a_route_holds_beside_the_part() {
    let Some(site) = LimitSite::start("gateway-limits-lowered") else { return };
    let fields = json!({"flowControl": {"flowControlSchemas": [
        {"name": "few", "maxRequestsInflight": {"max": 1}, "globalMaxRequestsInflight": {"max": 1}},
    ]}});
    let target = json!({"group": super::gateway_api::GROUP, "kind": "HTTPRoute", "name": "route"});
    super::gateway_policies::apply_policy(&site.gateway, "FlowControlPolicy", ["team", "one"], &target, &fields);
    super::gateway_policies::wait_accepted(&site.gateway, "flowcontrolpolicies", ["team", "one"], "True Accepted");
    site.limit("globalCount");
    site.agents.iter().for_each(|agent| agent.wait_ready(SOON).unwrap());
    wait::until("both have parts", SOON, || (site.shared() == 2).then_some(())).unwrap();
    let (pool, _released) = (ClientPool::new(2).unwrap(), Released(&site.stub));
    let _loads = site.loads(&pool);
    site.release();
    site.wait_seen("both are answered", |seen| seen.iter().all(|(_, answered)| *answered >= SEVERAL / 2));
    site.hold();
    site.wait_seen("one is held by the route", |[(fleet, _), (gateway, _)]| fleet >= MAX - 2 && gateway == 1);
    site.wait_seen("and no more", |[(fleet, _), (gateway, _)]| {
        assert!(gateway <= 1, "{gateway} at the route");
        fleet + gateway >= MAX - 1
    });
}

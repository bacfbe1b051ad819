//! The numbers of a gateway, from its requests to the control plane's views and `portcullis top`.

use std::process::Command;
use std::time::Instant;

use portcullis_e2e::{AgentSite, Manifest, allow_all};
use portcullis_harness::client::{ClientPool, LoadProfile, OpenLoopLoad, Protocol, plain};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::{deps, wait};
use portcullis_stub_apiserver::{Action, Fault, StubServer};
use serde_json::{Value, json};

use super::fixture::{AgentFixture, SOON};
use crate::fixture::{NAME, PODS};

/// Answered with 500 by both servers.
const BROKEN: &str = "/api/v1/namespaces/default/configmaps";
/// Refused by the gateway.
const LIMITED: &str = "/api/v1/namespaces/default/secrets";
/// Of ten requests one fails and one is refused.
const MIX: [&str; 10] = [PODS, PODS, PODS, PODS, BROKEN, PODS, PODS, PODS, PODS, LIMITED];
const PER_SECOND: f64 = 40.0;

/// Two servers, and a policy whose limit refuses every request.
fn manifest(fixture: &AgentFixture, other: &StubServer) -> Manifest {
    let of = |resource: &str| json!({"verbs": ["*"], "apiGroups": [""], "resources": [resource]});
    let servers =
        [fixture.stub.address(), other.address()].map(|server| json!({"endpoint": format!("https://{server}")}));
    fixture
        .manifest()
        .set("/spec/servers", json!(servers))
        .set("/spec/portcullis", json!({"healthCheck": {"interval": "1s", "timeout": "1s"}}))
        .set("/spec/flowControl", json!({"flowControlSchemas": [{"name": "none", "maxRequestsInflight": {"max": 0}}]}))
        .policies(json!([
            {"rules": [of("secrets")], "flowControlSchemaName": "none"},
            {"rules": [allow_all()]},
        ]))
}

/// Requests through a gateway that reports to control planes over the same manifests.
struct LoadedGateway {
    // Ended before the servers.
    load: OpenLoopLoad,
    _pool: ClientPool,
    site: AgentSite,
    other: Option<StubServer>,
    other_address: String,
    fixture: AgentFixture,
}

impl LoadedGateway {
    fn start(test: &str, planes: usize) -> Self {
        let fixture = AgentFixture::new(test);
        let other = fixture.pki.stub("stub-1");
        let failing = Action::Respond { status: 500, headers: Vec::new(), body: String::new() };
        [&fixture.stub, &other].into_iter().for_each(|stub| stub.fault(Fault::new(BROKEN, failing.clone())));
        let site = fixture.site_of("envoy-0", &manifest(&fixture, &other)).replicas(planes).start().unwrap();
        let lane = LoadProfile::new("alice", &fixture.target(site.address), Protocol::Http2);
        let pool = ClientPool::new(1).unwrap();
        let load = pool.steady(&[lane], &MIX, PER_SECOND).unwrap();
        let other_address = other.address().to_string();
        LoadedGateway { load, _pool: pool, site, other: Some(other), other_address, fixture }
    }

    fn top(&self, more: &[&str]) -> String {
        let address = self.site.plane().http_address().to_string();
        let mut command = Command::new(deps::portcullis().unwrap());
        let output = command.args(["top", "--address", &address]).args(more).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

fn page(plane: &ControlPlane, path: &str) -> Option<Value> {
    plain::get(plane.http_address(), path).ok()?.json().ok()
}

fn summary(plane: &ControlPlane) -> Option<Value> {
    let clusters = page(plane, "/ui/api/fleet")?["clusters"].take();
    clusters.as_array()?.iter().find(|one| one["name"] == NAME).cloned()
}

fn cluster(plane: &ControlPlane) -> Option<Value> {
    page(plane, &format!("/ui/api/clusters/{NAME}"))
}

fn number(view: &Value, pointer: &str) -> f64 {
    view.pointer(pointer).and_then(Value::as_f64).unwrap_or_default()
}

/// Whether the cluster's numbers are those of the mix: how fast the requests come is the machine's affair.
fn is_mix(summary: &Value) -> bool {
    let requests = number(summary, "/numbers/requestsPerSecond");
    let part = |name: &str| number(summary, &format!("/numbers/{name}PerSecond")) / requests;
    let is_tenth = |part: f64| (0.05..0.15).contains(&part);
    (PER_SECOND / 3.0..PER_SECOND * 1.5).contains(&requests) && is_tenth(part("errors")) && is_tenth(part("refusals"))
}

fn wait_for_mix(plane: &ControlPlane) -> Value {
    wait::until_ok("the numbers are those of the requests", SOON * 2, || {
        let summary = summary(plane).unwrap_or_default();
        if is_mix(&summary) { Ok(summary) } else { Err(format!("{summary:#}")) }
    })
    .unwrap()
}

#[test]
fn fleet_shows_the_requests_and_names_a_server_that_died() {
    let mut loaded = LoadedGateway::start("agent-fleet", 1);
    let begin = Instant::now();
    let summary = wait_for_mix(loaded.site.plane());
    eprintln!("numbers after {:.1} s: {}", begin.elapsed().as_secs_f64(), summary["numbers"]);
    assert_eq!((summary["severity"].as_str(), &summary["servers"]), (Some("Warning"), &json!(2)), "{summary:#}");
    assert!(summary["message"].as_str().unwrap().contains("5xx"), "{summary:#}");
    let view = wait::until("a point of history", SOON, || {
        cluster(loaded.site.plane()).filter(|view| view["history"].as_array().is_some_and(|history| history.len() > 2))
    });
    let view = view.unwrap();

    // Servers share the requests; what the gateway refuses is answered by none of them.
    let servers = view["servers"].as_array().unwrap();
    let of = |name: &str| servers.iter().find(|one| one["server"] == name).unwrap_or_else(|| panic!("{servers:#?}"));
    for server in [&loaded.fixture.stub.address().to_string(), &loaded.other_address] {
        let share = number(of(server), "/share");
        assert!((0.35..0.65).contains(&share), "{server}: {share}");
        assert!(number(of(server), "/numbers/errorsPerSecond") > 0.0, "{servers:#?}");
    }
    let total: f64 = servers.iter().map(|one| number(one, "/numbers/requestsPerSecond")).sum();
    assert!((total - number(&view, "/summary/numbers/requestsPerSecond")).abs() < 1e-6, "{view:#}");
    let policies = view["policies"].as_array().unwrap();
    assert_eq!((policies[0]["policy"].as_str(), policies[0]["rule"].as_str()), (Some("0"), Some("* secrets")));
    assert_eq!(number(&policies[0], "/forwardedPerSecond"), 0.0);
    assert_eq!(policies[0]["refusedPerSecond"][0][0], "flow_control");
    assert!(number(&policies[1], "/forwardedPerSecond") > 0.0);
    let limit = &view["limits"][0];
    assert_eq!((&limit["schema"], &limit["byGateway"][0]["limit"]), (&json!("none"), &json!(0)), "{limit:#}");
    assert!(number(limit, "/refusedPerSecond") > 0.0);
    let usages: Vec<_> = view["certificates"].as_array().unwrap().iter().map(|one| one["usage"].clone()).collect();
    assert_eq!(usages, ["serving", "client", "clientCA", "upstreamCA"]);
    let gateway = &page(loaded.site.plane(), "/ui/api/fleet").unwrap()["gateways"][0];
    assert!(gateway["connected"] == true && number(gateway, "/numbers/requestsPerSecond") > 0.0, "{gateway:#}");

    let table = loaded.top(&["--once"]);
    assert!(table.contains("REQUESTS/S") && table.contains(NAME) && table.contains("Warning"), "{table}");
    let detail = loaded.top(&["-c", NAME]);
    for words in [loaded.other_address.as_str(), "* secrets", "flow_control", "serving"] {
        assert!(detail.contains(words), "{words}: {detail}");
    }
    let json: Value = serde_json::from_str(&loaded.top(&["-o", "json"])).unwrap();
    assert_eq!(json["instance"], "e2e");

    drop(loaded.other.take());
    let killed = Instant::now();
    let named = || {
        let view = cluster(loaded.site.plane())?;
        let dead =
            view["servers"].as_array()?.iter().find(|one| one["server"] == loaded.other_address.as_str())?.clone();
        let is_named = dead["unhealthy"][0]["node"] == "envoy-0" && view["summary"]["healthyServers"] == 1;
        (is_named && view["summary"]["severity"] != "Good").then_some(view)
    };
    let view = wait::until("the dead server is named", SOON, named).unwrap();
    eprintln!("a dead server was named after {:.1} s, {}", killed.elapsed().as_secs_f64(), view["summary"]["severity"]);
    let changed = || {
        let view = cluster(loaded.site.plane())?;
        view["transitions"].as_array()?.iter().any(|one| one["reason"] == "SomeUnhealthy").then_some(())
    };
    wait::until("the change is remembered", SOON, changed).unwrap();

    loaded.site.planes[0].restart().unwrap();
    let restarted = Instant::now();
    wait_for_mix(loaded.site.plane());
    eprintln!("numbers were back {:.1} s after a restart", restarted.elapsed().as_secs_f64());
    loaded.load.stop().unwrap();
}

#[test]
fn every_replica_has_the_numbers_of_the_gateway() {
    let loaded = LoadedGateway::start("agent-fleet-replicas", 2);
    for plane in &loaded.site.planes {
        wait_for_mix(plane);
    }
    let numbers = || -> Option<Vec<Value>> {
        loaded.site.planes.iter().map(|plane| Some(summary(plane)?["numbers"].take())).collect()
    };
    let agree = || {
        let numbers = numbers()?;
        let [one, other] = [0, 1].map(|plane| number(&numbers[plane], "/requestsPerSecond"));
        (one > 0.0 && (one - other).abs() < one / 5.0).then_some(numbers)
    };
    let numbers = wait::until("both replicas agree", SOON * 2, agree).unwrap();
    eprintln!("{} and {}", numbers[0], numbers[1]);
    let connected = loaded.site.planes.iter().filter_map(|plane| {
        let gateways = page(plane, "/ui/api/fleet")?["gateways"].take();
        Some(gateways.as_array()?.len() == 1 && gateways[0]["connected"] == true)
    });
    assert_eq!(connected.collect::<Vec<_>>(), [true, true], "Envoy follows one of them, and reports to both");
    loaded.load.stop().unwrap();
}

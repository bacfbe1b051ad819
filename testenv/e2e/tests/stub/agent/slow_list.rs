//! A list that a fault makes two seconds slow is in its cell of every surface, and in no other one: the dashboard's queries, the
//! console, `portcullis top` and the log. Metrics have a test of their own (`responses.rs`).

use std::process::Command;
use std::time::{Duration, Instant};

use portcullis_e2e::{AgentSite, Manifest, allow_all};
use portcullis_harness::certs::CertSpec;
use portcullis_harness::client::{H2Client, plain};
use portcullis_harness::prometheus::{Prometheus, Sample, Scraped};
use portcullis_harness::{deps, wait, write_private};
use portcullis_stub_apiserver::{Action, Fault, StubServer};
use serde_json::{Value, json};

use super::fixture::{AgentFixture, SOON};
use crate::dashboard::{filled_in, queries};
use crate::fixture::{NAME, PODS};

/// A cluster beside it, with the first of its two servers.
const CALM: &str = "calm.example.com";
const SECRET: &str = "/api/v1/namespaces/default/secrets/s";
const SERVICES: &str = "/api/v1/namespaces/default/services";
/// A request that takes longer is slow because of the machine, unless the fault made it so.
const QUICK: Duration = Duration::from_millis(800);
const ROUNDS: usize = 6;

/// Whether a quantile is in the slow bucket.
fn is_slow(seconds: f64) -> bool {
    (2.0..=5.0).contains(&seconds)
}

struct SlowServerFixture {
    alice: H2Client,
    calm: H2Client,
    prometheus: Prometheus,
    site: AgentSite,
    slow: StubServer,
    agents: AgentFixture,
    /// The longest time of a request that no fault holds up.
    longest: Duration,
}

impl SlowServerFixture {
    fn start(test: &str) -> Self {
        let agents = AgentFixture::new(test);
        let slow = agents.pki.stub("stub-1");
        let site = agents.site("envoy-0").start().unwrap();
        let servers = [agents.stub.address(), slow.address()];
        let servers: Vec<_> = servers.iter().map(|one| json!({"endpoint": format!("https://{one}")})).collect();
        let folder = site.manifests.clone();
        let write = |file: &str, manifest: Manifest| {
            let manifest = manifest.policies(json!([{"rules": [allow_all()], "logMode": "off"}]));
            let manifest = manifest.set("/spec/portcullis", json!({"logging": {"slow": "1500ms"}}));
            write_private(&folder.join(file), manifest.to_text().as_bytes()).unwrap();
        };
        write("cluster.yaml", agents.manifest().set("/spec/servers", json!(servers)));
        write("calm.yaml", calm(&agents));
        let page = Scraped {
            job: "portcullis-gateway",
            pod: "gateway-0",
            address: site.agent.http_address(),
            path: "/metrics",
        };
        let prometheus = Prometheus::start(&agents.run, "portcullis", &[page]).unwrap();
        let connect = |name: &str| {
            let connected = || H2Client::connect(&agents.target(site.address).sni(name)).ok();
            wait::until("the cluster is served", SOON, connected).unwrap().authority(name)
        };
        let (alice, calm) = (connect(NAME), connect(CALM));
        let fixture = SlowServerFixture { alice, calm, prometheus, site, slow, agents, longest: Duration::ZERO };
        // Both servers are in use.
        wait::until("the second server answers", SOON, || {
            fixture.alice.get(SECRET, &[]).unwrap();
            (!fixture.slow.records_for(SECRET).is_empty()).then_some(())
        })
        .unwrap();
        fixture
    }

    fn get(&mut self, path: &str) {
        let since = Instant::now();
        assert!(self.alice.get(path, &[]).unwrap().status < 500, "{path}");
        self.longest = self.longest.max(since.elapsed());
    }

    /// Requests that are quick, on both servers and at both clusters.
    fn quick_requests(&mut self) {
        for path in [SECRET, SERVICES, "/api/v1/pods", PODS] {
            (0..ROUNDS).for_each(|_| self.get(path));
            assert!(self.calm.get(path, &[]).unwrap().status < 500, "{path}");
        }
    }

    /// Lists until the fault has held one up.
    fn slow_list(&self) {
        self.slow.fault(Fault::new(PODS, Action::Delay { millis: 2_000 }).times(1));
        let before = self.slow.records_for(PODS).len();
        while self.slow.records_for(PODS).len() == before {
            assert!(self.alice.get(PODS, &[]).unwrap().status < 500);
        }
    }

    fn counted(&self) -> f64 {
        let found = self.prometheus.query("sum(envoy_portcullis_apiserver_request_total)").unwrap();
        found.first().map_or(0.0, |(_, value)| *value)
    }

    /// Waits until Prometheus has counted everything that was sent.
    fn settle(&self, expected: f64) {
        let equal = || if self.counted() == expected { Ok(()) } else { Err(self.counted()) };
        wait::until_ok("Prometheus has the counts", SOON, equal).unwrap();
    }

    fn console(&self, path: &str) -> Value {
        plain::get(self.site.plane().http_address(), path).unwrap().json().unwrap()
    }

    fn sent(&self) -> f64 {
        let all = [&self.agents.stub, &self.slow].map(|stub| {
            [SECRET, SERVICES, "/api/v1/pods", PODS].map(|path| stub.records_for(path).len()).iter().sum::<usize>()
        });
        all.iter().sum::<usize>() as f64
    }
}

fn calm(agents: &AgentFixture) -> Manifest {
    let serving = agents.serving_ca.issue(&CertSpec::server(CALM, [CALM])).unwrap();
    Manifest::new(CALM, [agents.stub.address()])
        .upstream(&agents.pki.gateway, &agents.pki.server_ca, "kubernetes")
        .serving(&serving, &agents.pki.client_ca)
}

#[test]
fn slow_list_is_in_its_cell_of_every_surface() {
    let name = "agent-slow-list";
    if deps::or_skip(name, deps::prometheus()).unwrap().is_none() {
        return;
    }
    wait::retry_if_slow("only the list is slow", || slow_list(name)).unwrap();
}

/// Nothing if another request was slow, too.
fn slow_list(name: &str) -> Option<()> {
    let mut fixture = SlowServerFixture::start(name);
    // Growth counts from a series' first sample and a gateway's first report on.
    fixture.quick_requests();
    fixture.settle(fixture.sent());
    wait::until("the console has a report with the requests", SOON, || {
        let fleet = fixture.console("/ui/api/fleet");
        fleet["gateways"][0]["reportedSecondsAgo"].is_number().then_some(())
    })
    .unwrap();
    fixture.slow_list();
    fixture.quick_requests();
    fixture.settle(fixture.sent());
    if fixture.longest > QUICK {
        return None;
    }
    let slow = fixture.slow.address().to_string();
    on_the_dashboard(&fixture.prometheus, &slow);
    on_the_console(&fixture, &slow);
    in_the_log(&fixture, &slow);
    Some(())
}

/// The panels that show durations by a label: the slow cell, and every other one quick.
fn on_the_dashboard(prometheus: &Prometheus, server: &str) {
    for (title, legend, cell) in [
        ("Slowest servers", "{{cluster}} {{server}}", &[("cluster", NAME), ("server", server)][..]),
        ("99th percentile by cluster", "{{cluster}}", &[("cluster", NAME)]),
        ("99th percentile by verb", "{{verb}}", &[("verb", "LIST")]),
        (
            "Slowest resources",
            "{{verb}} {{resource}} {{scope}}",
            &[("verb", "LIST"), ("resource", "pods"), ("scope", "namespace")],
        ),
        ("99th percentile of each part", "whole", &[]),
        ("99th percentile of each part", "servers", &[]),
    ] {
        let (_, _, expression) = queries().into_iter().find(|(one, two, _)| one == title && two == legend).unwrap();
        let found = prometheus.query(&filled_in(&expression)).unwrap();
        let is_cell =
            |(labels, _): &Sample| cell.iter().all(|(name, value)| labels.get(*name).is_some_and(|own| own == value));
        let (own, others): (Vec<_>, Vec<_>) = found.iter().partition(|one| is_cell(one));
        assert!(matches!(&own[..], [(_, value)] if is_slow(*value)), "{title}: {found:?}");
        assert!(others.iter().all(|(_, value)| value.is_nan() || *value < 1.0), "{title}: {found:?}");
    }
}

fn on_the_console(fixture: &SlowServerFixture, server: &str) {
    let p99 = |one: &Value| one["numbers"]["p99"].as_f64().map(|milliseconds| milliseconds / 1_000.0);
    let named = |all: &Value, key: &str, name: &str| all.as_array()?.iter().find(|one| one[key] == name).cloned();
    let path = format!("/ui/api/clusters/{NAME}");
    let view = wait::until_ok("the console has the slow list", SOON, || {
        let view = fixture.console(&path);
        let own = named(&view["servers"], "server", server);
        if own.as_ref().and_then(p99).is_some_and(is_slow) { Ok(view) } else { Err(format!("{view:#}")) }
    })
    .unwrap();
    for one in view["servers"].as_array().unwrap().iter().filter(|one| one["server"] != server) {
        assert!(p99(one).is_none_or(|seconds| seconds < 1.0), "{view:#}");
    }
    let clusters = fixture.console("/ui/api/fleet")["clusters"].take();
    assert!(named(&clusters, "name", NAME).as_ref().and_then(p99).is_some_and(is_slow), "{clusters:#}");
    assert!(named(&clusters, "name", CALM).as_ref().and_then(p99).is_none_or(|seconds| seconds < 1.0), "{clusters:#}");

    // The page itself, by its rows; `p99` is the cell after `p50`.
    let html = plain::get(fixture.site.plane().http_address(), &format!("/ui/clusters/{NAME}")).unwrap().text();
    let seconds = |row: &&str| row.contains(" s</td>");
    let servers = html.split("<h2 id=\"servers\">").nth(1).unwrap().split("</table>").next().unwrap();
    let rows: Vec<&str> = servers.split("<tr>").filter(seconds).collect();
    assert!(matches!(&rows[..], [row] if row.contains(server)), "{servers}");

    let address = fixture.site.plane().http_address().to_string();
    let top = top(&["-c", NAME, "--address", &address]);
    let lines: Vec<&str> = top.lines().filter(|line| line.contains("127.0.0.1:")).collect();
    let slow: Vec<_> = lines.iter().filter(|line| line.split_whitespace().any(is_seconds)).collect();
    assert!(matches!(&slow[..], [line] if line.contains(server)), "{top}");
}

/// `2.5s`, and not `25ms`.
fn is_seconds(word: &str) -> bool {
    word.strip_suffix('s').is_some_and(|number| number.parse::<f64>().is_ok_and(|seconds| seconds >= 1.0))
}

fn top(arguments: &[&str]) -> String {
    let output = Command::new(deps::portcullis().unwrap()).arg("top").args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// No request is logged but the slow one.
fn in_the_log(fixture: &SlowServerFixture, server: &str) {
    let line = wait::until("the line is written", SOON, || {
        let text = fixture.site.agent.process().stdout();
        let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let lines: Vec<Value> = lines.into_iter().filter(|line| line.get("conspicuous").is_some()).collect();
        if lines.is_empty() { None } else { Some(lines) }
    });
    let lines = line.unwrap();
    let [line] = &lines[..] else { panic!("{lines:#?}") };
    for (name, value) in [
        ("conspicuous", "slow"),
        ("cluster", NAME),
        ("verb", "list"),
        ("path", PODS),
        ("endpoint", server),
        ("longestPhase", "server"),
    ] {
        assert_eq!(line[name], value, "{line}");
    }
}

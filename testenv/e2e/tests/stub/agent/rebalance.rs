//! Two gateways behind a load balancer of layer 4, one of which restarts: its clients stay on the other one, until that lets
//! connections go.

use std::fmt;
use std::time::{Duration, Instant};

use portcullis_e2e::{AgentSite, MetricsPage};
use portcullis_harness::balancer::{Backend, Balancer};
use portcullis_harness::client::{ClientPool, H2Client, LoadProfile, OpenLoopLoad, Outcome, Protocol};
use portcullis_harness::process::Signal;
use portcullis_harness::{wait, write_private};
use serde_json::{Value, json};

use super::fixture::{AgentFixture, SOON};
use crate::fixture::PODS;
use crate::pods::create_pod;

const CLIENTS: usize = 50;
const PER_SECOND: f64 = 500.0;
/// The bound of each gateway.
const CONNECTIONS_PER_SECOND: u64 = 20;
/// The time in which the shares have to be even, and how even.
const EVEN_WITHIN: Duration = Duration::from_secs(60);
const EVEN: f64 = 1.2;
const SAMPLE: Duration = Duration::from_secs(1);
/// Samples that the shares are measured over.
const RECENT: usize = 3;

/// The counts of both gateways since the start of each.
#[derive(Clone, Copy, Default)]
struct Counts {
    requests: [u64; 2],
    handshakes: [u64; 2],
}

/// The counts of both gateways, second by second.
struct Samples<'a> {
    sites: &'a [AgentSite; 2],
    counts: Vec<(Instant, Counts)>,
}

fn counts(sites: &[AgentSite; 2]) -> Counts {
    let sum = |site: &AgentSite, pattern: &str| {
        let stats = site.agent.admin().stats(pattern).unwrap();
        stats.iter().map(|(_, count)| count).sum()
    };
    Counts {
        requests: sites.each_ref().map(|site| sum(site, r"^http\.prod_example_com\.downstream_rq_total$")),
        handshakes: sites.each_ref().map(|site| sum(site, r"^listener\.e2e\.ssl\.handshake$")),
    }
}

impl<'a> Samples<'a> {
    fn start(sites: &'a [AgentSite; 2]) -> Self {
        Samples { sites, counts: vec![(Instant::now(), counts(sites))] }
    }

    /// Takes a sample when it is time.
    fn take(&mut self) -> Option<()> {
        (self.counts.last()?.0.elapsed() >= SAMPLE).then(|| self.counts.push((Instant::now(), counts(self.sites))))
    }

    fn last(&self) -> Counts {
        self.counts.last().unwrap().1
    }

    /// The busier gateway's requests over the other one's in the last samples; infinite before there are so many.
    fn imbalance(&self) -> f64 {
        let Some((_, before)) = self.counts.iter().rev().nth(RECENT) else { return f64::INFINITY };
        let [one, other] = [0, 1].map(|index| (self.last().requests[index] - before.requests[index]) as f64);
        one.max(other) / one.min(other)
    }

    /// Handshakes of both gateways, and the most in a second.
    fn handshakes(&self) -> (u64, f64) {
        let both = |counts: Counts| counts.handshakes.iter().sum::<u64>();
        let rates = self
            .counts
            .windows(2)
            .map(|pair| (both(pair[1].1) - both(pair[0].1)) as f64 / pair[1].0.duration_since(pair[0].0).as_secs_f64());
        (both(self.last()) - both(self.counts[0].1), rates.fold(0.0, f64::max))
    }
}

/// The requests of each gateway by sample.
impl fmt::Display for Samples<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for pair in self.counts.windows(2) {
            let [one, other] = [0, 1].map(|index| pair[1].1.requests[index] - pair[0].1.requests[index]);
            write!(f, "{one}:{other} ")?;
        }
        let (all, most) = self.handshakes();
        write!(f, "requests by second; {all} handshakes, {most:.1} a second at most")
    }
}

fn stop(site: &mut AgentSite) {
    site.agent.process().signal(Signal::Term).unwrap();
    assert_eq!(site.agent.process().wait_exit(SOON * 4).unwrap().code(), Some(0));
}

/// Changes the settings of a site.
fn rebalance(fixture: &AgentFixture, name: &str, site: &AgentSite, rebalance: &Value) {
    let path = fixture.run.path().join(format!("{name}-manifests/settings.yaml"));
    let mut object: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    object["spec"]["rebalance"] = rebalance.clone();
    let before = site.plane().status().unwrap()["snapshot"].clone();
    write_private(&path, format!("{object:#}").as_bytes()).unwrap();
    let has_it = |status: &Value| status["nodes"][0]["inSync"] == true && status["snapshot"] != before;
    site.plane().wait_status("the change is acknowledged", SOON, has_it).unwrap();
}

fn at_least(load: &OpenLoopLoad, good: u64) -> Outcome {
    let mut outcome = Outcome::default();
    wait::until("so many requests are answered", SOON, || {
        outcome = std::mem::take(&mut outcome).and(load.take());
        (outcome.good() >= good).then_some(())
    })
    .unwrap();
    outcome
}

#[test]
fn clients_spread_over_gateways_again_after_a_restart() {
    let fixture = AgentFixture::new("agent-rebalance");
    let names = ["envoy-0", "envoy-1"];
    let mut sites = names.map(|name| fixture.site(name).start().unwrap());
    let backends = sites.iter().map(|site| Backend { address: site.address, readiness: site.agent.http_address() });
    let balancer = Balancer::start(backends.collect(), Duration::from_millis(200)).unwrap();
    let are_ready = |count| wait::until("gateways are ready", SOON, || (balancer.ready().len() == count).then_some(()));
    are_ready(2).unwrap();

    stop(&mut sites[1]);
    are_ready(1).unwrap();
    let target = fixture.target(balancer.address());
    let lanes = (0..CLIENTS).map(|number| (LoadProfile::new(format!("client-{number}"), &target, Protocol::Http2), 1));
    let pool = ClientPool::new(2).unwrap();
    let watches = pool.watches(&lanes.collect::<Vec<_>>(), &format!("{PODS}?watch=true")).unwrap();
    let load = watches.steady(&[PODS], PER_SECOND).unwrap();
    let mut outcome = at_least(&load, 100);
    sites[1].agent.start_again().unwrap();
    sites[1].agent.wait_ready(SOON).unwrap();
    are_ready(2).unwrap();

    let mut without = Samples::start(&sites);
    wait::until("some seconds are over", SOON, || {
        without.take();
        (without.counts.len() > RECENT).then_some(())
    })
    .unwrap();
    eprintln!("without rebalance {without}");
    assert_eq!(without.last().requests[1], 0, "the gateway that restarted has no client");
    assert_eq!(without.handshakes().0, 0);
    let (since, busy) = (without.counts[0].0.elapsed(), without.last().requests[0] - without.counts[0].1.requests[0]);
    let share = 0.54 * busy as f64 / since.as_secs_f64();

    let when = json!({"requestsPerSecond": share as u32});
    let setting = json!({"chance": 0.02, "connectionsPerSecond": CONNECTIONS_PER_SECOND, "when": when});
    let mut samples = Samples::start(&sites);
    for (name, site) in names.into_iter().zip(&sites) {
        rebalance(&fixture, name, site, &setting);
    }
    let changed = samples.counts[0].0;
    let even = wait::until("shares are even", EVEN_WITHIN, || {
        samples.take();
        (samples.imbalance() <= EVEN).then(|| changed.elapsed())
    });
    eprintln!("above {share:.0} requests a second {samples}");
    let even = even.unwrap();
    eprintln!("{:.2} in the last {RECENT} seconds, after {even:.1?}", samples.imbalance());
    let most = 2.0 * (CONNECTIONS_PER_SECOND as f64 * changed.elapsed().as_secs_f64() + 1.0);
    let (handshakes, _) = samples.handshakes();
    assert!((1..=most as u64).contains(&handshakes), "{handshakes} of {most:.0}");

    create_pod(&H2Client::connect(&fixture.target(sites[0].address)).unwrap(), "late").unwrap();
    wait::until("every watch shows it", SOON, || (watches.events().0 >= 1).then_some(())).unwrap();
    assert!(watches.ended().is_empty(), "{:?}", watches.ended());
    outcome = outcome.and(load.stop().unwrap());
    let drained = sites.each_ref().map(|site| {
        let page = site.agent.admin().get("/stats/prometheus").unwrap().text();
        MetricsPage::read(&page, "envoy_portcullis_")
            .sum("rebalanced_connections_total", &[("trigger", "requestsPerSecond")])
    });
    eprintln!("{outcome}; {} connections made; drained by gateway {drained:?}", outcome.connections);
    assert!(drained[0] > 0);
    assert_eq!(outcome.failed, 0, "{outcome}");
}

//! Two gateways behind a load balancer, restarted one after the other under load.

use std::time::{Duration, Instant};

use portcullis_harness::balancer::{Backend, Balancer};
use portcullis_harness::client::{Load, Protocol};
use portcullis_harness::process::Signal;
use portcullis_harness::wait;

use super::site::{Grounds, SOON, Site};
use crate::world::PODS;

/// What a rolling restart is given.
struct Plan {
    unready: u32,
    drain: u32,
    rounds: usize,
    watches: u32,
}

/// How often the load balancer asks for readiness.
const ASKS: Duration = Duration::from_millis(200);
/// 20 clients of each protocol, each with 12.5 requests a second: 500 in all.
const CLIENTS: u32 = 20;
const EVERY: Duration = Duration::from_millis(80);

fn roll(test: &str, plan: &Plan) {
    let grounds = Grounds::new(test);
    let mut sites = ["envoy-0", "envoy-1"].map(|name| {
        Site::start(&grounds, name, |options| {
            (options.unready_seconds, options.drain_seconds) = (plan.unready, plan.drain);
        })
    });
    let backends =
        sites.iter().map(|site| Backend { address: site.address, readiness: site.agent.http_address() }).collect();
    let balancer = Balancer::start(backends, ASKS).unwrap();
    wait::until("both are ready", SOON, || (balancer.ready().len() == 2).then_some(())).unwrap();
    let load = Load::new(&grounds.target(balancer.address())).unwrap();
    let watch = format!("{PODS}?watch=true");
    for protocol in [Protocol::Http1, Protocol::Http2] {
        load.requests(protocol, CLIENTS, PODS, EVERY);
        load.watches(protocol, plan.watches / 2, &watch);
    }
    wait::until("watches are open", SOON, || (grounds.stub.running() >= plan.watches as usize).then_some(())).unwrap();
    let started = Instant::now();
    let before = load.tally().answered;
    for _ in 0..plan.rounds {
        for site in &mut sites {
            restart(site, plan, &balancer, &load);
        }
    }
    let (tally, took) = (load.tally(), started.elapsed());
    drop(load);
    let rate = (tally.answered - before) as f64 / took.as_secs_f64();
    eprintln!(
        "{} answered, {rate:.0}/s over {took:?}; {} connections; {} watches ended",
        tally.answered,
        tally.connections,
        tally.ended.len()
    );
    assert_eq!(tally.failed, [""; 0]);
    assert!(tally.answered > 1_000, "{}", tally.answered);
    // Each watch is on one gateway, so that each round ends each once, or twice if it came to the second in the meantime.
    let ends = tally.ended.len();
    assert!(ends <= 2 * plan.rounds * plan.watches as usize, "{ends}");
}

fn restart(site: &mut Site, plan: &Plan, balancer: &Balancer, load: &Load) {
    let ended_before = load.tally().ended.len();
    let asked = Instant::now();
    site.agent.process().signal(Signal::Term).unwrap();
    assert_eq!(site.agent.process().wait_exit(SOON * 4).unwrap().code(), Some(0));
    // Watches of this gateway went on until it had to end.
    let end = asked + Duration::from_secs((plan.unready + plan.drain).into());
    for (at, how) in load.tally().ended.iter().skip(ended_before) {
        assert!(*at + Duration::from_millis(50) >= end, "{how}, {:?} too early", end - *at);
    }
    site.agent.start_again().unwrap();
    site.agent.wait_ready(SOON).unwrap();
    wait::until("both are ready", SOON, || (balancer.ready().len() == 2).then_some(())).unwrap();
}

#[test]
fn a_rolling_restart_fails_no_request() {
    roll("agent-rolling", &Plan { unready: 1, drain: 7, rounds: 1, watches: 20 });
}

#[test]
#[ignore = "restarts with the default times, for minutes"]
fn rolling_restarts_with_the_default_times_fail_no_request() {
    roll("agent-rolling-long", &Plan { unready: 5, drain: 20, rounds: 2, watches: 200 });
}

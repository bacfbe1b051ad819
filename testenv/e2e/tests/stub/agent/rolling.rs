//! Two gateways behind a load balancer, restarted one after the other under load.

use std::time::{Duration, Instant};

use portcullis_e2e::AgentSite;
use portcullis_harness::balancer::{Backend, Balancer};
use portcullis_harness::client::{ClientPool, LoadProfile, OpenLoopLoad, Outcome, Protocol, TlsTarget, Watchers};
use portcullis_harness::process::Signal;
use portcullis_harness::wait;

use super::fixture::{AgentFixture, SOON};
use crate::fixture::PODS;

/// The parameters of a rolling restart.
struct Plan {
    unready: u32,
    drain: u32,
    rounds: usize,
    watches: u32,
}

/// How often the load balancer asks for readiness.
const ASKS: Duration = Duration::from_millis(200);
/// Clients of each protocol.
const CLIENTS: u32 = 20;
const PER_SECOND: f64 = 500.0;
/// The least number of good responses while a gateway ends: one second of the load, of several.
const MEANWHILE: u64 = 500;

pub(super) fn lanes(target: &TlsTarget, each: u32) -> Vec<LoadProfile> {
    let both = [("http1", Protocol::Http1), ("http2", Protocol::Http2)];
    let lane = |(name, protocol), number| LoadProfile::new(format!("{name}-{number}"), target, protocol);
    both.into_iter().flat_map(|one| (0..each).map(move |number| lane(one, number))).collect()
}

fn roll(test: &str, plan: &Plan) {
    let fixture = AgentFixture::new(test);
    let mut sites = ["envoy-0", "envoy-1"].map(|name| {
        fixture
            .site(name)
            .agent(|options| {
                (options.shutdown_delay_seconds, options.drain_timeout_seconds) = (plan.unready, plan.drain);
            })
            .start()
            .unwrap()
    });
    let backends =
        sites.iter().map(|site| Backend { address: site.address, readiness: site.agent.http_address() }).collect();
    let balancer = Balancer::start(backends, ASKS).unwrap();
    wait::until("both are ready", SOON, || (balancer.ready().len() == 2).then_some(())).unwrap();
    let target = fixture.target(balancer.address());
    let crowd = ClientPool::new(2).unwrap();
    let followers = crowd.follow(&lanes(&target, plan.watches / 2), &format!("{PODS}?watch=true")).unwrap();
    wait::until("watches are open", SOON, || (fixture.stub.running() >= plan.watches as usize).then_some(())).unwrap();
    let load = crowd.steady(&lanes(&target, CLIENTS), &[PODS], PER_SECOND).unwrap();
    let (mut outcome, mut restarts) = (Outcome::default(), 0);
    for _ in 0..plan.rounds {
        for site in &mut sites {
            let under_load = || {
                outcome = std::mem::take(&mut outcome).and(load.take());
                let during = restart(site, plan, &balancer, &followers, &load);
                let answered = during.good();
                outcome = std::mem::take(&mut outcome).and(during);
                restarts += 1;
                (answered >= MEANWHILE).then_some(())
            };
            wait::retry_if_slow("so many are answered while a gateway ends", under_load).unwrap();
        }
    }
    let outcome = outcome.and(load.stop().unwrap());
    let ends = followers.ends().len();
    eprintln!("{outcome}; {} connections; {ends} watches ended", outcome.connections);
    assert_eq!(outcome.failed, 0, "{outcome}");
    // Each watch is on one gateway, so that each restart ends each once at most.
    assert!(ends <= restarts * plan.watches as usize, "{ends}");
}

/// Gives what was answered between the signal and the end.
fn restart(
    site: &mut AgentSite,
    plan: &Plan,
    balancer: &Balancer,
    followers: &Watchers,
    load: &OpenLoopLoad,
) -> Outcome {
    let ended_before = followers.ends().len();
    let asked = Instant::now();
    site.agent.process().signal(Signal::Term).unwrap();
    assert_eq!(site.agent.process().wait_exit(SOON * 4).unwrap().code(), Some(0));
    let meanwhile = load.take();
    // Watches of this gateway went on until clients were sent away, and ended as if the apiserver had ended them.
    let sent_away = asked + Duration::from_secs(plan.unready.into());
    let ends = followers.ends();
    assert!(ends.len() > ended_before);
    for end in ends.iter().skip(ended_before) {
        assert_eq!(end.broken, None);
        assert!(end.at >= sent_away, "{:?} too early", sent_away - end.at);
    }
    site.agent.start_again().unwrap();
    site.agent.wait_ready(SOON).unwrap();
    wait::until("both are ready", SOON, || (balancer.ready().len() == 2).then_some(())).unwrap();
    meanwhile
}

#[test]
fn rolling_restart_fails_no_request() {
    roll("agent-rolling", &Plan { unready: 1, drain: 7, rounds: 1, watches: 20 });
}

#[test]
#[ignore = "restarts with the default times, for minutes"]
fn rolling_restarts_with_the_default_times_fail_no_request() {
    roll("agent-rolling-long", &Plan { unready: 5, drain: 20, rounds: 2, watches: 200 });
}

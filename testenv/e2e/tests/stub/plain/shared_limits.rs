//! Limits that Envoys without an agent share, by exchanges of their filter with a control plane that serves none of them: with the
//! module, and with portcullis.wasm on two workers.

use portcullis_harness::process::Signal;
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::json;

use super::limit_fleet::{Build, GATEWAYS, MAX, PlainFleet, QPS, SOON, in_flight, rate};
use crate::askers::ask;
use crate::fixture::PODS;

#[test]
fn rate_of_envoys_without_an_agent_is_that_of_the_limit() {
    rate_is_that_of_the_limit(Build::Module);
}

#[test]
fn rate_of_envoys_with_wasm_is_that_of_the_limit() {
    rate_is_that_of_the_limit(Build::Wasm);
}

fn rate_is_that_of_the_limit(build: Build) {
    let bucket = |qps: u64| json!({"tokenBucket": {"qps": qps, "burst": qps}});
    let mut fleet = PlainFleet::start(build, &rate("globalCount"), &bucket(1), &bucket(QPS));
    let clients = fleet.clients();
    let all: Vec<_> = clients.iter().collect();
    for (strategy, within) in [("globalCount", 3), ("globalAllocate", 10)] {
        fleet.change(&rate(strategy));
        for (what, asked) in [("all", &all[..]), ("one", &all[..1])] {
            let bounds = QPS * (100 - within) / 100..=QPS * (100 + within) / 100;
            let passed = ask(asked, 2, |rate| bounds.contains(&rate));
            eprintln!("{build:?}, {strategy}, {what}: {passed} of {QPS} requests a second");
        }
    }
}

#[test]
fn requests_of_envoys_without_an_agent_are_never_more() {
    requests_are_never_more(Build::Module);
}

#[test]
fn requests_of_envoys_with_wasm_are_never_more() {
    requests_are_never_more(Build::Wasm);
}

fn requests_are_never_more(build: Build) {
    let max = |max: usize| json!({"maxRequestsInflight": max});
    let mut fleet = PlainFleet::start(build, &in_flight("globalAllocate"), &max(1), &max(MAX));
    fleet.stub.fault(Fault::new(PODS, Action::Delay { millis: 50 }));
    let clients = fleet.clients();
    let all: Vec<_> = clients.iter().collect();
    for strategy in ["globalAllocate", "globalCount"] {
        fleet.change(&in_flight(strategy));
        // Gateways without requests keep one each, to begin with.
        for (what, asked, least) in [("all", &all[..], MAX), ("one", &all[..1], MAX - GATEWAYS + 1)] {
            let peak = fleet.shared_peak(asked, least);
            eprintln!("{build:?}, {strategy}, {what}: {peak} of {MAX} in flight");
        }
    }
    // Nothing is in use when the leases end, so that the local limits hold.
    wait::until("nothing runs", SOON, || (fleet.stub.running() == 0).then_some(())).unwrap();
    fleet.console.plane.process().signal(Signal::Kill).unwrap();
    fleet.console.plane.process().wait_exit(SOON).unwrap();
    fleet.wait_degraded(true);
    let peak = fleet.peak(&all, GATEWAYS);
    eprintln!("{build:?}, without a control plane: {peak} in flight");
    assert_eq!(peak, GATEWAYS);
    fleet.console.plane.restart().unwrap();
    fleet.wait_degraded(false);
    assert_eq!(fleet.shared_peak(&all, MAX), MAX);
    assert_eq!(fleet.console.rejections(&[]).unwrap(), 0);
}

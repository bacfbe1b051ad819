//! Limits of three gateways together, at one control plane: requests per second and requests in flight, as clients and the server count
//! them.

use std::cell::Cell;

use portcullis_harness::process::Signal;
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::Value;

use super::fixture::SOON;
use super::limit_fleet::{self, Fleet, GATEWAYS};
use crate::fixture::PODS;

/// Requests per second of all gateways.
const QPS: u64 = 60;
/// Requests in flight of all gateways.
const MAX: usize = 12;

fn rate(strategy: &str) -> Value {
    limit_fleet::rate(strategy, QPS, QPS)
}

fn in_flight(strategy: &str) -> Value {
    limit_fleet::in_flight(strategy, MAX)
}

/// Requests per second within so many parts of a hundred of the limit, spread over the gateways and at one of them.
fn holds(fleet: &Fleet, strategy: &str, within: u64) {
    let clients = fleet.clients();
    let all: Vec<_> = clients.iter().collect();
    for (what, asked) in [("all", &all[..]), ("one", &all[..1])] {
        let bounds = QPS * (100 - within) / 100..=QPS * (100 + within) / 100;
        let passed = fleet.ask(asked, 2, |rate| bounds.contains(&rate));
        eprintln!("{strategy}, {what}: {passed} of {QPS} requests a second");
    }
}

#[test]
fn rate_of_three_gateways_is_that_of_the_limit() {
    let fleet = Fleet::start("global-rate", &rate("globalCount"));
    holds(&fleet, "globalCount", 3);
    fleet.limit(&rate("globalAllocate"));
    holds(&fleet, "globalAllocate", 10);
}

#[test]
fn requests_in_flight_of_three_gateways_are_never_more() {
    let fleet = Fleet::start("global-in-flight", &in_flight("globalAllocate"));
    fleet.fixture.stub.fault(Fault::new(PODS, Action::Delay { millis: 50 }));
    let clients = fleet.clients();
    let all: Vec<_> = clients.iter().collect();
    for strategy in ["globalAllocate", "globalCount"] {
        if strategy != "globalAllocate" {
            fleet.limit(&in_flight(strategy));
        }
        // Gateways without requests keep one each, to begin with.
        for (what, asked, least) in [("all", &all[..], MAX), ("one", &all[..1], MAX - GATEWAYS + 1)] {
            // Those of the limit before have ended.
            wait::until("nothing runs", SOON, || (fleet.fixture.stub.running() == 0).then_some(())).unwrap();
            fleet.fixture.stub.take_peak();
            let passed = fleet.ask(asked, MAX + 2, |_| fleet.fixture.stub.peak() >= least);
            let peak = fleet.fixture.stub.take_peak();
            eprintln!("{strategy}, {what}: {peak} of {MAX} in flight, {passed} requests a second");
            assert!((least..=MAX).contains(&peak), "{strategy}, {what}: {peak} in flight");
        }
    }
}

#[test]
fn gateway_without_a_control_plane_keeps_what_it_had_in_use() {
    let mut fleet = Fleet::start("global-alone", &rate("globalAllocate"));
    let clients = fleet.clients();
    let all: Vec<_> = clients.iter().collect();
    let about = |low: u64, high: u64| move |rate| (QPS * low / 100..=QPS * high / 100).contains(&rate);
    let (is_killed, lost) = (Cell::new(false), about(70, 105));
    let passed = fleet.ask(&all, 2, |rate| {
        if !is_killed.get() && about(90, 105)(rate) {
            fleet.planes[0].process().signal(Signal::Kill).unwrap();
            fleet.planes[0].process().wait_exit(SOON).unwrap();
            is_killed.set(true);
        }
        let are_alone = (0..GATEWAYS).all(|number| fleet.is_degraded(number) == Some(true));
        // Each has what was in use when its lease ended, or its local limit.
        is_killed.get() && are_alone && lost(rate)
    });
    eprintln!("without a control plane: {passed} of {QPS} requests a second");
    fleet.planes[0].restart().unwrap();
    fleet.wait_for_parts();
    fleet.ask(&all, 2, about(90, 105));
}

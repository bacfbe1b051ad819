//! One of three gateways is cut off from the control plane, and comes back: all together stay within the limit and what the one that is
//! cut off had in use.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use portcullis_filter_config::limits::LEASE;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::Value;

use super::fixture::SOON;
use super::limit_fleet::{Fleet, GATEWAYS, in_flight, rate};
use super::socket_relay::SocketRelay;
use crate::askers::Asker;
use crate::fixture::PODS;

/// Requests in flight of all gateways.
const MAX: usize = 24;
/// Requests per second of all gateways.
const QPS: u64 = 120;

/// Three gateways, and the way of the first one to its control plane.
fn start(test: &str, limits: &Value) -> (Fleet, SocketRelay, RunDir) {
    let run = RunDir::new(&format!("{test}-relay")).unwrap();
    let mut relay = None;
    let fleet = Fleet::start_behind(
        test,
        limits,
        |site| site,
        |number, socket| match number {
            0 => relay.insert(SocketRelay::start(run.path().join("xds.sock"), socket)).path.clone(),
            _ => socket.to_owned(),
        },
    );
    (fleet, relay.unwrap(), run)
}

fn wait_degraded(fleet: &Fleet, is_degraded: bool) {
    let is_so = || (fleet.is_degraded(0) == Some(is_degraded)).then_some(());
    wait::until("the first gateway has lost its part, or has one again", SOON, is_so).unwrap();
}

fn passes(what: &str, span: Duration) {
    let since = Instant::now();
    wait::until(what, span * 2 + SOON, || (since.elapsed() >= span).then_some(())).unwrap();
}

#[test]
fn seats_of_a_gateway_that_is_cut_off_stay_within_the_slack() {
    let (fleet, relay, _run) = start("cut-seats", &in_flight("globalAllocate", MAX));
    let stub = &fleet.fixture.stub;
    stub.fault(Fault::new(PODS, Action::Delay { millis: 50 }));
    let clients = fleet.clients();
    let askers: Vec<_> = clients.iter().map(|client| Asker::new(client, MAX / 2 + 4)).collect();
    fleet.storm(&askers, |_| {
        let whole = || (stub.peak() == MAX).then_some(());
        wait::until("all of the limit is in use", SOON, whole).unwrap();
        passes("parts are even", LEASE);
        let before = fleet.part(0) as usize;
        stub.take_peak();
        relay.set_open(false);
        let cut = Instant::now();
        wait_degraded(&fleet, true);
        let lost = cut.elapsed();
        passes("the others have its part as well", LEASE);
        let in_use = before.max(fleet.part(0) as usize);
        let apart = stub.take_peak();
        relay.set_open(true);
        let healed = Instant::now();
        wait_degraded(&fleet, false);
        let answered = healed.elapsed();
        // From some moment on no more are in flight than may be.
        let mut joined = 0;
        let whole = wait::until("all together keep to the limit", SOON, || {
            let since = Instant::now();
            let peak = stub.take_peak();
            joined = joined.max(peak);
            passes("so many requests end", Duration::from_millis(500));
            (stub.peak() == MAX).then_some(since)
        });
        let whole = whole.unwrap() - healed;
        stub.take_peak();
        passes("they keep it", LEASE);
        let after = stub.take_peak();
        eprintln!(
            "the lease ended after {lost:.1?}; {apart} in flight of {MAX}, {in_use} of them in use at the gateway that is cut off; \
             after healing a part in {answered:.1?}, {joined} at most, and {after} again after {whole:.1?}"
        );
        assert!(apart > MAX - in_use + 1, "the others took nothing over: {apart}");
        assert!(apart <= MAX + in_use && joined <= MAX + in_use, "{apart} and {joined}, {in_use}");
        assert_eq!(after, MAX);
        assert!(whole < Duration::from_secs(5) * wait::deadline_factor(), "{whole:?}");
    });
}

#[test]
fn rate_of_a_gateway_that_is_cut_off_stays_within_the_slack() {
    let (fleet, relay, _run) = start("cut-rate", &rate("globalCount", QPS, QPS));
    let clients = fleet.clients();
    let askers: Vec<_> = clients.iter().map(|client| Asker::new(client, 4)).collect();
    fleet.storm(&askers, |good| {
        passes("the rate settles", LEASE * 2);
        let mut count = (Instant::now(), good.load(Ordering::Relaxed));
        let mut since = || {
            let now = (Instant::now(), good.load(Ordering::Relaxed));
            let (span, admitted) = (now.0 - count.0, now.1 - count.1);
            count = now;
            (span.as_secs_f64(), admitted)
        };
        since();
        relay.set_open(false);
        wait_degraded(&fleet, true);
        passes("the others have all of the rate", LEASE);
        let (span, apart) = since();
        relay.set_open(true);
        let healed = Instant::now();
        wait_degraded(&fleet, false);
        let answered = healed.elapsed();
        passes("the rate settles", LEASE);
        since();
        passes("the rate is measured", LEASE * 2);
        let (later, after) = since();
        let [slack, promised] = [QPS as f64 / GATEWAYS as f64, QPS as f64];
        eprintln!(
            "{apart} in {span:.1} s while one is cut off, {:.0} a second of {promised}; a part {answered:.1?} after healing, and then {:.0} a second",
            apart as f64 / span,
            after as f64 / later
        );
        // The gateway that is cut off goes on with a third, as far as that was in use.
        assert!((apart as f64) <= QPS as f64 + (promised + slack * 1.5) * span, "{apart} in {span} s");
        assert!(apart as f64 > promised * 0.8 * span, "{apart} in {span} s: a gateway without answers stood still");
        assert!((after as f64) <= QPS as f64 / 10.0 + promised * 1.03 * later, "{after} in {later} s");
        assert!(answered < Duration::from_secs(5) * wait::deadline_factor(), "{answered:?}");
    });
}

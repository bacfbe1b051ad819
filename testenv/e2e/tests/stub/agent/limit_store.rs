//! Limits of three real gateways whose two control planes keep them in a real Redis: a control plane is killed, and then the store.

use std::time::{Duration, Instant};

use portcullis_harness::process::Signal;
use portcullis_harness::redis::Redis;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, wait};
use portcullis_stub_apiserver::{Action, Fault};

use super::fixture::SOON;
use super::limit_fleet::{Fleet, GATEWAYS, in_flight};
use crate::askers::Asker;
use crate::fixture::PODS;
use crate::limits_store::sentinels::Site;

/// Requests in flight of all gateways.
const MAX: usize = 24;

/// The time until as many requests as the limit allows are in flight again.
fn wait_whole(fleet: &Fleet) -> Duration {
    let (stub, start) = (&fleet.fixture.stub, Instant::now());
    stub.take_peak();
    wait::until("all of the limit is in use", SOON, || (stub.peak() >= MAX).then_some(())).unwrap();
    start.elapsed()
}

/// The time in which all gateways have parts again after their store is back.
const BACK: Duration = Duration::from_secs(5);

/// Returns the time from the store's return until all gateways have parts; `None` without a Redis.
fn outlives_its_store(test: &str) -> Option<Duration> {
    deps::or_skip(test, deps::redis()).unwrap()?;
    let run = RunDir::new(&format!("{test}-redis")).unwrap();
    let mut redis = Redis::server(run.path(), "redis", Redis::free_address().unwrap(), &[]).unwrap();
    let flags = ["--limits-store".to_owned(), format!("redis://{}", redis.address())];
    let fleet = Fleet::start_at(test, &in_flight("globalAllocate", MAX), |site| site.replicas(2).plane_flags(flags));
    let stub = &fleet.fixture.stub;
    stub.fault(Fault::new(PODS, Action::Delay { millis: 50 }));
    let clients = fleet.clients();
    let askers: Vec<_> = clients.iter().map(|client| Asker::new(client, MAX / GATEWAYS + 4)).collect();
    let parts = fleet.storm(&askers, |_| {
        eprintln!("whole after {:.1?}", wait_whole(&fleet));
        fleet.planes[0].process().signal(Signal::Kill).unwrap();
        fleet.planes[0].process().wait_exit(SOON).unwrap();
        let killed = Instant::now();
        // Leases have ended, if the other control plane does not divide.
        wait::until("leases have ended", SOON, || (killed.elapsed() > Duration::from_secs(5)).then_some(())).unwrap();
        assert!((0..GATEWAYS).all(|number| fleet.is_degraded(number) == Some(false)), "the other one divides");
        let peak = stub.take_peak();
        assert_eq!(peak, MAX, "with one control plane");

        redis.process().kill();
        let are_alone = || (0..GATEWAYS).all(|number| fleet.is_degraded(number) == Some(true)).then_some(());
        wait::until("local limits hold", SOON, are_alone).unwrap();
        let alone = Instant::now();
        wait::until("they are used", SOON, || (alone.elapsed() > Duration::from_secs(1)).then_some(())).unwrap();
        let peak = stub.take_peak();
        eprintln!("{peak} of {MAX} in flight without a store");
        assert!(
            peak <= MAX + GATEWAYS,
            "{peak} in flight: each goes by what it had in use, or by its local limit of one"
        );
        redis.restart().unwrap();
        let back = Instant::now();
        fleet.wait_for_parts();
        let parts = back.elapsed();
        eprintln!("parts {parts:.1?} after the store is back, whole {:.1?} later", wait_whole(&fleet));
        stub.take_peak();
        let whole = Instant::now();
        wait::until("they keep it", SOON, || (whole.elapsed() > Duration::from_secs(5)).then_some(())).unwrap();
        assert_eq!(stub.take_peak(), MAX, "after the store is back");
        parts
    });
    Some(parts)
}

#[test]
fn stored_limit_outlives_a_control_plane_and_its_store() {
    outlives_its_store("limit-store");
}

#[test]
#[ignore = "compares times"]
fn stored_limit_is_divided_in_time_after_its_store_is_back() {
    for round in 0..5 {
        let parts = outlives_its_store(&format!("limit-store-{round}"));
        assert!(parts.is_none_or(|parts| parts < BACK), "{parts:?}");
    }
}

/// Sentinels choose another master behind three gateways, while their clients ask. Returns the time from the choice until all gateways
/// have parts; `None` without a Redis.
fn outlives_the_master(test: &str) -> Option<Duration> {
    deps::or_skip(test, deps::redis()).unwrap()?;
    let run = RunDir::new(&format!("{test}-redis")).unwrap();
    let site = Site::start(&run);
    let flags = ["--limits-store".to_owned(), site.address.clone()];
    let fleet = Fleet::start_at(test, &in_flight("globalAllocate", MAX), |at| at.replicas(2).plane_flags(flags));
    let stub = &fleet.fixture.stub;
    stub.fault(Fault::new(PODS, Action::Delay { millis: 50 }));
    let clients = fleet.clients();
    let askers: Vec<_> = clients.iter().map(|client| Asker::new(client, MAX / GATEWAYS + 4)).collect();
    let took = fleet.storm(&askers, |_| {
        wait_whole(&fleet);
        stub.take_peak();
        let hung = Instant::now();
        site.hang_until_another_is_chosen();
        let chosen = Instant::now();
        site.wait_named(1);
        let named = chosen.elapsed();
        let peak = stub.take_peak();
        fleet.wait_for_parts();
        let took = chosen.elapsed();
        stub.take_peak();
        wait_whole(&fleet);
        let whole = Instant::now();
        wait::until("they keep it", SOON, || (whole.elapsed() > Duration::from_secs(5)).then_some(())).unwrap();
        let after = stub.take_peak();
        eprintln!(
            "another master after {:.1?}, named {named:.1?} later, parts after {took:.1?}; {peak} of {MAX} in flight, then {after}",
            chosen - hung
        );
        assert!(peak <= MAX + GATEWAYS, "each goes by what it had in use: {peak}");
        assert_eq!(after, MAX);
        took
    });
    Some(took)
}

#[test]
fn stored_limit_outlives_the_master_of_its_store() {
    outlives_the_master("limit-failover");
}

#[test]
#[ignore = "compares times"]
fn stored_limit_is_divided_in_time_after_sentinels_chose() {
    for round in 0..5 {
        let parts = outlives_the_master(&format!("limit-failover-{round}"));
        assert!(parts.is_none_or(|parts| parts < BACK), "{parts:?}");
    }
}

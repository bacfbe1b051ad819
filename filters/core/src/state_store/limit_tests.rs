use std::time::Duration;

use portcullis_filter_config::limits::{LEASE, LimitPart, PartUse};
use portcullis_filter_config::{FlowControlSchema, GlobalLimit};
use serde_json::json;

use super::tests::Memory;
use super::{SharedState, StateStore};
use crate::flow_limit::FlowLimit;
use crate::limit::InFlightPermit;

const BUSY: &str = "cluster";

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn part(quota: u32, burst: u32, tokens: u32) -> Option<LimitPart> {
    Some(LimitPart { quota, burst, tokens })
}

fn schema(name: &str, local: &serde_json::Value, global: &serde_json::Value) -> FlowControlSchema {
    let global = json!({"limit": global, "strategy": "Allocate"});
    let schema = json!({"name": name, "limit": local, "global": global});
    serde_json::from_value(schema).unwrap()
}

fn seats(local: u32) -> FlowControlSchema {
    schema("few", &json!({"maxRequestsInflight": local}), &json!({"maxRequestsInflight": 100}))
}

fn bucket(qps: u32) -> serde_json::Value {
    json!({"tokenBucket": {"qps": qps, "burst": qps}})
}

fn rate(local: u32) -> FlowControlSchema {
    schema("rate", &bucket(local), &bucket(100))
}

/// A worker that shares limits.
fn worker(host: &Memory) -> SharedState<Memory> {
    let state = SharedState::open(host).unwrap();
    assert!(state.begin_exchanges() && !state.begin_exchanges());
    state
}

/// The uptime at which the lease by a report that was written then has ended.
fn end_of(written: f64) -> f64 {
    written + LEASE.as_secs_f64()
}

/// Permits or tokens that there are at that uptime.
fn taken(limit: &FlowLimit, at: f64) -> Vec<Option<InFlightPermit>> {
    std::iter::from_fn(|| limit.acquire(seconds(at)).ok()).take(1_000).collect()
}

/// Has a worker report, and applies an answer. Returns the use.
fn exchange(state: &SharedState<Memory>, at: f64, parts: &[Option<LimitPart>]) -> Vec<PartUse> {
    let report = state.limits().report(seconds(at));
    assert!(state.limits().apply(report.number, parts.iter().copied(), seconds(at)));
    report.parts.into_iter().map(|(_, used)| used).collect()
}

#[test]
fn seats_of_a_part_are_those_of_all_workers() {
    let host = Memory::default();
    let (one, two) = (worker(&host), worker(&host));
    let [here, there] = [&one, &two].map(|state| state.flow_limit(BUSY, &seats(2)));
    let mut held = taken(&here, 0.0);
    assert_eq!(
        (held.len(), taken(&there, 0.0).len()),
        (2, 0),
        "without a part the local limit holds, over all workers"
    );
    let used = exchange(&one, 1.0, &[part(5, 0, 0)]);
    assert_eq!(
        used,
        [PartUse { is_rate: false, is_leased: false, held: 0, used: 2, wanted: 4 }],
        "what either refused is wanted"
    );
    assert!(!there.level(seconds(1.0)).is_local);
    held.extend(taken(&there, 1.0));
    assert_eq!((held.len(), taken(&here, 1.0).len()), (5, 0));
    assert_eq!((here.seats(), there.seats()), (Some((2, 5)), Some((3, 5))), "each counts its own");
    let used = exchange(&two, 2.0, &[part(1, 0, 0)]);
    assert_eq!(used, [PartUse { is_rate: false, is_leased: true, held: 5, used: 5, wanted: 7 }]);
    held.truncate(1);
    assert!(taken(&there, end_of(1.9)).is_empty());
    // The lease has ended: what was in use between reports under it is more than the local limit.
    assert_eq!((here.level(seconds(end_of(2.0))).limit, here.level(seconds(end_of(2.0))).is_local), (5, true));
    let lowered = schema("few", &json!({"maxRequestsInflight": 2}), &json!({"maxRequestsInflight": 3}));
    assert_eq!(
        one.flow_limit(BUSY, &lowered).level(seconds(end_of(2.0))).limit,
        3,
        "no more than all gateways may have"
    );
    held.extend(taken(&there, end_of(2.0)));
    assert_eq!(held.len(), 5);
    exchange(&two, 7.0, &[None]);
    assert!(taken(&here, 7.0).is_empty());
}

#[test]
fn tokens_of_a_part_are_those_of_all_workers() {
    let host = Memory::default();
    let (one, two) = (worker(&host), worker(&host));
    let [here, there] = [&one, &two].map(|state| state.flow_limit(BUSY, &rate(2)));
    assert_eq!([taken(&here, 0.0).len(), taken(&there, 0.0).len()], [1, 0], "one token at first");
    exchange(&one, 0.0, &[part(10, 20, 0)]);
    assert_eq!([taken(&there, 1.0).len(), taken(&here, 1.0).len()], [10, 0]);
    let used = exchange(&two, 1.0, &[part(0, 50, 7)]);
    assert_eq!(used, [PartUse { is_rate: true, is_leased: true, held: 10, used: 0, wanted: 12 }]);
    assert_eq!([taken(&here, 1.0).len(), taken(&there, 2.0).len()], [7, 0], "counted tokens come once");
    assert_eq!((here.rate(), here.level(seconds(2.0)).limit), (Some(100), 50));
    assert_eq!(
        (taken(&here, 3.0).len(), here.rate()),
        (0, Some(100)),
        "and the local limit from here on: they are overdue"
    );
    assert_eq!((taken(&there, 4.0).len(), here.level(seconds(3.0)).is_local), (10, true), "as much as was in use");
    // Reports without an answer change nothing of that.
    one.limits().report(seconds(5.0));
    two.limits().report(seconds(6.0));
    assert_eq!([taken(&here, 6.0).len(), taken(&there, 7.0).len()], [10, 10], "a bucket of one second at most");
    let lowered = two.flow_limit(BUSY, &schema("rate", &bucket(2), &bucket(4)));
    assert_eq!(taken(&lowered, 8.0).len(), 4, "the limit of all gateways by now");
}

#[test]
fn report_has_both_kinds_in_the_order_of_names() {
    let host = Memory::default();
    let (one, two) = (worker(&host), worker(&host));
    let other = FlowControlSchema { name: "few".to_owned(), ..rate(1) };
    let limits = [one.flow_limit("b", &seats(1)), two.flow_limit("b", &other), two.flow_limit("a", &rate(1))];
    let report = one.limits().report(seconds(0.0));
    let names: Vec<_> = report.parts.iter().map(|(name, used)| (&*name.cluster, &*name.schema, used.is_rate)).collect();
    assert_eq!(names, [("a", "rate", true), ("b", "few", false), ("b", "few", true)]);
    assert!(one.limits().apply(report.number, [part(1, 4, 4), part(2, 0, 0), part(1, 8, 8)], seconds(0.0)));
    assert_eq!(limits.map(|limit| taken(&limit, 0.0).len()), [2, 8, 4]);
    assert_eq!(one.limits().process(), two.limits().process());
}

#[test]
fn answer_counts_for_the_newest_report_of_all_workers() {
    let host = Memory::default();
    let (one, two) = (worker(&host), worker(&host));
    let limit = one.flow_limit(BUSY, &seats(1));
    let first = one.limits().report(seconds(0.0));
    let second = two.limits().report(seconds(0.5));
    assert!(second.number > first.number);
    assert!(!one.limits().apply(first.number, [part(9, 0, 0)], seconds(0.5)));
    assert!(two.limits().apply(second.number, [part(3, 0, 0)], seconds(0.5)));
    assert!(!two.limits().apply(second.number, [part(9, 0, 0)], seconds(0.5)), "once");
    assert_eq!(limit.level(seconds(1.0)).limit, 3);
    // An answer revives no lease that has ended since its report.
    let third = one.limits().report(seconds(end_of(0.4)));
    assert!(one.limits().apply(third.number, [part(9, 0, 0)], seconds(end_of(0.5))));
    assert_eq!(limit.level(seconds(end_of(0.5))).limit, 1);
}

#[test]
fn turn_stays_with_a_worker_until_it_is_gone() {
    let host = Memory::default();
    let (one, two) = (worker(&host), worker(&host));
    let claim = |state: &SharedState<Memory>, at: f64| state.limits().claim(seconds(at), seconds(at + 4.0));
    assert!(!claim(&one, 1.4), "time may have been set by another one");
    assert!(claim(&one, 1.5) && !claim(&two, 1.6) && !claim(&one, 1.6));
    assert!(one.limits().set_next(seconds(2.0)) && !two.limits().set_next(seconds(0.0)));
    assert!(!claim(&two, 3.4) && claim(&one, 3.4));
    assert!(one.limits().set_next(seconds(4.0)));
    assert!(claim(&two, 5.5), "it did not report");
    assert!(!one.limits().set_next(seconds(0.0)) && !claim(&one, 9.4));
}

#[test]
fn degraded_is_shown_by_the_worker_that_reports() {
    let host = Memory::default();
    let (one, two) = (worker(&host), worker(&host));
    let _limit = one.flow_limit(BUSY, &seats(1));
    assert!(two.limits().claim(seconds(2.0), seconds(6.0)));
    let are = |at: f64| [&one, &two].map(|state| state.limits().is_degraded(seconds(at)));
    assert_eq!(are(2.0), [false, false], "nothing was reported");
    let report = two.limits().report(seconds(2.0));
    assert_eq!(are(2.0), [false, true]);
    assert!(two.limits().apply(report.number, [part(1, 0, 0)], seconds(2.5)));
    assert_eq!([are(end_of(1.9)), are(end_of(2.0))], [[false, false], [false, true]]);
    exchange(&two, 7.0, &[None]);
    assert_eq!(are(7.0), [false, true]);
    assert!(one.limits().claim(seconds(9.0), seconds(9.0)));
    assert_eq!(are(9.0), [false, false]);
}

#[test]
fn part_that_no_worker_renews_is_forgotten() {
    let host = Memory::default();
    let (one, two) = (worker(&host), worker(&host));
    let kept = one.flow_limit(BUSY, &seats(1));
    drop(two.flow_limit("gone", &seats(1)));
    let names = |state: &SharedState<Memory>| state.limits().report(seconds(0.0)).parts.len();
    assert_eq!(names(&two), 2);
    for step in 1..=8_u32 {
        host.advance(15);
        one.limits().renew(seconds(f64::from(step * 15)));
        two.limits().renew(seconds(f64::from(step * 15)));
    }
    assert_eq!(names(&two), 1);
    drop(kept);
    host.advance(100);
    assert_eq!(names(&two), 0);
}

#[test]
fn worker_without_exchanges_has_local_limits_only() {
    let host = Memory::default();
    let state = SharedState::open(&host).unwrap();
    let limit = state.flow_limit(BUSY, &rate(7));
    assert_eq!(taken(&limit, 0.0).len(), 7, "a full bucket");
    assert!(state.limits().report(seconds(0.0)).parts.is_empty());
    let unequal =
        FlowControlSchema { global: Some(GlobalLimit { limit: seats(1).limit, ..rate(1).global.unwrap() }), ..rate(7) };
    assert_eq!(taken(&worker(&host).flow_limit("b", &unequal), 0.0).len(), 7, "of another kind than the local one");
}

#[test]
fn seats_of_workers_that_are_left_out_have_the_local_limit() {
    let host = Memory::default();
    let state = worker(&host);
    // A report has room for half of them.
    let limits: Vec<_> = (0..200).map(|number| state.flow_limit(&format!("{number:08000}"), &seats(1))).collect();
    let last = limits.last().unwrap();
    let answer = vec![part(3, 0, 0); limits.len()];
    assert!((50..150).contains(&exchange(&state, 0.0, &answer).len()));
    assert_eq!(taken(last, 0.5).len(), 1, "it has no part");
    exchange(&state, 1.0, &answer);
    assert_eq!(taken(last, 1.5).len(), 3, "it was in use");
    exchange(&state, 2.0, &answer);
    let limit = |at: f64| last.level(seconds(at)).limit;
    assert_eq!(limit(15.0), 3, "no answer came since, and it had as many in use");
    exchange(&state, 16.0, &answer);
    exchange(&state, 17.5, &answer);
    assert_eq!(limit(end_of(16.0)), 1, "an answered report had no room for it");
}

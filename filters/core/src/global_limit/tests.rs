use super::*;
use crate::bucket::Rate;

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn part(quota: u32, burst: u32, tokens: u32) -> Option<LimitPart> {
    Some(LimitPart { quota, burst, tokens })
}

/// The uptime at which the lease by a report that was written then has ended.
fn end_of(written: f64) -> f64 {
    written + LEASE.as_secs_f64()
}

/// Requests that a part of a rate lets through at that uptime.
fn taken(rate: &RatePart, local: Rate, at: Duration) -> usize {
    (0..10_000).take_while(|_| rate.take(local, at)).count()
}

#[test]
fn seats_are_those_of_the_part_while_its_lease_holds() {
    let limits = GlobalLimits::default();
    let running = Arc::<InFlight>::default();
    let seats = limits.seats("c", "few", &running);
    let take = |at: f64, local: u32| seats.acquire(local, seconds(at));
    let mut held: Vec<_> = (0..2).map(|_| take(0.0, 2).unwrap()).collect();
    assert!(take(0.0, 2).is_none(), "without a part the local limit holds");
    let report = limits.report(seconds(1.0));
    let used = PartUse { is_rate: false, held: 0, used: 2, wanted: 3 };
    assert_eq!(report.parts, [(name("c", "few"), used)], "what was refused is wanted");
    assert!(limits.apply(report.number, [part(4, 0, 0)], seconds(1.5)));
    held.extend((0..2).map(|_| take(2.0, 2).unwrap()));
    assert!(take(2.0, 2).is_none());
    let report = limits.report(seconds(2.5));
    assert_eq!(report.parts[0].1, PartUse { is_rate: false, held: 4, used: 4, wanted: 5 });
    // From the moment at which the answered report was written.
    assert_eq!(seats.quota(seconds(end_of(0.9))), Some(4));
    assert_eq!(
        (seats.quota(seconds(end_of(1.0))), seats.max(2, seconds(end_of(1.0)))),
        (None, 4),
        "what was in use is more"
    );
    assert_eq!(seats.max(9, seconds(end_of(1.0))), 9);
    held.truncate(1);
    let report = limits.report(seconds(6.0));
    assert_eq!(report.parts[0].1.held, 0, "an ended lease holds nothing");
    assert!(limits.apply(report.number, [part(0, 0, 0)], seconds(6.0)));
    assert!(take(6.0, 9).is_none(), "a part may be nothing");
    let report = limits.report(seconds(7.0));
    assert!(limits.apply(report.number, [None], seconds(7.0)));
    assert!(take(7.0, 2).is_some(), "no control plane divides it");
}

#[test]
fn answer_counts_once_and_for_the_newest_report_alone() {
    let limits = GlobalLimits::default();
    let seats = limits.seats("c", "few", &Arc::default());
    let first = limits.report(seconds(0.0));
    let second = limits.report(seconds(1.0));
    assert!(!limits.apply(first.number, [part(9, 0, 0)], seconds(1.0)));
    assert_eq!(seats.quota(seconds(1.0)), None);
    assert!(limits.apply(second.number, [part(3, 0, 0)], seconds(1.0)));
    assert!(!limits.apply(second.number, [part(9, 0, 0)], seconds(1.0)));
    assert_eq!(seats.quota(seconds(1.0)), Some(3));
    // An answer that is too short leaves the rest to the local limits.
    let third = limits.report(seconds(2.0));
    assert!(limits.apply(third.number, [], seconds(2.0)));
    assert_eq!(seats.quota(seconds(2.0)), None);
}

#[test]
fn limits_are_degraded_while_a_local_one_holds() {
    let limits = GlobalLimits::default();
    assert!(!limits.is_degraded(seconds(0.0)), "there is none");
    let seats = limits.seats("c", "few", &Arc::default());
    let rate = limits.rate("c", "rate");
    let answer = |at: f64, parts: [Option<LimitPart>; 2]| {
        let number = limits.report(seconds(at)).number;
        assert!(limits.is_degraded(seconds(at)) || at > 0.0, "there was no answer yet");
        assert!(limits.apply(number, parts, seconds(at)));
        limits.is_degraded(seconds(at))
    };
    assert!(!answer(0.0, [part(3, 0, 0), part(0, 5, 1)]));
    assert!(answer(1.0, [part(3, 0, 0), None]));
    assert!(!answer(2.0, [part(0, 0, 0), part(0, 5, 1)]));
    limits.report(seconds(3.0));
    assert_eq!([end_of(1.9), end_of(2.0)].map(|at| limits.is_degraded(seconds(at))), [false, true]);
    drop((seats, rate));
    limits.report(seconds(7.0));
    assert!(!limits.is_degraded(seconds(7.0)), "there is none any more");
}

#[test]
fn answer_revives_no_lease_that_has_ended_since_its_report() {
    let limits = GlobalLimits::default();
    let seats = limits.seats("c", "few", &Arc::default());
    let first = limits.report(seconds(0.0));
    assert!(limits.apply(first.number, [part(3, 0, 0)], seconds(0.5)));
    let second = limits.report(seconds(end_of(-0.1)));
    assert_eq!(second.parts[0].1.held, 3);
    assert!(!limits.apply(second.number, [part(3, 0, 0)], seconds(end_of(0.0))), "another gateway may have it by now");
    assert_eq!(seats.quota(seconds(end_of(0.0))), None);
    let third = limits.report(seconds(4.1));
    assert_eq!(third.parts[0].1.held, 0);
    assert!(limits.apply(third.number, [part(2, 0, 0)], seconds(4.2)));
    assert_eq!(seats.quota(seconds(end_of(4.0))), Some(2));
}

#[test]
fn another_quota_resizes_the_bucket_and_fills_nothing() {
    let limits = GlobalLimits::default();
    let rate = limits.rate("c", "rate");
    let local = Rate { qps: 1, burst: 1 };
    let answer = |at: f64, part: Option<LimitPart>| {
        let report = limits.report(seconds(at));
        assert!(limits.apply(report.number, [part], seconds(at)));
        report.parts[0].1
    };
    answer(0.0, part(10, 20, 0));
    assert_eq!(taken(&rate, local, seconds(0.0)), 1, "one token at first, and no burst");
    assert_eq!(taken(&rate, local, seconds(1.0)), 10);
    answer(1.0, part(1_000, 2_000, 0));
    assert_eq!(taken(&rate, local, seconds(1.0)), 0, "a larger part is no full bucket");
    assert_eq!(taken(&rate, local, seconds(1.5)), 500);
    answer(2.0, part(10, 20, 0));
    assert_eq!(taken(&rate, local, seconds(2.0)), 20, "a smaller one loses what it has no room for");
    let used = answer(3.0, part(10, 20, 0));
    assert_eq!((used.held, used.used), (10, 10));
}

#[test]
fn counted_tokens_are_added_once_and_never_refilled() {
    let limits = GlobalLimits::default();
    let rate = limits.rate("c", "rate");
    let local = Rate { qps: 1, burst: 1 };
    let mut now = 0.0;
    for step in 0..20 {
        let report = limits.report(seconds(now));
        assert!(limits.apply(report.number, [part(0, 50, 5)], seconds(now)));
        let expected = if step == 0 { 6 } else { 5 };
        assert_eq!(taken(&rate, local, seconds(now + 0.05)), expected, "{now}");
        now += 0.1;
    }
}

#[test]
fn rate_without_a_lease_is_the_local_or_what_was_in_use() {
    let limits = GlobalLimits::default();
    let rate = limits.rate("c", "rate");
    let local = Rate { qps: 2, burst: 2 };
    let report = limits.report(seconds(0.0));
    limits.apply(report.number, [part(100, 100, 0)], seconds(0.0));
    assert_eq!(taken(&rate, local, seconds(1.0)), 100);
    let report = limits.report(seconds(1.0));
    limits.apply(report.number, [part(100, 100, 0)], seconds(1.0));
    assert_eq!(taken(&rate, local, seconds(end_of(1.0))), 100, "made under the lease");
    assert_eq!(taken(&rate, local, seconds(end_of(2.0))), 100, "as much as it had in use");
    let fresh = limits.rate("c", "other");
    assert_eq!(taken(&fresh, local, seconds(end_of(2.0))), 1);
    assert_eq!(taken(&fresh, local, seconds(end_of(5.0))), 2, "the local burst");
}

#[test]
fn ended_part_of_nothing_leaves_the_local_limit_alone() {
    let limits = GlobalLimits::default();
    let rate = limits.rate("c", "rate");
    let local = Rate { qps: 10, burst: 20 };
    let report = limits.report(seconds(0.0));
    limits.apply(report.number, [part(0, 0, 0)], seconds(0.0));
    assert_eq!(taken(&rate, local, seconds(end_of(-0.1))), 0);
    let passed: usize = (0..100).map(|tenth| taken(&rate, local, seconds(end_of(f64::from(tenth) / 10.0)))).sum();
    assert!((95..=100).contains(&passed), "{passed} in ten seconds");
}

#[test]
fn time_between_two_leases_makes_nothing_for_the_second() {
    let limits = GlobalLimits::default();
    let rate = limits.rate("c", "rate");
    let local = Rate { qps: 1, burst: 1 };
    let lease = |at: f64| {
        let report = limits.report(seconds(at));
        limits.apply(report.number, [part(1_000, 10_000, 0)], seconds(at));
    };
    lease(0.0);
    lease(60.0);
    let made = LEASE.as_secs() as usize * 1_000;
    assert_eq!(taken(&rate, local, seconds(60.0)), made + 1, "by the first lease, and the token at first");
    assert_eq!(taken(&rate, local, seconds(60.0)), 0);
}

#[test]
fn parts_outlive_an_edit_and_go_with_their_last_user() {
    let limits = GlobalLimits::default();
    let seats = limits.seats("c", "few", &Arc::default());
    assert!(Arc::ptr_eq(&seats, &limits.seats("c", "few", &Arc::default())));
    drop(seats);
    assert!(limits.report(seconds(0.0)).parts.is_empty());
    assert!(!limits.apply(1, [part(1, 0, 0)], seconds(0.0)), "nothing was reported");
}

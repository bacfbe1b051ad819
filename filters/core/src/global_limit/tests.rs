use std::collections::HashSet;

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
    taken_of(rate, local, 10_000, at)
}

fn taken_of(rate: &RatePart, local: Rate, global_qps: u32, at: Duration) -> usize {
    (0..10_000).take_while(|_| rate.take(FallbackRate { local, global_qps }, at)).count()
}

fn fallback(local: u32) -> FallbackSeats {
    FallbackSeats { local, global: 9, most: u32::MAX }
}

#[test]
fn seats_are_those_of_the_part_while_its_lease_holds() {
    let limits = GlobalLimits::default();
    let running = Arc::<InFlight>::default();
    let seats = limits.seats("c", "few", &running);
    let take = |at: f64, local: u32| seats.acquire(fallback(local), seconds(at));
    let mut held: Vec<_> = (0..2).map(|_| take(0.0, 2).unwrap()).collect();
    assert!(take(0.0, 2).is_none(), "without a part the local limit holds");
    let report = limits.report(seconds(1.0));
    let used = PartUse { is_rate: false, is_leased: false, held: 0, used: 2, wanted: 3 };
    assert_eq!(report.parts, [(name("c", "few"), used)], "what was refused is wanted");
    assert!(limits.apply(report.number, [part(4, 0, 0)], seconds(1.5)));
    held.extend((0..2).map(|_| take(2.0, 2).unwrap()));
    assert!(take(2.0, 2).is_none());
    let report = limits.report(seconds(2.5));
    assert_eq!(report.parts[0].1, PartUse { is_rate: false, is_leased: true, held: 4, used: 4, wanted: 5 });
    // From the moment at which the answered report was written.
    assert_eq!(seats.quota(seconds(end_of(0.9))), Some(4));
    assert_eq!(
        (seats.quota(seconds(end_of(1.0))), seats.max(fallback(2), seconds(end_of(1.0)))),
        (None, 4),
        "what was in use is more"
    );
    assert_eq!(seats.max(fallback(9), seconds(end_of(1.0))), 9);
    let edited = FallbackSeats { local: 1, global: 3, most: u32::MAX };
    assert_eq!(seats.max(edited, seconds(end_of(1.0))), 3, "no more than all gateways may have by now");
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
fn seats_of_a_lowered_limit_are_fewer_than_the_part() {
    let limits = GlobalLimits::default();
    let seats = limits.seats("c", "few", &Arc::default());
    let lowered = FallbackSeats { most: 2, ..fallback(4) };
    let report = limits.report(seconds(0.0));
    assert!(limits.apply(report.number, [part(5, 0, 0)], seconds(0.0)));
    let _held: Vec<_> = (0..2).map(|_| seats.acquire(lowered, seconds(0.5)).unwrap()).collect();
    assert!(seats.acquire(lowered, seconds(0.5)).is_none());
    assert_eq!(limits.report(seconds(0.6)).parts[0].1.wanted, 2, "a larger part would not let it in");
    assert!(seats.acquire(fallback(4), seconds(0.7)).is_some(), "others have the rest of the part");
    assert_eq!([seats.max(lowered, seconds(9.0)), seats.last_max(lowered)], [2, 2], "without a lease as well");
    let report = limits.report(seconds(1.0));
    assert!(limits.apply(report.number, [part(1, 0, 0)], seconds(1.0)));
    assert_eq!(seats.max(lowered, seconds(1.0)), 1, "the part holds there, too");
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
fn part_that_a_report_has_no_room_for_has_no_lease() {
    let limits = GlobalLimits::default();
    let all: Vec<_> = (0..20_000)
        .map(|number| limits.seats(&format!("portcullis/-/{number:05}.example.com"), "requests", &Arc::default()))
        .collect();
    let last = all.last().unwrap();
    let alone = FallbackSeats { local: 1, global: 9, most: u32::MAX };
    let exchange = |at: f64| {
        let report = limits.report(seconds(at));
        let count = report.parts.len();
        assert!(limits.apply(report.number, vec![part(3, 0, 0); count], seconds(at)));
        all.iter().filter(|part| part.quota(seconds(at)).is_some()).map(|part| part.name()).collect::<HashSet<_>>()
    };
    let first = exchange(0.0);
    assert!((5_000..20_000).contains(&first.len()), "{} have room", first.len());
    assert!(last.quota(seconds(0.0)).is_none() && limits.is_degraded(seconds(0.0)));
    drop(last.acquire(alone, seconds(0.5)).unwrap());
    let second = exchange(1.0);
    assert_eq!(last.quota(seconds(1.0)), Some(3), "it was in use");
    assert!(second.intersection(&first).count() > 5_000, "others keep their turn");
    drop((0..3).map(|_| last.acquire(alone, seconds(1.5)).unwrap()).collect::<Vec<_>>());
    exchange(2.0);
    assert_eq!(last.max(alone, seconds(15.0)), 3, "no answer came since, and it had as many in use");
    let third = exchange(16.0);
    assert!(third.intersection(&first).count() < 2, "the others have theirs");
    exchange(17.5);
    assert_eq!((last.quota(seconds(17.5)), last.max(alone, seconds(17.5))), (None, 1), "the process is connected");
}

#[test]
fn seats_that_are_left_out_have_the_local_limit_alone() {
    let limits = GlobalLimits::default();
    let seats = limits.seats("c", "few", &Arc::default());
    let report = limits.report(seconds(0.0));
    assert!(limits.apply(report.number, [part(4, 0, 0)], seconds(0.0)));
    let mut held: Vec<_> = (0..4).map(|_| seats.acquire(fallback(1), seconds(0.5)).unwrap()).collect();
    let report = limits.report(seconds(1.0));
    assert!(limits.apply(report.number, [None], seconds(1.0)));
    assert_eq!(seats.max(fallback(1), seconds(1.0)), 4, "no control plane divides it");
    seats.leave_out();
    assert_eq!((seats.max(fallback(1), seconds(1.0)), seats.running().count()), (1, 4), "those in flight go on");
    limits.report(seconds(2.0));
    assert_eq!(seats.max(fallback(1), seconds(2.0)), 1, "a report without a lease observes nothing");
    held.clear();
    assert!(seats.acquire(fallback(1), seconds(2.0)).is_some());
}

#[test]
fn rate_that_is_left_out_has_the_local_limit_alone() {
    let limits = GlobalLimits::default();
    let rate = limits.rate("c", "rate");
    let local = Rate { qps: 2, burst: 5 };
    for second in 0..5 {
        let report = limits.report(seconds(f64::from(second)));
        assert!(limits.apply(report.number, [part(100, 100, 0)], seconds(f64::from(second))));
        taken(&rate, local, seconds(f64::from(second) + 0.9));
    }
    limits.report(seconds(5.0));
    rate.leave_out(seconds(5.0));
    taken(&rate, local, seconds(5.0));
    assert_eq!(taken(&rate, local, seconds(6.0)), 2, "and not what was in use");
    // Answers that say nothing of it, one a second.
    (7..=66).for_each(|second| rate.leave_out(seconds(f64::from(second))));
    assert_eq!(rate.tokens(FallbackRate { local, global_qps: 100 }, seconds(66.0)), 5, "the local burst");
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

/// Exchanges ten times a second about a rate that is counted, while as many requests come as may; returns the time of the last one.
fn count_for(limits: &GlobalLimits, rate: &RatePart, tenths: u32, tokens: u32) -> f64 {
    for tenth in 0..tenths {
        let at = f64::from(tenth) / 10.0;
        let report = limits.report(seconds(at));
        assert!(limits.apply(report.number, [part(0, 200, tokens)], seconds(at)));
        taken(rate, Rate { qps: 1, burst: 1 }, seconds(at + 0.05));
    }
    f64::from(tenths - 1) / 10.0
}

#[test]
fn reports_without_an_answer_leave_what_was_in_use() {
    let (limits, local) = (GlobalLimits::default(), Rate { qps: 1, burst: 1 });
    let rate = limits.rate("c", "rate");
    let last = count_for(&limits, &rate, 50, 20);
    // Four times a second the gateway reports, and the limiter is gone.
    let mut each_half = [0; 16];
    for quarter in 1..=32_u32 {
        let at = last + f64::from(quarter) / 4.0;
        limits.report(seconds(at));
        each_half[(quarter - 1) as usize / 2] += taken(&rate, local, seconds(at));
    }
    assert_eq!(each_half[0], 0, "no answer is overdue for half a second");
    assert!(each_half[1..].iter().all(|taken| (90..=110).contains(taken)), "200 each second: {each_half:?}");
}

#[test]
fn answer_that_is_lost_stops_a_counted_rate_for_half_a_second() {
    let (limits, local) = (GlobalLimits::default(), Rate { qps: 1, burst: 1 });
    let rate = limits.rate("c", "rate");
    let last = count_for(&limits, &rate, 50, 20);
    limits.report(seconds(last + 0.1));
    assert_eq!(taken(&rate, local, seconds(last + 0.4)), 0);
    assert!(rate.part(seconds(last + 0.4)).is_some());
    assert!((95..=105).contains(&taken(&rate, local, seconds(last + 1.0))), "half a second of 200 requests each");
    assert!(rate.part(seconds(last + 1.0)).is_none(), "the local limit holds");
    let report = limits.report(seconds(last + 1.5));
    assert!(limits.apply(report.number, [part(0, 200, 20)], seconds(last + 1.5)));
    taken(&rate, local, seconds(last + 1.5));
    assert_eq!(taken(&rate, local, seconds(last + 1.6)), 0, "tokens come with answers again");
}

#[test]
fn exchanges_that_take_long_are_not_overdue_in_between() {
    let (limits, local) = (GlobalLimits::default(), Rate { qps: 100, burst: 100 });
    let rate = limits.rate("c", "rate");
    for second in 0..5 {
        let at = 10.0 + f64::from(second) * 0.9;
        let report = limits.report(seconds(at));
        assert!(limits.apply(report.number, [part(0, 50, 5)], seconds(at)));
        let first = usize::from(second == 0);
        assert_eq!(taken(&rate, local, seconds(at)) - first, 5);
        assert_eq!((taken(&rate, local, seconds(at + 0.89)), second), (0, second));
    }
}

#[test]
fn burst_makes_no_rate_for_the_time_without_a_lease() {
    let (limits, local) = (GlobalLimits::default(), Rate { qps: 1, burst: 1 });
    let rate = limits.rate("c", "rate");
    let answer = |at: f64, part: Option<LimitPart>| {
        let report = limits.report(seconds(at));
        assert!(limits.apply(report.number, [part], seconds(at)));
    };
    answer(0.0, part(10, 1_000, 1_000));
    assert_eq!(taken(&rate, local, seconds(0.5)), 1_000);
    answer(1.5, part(10, 1_000, 0));
    taken(&rate, local, seconds(end_of(1.5)));
    assert_eq!(taken(&rate, local, seconds(end_of(2.5))), 10, "its part, and not 667");
    assert_eq!(taken_of(&rate, local, 4, seconds(end_of(3.5))), 4, "the limit of all gateways is lower by now");
    // The part that another gateway has by now was in use, and is not any more.
    answer(10.0, part(10, 1_000, 0));
    taken(&rate, local, seconds(11.0));
    answer(11.0, part(3, 300, 0));
    taken(&rate, local, seconds(end_of(11.0)));
    assert_eq!(taken(&rate, local, seconds(end_of(12.0))), 3);
    answer(20.0, None);
    taken(&rate, local, seconds(20.0));
    assert_eq!(taken_of(&rate, local, 2, seconds(21.0)), 2, "a control plane that divides nothing");
}

#[test]
fn counted_use_of_single_requests_is_their_rate() {
    let (limits, local) = (GlobalLimits::default(), Rate { qps: 1, burst: 1 });
    let rate = limits.rate("c", "rate");
    for tenth in 0..100 {
        let at = seconds(f64::from(tenth) / 10.0);
        let report = limits.report(at);
        assert!(limits.apply(report.number, [part(0, 50, 50)], at));
        // Five in a second: in each second report.
        assert!(tenth % 2 == 0 || rate.take(FallbackRate { local, global_qps: 100 }, at));
    }
    taken(&rate, local, seconds(end_of(9.9)));
    let passed = taken(&rate, local, seconds(end_of(10.9)));
    assert!((4..=6).contains(&passed), "{passed}");
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

use std::collections::BTreeMap;
use std::time::Duration;

use portcullis_filter_config::limits::{LimitPart, PartUse};
use portcullis_filter_config::{FlowControlLimit, GlobalLimit, GlobalStrategy};

use crate::{HolderRefusal, Limiter, RESERVED_FOR};

fn at(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

pub(super) fn limits(
    limit: FlowControlLimit,
    strategy: GlobalStrategy,
) -> BTreeMap<String, BTreeMap<String, GlobalLimit>> {
    let schemas = BTreeMap::from([("s".to_owned(), GlobalLimit { limit, strategy })]);
    BTreeMap::from([("c".to_owned(), schemas)])
}

/// A limiter that has learnt what there is to learn, at 10 s.
fn limiter(limit: FlowControlLimit, strategy: GlobalStrategy) -> Limiter {
    let mut limiter = Limiter::new();
    limiter.configure(&limits(limit, strategy), at(0.0));
    limiter
}

struct Gateway {
    node: &'static str,
    number: u64,
}

impl Gateway {
    fn report(&mut self, limiter: &mut Limiter, used: PartUse, now: Duration) -> Option<LimitPart> {
        self.number += 1;
        let holder = limiter.holder(self.node, 1, self.number, now).unwrap();
        limiter.exchange(holder, "c", "s", used, now).unwrap().part
    }
}

fn gateways() -> [Gateway; 3] {
    ["a", "b", "c"].map(|node| Gateway { node, number: 0 })
}

fn seats(held: u32, used: u32, wanted: u32) -> PartUse {
    PartUse { is_rate: false, is_leased: held > 0, held, used, wanted }
}

fn quota(part: Option<LimitPart>) -> Option<u32> {
    part.map(|part| part.quota)
}

const MAX: FlowControlLimit = FlowControlLimit::MaxRequestsInflight(90);

#[test]
fn limiter_that_knows_nothing_renews_and_grants_nothing() {
    let mut limiter = limiter(MAX, GlobalStrategy::Allocate);
    let [mut a, mut b, mut c] = gateways();
    assert_eq!(quota(a.report(&mut limiter, seats(50, 10, 10), at(1.0))), Some(50));
    assert_eq!(quota(b.report(&mut limiter, seats(0, 0, 90), at(1.0))), None, "the local limit holds there");
    assert_eq!(quota(a.report(&mut limiter, seats(50, 10, 10), at(4.0))), Some(10), "b has use for the rest");
    assert_eq!(quota(c.report(&mut limiter, seats(0, 0, 90), at(4.0))), Some(40), "b and c have half of it each");
}

#[test]
fn part_of_nothing_is_renewed_as_such() {
    let mut limiter = limiter(MAX, GlobalStrategy::Allocate);
    let [mut a, mut b, _] = gateways();
    let nothing = PartUse { is_leased: true, ..seats(0, 0, 5) };
    assert_eq!(quota(a.report(&mut limiter, nothing, at(1.0))), Some(0), "not the local limit");
    assert_eq!(quota(b.report(&mut limiter, seats(0, 0, 5), at(1.0))), None);
}

#[test]
fn part_that_shrinks_is_free_when_its_gateway_says_so() {
    let mut limiter = limiter(MAX, GlobalStrategy::Allocate);
    let [mut a, mut b, _] = gateways();
    assert_eq!(quota(a.report(&mut limiter, seats(0, 0, 0), at(10.0))), Some(90), "alone it has all");
    assert_eq!(quota(b.report(&mut limiter, seats(0, 0, 90), at(10.1))), None, "the local limit, before it has a part");
    assert_eq!(quota(a.report(&mut limiter, seats(90, 0, 0), at(11.0))), Some(2), "a small part to begin with");
    assert_eq!(quota(b.report(&mut limiter, seats(0, 0, 90), at(11.1))), None, "a may not know of it yet");
    assert_eq!(quota(a.report(&mut limiter, seats(2, 40, 0), at(11.2))), Some(2));
    assert_eq!(quota(b.report(&mut limiter, seats(0, 0, 90), at(11.3))), Some(50), "forty requests still run");
    assert_eq!(quota(a.report(&mut limiter, seats(2, 0, 0), at(12.0))), Some(2));
    assert_eq!(quota(b.report(&mut limiter, seats(50, 50, 90), at(12.1))), Some(88));
}

#[test]
fn part_of_a_silent_gateway_is_free_after_its_lease() {
    let mut limiter = limiter(MAX, GlobalStrategy::Allocate);
    let [mut a, mut b, _] = gateways();
    a.report(&mut limiter, seats(0, 80, 80), at(10.0));
    let nearly = at(10.0) + RESERVED_FOR - Duration::from_millis(1);
    assert_eq!(quota(b.report(&mut limiter, seats(0, 0, 90), nearly)), None);
    assert_eq!(quota(b.report(&mut limiter, seats(0, 0, 90), at(15.0))), Some(90));
    assert_eq!(quota(a.report(&mut limiter, seats(80, 80, 80), at(15.1))), None, "it is not believed to have a part");
}

#[test]
fn counted_seats_are_those_in_use_and_a_reserve() {
    let mut limiter = limiter(FlowControlLimit::MaxRequestsInflight(100), GlobalStrategy::Count);
    let [mut a, mut b, _] = gateways();
    assert_eq!(quota(a.report(&mut limiter, seats(0, 0, 0), at(10.0))), Some(2));
    assert_eq!(quota(a.report(&mut limiter, seats(2, 2, 30), at(10.1))), Some(30));
    assert_eq!(quota(a.report(&mut limiter, seats(30, 30, 30), at(10.2))), Some(32));
    assert_eq!(quota(b.report(&mut limiter, seats(0, 0, 500), at(10.2))), Some(68));
}

#[test]
fn rate_is_divided_with_its_burst() {
    let limit = FlowControlLimit::TokenBucket { qps: 100, burst: 250 };
    let mut limiter = limiter(limit, GlobalStrategy::Allocate);
    let [mut a, mut b, _] = gateways();
    let rate = |held, wanted| PartUse { is_rate: true, is_leased: held > 0, held, used: 0, wanted };
    assert_eq!(a.report(&mut limiter, rate(0, 0), at(10.0)), Some(LimitPart { quota: 100, burst: 250, tokens: 0 }));
    b.report(&mut limiter, rate(0, 300), at(10.0));
    assert_eq!(a.report(&mut limiter, rate(100, 30), at(11.0)), Some(LimitPart { quota: 30, burst: 75, tokens: 0 }));
    a.report(&mut limiter, rate(30, 30), at(11.1));
    assert_eq!(b.report(&mut limiter, rate(0, 300), at(11.2)), Some(LimitPart { quota: 70, burst: 175, tokens: 0 }));
}

#[test]
fn tokens_of_a_bucket_that_shrinks_go_where_the_rate_goes() {
    let limit = FlowControlLimit::TokenBucket { qps: 100, burst: 250 };
    let mut limiter = limiter(limit, GlobalStrategy::Allocate);
    let [mut a, mut b, _] = gateways();
    let rate = |held, used, wanted| PartUse { is_rate: true, is_leased: held > 0, held, used, wanted };
    assert_eq!(a.report(&mut limiter, rate(0, 1, 0), at(10.0)).map(|part| part.burst), Some(250));
    b.report(&mut limiter, rate(0, 0, 500), at(10.9));
    assert_eq!(a.report(&mut limiter, rate(100, 250, 0), at(11.0)).map(|part| part.burst), Some(5));
    assert_eq!(b.report(&mut limiter, rate(0, 0, 500), at(11.1)), None, "a may not know of it yet");
    assert_eq!(a.report(&mut limiter, rate(2, 5, 0), at(11.2)).map(|part| part.tokens), Some(0), "it lost 245");
    let part = b.report(&mut limiter, rate(0, 0, 500), at(11.7));
    assert_eq!(part, Some(LimitPart { quota: 98, burst: 245, tokens: 195 }), "fifty were made meanwhile");
    assert_eq!(b.report(&mut limiter, rate(98, 10, 500), at(11.8)).map(|part| part.tokens), Some(0), "once");
    // Tokens that were used are not lost.
    b.report(&mut limiter, rate(98, 245, 0), at(13.0));
    assert_eq!(b.report(&mut limiter, rate(98, 245, 0), at(13.1)).map(|part| part.quota), Some(50));
    b.report(&mut limiter, rate(50, 125, 1), at(13.2));
    assert_eq!(a.report(&mut limiter, rate(2, 5, 90), at(13.3)).map(|part| (part.quota, part.tokens)), Some((50, 0)));
}

#[test]
fn tokens_that_may_have_been_used_move_nowhere() {
    let limit = FlowControlLimit::TokenBucket { qps: 100, burst: 250 };
    let rate = |held, used, wanted| PartUse { is_rate: true, is_leased: held > 0, held, used, wanted };
    let shrinks = |reports: &[PartUse], lost: u64, expected: u32| {
        let mut limiter = limiter(limit, GlobalStrategy::Allocate);
        let [mut a, mut b, _] = gateways();
        a.report(&mut limiter, rate(0, 1, 0), at(10.0));
        b.report(&mut limiter, rate(0, 0, 500), at(10.9));
        for used in reports {
            a.report(&mut limiter, *used, at(11.0));
        }
        a.number += lost;
        a.report(&mut limiter, rate(2, 5, 0), at(11.1));
        let tokens = b.report(&mut limiter, rate(0, 0, 500), at(11.1)).map(|part| part.tokens);
        assert_eq!(tokens, Some(expected), "{reports:?}, {lost} lost");
    };
    shrinks(&[rate(100, 200, 0)], 0, 195);
    shrinks(&[rate(100, 200, 0)], 1, 0);
    // A part that it never had is worth nothing.
    shrinks(&[rate(100, 5, 0), rate(2, 5, 0), rate(3, 4_000_000_000, 0)], 0, 5);
}

#[test]
fn counted_tokens_are_issued_once() {
    let limit = FlowControlLimit::TokenBucket { qps: 100, burst: 200 };
    let mut limiter = limiter(limit, GlobalStrategy::Count);
    let [mut a, mut b, _] = gateways();
    let rate = |used, wanted| PartUse { is_rate: true, is_leased: false, held: 0, used, wanted };
    assert_eq!(a.report(&mut limiter, rate(0, 0), at(10.0)), Some(LimitPart { quota: 0, burst: 5, tokens: 5 }));
    assert_eq!(a.report(&mut limiter, rate(5, 0), at(10.0)), Some(LimitPart { quota: 0, burst: 5, tokens: 0 }));
    assert_eq!(b.report(&mut limiter, rate(0, 5_000), at(10.0)), Some(LimitPart { quota: 0, burst: 200, tokens: 195 }));
    assert_eq!(b.report(&mut limiter, rate(0, 5_000), at(10.1)), Some(LimitPart { quota: 0, burst: 200, tokens: 10 }));
}

#[test]
fn gateway_with_another_edition_has_its_local_limit() {
    let mut limiter = limiter(MAX, GlobalStrategy::Allocate);
    let [mut a, ..] = gateways();
    let rate = PartUse { is_rate: true, is_leased: false, held: 0, used: 0, wanted: 1 };
    assert_eq!(a.report(&mut limiter, rate, at(10.0)), None);
    let holder = limiter.holder("a", 1, 7, at(10.0)).unwrap();
    assert_eq!(limiter.exchange(holder, "c", "gone", rate, at(10.0)), None);
    assert_eq!(limiter.exchange(holder, "gone", "s", rate, at(10.0)), None);
}

#[test]
fn limit_that_stays_keeps_its_parts_and_another_kind_does_not() {
    let mut limiter = limiter(MAX, GlobalStrategy::Allocate);
    let [mut a, mut b, _] = gateways();
    a.report(&mut limiter, seats(0, 60, 60), at(10.0));
    limiter.configure(&limits(FlowControlLimit::MaxRequestsInflight(70), GlobalStrategy::Allocate), at(10.5));
    assert_eq!(quota(b.report(&mut limiter, seats(0, 0, 90), at(10.6))), None, "ninety are promised");
    assert_eq!(quota(a.report(&mut limiter, seats(90, 60, 60), at(11.0))), Some(35));
    limiter.configure(&limits(FlowControlLimit::MaxRequestsInflight(70), GlobalStrategy::Count), at(11.1));
    assert_eq!(quota(b.report(&mut limiter, seats(0, 0, 90), at(11.2))), None, "it has to learn first");
}

#[test]
fn old_reports_and_too_many_processes_get_no_part() {
    let mut limiter = limiter(MAX, GlobalStrategy::Allocate);
    assert!(limiter.holder("a", 1, 5, at(10.0)).is_ok());
    assert_eq!(limiter.holder("a", 1, 5, at(10.0)), Err(HolderRefusal::Old));
    assert_eq!(limiter.holder("a", 1, 4, at(10.0)), Err(HolderRefusal::Old));
    assert!(limiter.is_newest("a", 1, 5) && !limiter.is_newest("a", 2, 5) && !limiter.is_newest("b", 1, 5));
    limiter.holder("a", 1, 6, at(10.0)).unwrap();
    assert!(!limiter.is_newest("a", 1, 5), "a newer one came in the middle of it");
    assert!(!Limiter::new().is_newest("a", 1, 6), "another limiter");
    for process in 2..=4 {
        assert!(limiter.holder("a", process, 1, at(10.0)).is_ok());
    }
    assert_eq!(limiter.holder("a", 5, 1, at(10.0)), Err(HolderRefusal::TooMany));
    assert!(limiter.holder("b", 5, 1, at(10.0)).is_ok(), "another node");
    assert!(limiter.holder("a", 5, 1, at(15.0)).is_ok(), "those before are gone");
}

#[test]
fn tokens_are_issued_once_nothing_makes_them_by_itself() {
    let limit = FlowControlLimit::TokenBucket { qps: 100, burst: 200 };
    let mut limiter = limiter(limit, GlobalStrategy::Allocate);
    let [mut a, ..] = gateways();
    let used = PartUse { is_rate: true, is_leased: false, held: 0, used: 0, wanted: 500 };
    assert_eq!(quota(a.report(&mut limiter, used, at(10.0))), Some(100));
    limiter.configure(&limits(limit, GlobalStrategy::Count), at(11.0));
    assert_eq!(a.report(&mut limiter, used, at(11.1)), None, "its lease may still make tokens");
    let later = at(11.0) + RESERVED_FOR + Duration::from_secs(1);
    assert_eq!(a.report(&mut limiter, used, later).map(|part| part.tokens), Some(100));

    // A new limiter knows of such a lease by the gateway that has it.
    let mut limiter = Limiter::new();
    limiter.configure(&limits(limit, GlobalStrategy::Count), at(20.0));
    assert_eq!(a.report(&mut limiter, PartUse { held: 100, ..used }, at(20.1)), None);
    assert_eq!(a.report(&mut limiter, used, at(21.0)), None);
    let later = at(21.0) + RESERVED_FOR;
    assert_eq!(a.report(&mut limiter, used, later).map(|part| part.tokens), Some(100));
}

#[test]
fn each_of_many_has_its_turn_where_there_is_too_little() {
    let mut limiter = limiter(FlowControlLimit::MaxRequestsInflight(1), GlobalStrategy::Count);
    let mut all = gateways();
    let (mut held, mut turns) = ([0; 3], [0; 3]);
    for second in 10..100 {
        for (number, gateway) in all.iter_mut().enumerate() {
            let part = gateway.report(&mut limiter, seats(held[number], held[number], 1), at(f64::from(second)));
            held[number] = quota(part).unwrap_or_default();
            turns[number] += held[number];
        }
        assert!(held.iter().sum::<u32>() <= 1, "{held:?}");
    }
    assert!(turns.iter().all(|turns| *turns > 10), "{turns:?}");
}

/// Parts of a fleet after a time in which one gateway alone has requests.
fn fleet(limit: FlowControlLimit, gateways: usize, hot: PartUse) -> Vec<LimitPart> {
    let mut limiter = limiter(limit, GlobalStrategy::Count);
    let mut all: Vec<(String, PartUse, LimitPart)> = (0..gateways)
        .map(|number| {
            let used = if number == 0 { hot } else { PartUse { used: 0, wanted: 0, ..hot } };
            (format!("node-{number}"), used, LimitPart::default())
        })
        .collect();
    for round in 1..60 {
        let now = at(10.0) + Duration::from_millis(100) * round;
        for (node, used, part) in &mut all {
            let holder = limiter.holder(node, 1, round.into(), now).unwrap();
            // An idle gateway keeps its tokens.
            let tokens = if used.wanted == 0 { part.tokens } else { 0 };
            let used = PartUse { held: part.quota, used: used.used.min(part.quota) + tokens, ..*used };
            let answer = limiter.exchange(holder, "c", "s", used, now).unwrap().part.unwrap_or_default();
            *part = LimitPart { tokens: (tokens + answer.tokens).min(answer.burst), ..answer };
        }
    }
    all.into_iter().map(|(_, _, part)| part).collect()
}

#[test]
fn reserves_of_a_fleet_leave_half_of_the_seats() {
    for (gateways, max) in [(3, 12), (50, 200), (300, 1_200), (300, 300), (300, 30)] {
        let hot = PartUse { is_rate: false, is_leased: false, held: 0, used: max, wanted: max };
        let parts = fleet(FlowControlLimit::MaxRequestsInflight(max), gateways, hot);
        assert!(parts[0].quota * 2 >= max, "{} of {max} seats with {gateways} gateways", parts[0].quota);
    }
}

#[test]
fn reserves_of_a_fleet_are_a_burst_at_most() {
    for (gateways, qps, burst) in [(3, 200, 400), (50, 500, 1_000), (300, 3_000, 6_000)] {
        let idle = PartUse { is_rate: true, is_leased: false, held: 0, used: 0, wanted: 0 };
        let parts = fleet(FlowControlLimit::TokenBucket { qps, burst }, gateways, idle);
        let tokens: u32 = parts.iter().map(|part| part.tokens).sum();
        assert!(tokens <= burst, "{tokens} of {burst} tokens with {gateways} gateways");
        assert!(parts.iter().all(|part| part.tokens >= 1), "each has one at hand");
    }
}

use portcullis_filter_config::{Rebalance as Config, RebalanceConditions as When};
use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
/// The largest chance, and a random number that is a hit by it.
const CHANCE: u32 = Config::MAX_CHANCE_PER_MILLION;
const HIT: u64 = u64::MAX / 51;
const MISS: u64 = u64::MAX / 50;

fn config(when: Option<When>) -> Config {
    Config { chance_per_million: CHANCE, connections_per_second: 10, when }
}

fn rebalance(when: Option<When>) -> Rebalance {
    Rebalance::compile(&config(when), Arc::default()).unwrap()
}

fn draw(rebalance: &Rebalance, fate: Fate, uptime: Duration) -> Option<Trigger> {
    rebalance.trigger(fate, HIT, uptime, || Some(1_000))
}

#[test]
fn configuration_out_of_bounds_is_refused() {
    let compiles = |config: Config| Rebalance::compile(&config, Arc::default()).is_some();
    for (chance, is_fine) in [(0, false), (1, true), (CHANCE, true), (CHANCE + 1, false), (u32::MAX, false)] {
        assert_eq!(compiles(Config { chance_per_million: chance, ..config(None) }), is_fine, "{chance}");
    }
    for (most, is_fine) in [(0, false), (1, true), (u32::MAX, true)] {
        assert_eq!(compiles(Config { connections_per_second: most, ..config(None) }), is_fine, "{most}");
    }
}

#[test]
fn chance_alone_draws_every_request() {
    let all = rebalance(None);
    assert_eq!(all.trigger(Fate::Forwarded, MISS, SECOND, || None), None);
    assert_eq!(all.trigger(Fate::Forwarded, HIT, SECOND, || None), Some(Trigger::Chance));
    assert_eq!(all.trigger(Fate::Limited, HIT, 2 * SECOND, || None), Some(Trigger::Chance));
    assert!(all.start(false, SECOND).is_none(), "nothing is counted that no condition asks for");
}

#[test]
fn requests_in_flight_count_until_they_end_and_long_ones_never() {
    let busy = rebalance(Some(When { in_flight: Some(2), ..When::default() }));
    let mut places: Vec<_> = (0..2).map(|_| busy.start(false, SECOND).unwrap()).collect();
    assert!(busy.start(true, SECOND).is_none());
    assert_eq!(draw(&busy, Fate::Forwarded, SECOND), None);
    places.push(busy.start(false, SECOND).unwrap());
    assert_eq!(draw(&busy, Fate::Forwarded, SECOND), Some(Trigger::InFlight));
    places.pop();
    assert_eq!(draw(&busy, Fate::Forwarded, 2 * SECOND), None);
}

#[test]
fn rate_is_that_of_the_last_five_whole_seconds() {
    let fast = rebalance(Some(When { requests_per_second: Some(100), ..When::default() }));
    let is_fast = |second: u32| fast.load.is_faster_than(100, second * SECOND);
    for second in 0..8 {
        for request in 0..101 {
            assert!(fast.start(true, second * SECOND + request * SECOND / 200).is_none());
        }
        assert_eq!(is_fast(second), second >= 5, "{second}");
    }
    assert!(is_fast(8));
    assert!(!is_fast(9), "the second before was quiet");
    assert!(!is_fast(1_000));
    for _ in 0..101 * 5 {
        fast.start(false, 1_000 * SECOND);
    }
    assert!(!is_fast(1_000), "the running second says nothing yet");
    assert!((1_001..=1_005).all(is_fast) && !is_fast(1_006));
    fast.load.arrives(990 * SECOND);
    assert!(is_fast(1_001), "a worker that was held up changes nothing");
    assert_eq!(draw(&fast, Fate::Forwarded, 1_001 * SECOND), Some(Trigger::RequestsPerSecond));
}

#[test]
fn memory_is_asked_for_only_where_it_matters() {
    let large = rebalance(Some(When { memory_bytes: Some(999), ..When::default() }));
    let unasked = || -> Option<u64> { panic!("asked") };
    assert_eq!(large.trigger(Fate::Forwarded, MISS, SECOND, unasked), None);
    assert_eq!(rebalance(None).trigger(Fate::Forwarded, HIT, SECOND, unasked), Some(Trigger::Chance));
    assert_eq!(draw(&large, Fate::Forwarded, SECOND), Some(Trigger::Memory));
    assert_eq!(large.trigger(Fate::Forwarded, HIT, 2 * SECOND, || Some(999)), None);
    assert_eq!(large.trigger(Fate::Forwarded, HIT, 2 * SECOND, || None), None, "unknown");
}

#[test]
fn limited_requests_are_drawn_where_the_condition_names_them() {
    let limited = rebalance(Some(When { on_limited: true, ..When::default() }));
    assert_eq!(draw(&limited, Fate::Forwarded, SECOND), None);
    assert_eq!(draw(&limited, Fate::Limited, SECOND), Some(Trigger::Limited));
    let other = rebalance(Some(When { in_flight: Some(1), ..When::default() }));
    assert_eq!(draw(&other, Fate::Limited, SECOND), None);
}

#[test]
fn drains_are_counted_once_by_trigger() {
    let counted = rebalance(None);
    for trigger in [Trigger::Limited, Trigger::Chance, Trigger::Limited] {
        counted.count(trigger);
    }
    assert_eq!(counted.take_counts().collect::<Vec<_>>(), [(Trigger::Chance, 1), (Trigger::Limited, 2)]);
    assert_eq!(counted.take_counts().count(), 0);
}

#[test]
fn workers_together_drain_no_faster_than_one() {
    let load = Arc::<ProcessLoad>::default();
    let drained: usize = std::thread::scope(|scope| {
        let worker = || {
            let one = Rebalance::compile(&config(None), Arc::clone(&load)).unwrap();
            let times = (0..20_000).map(|step| Duration::from_micros(step * 100));
            scope.spawn(move || times.filter(|time| draw(&one, Fate::Forwarded, *time).is_some()).count())
        };
        let workers: Vec<_> = (0..4).map(|_| worker()).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    // Two seconds of uptime.
    assert!((1..=20).contains(&drained), "{drained}");
}

proptest! {
    /// However many requests come, and whichever are hits: in no span more drains than its length allows, and none without a hit.
    #[test]
    fn drains_are_spread_over_time(
        per_second in 1..1_000_u32,
        requests in prop::collection::vec((0..200_000_u64, any::<u64>()), 1..400),
    ) {
        let config = Config { connections_per_second: per_second, ..config(None) };
        let rebalance = Rebalance::compile(&config, Arc::default()).unwrap();
        let interval = SECOND / per_second;
        let (mut now, mut last) = (Duration::ZERO, None);
        for (step, random) in requests {
            now += Duration::from_micros(step);
            // Hits in two of three cases.
            let random = random >> 5;
            let drains = rebalance.trigger(Fate::Forwarded, random, now, || None).is_some();
            let is_hit = random < u64::MAX / 1_000_000 * 20_000;
            let is_due = last.is_none_or(|last| now.max(Duration::from_nanos(1)) >= last + interval);
            prop_assert_eq!(drains, is_hit && is_due, "{:?} after {:?}", now, last);
            if drains {
                last = Some(now.max(Duration::from_nanos(1)));
            }
        }
    }
}

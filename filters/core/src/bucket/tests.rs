use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn bucket(qps: u32, burst: u32) -> TokenBucket {
    TokenBucket::new(Rate { qps, burst })
}

fn take_at(bucket: &TokenBucket, nanos: u64) -> bool {
    bucket.take(Duration::from_nanos(nanos))
}

/// How many are admitted at one moment, of more than there can be.
fn drain(bucket: &TokenBucket, nanos: u64) -> usize {
    (0..1_000).take_while(|_| take_at(bucket, nanos)).count()
}

#[test]
fn burst_comes_at_once_and_then_a_token_at_a_time() {
    let bucket = bucket(4, 10);
    let start = 77 * SECOND;
    assert_eq!(drain(&bucket, start), 10);
    // (nanoseconds after the start, admitted): a quarter of a second each, not a whole second's at once.
    for (after, admitted) in [
        (SECOND / 4 - 1, 0),
        (SECOND / 4, 1),
        (SECOND / 2, 1),
        (SECOND, 2),
        (SECOND + SECOND / 8, 0),
        (SECOND + SECOND / 4, 1),
        (100 * SECOND, 10),
    ] {
        assert_eq!(drain(&bucket, start + after), admitted, "{after}");
    }
}

#[test]
fn refusals_take_nothing() {
    let bucket = bucket(1, 1);
    assert!(take_at(&bucket, 0));
    for step in 1..100_000 {
        assert!(!take_at(&bucket, step * 10_000 - 1), "{step}");
    }
    assert!(take_at(&bucket, SECOND));
}

#[test]
fn rate_that_divides_no_second_does_not_drift() {
    let bucket = bucket(3, 3);
    assert_eq!(drain(&bucket, 0), 3);
    let hour = 3_600;
    let admitted: u64 = (1..=hour * 10).filter(|tenth| take_at(&bucket, tenth * SECOND / 10)).count() as u64;
    assert_eq!(admitted, hour * 3);
}

#[test]
fn clock_that_goes_back_neither_gives_nor_takes() {
    let bucket = bucket(1, 2);
    assert_eq!(drain(&bucket, 10 * SECOND), 2);
    assert_eq!(drain(&bucket, 0), 0);
    assert_eq!(drain(&bucket, 10 * SECOND), 0, "the way back is no time");
    assert_eq!(drain(&bucket, 11 * SECOND), 1, "and the way there counts once");
}

#[test]
fn edges_of_numbers_and_time_hold() {
    let largest = bucket(u32::MAX, u32::MAX);
    assert!(take_at(&largest, 0));
    assert!(take_at(&largest, u64::MAX));
    assert!(largest.take(Duration::MAX));
    assert_eq!(largest.rate.full(), u64::from(u32::MAX) * TOKEN, "does not saturate");
    let never = bucket(0, 1);
    assert!(take_at(&never, 0));
    assert!(!never.take(Duration::MAX));
    assert!(!bucket(5, 0).take(Duration::MAX));
}

#[test]
fn threads_together_get_what_one_would() {
    let bucket = bucket(1_000, 500);
    let admitted: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8_u64)
            .map(|worker| {
                let bucket = &bucket;
                // Each worker's clock goes its own way through the same second.
                let times = (0..5_000_u64).map(move |step| (step * 200_000 + worker * 31_337).min(SECOND));
                scope.spawn(move || times.filter(|nanos| take_at(bucket, *nanos)).count())
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    // Full when the first worker asks, 219 microseconds after the start at the latest: what would flow over is lost.
    let all = admitted + drain(&bucket, SECOND);
    assert!((1_499..=1_500).contains(&all), "{all}");
}

proptest! {
    /// Whatever the times are, also out of order: in no span more than burst + qps × its length, by exact arithmetic.
    #[test]
    fn never_more_than_burst_and_rate_in_any_span(
        qps in prop_oneof![Just(0_u32), 1..20_u32, any::<u32>()],
        burst in 0..20_u32,
        steps in prop::collection::vec(
            prop_oneof![Just(0_i64), -SECOND_I..SECOND_I, -100_i64..100, 0..100 * SECOND_I], 1..120),
    ) {
        let bucket = bucket(qps, burst);
        let mut now = 50 * SECOND;
        let mut admitted: Vec<u64> = Vec::new();
        let mut latest = 0;
        for step in steps {
            now = now.saturating_add_signed(step);
            latest = latest.max(now);
            while admitted.len() < 2_000 && take_at(&bucket, now) {
                // A token given by a clock that is behind is given now.
                admitted.push(latest);
                if qps > 20 { break }
            }
        }
        for (first, from) in admitted.iter().enumerate() {
            for (last, to) in admitted.iter().enumerate().skip(first) {
                let count = (last - first + 1) as u128 * u128::from(TOKEN);
                let allowed = u128::from(burst) * u128::from(TOKEN) + u128::from(qps) * u128::from(to - from);
                prop_assert!(count <= allowed, "{} admitted in {} ns", last - first + 1, to - from);
            }
        }
    }

    /// Against a model of rational numbers: admits exactly when the model does.
    #[test]
    fn equals_the_model(
        qps in 1..50_u32,
        burst in 1..10_u32,
        steps in prop::collection::vec(0..SECOND, 1..200),
    ) {
        let bucket = bucket(qps, burst);
        let full = u128::from(burst) * u128::from(SECOND);
        let (mut now, mut tokens) = (0_u64, full);
        for step in steps {
            now += step;
            tokens = (tokens + u128::from(step) * u128::from(qps)).min(full);
            let expected = tokens >= u128::from(SECOND);
            if expected { tokens -= u128::from(SECOND); }
            prop_assert_eq!(take_at(&bucket, now), expected);
        }
    }
}

const SECOND_I: i64 = SECOND as i64;

//! The bounds within which all is tried, and the findings.

use portcullis_filter_config::GlobalStrategy;
use stateright::{Checker, Model};

use super::{ADMITTED, ALONE, BOTH, Content, GATEWAYS, Leases, Letter, PARTS, RENEWED, Situation, Step};

/// Tries all within the bounds. Returns what it found: examples of what may be, and of what must not be.
fn explore(leases: Leases) -> Vec<&'static str> {
    let checker = leases.checker().spawn_bfs().join();
    println!("{} states, {} of them different", checker.state_count(), checker.unique_state_count());
    for broken in [PARTS, ADMITTED] {
        if let Some(path) = checker.discovery(broken) {
            println!("{broken}:\n{path}");
        }
    }
    let mut found: Vec<&str> = checker.discoveries().into_keys().collect();
    found.sort_unstable();
    found
}

fn leases(strategy: GlobalStrategy, (steps, reports): (u32, [u64; GATEWAYS])) -> Leases {
    // The first gateway, which has all at first, has a clock as slow as may be.
    Leases {
        max: 2,
        strategy,
        clocks: [97, 100],
        steps,
        reports,
        restarts: 0,
        limiters: 0,
        has_silence: false,
        early: 0,
    }
}

#[test]
fn leases_stay_within_the_limit_in_all_orders_of_messages() {
    for strategy in [GlobalStrategy::Allocate, GlobalStrategy::Count] {
        assert_eq!(explore(leases(strategy, (2, [1, 1]))), [ALONE, BOTH]);
    }
}

#[test]
fn leases_stay_within_the_limit_past_a_new_limiter() {
    let replaced = Leases { limiters: 1, ..leases(GlobalStrategy::Allocate, (2, [1, 0])) };
    assert_eq!(explore(replaced), [RENEWED]);
}

#[test]
fn leases_stay_within_the_limit_past_a_silent_limiter() {
    let silent = Leases { limiters: 1, has_silence: true, ..leases(GlobalStrategy::Allocate, (2, [0, 1])) };
    assert_eq!(explore(silent), [ALONE, RENEWED]);
}

/// As another replica that divides from a moment at which the one before answers still.
#[test]
fn limiter_that_counts_from_too_early_breaks_the_limit() {
    let silent = Leases { limiters: 1, has_silence: true, ..leases(GlobalStrategy::Allocate, (2, [0, 1])) };
    let found = explore(Leases { early: 1, ..silent });
    assert!(found.contains(&PARTS), "{found:?}");
}

#[test]
fn leases_stay_within_the_limit_past_a_restart() {
    let restarted = Leases { restarts: 1, ..leases(GlobalStrategy::Allocate, (2, [0, 0])) };
    assert_eq!(explore(restarted), [ALONE]);
}

/// Found by the test of all of that: a report is written under a lease and comes to another limiter after the first one has given
/// the part away.
#[test]
fn late_report_to_a_new_limiter_revives_no_lease() {
    let leases = Leases { limiters: 1, ..leases(GlobalStrategy::Allocate, (2, [1, 1])) };
    let letter = |last: &Situation, gateway: usize, is_answer: bool| {
        let is_it = |letter: &&Letter| {
            letter.gateway == gateway
                && letter.number == last.gateways[gateway].reports
                && matches!(letter.content, Content::Quota(_)) == is_answer
        };
        Step::Deliver(*last.letters.iter().find(is_it).unwrap())
    };
    let mut last = leases.init_states().remove(0);
    for step in [Step::Tick, Step::Busy(0), Step::Tick, Step::Busy(1)] {
        last = leases.follow(last, step);
    }
    // The first limiter gives the part to the second gateway, and another one begins.
    for (gateway, is_answer) in [(1, false), (1, true)] {
        let step = letter(&last, gateway, is_answer);
        last = leases.follow(last, step);
    }
    assert_eq!(last.gateways[1].quota, Some(2));
    last = leases.follow(last, Step::Replace);
    for is_answer in [false, true] {
        let step = letter(&last, 0, is_answer);
        last = leases.follow(last, step);
    }
    assert_eq!(last.gateways[0].quota, None, "the other gateway has all");
}

#[test]
fn clock_that_is_slower_than_may_be_breaks_the_limit() {
    let slow = Leases { clocks: [96, 100], ..leases(GlobalStrategy::Allocate, (2, [1, 1])) };
    assert_eq!(explore(slow), [ALONE, BOTH, PARTS, ADMITTED]);
}

#[test]
#[ignore = "takes minutes: cargo test --release -p portcullis-limits --lib model -- --ignored --nocapture"]
fn leases_stay_within_the_limit_past_all_of_that() {
    let both_busy = Leases { limiters: 1, ..leases(GlobalStrategy::Allocate, (2, [1, 1])) };
    assert_eq!(explore(both_busy), [ALONE, RENEWED, BOTH]);
    let idle = Leases { restarts: 1, limiters: 1, ..leases(GlobalStrategy::Allocate, (2, [0, 0])) };
    assert_eq!(explore(idle), [ALONE, RENEWED]);
    let all = Leases { restarts: 1, limiters: 1, ..leases(GlobalStrategy::Allocate, (2, [1, 0])) };
    assert_eq!(explore(all), [ALONE, RENEWED, BOTH]);
}

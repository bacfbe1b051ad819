use std::collections::BTreeMap;

use portcullis_api::status::{ConditionType, State};

use super::super::history::Histories;
use super::super::rates::Rates;
use super::super::transitions::Transitions;
use super::{Clock, condition};

fn rates(answers: f64) -> Rates {
    Rates { answers, running: 2, ..Rates::default() }
}

#[test]
fn history_has_a_point_each_ten_seconds_for_an_hour() {
    let (clock, mut histories) = (Clock::new(), Histories::default());
    let mut written = 0;
    // A turn each second, of which some come late.
    for seconds in (0..5_000).filter(|second| second % 7 != 3) {
        let now = clock.moment(seconds);
        if histories.is_due(now) {
            written += 1;
            let of_all = BTreeMap::from([("a", rates(seconds as f64))]);
            histories.add(&of_all, |_| true, now);
        }
    }
    assert_eq!(written, 500, "late turns do not add up");
    let points = histories.of("a", clock.moment(5_000));
    assert_eq!(points.len(), 360);
    assert!(points.is_sorted_by_key(|point| point.time));
    let last = points.last().unwrap();
    assert_eq!(last.numbers.requests_per_second, (last.time - super::START) as f64);
    assert_eq!((last.numbers.running, last.numbers.p50), (2, None));
    assert_eq!(histories.of("a", clock.moment(9_000)).len(), 0, "an hour later");
    assert_eq!(histories.of("b", clock.moment(5_000)).len(), 0);
}

#[test]
fn history_of_a_removed_object_is_forgotten() {
    let (clock, mut histories) = (Clock::new(), Histories::default());
    histories.add(&BTreeMap::from([("a", rates(1.0)), ("b", rates(2.0))]), |_| true, clock.moment(0));
    histories.add(&BTreeMap::from([("b", rates(2.0))]), |name| name == "b", clock.moment(10));
    assert_eq!(histories.of("a", clock.moment(10)).len(), 0);
    assert_eq!(histories.of("b", clock.moment(10)).len(), 2);
}

#[test]
fn histories_are_bounded() {
    let (clock, mut histories) = (Clock::new(), Histories::default());
    let names: Vec<String> = (0..4_000).map(|number| format!("c{number:04}")).collect();
    let of_all = names.iter().map(|name| (name.as_str(), rates(1.0))).collect();
    histories.add(&of_all, |_| true, clock.moment(0));
    let with_history = names.iter().filter(|name| !histories.of(name, clock.moment(0)).is_empty()).count();
    assert_eq!(with_history, 3_000);
}

#[test]
fn transitions_are_changes_of_status_or_reason() {
    let (clock, mut transitions) = (Clock::new(), Transitions::default());
    let mut look = |seconds, status, reason: &str| {
        let conditions = [condition(ConditionType::Ready, status, reason, "a message")];
        transitions.look("a", &conditions, clock.moment(seconds))
    };
    assert!(!look(0, State::True, "EndpointsHealthy"), "the first one has not changed");
    assert!(!look(1, State::True, "EndpointsHealthy"));
    assert!(look(2, State::True, "SomeUnhealthy"));
    assert!(look(3, State::False, "NoHealthyEndpoints"));
    let seen: Vec<_> =
        transitions.of("a").into_iter().map(|one| (one.time - super::START, one.status, one.reason)).collect();
    let expected = [(3, "False", "NoHealthyEndpoints"), (2, "True", "SomeUnhealthy")];
    assert_eq!(seen, expected.map(|(time, status, reason)| (time, status.to_owned(), reason.to_owned())));
    transitions.forget("a");
    assert!(transitions.of("a").is_empty(), "the object is removed");
}

#[test]
fn transitions_are_bounded_for_each_object_and_in_all() {
    let (clock, mut transitions) = (Clock::new(), Transitions::default());
    let names: Vec<String> = (0..1_500).map(|number| format!("c{number}")).collect();
    for turn in 0..30 {
        let conditions = [condition(ConditionType::Ready, State::True, &turn.to_string(), &"x".repeat(1_000))];
        for name in &names {
            transitions.look(name, &conditions, clock.moment(turn));
        }
    }
    let counts: Vec<usize> = names.iter().map(|name| transitions.of(name).len()).collect();
    assert!(counts.iter().all(|count| (1..=20).contains(count)), "{counts:?}");
    assert!(counts.iter().sum::<usize>() <= 20_000);
    for name in &names {
        let newest = &transitions.of(name)[0];
        assert_eq!((newest.reason.as_str(), newest.message.len()), ("29", 256));
    }
}

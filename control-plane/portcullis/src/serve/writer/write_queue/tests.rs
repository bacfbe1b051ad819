use proptest::prelude::*;

use super::*;

const START: Uptime = Duration::from_secs(100);

fn at(millis: u64) -> Uptime {
    START + Duration::from_millis(millis)
}

fn take(queue: &mut WriteQueue<&'static str, u8>, millis: u64) -> Option<u8> {
    queue.take(at(millis)).map(|(_, value)| value)
}

#[test]
fn newest_is_written_once_a_second() {
    let mut queue = WriteQueue::default();
    queue.want(&"a", 1, false, at(0));
    assert_eq!(take(&mut queue, 0), Some(1));
    queue.want(&"a", 2, false, at(10));
    assert_eq!(take(&mut queue, 20), None, "one write at a time");
    queue.done(&"a", WriteOutcome::Written, at(30));
    queue.want(&"a", 3, false, at(40));
    assert_eq!((take(&mut queue, 1_029), queue.next()), (None, Some(at(1_030))));
    assert_eq!(take(&mut queue, 1_030), Some(3));
    queue.done(&"a", WriteOutcome::Written, at(1_040));
    queue.want(&"a", 3, false, at(2_500));
    assert_eq!(take(&mut queue, 2_500), None, "the server has not told yet that it has it");
    queue.want(&"a", 3, true, at(3_000));
    assert_eq!((take(&mut queue, 60_000), queue.next()), (None, None), "nothing has changed");
    queue.want(&"a", 3, false, at(60_000));
    assert_eq!(take(&mut queue, 60_000), Some(3), "somebody wrote over it");
}

#[test]
fn objects_do_not_wait_for_each_other_and_none_starves() {
    let mut queue = WriteQueue::default();
    for key in ["a", "b", "c"] {
        queue.want(&key, 1, false, at(0));
    }
    let mut taken = Vec::new();
    while let Some((key, _)) = queue.take(at(0)) {
        queue.done(&key, WriteOutcome::Written, at(0));
        queue.want(&key, 2, false, at(0));
        taken.push(key);
    }
    assert_eq!(taken, ["a", "b", "c"]);
    assert_eq!(queue.take(at(1_000)).unwrap().0, "a");
}

#[test]
fn objects_that_are_always_new_go_before_none_that_waits() {
    let names: Vec<String> = (0..100).map(|number| format!("a{number:03}")).collect();
    let mut queue = WriteQueue::default();
    let old = "z".to_owned();
    queue.want(&old, 1, false, at(0));
    queue.take(at(0)).unwrap();
    queue.done(&old, WriteOutcome::Written, at(0));
    queue.want(&old, 2, false, at(5_000));
    let mut taken = 0;
    for (second, name) in (5..).zip(&names) {
        queue.want(name, 1, false, at(second * 1_000 + 1));
        let (key, _) = queue.take(at(second * 1_000 + 2)).unwrap();
        taken += 1;
        queue.done(&key, WriteOutcome::Failed, at(second * 1_000 + 3));
        queue.remove(name);
        if key == old {
            break;
        }
    }
    assert_eq!(taken, 1);
}

#[test]
fn object_at_which_the_server_fails_waits_alone() {
    let mut queue = WriteQueue::default();
    queue.want(&"a", 1, false, at(0));
    let mut now = 0;
    let mut pauses = Vec::new();
    for _ in 0..8 {
        queue.take(at(now)).unwrap();
        queue.done(&"a", WriteOutcome::Failed, at(now));
        queue.want(&"b", 1, false, at(now));
        assert_eq!(queue.take(at(now)).unwrap().0, "b", "the others go on");
        queue.done(&"b", WriteOutcome::Written, at(now));
        queue.remove(&"b");
        let next = u64::try_from((queue.next().unwrap() - START).as_millis()).unwrap();
        pauses.push(next - now);
        now = next;
    }
    assert_eq!(pauses, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    assert!(!queue.is_away());
}

#[test]
fn server_that_is_away_is_left_alone() {
    let mut queue = WriteQueue::default();
    queue.want(&"a", 1, false, at(0));
    queue.want(&"b", 1, false, at(0));
    let mut now = 0;
    let mut pauses = Vec::new();
    for _ in 0..7 {
        let (key, _) = queue.take(at(now)).unwrap();
        queue.done(&key, WriteOutcome::Away, at(now));
        let next = u64::try_from((queue.next().unwrap() - START).as_millis()).unwrap();
        pauses.push(next - now);
        now = next;
        assert!(queue.take(at(now - 1)).is_none());
    }
    assert_eq!(pauses, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    let (key, value) = queue.take(at(now)).unwrap();
    assert_eq!(value, 1, "nothing is lost");
    queue.done(&key, WriteOutcome::Written, at(now));
    assert!(!queue.is_away());
    assert!(queue.take(at(now)).is_some(), "the other one follows at once");
}

#[test]
fn object_that_is_gone_or_refused_rests() {
    let mut queue = WriteQueue::default();
    queue.want(&"a", 1, false, at(0));
    queue.want(&"b", 1, false, at(0));
    assert!(queue.take(at(0)).is_some() && queue.take(at(0)).is_some());
    queue.done(&"a", WriteOutcome::Gone, at(0));
    queue.done(&"b", WriteOutcome::Refused, at(0));
    assert_eq!(take(&mut queue, 5_000), None);
    queue.want(&"b", 2, false, at(5_000));
    assert_eq!(take(&mut queue, 59_999), None);
    assert_eq!(take(&mut queue, 60_000), Some(2));
    queue.keep(|_| false);
    assert!(!queue.knows(&"a") && queue.knows(&"b"), "what is under way is kept until it ends");
    queue.done(&"b", WriteOutcome::Written, at(60_000));
    queue.keep(|_| false);
    assert!(!queue.knows(&"b"));
    queue.want(&"c", 1, false, at(61_000));
    queue.forget();
    assert!(take(&mut queue, 61_000).is_none() && !queue.knows(&"c"));
}

#[test]
fn write_without_a_visible_effect_is_repeated() {
    let mut queue = WriteQueue::default();
    queue.want(&"a", 1, false, at(0));
    queue.want(&"b", 1, false, at(0));
    assert!(queue.take(at(0)).is_some() && queue.take(at(0)).is_some());
    assert!(queue.take_repeats(at(60_000)).is_empty(), "the writes are under way");
    queue.done(&"a", WriteOutcome::Written, at(0));
    queue.done(&"b", WriteOutcome::Gone, at(0));
    assert_eq!(queue.take_repeats(at(1_000)), ["b"], "the source may show it still");
    queue.want(&"b", 1, false, at(1_000));
    assert_eq!(take(&mut queue, 1_000), Some(1));
    queue.remove(&"b");
    assert!(queue.take_repeats(at(9_999)).is_empty());
    assert_eq!(queue.take_repeats(at(10_000)), ["a"]);
    assert!(queue.take_repeats(at(10_000)).is_empty(), "once");
    queue.want(&"a", 1, false, at(10_000));
    assert_eq!(take(&mut queue, 10_000), Some(1));
    queue.done(&"a", WriteOutcome::Written, at(10_000));
    queue.want(&"a", 1, true, at(11_000));
    assert!(queue.take_repeats(at(60_000)).is_empty(), "the server has it");
    queue.want(&"a", 1, false, at(12_000));
    assert_eq!(queue.take_repeats(at(20_000)), ["a"], "another client wrote over it soon after");
}

/// The status goes back while the write of another one is under way.
#[test]
fn status_that_is_overwritten_is_written_again() {
    let mut queue = WriteQueue::default();
    queue.want(&"a", 1, false, at(0));
    assert_eq!(take(&mut queue, 0), Some(1));
    queue.done(&"a", WriteOutcome::Written, at(0));
    queue.want(&"a", 2, false, at(2_000));
    assert_eq!(take(&mut queue, 2_000), Some(2));
    queue.want(&"a", 1, false, at(2_100));
    queue.done(&"a", WriteOutcome::Written, at(2_200));
    assert_eq!(take(&mut queue, 4_000), Some(1));
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Want(usize, u8),
    Take,
    Done(WriteOutcome),
}

fn step() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![
        6 => Just(WriteOutcome::Written),
        1 => Just(WriteOutcome::Gone),
        1 => Just(WriteOutcome::Refused),
        1 => Just(WriteOutcome::Away),
    ];
    prop_oneof![
        (0..700_u64).prop_map(Step::Wait),
        (0..3_usize, 0..4_u8).prop_map(|(key, value)| Step::Want(key, value)),
        Just(Step::Take),
        outcome.prop_map(Step::Done),
    ]
}

proptest! {
    /// Whatever happens: a second after each write of an object, one of them under way at a time, never a value that
    /// is not the newest, never again what was written, and in the end the server has what is wanted.
    #[test]
    fn no_object_is_written_faster_than_once_a_second(steps in prop::collection::vec(step(), 1..200)) {
        const KEYS: [&str; 3] = ["a", "b", "c"];
        let mut queue: WriteQueue<&'static str, u8> = WriteQueue::default();
        let mut now = 0;
        let mut wanted = [None; 3];
        let mut server = [None; 3];
        // Objects are looked at when one of both is another one, or when the queue asks for it.
        let mut planned = [None; 3];
        let mut last_end = [None::<u64>; 3];
        let mut under_way: Vec<(usize, u8)> = Vec::new();
        let finish = [Step::Done(WriteOutcome::Written), Step::Wait(120_000), Step::Take];
        let ending = finish.iter().cycle().take(60).cloned();
        for step in steps.into_iter().chain(ending) {
            match step {
                Step::Wait(millis) => now += millis,
                Step::Want(key, value) => wanted[key] = Some(value),
                Step::Take => {
                    let repeated = queue.take_repeats(at(now));
                    for (key, name) in KEYS.iter().enumerate() {
                        let inputs = (wanted[key], server[key]);
                        if planned[key] == Some(inputs) && !repeated.contains(name) {
                            continue;
                        }
                        planned[key] = Some(inputs);
                        if let Some(value) = wanted[key] {
                            queue.want(name, value, server[key] == Some(value), at(now));
                        }
                    }
                    while let Some((name, value)) = queue.take(at(now)) {
                        let key = KEYS.iter().position(|one| *one == name).unwrap();
                        prop_assert_eq!(Some(value), wanted[key], "the newest");
                        prop_assert_ne!(Some(value), server[key], "not what is there");
                        prop_assert!(under_way.iter().all(|(other, _)| *other != key));
                        prop_assert!(last_end[key].is_none_or(|last| now >= last + 1_000));
                        under_way.push((key, value));
                    }
                }
                Step::Done(outcome) => {
                    for (key, value) in under_way.drain(..) {
                        if outcome == WriteOutcome::Written {
                            server[key] = Some(value);
                        }
                        queue.done(&KEYS[key], outcome, at(now));
                        last_end[key] = Some(now);
                    }
                }
            }
        }
        for (key, value) in under_way {
            server[key] = Some(value);
        }
        prop_assert_eq!(server, wanted);
    }
}

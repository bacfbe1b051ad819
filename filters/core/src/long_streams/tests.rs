use std::cell::RefCell;
use std::sync::LazyLock;
use std::sync::atomic::AtomicU32;

use super::*;
use crate::testing::moment;

const GRACE: Duration = Duration::from_secs(10);
static KEPT: LazyLock<RouteLoad> = LazyLock::new(|| RouteLoad::newest(&Edition::default()));

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn on(server: &str) -> StreamStart<'_> {
    StreamStart { is_session: false, ..session(Some(server)) }
}

fn session(server: Option<&str>) -> StreamStart<'_> {
    let received = Duration::ZERO;
    StreamStart { server, is_session: true, is_answer: false, kept: &KEPT, load: 0, received, origin: None }
}

fn ended_why(streams: &Arc<StreamRegistry<u32>>, now: u64) -> (Vec<(u32, TerminationReason)>, Option<Duration>) {
    let ended = RefCell::new(Vec::new());
    let next = streams.expire(at(now), |stream, why| ended.borrow_mut().push((*stream, why)));
    (ended.into_inner(), next)
}

fn ended(streams: &Arc<StreamRegistry<u32>>, now: u64) -> (Vec<u32>, Option<Duration>) {
    let (ended, next) = ended_why(streams, now);
    (ended.into_iter().map(|(stream, _)| stream).collect(), next)
}

#[test]
fn streams_of_a_removed_server_end_after_the_drain_period() {
    let streams = Arc::new(StreamRegistry::default());
    assert_eq!(streams.set_servers(["a", "b", "c"].into_iter(), GRACE, 0, at(0)), None);
    let stays: Vec<_> = [("a", 1), ("b", 2), ("b", 3), ("c", 4)]
        .into_iter()
        .map(|(server, number)| streams.register(on(server), number, moment(at(1))))
        .collect();
    assert!(stays.iter().all(|(_, end)| end.is_none()));
    let all = RefCell::new(Vec::new());
    streams.for_each(|stream| all.borrow_mut().push(*stream));
    assert_eq!(all.into_inner(), [1, 2, 3, 4]);
    assert_eq!(streams.set_servers(["a", "c"].into_iter(), GRACE, 0, at(5)), Some(at(15)));
    assert_eq!(streams.set_servers(["a"].into_iter(), GRACE, 0, at(8)), Some(at(15)), "b is gone since 5 s");
    assert_eq!(ended(&streams, 14), (vec![], Some(at(15))));
    assert_eq!(ended(&streams, 15), (vec![2, 3], Some(at(18))));
    assert_eq!(ended(&streams, 18), (vec![4], None));
    assert_eq!(ended(&streams, 99), (vec![], None), "once");
    drop(stays);
    assert!(streams.lock().servers.is_empty());
}

#[test]
fn server_that_comes_back_keeps_its_streams() {
    let streams = Arc::new(StreamRegistry::default());
    streams.set_servers(["a"].into_iter(), GRACE, 0, at(0));
    let _stay = streams.register(on("a"), 1, moment(at(0)));
    assert_eq!(streams.set_servers([].into_iter(), GRACE, 0, at(5)), Some(at(15)));
    assert_eq!(streams.set_servers(["a"].into_iter(), GRACE, 0, at(9)), None);
    assert_eq!(ended(&streams, 99), (vec![], None));
    assert_eq!(streams.set_servers([].into_iter(), GRACE, 0, at(100)), Some(at(110)));
    assert_eq!(streams.set_servers([].into_iter(), at(2), 0, at(101)), Some(at(102)));
    assert_eq!(ended(&streams, 102).0, vec![1]);
}

#[test]
fn stream_that_starts_on_a_removed_server_drains_too() {
    let streams = Arc::new(StreamRegistry::default());
    let (early, none) = streams.register(on("x"), 1, moment(at(0)));
    assert_eq!((none, ended(&streams, 99).1), (None, None), "nobody said which servers there are");
    streams.set_servers(["a"].into_iter(), GRACE, 0, at(1));
    let (_late, end) = streams.register(on("y"), 2, moment(at(3)));
    assert_eq!(end, Some(at(11)), "x first");
    drop(early);
    assert_eq!(ended(&streams, 12), (vec![], Some(at(13))));
    assert_eq!(ended(&streams, 13), (vec![2], None));
}

#[test]
fn sessions_alone_end_after_their_longest_duration() {
    let streams = Arc::new(StreamRegistry::default());
    streams.set_servers(["a"].into_iter(), GRACE, 0, at(0));
    assert_eq!(streams.limit_sessions(Some(at(60))), None);
    let (_watch, none) = streams.register(on("a"), 1, moment(at(0)));
    assert_eq!(none, None);
    let (_first, end) = streams.register(session(Some("a")), 2, moment(at(10)));
    assert_eq!(end, Some(at(70)));
    let (_second, later) = streams.register(session(None), 3, moment(at(20)));
    assert_eq!(later, None, "it is looked for when the first one ends");
    let (third, _) = streams.register(session(Some("a")), 4, moment(at(30)));
    assert_eq!(ended_why(&streams, 69), (vec![], Some(at(70))));
    assert_eq!(ended_why(&streams, 70), (vec![(2, TerminationReason::SessionLimit)], Some(at(80))));
    drop(third);
    assert_eq!(
        ended_why(&streams, 80),
        (vec![(3, TerminationReason::SessionLimit)], None),
        "the third one left by itself"
    );
    let (_fourth, end) = streams.register(session(Some("a")), 5, moment(at(90)));
    assert_eq!(end, Some(at(150)), "nobody waits any more");
    let all = RefCell::new(Vec::new());
    streams.for_each(|stream| all.borrow_mut().push(*stream));
    assert_eq!(all.into_inner(), [1, 5]);
}

#[test]
fn another_limit_holds_for_sessions_that_run() {
    let streams = Arc::new(StreamRegistry::default());
    let _stays =
        [streams.register(session(Some("a")), 1, moment(at(0))), streams.register(session(None), 2, moment(at(50)))];
    assert_eq!(ended(&streams, 1_000), (vec![], None), "no limit");
    assert_eq!(streams.limit_sessions(Some(at(5_000))), Some(at(5_000)));
    assert_eq!(streams.limit_sessions(Some(at(60))), Some(at(60)));
    assert_eq!(ended(&streams, 100), (vec![1], Some(at(110))));
    assert_eq!(streams.limit_sessions(None), None);
    assert_eq!(ended(&streams, 200), (vec![], None));
}

#[test]
fn session_ends_once_by_what_comes_first() {
    let streams = Arc::new(StreamRegistry::default());
    streams.set_servers(["a"].into_iter(), GRACE, 0, at(0));
    streams.limit_sessions(Some(at(60)));
    let (_removed, _) = streams.register(session(Some("a")), 1, moment(at(0)));
    assert_eq!(streams.set_servers([].into_iter(), GRACE, 0, at(5)), Some(at(15)));
    assert_eq!(ended_why(&streams, 15), (vec![(1, TerminationReason::ServerRemoved)], None));
    assert_eq!(ended_why(&streams, 60), (vec![], None));
    let (_limited, end) = streams.register(session(Some("b")), 2, moment(at(100)));
    assert_eq!(end, Some(at(110)));
    streams.limit_sessions(Some(at(1)));
    assert_eq!(ended_why(&streams, 101), (vec![(2, TerminationReason::SessionLimit)], None));
    assert_eq!(ended_why(&streams, 110), (vec![], None));
}

#[test]
fn ordinary_answer_to_an_upgrade_ends_after_a_minute() {
    let streams = Arc::new(StreamRegistry::default());
    streams.set_servers(["a"].into_iter(), GRACE, 0, at(0));
    let answer = |server| StreamStart { is_answer: true, ..on(server) };
    let (_watch, end) = streams.register(on("a"), 1, moment(at(0)));
    assert_eq!(end, None);
    let (first, end) = streams.register(answer("a"), 2, moment(at(10)));
    assert_eq!(end, Some(at(70)));
    let (_second, end) = streams.register(answer("a"), 3, moment(at(30)));
    assert_eq!(end, None, "the first one's end comes before");
    drop(first);
    assert_eq!(ended_why(&streams, 70), (vec![], Some(at(90))));
    assert_eq!(ended_why(&streams, 90), (vec![(3, TerminationReason::UpgradeIgnored)], None));
}

#[test]
fn shutdown_drains_once_and_ends_watches_until_its_end() {
    static STREAMS: LazyLock<StreamOwners<StreamHandle<Arc<AtomicU32>>>> = LazyLock::new(StreamOwners::default);
    let registry = STREAMS.of("prod", "object");
    let streams: Vec<_> = (0..11).map(|number| StreamHandle::new(Arc::default(), number > 0)).collect();
    let _guards: Vec<_> =
        streams.iter().map(|stream| registry.register(on("a"), stream.clone(), moment(at(0)))).collect();
    let shutdown = Shutdown::new(&STREAMS, at(2));
    let (mut now, mut open) = (at(1), Vec::new());
    for _ in 0..11 {
        let next = shutdown.run(now).unwrap();
        assert_eq!(next.saturating_sub(now), Duration::from_millis(100));
        now = next;
        open.push(streams.iter().filter(|stream| stream.is_open_watch()).count());
    }
    assert_eq!(open, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0]);
    let commands = [StreamCommand::DrainConnection, StreamCommand::End];
    let sent: Vec<_> = streams.iter().map(|stream| stream.take_commands(commands)).collect();
    assert_eq!((sent[0], &sent[1..]), ([true, false], &[[true, true]; 10][..]));
}

#[test]
fn streams_of_ended_loads_end_at_once() {
    let owners = StreamOwners::<u32>::default();
    // Two objects that have had the name one after the other.
    let objects = [owners.of("a", "1"), owners.of("a", "2")];
    let mut guards = Vec::new();
    let mut loads = Vec::new();
    for number in 0..300 {
        let streams = &objects[usize::from(number >= 150)];
        loads.push(RouteLoad::newest(&Edition::new(number.into(), 1, 1)));
        let kept = &loads[number as usize];
        let concerned = use_alone(&owners, "a", kept, (1, 1), 0);
        assert_eq!(concerned.len(), if number >= 256 { 2 } else { 0 }, "{number}");
        let (watch, due) = streams.register(StreamStart { kept, ..on("a") }, number, moment(at(1)));
        assert_eq!(due, None);
        guards.push((watch, streams.register(StreamStart { kept, ..session(Some("a")) }, number, moment(at(1))).0));
        let replaced = |number: u32| [(number, TerminationReason::ConfigurationReplaced); 2].to_vec();
        let expected = number.checked_sub(256).map_or_else(Vec::new, replaced);
        assert_eq!(ended_why(&objects[0], 1).0, expected, "{number}");
        assert_eq!(ended_why(&objects[1], 1).0, vec![]);
    }
    let (_late, due) = objects[0].register(StreamStart { kept: &loads[0], ..on("a") }, 7, moment(at(2)));
    assert_eq!(due, Some(at(2)), "it has begun under a load that has to go");
    assert_eq!(ended(&objects[0], 2).0, vec![7]);
    drop(guards);
    let state = objects[1].lock();
    assert!(state.streams.is_empty() && state.servers.is_empty() && state.loads.is_empty());
}

/// Has a load be in use alone at its place: of an edition with a text of that many bytes, and that many entries.
pub(super) fn use_alone<T>(
    owners: &StreamOwners<T>,
    name: &str,
    load: &RouteLoad,
    (text, entries): (usize, usize),
    uptime: u64,
) -> Vec<Arc<StreamRegistry<T>>> {
    let edition = Edition::new(load.edition(), text, entries);
    let table = load.table_or(|| TableLoad::alone(at(uptime), LoadPart::new(load.id(), &edition, text)));
    let place = TablePlace { listener: Box::default(), variant: Some(Box::default()) };
    owners.use_load(name, place, table, at(uptime))
}

#[test]
fn stream_of_a_later_edition_is_on_no_removed_server() {
    let streams = Arc::new(StreamRegistry::default());
    streams.set_servers(["a"].into_iter(), Duration::ZERO, 5, at(0));
    let later = RouteLoad::newest(&Edition::new(6, 0, 0));
    // Its configuration is in use already, and has not been applied here yet.
    let (_early, due) = streams.register(StreamStart { kept: &later, ..on("b") }, 1, moment(at(1)));
    assert_eq!(due, None);
    assert_eq!(streams.set_servers(["a", "b"].into_iter(), Duration::ZERO, 6, at(2)), None);
    assert!(ended(&streams, 99).0.is_empty());
    let (_gone, due) = streams.register(StreamStart { kept: &later, ..on("c") }, 2, moment(at(100)));
    assert_eq!(due, Some(at(100)));
}

#[test]
fn streams_of_a_former_object_end_soon_whatever_its_owner_chose() {
    let streams = Arc::new(StreamRegistry::default());
    streams.set_servers(["a"].into_iter(), at(24 * 3_600), 0, at(0));
    let _watch = streams.register(on("a"), 1, moment(at(1)));
    assert_eq!(streams.close(at(10)), Some(at(610)));
    assert_eq!(ended(&streams, 610), (vec![1], None));
}

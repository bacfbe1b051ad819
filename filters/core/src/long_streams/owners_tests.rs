use super::super::edition::Edition;
use super::super::route_load::RouteLoad;
use super::super::tests::use_alone;
use super::*;

/// A load of an edition of its own with a text of that many bytes, in use alone from an uptime on.
fn used(owners: &StreamOwners<()>, name: &str, (id, text): (u64, usize), uptime: u64) -> RouteLoad {
    let load = RouteLoad::newest(&Edition::new(id, 0, 0));
    drop(use_alone(owners, name, &load, (text, 0), uptime));
    load
}

fn number_ended(loads: &[RouteLoad]) -> usize {
    loads.iter().filter(|load| load.is_ended()).count()
}

#[test]
fn each_object_of_a_name_has_streams_of_its_own() {
    let owners = StreamOwners::<()>::default();
    let (first, second) = (owners.of("a", "1"), owners.of("a", "2"));
    assert!(!Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&first, &owners.of("a", "1")));
    assert_eq!(owners.others("a", "2").len(), 1);
    assert!(Arc::ptr_eq(&owners.others("a", "2")[0], &first) && owners.others("b", "2").is_empty());
    let mut number = 0;
    owners.for_each(|_| number += 1);
    assert_eq!(number, 2);
    drop(first);
    assert!(owners.others("a", "2").is_empty());
    for name in 0..1_000 {
        drop(owners.of(&name.to_string(), ""));
    }
    let kept = owners.names.lock().unwrap().names.len();
    assert!(kept <= SWEEP_THRESHOLD + 1 && Arc::ptr_eq(&second, &owners.of("a", "2")), "{kept}");
}

/// Loads of one moment: none of them was the newest for longer.
#[test]
fn oldest_loads_beyond_the_bound_have_to_end() {
    // (bytes of text of each, loads that are kept)
    for (text, kept) in [(1, 256), (10 << 20, 9), (1 << 30, 1)] {
        let owners = StreamOwners::<()>::default();
        // Objects that follow one another share the bound of their name; another name has its own.
        let _streams = [owners.of("a", "1"), owners.of("a", "2"), owners.of("b", "3")];
        let other = used(&owners, "b", (1_000, text), 0);
        let mut loads = Vec::new();
        for id in 0..300 {
            let load = RouteLoad::newest(&Edition::new(id, 0, 0));
            let concerned = use_alone(&owners, "a", &load, (text, 0), 0);
            loads.push(load);
            let excess = usize::try_from(id).unwrap() >= kept;
            assert_eq!(concerned.len(), if excess { 2 } else { 0 }, "{id}");
        }
        assert_eq!((number_ended(&loads), owners.ended()), (300 - kept, 300 - kept as u64));
        assert!(loads.iter().is_sorted_by_key(|load| !load.is_ended()), "the oldest first");
        let ended = owners.ended_loads(0);
        assert!(loads.iter().all(|load| ended.contains(load.id()) == load.is_ended()));
        assert!(!other.is_ended() && !ended.contains(other.id()));
        loads.clear();
        assert!(owners.ended_loads(0).0.is_empty(), "none that nothing keeps");
    }
}

#[test]
fn loads_that_nothing_keeps_make_room() {
    let owners = StreamOwners::<()>::default();
    let oldest = used(&owners, "a", (0, 1), 0);
    for id in 1..1_000 {
        drop(used(&owners, "a", (id, 1), id));
    }
    drop(use_alone(&owners, "a", &oldest, (1, 0), 1_000));
    assert!(!oldest.is_ended() && owners.ended() == 0);
    let names = owners.lock();
    assert_eq!((names.bytes.past, names.bytes), (0, names.names["a"].loads.bytes()), "and are counted no longer");
}

#[test]
fn load_in_use_after_its_end_goes_on() {
    let owners = StreamOwners::<()>::default();
    let all = |ids: std::ops::Range<u64>| ids.map(|id| used(&owners, "a", (id, 1), id)).collect::<Vec<_>>();
    let first = all(0..300);
    assert_eq!(number_ended(&first), 44);
    first[0].note_use();
    assert!(!first[0].is_ended() && !owners.ended_loads(0).contains(first[0].id()));
    let later = all(300..600);
    let ended = (first[0].is_ended(), number_ended(&first), number_ended(&later));
    assert_eq!(ended, (false, 299, 45), "the bound is as before");
    first.iter().chain(&later).for_each(RouteLoad::note_use);
    assert_eq!(number_ended(&first) + number_ended(&later), 0);
    let last = all(600..601);
    assert_eq!(number_ended(&first) + number_ended(&later), 601 - 256, "however many are in use");
    assert_eq!(number_ended(&last), 0);
}

/// A worker that has woken the streams of a load has nothing more to do for them.
#[test]
fn loads_that_a_worker_has_seen_end_are_not_found_again() {
    let owners = StreamOwners::<()>::default();
    let mut loads: Vec<RouteLoad> = (0..300).map(|id| used(&owners, "a", (id, 1), id)).collect();
    let found = |loads: &[RouteLoad], seen: u64| {
        let ended = owners.ended_loads(seen);
        (0..).zip(loads).filter(|(_, load)| ended.contains(load.id())).map(|(id, _)| id).collect::<Vec<u64>>()
    };
    assert_eq!((owners.ended(), found(&loads, 0)), (44, (0..44).collect()));
    assert_eq!((found(&loads, 42), found(&loads, 44)), (vec![42, 43], vec![]));
    // A request begins under the first one, which goes on and ends again much later.
    loads[0].note_use();
    loads.push(used(&owners, "a", (300, 1), 300));
    assert!(!found(&loads, 0).contains(&0));
    let seen = owners.ended();
    loads.extend((301..600).map(|id| used(&owners, "a", (id, 1), 100_000 + id)));
    assert!(loads[0].is_ended() && found(&loads, seen).contains(&0), "once for each end");
    assert_eq!(found(&loads, owners.ended()), [0; 0]);
}

#[test]
fn entries_of_policies_weigh() {
    let owners = StreamOwners::<()>::default();
    let loads = [0, 1, 2].map(|id| RouteLoad::newest(&Edition::new(id, 0, 0)));
    loads.iter().for_each(|load| drop(use_alone(&owners, "a", load, (0, 600_000), 0)));
    assert_eq!(loads.map(|load| load.is_ended()), [true, false, false]);
}

#[test]
fn loads_of_ascending_sizes_are_bounded() {
    let owners = StreamOwners::<()>::default();
    let mut loads = Vec::new();
    let mut kept = 0;
    for mebibytes in 1..=40_usize {
        loads.push(used(&owners, "a", (mebibytes as u64, mebibytes << 18), 0));
        let alive = (1..).zip(&loads).filter(|(_, load)| !load.is_ended());
        kept = alive.map(|(mebibytes, _)| mebibytes).sum::<usize>();
        assert!(kept - mebibytes <= (8 * mebibytes).max(256), "{kept} MiB with the {mebibytes}. one");
        assert!(!loads.last().unwrap().is_ended());
    }
    assert!(kept > 200, "no more end than have to: {kept}");
}

/// A tenant may have many names. Each of these is within its own bound.
#[test]
fn loads_of_all_names_have_a_bound() {
    const MIB: usize = 1 << 20;
    let owners = StreamOwners::<()>::default();
    let quiet = [used(&owners, "quiet", (0, MIB), 0), used(&owners, "quiet", (1, MIB), 3_600)];
    let mut loads = Vec::new();
    for id in 2..400 {
        let name = format!("crowd-{}", id % 20);
        // 32 MiB each.
        loads.push(used(&owners, &name, (id, 8 * MIB), 3_600 + id));
        let past = owners.lock().bytes.past;
        assert!(past <= MAX_BYTES + LOOK_AGAIN, "{past} bytes");
    }
    assert!(quiet.iter().all(|load| !load.is_ended()), "the names with most give first");
    assert!(loads[378..].iter().all(|load| !load.is_ended()), "the newest ones of each name");
    assert!(loads.len() - number_ended(&loads) >= 20 + 29, "no more end than have to");
}

/// Loads in use may take more than the bound: an edit of all clusters at once replaces as much.
#[test]
fn edit_of_all_names_ends_no_load() {
    let owners = StreamOwners::<()>::default();
    let edit = |number: u64| {
        let of_name = |name: u64| used(&owners, &name.to_string(), (number * 100 + name, 16 << 20), number * 60);
        (0..60).map(of_name).collect::<Vec<_>>()
    };
    let before = [edit(0), edit(1)];
    let ended = |loads: &[Vec<RouteLoad>]| loads.iter().map(|loads| number_ended(loads)).sum::<usize>();
    assert_eq!(ended(&before), 0, "60 times 64 MiB are past, and as much is in use");
    let newest = edit(2);
    assert_eq!(number_ended(&newest), 0);
    let ended = ended(&before);
    assert!((60..63).contains(&ended), "{ended}: twice as much is too much");
}

/// Loads in use no longer, of names that nothing has loaded since, must not make the bound larger.
#[test]
fn names_that_are_gone_make_no_room() {
    let owners = StreamOwners::<()>::default();
    drop((0..60_u64).map(|id| used(&owners, &format!("gone-{id}"), (id, 16 << 20), 0)).collect::<Vec<_>>());
    let _loads: Vec<_> = (100..200).map(|id| used(&owners, &format!("name-{}", id % 10), (id, 8 << 20), id)).collect();
    let bytes = owners.lock().bytes;
    assert!(bytes.past <= MAX_BYTES + LOOK_AGAIN, "{bytes:?}");
}

/// A stream keeps the newest load of a table that is gone: it is in use for all that the filter knows.
#[test]
fn names_that_streams_keep_make_little_room() {
    let owners = StreamOwners::<()>::default();
    // 64 MiB each.
    let of_name = |name: String, id| used(&owners, &name, (id, 16 << 20), id);
    let _gone: Vec<_> = (0..100).map(|id| of_name(format!("gone-{id}"), id)).collect();
    let mut loads = Vec::new();
    for id in 100..320 {
        loads.push(of_name(format!("crowd-{}", id % 20), id));
        let bytes = owners.lock().bytes;
        assert!(bytes.past <= MAX_BYTES_OF_MANY + LOOK_AGAIN, "{bytes:?}");
    }
    assert!(owners.lock().bytes.present > MAX_BYTES_OF_MANY);
    assert!(loads[200..].iter().all(|load| !load.is_ended()), "the newest ones of each name");
}

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn place(listener: &str) -> TablePlace {
    TablePlace { listener: listener.into(), variant: None }
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A part with an edition of that size, and 32 KiB of routes.
fn part(edition: u64, edition_bytes: u64) -> LoadPart {
    LoadPart { id: next_id(), edition, edition_bytes, route_bytes: 32 * KIB }
}

/// A load of editions of 1 KiB.
fn load(editions: &[u64], since: u64) -> Arc<TableLoad> {
    TableLoad::together(secs(since), editions.iter().map(|edition| part(*edition, KIB)))
}

fn use_load(kept: &mut KeptLoads, listener: &str, load: &Arc<TableLoad>, uptime: u64) -> usize {
    assert!(kept.add(place(listener), load, secs(uptime)));
    kept.end_excess(secs(uptime)).len()
}

fn is_alive(load: &Arc<TableLoad>) -> bool {
    !load.is_ended()
}

/// A stream keeps the whole table: each edit of one of 1,000 routes takes 32 MiB beside what did not change.
#[test]
fn loads_of_large_tables_are_bounded() {
    let mut kept = KeptLoads::default();
    let mut editions: Vec<u64> = (0..1_000).collect();
    let mut alive: Vec<Arc<TableLoad>> = Vec::new();
    let quiet = load(&editions, 0);
    use_load(&mut kept, "https", &quiet, 0);
    for edit in 0..200_u64 {
        editions[edit as usize % 7] = 1_000 + edit;
        let newest = load(&editions, 3_600 + edit);
        use_load(&mut kept, "https", &newest, 3_600 + edit);
        alive.push(newest);
        alive.retain(is_alive);
        assert!(alive.last().is_some_and(is_alive), "the newest one goes on");
        let past = alive.len() as u64;
        assert!(past >= (edit + 1).min(MIN_LOADS), "{past} loads: some always fit");
        assert!(past <= 9 && kept.bytes().past <= MIN_LOADS * kept.bytes().present, "{past} loads");
    }
    assert!(is_alive(&quiet), "its streams are those of an hour");
}

/// An edit of a policy at a Gateway changes the editions of all its routes.
#[test]
fn eight_loads_without_a_common_edition_fit() {
    let mut kept = KeptLoads::default();
    let mut loads = Vec::new();
    for edit in 0..20_u64 {
        let parts = (0..50).map(|route| part(50 * edit + route, MIB));
        let newest = TableLoad::together(secs(edit), parts);
        use_load(&mut kept, "https", &newest, edit);
        loads.push(newest);
        let alive = loads.iter().filter(|load| is_alive(load)).count() as u64;
        assert_eq!(alive, (edit + 1).min(1 + MIN_LOADS), "the newest one, and eight");
    }
}

#[test]
fn streams_of_a_quiet_time_outlast_a_storm_of_edits() {
    let mut kept = KeptLoads::default();
    let quiet = load(&[0, 1], 0);
    use_load(&mut kept, "https", &quiet, 0);
    let mut storm = Vec::new();
    for edit in 0..1_000 {
        let newest = load(&[0, 2 + edit], 600 + edit);
        use_load(&mut kept, "https", &newest, 600 + edit);
        storm.push(newest);
    }
    let alive = storm.iter().filter(|load| is_alive(load)).count();
    assert_eq!((is_alive(&quiet), alive), (true, MAX_SETS));
}

/// Distances of edits may be chosen so that each load is replaced for as long, in proportion, as the others.
#[test]
fn quiet_load_outlasts_edits_in_geometric_distances() {
    const SPAN: f64 = 1_800_000.0;
    let mut kept = KeptLoads::default();
    let editions: Vec<u64> = (0..1_000).collect();
    let quiet = load(&editions, 0);
    use_load(&mut kept, "https", &quiet, 0);
    let begin = secs(3_600);
    let mut storm = Vec::new();
    for edit in 0..9_i32 {
        let since = begin + Duration::from_millis((SPAN * (1.0 - 0.27_f64.powi(edit))) as u64);
        let newest = TableLoad::together(since, editions.iter().map(|edition| part(*edition, KIB)));
        assert!(kept.add(place("https"), &newest, since));
        drop(kept.end_excess(since));
        storm.push(newest);
    }
    let ended: Vec<_> = (0..).zip(&storm).filter(|(_, load)| !is_alive(load)).map(|(edit, _)| edit).collect();
    assert_eq!((is_alive(&quiet), ended), (true, vec![7]), "the one that was in use for the shortest time");
}

/// Streams that begin now must not be those that end first, whatever was kept before: an attacker could fill the room with loads that were
/// the newest a little longer than the next ones are.
#[test]
fn loads_that_are_kept_on_purpose_end_no_fresh_ones() {
    let mut kept = KeptLoads::default();
    let mut loads: Vec<_> = Vec::new();
    let mut now = 0;
    for edit in 0..600_u64 {
        let newest = load(&[edit], now);
        use_load(&mut kept, "https", &newest, now);
        loads.push((now, newest));
        now += if edit < 300 { 10 } else { 1 };
        let is_fresh = |since: u64| now.saturating_sub(since) < 50;
        assert!(loads.iter().all(|(since, load)| is_alive(load) || !is_fresh(*since)), "{edit}");
    }
    assert!(loads[..200].iter().filter(|(_, load)| is_alive(load)).count() < 100, "old ones make room");
}

#[test]
fn edits_of_host_names_are_bounded_in_bytes_alone() {
    let mut kept = KeptLoads::default();
    let of_names = |since| {
        let part = LoadPart { route_bytes: 512 * KIB, ..part(1, KIB) };
        TableLoad::together(secs(since), std::iter::once(part))
    };
    let loads: Vec<_> = (0..600).map(of_names).collect();
    for (edit, load) in (0..).zip(&loads) {
        assert_eq!(use_load(&mut kept, "https", load, edit), usize::from(edit > 512), "{edit}");
    }
    let [first, next] = [2, 3].map(|edition| load(&[edition], 600 + edition));
    use_load(&mut kept, "https", &first, 602);
    let before = loads.iter().filter(|load| is_alive(load)).count();
    use_load(&mut kept, "https", &next, 603);
    let after = loads.iter().filter(|load| is_alive(load)).count();
    assert!(before > 500 && before - after <= 2, "{before} {after}: they are one set of editions");
}

#[test]
fn cluster_at_many_listeners_counts_its_editions_once() {
    let mut kept = KeptLoads::default();
    let listeners: Vec<String> = (0..64).map(|listener| listener.to_string()).collect();
    let mut loads = Vec::new();
    for edit in 0..100 {
        for listener in &listeners {
            let newest = load(&[edit], edit);
            assert_eq!(use_load(&mut kept, listener, &newest, edit), 0, "{edit} {listener}");
            loads.push(newest);
        }
    }
    assert_eq!(kept.bytes().past, 99 * (64 * 32 + 1) * KIB);
    assert_eq!(kept.bytes().present, (64 * 32 + 1) * KIB);
}

/// The author of a Gateway may rename a listener again and again, and keep a stream of each.
#[test]
fn tables_of_listeners_that_are_gone_are_bounded() {
    let mut kept = KeptLoads::default();
    let large = |edition: u64| TableLoad::together(secs(edition), std::iter::once(part(edition, 8 * MIB)));
    let loads: Vec<_> = (0..200).map(large).collect();
    for (number, load) in (0..).zip(&loads) {
        use_load(&mut kept, &format!("renamed-{number}"), load, number);
    }
    let alive = loads.iter().filter(|load| is_alive(load)).count();
    assert!((MAX_TABLES..=MAX_TABLES + 64).contains(&alive), "{alive}");
    assert!(kept.bytes().past <= MAX_BYTES_OF_LARGE && loads[200 - MAX_TABLES..].iter().all(is_alive));
}

/// A worker of portcullis.wasm may use two texts in turn.
#[test]
fn load_that_comes_into_use_again_is_the_newest() {
    let mut kept = KeptLoads::default();
    let [first, second] = [1, 2].map(|edition| load(&[edition], edition));
    use_load(&mut kept, "", &first, 1);
    use_load(&mut kept, "", &second, 2);
    assert!(!kept.add(place(""), &second, secs(3)), "it is the newest already");
    assert_eq!(kept.bytes(), LoadBytes { past: 33 * KIB, present: 33 * KIB });
    for turn in 3..600 {
        use_load(&mut kept, "", if turn % 2 == 0 { &second } else { &first }, turn);
        assert_eq!((kept.past.len(), kept.bytes().past), (1, 33 * KIB));
    }
    let kept_now = kept.past.first().map(|past| past.used.as_secs());
    assert_eq!(kept_now, Some(299), "its times add up");
    drop((first, second));
    kept.forget_gone(secs(600));
    assert!(kept.are_gone() && kept.bytes() == LoadBytes::default() && kept.past.is_empty());
}

/// Order as if each were looked for alone. Many end at once where a proxy has used many after their end.
#[test]
fn loads_that_end_at_once_are_those_of_the_greatest_disuse() {
    let mut kept = KeptLoads::default();
    let (mut loads, mut now) = (Vec::new(), 0);
    for edit in 0..1_000_u64 {
        let newest = load(&[edit], now);
        use_load(&mut kept, "https", &newest, now);
        loads.push(newest);
        now += 1 + edit % 7;
    }
    loads.iter().for_each(|load| load.note_use());
    kept.forget_gone(secs(now));
    let alone = |one: &KeptLoad| (secs(now) + MIN_DISUSE - one.until).as_secs_f64() / one.used.as_secs_f64().max(0.001);
    let mut expected: Vec<_> = kept.past.iter().map(|past| (alone(past), past.set)).collect();
    expected.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let of_sets = |kept: &KeptLoads| kept.past.iter().map(|past| past.set).collect::<Vec<_>>();
    let before = of_sets(&kept);
    assert_eq!((before.len(), kept.end_excess(secs(now)).len()), (999, 999 - MAX_SETS));
    let ended: BTreeSet<_> = expected.iter().take(999 - MAX_SETS).map(|(_, set)| *set).collect();
    let left: Vec<_> = before.into_iter().filter(|set| !ended.contains(set)).collect();
    assert_eq!(of_sets(&kept), left, "in the order of before");
}

/// One load of a table, with all that a proxy has in memory for it.
struct Model {
    listener: usize,
    load: Arc<TableLoad>,
    parts: [LoadPart; 6],
    /// A stream keeps it.
    is_held: bool,
    is_newest: bool,
}

fn past_bytes(loads: &[Model]) -> u64 {
    let in_use: BTreeSet<u64> =
        loads.iter().filter(|load| load.is_newest).flat_map(|load| &load.parts).map(|part| part.edition).collect();
    let past = || loads.iter().filter(|load| !load.is_newest && is_alive(&load.load)).flat_map(|load| &load.parts);
    let editions: HashMap<u64, u64> = past().map(|part| (part.edition, part.edition_bytes)).collect();
    let editions = editions.iter().filter(|(edition, _)| !in_use.contains(edition)).map(|(_, bytes)| bytes);
    past().map(|part| part.route_bytes).sum::<u64>() + editions.sum::<u64>()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Edits of variants at three listeners, streams that begin and end, requests under loads that had to end.
    #[test]
    fn loads_that_are_kept_are_counted_and_bounded(
        events in proptest::collection::vec((0_u8..10, 0_usize..3, 0_usize..6, 1_u64..9_000), 1..120),
    ) {
        let mut kept = KeptLoads::default();
        let mut loads: Vec<Model> = Vec::new();
        let mut editions = [[0_u64; 6]; 3];
        let (mut now, mut next) = (0, 1..);
        for (kind, listener, variant, number) in events {
            now += number % 40;
            let one = (number as usize).checked_rem(loads.len());
            match (kind, one) {
                // A stream ends.
                (0 | 1, Some(one)) => loads[one].is_held = false,
                // A request begins where a proxy has a load still.
                (2, Some(one)) => loads[one].load.note_use(),
                // An edit that the proxy refuses.
                (3, _) => drop(load(&[number], now)),
                // An edit of all variants, of one at all listeners, of one here, or of host names alone.
                (4, _) => editions[listener] = [(); 6].map(|()| next.next().unwrap()),
                (5, _) => {
                    let edition = next.next().unwrap();
                    editions.iter_mut().for_each(|of_listener| of_listener[variant] = edition);
                }
                (6 | 7, _) => editions[listener][variant] = next.next().unwrap(),
                _ => {}
            }
            if kind < 4 {
                continue;
            }
            let parts = editions[listener].map(|edition| part(edition, edition % 7 * 9 * MIB));
            let newest = TableLoad::together(secs(now), parts.into_iter());
            for load in loads.iter_mut().filter(|load| load.listener == listener) {
                load.is_newest = false;
            }
            let is_held = number % 3 > 0;
            loads.push(Model { listener, load: Arc::clone(&newest), parts, is_held, is_newest: true });
            loads.retain(|load| load.is_held || load.is_newest);
            prop_assert!(kept.add(place(&listener.to_string()), &newest, secs(now)));
            prop_assert_eq!(kept.bytes().past, past_bytes(&loads));
            drop(kept.end_excess(secs(now)));
            prop_assert_eq!(kept.bytes().past, past_bytes(&loads));
            let most = (kept.bytes().present * MIN_LOADS).clamp(MAX_BYTES, MAX_BYTES_OF_LARGE);
            prop_assert!(kept.bytes().past <= most);
            prop_assert!(loads.iter().all(|load| !load.is_newest || is_alive(&load.load)));
        }
        drop(loads);
        kept.forget_gone(secs(now));
        prop_assert!(kept.are_gone());
        let known = kept.newest.len() + kept.past.len() + kept.ended.len();
        prop_assert_eq!((kept.bytes(), known), (LoadBytes::default(), 0));
    }
}

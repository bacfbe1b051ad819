use proptest::prelude::*;

use super::*;

type Numbers = SortedChunks<Arc<str>, u16>;

fn key(number: u16) -> Arc<str> {
    format!("instance/-/c{number:05}.example.com/routes").into()
}

/// Keys of which none begins a chunk, or each one.
fn chosen(begins: bool, count: usize) -> Vec<Arc<str>> {
    let all = (0_u32..).map(|number| format!("{number:08}"));
    all.filter(|text| stable_hash(text).is_multiple_of(SPREAD) == begins).take(count).map(Into::into).collect()
}

fn of(keys: &[Arc<str>]) -> Numbers {
    SortedChunks::new(keys.iter().map(|key| (Arc::clone(key), 0)).collect())
}

fn version(map: &Numbers) -> String {
    map.version(|hash, (key, value)| {
        hash.add(key);
        hash.add(&value.to_string());
    })
}

fn lengths<K, V>(map: &SortedChunks<K, V>) -> Vec<usize> {
    map.chunks.iter().map(|chunk| chunk.entries.len()).collect()
}

/// The number of chunks of one map that another one does not have.
fn made(before: &Numbers, after: &Numbers) -> usize {
    before.unshared(after)[1].len()
}

/// Keys that are put or removed, each with others behind it.
fn edits() -> impl Strategy<Value = Vec<(u16, u16, Option<u16>)>> {
    let count = prop_oneof![4 => Just(1_u16), 1 => 2..400_u16];
    proptest::collection::vec((0..1_200_u16, count, proptest::option::weighted(0.6, 0..3_u16)), 1..6)
}

proptest! {
    #[test]
    fn map_depends_on_its_entries_alone(
        first in proptest::collection::btree_map(0..1_200_u16, 0..3_u16, 0..900),
        all in proptest::collection::vec(edits(), 1..5),
    ) {
        let of = |entries: &BTreeMap<u16, u16>| Numbers::new(entries.iter().map(|(one, value)| (key(*one), *value)).collect());
        let (mut entries, mut map) = (first.clone(), of(&first));
        for edits in all {
            let before = entries.clone();
            for (at, count, value) in edits {
                for number in at..at + count {
                    match value {
                        Some(value) => drop(entries.insert(number, value)),
                        None => drop(entries.remove(&number)),
                    }
                }
            }
            let is_other = |(one, value): &(&u16, &u16), other: &BTreeMap<u16, u16>| other.get(*one) != Some(*value);
            let gone = before.iter().filter(|one| is_other(one, &entries)).map(|(one, _)| key(*one));
            let new = entries.iter().filter(|one| is_other(one, &before)).map(|(one, value)| (key(*one), *value));
            let after = map.changed_by(gone.collect(), new.collect()).unwrap();
            let scratch = of(&entries);
            prop_assert_eq!(&after, &scratch);
            prop_assert_eq!((version(&after), lengths(&after)), (version(&scratch), lengths(&scratch)));
            prop_assert_eq!(version(&after) == version(&map), entries == before);
            prop_assert!(lengths(&after).iter().all(|length| (1..=MOST).contains(length)));
            prop_assert_eq!(after.len(), entries.len());
            let listed: Vec<_> = after.iter().map(|(key, value)| (Arc::clone(key), *value)).collect();
            prop_assert_eq!(&listed, &entries.iter().map(|(one, value)| (key(*one), *value)).collect::<Vec<_>>());
            for number in (0..1_300).step_by(7) {
                let (sought, found) = (key(number), entries.get(&number));
                prop_assert_eq!(after.get_by(|other| other.cmp(&sought)).map(|(_, value)| value), found);
                let next = after.from(|other| *other < sought).next().map(|(other, _)| Arc::clone(other));
                prop_assert_eq!(next, entries.range(number..).next().map(|(one, _)| key(*one)));
                prop_assert_eq!(after.from(|other| *other < sought).count(), entries.range(number..).count());
            }
            let [ours, theirs] = map.unshared(&after);
            let in_one = |slices: &[&[(Arc<str>, u16)]]| -> BTreeSet<Arc<str>> {
                slices.iter().copied().flatten().map(|(key, _)| Arc::clone(key)).collect()
            };
            let changed = before.iter().filter(|one| is_other(one, &entries)).map(|(one, _)| key(*one));
            prop_assert!(changed.collect::<BTreeSet<_>>().is_subset(&in_one(&ours)));
            let changed = entries.iter().filter(|one| is_other(one, &before)).map(|(one, _)| key(*one));
            prop_assert!(changed.collect::<BTreeSet<_>>().is_subset(&in_one(&theirs)));
            map = after;
        }
    }
}

#[test]
fn edit_makes_one_chunk_and_shares_the_others() {
    let keys: Vec<_> = (0..20_000).map(key).collect();
    let map = of(&keys);
    assert!((100..600).contains(&map.chunks.len()), "{}", map.chunks.len());
    for at in [0, 9_999, 19_999] {
        let one = &keys[at];
        let edited = map.changed_by(BTreeSet::from([one.clone()]), BTreeMap::from([(one.clone(), 1)])).unwrap();
        assert_eq!((made(&map, &edited), edited.chunks.len()), (1, map.chunks.len()));
        let without = map.changed_by(BTreeSet::from([one.clone()]), BTreeMap::new()).unwrap();
        let with = without.changed_by(BTreeSet::new(), BTreeMap::from([(one.clone(), 0)])).unwrap();
        assert!(made(&map, &without) <= 8 && made(&without, &with) <= 8, "{at}");
        assert_eq!(with, map);
    }
}

/// A tenant chooses names, and with them whether chunks begin there.
#[test]
fn chunks_of_chosen_keys_are_bounded() {
    let none = of(&chosen(false, 1_000));
    assert_eq!(lengths(&none), [MOST, MOST, MOST, 1_000 - 3 * MOST]);
    let each = of(&chosen(true, 1_000));
    assert!(lengths(&each)[..62].iter().all(|length| *length == LEAST), "{:?}", lengths(&each));
    // An edit costs one chunk even so.
    let first = chosen(false, 1)[0].clone();
    let edited = none.changed_by(BTreeSet::from([first.clone()]), BTreeMap::from([(first, 1)])).unwrap();
    assert_eq!(made(&none, &edited), 1);
}

#[test]
fn change_of_another_map_is_none() {
    let map = of(&[key(1), key(2)]);
    let change = |gone: &[u16], new: &[u16]| {
        let new = new.iter().map(|one| (key(*one), 0));
        map.changed_by(gone.iter().map(|one| key(*one)).collect(), new.collect())
    };
    assert_eq!((change(&[3], &[]), change(&[], &[1])), (None, None));
    assert_eq!(change(&[1, 2], &[]), Some(Numbers::default()));
    assert_eq!(Numbers::default().changed_by(BTreeSet::new(), BTreeMap::from([(key(1), 0), (key(2), 0)])), Some(map));
}

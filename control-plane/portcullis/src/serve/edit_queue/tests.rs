use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use portcullis_instances::MemberHolder;
use portcullis_sources::ObjectSet;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::references::Resolved;
use super::{EditQueue, LEAST_ROUND, ROUND, budget};

/// The source's objects: by name, their tenant and the number of their edition.
type Editions = BTreeMap<String, (&'static str, u32)>;

fn set(editions: &Editions) -> ObjectSet {
    let cluster = |(name, (tenant, edition)): (&String, &(&str, u32))| {
        Arc::new(json!({"metadata": {"name": name, "labels": {"tenant": tenant}}, "edition": edition}))
    };
    ObjectSet { clusters: editions.iter().map(cluster).collect(), ..ObjectSet::default() }
}

fn owner(document: &Value) -> MemberHolder {
    MemberHolder::Instance(document["metadata"]["labels"]["tenant"].as_str().unwrap().to_owned())
}

/// The editions that are translated next.
fn next(queue: &mut EditQueue, editions: &Editions) -> BTreeMap<String, u32> {
    let objects = set(editions);
    let (paced, resolved) = queue.take((&objects, Resolved::of(&objects)), Some(owner), Instant::now());
    let written = paced.unwrap_or(objects).clusters;
    assert_eq!(written, resolved.documents, "nothing here refers to anything");
    let read = |one: &Arc<Value>| {
        let edition = one["edition"].as_u64().unwrap();
        (one["metadata"]["name"].as_str().unwrap().to_owned(), u32::try_from(edition).unwrap())
    };
    written.iter().map(read).collect()
}

fn newest(editions: &Editions) -> BTreeMap<String, u32> {
    editions.iter().map(|(name, (_, edition))| (name.clone(), *edition)).collect()
}

fn put(editions: &mut Editions, tenant: &'static str, numbers: std::ops::Range<usize>, edition: u32) {
    editions.extend(numbers.map(|number| (format!("{tenant}-{number}"), (tenant, edition))));
}

#[test]
fn first_set_and_undivided_sets_are_taken_whole() {
    let (mut queue, mut editions) = (EditQueue::default(), Editions::new());
    put(&mut editions, "a", 0..1_000, 1);
    assert_eq!(next(&mut queue, &editions), newest(&editions), "Envoys would lose what is left out");
    put(&mut editions, "a", 0..1_000, 2);
    let objects = set(&editions);
    let nobody: Option<fn(&Value) -> MemberHolder> = None;
    let (paced, resolved) = queue.take((&objects, Resolved::of(&objects)), nobody, Instant::now());
    assert!(paced.is_none() && !queue.is_behind());
    assert_eq!(resolved.documents.len(), 1_000);
}

/// Of many objects nothing is kept that no edit waits for; those of the round that brings the first instances are.
#[test]
fn versions_are_kept_where_edits_may_wait() {
    let (mut queue, mut editions) = (EditQueue::default(), Editions::new());
    let mut take = |edition: u32, instances: usize, has_owner: bool| {
        put(&mut editions, "a", 0..1_000, edition);
        let mut objects = set(&editions);
        objects.instances = (0..instances).map(|_| Arc::default()).collect();
        let owner = has_owner.then_some(owner);
        let (paced, _) = queue.take((&objects, Resolved::of(&objects)), owner, Instant::now());
        (paced.is_some(), queue.versions.is_some())
    };
    assert_eq!(take(1, 0, false), (false, true), "there may have been instances before the start");
    assert_eq!(take(2, 0, false), (false, false));
    assert_eq!(take(3, 1, false), (false, true), "the first instance");
    assert_eq!(take(4, 1, true), (true, true));
    assert_eq!(take(5, 0, true), (false, true), "the last instance is gone, and comes with all edits");
    assert_eq!(take(6, 0, true), (true, true), "its view is there");
    assert_eq!(take(7, 0, false), (false, false));
}

#[test]
fn storm_leaves_another_tenants_edit_in_the_next_round() {
    let (mut queue, mut editions) = (EditQueue::default(), Editions::new());
    put(&mut editions, "a", 0..1_000, 1);
    put(&mut editions, "b", 0..2, 1);
    next(&mut queue, &editions);
    put(&mut editions, "a", 0..1_000, 2);
    let translated = next(&mut queue, &editions);
    let taken = translated.values().filter(|edition| **edition == 2).count();
    assert_eq!(u64::try_from(taken).unwrap(), budget(1_002).most);
    assert_eq!(translated.len(), 1_002, "what waits is there as it was");
    put(&mut editions, "b", 1..3, 2);
    editions.remove("a-999");
    editions.remove("b-0");
    let translated = next(&mut queue, &editions);
    assert_eq!((translated["b-1"], translated["b-2"]), (2, 2), "an edit and a new one");
    assert!(!translated.contains_key("a-999") && !translated.contains_key("b-0"), "what is removed goes at once");
    assert!(queue.is_behind());
    assert_eq!(queue.lengths().into_keys().collect::<Vec<_>>(), [MemberHolder::Instance("a".to_owned())]);
    // Edits of what waits take no second place, and an edit that is taken back none.
    put(&mut editions, "a", 500..999, 3);
    put(&mut editions, "a", 900..999, 1);
    let rounds = (0..100).find(|_| next(&mut queue, &editions) == newest(&editions) && !queue.is_behind());
    assert!(rounds.is_some_and(|rounds| rounds < 1_000 / 15), "{rounds:?}");
}

/// As long as the rest of a round.
#[test]
fn round_grows_with_the_number_of_objects() {
    let rounds = [0, 127, 192, 1_000, 10_000, usize::MAX].map(|objects| budget(objects).most);
    assert_eq!(rounds, [LEAST_ROUND, LEAST_ROUND, 3, 15, ROUND, ROUND]);
}

#[test]
fn edit_of_another_tenant_has_a_round_almost_alone() {
    let (mut queue, mut editions) = (EditQueue::default(), Editions::new());
    put(&mut editions, "a", 0..5_000, 1);
    put(&mut editions, "b", 0..1, 1);
    next(&mut queue, &editions);
    put(&mut editions, "a", 0..5_000, 2);
    put(&mut editions, "b", 0..1, 2);
    let translated = next(&mut queue, &editions);
    let taken = translated.values().filter(|edition| **edition == 2).count();
    assert_eq!((u64::try_from(taken).unwrap(), translated["b-0"]), (budget(5_001).least, 2));
}

/// Objects are edited first, and then what was to hold for them until then: in the other order both would be open.
#[test]
fn other_settings_or_instances_come_with_all_edits() {
    let document = || json!({"metadata": {"name": "a"}});
    let changes: [&dyn Fn(&mut ObjectSet); 3] = [
        &|objects| objects.settings.push(document()),
        &|objects| objects.instance_settings.push(Arc::new(document())),
        &|objects| objects.instances.push(Arc::new(document())),
    ];
    for change in changes {
        let (mut queue, mut editions) = (EditQueue::default(), Editions::new());
        let mut is_paced = |objects: &ObjectSet| {
            let (paced, resolved) = queue.take((objects, Resolved::of(objects)), Some(owner), Instant::now());
            assert_eq!(resolved.documents.len(), 1_000);
            (paced.is_some(), queue.is_behind())
        };
        put(&mut editions, "a", 0..1_000, 1);
        assert_eq!(is_paced(&set(&editions)), (false, false));
        put(&mut editions, "a", 0..1_000, 2);
        assert_eq!(is_paced(&set(&editions)), (true, true));
        let mut objects = set(&editions);
        change(&mut objects);
        assert_eq!(is_paced(&objects), (false, false), "nothing waits");
        put(&mut editions, "a", 0..1_000, 3);
        let mut objects = set(&editions);
        change(&mut objects);
        assert_eq!(is_paced(&objects), (true, true), "they are the same as before");
    }
}

const COUNT: usize = 1_000;

/// Objects of tenant `a` in an edition, the last of which has a UID and a tenant.
fn with_last(edition: u32, uid: &str, tenant: &str) -> ObjectSet {
    let mut editions = Editions::new();
    put(&mut editions, "a", 0..COUNT, edition);
    let mut objects = set(&editions);
    let mut last = objects.clusters.pop().unwrap().as_ref().clone();
    last["metadata"]["uid"] = json!(uid);
    last["metadata"]["labels"]["tenant"] = json!(tenant);
    objects.clusters.push(Arc::new(last));
    objects
}

/// The number of objects that are translated next, and the UID of the last one if it is there.
fn next_with_last(queue: &mut EditQueue, objects: ObjectSet) -> (usize, Option<String>) {
    let (paced, _) = queue.take((&objects, Resolved::of(&objects)), Some(owner), Instant::now());
    let clusters = paced.unwrap_or(objects).clusters;
    let last = clusters.iter().find_map(|one| Some(one["metadata"]["uid"].as_str()?.to_owned()));
    (clusters.len(), last)
}

#[test]
fn object_made_anew_leaves_the_line_of_the_one_before() {
    let mut queue = EditQueue::default();
    for edition in [1, 2] {
        let found = next_with_last(&mut queue, with_last(edition, "one", "a"));
        assert_eq!(found, (COUNT, Some("one".to_owned())));
    }
    let found = next_with_last(&mut queue, with_last(3, "two", "b"));
    assert_eq!(found, (COUNT, Some("two".to_owned())), "nothing else is in its new line");
    assert!(queue.is_behind());
}

/// Else a deletion would wait behind the edits of its tenant, and the keys of the deleted object would be served on.
#[test]
fn object_made_anew_is_not_there_as_the_one_before() {
    let mut queue = EditQueue::default();
    let mut next = |edition, uid| next_with_last(&mut queue, with_last(edition, uid, "a"));
    assert_eq!(next(1, "one"), (COUNT, Some("one".to_owned())));
    assert_eq!(next(2, "one"), (COUNT, Some("one".to_owned())), "it waits, and is there as it was");
    for _ in 0..2 {
        assert_eq!(next(3, "two"), (COUNT - 1, None), "one is removed, the other waits");
    }
    let rounds = (0..100).find(|_| next(3, "two") == (COUNT, Some("two".to_owned())));
    assert!(rounds.is_some(), "it has its round");
}

/// The edit of one object: its tenant and number, and a removal instead of a new edition.
fn edits() -> impl Strategy<Value = Vec<Vec<(usize, usize, bool)>>> {
    let edit = (0..3_usize, 0..150_usize, any::<bool>());
    proptest::collection::vec(proptest::collection::vec(edit, 0..200), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn each_version_is_one_that_was_and_the_last_is_the_newest(rounds in edits()) {
        const TENANTS: [&str; 3] = ["a", "b", "c"];
        let (mut queue, mut editions) = (EditQueue::default(), Editions::new());
        TENANTS.iter().for_each(|tenant| put(&mut editions, tenant, 0..100, 0));
        let mut before = next(&mut queue, &editions);
        for (round, edits) in (1..).zip(rounds) {
            for (tenant, number, is_removed) in edits {
                let name = format!("{}-{number}", TENANTS[tenant]);
                if is_removed && number % 10 == 0 {
                    editions.remove(&name);
                } else {
                    editions.insert(name, (TENANTS[tenant], round));
                }
            }
            let (translated, newest) = (next(&mut queue, &editions), newest(&editions));
            let mut changed = 0;
            for (name, edition) in &translated {
                prop_assert!(newest.get(name) == Some(edition) || before.get(name) == Some(edition), "{name}");
                changed += u64::from(before.get(name) != Some(edition));
            }
            prop_assert!(before.keys().all(|name| translated.contains_key(name) || !newest.contains_key(name)));
            prop_assert!(changed <= budget(newest.len()).most, "{changed}");
            before = translated;
        }
        for _ in 0..400 {
            if queue.is_behind() {
                before = next(&mut queue, &editions);
            }
        }
        prop_assert!(!queue.is_behind());
        prop_assert_eq!(before, newest(&editions));
    }
}

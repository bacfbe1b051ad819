use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_filter_config::activity::{OTHER, Talker};
use proptest::prelude::*;

use super::sketch::Sketch;
use super::{Amounts, Talkers};
use crate::identity::UserInfo;
use crate::upstream_user::UpstreamUser;

fn requests(requests: u64) -> Amounts {
    Amounts { requests, ..Amounts::default() }
}

fn sum(talkers: &[Talker], of: impl Fn(&Talker) -> u64) -> u64 {
    talkers.iter().map(of).sum()
}

/// Few names that come often, and many that come seldom.
fn name() -> impl Strategy<Value = u16> {
    prop_oneof![3 => 0..5_u16, 2 => 5..60_u16, 2 => 60..2_000_u16]
}

fn amounts() -> impl Strategy<Value = Amounts> {
    (0..4_u64, 0..2_u64, 0..1_000_u64, 0..2_u64).prop_map(|(requests, lists, bytes, refusals)| Amounts {
        requests,
        lists: lists.min(requests),
        bytes,
        refusals: refusals.min(requests),
    })
}

proptest! {
    #[test]
    fn sketch_errs_upwards_and_within_its_bound(
        counted in proptest::collection::vec((name(), amounts()), 1..800), places in 2..80_usize,
    ) {
        let (mut sketch, mut exact, mut total) = (Sketch::default(), BTreeMap::<_, Amounts>::new(), Amounts::default());
        for (name, amounts) in &counted {
            let name = format!("n{name}");
            sketch.count(&name, *amounts, |known| known < places);
            exact.entry(name).or_default().add(*amounts);
            total.add(*amounts);
        }
        let bound = total.requests / places as u64;
        let all = sketch.top(usize::MAX);
        prop_assert!(all.len() <= places + 1);
        for talker in all.iter().filter(|talker| talker.name != OTHER) {
            let Amounts { requests, lists, bytes, refusals } = exact[&talker.name];
            prop_assert!(talker.requests >= requests, "{talker:?}, in truth {requests}");
            prop_assert!(talker.requests <= requests + talker.error, "{talker:?}, in truth {requests}");
            prop_assert!(talker.error <= bound, "{talker:?}, the bound is {bound}");
            prop_assert!(talker.lists <= lists && talker.bytes <= bytes && talker.refusals <= refusals);
        }
        for (name, _) in exact.iter().filter(|(_, amounts)| amounts.requests > bound) {
            prop_assert!(all.iter().any(|talker| talker.name == *name), "{name} is missing");
        }
        for shown in [0, 1, places / 2, places] {
            let top = sketch.top(shown);
            prop_assert_eq!(sum(&top, |one| one.requests), total.requests);
            prop_assert_eq!(sum(&top, |one| one.lists), total.lists);
            prop_assert_eq!(sum(&top, |one| one.bytes), total.bytes);
            prop_assert_eq!(sum(&top, |one| one.refusals), total.refusals);
            prop_assert!(top.iter().filter(|one| one.name != OTHER).is_sorted_by(|one, next| one.requests >= next.requests));
        }
    }
}

#[test]
fn name_that_comes_back_after_it_was_given_up_is_never_too_low() {
    let mut sketch = Sketch::default();
    for (name, number) in [("a", 9), ("b", 7), ("c", 5), ("d", 3)] {
        sketch.count(name, requests(number), |_| true);
    }
    assert_eq!((sketch.shrink(4), sketch.shrink(2), sketch.shrink(2)), (0, 2, 0));
    assert_eq!(pairs(&sketch.top(10)), [("a", 9), ("b", 7), (OTHER, 8)]);
    sketch.count("d", requests(1), |_| true);
    let top = sketch.top(10);
    assert_eq!((pairs(&top), top[1].error), (vec![("a", 9), ("b", 7), ("d", 6), (OTHER, 3)], 0));
    assert_eq!(top[2].error, 5, "in truth 4");
}

#[test]
fn name_of_the_rest_counts_in_it() {
    let mut sketch = Sketch::default();
    sketch.count(OTHER, requests(3), |_| true);
    sketch.count("a", requests(1), |_| true);
    let names: Vec<_> = sketch.top(10).into_iter().map(|talker| (talker.name, talker.requests)).collect();
    assert_eq!(names, [("a".to_owned(), 1), (OTHER.to_owned(), 3)]);
}

fn user(name: &str, groups: &[&str]) -> Arc<UpstreamUser> {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    Arc::new(UpstreamUser::new(UserInfo::authenticated(name.into(), String::new(), groups, Vec::new())).unwrap())
}

fn pairs(talkers: &[Talker]) -> Vec<(&str, u64)> {
    talkers.iter().map(|talker| (&*talker.name, talker.requests)).collect()
}

#[test]
fn request_counts_by_user_under_every_group_and_by_agent() {
    let talkers = Talkers::new(&Arc::default());
    talkers.show(10);
    let (alice, again, bob) = (user("alice", &["dev"]), user("alice", &["dev"]), user("bob", &["dev", "ops"]));
    for (requester, agent, amounts) in [
        (Some(Some(&alice)), Some("kubectl/v1 (linux)"), Amounts { lists: 1, bytes: 7, ..requests(1) }),
        (Some(Some(&again)), Some("kubectl/v1 (darwin)"), requests(1)),
        (Some(Some(&bob)), Some(""), Amounts { refusals: 1, ..requests(1) }),
        (Some(None), None, requests(1)),
        // A credential that failed.
        (None, None, Amounts { refusals: 1, ..requests(1) }),
        // The end of a long-running request.
        (Some(Some(&bob)), Some(""), Amounts { bytes: 100, ..Amounts::default() }),
    ] {
        talkers.count(requester, agent.map(str::as_bytes), amounts);
    }
    talkers.merge();
    let top = talkers.top();
    assert_eq!(top.users[0], Talker { lists: 1, bytes: 7, requests: 2, name: "alice".to_owned(), ..Talker::default() });
    let mut users = pairs(&top.users);
    users.sort_unstable();
    assert_eq!(users, [("alice", 2), ("bob", 1), ("system:anonymous", 1)]);
    assert_eq!(top.users.iter().find(|talker| talker.name == "bob").unwrap().bytes, 100);
    let mut groups = pairs(&top.groups);
    groups.sort_unstable();
    let expected = [("dev", 3), ("ops", 1), ("system:authenticated", 3), ("system:unauthenticated", 1)];
    assert_eq!(groups, expected);
    let mut agents = pairs(&top.user_agents);
    agents.sort_unstable();
    assert_eq!(agents, [("(not authenticated)", 2), ("-", 1), ("kubectl/v1", 2)]);
}

#[test]
fn invented_names_stay_bounded_and_hide_nobody() {
    let talkers = Talkers::new(&Arc::default());
    talkers.show(100);
    let heavy = user("heavy", &["heavies"]);
    for number in 0..100_000_u32 {
        let (name, agent) = (format!("user-{number}"), format!("agent-{number}/1"));
        talkers.count(Some(Some(&user(&name, &[&name]))), Some(agent.as_bytes()), requests(1));
        if number % 50 == 0 {
            talkers.count(Some(Some(&heavy)), Some(b"heavy/1"), requests(1));
        }
    }
    talkers.merge();
    let top = talkers.top();
    for (kind, list, heavy) in
        [("users", &top.users, "heavy"), ("groups", &top.groups, "heavies"), ("agents", &top.user_agents, "heavy/1")]
    {
        assert_eq!(list.len(), 101, "{kind}");
        let found = list.iter().find(|talker| talker.name == heavy).unwrap();
        assert!((2_000..=2_000 + found.error).contains(&found.requests), "{found:?}");
        let total = if kind == "groups" { 204_000 } else { 102_000 };
        assert_eq!(sum(list, |talker| talker.requests), total, "{kind}");
    }
}

#[test]
fn talkers_that_many_threads_count_add_up() {
    let talkers = Talkers::new(&Arc::default());
    talkers.show(1_000);
    let users: Vec<_> = (0..300).map(|number| user(&format!("u{number}"), &["all"])).collect();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (talkers, users) = (&talkers, &users);
            scope.spawn(move || {
                for turn in 0..3_000 {
                    let user = &users[(turn * 7 + thread) % users.len()];
                    talkers.count(Some(Some(user)), Some(format!("a{}", turn % 400).as_bytes()), requests(1));
                }
            });
        }
        (0..50).for_each(|_| talkers.merge());
    });
    talkers.merge();
    let top = talkers.top();
    assert_eq!((top.users.len(), top.user_agents.len()), (300, 400));
    for list in [&top.users, &top.user_agents] {
        assert_eq!(sum(list, |talker| talker.requests), 24_000);
        assert!(list.iter().all(|talker| talker.error == 0));
    }
    assert!(top.users.iter().all(|talker| talker.requests == 80));
}

/// The names of user agents that a cluster keeps, at most.
fn kept(talkers: &Talkers) -> usize {
    talkers.top().user_agents.iter().filter(|talker| talker.name != OTHER).count()
}

fn invent(talkers: &Talkers) {
    talkers.show(1_000);
    for number in 0..2_500_u32 {
        let name = format!("n{number}");
        let user = user(&name, &[&name]);
        talkers.count(Some(Some(&user)), Some(name.as_bytes()), requests(u64::from(number) + 1));
    }
    talkers.merge();
}

/// Clusters that came first would otherwise keep the names of a process that has few clusters.
#[test]
fn clusters_that_come_later_reach_their_share() {
    let budget = Arc::default();
    let first: Vec<_> = (0..5).map(|_| Talkers::new(&budget)).collect();
    first.iter().for_each(invent);
    assert!(first.iter().all(|talkers| kept(talkers) == 1_000));
    let most = first[0].top().user_agents.remove(0).name;
    let later: Vec<_> = (0..100).map(|_| Talkers::new(&budget)).collect();
    first.iter().for_each(Talkers::merge);
    later.iter().for_each(invent);
    let shares: Vec<_> = first.iter().chain(&later).map(kept).collect();
    assert_eq!(shares, [104; 105], "32,768 / 3 / 105");
    let top = first[0].top().user_agents;
    assert_eq!(top[0].name, most, "the smallest go");
    assert_eq!(sum(&top, |talker| talker.requests), (1..=2_500).sum::<u64>());
}

/// Users that no cache keeps any more are not kept for being counted.
#[test]
fn large_users_are_not_kept_until_the_next_merge() {
    let talkers = Talkers::new(&Arc::default());
    talkers.show(10);
    let users: Vec<_> = (0..200).map(|number| user(&format!("u{number}-{}", "x".repeat(60_000)), &[])).collect();
    for user in &users {
        talkers.count(Some(Some(user)), Some(b"curl/8"), requests(1));
    }
    let held = users.iter().filter(|user| Arc::strong_count(user) > 1).count();
    assert!(held < 10, "{held} users of 60,000 bytes");
    talkers.merge();
    assert_eq!(sum(&talkers.top().users, |talker| talker.requests), 200);
}

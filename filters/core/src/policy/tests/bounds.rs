//! Memory and work that a tenant's rules can cause are bounded, whatever their lists.

use super::super::request_terms::RequestTerms;
use super::super::tree::{Node, Tree};
use super::hostile::{open_rule, pods, policies, user};
use super::{LinearMatcher, Policies, UserInfo, UserMatchCache, config};
use crate::seeded_hash::mix;

fn numbered(kind: &str, numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(|n| format!("{kind}{n}")).collect()
}

/// The tree of requests for resources, and the number of clauses that the request looks at one by one. It finds what the list does.
#[track_caller]
fn checked(policies: &[config::Policy], user: &UserInfo) -> (Policies, usize) {
    let index = Policies::new(policies);
    let expected = LinearMatcher::new(policies).first_match(&pods(), user).map(|matched| matched.policy);
    assert_eq!(index.first_match(&pods(), user), expected);
    let mut terms = RequestTerms::of_user(user, &index.known);
    terms.add_request(&pods(), &index.known);
    let checked = index.resource.tree.checked(&index.resource.clauses, &terms);
    (index, checked)
}

fn count_of(tree: &Tree, is: fn(&Node) -> bool) -> usize {
    tree.nodes.iter().filter(|node| is(node)).count()
}

fn is_large_leaf(node: &Node) -> bool {
    matches!(node, Node::Leaf { large_leaf: Some(_), .. })
}

#[test]
fn exclusions_of_long_lists_take_bounded_memory() {
    let rule = |n: usize, first: usize| config::Rule {
        users: numbered("u", first..first + 100),
        namespaces: numbered("-own", n * 100..n * 100 + 100).into_iter().chain(["-shared".into()]).collect(),
        ..open_rule()
    };
    for shift in [0, 1] {
        let policies = policies((0..65).map(|n| rule(n, n * shift)));
        let (index, _) = checked(&policies, &user("u80", []));
        let tree = &index.resource.tree;
        assert!(tree.leaves.len() <= 65 * 100 && tree.exclusions.bytes() <= 64 * tree.leaves.len());
        assert_eq!(shift == 0, count_of(tree, is_large_leaf) == 1, "users of all rules share a leaf");
    }
}

/// Each clause is in 300 leaves with its 300 exclusions, and no two leaves are the same.
#[test]
fn sets_end_where_they_take_too_much_work() {
    let rule = |n: usize| config::Rule {
        users: numbered("u", (0..300).filter(|user| !mix(*user as u64, n as u64).is_multiple_of(10))),
        namespaces: numbered("-ns", (0..300).map(|at| at * 3 + n % 3).chain([1000 + n])),
        ..open_rule()
    };
    let policies = policies((0..80).map(rule));
    let (index, _) = checked(&policies, &user("u299", []));
    let tree = &index.resource.tree;
    let with_sets = count_of(tree, is_large_leaf);
    assert!((1..100).contains(&with_sets) && tree.nodes.len() > 250, "{with_sets} of {}", tree.nodes.len());
}

#[test]
fn groups_of_a_team_lead_to_one_node() {
    let rule = |_| config::Rule {
        user_groups: numbered("g", 0..250),
        namespaces: vec!["other".into(), "another".into()],
        ..open_rule()
    };
    let (index, checked) = checked(&policies((0..1100).map(rule)), &user("alice", numbered("g", 0..250)));
    assert_eq!((index.resource.tree.nodes.len(), checked), (5, 0));
}

/// As above, but no two groups have the same rules.
#[test]
fn clauses_of_long_lists_are_compared_at_once() {
    let rule = |n: usize| config::Rule {
        user_groups: numbered("g", (0..70).filter(|group| n % 70 != *group)),
        namespaces: vec!["other".into(), "another".into()],
        resources: vec!["pods".into(), "nodes".into()],
        ..open_rule()
    };
    let (index, seen) = checked(&policies((0..600).map(rule)), &user("alice", numbered("g", 0..70)));
    assert_eq!((count_of(&index.resource.tree, |node| matches!(node, Node::Parts { .. })), seen), (70, 0));
    // A field with one value makes no copies, however many there are already.
    let of_one =
        |n: usize| config::Rule { namespaces: vec!["other".into()], resources: vec!["pods".into()], ..rule(n) };
    let (index, seen) = checked(&policies((0..600).map(of_one)), &user("alice", numbered("g", 0..70)));
    assert_eq!((count_of(&index.resource.tree, |node| matches!(node, Node::Parts { .. })), seen), (0, 0));
}

/// One that wants more has no influence on the blocks of the others.
#[test]
fn clauses_that_only_exclude_stay_together() {
    let mut rules: Vec<_> = (0..3000)
        .map(|n| config::Rule { user_groups: vec!["-blocked".into(), format!("-own{n}")], ..open_rule() })
        .collect();
    let wide = config::Rule {
        users: numbered("u", 0..65),
        verbs: vec!["get".into(), "list".into()],
        namespaces: vec!["other".into(), "another".into()],
        ..open_rule()
    };
    rules.insert(1000, wide);
    let (_, checked) = checked(&policies(rules), &user("u5", ["blocked".to_owned()]));
    assert!(checked <= 40, "{checked}");
}

#[test]
fn groups_that_few_exclude_hide_no_other() {
    let own = |n: usize| vec![format!("-own{n}"), "-blocked".into()];
    let policies = policies((0..3000).map(|n| config::Rule { user_groups: own(n), ..open_rule() }));
    let often = |name: &str| std::iter::repeat_n(name.to_owned(), 17).chain(["blocked".into()]).collect::<Vec<_>>();
    for groups in [numbered("own", 0..40), often("own0"), often("blocked")] {
        let (_, checked) = checked(&policies, &user("alice", groups.into_iter().chain(["blocked".into()])));
        assert_eq!(checked, 0);
    }
}

#[test]
fn most_frequent_of_many_sets_are_joined() {
    // Each of 20 groups is excluded by 100 rules, the last group by all.
    let groups = |n: usize| if n == 0 { 0..20 } else { n % 20..n % 20 + 1 };
    let rule = |n: usize| config::Rule {
        user_groups: numbered("-g", groups(n).chain(groups(n * 7))).into_iter().chain(["-last".into()]).collect(),
        users: vec![format!("-own{n}")],
        ..open_rule()
    };
    let of_user = numbered("g", 0..20).into_iter().chain(["last".into()]);
    let (_, checked) = checked(&policies((0..1000).map(rule)), &user("alice", of_user));
    assert_eq!(checked, 0);
}

#[test]
fn leaves_of_a_word_have_sets() {
    let own = |n: usize| numbered("-own", n * 4..n * 4 + 4).into_iter().chain(["-blocked".into()]).collect();
    let policies = policies((0..60).map(|n| config::Rule { user_groups: own(n), ..open_rule() }));
    let (index, checked) = checked(&policies, &user("alice", ["blocked".to_owned()]));
    assert_eq!((count_of(&index.resource.tree, is_large_leaf), checked), (1, 0));
}

/// An owner writes a beginning of each length, and has users with names of that length.
#[test]
fn ids_that_are_kept_of_a_user_are_weighed() {
    let beginnings = |most: usize| (1..=most).map(|len| format!("{}*", "a".repeat(len))).collect();
    let table = [(10, 3), (60, 70), (63, 0), (1_700, 0), (1_700, 200)];
    for (name, groups) in table {
        let groups = numbered("g", 0..groups);
        let rule = config::Rule { users: beginnings(name), user_groups: groups.clone(), ..open_rule() };
        let rules = policies([rule]);
        let (real, shadow) = (Policies::new(&rules), Policies::new(&rules).for_shadow());
        let user = user(&"a".repeat(name), groups);
        let cache = UserMatchCache::default();
        for policies in [&real, &shadow] {
            for _ in 0..2 {
                assert_eq!(policies.first_match_of(&pods(), &user, &cache), Some(0));
            }
        }
        assert!(cache.bytes() <= UserMatchCache::most_bytes(&user), "{name}: {}", cache.bytes());
        assert_eq!(cache.bytes() > 0, name < 64, "{name}: {}", cache.bytes());
    }
}

//! Configurations and users of unusual size are judged as the model judges them.

use super::LinearMatcher;
use super::{Policies, RequestInfo, UserInfo, config};

pub(super) fn open_rule() -> config::Rule {
    let all = || vec!["*".to_owned()];
    config::Rule {
        verbs: all(),
        api_groups: all(),
        resources: all(),
        non_resource_urls: all(),
        ..config::Rule::default()
    }
}

pub(super) fn policies(rules: impl IntoIterator<Item = config::Rule>) -> Vec<config::Policy> {
    rules
        .into_iter()
        .map(|rule| config::Policy {
            group: "g".into(),
            flow_control_schema: None,
            log: false,
            deny: None,
            rules: vec![rule],
        })
        .collect()
}

pub(super) fn pods() -> RequestInfo<'static> {
    RequestInfo {
        is_resource: true,
        verb: b"get".into(),
        api_version: b"v1",
        resource: b"pods",
        ..RequestInfo::default()
    }
}

pub(super) fn user(name: &str, groups: impl IntoIterator<Item = String>) -> UserInfo {
    UserInfo { name: name.into(), groups: groups.into_iter().collect(), ..UserInfo::default() }
}

#[track_caller]
fn agrees(policies: &[config::Policy], user: &UserInfo) -> Option<usize> {
    let found = Policies::new(policies).first_match(&pods(), user);
    assert_eq!(found, LinearMatcher::new(policies).first_match(&pods(), user).map(|matched| matched.policy));
    found
}

fn group_rule(entry: String, name: &str) -> config::Rule {
    config::Rule { user_groups: vec![entry], users: vec![name.into()], ..open_rule() }
}

#[test]
fn user_in_a_thousand_groups() {
    let named = |name: &'static str| policies((0..1000).map(|n| group_rule(format!("g{n}"), name)));
    let crowd =
        |range: std::ops::Range<u32>| user("alice", range.rev().flat_map(|n| [format!("g{n}"), format!("x{n}")]));
    assert_eq!(agrees(&named("alice"), &crowd(0..1000)), Some(0));
    assert_eq!(agrees(&named("alice"), &crowd(500..1500)), Some(500));
    assert_eq!(agrees(&named("bob"), &crowd(0..1000)), None);
    let excluded = policies((0..1000).map(|n| group_rule(format!("-g{n}"), "al*")));
    assert_eq!(agrees(&excluded, &crowd(0..999)), Some(999));
    assert_eq!(agrees(&excluded, &crowd(0..1000)), None);
}

#[test]
fn name_with_a_thousand_configured_beginnings() {
    let name = "a".repeat(1000);
    let rule = |n: usize| config::Rule { users: vec![format!("{}*", &name[..n])], ..open_rule() };
    let nested = policies((1..=1000).rev().map(rule));
    assert_eq!(agrees(&nested, &user(&name, [])), Some(0));
    assert_eq!(agrees(&nested, &user("aaaab", [])), Some(996));
    assert_eq!(agrees(&nested, &user("b", [])), None);
}

#[test]
fn users_excluded_by_name_are_found() {
    let rule = |n: usize| config::Rule {
        users: vec!["-alice".into(), format!("-bob{n}")],
        namespaces: vec![format!("-ns{n}")],
        ..open_rule()
    };
    let mut all = policies((0..3000).map(rule));
    assert_eq!(agrees(&all, &user("bob0", [])), Some(1));
    assert_eq!(agrees(&all, &user("alice", [])), None);
    all.extend(policies([config::Rule { users: vec!["alice".into()], ..open_rule() }]));
    assert_eq!(agrees(&all, &user("alice", [])), Some(3000));
}

#[test]
fn rules_with_long_lists_everywhere() {
    let list = |kind: &str, from: usize| (from..from + 100).map(|n| format!("{kind}{n}")).collect::<Vec<_>>();
    let rule = |n: usize| config::Rule {
        users: list("u", n),
        user_groups: list("g", n),
        namespaces: [list("n", n), vec![String::new()]].concat(),
        resource_names: [list("r", n), vec![String::new()]].concat(),
        ..open_rule()
    };
    let all = policies((0..200).map(rule));
    assert_eq!(agrees(&all, &user("u150", ["g160".to_owned()])), Some(61));
    assert_eq!(agrees(&all, &user("u0", ["g100".to_owned()])), None);
}

#[test]
fn names_longer_than_any_known() {
    let all = policies([config::Rule { users: vec!["alice".into()], ..open_rule() }]);
    assert_eq!(agrees(&all, &user(&"alice".repeat(100_000), [])), None);
}

/// A leaf of several blocks: groups that exclude whole blocks, every second policy or every fifth, and few of them.
#[test]
fn exclusions_by_groups_leave_the_first_open_policy() {
    const COUNT: usize = 3_000;
    type Excludes = fn(usize) -> bool;
    const GROUPS: [(&str, Excludes); 7] = [
        ("first-blocks", |n| n < 1_100),
        ("even", |n| n % 2 == 0),
        ("odd-until-near-the-end", |n| n % 2 == 1 && n < COUNT - 7),
        ("fifths", |n| n % 5 == 4),
        ("few", |n| n % 97 == 3),
        ("all-but-one-of-the-last", |n| n != COUNT - 3),
        ("all-but-the-last", |n| n != COUNT - 1),
    ];
    let rule = |n: usize| {
        let excluding = GROUPS.iter().filter(|(_, excludes)| excludes(n)).map(|(group, _)| format!("-{group}"));
        config::Rule { user_groups: excluding.chain(["-absent".into()]).collect(), ..open_rule() }
    };
    let policies = policies((0..COUNT).map(rule));
    let compiled = Policies::new(&policies);
    for chosen in 0..1 << GROUPS.len() {
        let of_user = || GROUPS.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1).map(|(_, group)| group);
        let user = user("alice", of_user().map(|(group, _)| (*group).to_owned()));
        let expected = (0..COUNT).find(|n| !of_user().any(|(_, excludes)| excludes(*n)));
        assert_eq!(compiled.first_match(&pods(), &user), expected, "{:?}", user.groups);
    }
}

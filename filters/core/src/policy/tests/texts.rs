//! Texts of every length and script, and users in more groups than fit beside a request's other terms.

use super::hostile::{open_rule, pods, policies, user};
use super::{LinearMatcher, Policies, RequestInfo, UserInfo, UserMatchCache, config};

fn found(policies: &[config::Policy], info: &RequestInfo<'_>, user: &UserInfo) -> Option<usize> {
    let index = Policies::new(policies);
    let expected = LinearMatcher::new(policies).first_match(info, user).map(|matched| matched.policy);
    let cache = UserMatchCache::default();
    for found in [
        index.first_match(info, user),
        index.first_match_of(info, user, &cache),
        index.first_match_of(info, user, &cache),
    ] {
        assert_eq!(found, expected, "{info:?} {user:?}");
    }
    expected
}

/// Texts that differ only near one end, up to 400 bytes long.
fn texts() -> Vec<String> {
    let long =
        |len: usize| (0..6).flat_map(move |n| [format!("{}{n}", "x".repeat(len)), format!("{n}{}", "x".repeat(len))]);
    let other = (0..12).map(|n| format!("é{}ß{}", n / 4, "日本".repeat(n * 5)));
    [1, 3, 7, 8, 9, 200, 399]
        .into_iter()
        .flat_map(long)
        .chain(other)
        .chain(["É0ß".into(), "e\u{301}0ß".into()])
        .collect()
}

#[test]
fn texts_long_and_not_ascii_are_told_apart() {
    let texts = texts();
    let rule = |(n, text): (usize, &String)| match n % 3 {
        0 => config::Rule { users: vec![text.clone()], ..open_rule() },
        1 => config::Rule { namespaces: vec![text.clone()], ..open_rule() },
        _ => config::Rule { user_groups: vec![text.clone()], resource_names: vec![format!("-{text}")], ..open_rule() },
    };
    let policies = policies(texts.iter().enumerate().map(rule));
    for (at, text) in texts.iter().enumerate() {
        let in_namespace = RequestInfo { namespace: text.as_bytes(), ..pods() };
        let named = RequestInfo { name: text.as_bytes().into(), ..pods() };
        let all = [
            found(&policies, &pods(), &user(text, [])),
            found(&policies, &in_namespace, &user("nobody", [])),
            found(&policies, &pods(), &user("nobody", [text.clone()])),
        ];
        let (of_kind, others): (Vec<_>, Vec<_>) = all.into_iter().zip(0..).partition(|(_, kind)| *kind == at % 3);
        assert_eq!(of_kind[0].0, Some(at), "{text}");
        assert!(others.iter().all(|(found, _)| found.is_none()));
        assert_eq!(found(&policies, &named, &user("nobody", [text.clone()])), None);
        assert_eq!(found(&policies, &pods(), &user(&format!("{text} "), [])), None);
    }
}

#[test]
fn beginnings_end_between_characters() {
    let texts = texts();
    let cut = |text: &str| format!("{}*", text.chars().take(text.chars().count() / 2).collect::<String>());
    let policies = policies(texts.iter().skip(12).map(|text| config::Rule { users: vec![cut(text)], ..open_rule() }));
    for text in &texts[12..] {
        assert!(found(&policies, &pods(), &user(text, [])).is_some());
        found(&policies, &pods(), &user(&text.to_uppercase(), []));
    }
}

#[test]
fn users_in_more_groups_than_fit_are_remembered() {
    let rule = |n: usize| config::Rule {
        user_groups: vec![format!("g{n}")],
        namespaces: vec![if n == 90 { "here" } else { "elsewhere" }.into()],
        ..open_rule()
    };
    let policies = policies((0..100).map(rule));
    let here = RequestInfo { namespace: b"here", ..pods() };
    for (groups, expected) in [(0..63, None), (0..64, None), (0..65, None), (20..100, Some(90)), (88..93, Some(90))] {
        let groups = groups.rev().map(|n| format!("g{n}"));
        let twice = groups.clone().chain(groups.clone());
        for groups in [groups.clone().collect::<Vec<_>>(), twice.collect()] {
            assert_eq!(found(&policies, &here, &user("alice", groups)), expected);
        }
    }
}

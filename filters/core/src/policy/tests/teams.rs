//! Rules of teams, whose lists are too long for a copy below each value of several fields, and users in very many groups.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::super::clause::{Clauses, Polarity};
use super::super::dimension::Dimension;
use super::super::request_terms::RequestTerms;
use super::super::tree::{Node, Tree};
use super::large_trees::{Given, built};

/// The common traits of a configuration's rules.
#[derive(Clone, Copy, Debug)]
struct Shape {
    rules: usize,
    /// Whether teams are of groups, or of users.
    of: Dimension,
    teams: u32,
    size: u32,
    /// Number of namespaces, resources and verbs, and the most of them in a rule.
    values: u32,
    most: usize,
    excludes: Excludes,
}

/// The names that rules exclude.
#[derive(Clone, Copy, Debug)]
enum Excludes {
    None,
    /// One of three.
    Shared,
    /// One that no other excludes.
    Own,
    Mixed,
}

prop_compose! {
    fn shape(rules: std::ops::Range<usize>)(
        rules in rules,
        of in select(&[Dimension::User, Dimension::UserGroup][..]),
        teams in select(&[1, 1, 2, 5][..]),
        size in 17..130_u32,
        values in 2..10_u32,
        most in 1..5_usize,
        excludes in select(&[Excludes::None, Excludes::Shared, Excludes::Own, Excludes::Mixed][..]),
    ) -> Shape {
        Shape { rules, of, teams, size, values, most, excludes }
    }
}

/// A rule's team, fields, and something to choose by.
type Drawn = (u32, [Vec<Index>; 3], u32);

fn drawn(shape: Shape) -> impl Strategy<Value = Drawn> {
    let field = || vec(any::<Index>(), 0..=shape.most);
    (0..shape.teams, [field(), field(), field()], any::<u32>())
}

fn clause(shape: Shape, number: u32, (team, fields, choice): &Drawn) -> Vec<Given> {
    let mut members: Vec<u32> = (team * shape.size..(team + 1) * shape.size).collect();
    // One of the team is missing now and then.
    if choice % 7 == 0 {
        members.remove((choice / 7 % shape.size) as usize);
    }
    let mut all = vec![(shape.of, Polarity::AnyOf, members)];
    let dimensions = [Dimension::Namespace, Dimension::Resource, Dimension::Verb];
    for (dimension, field) in dimensions.into_iter().zip(fields).filter(|(_, field)| !field.is_empty()) {
        // Value 0 is seldom wanted and often asked for.
        let value =
            |index: &Index| (index.index(10 * shape.values as usize) as u32 % shape.values).max(choice % 40 / 39);
        let mut values: Vec<u32> = field.iter().map(value).map(|value| value + u32::from(choice % 3 > 0)).collect();
        values.sort_unstable();
        values.dedup();
        all.push((dimension, Polarity::AnyOf, values));
    }
    let (shared, own) = (choice % 3, 3 + number);
    let excluded = match shape.excludes {
        Excludes::None => vec![],
        Excludes::Shared => vec![shared],
        Excludes::Own => vec![own],
        Excludes::Mixed => {
            [vec![shared], vec![own]].into_iter().take(1 + (choice / 3 % 2) as usize).flatten().collect()
        }
    };
    if !excluded.is_empty() {
        all.push((Dimension::ResourceName, Polarity::NoneOf, excluded));
    }
    all
}

/// Members of teams, a name, and a namespace, a resource and a verb.
type Asked = (Vec<Index>, u32, [u32; 3]);

fn asked() -> impl Strategy<Value = Asked> {
    let members = prop_oneof![3 => vec(any::<Index>(), 1..4), 1 => vec(any::<Index>(), 60..200)];
    let value = || prop_oneof![2 => Just(0), 3 => 0..12_u32];
    (members, prop_oneof![0..4_u32, 0..3000_u32], [value(), value(), value()])
}

fn equals_the_list(clauses: &Clauses, tree: &Tree, terms: &RequestTerms) -> Result<(), TestCaseError> {
    let expected = (0..clauses.len()).find(|clause| clauses.holds(*clause, terms));
    prop_assert_eq!(tree.first_match(clauses, terms), expected, "{:?}", terms);
    Ok(())
}

fn check(shape: Shape, rules: &[Drawn], asked: &[Asked]) -> Result<Tree, TestCaseError> {
    let all: Vec<_> = rules.iter().zip(0..).map(|(drawn, number)| clause(shape, number, drawn)).collect();
    let (clauses, tree) = built(&all);
    for (members, name, [namespace, resource, verb]) in asked {
        let ids = members.iter().map(|member| member.index((shape.teams * shape.size) as usize + 2) as u32);
        let ids: Vec<u32> = ids.take(if shape.of == Dimension::User { 1 } else { 200 }).collect();
        let [users, groups] = if shape.of == Dimension::User { [ids.as_slice(), &[]] } else { [&[], ids.as_slice()] };
        let terms = RequestTerms::of_any_ids([
            (Dimension::User, users),
            (Dimension::UserGroup, groups),
            (Dimension::ResourceName, &[*name]),
            (Dimension::Namespace, &[*namespace]),
            (Dimension::Resource, &[*resource]),
            (Dimension::Verb, &[*verb]),
        ]);
        equals_the_list(&clauses, &tree, &terms)?;
    }
    Ok(tree)
}

fn case(rules: std::ops::Range<usize>) -> impl Strategy<Value = (Shape, Vec<Drawn>, Vec<Asked>)> {
    shape(rules).prop_flat_map(|shape| (Just(shape), vec(drawn(shape), shape.rules), vec(asked(), 80)))
}

/// Up to three of 40 groups that a clause excludes, and one of its own.
fn excluding_clause() -> impl Strategy<Value = Vec<u32>> {
    vec(0..40_u32, 1..4)
}

fn excluding(all: &[Vec<u32>]) -> (Clauses, Tree) {
    let groups = |(number, groups): (u32, &Vec<u32>)| {
        let mut groups: Vec<u32> = groups.iter().copied().chain([40 + number]).collect();
        groups.sort_unstable();
        groups.dedup();
        vec![(Dimension::UserGroup, Polarity::NoneOf, groups)]
    };
    built(&(0..).zip(all).map(groups).collect::<Vec<_>>())
}

/// Groups in any order, some of them twice: of the 40, and of those that one clause excludes.
fn groups() -> impl Strategy<Value = Vec<u32>> {
    (vec(prop_oneof![4 => 0..40_u32, 1 => 0..4000_u32], 0..60), any::<bool>()).prop_map(|(mut groups, twice)| {
        if twice {
            groups.extend_from_within(..);
        }
        groups
    })
}

fn check_groups(all: &[Vec<u32>], asked: &[Vec<u32>]) -> Result<(), TestCaseError> {
    let (clauses, tree) = excluding(all);
    let is_large = |node: &Node| matches!(node, Node::Leaf { large_leaf: Some(_), .. });
    prop_assert!(all.len() < 1000 || tree.nodes.iter().any(is_large));
    asked.iter().try_for_each(|groups| {
        let mut before = groups.clone();
        before.sort_unstable();
        before.dedup();
        let terms = RequestTerms::of_any_ids([(Dimension::UserGroup, groups)]);
        prop_assert_eq!(terms.of_dimension(Dimension::UserGroup), before);
        equals_the_list(&clauses, &tree, &terms)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn teams_equal_the_list((shape, rules, asked) in prop_oneof![3 => case(40..600), 1 => case(600..1500)]) {
        check(shape, &rules, &asked)?;
    }

    #[test]
    fn groups_of_many_sets_equal_the_list(
        all in prop_oneof![3 => vec(excluding_clause(), 70..1200), 1 => vec(excluding_clause(), 2500)],
        asked in vec(groups(), 60),
    ) {
        check_groups(&all, &asked)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "takes longer than 30 seconds"]
    fn large_teams_equal_the_list((shape, rules, asked) in case(40..3000)) {
        check(shape, &rules, &asked)?;
    }
}

/// Roots around the number of clauses that are gathered, and one whose leaf has a second word of blocks.
#[test]
#[ignore = "takes longer than 30 seconds"]
fn roots_of_many_clauses_equal_the_list() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::default();
    for len in [8_191, 8_192, 8_193, 33_000] {
        let strategy = (vec(excluding_clause(), len), vec(groups(), 200));
        let (all, asked) = strategy.new_tree(&mut runner).unwrap().current();
        check_groups(&all, &asked).unwrap_or_else(|error| panic!("{len}: {error}"));
        let strategy = case(len..len + 1);
        let (shape, rules, asked) = strategy.new_tree(&mut runner).unwrap().current();
        check(shape, &rules, &asked).unwrap_or_else(|error| panic!("{len}: {error}"));
    }
}

/// Were no part of a tree built, the properties would hold of less.
#[test]
fn teams_of_users_need_leaves_in_parts() {
    let shape =
        Shape { rules: 1100, of: Dimension::User, teams: 2, size: 65, values: 2, most: 2, excludes: Excludes::Shared };
    let both = [Dimension::Namespace, Dimension::Verb].map(|dimension| (dimension, Polarity::AnyOf, vec![0, 1]));
    let wanting = |n: u32| [clause(shape, n, &(n % 2, Default::default(), 1)), both.to_vec()].concat();
    let (_, tree) = built(&(0..1100).map(wanting).collect::<Vec<_>>());
    assert!(tree.nodes.iter().any(|node| matches!(node, Node::Parts { .. })));
}

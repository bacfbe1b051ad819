//! Trees with every kind of node find the first clause that holds, as a look at each clause does.

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::super::build::build;
use super::super::clause::{Clauses, Condition, Polarity};
use super::super::dimension::Dimension;
use super::super::request_terms::RequestTerms;
use super::super::tree::{Node, Tree};

/// A field, whether its values are excluded, and these.
pub(super) type Given = (Dimension, Polarity, Vec<u32>);

fn values(of: u32, len: usize) -> impl Strategy<Value = Vec<u32>> {
    // Some are far from the others.
    let value = prop_oneof![9 => 0..of, 1 => (0..of).prop_map(|value| value * 1000)];
    btree_set(value, 1..=len).prop_map(|all| all.into_iter().collect())
}

fn given(dimension: Dimension, of: u32, len: usize, wanted: f64) -> impl Strategy<Value = Option<Given>> {
    let wants = prop::bool::weighted(wanted).prop_map(|wants| if wants { Polarity::AnyOf } else { Polarity::NoneOf });
    prop::option::weighted(0.9, (Just(dimension), wants, values(of, len)))
}

/// Few values, so that rows are shared, and users of their own, so that not all are.
fn clause() -> impl Strategy<Value = Vec<Given>> {
    let fields = (
        given(Dimension::User, 300, 3, 0.7),
        given(Dimension::UserGroup, 12, 4, 0.6),
        given(Dimension::Namespace, 30, 3, 0.7),
        given(Dimension::Verb, 6, 3, 1.0),
    );
    let all = fields
        .prop_map(|(user, group, namespace, verb)| [user, group, namespace, verb].into_iter().flatten().collect());
    all.prop_filter("a clause that always holds", |all: &Vec<Given>| !all.is_empty())
}

/// Exclusions alone: up to two of eight groups, and mostly a user among many.
fn excluding_clause() -> impl Strategy<Value = Vec<Given>> {
    let users = prop::option::weighted(0.95, values(20_000, 2));
    (users, values(8, 2)).prop_map(|(users, groups)| {
        let users = users.map(|users| (Dimension::User, Polarity::NoneOf, users));
        users.into_iter().chain([(Dimension::UserGroup, Polarity::NoneOf, groups)]).collect()
    })
}

pub(super) fn built(all: &[Vec<Given>]) -> (Clauses, Tree) {
    let mut clauses = Clauses::default();
    for (given, policy) in all.iter().zip(0..) {
        let conditions =
            given.iter().map(|(dimension, wants, ids)| Condition { dimension: *dimension, wants: *wants, ids });
        clauses.push(policy, &mut conditions.collect::<Vec<_>>());
    }
    let tree = build(&clauses);
    (clauses, tree)
}

/// A user's id, groups' ids, a namespace's and a verb's.
type Asked = (u32, Vec<u32>, u32, u32);

fn asked(users: u32) -> impl Strategy<Value = Asked> {
    let groups = prop_oneof![4 => values(12, 6), 1 => Just((0..12).collect()), 1 => Just((0..2000).collect())];
    (0..users, groups, 0..33_u32, 0..7_u32)
}

fn check(clauses: &Clauses, tree: &Tree, asked: &[Asked]) -> Result<(), TestCaseError> {
    for (user, groups, namespace, verb) in asked {
        let terms = RequestTerms::of_ids([
            (Dimension::User, &[*user]),
            (Dimension::UserGroup, groups),
            (Dimension::Namespace, &[*namespace]),
            (Dimension::Verb, &[*verb]),
        ]);
        let expected = (0..clauses.len()).find(|clause| clauses.holds(*clause, &terms));
        prop_assert_eq!(tree.first_match(clauses, &terms), expected, "{} {:?} {} {}", user, groups, namespace, verb);
    }
    Ok(())
}

fn is_split(node: &Node) -> bool {
    matches!(node, Node::Split { .. })
}

fn is_large_leaf(node: &Node) -> bool {
    matches!(node, Node::Leaf { large_leaf: Some(_), .. })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn tree_of_many_clauses_equals_the_list(
        all in prop_oneof![vec(clause(), 40..512), vec(clause(), 2500..4000)],
        asked in vec(asked(320), 300),
    ) {
        let (clauses, tree) = built(&all);
        prop_assert!(all.len() <= 512 || tree.nodes.iter().any(is_split));
        check(&clauses, &tree, &asked)?;
    }

    #[test]
    fn blocks_of_many_exclusions_equal_the_list(
        all in vec(excluding_clause(), 2500..5000),
        asked in vec(asked(20_000), 300),
    ) {
        let (clauses, tree) = built(&all);
        prop_assert!(tree.nodes.iter().any(is_large_leaf));
        check(&clauses, &tree, &asked)?;
    }
}

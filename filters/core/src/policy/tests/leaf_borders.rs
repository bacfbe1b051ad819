//! Leaves whose clauses end at a word, a pair of words or a block, or one before or behind it, and requests at the edges of what
//! their clauses name.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;

use super::super::clause::Clauses;
use super::super::clause::Polarity::{self, AnyOf, NoneOf};
use super::super::dimension::Dimension;
use super::super::request_terms::RequestTerms;
use super::super::tree::{Node, Tree};
use super::large_trees::{Given, built};

/// Numbers of clauses: of a leaf's words and pairs of words, and the most that are compared at once.
const OF_ROWS: &[usize] = &[33, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 257, 383, 384, 385, 511, 512];
/// Numbers of clauses: of blocks that exclusions fill, and of 64 of these.
const OF_BLOCKS: &[usize] = &[513, 575, 576, 577, 1023, 1024, 1025, 1535, 1536, 1537, 32_767, 32_768, 32_769];

/// The ids of a request: a user's, groups', in any order and more than once, a namespace's, a verb's. Some are named nowhere.
type Asked = [Vec<u32>; 4];

const ASKED: [Dimension; 4] = [Dimension::User, Dimension::UserGroup, Dimension::Namespace, Dimension::Verb];

fn condition(dimension: Dimension, wants: Polarity, of: &'static [u32], most: usize) -> BoxedStrategy<Given> {
    let ids = vec(select(of), 1..=most).prop_map(|mut ids: Vec<u32>| {
        ids.sort_unstable();
        ids.dedup();
        ids
    });
    ids.prop_map(move |ids| (dimension, wants, ids)).boxed()
}

/// A condition that wants, excludes, or is left out.
fn field(dimension: Dimension, of: &'static [u32], most: usize) -> impl Strategy<Value = Option<Given>> {
    prop_oneof![
        2 => condition(dimension, AnyOf, of, most).prop_map(Some),
        2 => condition(dimension, NoneOf, of, most).prop_map(Some),
        1 => Just(None),
    ]
}

/// Values beside each other, values far apart, and the ends of the range, so that rows are found by tables and by a search.
const USERS: &[u32] = &[0, 1, 2, 3, 63, 64, 65];
const GROUPS: &[u32] = &[2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610];
const NAMESPACES: &[u32] = &[0, 1000, 2000, 500_000];

fn clause() -> impl Strategy<Value = Vec<Given>> {
    let fields = (
        field(Dimension::User, USERS, 3),
        field(Dimension::UserGroup, GROUPS, 5),
        field(Dimension::Namespace, NAMESPACES, 2),
    );
    let all = (fields, condition(Dimension::Verb, AnyOf, &[4, 5, 6], 2));
    all.prop_map(|((user, group, namespace), verb)| {
        [user, group, namespace, Some(verb)].into_iter().flatten().collect()
    })
}

fn asked() -> impl Strategy<Value = Asked> {
    let one = |of: &'static [u32]| prop_oneof![1 => Just(Vec::new()), 6 => select(of).prop_map(|id| vec![id])];
    let groups = prop_oneof![
        4 => vec(0..700_u32, 0..4),
        4 => vec(select(GROUPS), 0..9),
        2 => vec(select(GROUPS), 8..40),
        1 => vec(prop_oneof![0..2_u32, 611..700_u32], 7..12),
        1 => vec(prop_oneof![select(GROUPS), 0..5_u32, 600..620_u32], 7..12),
    ];
    let groups = groups.prop_map(|mut groups: Vec<u32>| {
        groups.sort_unstable();
        groups
    });
    let users = one(&[0, 1, 2, 3, 4, 62, 63, 64, 65, 66]);
    (users, groups, one(&[0, 1, 999, 1000, 2000, 500_000, 500_001]), one(&[3, 4, 5, 6, 7]))
        .prop_map(|(user, groups, namespace, verb)| [user, groups, namespace, verb])
}

fn check(clauses: &Clauses, tree: &Tree, asked: &[Asked]) -> Result<usize, TestCaseError> {
    let mut hits = 0;
    for ids in asked {
        let [user, groups, namespace, verb] = ids.each_ref().map(Vec::as_slice);
        let terms = RequestTerms::of_ids([
            (Dimension::User, user),
            (Dimension::UserGroup, groups),
            (Dimension::Namespace, namespace),
            (Dimension::Verb, verb),
        ]);
        let expected = (0..clauses.len()).find(|clause| clauses.holds(*clause, &terms));
        prop_assert_eq!(
            tree.first_match(clauses, &terms),
            expected,
            "{} clauses, {:?} {:?}",
            clauses.len(),
            ASKED,
            ids
        );
        hits += usize::from(expected.is_some());
    }
    Ok(hits)
}

/// Clauses of which each excludes a user and, but for some, the groups of its block, its word and its place.
fn excluding(len: usize, holding: &[usize]) -> Vec<Vec<Given>> {
    let groups = |at: usize| -> Vec<u32> {
        let (block, word) = (at as u32 / 512, at as u32 / 64);
        // By blocks, by words of a block, by turns: joined they leave what `holding` names.
        if holding.contains(&at) { vec![99] } else { vec![block % 2, 2 + word % 3, 5 + at as u32 % 2, 99] }
    };
    // A user of its own makes each clause different from the others.
    (0..len)
        .map(|at| vec![(Dimension::User, NoneOf, vec![at as u32]), (Dimension::UserGroup, NoneOf, groups(at))])
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn rows_equal_the_list_at_their_borders(
        all in select(OF_ROWS).prop_flat_map(|len| vec(clause(), len)),
        asked in vec(asked(), 400),
    ) {
        let (clauses, tree) = built(&all);
        // Fewer have no room for rows of all values.
        prop_assert!(all.len() < 63 || matches!(tree.nodes.as_slice(), [Node::Bits(_)]));
        check(&clauses, &tree, &asked)?;
    }

    #[test]
    fn clauses_at_the_end_are_found_at_the_borders_of_rows(
        mut all in select(OF_ROWS).prop_flat_map(|len| vec(clause(), len)),
        last in clause(),
        asked in vec(asked(), 100),
    ) {
        // One verb alone leads behind all the others.
        for (_, _, ids) in all.iter_mut().flatten().filter(|(dimension, ..)| *dimension == Dimension::Verb) {
            *ids = vec![4];
        }
        let with_verb = |verb: u32| {
            last.iter().map(move |(at, wants, ids)| (*at, *wants, if *at == Dimension::Verb { vec![verb] } else { ids.clone() }))
        };
        let len = all.len();
        all[len - 1] = with_verb(5).collect();
        all[len - 2] = with_verb(6).collect();
        let (clauses, tree) = built(&all);
        // Fewer have no room for rows of all values.
        prop_assert!(all.len() < 63 || matches!(tree.nodes.as_slice(), [Node::Bits(_)]));
        check(&clauses, &tree, &asked)?;
    }
}

/// Groups that exclude by blocks, by words and by turns leave single clauses at the borders, in each order.
#[test]
fn blocks_that_are_excluded_leave_clauses_at_borders() {
    for len in OF_BLOCKS.iter().copied() {
        let near = [0, 63, 64, 511, 512, 1024, 32_767, len - 2, len - 1];
        for holding in [&near[..], &near[1..], &near[7..], &near[8..], &[]] {
            let (clauses, tree) = built(&excluding(len, holding));
            assert!(matches!(tree.nodes.as_slice(), [Node::Leaf { large_leaf: Some(_), .. }]), "{len}");
            let some: [&[u32]; 7] =
                [&[0, 1], &[0, 1, 2, 3, 4, 5, 6], &[2, 3, 4], &[5, 6], &[5, 5, 6, 7], &[0, 2, 5], &[0, 2, 5, 99]];
            for groups in some.into_iter().chain([&[][..], &[100][..]]) {
                let users = [len as u32, 0, 63, 511, 512, len as u32 - 1];
                for user in users.into_iter().take(if len > 2000 { 1 } else { 6 }) {
                    let terms = RequestTerms::of_ids([(Dimension::User, &[user]), (Dimension::UserGroup, groups)]);
                    let expected = (0..clauses.len()).find(|clause| clauses.holds(*clause, &terms));
                    assert_eq!(tree.first_match(&clauses, &terms), expected, "{len} {holding:?} {user} {groups:?}");
                }
            }
        }
    }
}

/// Were nearly all requests refused, or met by the first clause, the properties above would say little.
#[test]
fn requests_at_the_borders_match_early_and_late() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = (vec(clause(), 512), vec(asked(), 2000));
    let (all, asked) = strategy.new_tree(&mut runner).unwrap().current();
    let (clauses, tree) = built(&all);
    let hits = check(&clauses, &tree, &asked).unwrap();
    assert!((200..1800).contains(&hits), "{hits} of {}", asked.len());
}

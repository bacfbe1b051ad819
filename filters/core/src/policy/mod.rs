//! Dispatch policies: the first one that matches a request decides its server group.
//!
//! Policies are compiled into an index, so that a match does not walk their list
//! (docs/decisions/0008-match-dispatch-policies-with-a-decision-tree.md).
//! - `compile` reads rules into *clauses*: per dimension (user, verb, resource...) one of some values, or none of some. Texts
//!   become ids (`request_terms`).
//! - `build` makes a `tree` of them: it splits on the dimension that separates most, with one edge for each value and one for
//!   the clauses without a constraint there. Clauses that no split separates end in a leaf; so do a few hundred that name the
//!   same values, and are compared all at once (`bit_leaves`).
//! - A match turns the request into ids once, follows the edges that these open and checks the clauses in the leaves, but only
//!   where a policy can be that comes before the best match so far.

mod arrangement;
mod bit_leaf_builder;
mod bit_leaves;
mod branches;
mod build;
mod build_work;
mod clause;
mod compile;
mod deal;
mod dimension;
mod edge_map;
mod exclusion_index;
mod exclusion_index_builder;
mod fetch;
mod items;
mod leaves;
mod linear;
pub(crate) mod names;
mod prefixes;
mod request_terms;
mod rule_sets;
mod signature;
mod split_costs;
mod static_hash_table;
mod tree;
mod value_ranks;

use std::sync::atomic::{AtomicU64, Ordering};

use portcullis_filter_config as config;

use crate::identity::UserInfo;
use crate::request_info::RequestInfo;
use clause::Clauses;
use compile::Compiler;
use fetch::{FETCHED, fetch};
pub use request_terms::UserMatchCache;
use request_terms::{RequestTerms, Vocabularies};
use tree::Tree;

pub use linear::{LinearMatcher, Matched};
pub(crate) use rule_sets::{RequestWords, RuleSet, RuleSetCompiler, RuleWords};

/// The policies of a cluster, compiled.
#[derive(Debug)]
pub struct Policies {
    /// Number of these policies, unique in the process.
    number: u64,
    /// Whether they only report.
    is_shadow: bool,
    groups: Vec<String>,
    known: Vocabularies,
    resource: Index,
    plain: Index,
}

/// The clauses for one kind of request.
#[derive(Debug)]
struct Index {
    clauses: Clauses,
    tree: Tree,
}

static POLICIES: AtomicU64 = AtomicU64::new(1);

impl Policies {
    /// Compiles policies, in the order in which they are tried.
    pub fn new(policies: &[config::Policy]) -> Self {
        let mut compiler = Compiler::default();
        let rules =
            policies.iter().zip(0..).flat_map(|(policy, number)| policy.rules.iter().map(move |rule| (number, rule)));
        let mut ahead = rules.clone().map(|(_, rule)| rule);
        for ((number, rule), at) in rules.zip(0_usize..) {
            if at.is_multiple_of(FETCHED) {
                fetch(ahead.by_ref().take(FETCHED));
            }
            compiler.add(number, rule);
        }
        Policies {
            number: POLICIES.fetch_add(1, Ordering::Relaxed),
            is_shadow: false,
            groups: policies.iter().map(|policy| policy.group.clone()).collect(),
            known: compiler.vocabularies(),
            resource: Index::new(compiler.resource),
            plain: Index::new(compiler.plain),
        }
    }

    /// Compiles the policies for clients of which nothing is known: rules that want or exclude users, service accounts or
    /// groups do not match.
    pub fn for_unknown(policies: &[config::Policy]) -> Self {
        let known = policies.iter().map(|policy| config::Policy {
            rules: policy.rules.iter().filter(|rule| !rule.depends_on_user()).cloned().collect(),
            ..policy.clone()
        });
        Policies::new(&known.collect::<Vec<_>>())
    }

    /// Has what is remembered of users kept apart from what is remembered for the real policies.
    #[must_use]
    pub(crate) fn for_shadow(self) -> Self {
        Policies { is_shadow: true, ..self }
    }

    /// The index of the first policy that the request matches.
    ///
    /// Allocates nothing, unless rules name more than 64 of a request's terms (of its user's groups, that is): then one vector
    /// of their ids.
    pub fn first_match(&self, info: &RequestInfo<'_>, user: &UserInfo) -> Option<usize> {
        self.search(RequestTerms::of_user(user, &self.known), info)
    }

    /// As [`Policies::first_match`], with a cache of the user's terms.
    pub fn first_match_of(&self, info: &RequestInfo<'_>, user: &UserInfo, cache: &UserMatchCache) -> Option<usize> {
        self.search(cache.terms(self.number, self.is_shadow, || RequestTerms::of_user(user, &self.known)), info)
    }

    #[inline]
    fn search(&self, mut terms: RequestTerms, info: &RequestInfo<'_>) -> Option<usize> {
        terms.add_request(info, &self.known);
        let index = if info.is_resource { &self.resource } else { &self.plain };
        index.tree.first_match(&index.clauses, &terms).map(|policy| policy as usize)
    }

    /// The server groups, in the order of the policies.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(String::as_str)
    }
}

impl Index {
    fn new(clauses: Clauses) -> Self {
        Index { tree: build::build(&clauses), clauses }
    }
}

#[cfg(test)]
mod tests;

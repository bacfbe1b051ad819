//! Sets of rules that are asked one by one about the same request, as the entries of access lists are. All of them have one vocabulary,
//! so that a user's groups are looked up once, however many sets there are.

use portcullis_filter_config as config;

use super::Index;
use super::compile::Compiler;
use super::request_terms::{RequestTerms, Vocabularies};
use crate::identity::UserInfo;
use crate::request_info::RequestInfo;

/// Compiles sets of rules.
#[derive(Debug, Default)]
pub(crate) struct RuleSetCompiler<'c>(Compiler<'c>);

/// A set of rules, compiled.
#[derive(Debug)]
pub(crate) struct RuleSet {
    resource: Index,
    plain: Index,
}

/// The texts that sets of rules name.
#[derive(Debug)]
pub(crate) struct RuleWords(Vocabularies);

/// A request of a user, as the sets of rules see it.
#[derive(Debug)]
pub(crate) struct RequestWords {
    terms: RequestTerms,
    is_resource: bool,
}

impl<'c> RuleSetCompiler<'c> {
    pub(crate) fn add(&mut self, rules: impl Iterator<Item = &'c config::Rule>) -> RuleSet {
        rules.for_each(|rule| self.0.add(0, rule));
        let [resource, plain] = [&mut self.0.resource, &mut self.0.plain].map(std::mem::take).map(Index::new);
        RuleSet { resource, plain }
    }

    /// The texts of all sets.
    pub(crate) fn words(&self) -> RuleWords {
        RuleWords(self.0.vocabularies())
    }
}

impl RuleWords {
    pub(crate) fn of(&self, info: &RequestInfo<'_>, user: &UserInfo) -> RequestWords {
        let mut terms = RequestTerms::of_user(user, &self.0);
        terms.add_request(info, &self.0);
        RequestWords { terms, is_resource: info.is_resource }
    }
}

impl RuleSet {
    /// Whether a rule matches a request. Its words are those of all sets that were compiled with this one.
    pub(crate) fn matches(&self, request: &RequestWords) -> bool {
        let index = if request.is_resource { &self.resource } else { &self.plain };
        index.tree.first_match(&index.clauses, &request.terms).is_some()
    }
}

use portcullis_filter_config::{self as config, RuleList};

use super::clause::{Clauses, Condition, Polarity};
use super::dimension::Dimension;
use super::request_terms::TermTableBuilder;
use super::request_terms::Vocabularies;
use crate::identity::UserInfo;

/// Rules, read into clauses: one set for resource requests, one for plain paths.
#[derive(Debug, Default)]
pub(super) struct Compiler<'c> {
    words: [TermTableBuilder<'c>; Dimension::COUNT],
    pub(super) resource: Clauses,
    pub(super) plain: Clauses,
}

/// The constraint of a rule's field.
#[derive(Clone, Debug)]
enum FieldConstraint {
    Nothing,
    Impossible,
    OneOf(Condition),
}

impl<'c> Compiler<'c> {
    /// Adds a rule of a policy, which may not come before the policies that were added.
    pub(super) fn add(&mut self, policy: u32, rule: &'c config::Rule) {
        let verbs = self.field(Dimension::Verb, &rule.verbs, FieldConstraint::Impossible);
        let groups = self.field(Dimension::UserGroup, &rule.user_groups, FieldConstraint::Nothing);
        let target = [
            self.field(Dimension::Resource, &rule.resources, FieldConstraint::Impossible),
            self.field(Dimension::ApiGroup, &rule.api_groups, FieldConstraint::Impossible),
            self.field(Dimension::ApiVersion, &rule.api_versions, FieldConstraint::Nothing),
            self.field(Dimension::ResourceName, &rule.resource_names, FieldConstraint::Nothing),
            self.field(Dimension::Namespace, &rule.namespaces, FieldConstraint::Nothing),
        ];
        let path = self.paths(&rule.non_resource_urls);
        for subject in self.subjects(rule) {
            let common = [&verbs, &groups, &subject];
            if let Some(conditions) = conditions(common.into_iter().chain(&target)) {
                self.resource.push(policy, conditions);
            }
            if let Some(conditions) = conditions(common.into_iter().chain([&path])) {
                self.plain.push(policy, conditions);
            }
        }
    }

    pub(super) fn vocabularies(&self) -> Vocabularies {
        Vocabularies { by_dimension: self.words.each_ref().map(TermTableBuilder::freeze) }
    }

    fn field(&mut self, dimension: Dimension, entries: &'c [String], empty: FieldConstraint) -> FieldConstraint {
        match RuleList::read(entries) {
            None => empty,
            Some(RuleList::All) => FieldConstraint::Nothing,
            Some(RuleList::AnyOf(entries)) => FieldConstraint::one_of(dimension, self.read(dimension, &entries)),
            Some(RuleList::NoneOf(entries)) => FieldConstraint::none_of(dimension, self.read(dimension, &entries)),
        }
    }

    /// No path can be excluded, as KubeGateway's documents have it: exclusions alone match nothing.
    fn paths(&mut self, entries: &'c [String]) -> FieldConstraint {
        match RuleList::read(entries) {
            Some(RuleList::NoneOf(_)) => FieldConstraint::Impossible,
            _ => self.field(Dimension::Path, entries, FieldConstraint::Impossible),
        }
    }

    /// Users and service accounts are a union, and match every user if both lists are empty. Excluded users together with
    /// service accounts are two ways of matching.
    fn subjects(&mut self, rule: &'c config::Rule) -> Vec<FieldConstraint> {
        let users = self.field(Dimension::User, &rule.users, FieldConstraint::Impossible);
        if rule.users.is_empty() && rule.service_accounts.is_empty() {
            return vec![FieldConstraint::Nothing];
        }
        let names: Vec<String> = rule.service_accounts.iter().filter_map(user_name).collect();
        let accounts: Vec<u32> = names.into_iter().filter_map(|name| self.user(name)).collect();
        match users {
            FieldConstraint::Nothing => vec![FieldConstraint::Nothing],
            FieldConstraint::Impossible => vec![FieldConstraint::one_of(Dimension::User, accounts)],
            FieldConstraint::OneOf(Condition { wants: Polarity::AnyOf, mut ids, .. }) => {
                ids.extend(accounts);
                vec![FieldConstraint::one_of(Dimension::User, ids)]
            }
            excluded @ FieldConstraint::OneOf(_) => vec![excluded, FieldConstraint::one_of(Dimension::User, accounts)],
        }
    }

    /// The ids that the entries cover.
    fn read(&mut self, dimension: Dimension, entries: &[&'c str]) -> Vec<u32> {
        let Some(words) = self.words.get_mut(dimension.index()) else { return Vec::new() };
        entries.iter().filter_map(|entry| words.read(dimension, entry)).collect()
    }

    fn user(&mut self, name: String) -> Option<u32> {
        self.words.get_mut(Dimension::User.index()).map(|words| words.name(name.into(), ""))
    }
}

impl FieldConstraint {
    fn one_of(dimension: Dimension, ids: Vec<u32>) -> Self {
        if ids.is_empty() {
            FieldConstraint::Impossible
        } else {
            FieldConstraint::OneOf(condition(dimension, Polarity::AnyOf, ids))
        }
    }

    fn none_of(dimension: Dimension, ids: Vec<u32>) -> Self {
        if ids.is_empty() {
            FieldConstraint::Nothing
        } else {
            FieldConstraint::OneOf(condition(dimension, Polarity::NoneOf, ids))
        }
    }
}

fn condition(dimension: Dimension, wants: Polarity, mut ids: Vec<u32>) -> Condition {
    ids.sort_unstable();
    ids.dedup();
    Condition { dimension, wants, ids }
}

/// The conditions of a clause; `None` if it can never hold.
fn conditions<'a>(fields: impl Iterator<Item = &'a FieldConstraint>) -> Option<Vec<&'a Condition>> {
    let mut conditions = Vec::new();
    for field in fields {
        match field {
            FieldConstraint::Nothing => {}
            FieldConstraint::Impossible => return None,
            FieldConstraint::OneOf(condition) => conditions.push(condition),
        }
    }
    Some(conditions)
}

/// The name of the user that is the service account, if there can be one.
fn user_name(account: &config::ServiceAccount) -> Option<String> {
    let config::ServiceAccount { namespace, name } = account;
    let user = UserInfo { name: format!("system:serviceaccount:{namespace}:{name}"), ..UserInfo::default() };
    (user.service_account() == Some((namespace, name))).then_some(user.name)
}

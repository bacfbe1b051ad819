use portcullis_filter_config::{self as config, RuleEntries, RuleList};

use super::clause::{Clauses, Condition, Polarity};
use super::dimension::Dimension;
use super::request_terms::TermTableBuilder;
use super::request_terms::Vocabularies;
use crate::identity::UserInfo;

/// Rules, read into clauses: one set for resource requests, one for plain paths.
#[derive(Debug, Default)]
pub(super) struct Compiler<'c> {
    words: Words<'c>,
    pub(super) resource: Clauses,
    pub(super) plain: Clauses,
}

/// The texts of all rules, and the ids of the rule that is being read: 100,000 rules make no vector each.
#[derive(Debug, Default)]
struct Words<'c> {
    by_dimension: [TermTableBuilder<'c>; Dimension::COUNT],
    ids: Vec<u32>,
    of_field: Vec<u32>,
}

/// The constraint of a rule's field.
#[derive(Clone, Copy, Debug)]
enum FieldConstraint {
    Nothing,
    Impossible,
    /// Ids from and to.
    OneOf {
        dimension: Dimension,
        wants: Polarity,
        start: usize,
        end: usize,
    },
}

impl<'c> Compiler<'c> {
    /// Adds a rule of a policy, which may not come before the policies that were added.
    pub(super) fn add(&mut self, policy: u32, rule: &'c config::Rule) {
        self.words.ids.clear();
        let verbs = self.words.field(Dimension::Verb, &rule.verbs, FieldConstraint::Impossible);
        let path = self.words.paths(&rule.non_resource_urls);
        let target = self.words.target(rule);
        let are_possible = [path.is_possible(), target.iter().all(|field| field.is_possible())];
        if !verbs.is_possible() || are_possible == [false, false] {
            return;
        }
        let groups = self.words.field(Dimension::UserGroup, &rule.user_groups, FieldConstraint::Nothing);
        for subject in self.words.subjects(rule) {
            let common = [verbs, groups, subject];
            add_clause(&mut self.resource, policy, common.into_iter().chain(target), &self.words.ids);
            add_clause(&mut self.plain, policy, common.into_iter().chain([path]), &self.words.ids);
        }
    }

    pub(super) fn vocabularies(&self) -> Vocabularies {
        Vocabularies { by_dimension: self.words.by_dimension.each_ref().map(TermTableBuilder::freeze) }
    }
}

impl<'c> Words<'c> {
    fn field(&mut self, dimension: Dimension, entries: &'c [String], empty: FieldConstraint) -> FieldConstraint {
        match RuleList::read(entries) {
            None => empty,
            Some(RuleList::All) => FieldConstraint::Nothing,
            Some(RuleList::AnyOf(wanted)) => {
                self.read(dimension, wanted);
                self.constraint(dimension, Polarity::AnyOf)
            }
            Some(RuleList::NoneOf(excluded)) => {
                self.read(dimension, excluded);
                self.constraint(dimension, Polarity::NoneOf)
            }
        }
    }

    fn target(&mut self, rule: &'c config::Rule) -> [FieldConstraint; 5] {
        [
            self.field(Dimension::Resource, &rule.resources, FieldConstraint::Impossible),
            self.field(Dimension::ApiGroup, &rule.api_groups, FieldConstraint::Impossible),
            self.field(Dimension::ApiVersion, &rule.api_versions, FieldConstraint::Nothing),
            self.field(Dimension::ResourceName, &rule.resource_names, FieldConstraint::Nothing),
            self.field(Dimension::Namespace, &rule.namespaces, FieldConstraint::Nothing),
        ]
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
    fn subjects(&mut self, rule: &'c config::Rule) -> [FieldConstraint; 2] {
        if rule.users.is_empty() && rule.service_accounts.is_empty() {
            return [FieldConstraint::Nothing, FieldConstraint::Impossible];
        }
        match RuleList::read(&rule.users) {
            Some(RuleList::All) => return [FieldConstraint::Nothing, FieldConstraint::Impossible],
            Some(RuleList::NoneOf(excluded)) => {
                self.read(Dimension::User, excluded);
                let excluded = self.constraint(Dimension::User, Polarity::NoneOf);
                self.read_accounts(&rule.service_accounts);
                return [excluded, self.constraint(Dimension::User, Polarity::AnyOf)];
            }
            Some(RuleList::AnyOf(wanted)) => self.read(Dimension::User, wanted),
            None => {}
        }
        self.read_accounts(&rule.service_accounts);
        [self.constraint(Dimension::User, Polarity::AnyOf), FieldConstraint::Impossible]
    }

    /// Reads the ids that the entries cover into the field's.
    fn read(&mut self, dimension: Dimension, entries: RuleEntries<'c>) {
        if let Some(words) = self.by_dimension.get_mut(dimension.index()) {
            self.of_field.extend(entries.filter_map(|entry| words.read(dimension, entry)));
        }
    }

    fn read_accounts(&mut self, accounts: &[config::ServiceAccount]) {
        if let Some(words) = self.by_dimension.get_mut(Dimension::User.index()) {
            let names = accounts.iter().filter_map(user_name);
            self.of_field.extend(names.map(|name| words.name(name)));
        }
    }

    /// A constraint of the ids that were read into the field's, which are none then.
    fn constraint(&mut self, dimension: Dimension, wants: Polarity) -> FieldConstraint {
        if self.of_field.is_empty() {
            return if wants == Polarity::AnyOf { FieldConstraint::Impossible } else { FieldConstraint::Nothing };
        }
        self.of_field.sort_unstable();
        self.of_field.dedup();
        let start = self.ids.len();
        self.ids.append(&mut self.of_field);
        FieldConstraint::OneOf { dimension, wants, start, end: self.ids.len() }
    }
}

impl FieldConstraint {
    fn is_possible(&self) -> bool {
        !matches!(self, FieldConstraint::Impossible)
    }
}

/// Adds the clause of all these fields, unless it can never hold.
fn add_clause(clauses: &mut Clauses, policy: u32, fields: impl Iterator<Item = FieldConstraint>, ids: &[u32]) {
    let mut conditions = [Condition::ANYTHING; Dimension::COUNT];
    let mut places = conditions.iter_mut();
    let mut len: usize = 0;
    for field in fields {
        match field {
            FieldConstraint::Nothing => {}
            FieldConstraint::Impossible => return,
            FieldConstraint::OneOf { dimension, wants, start, end } => {
                let Some(place) = places.next() else { return };
                *place = Condition { dimension, wants, ids: ids.get(start..end).unwrap_or_default() };
                len = len.saturating_add(1);
            }
        }
    }
    clauses.push(policy, conditions.get_mut(..len).unwrap_or_default());
}

/// The name of the user that is the service account, if there can be one.
fn user_name(account: &config::ServiceAccount) -> Option<String> {
    let config::ServiceAccount { namespace, name } = account;
    let user = UserInfo { name: format!("system:serviceaccount:{namespace}:{name}"), ..UserInfo::default() };
    (user.service_account() == Some((namespace, name))).then_some(user.name)
}

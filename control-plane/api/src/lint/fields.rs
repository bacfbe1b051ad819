use portcullis_filter_config::{Rule, ServiceAccount};

use super::Warnings;
use crate::problem::ProblemCode;
use crate::request_part::can_be;

/// A list of a rule, under its name.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) name: &'static str,
    pub(super) entries: &'a [String],
    /// Whether a trailing `*` is a prefix.
    knows_prefixes: bool,
    /// Whether KubeGateway has the field.
    pub(super) is_ours: bool,
}

/// Every list of texts of a rule.
pub(super) fn fields(rule: &Rule) -> [Field<'_>; 9] {
    [
        plain("verbs", &rule.verbs),
        plain("apiGroups", &rule.api_groups),
        Field { is_ours: true, ..plain("apiVersions", &rule.api_versions) },
        plain("resources", &rule.resources),
        plain("resourceNames", &rule.resource_names),
        Field { is_ours: true, ..plain("namespaces", &rule.namespaces) },
        Field { knows_prefixes: true, ..plain("users", &rule.users) },
        plain("userGroups", &rule.user_groups),
        Field { knows_prefixes: true, ..plain("nonResourceURLs", &rule.non_resource_urls) },
    ]
}

fn plain<'a>(name: &'static str, entries: &'a [String]) -> Field<'a> {
    Field { name, entries, knows_prefixes: false, is_ours: false }
}

impl Field<'_> {
    pub(super) fn path(&self, rule: &str, index: usize) -> String {
        format!("{rule}.{}[{index}]", self.name)
    }

    pub(super) fn has_wildcard(&self) -> bool {
        self.entries.iter().any(|entry| entry == "*")
    }

    /// Whether the exclusions are what counts.
    pub(super) fn only_excludes(&self) -> bool {
        !self.entries.is_empty() && self.entries.iter().all(|entry| entry.starts_with('-'))
    }
}

pub(super) fn lint_entries(field: &Field<'_>, rule: &str, warnings: &mut Warnings) {
    if field.has_wildcard() {
        beside_wildcard(field, rule, warnings);
        return;
    }
    let has_positive = field.entries.iter().any(|entry| !entry.starts_with('-'));
    for (index, entry) in field.entries.iter().enumerate() {
        let path = || field.path(rule, index);
        if entry.starts_with('-') && has_positive {
            let hint = "remove it, or keep exclusions only: then everything else matches";
            warnings.add(ProblemCode::MixedEntries, path(), "an exclusion has no effect beside a positive entry", hint);
        } else if field.entries.iter().take(index).any(|earlier| earlier == entry) {
            warnings.add(ProblemCode::NoEffect, path(), "is listed twice", "remove it");
        } else {
            text(field, entry.strip_prefix('-').unwrap_or(entry), path(), warnings);
        }
    }
}

fn beside_wildcard(field: &Field<'_>, rule: &str, warnings: &mut Warnings) {
    let mut seen = false;
    for (index, entry) in field.entries.iter().enumerate() {
        if entry == "*" && !seen {
            seen = true;
            continue;
        }
        let hint = "remove it, or remove the \"*\"";
        let message = "has no effect beside \"*\", which matches everything";
        warnings.add(ProblemCode::BesideWildcard, field.path(rule, index), message, hint);
    }
}

fn text(field: &Field<'_>, text: &str, path: String, warnings: &mut Warnings) {
    if text == "*" {
        warnings.never(path, "\"-*\" excludes everything", "remove the rule, or write \"*\" if everything is meant");
    } else if text != text.trim() {
        warnings.never(
            path,
            "leading and trailing blanks are compared, too, and no value has them",
            "remove the blanks",
        );
    } else if field.name != "nonResourceURLs" && text.contains(',') {
        warnings.never(path, "is one entry, not several", "write a list: one entry for each");
    } else if field.name == "resources" {
        // Has wildcards of its own.
    } else if !field.knows_prefixes && text.contains('*') {
        let hint =
            "only users and nonResourceURLs support a trailing \"*\"; name the entries one by one, or write \"*\"";
        warnings.add(ProblemCode::NoPattern, path, "is compared literally: patterns are not supported here", hint);
    } else if field.knows_prefixes && text.strip_suffix('*').unwrap_or(text).contains('*') {
        let hint = "a \"*\" matches the rest of a text, and only at its end";
        warnings.add(ProblemCode::NoPattern, path, "a \"*\" that is not at the end is compared literally", hint);
    }
}

pub(super) fn lint_subjects(rule: &Rule, path: &str, warnings: &mut Warnings) {
    for (field, entries) in [("users", &rule.users), ("userGroups", &rule.user_groups)] {
        for (index, entry) in entries.iter().enumerate() {
            if entry.is_empty() || entry == "-" {
                let hint = "remove it; an empty list matches every user";
                warnings.never(format!("{path}.{field}[{index}]"), "no user or group has an empty name", hint);
            }
        }
    }
    for (index, account) in rule.service_accounts.iter().enumerate() {
        service_account(account, format!("{path}.serviceAccounts[{index}]"), warnings);
    }
}

fn service_account(account: &ServiceAccount, path: String, warnings: &mut Warnings) {
    if account.namespace.is_empty() || account.name.is_empty() {
        let hint = "set namespace and name; for all accounts of a namespace, userGroups has \
                    system:serviceaccounts:<namespace>";
        warnings.never(path, "matches no user: namespace and name are required", hint);
    } else if account.namespace == "*" || account.name == "*" {
        let hint = "userGroups has system:serviceaccounts:<namespace>, and system:serviceaccounts for all of them";
        warnings.never(path, "matches no user: \"*\" is not supported here", hint);
    } else if !can_be(account) {
        let hint = "lower-case letters, digits and \"-\"";
        warnings.never(path, "matches no user: it is not a valid name of a service account", hint);
    }
}

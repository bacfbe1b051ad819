//! Texts that mean something else to KubeGateway's code.

use std::collections::BTreeSet;

use super::Warnings;
use super::fields::Field;
use crate::problem::ProblemCode;
use crate::types::DispatchPolicy;

const CODE: ProblemCode = ProblemCode::DiffersFromKubegateway;

pub(super) fn lint(field: &Field<'_>, rule: &str, warnings: &mut Warnings) {
    let list = format!("{rule}.{}", field.name);
    if field.is_ours {
        if !field.entries.is_empty() && !field.has_wildcard() {
            warnings.add(
                CODE,
                list,
                "KubeGateway does not know the field and drops it: there the rule matches more",
                "expected here; note it if the same manifest is used with KubeGateway",
            );
        }
    } else if field.only_excludes() {
        exclusions(field, rule, list, warnings);
    } else if field.name == "resourceNames" {
        nameless(field, rule, warnings);
    }
}

/// KubeGateway drops the field, and the policy dispatches.
pub(super) fn lint_policy(policy: &DispatchPolicy, path: &str, warnings: &mut Warnings) {
    let hint = "expected here; remove the policy before the same manifest is used with KubeGateway";
    let told =
        "KubeGateway does not know the field and drops it: there the policy dispatches the requests that it matches";
    if policy.is_shadow() {
        warnings.add(CODE, format!("{path}.portcullis.mode"), told, hint);
    }
    if policy.denies() {
        warnings.add(CODE, format!("{path}.portcullis.action"), told, hint);
    }
}

fn exclusions(field: &Field<'_>, rule: &str, list: String, warnings: &mut Warnings) {
    let distinct: BTreeSet<_> = field.entries.iter().collect();
    match field.name {
        // Nothing can be excluded, here as there.
        "nonResourceURLs" => {}
        "userGroups" => warnings.add(
            CODE,
            list,
            "KubeGateway's code matches every user who has another group too, and all users who log in have \
             system:authenticated; here a user in an excluded group is excluded",
            "nothing to do if exclusion is meant",
        ),
        _ if distinct.len() > 1 => warnings.add(
            CODE,
            list,
            "KubeGateway's code matches everything with two or more exclusions; here, as its documents say, each of \
             them is excluded",
            "nothing to do if exclusion is meant",
        ),
        _ => wildcards(field, rule, warnings),
    }
}

/// One exclusion that KubeGateway's code compares as it stands.
fn wildcards(field: &Field<'_>, rule: &str, warnings: &mut Warnings) {
    for (index, entry) in field.entries.iter().enumerate() {
        let text = entry.strip_prefix('-').unwrap_or(entry);
        let is_pattern = match field.name {
            "resources" => text.starts_with("*/") && text != "*/*",
            "users" => text.ends_with('*'),
            _ => false,
        };
        if is_pattern || text == "*" {
            warnings.add(
                CODE,
                field.path(rule, index),
                "KubeGateway's code does not support \"*\" after \"-\" and matches everything; here the exclusion works",
                "nothing to do if exclusion is meant",
            );
        }
    }
}

fn nameless(field: &Field<'_>, rule: &str, warnings: &mut Warnings) {
    if let (Some(index), false) = (field.entries.iter().position(String::is_empty), field.has_wildcard()) {
        warnings.add(
            CODE,
            field.path(rule, index),
            "\"\" matches requests without a name here; KubeGateway's code never matches them",
            "nothing to do if requests without a name are meant",
        );
    }
}

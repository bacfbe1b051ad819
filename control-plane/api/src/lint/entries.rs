//! Entries that do not count, or do not mean what they look like, whatever the field is.

use super::Told;
use super::fields::Field;
use crate::code::Code;

pub(super) fn lint(field: &Field<'_>, rule: &str, told: &mut Told) {
    if field.has_wildcard() {
        beside_wildcard(field, rule, told);
        return;
    }
    let has_positive = field.entries.iter().any(|entry| !entry.starts_with('-'));
    for (index, entry) in field.entries.iter().enumerate() {
        let path = || field.path(rule, index);
        if entry.starts_with('-') && has_positive {
            let hint = "remove it, or keep exclusions only: then everything else matches";
            told.add(Code::MixedEntries, path(), "an exclusion beside a positive entry does not count", hint);
        } else if field.entries.iter().take(index).any(|earlier| earlier == entry) {
            told.add(Code::NoEffect, path(), "is listed twice", "remove it");
        } else {
            text(field, entry.strip_prefix('-').unwrap_or(entry), path(), told);
        }
    }
}

fn beside_wildcard(field: &Field<'_>, rule: &str, told: &mut Told) {
    let mut seen = false;
    for (index, entry) in field.entries.iter().enumerate() {
        if entry == "*" && !seen {
            seen = true;
            continue;
        }
        let hint = "remove it, or remove the \"*\"";
        let message = "does not count beside \"*\", which is everything";
        told.add(Code::BesideWildcard, field.path(rule, index), message, hint);
    }
}

fn text(field: &Field<'_>, text: &str, path: String, told: &mut Told) {
    if text == "*" {
        told.never(path, "\"-*\" excludes everything", "remove the rule, or write \"*\" if everything is meant");
    } else if text != text.trim() {
        told.never(path, "blanks at an end are compared too, and nothing has them", "remove the blanks");
    } else if field.name != "nonResourceURLs" && text.contains(',') {
        told.never(path, "is one entry, not several", "write a list: one entry for each");
    } else if field.name == "resources" {
        // Has wildcards of its own.
    } else if !field.knows_prefixes && text.contains('*') {
        let hint = "only users and nonResourceURLs know a trailing \"*\"; name the entries one by one, or write \"*\"";
        told.add(Code::NoPattern, path, "is compared as it stands: no pattern is known here", hint);
    } else if field.knows_prefixes && text.strip_suffix('*').unwrap_or(text).contains('*') {
        let hint = "a \"*\" stands for the rest of a text, so only at its end";
        told.add(Code::NoPattern, path, "a \"*\" that is not at the end is compared as it stands", hint);
    }
}

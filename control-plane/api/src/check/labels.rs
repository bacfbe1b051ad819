//! Labels and their selectors, as Kubernetes has them.

use std::collections::BTreeMap;

use super::Findings;
use crate::bounds::{MAX_SELECTOR_TERMS, MAX_SELECTOR_VALUES, MAX_ZONE};
use crate::dns_name::is_subdomain;
use crate::types::{LabelRequirement, LabelSelector};

/// The labels that an object needs, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectedLabels {
    terms: Vec<(String, LabelTerm)>,
}

/// The value that a label needs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelTerm {
    /// One of these.
    In(Vec<String>),
    /// None of these, or there is no such label.
    NotIn(Vec<String>),
    /// Any.
    Exists,
    /// There is no such label.
    DoesNotExist,
}

impl SelectedLabels {
    /// Whether an object with these labels is selected. Without a requirement every object is.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.terms.iter().all(|(key, term)| term.holds(labels.get(key)))
    }
}

impl LabelTerm {
    fn holds(&self, value: Option<&String>) -> bool {
        match self {
            LabelTerm::In(values) => value.is_some_and(|value| values.contains(value)),
            LabelTerm::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            LabelTerm::Exists => value.is_some(),
            LabelTerm::DoesNotExist => value.is_none(),
        }
    }
}

/// The checked selector; without use if there are findings.
pub(super) fn check_selector(raw: &LabelSelector, path: &str, findings: &mut Findings) -> SelectedLabels {
    let count = raw.match_labels.len().saturating_add(raw.match_expressions.len());
    if count > MAX_SELECTOR_TERMS {
        findings.problem(path, format!("has {count} requirements, more than {MAX_SELECTOR_TERMS}"));
        return SelectedLabels::default();
    }
    let mut terms = Vec::with_capacity(count);
    for (key, value) in &raw.match_labels {
        let at = format!("{path}.matchLabels");
        check_key(key, &at, findings);
        check_value(value, &format!("{at}.{key}"), findings);
        terms.push((key.clone(), LabelTerm::In(vec![value.clone()])));
    }
    for (index, requirement) in raw.match_expressions.iter().enumerate() {
        let at = format!("{path}.matchExpressions[{index}]");
        check_key(&requirement.key, &format!("{at}.key"), findings);
        terms.extend(check_term(requirement, &at, findings).map(|term| (requirement.key.clone(), term)));
    }
    SelectedLabels { terms }
}

fn check_term(raw: &LabelRequirement, path: &str, findings: &mut Findings) -> Option<LabelTerm> {
    let (count, at) = (raw.values.len(), format!("{path}.values"));
    if count > MAX_SELECTOR_VALUES {
        findings.problem(at, format!("has {count} entries, more than {MAX_SELECTOR_VALUES}"));
        return None;
    }
    for (index, value) in raw.values.iter().enumerate() {
        check_value(value, &format!("{at}[{index}]"), findings);
    }
    let (term, needs_values) = match raw.operator.as_str() {
        "In" => (LabelTerm::In(raw.values.clone()), true),
        "NotIn" => (LabelTerm::NotIn(raw.values.clone()), true),
        "Exists" => (LabelTerm::Exists, false),
        "DoesNotExist" => (LabelTerm::DoesNotExist, false),
        _ => {
            findings.problem(format!("{path}.operator"), "must be In, NotIn, Exists or DoesNotExist");
            return None;
        }
    };
    if needs_values == raw.values.is_empty() {
        let message = if needs_values { "needs a value" } else { "must be empty for this operator" };
        findings.problem(at, message);
    }
    Some(term)
}

fn check_key(key: &str, path: &str, findings: &mut Findings) {
    if !is_label_key(key) {
        findings.problem(path, "must be a label's key, as team or example.com/team");
    }
}

fn check_value(value: &str, path: &str, findings: &mut Findings) {
    if !is_label_value(value) {
        findings.problem(path, "must be letters, digits, - _ and . between letters or digits, up to 63");
    }
}

/// Whether a text is a label's key: a name, perhaps with a DNS name and `/` before it.
pub fn is_label_key(text: &str) -> bool {
    let (prefix, name) = text.rsplit_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_subdomain) && !name.is_empty() && is_label_value(name)
}

/// Whether a text is a label's value, which may be empty.
pub fn is_label_value(text: &str) -> bool {
    let ends = |c: u8| c.is_ascii_alphanumeric();
    let bytes = text.as_bytes();
    text.len() <= MAX_ZONE
        && bytes.iter().all(|c| ends(*c) || b"-_.".contains(c))
        && [bytes.first(), bytes.last()].into_iter().flatten().all(|c| ends(*c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_kubernetes() {
        for key in ["team", "a", "example.com/team", "app.kubernetes.io/part-of", "A_b.c"] {
            assert!(is_label_key(key), "{key}");
        }
        for key in ["", "/", "a/", "/a", "a/b/c", "-a", "a-", "a b", "Example.com/a", "é", &"a".repeat(64)] {
            assert!(!is_label_key(key), "{key}");
        }
    }
}

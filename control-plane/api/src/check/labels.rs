//! Labels and their selectors, as Kubernetes has them.

use std::collections::BTreeMap;

use super::Findings;
use crate::bounds::{MAX_SELECTOR_TERMS, MAX_SELECTOR_VALUES, MAX_ZONE};
use crate::dns_name::is_subdomain;
use crate::types::{LabelRequirement, LabelSelector};

/// The labels that an object needs, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectedLabels {
    /// By label, with the values of the operator.
    terms: Vec<(String, LabelOperator, Vec<String>)>,
}

/// The way in which a requirement compares a label with its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelOperator {
    /// One of them.
    In,
    /// None of them, or there is no such label.
    NotIn,
    /// Any value.
    Exists,
    /// There is no such label.
    DoesNotExist,
}

/// Why an operator cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelOperatorError {
    /// It is not known.
    #[error("must be In, NotIn, Exists or DoesNotExist")]
    Unknown,
    /// It has no value to compare with.
    #[error("needs a value")]
    NoValue,
    /// It compares with none.
    #[error("must be empty for this operator")]
    Values,
}

impl SelectedLabels {
    /// Whether an object with these labels is selected. Without a requirement every object is.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.terms.iter().all(|(key, operator, values)| operator.holds(labels.get(key), |value| values.contains(value)))
    }
}

impl LabelOperator {
    /// The operator of a requirement with or without values, as Kubernetes has it.
    ///
    /// # Errors
    /// One that is not known, or other values than it takes.
    pub fn of(operator: &str, has_values: bool) -> Result<Self, LabelOperatorError> {
        let (operator, needs_values) = match operator {
            "In" => (Self::In, true),
            "NotIn" => (Self::NotIn, true),
            "Exists" => (Self::Exists, false),
            "DoesNotExist" => (Self::DoesNotExist, false),
            _ => return Err(LabelOperatorError::Unknown),
        };
        match (needs_values, has_values) {
            (true, false) => Err(LabelOperatorError::NoValue),
            (false, true) => Err(LabelOperatorError::Values),
            _ => Ok(operator),
        }
    }

    /// Whether the value of a label, if there is one, is as required. `is_listed` says whether it is one of the requirement's.
    pub fn holds<'a>(self, value: Option<&'a String>, is_listed: impl FnOnce(&'a String) -> bool) -> bool {
        match self {
            Self::In => value.is_some_and(is_listed),
            Self::NotIn => !value.is_some_and(is_listed),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
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
        terms.push((key.clone(), LabelOperator::In, vec![value.clone()]));
    }
    for (index, requirement) in raw.match_expressions.iter().enumerate() {
        let at = format!("{path}.matchExpressions[{index}]");
        check_key(&requirement.key, &format!("{at}.key"), findings);
        let operator = check_operator(requirement, &at, findings);
        terms.extend(operator.map(|operator| (requirement.key.clone(), operator, requirement.values.clone())));
    }
    SelectedLabels { terms }
}

fn check_operator(raw: &LabelRequirement, path: &str, findings: &mut Findings) -> Option<LabelOperator> {
    let (count, at) = (raw.values.len(), format!("{path}.values"));
    if count > MAX_SELECTOR_VALUES {
        findings.problem(at, format!("has {count} entries, more than {MAX_SELECTOR_VALUES}"));
        return None;
    }
    for (index, value) in raw.values.iter().enumerate() {
        check_value(value, &format!("{at}[{index}]"), findings);
    }
    let operator = LabelOperator::of(&raw.operator, !raw.values.is_empty());
    operator
        .map_err(|error| {
            let of_operator = error == LabelOperatorError::Unknown;
            findings.problem(if of_operator { format!("{path}.operator") } else { at }, error.to_string());
        })
        .ok()
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

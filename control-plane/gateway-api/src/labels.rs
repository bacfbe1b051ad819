use std::collections::{BTreeMap, BTreeSet};

use portcullis_api::LabelOperator;
use serde::{Deserialize, Serialize};

use crate::other_fields::OtherFields;

/// The label that each namespace has: its name.
pub const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Kubernetes' selector of labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that must have these values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements that must all hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelRequirement>,
    /// Fields that are not known: a selector with one matches nothing.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// One requirement of a [`LabelSelector`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelRequirement {
    /// The label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// The values for `In` and `NotIn`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub values: BTreeSet<String>,
    /// Fields that are not known: a requirement with one does not hold.
    #[serde(flatten)]
    pub other: OtherFields,
}

impl LabelSelector {
    /// Whether it selects an object with these labels. An empty selector selects all; an operator that is not known, none.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        let has = |(key, value): (&String, &String)| labels.get(key) == Some(value);
        self.other.is_empty()
            && self.match_labels.iter().all(has)
            && self.match_expressions.iter().all(|requirement| requirement.holds(labels.get(&requirement.key)))
    }

    /// Whether it depends on no other label than this one.
    pub fn is_about(&self, label: &str) -> bool {
        let mut keys = self.match_labels.keys().chain(self.match_expressions.iter().map(|one| &one.key));
        keys.all(|key| key == label)
    }
}

impl LabelRequirement {
    fn holds(&self, value: Option<&String>) -> bool {
        let operator = LabelOperator::of(&self.operator, !self.values.is_empty()).ok();
        let operator = operator.filter(|_| self.other.is_empty());
        operator.is_some_and(|operator| operator.holds(value, |value| self.values.contains(value)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selector_selects_as_kubernetes_does() {
        let labels = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (selector, selected) in [
            (json!({}), true),
            (json!({"matchLabels": {"team": "a"}}), true),
            (json!({"matchLabels": {"team": "b"}}), false),
            (json!({"matchLabels": {"team": "a", "zone": "x"}}), false),
            (expression("team", "In", &["b", "a"]), true),
            (expression("team", "In", &[]), false),
            (expression("zone", "In", &["a"]), false),
            (expression("team", "NotIn", &["a"]), false),
            (expression("team", "NotIn", &["b"]), true),
            (expression("zone", "NotIn", &["b"]), true),
            (expression("zone", "NotIn", &[]), false),
            (expression("team", "Exists", &[]), true),
            (expression("zone", "Exists", &[]), false),
            (expression("zone", "DoesNotExist", &[]), true),
            (expression("team", "DoesNotExist", &[]), false),
            (expression("team", "GreaterThan", &["0"]), false),
            (json!({"matchFields": [{}]}), false),
            (json!({"matchFields": {}}), false),
            (json!({"matchExpressions": [{"key": "team", "operator": "Exists", "scope": "all"}]}), false),
        ] {
            let read: LabelSelector = serde_json::from_value(selector.clone()).unwrap();
            assert_eq!(read.selects(&labels), selected, "{selector}");
        }
    }
}

use serde_json::{Value, json};

use super::rules::cel;
use crate::bounds::{MAX_SELECTOR_TERMS, MAX_SELECTOR_VALUES};

/// The longest name that Kubernetes gives an object.
const MAX_SETTINGS_NAME: usize = 253;

/// Rules of an `Instance`: keywords of a schema by the path of the field below `spec`. Every bound is one of `check`.
///
/// Unknown fields of selectors are kept for the check, which refuses them: a selector without a requirement that was written would
/// select more than it may.
pub(super) fn instance_rules() -> Vec<(&'static str, Value)> {
    [
        selector(["gatewaysSelector", "gatewaysSelector.matchLabels", "gatewaysSelector.matchExpressions"]),
        requirement(["gatewaysSelector.matchExpressions[]", "gatewaysSelector.matchExpressions[].operator"]),
        selector(["clustersSelector", "clustersSelector.matchLabels", "clustersSelector.matchExpressions"]),
        requirement(["clustersSelector.matchExpressions[]", "clustersSelector.matchExpressions[].operator"]),
        vec![
            ("settings", json!({"minLength": 1, "maxLength": MAX_SETTINGS_NAME})),
            ("gatewaysSelector.matchExpressions[].values", json!({"maxItems": MAX_SELECTOR_VALUES})),
            ("clustersSelector.matchExpressions[].values", json!({"maxItems": MAX_SELECTOR_VALUES})),
        ],
    ]
    .concat()
}

fn selector([selector, labels, expressions]: [&'static str; 3]) -> Vec<(&'static str, Value)> {
    vec![
        (selector, json!({"x-kubernetes-preserve-unknown-fields": true})),
        (labels, json!({"additionalProperties": {"type": "string"}, "maxProperties": MAX_SELECTOR_TERMS})),
        (expressions, json!({"maxItems": MAX_SELECTOR_TERMS})),
    ]
}

fn requirement([requirement, operator]: [&'static str; 2]) -> Vec<(&'static str, Value)> {
    vec![
        (requirement, json!({"x-kubernetes-preserve-unknown-fields": true, "required": ["key", "operator"]})),
        (operator, json!({"enum": ["In", "NotIn", "Exists", "DoesNotExist"]})),
    ]
}

/// The rule of the whole object.
pub(super) fn name_rule() -> Value {
    let rule = "self.metadata.name.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')";
    cel(rule, "metadata.name must be a DNS label, because certificates of Envoys have it", "")
}

//! Parts of an `UpstreamCluster` that only report, and the object in which they decide.

use std::borrow::Cow;

use serde_json::Value;

use crate::problem::Problem;
use crate::types::{DispatchPolicy, UpstreamClusterSpec};

const SHADOW: &str = "spec.portcullis.shadow";

/// The parts of an alternative: where each is, and what it takes the place of.
const PARTS: [(&str, &str); 3] = [
    ("dispatchPolicies", "spec.dispatchPolicies"),
    ("flowControl", "spec.flowControl"),
    ("access", "spec.portcullis.access"),
];

impl UpstreamClusterSpec {
    /// The policies that decide, by their numbers in the object: in the place of one that only reports is one without rules, which
    /// matches nothing.
    pub(crate) fn deciding_policies(&self) -> Cow<'_, [DispatchPolicy]> {
        if !self.has_shadow_policies() {
            return Cow::Borrowed(&self.dispatch_policies);
        }
        let deciding =
            |policy: &DispatchPolicy| if policy.is_shadow() { DispatchPolicy::default() } else { policy.clone() };
        self.dispatch_policies.iter().map(deciding).collect()
    }

    pub(crate) fn has_shadow_policies(&self) -> bool {
        self.dispatch_policies.iter().any(DispatchPolicy::is_shadow)
    }

    /// The specification in which what only reports decides. `None` if nothing only reports.
    pub fn promoted(&self) -> Option<UpstreamClusterSpec> {
        let is_alternative = self.portcullis.shadow.is_set();
        if !is_alternative && !self.has_shadow_policies() {
            return None;
        }
        let mut promoted = self.clone();
        let shadow = std::mem::take(&mut promoted.portcullis.shadow);
        if !is_alternative {
            promoted.dispatch_policies.iter_mut().for_each(|policy| policy.portcullis.mode.clear());
        }
        promoted.dispatch_policies = shadow.dispatch_policies.unwrap_or(promoted.dispatch_policies);
        promoted.flow_control = shadow.flow_control.unwrap_or(promoted.flow_control);
        promoted.portcullis.access = shadow.access.unwrap_or(promoted.portcullis.access);
        Some(promoted)
    }

    /// Findings about the specification that [`UpstreamClusterSpec::promoted`] gives, by their places in this one. Those that `known`
    /// has already are left out.
    pub(crate) fn of_shadow(&self, found: Vec<Problem>, known: &[Problem]) -> Vec<Problem> {
        let parts = self.shadow_parts();
        let mut moved = Vec::new();
        for mut problem in found {
            let place = |(part, place): (&'static str, &'static str)| Some((part, problem.path.strip_prefix(place)?));
            if let Some((part, rest)) = parts.iter().copied().find_map(place) {
                problem.path = format!("{SHADOW}.{part}{rest}");
            } else if known.contains(&problem) {
                continue;
            } else if self.portcullis.shadow.is_set() {
                problem.message = format!("with it {}: {}", problem.path, problem.message);
                problem.path = SHADOW.to_owned();
            }
            moved.push(problem);
        }
        moved
    }

    /// The parts that the alternative has.
    fn shadow_parts(&self) -> Vec<(&'static str, &'static str)> {
        let shadow = &self.portcullis.shadow;
        let has = [shadow.dispatch_policies.is_some(), shadow.flow_control.is_some(), shadow.access.is_some()];
        PARTS.into_iter().zip(has).filter(|(_, has)| *has).map(|(part, _)| part).collect()
    }
}

/// The document of an `UpstreamCluster` in which what only reports decides. `None` if nothing only reports.
pub fn promote(document: &Value) -> Option<Value> {
    let mut promoted = document.clone();
    let spec = promoted.get_mut("spec")?;
    let shadow = spec.get_mut("portcullis").and_then(Value::as_object_mut).and_then(|ours| ours.remove("shadow"));
    let mut is_changed = false;
    for (part, place) in PARTS {
        let Some(value) = shadow.as_ref().and_then(|shadow| shadow.get(part)).filter(|value| !value.is_null()) else {
            continue;
        };
        let (parent, field) = place.trim_start_matches("spec.").rsplit_once('.').unwrap_or(("", place));
        let parent = if parent.is_empty() { &mut *spec } else { spec.get_mut(parent)? };
        parent.as_object_mut()?.insert(field.trim_start_matches("spec.").to_owned(), value.clone());
        is_changed = true;
    }
    let policies = spec.get_mut("dispatchPolicies").and_then(Value::as_array_mut);
    let is_alternative = is_changed;
    for policy in policies.into_iter().flatten().filter(|_| !is_alternative) {
        let ours = policy.get_mut("portcullis").and_then(Value::as_object_mut);
        let Some(ours) = ours.filter(|ours| ours.get("mode").is_some_and(|mode| mode == "Shadow")) else { continue };
        ours.remove("mode");
        is_changed = true;
    }
    is_changed.then_some(promoted)
}

/// The JSON merge patch (RFC 7386) that makes one document of another.
pub fn merge_patch(before: &Value, after: &Value) -> Value {
    let (Value::Object(before), Value::Object(after)) = (before, after) else { return after.clone() };
    let removed = before.keys().filter(|key| !after.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = after.iter().filter(|(key, value)| before.get(*key) != Some(*value)).map(|(key, value)| {
        // A patch of nothing takes the nulls out of what it adds, of which a document has none.
        let old = before.get(key).unwrap_or(&Value::Null);
        (key.clone(), merge_patch(old, value))
    });
    Value::Object(removed.chain(changed).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::parse::parse_cluster;

    fn cluster(spec: Value) -> Value {
        json!({"apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster",
            "metadata": {"name": "a.test"}, "spec": spec})
    }

    /// As a kube-apiserver applies a merge patch.
    fn apply(document: &mut Value, patch: &Value) {
        let Value::Object(changes) = patch else { return *document = patch.clone() };
        if !document.is_object() {
            *document = json!({});
        }
        for (key, value) in changes {
            let fields = document.as_object_mut().unwrap();
            if value.is_null() {
                fields.remove(key);
            } else {
                apply(fields.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
    }

    #[test]
    fn promotion_of_a_document_is_that_of_its_specification() {
        let rules = json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]);
        let policy = |more: Value| {
            let mut policy = json!({"rules": rules});
            policy.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            policy
        };
        let plain = json!([policy(json!({})), policy(json!({"logMode": "on"}))]);
        let shadowed = json!([policy(json!({"portcullis": {"mode": "Shadow", "action": "Deny"}})), policy(json!({}))]);
        let deny = json!({"deny": [{"users": ["a"]}], "force": true});
        let limits = json!({"flowControlSchemas": [{"name": "a", "exempt": {}}]});
        for (spec, is_shadow) in [
            (json!({"dispatchPolicies": plain}), false),
            (json!({"dispatchPolicies": plain, "portcullis": {"shadow": {}}}), false),
            (json!({"dispatchPolicies": shadowed}), true),
            (json!({"dispatchPolicies": plain, "portcullis": {"shadow": {"dispatchPolicies": shadowed}}}), true),
            (json!({"dispatchPolicies": plain, "portcullis": {"shadow": {"flowControl": limits}}}), true),
            (json!({"dispatchPolicies": plain, "portcullis": {"access": deny, "shadow": {"access": {}}}}), true),
            (
                json!({"dispatchPolicies": plain, "flowControl": limits, "portcullis": {"access": deny,
                    "shadow": {"access": {"allow": [{"users": ["b"]}]}, "dispatchPolicies": [policy(json!({}))]}}}),
                true,
            ),
        ] {
            let document = cluster(spec.clone());
            let promoted = promote(&document);
            assert_eq!(promoted.is_some(), is_shadow, "{spec}");
            let of_spec = parse_cluster(&document).unwrap().spec.promoted();
            let of_document = promoted.as_ref().map(|promoted| parse_cluster(promoted).unwrap().spec);
            assert_eq!(format!("{of_spec:?}"), format!("{of_document:?}"), "{spec}");
            if let Some(promoted) = promoted {
                let mut patched = document.clone();
                apply(&mut patched, &merge_patch(&document, &promoted));
                assert_eq!(patched, promoted, "{spec}");
            }
        }
    }
}

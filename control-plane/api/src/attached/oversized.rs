//! A policy without its fields, in the place of one that is too large to be kept: it still has its part at its targets, so that a
//! cluster is refused by it and does not go back to its own fields.

use serde_json::{Map, Value, json};

use crate::bounds::MAX_TARGETS;

/// The member of `status`.
const MEMBER: &str = "oversized";
/// The longest value that is kept. Names, times and targets that Kubernetes can have are shorter.
const MAX_VALUE: usize = 4_096;

/// The document of a policy without its fields, which is refused whatever they are.
#[must_use]
pub fn oversized_policy(document: &Value) -> Value {
    let kept = |of: &str, fields: &[&str]| -> Map<String, Value> {
        let value = |field: &&str| {
            let value = document.pointer(of)?.get(*field).filter(|value| is_short(value))?;
            Some(((*field).to_owned(), value.clone()))
        };
        fields.iter().filter_map(value).collect()
    };
    let targets = document.pointer("/spec/targetRefs").and_then(Value::as_array).into_iter().flatten();
    let targets: Vec<&Value> = targets.take(MAX_TARGETS).filter(|target| is_short(target)).collect();
    let mut reduced = kept("", &["apiVersion", "kind"]);
    let metadata = kept("/metadata", &["name", "namespace", "uid", "generation", "creationTimestamp"]);
    reduced.insert("metadata".to_owned(), Value::Object(metadata));
    let mut spec = Map::new();
    spec.insert("targetRefs".to_owned(), json!(targets));
    for strategy in ["defaults", "overrides"] {
        let is_there = document.get("spec").and_then(|spec| spec.get(strategy)).is_some_and(|one| !one.is_null());
        if is_there {
            spec.insert(strategy.to_owned(), json!({}));
        }
    }
    reduced.insert("spec".to_owned(), Value::Object(spec));
    reduced.insert("status".to_owned(), json!({MEMBER: true}));
    Value::Object(reduced)
}

/// Whether the document is one of [`oversized_policy`].
pub(crate) fn is_oversized(document: &Value) -> bool {
    document.get("status").and_then(|status| status.get(MEMBER)).is_some_and(|member| *member == Value::Bool(true))
}

fn is_short(value: &Value) -> bool {
    value.to_string().len() <= MAX_VALUE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PolicyKind, check_policy, targets_of};

    #[test]
    fn oversized_policy_keeps_its_targets_and_is_refused() {
        let target = |name: &str| json!({"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": name});
        let long = "x".repeat(MAX_VALUE);
        let document = |targets: &[Value], strategy: &str| {
            json!({
                "apiVersion": "portcullis.dev/v1alpha1", "kind": "UpstreamIdentityPolicy",
                "metadata": {
                    "name": "a", "namespace": "portcullis", "uid": "u", "generation": 3,
                    "creationTimestamp": "2024-01-01T00:00:00Z", "annotations": {"a": long},
                },
                "spec": {"targetRefs": targets, strategy: {"allowAnonymous": false, "forwardedExtras": [long]}},
            })
        };
        for strategy in ["defaults", "overrides"] {
            let reduced = oversized_policy(&document(&[target("a.test"), target(&long), target("b.test")], strategy));
            assert_eq!(
                reduced["metadata"],
                json!({
                    "name": "a", "namespace": "portcullis", "uid": "u", "generation": 3,
                    "creationTimestamp": "2024-01-01T00:00:00Z",
                })
            );
            let names: Vec<String> = targets_of(&reduced).into_iter().map(|target| target.name).collect();
            assert_eq!(names, ["a.test", "b.test"]);
            assert!(reduced["spec"].get(strategy).is_some() && reduced.to_string().len() < MAX_VALUE);
            let problems = check_policy(PolicyKind::UpstreamIdentity, &reduced).outcome.unwrap_err();
            assert_eq!(problems.len(), 1);
            assert!(problems[0].message.contains("256 KiB"), "{}", problems[0]);
        }
        let many: Vec<Value> = (0..1_000).map(|_| target(&long[..1_000])).collect();
        assert!(oversized_policy(&document(&many, "overrides")).to_string().len() < 64 * 1024);
    }
}

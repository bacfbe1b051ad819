use portcullis_api::PolicyTarget;
use serde_json::{Value, json};

use super::PolicyVerdict;
use crate::CONTROLLER_NAME;
use crate::status::{ObjectGenerations, conditions};

/// Most entries of `status.ancestors`.
const MAX_ANCESTORS: usize = 16;
/// The types of this controller's conditions.
const OWN_TYPES: [&str; 2] = ["Accepted", "Programmed"];

/// A policy's `status.ancestors`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyAncestors {
    /// The list.
    pub ancestors: Vec<Value>,
    /// The number of own entries for which other controllers leave no place.
    pub left_out: usize,
}

/// The entries of a policy: other controllers' as they are and first, then its own, one for each target. Own ones of targets that are
/// gone are removed, and those of targets that are undecided stay. `newest` is the newest version of the policy that is known, `now` is
/// in RFC 3339.
pub fn policy_ancestors(before: &[Value], verdict: &PolicyVerdict, newest: Option<i64>, now: &str) -> PolicyAncestors {
    let is_ours = |entry: &&Value| entry.get("controllerName").and_then(Value::as_str) == Some(CONTROLLER_NAME);
    let mut ancestors: Vec<Value> = before.iter().filter(|entry| !is_ours(entry)).cloned().collect();
    let kept: Vec<Value> =
        before.iter().filter(is_ours).filter(|entry| is_undecided(entry, verdict)).cloned().collect();
    ancestors.extend(kept.iter().take(MAX_ANCESTORS.saturating_sub(ancestors.len())).cloned());
    let generations = ObjectGenerations { judged: verdict.generation, newest };
    let places = MAX_ANCESTORS.saturating_sub(ancestors.len());
    let own = verdict.ancestors.iter().take(places).map(|one| {
        let reference = reference(&one.target, &verdict.name.namespace);
        let known = before.iter().filter(is_ours).find(|entry| entry.get("ancestorRef") == Some(&reference));
        let known = known.and_then(|entry| entry.get("conditions")?.as_array()).into_iter().flatten();
        let is_kept = |condition: &&Value| {
            let kind = condition.get("type").and_then(Value::as_str).unwrap_or_default();
            !OWN_TYPES.contains(&kind) || one.conditions.iter().any(|own| own.kind == kind)
        };
        let known: Vec<Value> = known.filter(is_kept).cloned().collect();
        let conditions = conditions(&known, &one.conditions, generations, now);
        json!({"ancestorRef": reference, "controllerName": CONTROLLER_NAME, "conditions": conditions})
    });
    ancestors.extend(own.collect::<Vec<_>>());
    if !kept.is_empty() {
        // Each in its place: a start without new verdicts writes nothing.
        let place = |entry: &Value| {
            before.iter().position(|one| one.get("ancestorRef") == entry.get("ancestorRef") && is_ours(&one))
        };
        ancestors.sort_by_cached_key(
            |entry| if is_ours(&entry) { place(entry).map_or((2, 0), |at| (1, at)) } else { (0, 0) },
        );
    }
    PolicyAncestors { ancestors, left_out: verdict.ancestors.len().saturating_sub(places) }
}

fn is_undecided(entry: &Value, verdict: &PolicyVerdict) -> bool {
    let is_it = |target: &PolicyTarget| entry.get("ancestorRef") == Some(&reference(target, &verdict.name.namespace));
    verdict.undecided.iter().any(is_it)
}

/// The target as an entry names it: with the namespace, unless it has none.
fn reference(target: &PolicyTarget, namespace: &str) -> Value {
    let mut reference = json!(target);
    if let (false, Some(fields)) = (target.kind == portcullis_api::CLUSTER_KIND, reference.as_object_mut()) {
        fields.insert("namespace".to_owned(), json!(namespace));
    }
    reference
}

//! The `status.parents` of a route.

use serde_json::{Value, json};

use crate::CONTROLLER_NAME;
use crate::condition::ConditionVerdict;
use crate::status::{ObjectGenerations, conditions};
use crate::verdict::RouteVerdict;

/// Most entries of a route's `status.parents`.
const MAX_PARENTS: usize = 32;

/// A route's `status.parents`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteParents {
    /// The list.
    pub parents: Vec<Value>,
    /// The number of own entries for which other controllers leave no place.
    pub left_out: usize,
}

/// The entries of a route: other controllers' as they are and in their places, then its own. Own ones of parents that are gone
/// are removed. `newest` is the newest version of the route that is known, `now` is in RFC 3339.
pub fn route_parents(before: &[Value], verdict: &RouteVerdict, newest: Option<i64>, now: &str) -> RouteParents {
    let is_ours = |entry: &&Value| entry.get("controllerName").and_then(Value::as_str) == Some(CONTROLLER_NAME);
    let mut parents: Vec<Value> = before.iter().filter(|entry| !is_ours(entry)).cloned().collect();
    let generations = ObjectGenerations { judged: verdict.generation, newest };
    let places = MAX_PARENTS.saturating_sub(parents.len());
    let own = verdict.parents.iter().take(places).map(|one| {
        let parent = json!(one.parent);
        let known = before.iter().filter(is_ours).find(|entry| entry.get("parentRef") == Some(&parent));
        let known = known.and_then(|entry| entry.get("conditions")?.as_array()).map_or(&[][..], Vec::as_slice);
        let verdicts: Vec<ConditionVerdict> = one.conditions.iter().chain(&one.held).cloned().collect();
        let conditions = conditions(known, &verdicts, generations, now);
        json!({"parentRef": parent, "controllerName": CONTROLLER_NAME, "conditions": conditions})
    });
    parents.extend(own.collect::<Vec<_>>());
    RouteParents { parents, left_out: verdict.parents.len().saturating_sub(places) }
}

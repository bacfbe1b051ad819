//! Verdicts as status: merged into what is there.

use portcullis_api::PolicyKind;
use serde_json::{Value, json};

use crate::condition::ConditionVerdict;
use crate::held_list::HOSTNAMES_HELD;

/// Most conditions of one list.
const MAX_CONDITIONS: usize = 8;

/// The versions of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectGenerations {
    /// The one that was judged.
    pub judged: Option<i64>,
    /// The newest one that is known.
    pub newest: Option<i64>,
}

/// A list of conditions: own ones in the places where they are, new ones at the end, and those of types that are not ours as
/// they are. A list has eight places: if others leave too few, own ones are left out, the least needed first. A time is that of the
/// condition before if its status has not changed since. `now` is in RFC 3339.
pub fn conditions(
    before: &[Value],
    verdicts: &[ConditionVerdict],
    generations: ObjectGenerations,
    now: &str,
) -> Vec<Value> {
    let kind = |condition: &Value| condition.get("type").and_then(Value::as_str).map(str::to_owned);
    let is_ours = |condition: &Value| {
        kind(condition).is_some_and(|kind| is_own(&kind) || verdicts.iter().any(|one| one.kind == kind))
    };
    let others = before.iter().filter(|condition| !is_ours(condition)).count();
    let verdicts = most_needed(verdicts, MAX_CONDITIONS.saturating_sub(others));
    let verdict_of = |condition: &Value| verdicts.iter().find(|one| Some(one.kind) == kind(condition).as_deref());
    let mut merged: Vec<Value> = Vec::new();
    for condition in before {
        match verdict_of(condition) {
            Some(_) if is_newer(condition, generations) => merged.push(condition.clone()),
            Some(verdict) => merged.push(written(verdict, Some(condition), generations.judged, now)),
            None if is_ours(condition) => {}
            None => merged.push(condition.clone()),
        }
    }
    let is_new = |verdict: &&&ConditionVerdict| before.iter().all(|one| kind(one).as_deref() != Some(verdict.kind));
    merged.extend(verdicts.iter().filter(is_new).map(|verdict| written(verdict, None, generations.judged, now)));
    merged
}

/// Verdicts for which there are places, in their order.
fn most_needed(verdicts: &[ConditionVerdict], places: usize) -> Vec<&ConditionVerdict> {
    let mut ranked: Vec<(usize, &ConditionVerdict)> = verdicts.iter().enumerate().collect();
    ranked.sort_by_key(|(index, verdict)| (rank(verdict.kind), *index));
    ranked.truncate(places);
    ranked.sort_by_key(|(index, _)| *index);
    ranked.into_iter().map(|(_, verdict)| verdict).collect()
}

/// Policies say themselves at which objects they are in effect, and a start needs the names that a route holds.
fn rank(kind: &str) -> u8 {
    match kind {
        HOSTNAMES_HELD => 1,
        optional if OWN_TYPES.contains(&optional) => 2,
        affected if is_own(affected) => 3,
        _ => 0,
    }
}

/// Whether a condition is about a version that is not judged here yet. One about a version that there never was says nothing.
fn is_newer(condition: &Value, generations: ObjectGenerations) -> bool {
    let observed = condition.get("observedGeneration").and_then(Value::as_i64);
    let is_there = observed.is_some_and(|observed| generations.newest.is_none_or(|newest| observed <= newest));
    is_there && observed.zip(generations.judged).is_some_and(|(observed, judged)| observed > judged)
}

/// Types of conditions that are absent when they do not hold.
const OWN_TYPES: [&str; 4] =
    ["PartiallyInvalid", "OverlappingTLSConfig", "InsecureFrontendValidationMode", HOSTNAMES_HELD];

/// Those of policies are absent, too, where none is attached.
fn is_own(kind: &str) -> bool {
    OWN_TYPES.contains(&kind) || PolicyKind::ALL.iter().any(|policy| policy.affected() == kind)
}

fn written(verdict: &ConditionVerdict, before: Option<&Value>, generation: Option<i64>, now: &str) -> Value {
    let status = verdict.written_status();
    let is_same = |before: &&Value| before.get("status").and_then(Value::as_str) == Some(status);
    let since = before.filter(is_same).and_then(|before| before.get("lastTransitionTime")?.as_str());
    let mut condition = json!({
        "type": verdict.kind,
        "status": status,
        "reason": verdict.reason,
        "message": verdict.message,
        "lastTransitionTime": since.unwrap_or(now),
    });
    if let (Some(generation), Some(fields)) = (generation, condition.as_object_mut()) {
        fields.insert("observedGeneration".to_owned(), json!(generation));
    }
    condition
}

//! Rules that earlier ones leave nothing to.

use std::fmt;

use super::Warnings;
use crate::problem::ProblemCode;
use crate::request_part::{RequestPart, parts};
use crate::types::DispatchPolicy;

/// The number of comparisons of two rules: more would take too long for an interactive command.
const MOST_COMPARED: usize = 20_000_000;

/// A rule that is compared, and where it stands.
struct Placed {
    policy: usize,
    rule: usize,
    parts: [RequestPart; 2],
}

/// The requests that earlier rules leave to a rule.
enum Left {
    /// Nothing, because of these.
    Nothing(Vec<RulePosition>),
    /// Some; or the rule never had any, which is reported elsewhere.
    Something,
    Never,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct RulePosition {
    policy: usize,
    rule: usize,
}

impl fmt::Display for RulePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spec.dispatchPolicies[{}].rules[{}]", self.policy, self.rule)
    }
}

pub(super) fn lint(policies: &[DispatchPolicy], warnings: &mut Warnings) {
    let mut budget = MOST_COMPARED;
    let mut earlier: Vec<Placed> = Vec::new();
    for (number, policy) in policies.iter().enumerate() {
        let mut covered = Vec::new();
        let (mut left, mut covering) = (false, Vec::new());
        for (index, rule) in policy.rules.iter().enumerate() {
            let placed = Placed { policy: number, rule: index, parts: parts(rule) };
            let Some(what) = left_to(&placed, &earlier, &mut budget) else { return too_many(warnings) };
            match &what {
                Left::Something => left = true,
                Left::Never => {}
                Left::Nothing(by) => {
                    left |= by.iter().any(|place| place.policy == number);
                    covering.extend(by.iter().copied());
                    covered.push((index, by.clone()));
                }
            }
            // A rule that is covered covers nothing that its coverers do not.
            if matches!(what, Left::Something) {
                earlier.push(placed);
            }
        }
        if left || covered.is_empty() {
            covered.iter().for_each(|(rule, by)| unreachable_rule(number, *rule, by, warnings));
        } else {
            unreachable_policy(number, covering, warnings);
        }
    }
}

fn left_to(placed: &Placed, earlier: &[Placed], budget: &mut usize) -> Option<Left> {
    let mut by: Vec<RulePosition> = Vec::new();
    for (kind, part) in placed.parts.iter().enumerate() {
        if part.is_empty() {
            continue;
        }
        *budget = budget.checked_sub(earlier.len())?;
        let covers = |one: &&Placed| one.parts.get(kind).is_some_and(|wide| !wide.is_empty() && wide.covers(part));
        let Some(wider) = earlier.iter().find(covers) else { return Some(Left::Something) };
        let place = RulePosition { policy: wider.policy, rule: wider.rule };
        if !by.contains(&place) {
            by.push(place);
        }
    }
    Some(if by.is_empty() { Left::Never } else { Left::Nothing(by) })
}

fn unreachable_rule(policy: usize, rule: usize, by: &[RulePosition], warnings: &mut Warnings) {
    let message = format!("no request reaches this rule: {} all of it before", join(by));
    let hint = "remove it, or move it up if its policy was meant to come first";
    warnings.add(ProblemCode::UnreachableRule, RulePosition { policy, rule }.to_string(), message, hint);
}

fn unreachable_policy(policy: usize, mut by: Vec<RulePosition>, warnings: &mut Warnings) {
    by.sort_by_key(|place| (place.policy, place.rule));
    by.dedup();
    let message = format!("no request reaches this policy: {} all of it before", join(&by));
    let hint = "the first policy that matches decides: move this one up, or narrow the other";
    warnings.add(ProblemCode::UnreachablePolicy, format!("spec.dispatchPolicies[{policy}]"), message, hint);
}

fn join(places: &[RulePosition]) -> String {
    let named = places.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
    let verb = if places.len() == 1 { "matches" } else { "match" };
    format!("{named} {verb}")
}

fn too_many(warnings: &mut Warnings) {
    let message = "there are too many rules to look for unreachable ones among all of them";
    warnings.add(ProblemCode::Caution, "spec.dispatchPolicies", message, "check the object in parts");
}

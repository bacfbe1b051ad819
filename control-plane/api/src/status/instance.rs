use serde::{Deserialize, Serialize};

use super::condition::Finding;
use super::findings::accepted_finding;
use super::{Acceptance, Condition, ConditionType, State, Timestamp};

/// The `status` of an `Instance`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceStatus {
    /// The `metadata.generation` that the conditions are about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Accepted`, `Conflicted` and `Ready`.
    pub conditions: Vec<Condition>,
    /// The numbers of what belongs to it.
    #[serde(flatten)]
    pub counts: InstanceCounts,
}

/// The numbers of what belongs to an `Instance`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceCounts {
    /// Gateways of the Gateway API.
    pub gateways: usize,
    /// `UpstreamClusters`.
    pub clusters: usize,
    /// Envoys that are connected to the control plane which counts them.
    pub envoys: usize,
}

/// The facts about an `Instance` at one time.
#[derive(Clone, Debug, Default)]
pub struct InstanceFacts<'a> {
    /// The diagnosis of its newest version.
    pub acceptance: Acceptance<'a>,
    /// Gateways and clusters that it selects and others have, with their owners; empty if there are none.
    pub conflicts: &'a str,
    /// The numbers of its members.
    pub counts: InstanceCounts,
    /// Number of its Envoys that have acknowledged everything; `None` before there is anything to acknowledge.
    pub acknowledged: Option<usize>,
    /// The refusal of one of them, with its name; empty if none refuses anything.
    pub refusal: &'a str,
}

impl InstanceStatus {
    /// The status at `now`, after the conditions before.
    pub fn of(facts: &InstanceFacts<'_>, generation: Option<i64>, before: &[Condition], now: &Timestamp) -> Self {
        let findings = [accepted_finding(&facts.acceptance), conflicted_finding(facts), ready_finding(facts)];
        Self {
            observed_generation: generation,
            conditions: findings.into_iter().map(|one| one.stamp(generation, before, now)).collect(),
            counts: facts.counts,
        }
    }
}

fn conflicted_finding(facts: &InstanceFacts<'_>) -> Finding {
    let (status, reason) = match facts.conflicts.is_empty() {
        true => (State::False, "NoConflicts"),
        false => (State::True, "OwnedByOthers"),
    };
    Finding::new(ConditionType::Conflicted, status, reason, facts.conflicts)
}

/// Whether all its Envoys have acknowledged everything that belongs to it.
fn ready_finding(facts: &InstanceFacts<'_>) -> Finding {
    let finding = |status, reason, message: String| Finding::new(ConditionType::Ready, status, reason, message);
    let all = facts.counts.envoys;
    match facts.acknowledged {
        _ if !facts.acceptance.accepted => {
            finding(State::False, "NotAccepted", "its newest version is not accepted".to_owned())
        }
        None => finding(State::Unknown, "NotServed", "nothing was served to its Envoys yet".to_owned()),
        _ if all == 0 => {
            let message = "no Envoy of it is connected to the control plane that writes this";
            finding(State::False, "NoEnvoys", message.to_owned())
        }
        Some(count) if count < all => {
            let refusal = if facts.refusal.is_empty() { String::new() } else { format!("; {}", facts.refusal) };
            let reason = if facts.refusal.is_empty() { "Pending" } else { "Refused" };
            finding(State::False, reason, format!("{count} of {all} Envoys have acknowledged everything{refusal}"))
        }
        Some(_) => finding(State::True, "Ready", format!("{all} of {all} Envoys have acknowledged everything")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_those_of_the_facts() {
        let accepted = Acceptance { accepted: true, reason: "Accepted", ..Acceptance::default() };
        let refused = Acceptance { reason: "Invalid", message: "bad", ..Acceptance::default() };
        let facts = |envoys, acknowledged| InstanceFacts {
            acceptance: accepted,
            counts: InstanceCounts { gateways: 1, clusters: 3, envoys },
            acknowledged,
            ..InstanceFacts::default()
        };
        let none = "no Envoy of it is connected to the control plane that writes this";
        let conflict = "UpstreamCluster a.test belongs to Instance a";
        let (some, all) = ("1 of 2 Envoys have acknowledged everything", "2 of 2 Envoys have acknowledged everything");
        for (facts, expected) in [
            (facts(0, Some(0)), [("Accepted", ""), ("NoConflicts", ""), ("NoEnvoys", none)]),
            (
                facts(2, None),
                [("Accepted", ""), ("NoConflicts", ""), ("NotServed", "nothing was served to its Envoys yet")],
            ),
            (facts(2, Some(1)), [("Accepted", ""), ("NoConflicts", ""), ("Pending", some)]),
            (
                InstanceFacts { refusal: "e: bad port", ..facts(2, Some(1)) },
                [("Accepted", ""), ("NoConflicts", ""), ("Refused", &format!("{some}; e: bad port"))],
            ),
            (
                InstanceFacts { conflicts: conflict, ..facts(2, Some(2)) },
                [("Accepted", ""), ("OwnedByOthers", conflict), ("Ready", all)],
            ),
            (
                InstanceFacts { acceptance: refused, ..facts(2, Some(2)) },
                [("Invalid", "bad"), ("NoConflicts", ""), ("NotAccepted", "its newest version is not accepted")],
            ),
        ] {
            let status = InstanceStatus::of(&facts, Some(1), &[], &Timestamp::from_seconds(0));
            let found: Vec<_> =
                status.conditions.iter().map(|one| (one.reason.as_str(), one.message.as_str())).collect();
            assert_eq!(found, expected, "{facts:?}");
            assert_eq!((status.counts, status.observed_generation), (facts.counts, Some(1)));
        }
    }

    #[test]
    fn status_has_the_numbers_beside_the_conditions() {
        let counts = InstanceCounts { gateways: 1, clusters: 2, envoys: 3 };
        let status = InstanceStatus { counts, ..InstanceStatus::default() };
        let expected = serde_json::json!({"conditions": [], "gateways": 1, "clusters": 2, "envoys": 3});
        assert_eq!(serde_json::to_value(&status).unwrap(), expected);
    }

    #[test]
    fn time_of_a_condition_moves_with_its_status() {
        let facts = |conflicts| InstanceFacts { conflicts, ..InstanceFacts::default() };
        let at = |facts: &InstanceFacts<'_>, before: &[Condition], seconds| {
            InstanceStatus::of(facts, None, before, &Timestamp::from_seconds(seconds)).conditions
        };
        let first = at(&facts("a"), &[], 1);
        let second = at(&facts("b"), &first, 2);
        let third = at(&facts(""), &second, 3);
        let times: Vec<_> =
            [first, second, third].iter().map(|all| all[1].last_transition_time.seconds().unwrap()).collect();
        assert_eq!(times, [1, 1, 3]);
    }
}

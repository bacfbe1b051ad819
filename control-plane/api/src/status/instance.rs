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
    /// Number of gateways that belong to it.
    pub gateways: usize,
    /// Number of `UpstreamClusters` that belong to it.
    pub clusters: usize,
}

/// The facts about an `Instance` at one time.
#[derive(Clone, Debug, Default)]
pub struct InstanceFacts<'a> {
    /// The diagnosis of its newest version.
    pub acceptance: Acceptance<'a>,
    /// Gateways and clusters that it selects and others have, with their owners; empty if there are none.
    pub conflicts: &'a str,
    /// Number of gateways that belong to it.
    pub gateways: usize,
    /// Number of these that are served what belongs to it; `None` before that is known.
    pub served_gateways: Option<usize>,
    /// Number of `UpstreamClusters` that belong to it.
    pub clusters: usize,
}

impl InstanceStatus {
    /// The status at `now`, after the conditions before.
    pub fn of(facts: &InstanceFacts<'_>, generation: Option<i64>, before: &[Condition], now: &Timestamp) -> Self {
        let findings = [accepted_finding(&facts.acceptance), conflicted_finding(facts), ready_finding(facts)];
        Self {
            observed_generation: generation,
            conditions: findings.into_iter().map(|one| one.stamp(generation, before, now)).collect(),
            gateways: facts.gateways,
            clusters: facts.clusters,
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

/// Whether everything that belongs to it is served at all of its gateways.
fn ready_finding(facts: &InstanceFacts<'_>) -> Finding {
    let finding = |status, reason, message: String| Finding::new(ConditionType::Ready, status, reason, message);
    let all = facts.gateways;
    match facts.served_gateways {
        _ if !facts.acceptance.accepted => {
            finding(State::False, "NotAccepted", "it gets no more than it has".to_owned())
        }
        _ if all == 0 => finding(State::False, "NoGateways", "no gateway belongs to it".to_owned()),
        None => finding(State::Unknown, "NotKnown", "it is not known what its gateways are served".to_owned()),
        Some(served) if served < all => {
            finding(State::False, "Pending", format!("{served} of {all} gateways are ready"))
        }
        Some(_) => finding(State::True, "Ready", format!("{all} of {all} gateways are ready")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_those_of_the_facts() {
        let accepted = Acceptance { accepted: true, reason: "Accepted", ..Acceptance::default() };
        let refused = Acceptance { reason: "Invalid", message: "bad", ..Acceptance::default() };
        let facts = |gateways, served_gateways| InstanceFacts {
            acceptance: accepted,
            gateways,
            served_gateways,
            clusters: 3,
            ..InstanceFacts::default()
        };
        let conflict = "UpstreamCluster a.test belongs to Instance a";
        for (facts, expected) in [
            (facts(0, Some(0)), [("Accepted", ""), ("NoConflicts", ""), ("NoGateways", "no gateway belongs to it")]),
            (
                facts(2, None),
                [("Accepted", ""), ("NoConflicts", ""), ("NotKnown", "it is not known what its gateways are served")],
            ),
            (facts(2, Some(1)), [("Accepted", ""), ("NoConflicts", ""), ("Pending", "1 of 2 gateways are ready")]),
            (
                InstanceFacts { conflicts: conflict, ..facts(2, Some(2)) },
                [("Accepted", ""), ("OwnedByOthers", conflict), ("Ready", "2 of 2 gateways are ready")],
            ),
            (
                InstanceFacts { acceptance: refused, ..facts(2, Some(2)) },
                [("Invalid", "bad"), ("NoConflicts", ""), ("NotAccepted", "it gets no more than it has")],
            ),
        ] {
            let status = InstanceStatus::of(&facts, Some(1), &[], &Timestamp::from_seconds(0));
            let found: Vec<_> =
                status.conditions.iter().map(|one| (one.reason.as_str(), one.message.as_str())).collect();
            assert_eq!(found, expected, "{facts:?}");
            assert_eq!((status.gateways, status.clusters), (facts.gateways, 3));
        }
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

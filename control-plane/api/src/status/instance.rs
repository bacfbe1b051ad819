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
    /// Envoys of its own that are connected to the control plane which counts them.
    pub envoys: usize,
    /// Envoys of its Gateways that are connected there.
    pub gateway_envoys: usize,
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
    /// Number of its own Envoys that have acknowledged everything; `None` before there is anything to acknowledge.
    pub acknowledged: Option<usize>,
    /// Number of the Envoys of its Gateways that have acknowledged everything of their Gateway.
    pub acknowledged_at_gateways: usize,
    /// The refusal of one of those that decide about `Ready`, with its name; empty if none refuses anything.
    pub refusal: &'a str,
}

impl InstanceFacts<'_> {
    /// Whether the Envoys of its Gateways decide about `Ready`: it has nothing that Envoys of its own would serve, and none of these. A
    /// tenant runs them, and could otherwise hide that those of the instance are gone, or say that these refuse something.
    pub fn is_of_gateways_alone(&self) -> bool {
        self.counts.envoys == 0 && self.counts.clusters == 0
    }
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

/// Whether all Envoys that decide have acknowledged everything that belongs to it.
fn ready_finding(facts: &InstanceFacts<'_>) -> Finding {
    let finding = |status, reason, message: String| Finding::new(ConditionType::Ready, status, reason, message);
    let InstanceCounts { envoys, gateway_envoys, .. } = facts.counts;
    let at_gateways = facts.acknowledged_at_gateways;
    let (all, whose, beside) = match facts.is_of_gateways_alone() {
        true => (gateway_envoys, "Envoys of its Gateways", String::new()),
        false if gateway_envoys == 0 => (envoys, "Envoys", String::new()),
        false => (envoys, "Envoys", format!(", {at_gateways} of {gateway_envoys} Envoys of its Gateways")),
    };
    let acknowledged = facts.acknowledged.map(|own| if facts.is_of_gateways_alone() { at_gateways } else { own });
    let told = |count: usize| format!("{count} of {all} {whose} have acknowledged everything{beside}");
    match acknowledged {
        _ if !facts.acceptance.accepted => {
            finding(State::False, "NotAccepted", "its newest version is not accepted".to_owned())
        }
        None => finding(State::Unknown, "NotServed", "nothing was served to its Envoys yet".to_owned()),
        _ if all == 0 => {
            let message = "no Envoy of it is connected to the control plane that writes this";
            finding(State::False, "NoEnvoys", format!("{message}{beside}"))
        }
        Some(count) if count < all => {
            let refusal = if facts.refusal.is_empty() { String::new() } else { format!("; {}", facts.refusal) };
            let reason = if facts.refusal.is_empty() { "Pending" } else { "Refused" };
            finding(State::False, reason, format!("{}{refusal}", told(count)))
        }
        Some(_) => finding(State::True, "Ready", told(all)),
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
            counts: InstanceCounts { gateways: 1, clusters: 3, envoys, gateway_envoys: 0 },
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
    fn envoys_of_gateways_decide_where_nothing_is_for_others() {
        let no_own = "no Envoy of it is connected to the control plane that writes this";
        // Clusters, its own Envoys and how many of them have everything, the same of those of its Gateways.
        for (clusters, own, at_gateways, expected) in [
            (0, (0, 0), (0, 0), ("NoEnvoys", no_own.to_owned())),
            (0, (0, 0), (2, 2), ("Ready", "2 of 2 Envoys of its Gateways have acknowledged everything".to_owned())),
            (0, (0, 0), (2, 1), ("Pending", "1 of 2 Envoys of its Gateways have acknowledged everything".to_owned())),
            (3, (0, 0), (2, 2), ("NoEnvoys", format!("{no_own}, 2 of 2 Envoys of its Gateways"))),
            (
                0,
                (1, 1),
                (2, 0),
                ("Ready", "1 of 1 Envoys have acknowledged everything, 0 of 2 Envoys of its Gateways".to_owned()),
            ),
            (
                3,
                (1, 0),
                (2, 2),
                ("Pending", "0 of 1 Envoys have acknowledged everything, 2 of 2 Envoys of its Gateways".to_owned()),
            ),
        ] {
            let facts = InstanceFacts {
                acceptance: Acceptance { accepted: true, reason: "Accepted", ..Acceptance::default() },
                counts: InstanceCounts { gateways: 2, clusters, envoys: own.0, gateway_envoys: at_gateways.0 },
                acknowledged: Some(own.1),
                acknowledged_at_gateways: at_gateways.1,
                ..InstanceFacts::default()
            };
            let status = InstanceStatus::of(&facts, Some(1), &[], &Timestamp::from_seconds(0));
            let ready = &status.conditions[2];
            assert_eq!((ready.reason.as_str(), ready.message.as_str()), (expected.0, expected.1.as_str()));
        }
    }

    #[test]
    fn status_has_the_numbers_beside_the_conditions() {
        let counts = InstanceCounts { gateways: 1, clusters: 2, envoys: 3, gateway_envoys: 4 };
        let status = InstanceStatus { counts, ..InstanceStatus::default() };
        let expected = serde_json::json!({
            "conditions": [], "gateways": 1, "clusters": 2, "envoys": 3, "gatewayEnvoys": 4
        });
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

use super::condition::Finding;
use super::served_version::finding_of_served;
use super::{ConditionType, LimitFacts, State, StatusInput};

/// Whether gateways share the limits.
pub(super) fn shared_finding(facts: &LimitFacts, seen: &StatusInput<'_>) -> Finding {
    let by = seen.reporting(facts.gateways);
    let found = if facts.local > 0 {
        let names = listed(&facts.local_names, facts.local);
        let schemas = listed(&facts.schema_names, facts.schemas);
        let message = format!("local limits hold instead at {names}, for {schemas}; by reports of {by}");
        (State::False, "LocalLimits", message)
    } else if facts.gateways > 0 {
        (State::True, "Shared", format!("by reports of {by}"))
    } else {
        (State::Unknown, "NoReport", "no gateway has reported about these limits".to_owned())
    };
    finding_of_served(seen.served, ConditionType::LimitsShared, found)
}

/// The first names, and the number of the others.
fn listed(names: &[String], count: usize) -> String {
    let named: Vec<&str> = names.iter().take(LimitFacts::MAX_NAMED).map(String::as_str).collect();
    match count.saturating_sub(named.len()) {
        0 => named.join(", "),
        others => format!("{} and {others} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{MAX_MESSAGE, Served, Timestamp};

    fn found(facts: &LimitFacts, served: Served) -> (State, String, String) {
        let seen = StatusInput { served, ..StatusInput::default() };
        let condition = shared_finding(facts, &seen).stamp(None, &[], &Timestamp::from_seconds(0));
        (condition.status, condition.reason, condition.message)
    }

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("n{number}")).collect()
    }

    #[test]
    fn limits_are_shared_as_gateways_report() {
        let none = LimitFacts::default();
        let three = LimitFacts { gateways: 3, ..LimitFacts::default() };
        let one = LimitFacts { local: 1, local_names: names(1), schemas: 2, schema_names: names(2), ..three.clone() };
        let many = LimitFacts { gateways: 40, local: 30, local_names: names(6), schemas: 9, schema_names: names(5) };
        let local = "local limits hold instead at";
        let table = [
            (&none, State::Unknown, "NoReport", "no gateway has reported about these limits".to_owned()),
            (&three, State::True, "Shared", "by reports of 3 gateways".to_owned()),
            (&one, State::False, "LocalLimits", format!("{local} n0, for n0, n1; by reports of 3 gateways")),
            (
                &many,
                State::False,
                "LocalLimits",
                format!(
                    "{local} n0, n1, n2, n3, n4 and 25 more, for n0, n1, n2, n3, n4 and 4 more; by reports of 40 gateways"
                ),
            ),
        ];
        for (facts, status, reason, message) in table {
            assert_eq!(found(facts, Served::Newest), (status, reason.to_owned(), message.clone()), "{facts:?}");
            let older = format!("the version that was accepted last (generation 3) is served: {message}");
            assert_eq!(found(facts, Served::Older(Some(3))), (State::Unknown, "OlderVersion".to_owned(), older));
        }
    }

    #[test]
    fn message_of_long_names_is_bounded() {
        let long = vec!["n".repeat(400); LimitFacts::MAX_NAMED];
        let facts = LimitFacts {
            gateways: 9,
            local: usize::MAX,
            local_names: long.clone(),
            schemas: usize::MAX,
            schema_names: long,
        };
        let (.., message) = found(&facts, Served::Newest);
        assert!(message.chars().count() <= MAX_MESSAGE, "{message}");
    }
}

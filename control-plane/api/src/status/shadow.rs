use std::cmp::Reverse;

use portcullis_filter_config::activity::ShadowDifference;

use super::condition::Finding;
use super::served_version::finding_of_served;
use super::{ConditionType, ShadowFacts, State, StatusInput};
use crate::kind::PolicyKind;

/// Kinds of differences that a message names.
const MAX_NAMED: usize = 5;

/// Whether the shadow would treat requests otherwise. Counts are rounded down, so that the message changes a few times in a power of
/// ten, and not with each report.
pub(super) fn shadow_finding(facts: &ShadowFacts, seen: &StatusInput<'_>) -> Finding {
    let (status, reason, mut message) = of_served(facts, &seen.reporting(facts.gateways));
    message.push_str(&compared_with(seen));
    finding_of_served(seen.served, ConditionType::ShadowDiffers, (status, reason, message))
}

/// The policies of kinds of their own by which requests are decided; nothing where only the object's own fields decide.
fn compared_with(seen: &StatusInput<'_>) -> String {
    let is_compared = |kind: PolicyKind| [PolicyKind::Dispatch, PolicyKind::FlowControl].contains(&kind);
    let attached = seen.policies.iter().filter(|(kind, _)| is_compared(*kind));
    let kinds: Vec<&str> = attached.map(|(kind, _)| kind.as_str()).collect();
    match kinds.as_slice() {
        [] => String::new(),
        kinds => format!("; compared with what is in effect, attached policies included: {}", kinds.join(", ")),
    }
}

/// Status, reason and message for the version that is served.
fn of_served(facts: &ShadowFacts, gateways: &str) -> (State, &'static str, String) {
    let judged = format!("{}+ requests, by reports of {gateways}", rounded(facts.judged));
    if !facts.differences.is_empty() || facts.others > 0 {
        (State::True, "Differences", format!("among {judged}: {}", differences(facts)))
    } else if facts.is_partial {
        let message = format!("no difference among {judged}; other gateways' reports have no room here");
        (State::Unknown, "TooManyReports", message)
    } else if facts.judged > 0 {
        (State::False, "NoDifference", format!("no difference among {judged}"))
    } else if facts.gateways > 0 {
        (State::Unknown, "NoRequests", format!("no request so far, by reports of {gateways}"))
    } else {
        (State::Unknown, "NoReport", "no gateway has reported about this shadow".to_owned())
    }
}

fn differences(facts: &ShadowFacts) -> String {
    let mut kinds: Vec<_> = facts.differences.iter().map(|(kind, count)| (Reverse(rounded(*count)), kind)).collect();
    kinds.sort();
    let (named, rest) = kinds.split_at_checked(MAX_NAMED).unwrap_or((&kinds, &[]));
    let named = named.iter().map(|(Reverse(count), kind)| format!("{count}+ {}", text(kind)));
    let rest: u64 = rest.iter().map(|(Reverse(count), _)| *count).fold(rounded(facts.others), u64::saturating_add);
    let rest = (rest > 0).then(|| format!("{}+ of other kinds", rounded(rest)));
    named.chain(rest).collect::<Vec<_>>().join("; ")
}

fn text(kind: &ShadowDifference) -> String {
    let ShadowDifference { policy, shadow_policy, agreement, verb, resource } = kind;
    let resource = if resource.is_empty() { "other paths" } else { resource };
    format!("{agreement} {verb} {resource} (policy {policy}, shadow policy {shadow_policy})")
}

/// The largest number of 1, 2 or 5 and zeros that is not greater.
fn rounded(count: u64) -> u64 {
    let mut power = 1_u64;
    while count / 10 >= power {
        power *= 10;
    }
    let digit = match count / power {
        0 => 0,
        1 => 1,
        2..5 => 2,
        _ => 5,
    };
    digit * power
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::MAX_MESSAGE;

    fn kind(resource: &str) -> ShadowDifference {
        let words = ["1", "-", "would_refuse", "LIST", resource].map(str::to_owned);
        let [policy, shadow_policy, agreement, verb, resource] = words;
        ShadowDifference { policy, shadow_policy, agreement, verb, resource }
    }

    fn found(facts: &ShadowFacts) -> (State, String, String) {
        let finding = shadow_finding(facts, &StatusInput::default());
        let condition = finding.stamp(None, &[], &crate::status::Timestamp::from_seconds(0));
        (condition.status, condition.reason, condition.message)
    }

    #[test]
    fn shadow_differs_as_gateways_report() {
        let two = ShadowFacts { gateways: 2, judged: 30, ..ShadowFacts::default() };
        let differs = ShadowFacts { differences: vec![(kind("pods"), 3), (kind(""), 1)], others: 1, ..two.clone() };
        let table = [
            (ShadowFacts::default(), State::Unknown, "NoReport", "no gateway has reported about this shadow"),
            (
                ShadowFacts { gateways: 1, ..ShadowFacts::default() },
                State::Unknown,
                "NoRequests",
                "no request so far, by reports of 1 gateway",
            ),
            (two.clone(), State::False, "NoDifference", "no difference among 20+ requests, by reports of 2 gateways"),
            (
                ShadowFacts { is_partial: true, ..two },
                State::Unknown,
                "TooManyReports",
                "no difference among 20+ requests, by reports of 2 gateways; other gateways' reports have no room here",
            ),
            (
                ShadowFacts { is_partial: true, ..differs },
                State::True,
                "Differences",
                "among 20+ requests, by reports of 2 gateways: 2+ would_refuse LIST pods (policy 1, shadow policy -); \
                 1+ would_refuse LIST other paths (policy 1, shadow policy -); 1+ of other kinds",
            ),
        ];
        for (facts, status, reason, message) in table {
            assert_eq!(found(&facts), (status, reason.to_owned(), message.to_owned()), "{facts:?}");
        }
    }

    /// The object itself shows only one of both.
    #[test]
    fn message_says_that_attached_policies_are_compared() {
        let facts = ShadowFacts { gateways: 1, judged: 5, ..ShadowFacts::default() };
        let with = |kinds: &[PolicyKind]| {
            let policies = kinds.iter().map(|kind| (*kind, "team-a/x tightens".to_owned())).collect();
            let finding = shadow_finding(&facts, &StatusInput { policies, ..StatusInput::default() });
            finding.stamp(None, &[], &crate::status::Timestamp::from_seconds(0)).message
        };
        let plain = "no difference among 5+ requests, by reports of 1 gateway";
        assert_eq!(with(&[]), plain);
        assert_eq!(with(&[PolicyKind::UpstreamIdentity]), plain, "who a user is is the same for both");
        let both = "; compared with what is in effect, attached policies included: DispatchPolicy, FlowControlPolicy";
        assert_eq!(with(&[PolicyKind::Dispatch, PolicyKind::FlowControl]), format!("{plain}{both}"));
    }

    #[test]
    fn message_is_bounded_and_names_the_most_frequent() {
        let differences = (0..64_u64).map(|one| (kind(&format!("{}{one}", "r".repeat(60))), 10 + one)).collect();
        let facts = ShadowFacts { gateways: 1, judged: u64::MAX, differences, others: u64::MAX, is_partial: true };
        let (.., message) = found(&facts);
        assert!(message.chars().count() < MAX_MESSAGE, "{message}");
        assert_eq!(message.matches("would_refuse").count(), MAX_NAMED);
        assert!(message.contains("50+ would_refuse LIST"), "{message}");
    }

    /// A writer writes each message once: what changes all the time must not.
    #[test]
    fn message_changes_seldom() {
        let mut messages = std::collections::BTreeSet::new();
        for judged in 0..100_000 {
            let differences = vec![(kind("pods"), judged / 2), (kind("nodes"), judged / 3)];
            let differences = differences.into_iter().filter(|(_, count)| *count > 0).collect();
            messages.insert(found(&ShadowFacts { gateways: 2, judged, differences, ..ShadowFacts::default() }).2);
        }
        assert!(messages.len() <= 3 * 3 * 5 + 2, "{}", messages.len());
    }

    #[test]
    fn counts_are_rounded_down() {
        let table = [(0, 0), (1, 1), (2, 2), (4, 2), (5, 5), (9, 5), (10, 10), (19, 10), (49, 20), (999, 500)];
        for (count, expected) in table {
            assert_eq!(rounded(count), expected, "{count}");
        }
        assert_eq!(rounded(u64::MAX), 10_000_000_000_000_000_000);
    }
}

use super::condition::Finding;
use super::{ConditionType, State, Verdict};

/// Whether an object is valid and owns its names, with its warnings.
pub(super) fn finding(verdict: &Verdict<'_>) -> Finding {
    let status = if verdict.accepted { State::True } else { State::False };
    let mut message = verdict.message.to_owned();
    for warning in verdict.warnings {
        message.push_str(if message.is_empty() { "warning: " } else { "; warning: " });
        message.push_str(warning);
    }
    Finding::new(ConditionType::Accepted, status, verdict.reason, message)
}

/// The one condition of an object that is no `UpstreamCluster`: of settings, or of a file.
pub fn accepted(
    verdict: &Verdict<'_>,
    generation: Option<i64>,
    before: &[super::Condition],
    now: &super::Timestamp,
) -> super::Condition {
    finding(verdict).stamp(generation, before, now)
}

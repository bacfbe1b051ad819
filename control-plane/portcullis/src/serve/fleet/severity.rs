//! How much a cluster wants to be looked at, and why.

use portcullis_api::status::{ConditionType, State};

use super::view::Severity;
use crate::serve::status::ObjectStatus;

/// A severity, and the message for a reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Assessment {
    pub(super) severity: Severity,
    pub(super) message: String,
}

/// The assessment of an object's conditions.
pub(super) fn of_conditions(object: &ObjectStatus) -> Assessment {
    let kinds = [ConditionType::Accepted, ConditionType::Programmed, ConditionType::Ready];
    let failing = kinds.into_iter().filter_map(|kind| object.status.condition(kind));
    let Some(first) = failing.into_iter().find(|one| one.status != State::True) else {
        return some_unhealthy(object);
    };
    let serves_nothing = first.kind == ConditionType::Accepted && object.status.content_hash.is_none();
    let severity = match (first.status, first.kind) {
        (State::Unknown, _) => Severity::Unknown,
        (_, ConditionType::Ready) => Severity::Critical,
        _ if serves_nothing => Severity::Critical,
        _ => Severity::Warning,
    };
    Assessment { severity: severity.max(of_ready(object)), message: first.message.clone() }
}

/// An object that is served in an older version, or not everywhere, may have no healthy server besides.
fn of_ready(object: &ObjectStatus) -> Severity {
    match object.status.condition(ConditionType::Ready).map(|ready| ready.status) {
        Some(State::False) => Severity::Critical,
        _ => Severity::Good,
    }
}

/// All conditions hold, and yet a server may be unhealthy.
fn some_unhealthy(object: &ObjectStatus) -> Assessment {
    match object.status.condition(ConditionType::Ready) {
        Some(ready) if ready.reason == "SomeUnhealthy" => {
            Assessment { severity: Severity::Warning, message: ready.message.clone() }
        }
        _ => Assessment::default(),
    }
}

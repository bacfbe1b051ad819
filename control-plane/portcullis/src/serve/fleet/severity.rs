//! How much a cluster wants to be looked at, and why.

use portcullis_api::PASSED_ON;
use portcullis_api::status::{ConditionType, Health, State};

use super::fleet_time::FleetTime;
use super::rates::Rates;
use super::served_objects::ServedObject;
use super::view::Severity;
use crate::serve::object_status::ObjectStatus;

/// Errors in a second below which their ratio says nothing: three in the window of rates.
const FEW_ERRORS: f64 = 0.1;
/// The ratios of errors to [`Rates::conclusive`] answers that are a warning, and critical.
const WARNING_RATIO: f64 = 0.01;
const CRITICAL_RATIO: f64 = 0.25;
/// The time before the end of a certificate that is a warning, in days. `portcullis check` warns earlier, of an object that is
/// edited.
const WARNING_DAYS: i64 = 7;
const DAY: i64 = 86_400;

/// A severity, and the message for a reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Assessment {
    pub(super) severity: Severity,
    pub(super) message: String,
}

impl Assessment {
    /// The worse one of two; the first of equal ones.
    fn or_worse(self, other: Self) -> Self {
        if other.severity > self.severity { other } else { self }
    }
}

/// The assessment of a cluster by everything that is known of it.
pub(super) fn assess(
    object: &ObjectStatus,
    served: Option<&ServedObject>,
    rates: &Rates,
    now: FleetTime,
) -> Assessment {
    let found = of_conditions(object).or_worse(of_errors(rates)).or_worse(of_certificates(served, now));
    let is_passed_on = served.is_some_and(|served| served.is_passed_on);
    if is_passed_on && found.message.is_empty() { Assessment { message: PASSED_ON.to_owned(), ..found } } else { found }
}

/// The first condition that does not hold. All of them may hold although a server is unhealthy.
fn of_conditions(object: &ObjectStatus) -> Assessment {
    let kinds = [ConditionType::Accepted, ConditionType::Programmed, ConditionType::Ready];
    let mut conditions = kinds.into_iter().filter_map(|kind| object.status.condition(kind));
    let Some(first) = conditions.find(|one| one.status != State::True) else {
        let ready = object.status.condition(ConditionType::Ready).filter(|ready| ready.reason == "SomeUnhealthy");
        return ready.map_or_else(Assessment::default, |ready| Assessment {
            severity: Severity::Warning,
            message: ready.message.clone(),
        });
    };
    let serves_nothing = object.status.content_hash.is_none();
    let severity = match (first.status, first.kind) {
        (State::Unknown, _) => Severity::Unknown,
        (_, ConditionType::Accepted) if serves_nothing => Severity::Critical,
        (_, ConditionType::Programmed) if first.reason == "NoGateways" => Severity::Unknown,
        (_, ConditionType::Ready) => Severity::Critical,
        _ => Severity::Warning,
    };
    // It may be served in an older version, and have no healthy server besides.
    let ready = object.status.condition(ConditionType::Ready).map(|ready| ready.status);
    let of_ready = if ready == Some(State::False) { Severity::Critical } else { Severity::Good };
    Assessment { severity: severity.max(of_ready), message: first.message.clone() }
}

/// The severity of errors among answers.
pub(super) fn of_error_ratio(rates: &Rates) -> Severity {
    let ratio = rates.errors / rates.conclusive;
    if rates.errors < FEW_ERRORS || ratio < WARNING_RATIO {
        Severity::Good
    } else if ratio < CRITICAL_RATIO {
        Severity::Warning
    } else {
        Severity::Critical
    }
}

fn of_errors(rates: &Rates) -> Assessment {
    let severity = of_error_ratio(rates);
    if severity == Severity::Good {
        return Assessment::default();
    }
    let percent = 100.0 * rates.errors / rates.conclusive;
    Assessment {
        severity,
        message: format!("{percent:.0}% of the answers are 5xx, not counting 4xx and the gateway's refusals"),
    }
}

fn of_certificates(served: Option<&ServedObject>, now: FleetTime) -> Assessment {
    let first = served.into_iter().flat_map(|served| &served.certificates).min_by_key(|one| one.not_after);
    let Some(first) = first else { return Assessment::default() };
    let days = days_left(first.not_after, now);
    let is_own = first.usage == "serving" || first.usage == "client";
    let (severity, end) = match days {
        ..0 if is_own => (Severity::Critical, "has expired".to_owned()),
        ..0 => (Severity::Warning, "has expired".to_owned()),
        0 => (Severity::Warning, "expires in less than a day".to_owned()),
        1..WARNING_DAYS => (Severity::Warning, format!("expires in {days} days")),
        _ => return Assessment::default(),
    };
    Assessment {
        severity,
        message: format!("the certificate {} ({}) {end}", first.usage, crate::display_text::one_line(&first.subject)),
    }
}

/// Whole days until a time, less than 0 behind it.
pub(super) fn days_left(end: u64, now: FleetTime) -> i64 {
    let seconds = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
    seconds(end).saturating_sub(seconds(now.seconds)).div_euclid(DAY)
}

/// The severity of the servers' health at one gateway.
pub(super) fn of_health(health: &Health) -> Severity {
    match health.healthy {
        0 => Severity::Critical,
        healthy if healthy < health.total => Severity::Warning,
        _ => Severity::Good,
    }
}

//! One write of a status, in the way that its kind needs.

use std::time::Duration;

use kube::{Client, Error};
use portcullis_sources::{ObjectKey, WatchedKind};
use serde_json::Value;

use super::apply::apply;
use super::replace::replace;
use super::replaced_lists::ReplacedLists;
use super::write_error::WriteError;
use super::write_queue::WriteOutcome;

/// The time limit of one write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// A status to write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum StatusWrite {
    /// The object, with all fields of this manager, for a server-side apply.
    Apply(Value),
    /// Lists of which other controllers have entries.
    Replace(ReplacedLists),
}

/// Writes a status; returns the outcome and, if it failed, the reason. The reason holds no secret.
pub(super) async fn write(client: Client, key: ObjectKey, status: StatusWrite) -> (ObjectKey, WriteOutcome, String) {
    let writing = async {
        match &status {
            StatusWrite::Apply(object) => apply(client, &key, object).await.map_err(WriteError::from),
            StatusWrite::Replace(lists) => replace(client, &key, lists).await,
        }
    };
    let (outcome, why) = match tokio::time::timeout(WRITE_TIMEOUT, writing).await {
        Ok(Ok(())) => (WriteOutcome::Written, String::new()),
        Ok(Err(WriteError::Request(error))) => outcome_of(key.kind, &error),
        Ok(Err(error @ WriteError::Comparison)) => (WriteOutcome::Gone, error.to_string()),
        Err(_) => (WriteOutcome::Away, format!("no answer within {} s", WRITE_TIMEOUT.as_secs())),
    };
    (key, outcome, why)
}

fn outcome_of(kind: WatchedKind, error: &Error) -> (WriteOutcome, String) {
    let Error::Api(status) = error else {
        // Its text may quote an answer, and answers hold whole objects.
        return (WriteOutcome::Away, "the API does not answer as it should".to_owned());
    };
    let outcome = match status.code {
        404 | 410 | 409 => WriteOutcome::Gone,
        // Their rights are given apart: without them the others' statuses are written all the same.
        403 if kind.is_judged() || kind == WatchedKind::Instance => WriteOutcome::Refused,
        401 | 403 | 408 | 429 => WriteOutcome::Away,
        400..=499 => WriteOutcome::Refused,
        // Tenants write these objects, and one that has no room for its status in the store is answered so.
        500 if kind.is_judged() => WriteOutcome::Failed,
        _ => WriteOutcome::Away,
    };
    (outcome, portcullis_api::status::sanitize(&format!("{} {}: {}", status.code, status.reason, status.message)))
}

#[cfg(test)]
mod tests {
    use portcullis_api::PolicyKind;
    use serde_json::json;

    use super::*;

    #[test]
    fn object_at_which_the_server_fails_stops_no_other_status() {
        let of = |code: u16| {
            let status = json!({"status": "Failure", "message": "m", "reason": "InternalError", "code": code});
            Error::Api(serde_json::from_value(status).unwrap())
        };
        for (kind, code, outcome) in [
            (WatchedKind::Policy(PolicyKind::Dispatch), 500, WriteOutcome::Failed),
            (WatchedKind::HttpRoute, 500, WriteOutcome::Failed),
            (WatchedKind::UpstreamCluster, 500, WriteOutcome::Away),
            (WatchedKind::HttpRoute, 503, WriteOutcome::Away),
            (WatchedKind::HttpRoute, 504, WriteOutcome::Away),
        ] {
            assert_eq!(outcome_of(kind, &of(code)).0, outcome, "{kind:?} {code}");
        }
    }

    #[test]
    fn right_that_one_kind_lacks_stops_no_other_status() {
        let status = json!({"status": "Failure", "message": "m", "reason": "Forbidden", "code": 403});
        let error = Error::Api(serde_json::from_value(status).unwrap());
        for (kind, outcome) in [
            (WatchedKind::UpstreamCluster, WriteOutcome::Away),
            (WatchedKind::GatewaySettings, WriteOutcome::Away),
            (WatchedKind::TlsRoute, WriteOutcome::Refused),
            (WatchedKind::Instance, WriteOutcome::Refused),
        ] {
            assert_eq!(outcome_of(kind, &error).0, outcome, "{kind:?}");
        }
    }
}

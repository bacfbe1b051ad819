//! One status: the object to apply, and the write as a server-side apply.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use kube::{Client, Error};
use portcullis_sources::{ObjectKey, StoredStatus, WatchedKind};
use serde::Serialize;
use serde_json::{Value, json};

use super::write_queue::WriteOutcome;

/// The field manager of the written fields.
const MANAGER: &str = "portcullis";
/// The time limit of one write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Applies a status; returns the outcome and, if it failed, the reason. The reason holds no secret.
pub(super) async fn apply(client: Client, key: ObjectKey, object: Value) -> (ObjectKey, WriteOutcome, String) {
    // Force takes back fields of ours that another writer changed. Lists of the Gateway API are written as a whole.
    let (parameters, patch) = match key.kind.is_judged() {
        true => {
            (PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }, Patch::Merge(&object))
        }
        false => (PatchParams::apply(MANAGER).force(), Patch::Apply(&object)),
    };
    let objects = key.kind.api_in(client, &key.namespace);
    let applied = objects.patch_status(&key.name, &parameters, &patch);
    let (outcome, why) = match tokio::time::timeout(WRITE_TIMEOUT, applied).await {
        Ok(Ok(_)) => (WriteOutcome::Written, String::new()),
        Ok(Err(error)) => outcome_of(key.kind, &error),
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
        _ => WriteOutcome::Away,
    };
    (outcome, portcullis_api::status::sanitize(&format!("{} {}: {}", status.code, status.reason, status.message)))
}

/// The lists of a status whose entries the server knows by a key: others may add entries of their own.
const KEYED: [(&str, &str); 2] = [("conditions", "type"), ("gateways", "name")];

/// The object to apply: all the fields of this manager. The UID makes the server refuse it if another object has the name by
/// now.
pub(super) fn applied(key: &ObjectKey, uid: &str, status: &impl Serialize) -> serde_json::Result<Value> {
    let status = serde_json::to_value(status)?;
    Ok(json!({
        "apiVersion": key.kind.api_version(),
        "kind": key.kind.kind(),
        "metadata": {"name": key.name, "uid": uid},
        "status": status,
    }))
}

/// A patch that replaces the lists of a status. UID and version make the server refuse it if another object has the name by now, or
/// if another controller has written meanwhile: the lists have its entries.
pub(super) fn replaced(stored: &StoredStatus, status: Value) -> Value {
    json!({"metadata": {"uid": stored.uid, "resourceVersion": stored.resource_version}, "status": status})
}

/// Whether a status has each of the wanted lists.
pub(super) fn is_whole_there(found: &Value, wanted: &Value) -> bool {
    wanted.as_object().is_some_and(|wanted| wanted.iter().all(|(field, value)| found.get(field) == Some(value)))
}

/// Whether a status holds all that is wanted, and no other gateway. Additions of other managers do not matter.
pub(super) fn is_there(found: &Value, wanted: &Value) -> bool {
    let (Some(found), Some(wanted)) = (found.as_object(), wanted.as_object()) else { return false };
    let ours = ["observedGeneration", "contentHash", "names", "moreGateways", "controlPlane", "defaults"];
    // A list in one kind, and a number in another.
    let numbers =
        ["gateways", "clusters", "envoys"].into_iter().filter(|field| wanted.get(*field).is_some_and(Value::is_number));
    if ours.into_iter().chain(numbers).any(|field| found.get(field) != wanted.get(field)) {
        return false;
    }
    let list = |of: &serde_json::Map<String, Value>, field: &str| {
        of.get(field).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let same = |(field, key): &(&str, &str)| {
        let (found, wanted) = (list(found, field), list(wanted, field));
        let twin = |one: &Value| found.iter().find(|other| other.get(*key) == one.get(*key)).cloned();
        wanted.iter().all(|one| twin(one).as_ref() == Some(one))
            && (*field != "gateways" || found.len() == wanted.len())
    };
    KEYED.iter().all(same)
}

/// Whether a status holds all that is wanted, but for another writer's name: of two control planes that use the same settings, each
/// would put its own there for ever.
pub(super) fn is_there_by_any(found: &Value, wanted: &Value) -> bool {
    let mut wanted = wanted.clone();
    if let (Some(by), Some(fields)) = (found.get("controlPlane"), wanted.as_object_mut()) {
        fields.insert("controlPlane".to_owned(), by.clone());
    }
    is_there(found, &wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn settings_of_two_control_planes_are_written_by_one() {
        let by = |control_plane: &str, generation: u32| {
            let mut status = status();
            status["controlPlane"] = control_plane.into();
            status["observedGeneration"] = generation.into();
            status
        };
        let wanted = by("a/b", 3);
        for (found, expected) in [(by("a/b", 3), true), (by("c/d", 3), true), (by("c/d", 2), false), (status(), false)]
        {
            assert_eq!(is_there_by_any(&found, &wanted), expected, "{found}");
        }
    }

    fn status() -> Value {
        json!({
            "observedGeneration": 3,
            "contentHash": "c0ffee",
            "conditions": [{"type": "Accepted", "status": "True"}, {"type": "Ready", "status": "True"}],
            "gateways": [{"name": "a", "state": "Pending"}],
        })
    }

    #[test]
    fn fields_of_others_do_not_change_the_comparison() {
        let wanted = status();
        let with = |pointer: &str, value: Value| {
            let mut found = status();
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            found.pointer_mut(parent).unwrap()[field] = value;
            found
        };
        let mut reordered = status();
        let conditions = reordered["conditions"].as_array_mut().unwrap();
        conditions.reverse();
        conditions.push(json!({"type": "example.com/Theirs", "status": "True"}));
        let mut more = status();
        more["gateways"].as_array_mut().unwrap().push(json!({"name": "gone"}));
        let table = [
            (status(), true),
            (with("/theirs", json!({"x": 1})), true),
            (reordered, true),
            (Value::Null, false),
            (json!({}), false),
            (with("/observedGeneration", json!(2)), false),
            (with("/moreGateways", json!(2)), false),
            (json!({"conditions": [], "observedGeneration": 3, "contentHash": "c0ffee"}), false),
            (more, false),
        ];
        for (found, expected) in table {
            assert_eq!(is_there(&found, &wanted), expected, "{found}");
        }
        let mut other = status();
        other["conditions"][1]["status"] = "False".into();
        assert!(!is_there(&other, &wanted));
        let numbers = |envoys: usize| json!({"gateways": 1, "clusters": 2, "envoys": envoys, "conditions": []});
        assert!(is_there(&numbers(3), &numbers(3)) && !is_there(&numbers(3), &numbers(4)));
    }
}

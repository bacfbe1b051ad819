//! The status of an object in Kubernetes.

mod conditions;
mod fake_envoy;
mod outage;
mod pace;
mod replicas;
mod secrets;
mod table;
mod unhealthy;

use serde_json::Value;

use crate::sources::{SOON, SourceFixture};

/// A condition of an object.
fn condition(object: &Value, kind: &str) -> Value {
    let listed = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    listed.into_iter().find(|one| one["type"] == kind).unwrap_or_default()
}

/// Waits until an object's condition has a status and a reason.
fn wait_condition(fixture: &SourceFixture, name: &str, kind: &str, status: &str, reason: &str) -> Value {
    let what = format!("{name}: {kind} is {status}, {reason}");
    portcullis_harness::wait::until_ok(&what, SOON, || {
        let object = fixture.stored(name);
        let found = condition(&object, kind);
        let is_so = found["status"] == status && found["reason"] == reason;
        let is_newest = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        if is_so && is_newest { Ok(object) } else { Err(format!("{:#}", object["status"])) }
    })
    .unwrap()
}

use std::time::Duration;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Client, Error};
use portcullis_api::{CLUSTER_API_VERSION, CLUSTER_KIND};
use serde_json::Value;

use super::write_queue::WriteOutcome;

/// The field manager of the written fields.
pub(super) const MANAGER: &str = "portcullis";
/// The time limit of one write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// The `UpstreamCluster`s of a Kubernetes.
pub(super) fn clusters(client: Client) -> Api<DynamicObject> {
    let (group, version) = CLUSTER_API_VERSION.split_once('/').unwrap_or_default();
    Api::all_with(client, &ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, CLUSTER_KIND)))
}

/// Applies a status; returns the outcome and, if it failed, the reason. The reason holds no secret.
pub(super) async fn apply(clusters: Api<DynamicObject>, name: String, object: Value) -> (String, WriteOutcome, String) {
    // Fields of ours that somebody else wrote are ours again.
    let parameters = PatchParams::apply(MANAGER).force();
    let patch = Patch::Apply(&object);
    let applied = clusters.patch_status(&name, &parameters, &patch);
    let (outcome, why) = match tokio::time::timeout(WRITE_TIMEOUT, applied).await {
        Ok(Ok(_)) => (WriteOutcome::Written, String::new()),
        Ok(Err(error)) => outcome_of(&error),
        Err(_) => (WriteOutcome::Away, format!("no answer within {} s", WRITE_TIMEOUT.as_secs())),
    };
    (name, outcome, why)
}

fn outcome_of(error: &Error) -> (WriteOutcome, String) {
    let Error::Api(status) = error else {
        // Its text may quote an answer, and answers hold whole objects.
        return (WriteOutcome::Away, "the API does not answer as it should".to_owned());
    };
    let outcome = match status.code {
        404 | 410 | 409 => WriteOutcome::Gone,
        401 | 403 | 408 | 429 => WriteOutcome::Away,
        400..=499 => WriteOutcome::Refused,
        _ => WriteOutcome::Away,
    };
    (outcome, portcullis_api::status::told(&format!("{} {}: {}", status.code, status.reason, status.message)))
}

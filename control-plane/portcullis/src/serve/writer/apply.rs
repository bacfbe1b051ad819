use std::time::Duration;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Client, Error};
use portcullis_api::{CLUSTER_API_VERSION, CLUSTER_KIND};
use serde_json::Value;

use super::write_queue::Outcome;

/// Who owns the fields that are written.
pub(super) const MANAGER: &str = "portcullis";
/// How long one write may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The `UpstreamCluster`s of a Kubernetes.
pub(super) fn clusters(client: Client) -> Api<DynamicObject> {
    let (group, version) = CLUSTER_API_VERSION.split_once('/').unwrap_or_default();
    Api::all_with(client, &ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, CLUSTER_KIND)))
}

/// Applies a status, and tells how that ended and, if it failed, why. The reason holds no secret.
pub(super) async fn apply(clusters: Api<DynamicObject>, name: String, object: Value) -> (String, Outcome, String) {
    // Fields of ours that somebody else wrote are ours again.
    let parameters = PatchParams::apply(MANAGER).force();
    let patch = Patch::Apply(&object);
    let applied = clusters.patch_status(&name, &parameters, &patch);
    let (outcome, why) = match tokio::time::timeout(PATIENCE, applied).await {
        Ok(Ok(_)) => (Outcome::Written, String::new()),
        Ok(Err(error)) => judge(&error),
        Err(_) => (Outcome::Away, format!("no answer within {} s", PATIENCE.as_secs())),
    };
    (name, outcome, why)
}

fn judge(error: &Error) -> (Outcome, String) {
    let Error::Api(status) = error else {
        // Its text may quote an answer, and answers hold whole objects.
        return (Outcome::Away, "the API does not answer as it should".to_owned());
    };
    let outcome = match status.code {
        404 | 410 | 409 => Outcome::Gone,
        401 | 403 | 408 | 429 => Outcome::Away,
        400..=499 => Outcome::Refused,
        _ => Outcome::Away,
    };
    (outcome, portcullis_api::status::told(&format!("{} {}: {}", status.code, status.reason, status.message)))
}

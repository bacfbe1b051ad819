//! A service account's token as the gateway's credential, by TokenRequest.

use std::time::Duration;

use portcullis_api::SecretBytes;
use serde_json::{Value, json};

use super::cluster_api::{Apply, MANAGED_BY, MANAGER, collection};
use super::error::{OnboardError, Side};
use super::object::Credential;
use super::progress::say;
use super::target::TargetCluster;

/// A year; the cluster may shorten it (--service-account-max-token-expiration).
const LIFETIME: Duration = Duration::from_secs(365 * 86_400);

/// The user name of a service account.
pub(super) fn user_of((namespace, name): &(String, String)) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// The service account as an object.
pub(super) fn account((namespace, name): &(String, String)) -> Value {
    let labels = json!({MANAGED_BY: MANAGER});
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
    })
}

/// A new token of a service account, which is made if it is not there.
pub(super) async fn request(
    target: &TargetCluster,
    service_account: &(String, String),
    lifetime: Option<Duration>,
) -> Result<Credential, OnboardError> {
    let (namespace, name) = service_account;
    let shown = format!("{namespace}/{name}");
    let path = format!("{}/{name}", collection("ServiceAccount", namespace));
    let api = &target.api;
    let found = api.get(&path).await.map_err(api.failed(format!("reading ServiceAccount {shown}")))?;
    if found.is_none() {
        target.apply(&account(service_account), Apply { dry_run: false, force: false }).await?;
        say(&format!("ServiceAccount {shown}: made"));
    }
    let wanted = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": lifetime.unwrap_or(LIFETIME).as_secs()},
    });
    let answer = api.create(&format!("{path}/token"), &wanted).await;
    let answer = answer.map_err(api.failed(format!("requesting a token of ServiceAccount {shown}")))?;
    let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str);
    let Some(token) = text("/status/token") else {
        return Err(OnboardError::Lacks(Side::Target, format!("token for {shown} in its answer (--token-file)")));
    };
    let until = text("/status/expirationTimestamp").unwrap_or("an unknown time");
    say(&format!("token of ServiceAccount {shown}: valid until {until}; run this again before"));
    Ok(Credential::Token(SecretBytes::new(token.as_bytes().to_vec())))
}

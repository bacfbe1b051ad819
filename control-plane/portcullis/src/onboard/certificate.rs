//! The gateway's client certificate, by a CertificateSigningRequest.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_api::SecretBytes;
use portcullis_filter_config::hex;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::arguments::CredentialArguments;
use super::cluster_api::{ClusterApi, MANAGER, collection};
use super::error::{ApiError, OnboardError};
use super::object::{Credential, owner_labels};
use super::progress::say;

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// How often the request is looked at, and how often it is said that it still waits.
const LOOK: Duration = Duration::from_secs(1);
const REMIND: Duration = Duration::from_secs(15);
/// Bytes of a digest in the name of a request.
const NAME_DIGEST: usize = 5;

/// A new key, and the certificate that the cluster issues for it.
pub(super) async fn request(
    api: &ClusterApi,
    cluster: &str,
    user: &str,
    arguments: &CredentialArguments,
) -> Result<Credential, OnboardError> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    let pem = params.serialize_request(&key)?.pem()?;
    let object = signing_request(cluster, &pem, arguments.lifetime);
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let step = format!("making CertificateSigningRequest {name}");
    let kind = "CertificateSigningRequest";
    api.create(&collection(kind, ""), &object).await.map_err(api.failed(step))?;
    say(&format!("{kind} {name}: made, for {user}"));
    if arguments.no_approve || !approve(api, &name).await? {
        say(&format!("{kind} {name}: waits for its approval: kubectl certificate approve {name}"));
    }
    let certificate = wait(api, &name, arguments.approval_timeout).await?;
    Ok(Credential::Pair { certificate, key: SecretBytes::new(key.serialize_pem().into_bytes()) })
}

fn signing_request(cluster: &str, pem: &str, lifetime: Option<Duration>) -> Value {
    let sum =
        hex(digest(&SHA256, pem.as_bytes()).as_ref().iter().take(NAME_DIGEST).copied().collect::<Vec<u8>>().as_slice());
    let mut spec = json!({
        "signerName": SIGNER,
        "request": STANDARD.encode(pem),
        "usages": ["digital signature", "client auth"],
    });
    if let (Some(lifetime), Some(spec)) = (lifetime, spec.as_object_mut()) {
        spec.insert("expirationSeconds".to_owned(), json!(lifetime.as_secs()));
    }
    json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": format!("portcullis-{cluster}-{sum}"), "labels": owner_labels(cluster)},
        "spec": spec,
    })
}

/// Approves the request if this user may.
async fn approve(api: &ClusterApi, name: &str) -> Result<bool, OnboardError> {
    let condition = json!({
        "type": "Approved", "status": "True", "reason": "PortcullisOnboard",
        "message": "approved by the user of portcullis onboard",
    });
    let path = format!("{}/{name}/approval?fieldManager={MANAGER}", collection("CertificateSigningRequest", ""));
    match api.merge(&path, &json!({"status": {"conditions": [condition]}})).await {
        Ok(_) => {
            say(&format!("CertificateSigningRequest {name}: approved"));
            Ok(true)
        }
        Err(ApiError::Refused { code: 403, .. }) => Ok(false),
        Err(error) => Err(api.failed(format!("approving CertificateSigningRequest {name}"))(error)),
    }
}

async fn wait(api: &ClusterApi, name: &str, limit: Duration) -> Result<Vec<u8>, OnboardError> {
    let path = format!("{}/{name}", collection("CertificateSigningRequest", ""));
    let (started, mut said) = (Instant::now(), Instant::now());
    while started.elapsed() < limit {
        let found = api.get(&path).await.map_err(api.failed(format!("reading CertificateSigningRequest {name}")))?;
        let Some(found) = found else {
            return Err(OnboardError::Unsigned(name.to_owned(), "it was deleted".to_owned()));
        };
        if let Some(reason) = refusal(&found) {
            return Err(OnboardError::Unsigned(name.to_owned(), reason));
        }
        if let Some(certificate) = found.pointer("/status/certificate").and_then(Value::as_str) {
            let decoded = STANDARD.decode(certificate);
            return decoded.map_err(|error| OnboardError::Unsigned(name.to_owned(), error.to_string()));
        }
        if said.elapsed() >= REMIND {
            said = Instant::now();
            let state = if is_approved(&found) { "approved, waits for the signer" } else { "waits for its approval" };
            say(&format!("CertificateSigningRequest {name}: {state}, since {}s", started.elapsed().as_secs()));
        }
        tokio::time::sleep(LOOK).await;
    }
    Err(OnboardError::Unapproved(name.to_owned(), limit))
}

fn conditions(request: &Value) -> impl Iterator<Item = (&str, &str)> {
    let all = request.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|condition| {
        let message = condition.get("message").and_then(Value::as_str).unwrap_or_default();
        Some((condition.get("type")?.as_str()?, message))
    })
}

fn is_approved(request: &Value) -> bool {
    conditions(request).any(|(kind, _)| kind == "Approved")
}

fn refusal(request: &Value) -> Option<String> {
    let (kind, message) = conditions(request).find(|(kind, _)| matches!(*kind, "Denied" | "Failed"))?;
    Some(crate::display_text::one_line(format!("{} {message}", kind.to_lowercase()).trim()))
}

/// The selector of requests that were made for a cluster.
pub(crate) fn selector(cluster: &str) -> String {
    let labels = owner_labels(cluster);
    let pairs = labels.as_object().into_iter().flatten();
    let pairs: Vec<String> =
        pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    pairs.join(",").replace('/', "%2F").replace('=', "%3D").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onboard::cluster_api::MANAGED_BY;

    #[test]
    fn refusal_of_a_request_is_one_line() {
        let request = json!({"status": {"conditions": [{"type": "Denied", "message": "not\nthis one"}]}});
        assert_eq!(refusal(&request).unwrap(), "denied not this one");
        assert_eq!(refusal(&json!({"status": {"conditions": [{"type": "Approved"}]}})), None);
        assert!(is_approved(&json!({"status": {"conditions": [{"type": "Approved"}]}})));
    }

    #[test]
    fn selector_finds_what_the_labels_say() {
        let (selector, key) = (selector("a.test"), MANAGED_BY.replace('/', "%2F"));
        assert!(selector.contains(&format!("{key}%3D{MANAGER}")) && selector.contains("%3Da.test"), "{selector}");
    }
}

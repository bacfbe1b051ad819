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
/// How often an approval is tried that finds the request changed.
const APPROVALS: usize = 3;
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
    let created = api.create(&collection(kind, ""), &object).await.map_err(api.failed(step))?;
    let sent = Sent::new(&created, &object);
    say(&format!("{kind} {name}: made, for {user}"));
    if arguments.no_approve || !approve(api, &sent, created).await? {
        say(&format!("{kind} {name}: waits for its approval: kubectl certificate approve {name}"));
    }
    let certificate = wait(api, &sent, arguments.approval_timeout).await?;
    Ok(Credential::Pair { certificate, key: SecretBytes::new(key.serialize_pem().into_bytes()) })
}

/// The request as it was sent. Another that was made under its name would get another's key a certificate.
struct Sent {
    name: String,
    uid: String,
    request: String,
}

impl Sent {
    fn new(created: &Value, object: &Value) -> Self {
        let [name, request] = ["/metadata/name", "/spec/request"].map(|pointer| text(object, pointer).to_owned());
        Self { name, uid: text(created, "/metadata/uid").to_owned(), request }
    }

    fn check(&self, found: &Value) -> Result<(), OnboardError> {
        if text(found, "/metadata/uid") == self.uid && text(found, "/spec/request") == self.request {
            return Ok(());
        }
        Err(OnboardError::Unsigned(self.name.clone(), "another request has its name now".to_owned()))
    }

    fn path(&self) -> String {
        format!("{}/{}", collection("CertificateSigningRequest", ""), self.name)
    }

    /// The approval of the object that was read, and of no later one.
    fn approval(&self, read: &Value) -> Value {
        let condition = json!({
            "type": "Approved", "status": "True", "reason": "PortcullisOnboard",
            "message": "approved by the user of portcullis onboard",
        });
        json!({
            "metadata": {"uid": self.uid, "resourceVersion": text(read, "/metadata/resourceVersion")},
            "status": {"conditions": [condition]},
        })
    }

    async fn read(&self, api: &ClusterApi) -> Result<Value, OnboardError> {
        let name = &self.name;
        let found = api.get(&self.path()).await;
        let found = found.map_err(api.failed(format!("reading CertificateSigningRequest {name}")))?;
        let found = found.ok_or_else(|| OnboardError::Unsigned(name.clone(), "it was deleted".to_owned()))?;
        self.check(&found)?;
        Ok(found)
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
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

/// Approves the request if this user may. `read` is the object as it is now.
async fn approve(api: &ClusterApi, sent: &Sent, mut read: Value) -> Result<bool, OnboardError> {
    let (name, path) = (&sent.name, format!("{}/approval?fieldManager={MANAGER}", sent.path()));
    for _ in 0..APPROVALS {
        sent.check(&read)?;
        match api.merge(&path, &sent.approval(&read)).await {
            Ok(_) => {
                say(&format!("CertificateSigningRequest {name}: approved"));
                return Ok(true);
            }
            Err(ApiError::Refused { code: 403, .. }) => return Ok(false),
            // A controller may have written to it meanwhile.
            Err(ApiError::Refused { code: 409, .. }) => read = sent.read(api).await?,
            Err(error) => return Err(api.failed(format!("approving CertificateSigningRequest {name}"))(error)),
        }
    }
    Ok(false)
}

async fn wait(api: &ClusterApi, sent: &Sent, limit: Duration) -> Result<Vec<u8>, OnboardError> {
    let name = sent.name.as_str();
    let (started, mut said) = (Instant::now(), Instant::now());
    while started.elapsed() < limit {
        let found = sent.read(api).await?;
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
    fn approval_is_for_the_request_that_was_sent_alone() {
        let object = signing_request("a.test", "mine", None);
        let stored = |uid: &str, object: &Value| {
            let mut stored = object.clone();
            stored["metadata"]["uid"] = json!(uid);
            stored["metadata"]["resourceVersion"] = json!("7");
            stored
        };
        let sent = Sent::new(&stored("u1", &object), &object);
        assert_eq!(sent.approval(&stored("u1", &object))["metadata"], json!({"uid": "u1", "resourceVersion": "7"}));
        assert!(sent.check(&stored("u1", &object)).is_ok());
        let other = signing_request("a.test", "theirs", None);
        for swapped in [stored("u1", &other), stored("u2", &object), json!({})] {
            let error = sent.check(&swapped).unwrap_err().to_string();
            assert!(error.contains("another request has its name"), "{error}");
        }
    }

    #[test]
    fn selector_finds_what_the_labels_say() {
        let (selector, key) = (selector("a.test"), MANAGED_BY.replace('/', "%2F"));
        assert!(selector.contains(&format!("{key}%3D{MANAGER}")) && selector.contains("%3Da.test"), "{selector}");
    }
}

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::json;

use super::InitError;
use super::release::Release;

/// Encryption at rest with a new key: of Secrets, and of UpstreamClusters and GatewaySettings, which may hold keys themselves. Nothing is ever stored
/// plain, and plain text is not read.
pub(super) fn encryption() -> Result<Vec<u8>, InitError> {
    let mut key = [0_u8; 32];
    SystemRandom::new().fill(&mut key).map_err(|_| InitError::Randomness)?;
    let config = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{
            "resources": ["secrets", "upstreamclusters.proxy.kubegateway.io", "gatewaysettings.portcullis.dev"],
            "providers": [{"secretbox": {"keys": [{"name": "key-1", "secret": STANDARD.encode(key)}]}}],
        }],
    });
    Ok(format!("{config:#}\n").into_bytes())
}

/// The groups of users that a release lets in: anonymous clients may ask for health, as probes do, and nothing else. Roles
/// bind them in releases that cannot do it here.
pub(super) fn authentication(release: Release) -> String {
    let version = if release.reads_authentication_v1() { "v1" } else { "v1beta1" };
    let version = format!("apiserver.config.k8s.io/{version}");
    let paths = ["/healthz", "/livez", "/readyz"].map(|path| json!({"path": path}));
    let anonymous = json!({"enabled": true, "conditions": paths});
    let kind = "AuthenticationConfiguration";
    let config = match release.bounds_anonymous() {
        true => json!({"apiVersion": version, "kind": kind, "anonymous": anonymous}),
        false => json!({"apiVersion": version, "kind": kind}),
    };
    format!("{config:#}\n")
}

/// Writes, and reads of Secrets, with their users; never a body, which may hold a key.
pub(super) fn audit_policy() -> String {
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
            {"level": "None", "users": ["system:apiserver"]},
            {"level": "None", "verbs": ["patch"], "resources": [
                {"group": "proxy.kubegateway.io", "resources": ["upstreamclusters/status"]},
                {"group": "portcullis.dev", "resources": ["gatewaysettings/status", "instances/status"]},
            ]},
            {"level": "Metadata", "resources": [{"group": "", "resources": ["secrets", "serviceaccounts/token"]}]},
            {"level": "None", "verbs": ["get", "list", "watch"]},
            {"level": "Metadata"},
        ],
    });
    format!("{policy:#}\n")
}

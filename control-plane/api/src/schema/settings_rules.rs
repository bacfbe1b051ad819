use serde_json::{Value, json};

use super::rules::{FILE, LABEL, SECRET_KEY, SECRET_NAME, cel};
use crate::bounds::{MAX_ACCESS_ENTRIES, MAX_ADDITIONAL_ADDRESSES, MAX_CIPHER_SUITES, MAX_USER_AGENTS};

/// An IP address, as far as its characters go.
const ADDRESS: &str = "^[0-9A-Fa-f:.]+$";

/// Rules of `GatewaySettings`: keywords of a schema by the path of the field below `spec`. Every bound is one of `check`.
pub(super) fn settings_rules() -> Vec<(&'static str, Value)> {
    [own(), listener(), references(), access(), tracing()].concat()
}

fn words(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

fn port() -> Value {
    json!({"minimum": 1, "maximum": 65_535})
}

fn at_least_one() -> Value {
    json!({"minimum": 1})
}

fn own() -> Vec<(&'static str, Value)> {
    vec![
        ("instance", json!({"minLength": 1, "maxLength": 63, "pattern": LABEL})),
        ("clientCANames", words(&["Sent", "Omitted"])),
        ("wildcardSubdomains", words(&["Reserved", "Allowed"])),
        ("secondaryPools", words(&["Eager", "OnDemand"])),
        ("accessLog.destination", json!({"pattern": "^(stdout$|stderr$|none$|/)"})),
        ("metrics.users.mode", words(&["Off", "TopK"])),
        ("metrics.users.k", json!({"minimum": 1, "maximum": 1_000})),
        ("protectedIdentities.action", json!({"enum": ["", "Refuse", "DropGroup"]})),
        ("limits.maxConnections", at_least_one()),
        ("limits.maxRequests", at_least_one()),
        ("limits.maxPendingRequests", at_least_one()),
        ("limits.maxConcurrentStreams", at_least_one()),
        ("rebalance", json!({"required": ["chance"]})),
        ("rebalance.chance", json!({"minimum": 0})),
        ("rebalance.connectionsPerSecond", at_least_one()),
        ("rebalance.when.inFlight", json!({"minimum": 0})),
        ("rebalance.when.requestsPerSecond", json!({"minimum": 0})),
        ("wasmModulePath", json!({"pattern": "^/"})),
    ]
}

fn listener() -> Vec<(&'static str, Value)> {
    vec![
        ("listener.address", json!({"maxLength": 45, "pattern": ADDRESS})),
        ("listener.port", port()),
        ("listener.additionalAddresses", json!({"maxItems": MAX_ADDITIONAL_ADDRESSES})),
        ("listener.additionalAddresses[].address", json!({"maxLength": 45, "pattern": ADDRESS})),
        ("listener.additionalAddresses[].port", port()),
        ("listener.tls.minimumVersion", words(&["TLSv1_2", "TLSv1_3"])),
        ("listener.tls.cipherSuites", json!({"maxItems": MAX_CIPHER_SUITES})),
        ("listener.tls.cipherSuites[]", json!({"maxLength": 64, "pattern": "^TLS_ECDHE_(ECDSA|RSA)_WITH_"})),
        ("listener.proxyProtocol", json!({"required": ["trustedProxies"]})),
        ("listener.proxyProtocol.port", port()),
        ("listener.proxyProtocol.trustedProxies", json!({"minItems": 1})),
        ("listener.trustedHops", json!({"minimum": 0, "maximum": 16})),
        ("listener.tunnel", json!({"required": ["port"]})),
        ("listener.tunnel.port", port()),
        ("listener.hsts", json!({"required": ["maxAgeSeconds"]})),
        ("listener.hsts.maxAgeSeconds", json!({"minimum": 0, "maximum": u32::MAX})),
    ]
}

/// Secrets, or content: an object in Kubernetes refers to no file, which `check` says.
fn references() -> Vec<(&'static str, Value)> {
    let name = || json!({"maxLength": 253, "pattern": SECRET_NAME});
    let key = || json!({"maxLength": 253, "pattern": SECRET_KEY});
    let file = || json!({"maxLength": 1024, "pattern": FILE});
    let secret = || json!({"required": ["name"]});
    let one = || cel("!(has(self.secret) && has(self.file))", "exactly one of secret and file is required", "");
    vec![
        ("defaultCertificate", json!({"x-kubernetes-validations": [one()]})),
        ("defaultCertificate.secret", secret()),
        ("defaultCertificate.secret.name", name()),
        ("defaultCertificate.secret.certificate", key()),
        ("defaultCertificate.secret.privateKey", key()),
        ("defaultCertificate.file", json!({"required": ["certificate", "privateKey"]})),
        ("defaultCertificate.file.certificate", file()),
        ("defaultCertificate.file.privateKey", file()),
        ("defaultClientCA", json!({"x-kubernetes-validations": [one()]})),
        ("defaultClientCA.secret", secret()),
        ("defaultClientCA.secret.name", name()),
        ("defaultClientCA.secret.key", key()),
        ("defaultClientCA.file", file()),
        ("tracing.ca", json!({"x-kubernetes-validations": [one()]})),
        ("tracing.ca.secret", secret()),
        ("tracing.ca.secret.name", name()),
        ("tracing.ca.secret.key", key()),
        ("tracing.ca.file", file()),
    ]
}

fn access() -> Vec<(&'static str, Value)> {
    vec![
        ("access.deny", json!({"maxItems": MAX_ACCESS_ENTRIES})),
        ("access.deny[].userAgents", json!({"maxItems": MAX_USER_AGENTS})),
        ("access.allow", json!({"maxItems": MAX_ACCESS_ENTRIES})),
        ("access.allow[].userAgents", json!({"maxItems": MAX_USER_AGENTS})),
    ]
}

fn tracing() -> Vec<(&'static str, Value)> {
    vec![
        ("tracing", json!({"required": ["endpoint"]})),
        ("tracing.endpoint", json!({"minLength": 1})),
        ("tracing.protocol", words(&["GRPC", "HTTP"])),
        ("tracing.parents", words(&["Ignored", "Trusted"])),
        ("tracing.users", words(&["Omitted", "Sent"])),
        ("tracing.samplingRatePerMillion", json!({"minimum": 0, "maximum": 1_000_000})),
    ]
}

//! `docs/reference/upstreamcluster.md`, written from the code:
//! `UPDATE_DOCS=1 cargo test --workspace --lib -- schema::page`.

use std::fmt::Write;

use serde_json::{Value, json};

use super::super::{spec, status};
use super::{Default, defaults_are_told, is_alias, rows};
use crate::check::{ClientVerification, Cluster, UpstreamIdentity, check_cluster};
use crate::duration::parse_duration;
use crate::parse::parse_cluster;

const HEAD: &str = "# UpstreamCluster

<!-- Written by a test from control-plane/api/src/types and control-plane/api/src/schema. -->

`apiVersion: proxy.kubegateway.io/v1alpha1`, `kind: UpstreamCluster`, cluster-scoped. `metadata.name` is the host \
name, so it must be a DNS name. The meaning of KubeGateway's fields, and the differences, are described in [kubegateway.md](../kubegateway.md); `portcullis check` says whether an object is good, and \
`portcullis crd` prints the definition for a Kubernetes that is to store such objects.

A field that is not set, or null, has the default; `-` is none: an empty text or list, 0 or false. Bytes are in base64. Durations are Go's, as `1m30s`.

| field | type | default | meaning |
|---|---|---|---|
";

const STATUS: &str = "
## Status

The control plane writes it where Kubernetes stores the object, and shows the same at `/status`, on its page `/` and by `portcullis status` for any source. The reasons are explained in [operations.md](../operations.md#status). \
`lastTransitionTime` moves only when `status` does.

| field | type | default | meaning |
|---|---|---|---|
";

/// Defaults that are more than the type's own; [`defaults_are_those_of_the_check`] holds them to it.
const DEFAULTS: [Default; 39] = [
    ("spec.clientConfig.serverName", "`metadata.name`"),
    ("spec.dispatchPolicies[].strategy", "`RoundRobin`"),
    ("spec.flowControl.flowControlSchemas[].counts", "`All`"),
    ("spec.portcullis.allowAnonymous", "`true`"),
    ("spec.portcullis.auditAttribution", "`false`"),
    ("spec.portcullis.constrainedImpersonation", "`false`"),
    ("spec.portcullis.clientCertificateVerification", "`Request`"),
    ("spec.portcullis.credentialCache.authorizedTTL", "`5m`"),
    ("spec.portcullis.credentialCache.unauthorizedTTL", "`30s`"),
    ("spec.portcullis.credentialCache.rejectedTokenTTL", "`10s`"),
    ("spec.portcullis.credentialCache.tokenTTL", "`2m`"),
    ("spec.portcullis.drainPeriod", "`5m`"),
    ("spec.portcullis.tokens.issuers[].maxAge", "`1h`"),
    ("spec.portcullis.fairQueues[].by", "`user`"),
    ("spec.portcullis.fairQueues[].handSize", "`6`"),
    ("spec.portcullis.fairQueues[].queueLength", "`50`"),
    ("spec.portcullis.fairQueues[].queues", "`64`"),
    ("spec.portcullis.fairQueues[].timeout", "`15s`"),
    ("spec.portcullis.healthCheck.healthyThreshold", "`1`"),
    ("spec.portcullis.healthCheck.interval", "`5s`"),
    ("spec.portcullis.healthCheck.path", "`/readyz`"),
    ("spec.portcullis.healthCheck.timeout", "`5s`"),
    ("spec.portcullis.healthCheck.unhealthyThreshold", "`1`"),
    ("spec.portcullis.logging.failed", "`true`"),
    ("spec.portcullis.logging.slow", "`5s`"),
    ("spec.portcullis.operatorGroups", "`kubeadm:cluster-admins`, `system:masters`"),
    ("spec.portcullis.references.client.secret.certificate", "`tls.crt`"),
    ("spec.portcullis.references.client.secret.privateKey", "`tls.key`"),
    ("spec.portcullis.references.clientCA.secret.key", "`ca.crt`"),
    ("spec.portcullis.references.serving.secret.certificate", "`tls.crt`"),
    ("spec.portcullis.references.serving.secret.privateKey", "`tls.key`"),
    ("spec.portcullis.references.token.secret.key", "`token`"),
    ("spec.portcullis.references.upstreamCA.secret.key", "`ca.crt`"),
    ("spec.portcullis.requestHeader.tokenReview", "`true`"),
    ("spec.portcullis.requestHeader.user", "`system:portcullis`"),
    ("spec.portcullis.requestTimeout", "`75s`"),
    ("spec.portcullis.servers[].weight", "`1`"),
    ("spec.portcullis.transport", "`TLSTerminate`"),
    ("spec.portcullis.upstreamIdentity", "`Impersonate`"),
];

fn page() -> String {
    let mut page = String::from(HEAD);
    let spec = spec();
    rows(&spec, "spec", &DEFAULTS, &mut page);
    page += "\n## Refusals of the definition\n\nBeside types, bounds and words: what is always wrong, as \
             `portcullis check` has it. References between fields, certificates and addresses are for \
             `check` alone.\n\n";
    page += "| field | rule |\n|---|---|\n";
    refusals(&spec, "spec", &mut page);
    page += STATUS;
    rows(&status::status(), "status", &[], &mut page);
    page
}

fn refusals(schema: &Value, path: &str, page: &mut String) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let (field, message) = (rule["fieldPath"].as_str().unwrap_or_default(), rule["message"].as_str().unwrap());
        writeln!(page, "| `{path}{field}` | {message} |").unwrap();
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if !is_alias(name) {
            refusals(field, &format!("{path}.{name}"), page);
        }
    }
    if let Some(items) = schema.get("items") {
        refusals(items, &format!("{path}[]"), page);
    }
}

#[test]
fn reference_says_what_the_code_does() {
    portcullis_generated_docs::assert_generated("upstreamcluster.md", &page());
    defaults_are_told(&spec(), "spec", &DEFAULTS);
}

/// A cluster in which nothing is set that has a default.
fn plain(patch: impl FnOnce(&mut Value)) -> Cluster {
    let mut object = json!({
        "apiVersion": crate::CLUSTER_API_VERSION, "kind": crate::CLUSTER_KIND, "metadata": {"name": "a.test"},
        "spec": {
            "servers": [{"endpoint": "https://a.test"}],
            "clientConfig": {"insecure": true, "bearerToken": "YQ=="},
            "dispatchPolicies": [{"rules": [{}]}],
        },
    });
    patch(&mut object);
    check_cluster(&parse_cluster(&object).unwrap(), false).outcome.unwrap()
}

#[test]
fn defaults_are_those_of_the_check() {
    let cluster = plain(|_| ());
    let written = |path: &str| DEFAULTS.iter().find(|(of, _)| *of == path).unwrap().1.trim_matches('`');
    let duration = |field: &str| parse_duration(written(&format!("spec.portcullis.{field}"))).unwrap();
    assert_eq!(cluster.request_timeout, duration("requestTimeout"));
    assert_eq!(cluster.drain_period, duration("drainPeriod"));
    assert_eq!(cluster.log_slow, Some(duration("logging.slow")));
    assert_eq!(cluster.log_failed.to_string(), written("spec.portcullis.logging.failed"));
    assert_eq!(cluster.credential_cache.token_ttl, duration("credentialCache.tokenTTL"));
    assert_eq!(cluster.credential_cache.rejected_token_ttl, duration("credentialCache.rejectedTokenTTL"));
    assert_eq!(cluster.credential_cache.authorized_ttl, duration("credentialCache.authorizedTTL"));
    assert_eq!(cluster.credential_cache.unauthorized_ttl, duration("credentialCache.unauthorizedTTL"));
    assert_eq!(cluster.allow_anonymous.to_string(), written("spec.portcullis.allowAnonymous"));
    assert_eq!(cluster.audit_attribution.to_string(), written("spec.portcullis.auditAttribution"));
    assert_eq!(cluster.constrained_impersonation.to_string(), written("spec.portcullis.constrainedImpersonation"));
    assert_eq!(cluster.client_verification, ClientVerification::Request);
    assert_eq!(cluster.servers[0].weight.to_string(), written("spec.portcullis.servers[].weight"));
    assert_eq!(cluster.transport.as_str(), written("spec.portcullis.transport"));
    assert_eq!(format!("{:?}", cluster.upstream_identity), written("spec.portcullis.upstreamIdentity"));
}

#[test]
fn defaults_of_a_front_proxy_are_those_of_the_check() {
    let key = rcgen::KeyPair::generate().unwrap();
    let cert = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap().self_signed(&key).unwrap();
    let base64 = |pem: String| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pem);
    let cluster = plain(|object| {
        object["spec"]["portcullis"] = json!({"upstreamIdentity": "RequestHeader"});
        object["spec"]["clientConfig"] =
            json!({"insecure": true, "certData": base64(cert.pem()), "keyData": base64(key.serialize_pem())});
    });
    let written = |field: &str| {
        let path = format!("spec.portcullis.requestHeader.{field}");
        DEFAULTS.iter().find(|(of, _)| *of == path).unwrap().1.trim_matches('`')
    };
    let (user, token_review) = (written("user").to_owned(), written("tokenReview") == "true");
    assert_eq!(cluster.upstream_identity, UpstreamIdentity::RequestHeader { user, token_review });
}

//! `docs/reference/upstreamcluster.md`, written from the code:
//! `UPDATE_DOCS=1 cargo test --workspace --lib -- schema::page`.

use std::fmt::Write;

use serde_json::Value;

use super::aliases::ALIASES;
use super::derive::BYTES;
use super::{rules, spec};
use crate::{ClientVerification, check_cluster, parse_cluster, parse_duration};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/upstreamcluster.md");

const HEAD: &str = "# UpstreamCluster

<!-- Written by a test from control-plane/api/src/types and control-plane/api/src/schema. -->

`apiVersion: proxy.kubegateway.io/v1alpha1`, `kind: UpstreamCluster`, cluster-scoped. `metadata.name` is the host \
name, so it must be a DNS name. What the fields of KubeGateway mean here, and where that differs, \
stands in [kubegateway.md](../kubegateway.md); `portcullis check` says whether an object is good, and \
`portcullis crd` prints the definition for a Kubernetes that is to store such objects.

A field that is not set, or null, has the default; `-` is none: an empty text or list, 0 or false. Bytes stand in \
base64. Durations are Go's, as `1m30s`.

| field | type | default | meaning |
|---|---|---|---|
";

const STATUS: &str = "
## Status

The control plane writes it where Kubernetes stores the object, and tells the same at `/status`, on its page `/` and by \
`portcullis status` whatever the source. What the reasons mean stands in [operations.md](../operations.md#status). \
`lastTransitionTime` moves only when `status` does.

| field | type | default | meaning |
|---|---|---|---|
";

/// Defaults that are more than the type's own; [`the_defaults_are_those_of_the_check`] holds them to it.
const DEFAULTS: [(&str, &str); 22] = [
    ("spec.clientConfig.serverName", "`metadata.name`"),
    ("spec.dispatchPolicies[].strategy", "`RoundRobin`"),
    ("spec.portcullis.anonymous", "`true`"),
    ("spec.portcullis.clientCertificateVerification", "`Request`"),
    ("spec.portcullis.credentialCache.allowedImpersonation", "`5m`"),
    ("spec.portcullis.credentialCache.deniedImpersonation", "`30s`"),
    ("spec.portcullis.credentialCache.rejectedToken", "`10s`"),
    ("spec.portcullis.credentialCache.token", "`2m`"),
    ("spec.portcullis.drainPeriod", "`5m`"),
    ("spec.portcullis.healthCheck.healthyThreshold", "`1`"),
    ("spec.portcullis.healthCheck.interval", "`5s`"),
    ("spec.portcullis.healthCheck.path", "`/readyz`"),
    ("spec.portcullis.healthCheck.timeout", "`5s`"),
    ("spec.portcullis.healthCheck.unhealthyThreshold", "`1`"),
    ("spec.portcullis.references.client.secret.certificate", "`tls.crt`"),
    ("spec.portcullis.references.client.secret.key", "`tls.key`"),
    ("spec.portcullis.references.clientCA.secret.key", "`ca.crt`"),
    ("spec.portcullis.references.serving.secret.certificate", "`tls.crt`"),
    ("spec.portcullis.references.serving.secret.key", "`tls.key`"),
    ("spec.portcullis.references.token.secret.key", "`token`"),
    ("spec.portcullis.references.upstreamCA.secret.key", "`ca.crt`"),
    ("spec.portcullis.requestTimeout", "`75s`"),
];

fn page() -> String {
    let mut page = String::from(HEAD);
    let spec = spec();
    rows(&spec, "spec", &mut page);
    page += "\n## What the definition refuses\n\nBeside types, bounds and words: what is always wrong, as \
             `portcullis check` has it. References between fields, certificates and addresses are for \
             `check` alone.\n\n";
    page += "| field | rule |\n|---|---|\n";
    refusals(&spec, "spec", &mut page);
    page += STATUS;
    rows(&super::status::status(), "status", &mut page);
    page
}

fn rows(schema: &Value, path: &str, page: &mut String) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let is_required = schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
        let default = DEFAULTS.iter().find(|(of, _)| *of == path).map_or("-", |(_, default)| default);
        let default = if is_required { "required" } else { default };
        let meaning = field["description"].as_str().unwrap();
        writeln!(page, "| `{path}` | {} | {default} | {meaning} |", kind(field)).unwrap();
        if is_alias(name) {
            continue;
        }
        match field.get("items") {
            Some(items) => rows(items, &format!("{path}[]"), page),
            None => rows(field, &path, page),
        }
    }
}

/// What holds for the fields below stands at the first spelling.
fn is_alias(name: &str) -> bool {
    ALIASES.iter().any(|(_, alias, _)| *alias == name)
}

fn kind(field: &Value) -> String {
    if let Some(words) = field["enum"].as_array() {
        let words = words.iter().filter_map(Value::as_str).filter(|word| !word.is_empty());
        return words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ");
    }
    let kind = match field["type"].as_str().unwrap() {
        "string" if field["format"] == BYTES => "bytes",
        "string" if field["pattern"] == rules::DURATION => "duration",
        "array" => return format!("list of {}s", kind(&field["items"])) + &bound(field),
        other => other,
    };
    kind.to_owned()
}

fn bound(field: &Value) -> String {
    field["maxItems"].as_u64().map(|most| format!(", at most {most}")).unwrap_or_default()
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
fn the_reference_says_what_the_code_does() {
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PATH, &page).unwrap();
    }
    let stands = std::fs::read_to_string(PATH).unwrap_or_default();
    assert!(stands == page, "docs/reference/upstreamcluster.md is not up to date; run this test with UPDATE_DOCS=1");
}

#[test]
fn the_defaults_are_those_of_the_check() {
    let object = serde_json::json!({
        "apiVersion": crate::CLUSTER_API_VERSION, "kind": crate::CLUSTER_KIND, "metadata": {"name": "a.test"},
        "spec": {
            "servers": [{"endpoint": "https://a.test"}],
            "clientConfig": {"insecure": true, "bearerToken": "YQ=="},
            "dispatchPolicies": [{"rules": [{}]}],
        },
    });
    let cluster = check_cluster(&parse_cluster(&object).unwrap(), false).outcome.unwrap();
    let written = |path: &str| DEFAULTS.iter().find(|(of, _)| *of == path).unwrap().1.trim_matches('`');
    let duration = |field: &str| parse_duration(written(&format!("spec.portcullis.{field}"))).unwrap();
    assert_eq!(cluster.request_timeout, duration("requestTimeout"));
    assert_eq!(cluster.drain_period, duration("drainPeriod"));
    assert_eq!(cluster.credential_cache.token, duration("credentialCache.token"));
    assert_eq!(cluster.credential_cache.rejected_token, duration("credentialCache.rejectedToken"));
    assert_eq!(cluster.credential_cache.allowed_impersonation, duration("credentialCache.allowedImpersonation"));
    assert_eq!(cluster.credential_cache.denied_impersonation, duration("credentialCache.deniedImpersonation"));
    assert_eq!(cluster.anonymous.to_string(), written("spec.portcullis.anonymous"));
    assert_eq!(cluster.client_verification, ClientVerification::Request);
    assert!(DEFAULTS.iter().all(|(path, _)| page().contains(&format!("| `{path}` |"))));
}

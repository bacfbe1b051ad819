//! The definition of `KubernetesUpstream`. Rules of fields that an `UpstreamCluster` has, too, are the same.

use serde_json::{Value, json};

use super::rules::{self, SECRET_KEY, SECRET_NAME, cel};
use super::{derive, rules_at, status};
use crate::bounds::{MAX_AUDIENCES, MAX_UPSTREAM_SERVERS};
use crate::types::KubernetesUpstreamSpec;

/// The pattern of an endpoint whose host is no DNS name.
const ENDPOINT: &str = r"^https://([0-9.]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?(/.*)?$";

/// Fields below `spec.portcullis` of an `UpstreamCluster` that are below `spec` here.
const SHARED: [&str; 9] = [
    "requestTimeout",
    "drainPeriod",
    "maxSessionDuration",
    "clientCertificateVerification",
    "upstreamIdentity",
    "requestHeader",
    "credentialCache",
    "healthCheck",
    "forwardedExtras",
];

/// The schema of `spec`; its descriptions are Markdown.
pub(super) fn upstream_spec() -> Value {
    let mut spec = derive::shape::<KubernetesUpstreamSpec>();
    let own = upstream_rules().into_iter().map(|(path, keywords)| (path.to_owned(), keywords));
    let shared = rules::rules().into_iter().filter_map(|(path, keywords)| Some((shared(path)?, keywords)));
    rules_at(&mut spec, own.chain(shared));
    spec
}

/// The path of a field of an `UpstreamCluster`, if there is the same one here.
fn shared(path: &str) -> Option<String> {
    if path == "clientConfig.serverName" {
        return Some("serverName".to_owned());
    }
    let field = path.strip_prefix("portcullis.")?;
    if ["servers[].zone", "servers[].weight"].contains(&field) {
        return Some(field.to_owned());
    }
    let name = field.split(['.', '[']).next().unwrap_or_default();
    SHARED.contains(&name).then(|| field.to_owned())
}

/// Rules of fields that only this kind has. Every bound is one of `check`.
pub(super) fn upstream_rules() -> Vec<(&'static str, Value)> {
    let identity = cel("has(self.client) != has(self.token)", "exactly one of client and token is required", "");
    let one = || {
        let rule =
            cel("has(self.configMap) != has(self.secret)", "exactly one of configMap and secret is required", "");
        json!({"x-kubernetes-validations": [rule]})
    };
    let secret = || json!({"required": ["secret"]});
    let named = || json!({"required": ["name"]});
    let name = || json!({"maxLength": 253, "pattern": SECRET_NAME});
    let key = || json!({"maxLength": 253, "pattern": SECRET_KEY});
    vec![
        ("", json!({"required": ["servers", "serverName", "references"]})),
        ("servers", json!({"minItems": 1, "maxItems": MAX_UPSTREAM_SERVERS})),
        ("servers[]", json!({"required": ["endpoint"]})),
        ("servers[].endpoint", json!({"maxLength": 256, "pattern": ENDPOINT})),
        ("tokenAudiences", json!({"maxItems": MAX_AUDIENCES})),
        ("references", json!({"required": ["upstreamCA"], "x-kubernetes-validations": [identity]})),
        ("references.upstreamCA", one()),
        ("references.upstreamCA.configMap", named()),
        ("references.upstreamCA.configMap.name", name()),
        ("references.upstreamCA.secret", named()),
        ("references.upstreamCA.secret.name", name()),
        ("references.upstreamCA.secret.key", key()),
        ("references.clientCA", one()),
        ("references.clientCA.configMap", named()),
        ("references.clientCA.configMap.name", name()),
        ("references.clientCA.secret", named()),
        ("references.clientCA.secret.name", name()),
        ("references.clientCA.secret.key", key()),
        ("references.client", secret()),
        ("references.client.secret", named()),
        ("references.client.secret.name", name()),
        ("references.client.secret.certificate", key()),
        ("references.client.secret.privateKey", key()),
        ("references.token", secret()),
        ("references.token.secret", named()),
        ("references.token.secret.name", name()),
        ("references.token.secret.key", key()),
    ]
}

/// The schema of the whole object; its descriptions are Markdown.
pub(super) fn upstream_schema() -> Value {
    let name = cel(
        "self.metadata.name.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')",
        "metadata.name must be a DNS label, because labels of Secrets have it",
        "",
    );
    json!({
        "type": "object",
        "description": "The kube-apiservers of a cluster, in the namespace of their owner. HTTPRoutes lead there, and have the host names.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of this schema."},
            "kind": {"type": "string", "description": "Kind of this object."},
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 63}}},
            "spec": upstream_spec(),
            "status": status::upstream_status(),
        },
        "x-kubernetes-validations": [name],
    })
}

use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::{Result, deps};
use serde_json::{Value, json};

/// An `UpstreamCluster` of a test.
#[derive(Clone, Debug)]
pub struct Manifest {
    object: Value,
}

impl Manifest {
    /// A cluster of servers under a host name, with one policy that lets everything through.
    pub fn new(name: &str, servers: impl IntoIterator<Item = SocketAddr>) -> Self {
        let servers: Vec<Value> =
            servers.into_iter().map(|address| json!({"endpoint": format!("https://{address}")})).collect();
        Manifest {
            object: json!({
                "apiVersion": "proxy.kubegateway.io/v1alpha1",
                "kind": "UpstreamCluster",
                "metadata": {"name": name},
                "spec": {
                    "servers": servers,
                    "dispatchPolicies": [{"rules": [allow_all()]}],
                },
            }),
        }
    }

    /// Sets the gateway's client certificate for the servers, the CA of theirs, and the name under which they are verified.
    #[must_use]
    pub fn upstream(self, identity: &Identity, server_ca: &Ca, server_name: &str) -> Self {
        self.set(
            "/spec/clientConfig",
            json!({
                "certData": encode(&identity.pem()),
                "keyData": encode(&identity.key_pem()),
                "caData": encode(&server_ca.pem()),
                "serverName": server_name,
            }),
        )
    }

    /// Sets the gateway's serving certificate, and the CA of clients' certificates.
    #[must_use]
    pub fn serving(self, identity: &Identity, client_ca: &Ca) -> Self {
        self.set(
            "/spec/secureServing",
            json!({
                "certData": encode(&identity.pem()),
                "keyData": encode(&identity.key_pem()),
                "clientCAData": encode(&client_ca.pem()),
            }),
        )
    }

    /// The dispatch policies.
    #[must_use]
    pub fn policies(self, policies: Value) -> Self {
        self.set("/spec/dispatchPolicies", policies)
    }

    /// Sets a field by its JSON pointer.
    ///
    /// # Panics
    /// If its parent is not there.
    #[must_use]
    #[allow(clippy::expect_used, reason = "for tests")]
    pub fn set(mut self, pointer: &str, value: Value) -> Self {
        let (parent, field) = pointer.rsplit_once('/').expect("a pointer begins with a slash");
        let parent = self.object.pointer_mut(parent).and_then(Value::as_object_mut).expect("the parent is there");
        parent.insert(field.to_owned(), value);
        self
    }

    /// Applies a merge patch (RFC 7396), as `kubectl patch --type merge` does.
    #[must_use]
    pub fn merge(mut self, patch: &Value) -> Self {
        merge(&mut self.object, patch);
        self
    }

    /// A field by its JSON pointer; null if it is not there.
    pub fn get(&self, pointer: &str) -> Value {
        self.object.pointer(pointer).cloned().unwrap_or_default()
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        self.object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
    }

    /// The object, as JSON, which is YAML as well.
    pub fn to_text(&self) -> String {
        format!("{:#}", self.object)
    }
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Some(object) = target.as_object_mut() else { return };
    for (name, value) in fields {
        if value.is_null() {
            object.remove(name);
        } else {
            merge(object.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// A rule that matches every request.
pub fn allow_all() -> Value {
    json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"]})
}

/// `GatewaySettings` for loopback, as text.
pub fn settings(instance: &str, address: SocketAddr, default_certificate: &Identity) -> String {
    let object = json!({
        "apiVersion": "portcullis.dev/v1alpha1",
        "kind": "GatewaySettings",
        "metadata": {"name": instance},
        "spec": {
            "instance": instance,
            "listener": {"address": address.ip().to_string(), "port": address.port()},
            "allowLoopbackUpstreams": true,
            "wasmModulePath": deps::wasm_path(),
            "defaultCertificate": {
                "certData": encode(&default_certificate.pem()),
                "keyData": encode(&default_certificate.key_pem()),
            },
        },
    });
    format!("{object:#}")
}

/// A PEM text as manifests hold it.
pub fn encode(pem: &str) -> String {
    STANDARD.encode(pem)
}

/// The certificate that a gateway presents for unknown names.
///
/// # Errors
/// [`portcullis_harness::Error::Certificate`].
pub fn default_certificate(serving_ca: &Ca) -> Result<Identity> {
    serving_ca.issue(&CertSpec::server("gateway", ["default.gateway"]))
}

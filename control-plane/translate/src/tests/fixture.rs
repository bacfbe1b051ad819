//! Objects for tests. Keys are made anew in every run; [`Pki::hide`] puts names in their places.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_api::{DiscoveredServer, Settings};
use serde_json::{Value, json};

use crate::filter_build::FilterBuild;
use crate::generation::DIGITS;
use crate::settings::choose_settings;
use crate::{Input, Translation, translate};

/// A certificate and its key.
pub(super) struct Pair {
    pub(super) cert: String,
    pub(super) key: String,
}

impl Pair {
    fn new(name: &str) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let cert = params.self_signed(&key).unwrap();
        Self { cert: cert.pem().replace("\r\n", "\n"), key: key.serialize_pem() }
    }
}

/// Every key of a test.
pub(super) struct Pki {
    pub(super) gateway: Pair,
    pub(super) serving: Pair,
    pub(super) client: Pair,
    pub(super) upstream_ca: Pair,
    pub(super) client_ca: Pair,
}

/// A token that must turn up in secrets only.
pub(super) const TOKEN: &str = "token-of-the-gateway";

impl Pki {
    pub(super) fn new() -> Self {
        let made = Pair::new;
        Self {
            gateway: made("gateway"),
            serving: made("serving"),
            client: made("client"),
            upstream_ca: made("upstream-ca"),
            client_ca: made("client-ca"),
        }
    }

    /// The gateway's client certificate with another key.
    pub(super) fn renewed_client(&self) -> Pair {
        Pair::new("client")
    }

    /// Puts names in the places of what differs from run to run.
    pub(super) fn hide(&self, text: &str) -> String {
        let escaped = |pem: &str| pem.replace('\n', "\\\\n");
        hide_generations(&text.replace(&escaped(&self.client_ca.cert), "<client CA>"))
    }

    /// `GatewaySettings` with a default certificate.
    pub(super) fn settings(&self) -> Settings {
        let document = json!({
            "apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings", "metadata": {"name": "lab"},
            "spec": {"instance": "lab", "defaultCertificate": pair(&self.gateway)},
        });
        choose_settings(&[document], None).settings.unwrap()
    }

    /// A cluster as a user of KubeGateway writes it.
    pub(super) fn cluster(&self, name: &str) -> Value {
        let [first, second] = ["https://10.0.0.1:6443", "https://10.0.0.2:6443"];
        json!({
            "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster",
            "metadata": {"name": name, "uid": "0000-1111", "creationTimestamp": "2025-01-01T00:00:00Z"},
            "spec": {
                "servers": [{"endpoint": first}, {"endpoint": second, "disabled": false}],
                "clientConfig": {
                    "caData": base64(&self.upstream_ca.cert),
                    "certData": base64(&self.client.cert), "keyData": base64(&self.client.key),
                    "serverName": "kubernetes",
                },
                "secureServing": {
                    "certData": base64(&self.serving.cert), "keyData": base64(&self.serving.key),
                    "clientCAData": base64(&self.client_ca.cert),
                    "serverNames": [format!("*.{name}")],
                },
                "dispatchPolicies": [
                    {
                        "upsteamSubset": [second],
                        "rules": [{"verbs": ["list", "watch"], "apiGroups": [""], "resources": ["events"]}],
                    },
                    {"rules": [
                        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
                        {"verbs": ["*"], "nonResourceURLs": ["*"]},
                    ]},
                ],
            },
        })
    }
}

/// Generations are hashes of keys that are new in every run.
fn hide_generations(text: &str) -> String {
    let mut parts = text.split('@');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).count();
        let (generation, rest) = part.split_at(digits);
        let shown = if digits == DIGITS { "<generation>" } else { generation };
        out += &format!("@{shown}{rest}");
    }
    out
}

fn pair(pair: &Pair) -> Value {
    json!({"certData": base64(&pair.cert), "keyData": base64(&pair.key)})
}

pub(super) fn base64(text: &str) -> String {
    STANDARD.encode(text)
}

/// Sets the value at a JSON pointer; the parent must be there.
pub(super) fn set(document: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match document.pointer_mut(parent).unwrap() {
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
        parent => parent[key] = value,
    }
}

/// A server as a source names it.
pub(super) fn discovered(address: &str, zone: &str) -> DiscoveredServer {
    let address: SocketAddr = address.parse().unwrap();
    DiscoveredServer { ip: address.ip(), port: address.port(), zone: zone.to_owned() }
}

pub(super) fn translated(settings: &Settings, clusters: &[Value]) -> Translation {
    let clusters: Vec<_> = clusters.iter().cloned().map(Arc::new).collect();
    translate(&Input { settings, clusters: &clusters, filter: FilterBuild::Module })
}

//! Which manifests KubeGateway's validation accepts, and which ones `portcullis check` does. The differences are those that
//! docs/kubegateway.md publishes.

#![cfg(test)]

mod cases;

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The programs that accept a manifest.
#[derive(Debug)]
pub(crate) enum Accepted {
    /// KubeGateway and we.
    Both,
    /// No program.
    Neither,
    /// KubeGateway alone. The text begins the row of the published list.
    There(&'static str),
    /// We alone.
    Here,
}

/// Certificates and keys, in base64.
pub(crate) struct Keys {
    pub(crate) cert: String,
    pub(crate) key: String,
    pub(crate) other_key: String,
    pub(crate) ed25519: (String, String),
}

impl Keys {
    fn new() -> Self {
        let pair = |algorithm| {
            let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
            let cert = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap().self_signed(&key).unwrap();
            (STANDARD.encode(cert.pem()), STANDARD.encode(key.serialize_pem()))
        };
        let (cert, key) = pair(&rcgen::PKCS_ECDSA_P256_SHA256);
        let (_, other_key) = pair(&rcgen::PKCS_ECDSA_P256_SHA256);
        Self { cert, key, other_key, ed25519: pair(&rcgen::PKCS_ED25519) }
    }

    /// A manifest that both accept, changed by a merge patch.
    fn manifest(&self, patch: &Value) -> Value {
        let mut manifest = json!({
            "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster",
            "metadata": {"name": "a.test"},
            "spec": {
                "servers": [{"endpoint": "https://10.0.0.1:6443"}, {"endpoint": "https://10.0.0.2:6443"}],
                "clientConfig": {"caData": self.cert, "bearerToken": STANDARD.encode("token")},
                "dispatchPolicies": [{"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}],
            },
        });
        merge(&mut manifest, patch);
        manifest
    }

    fn settings(&self, has_certificate: bool) -> Value {
        let certificate = has_certificate.then(|| json!({"certData": self.cert, "keyData": self.key}));
        json!({
            "apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings", "metadata": {"name": "gateway"},
            "spec": {"defaultCertificate": certificate},
        })
    }
}

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let (Some(fields), true) = (patch.as_object(), target.is_object()) else {
        target.clone_from(patch);
        return;
    };
    for (name, value) in fields {
        match value {
            Value::Null => drop(target.as_object_mut().unwrap().remove(name)),
            value => merge(&mut target[name], value),
        }
    }
}

fn accepts(settings: &Value, manifest: &Value) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.env_clear().args(["check", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let documents = format!("{settings}\n---\n{manifest}\n");
    child.stdin.take().unwrap().write_all(documents.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(matches!(output.status.code(), Some(0 | 1)), "{told}");
    (output.status.success(), told)
}

/// The first column of the list of what is refused here and accepted there.
fn published() -> Vec<String> {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kubegateway.md")).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with("Refused here")).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.map(|row| row.trim_start_matches("| ").split(" | ").next().unwrap().to_owned()).collect()
}

#[test]
fn differences_to_kubegateway_are_the_published_ones() {
    let keys = Keys::new();
    let published = published();
    let mut met = BTreeSet::new();
    let cases = cases::all(&keys);
    assert!(cases.len() >= 46);
    let mut wrong = Vec::new();
    for (what, patch, accepted) in &cases {
        let (is_accepted, told) = accepts(&keys.settings(true), &keys.manifest(patch));
        if is_accepted != matches!(accepted, Accepted::Both | Accepted::Here) {
            wrong.push(format!("{what} ({accepted:?}): {told}"));
        }
        if let Accepted::There(row) = accepted {
            let rows: Vec<_> = published.iter().filter(|published| published.starts_with(row)).collect();
            assert_eq!(rows.len(), 1, "{row}: {published:#?}");
            met.insert(rows[0]);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let (is_accepted, told) = accepts(&keys.settings(false), &keys.manifest(&json!({})));
    assert!(!is_accepted, "{told}");
    let without_case: Vec<_> = published.iter().filter(|row| !met.contains(row)).collect();
    assert_eq!(without_case.len(), 1, "{without_case:#?}");
    assert!(without_case[0].starts_with("no certificate in `secureServing`"), "{without_case:?}");
}

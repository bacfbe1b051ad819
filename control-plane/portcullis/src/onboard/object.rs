//! The UpstreamCluster, and what it refers to: as Secrets, or as files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_api::{
    CLUSTER_API_VERSION, CLUSTER_KIND, Cluster, ReferencedData, SECRET_LABEL, SHARED_ANNOTATION, SecretBytes,
    SecretData, check_cluster, parse_cluster, resolve, unchecked_cluster,
};
use serde_json::{Map, Value, json};

use super::arguments::IdentityMode;
use super::cluster_api::{MANAGED_BY, MANAGER};
use super::error::OnboardError;

/// Longest value of a label.
const MAX_LABEL: usize = 63;
/// The gateway's user if none is named.
pub(super) const DEFAULT_USER: &str = "system:portcullis";

/// A certificate, PEM, and its key.
pub(super) type Pair = (Vec<u8>, SecretBytes);

/// The gateway's credential.
#[derive(Clone, Debug)]
pub(super) enum Credential {
    /// A certificate and its key, PEM.
    Pair { certificate: Vec<u8>, key: SecretBytes },
    /// A token.
    Token(SecretBytes),
}

/// The servers' addresses, the name and the CAs of their certificates.
#[derive(Clone, Debug)]
pub(super) struct ServersPart {
    pub(super) servers: Vec<String>,
    pub(super) name: String,
    /// PEM.
    pub(super) authorities: Vec<u8>,
}

/// Everything of an UpstreamCluster but its credential.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) mode: IdentityMode,
    /// The gateway's user there.
    pub(super) user: String,
    pub(super) servers: ServersPart,
    /// The CAs of users' certificates, PEM.
    pub(super) client_authorities: Option<Vec<u8>>,
    /// The serving certificate and its key.
    pub(super) serving: Option<Pair>,
}

/// The form of references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReferenceForm {
    Secrets,
    Files,
}

/// Bytes with a key in a Secret, or a file.
#[derive(Clone, Debug)]
pub(super) struct MaterialEntry {
    key: &'static str,
    file: &'static str,
    pub(super) bytes: SecretBytes,
}

/// A Secret, or the files in its place.
#[derive(Clone, Debug)]
pub(super) struct Material {
    /// Its field in spec.portcullis.references.
    reference: &'static str,
    /// The end of the Secret's name.
    suffix: &'static str,
    entries: Vec<MaterialEntry>,
}

impl Plan {
    /// The Secrets, or files, to which the object refers.
    pub(super) fn parts(&self, credential: &Credential) -> Vec<Material> {
        let entry = |key, file, bytes: &[u8]| MaterialEntry { key, file, bytes: SecretBytes::new(bytes.to_vec()) };
        let part = |reference, suffix, entries| Material { reference, suffix, entries };
        let mut parts =
            vec![part("upstreamCA", "servers", vec![entry("ca.crt", "servers.crt", &self.servers.authorities)])];
        parts.push(match credential {
            Credential::Pair { certificate, key } => part(
                "client",
                "client",
                vec![entry("tls.crt", "client.crt", certificate), entry("tls.key", "client.key", key.expose())],
            ),
            Credential::Token(token) => part("token", "token", vec![entry("token", "token", token.expose())]),
        });
        if let Some(authorities) = &self.client_authorities {
            parts.push(part("clientCA", "users", vec![entry("ca.crt", "users.crt", authorities)]));
        }
        if let Some((certificate, key)) = &self.serving {
            let entries =
                vec![entry("tls.crt", "serving.crt", certificate), entry("tls.key", "serving.key", key.expose())];
            parts.push(part("serving", "serving", entries));
        }
        parts
    }

    /// The UpstreamCluster. `policies` are left out where another manager owns them.
    pub(super) fn document(&self, parts: &[Material], form: ReferenceForm, policies: bool) -> Value {
        let references: Map<String, Value> =
            parts.iter().map(|part| (part.reference.to_owned(), part.reference(&self.name, form))).collect();
        let mut ours = json!({"references": references});
        if self.mode == IdentityMode::RequestHeader {
            put(&mut ours, "upstreamIdentity", json!(self.mode.as_str()));
            if self.user != DEFAULT_USER {
                put(&mut ours, "requestHeader", json!({"user": self.user}));
            }
        }
        let servers: Vec<Value> = self.servers.servers.iter().map(|server| json!({"endpoint": server})).collect();
        let mut spec =
            json!({"servers": servers, "clientConfig": {"serverName": self.servers.name}, "portcullis": ours});
        if policies {
            put(&mut spec, "dispatchPolicies", default_policies());
        }
        json!({
            "apiVersion": CLUSTER_API_VERSION,
            "kind": CLUSTER_KIND,
            "metadata": {"name": self.name, "labels": {MANAGED_BY: MANAGER}},
            "spec": spec,
        })
    }

    /// The object as the gateway would use it.
    pub(super) fn checked(&self, credential: &Credential) -> Result<Cluster, OnboardError> {
        let parts = self.parts(credential);
        let data = parts.iter().map(|part| (part.secret_name(&self.name), part.secret_data(&self.name)));
        let document = Arc::new(self.document(&parts, ReferenceForm::Secrets, true));
        checked(&self.name, &document, &ReferencedData::secrets(data))
    }

    /// The object without its credential, for the rights that it needs: `stored`, if it is there already.
    pub(super) fn unchecked(&self, stored: Option<Value>) -> Result<Cluster, OnboardError> {
        let refuse = |problem| OnboardError::Object { name: self.name.clone(), problems: vec![problem] };
        let document = match stored {
            Some(mut stored) => {
                if let Some(ours) = stored.pointer_mut("/spec/portcullis") {
                    put(ours, "upstreamIdentity", json!(self.mode.as_str()));
                }
                stored
            }
            None => self.document(&[], ReferenceForm::Files, true),
        };
        let raw = parse_cluster(&document).map_err(refuse)?;
        let cluster = unchecked_cluster(&raw);
        cluster.ok_or_else(|| OnboardError::Object { name: self.name.clone(), problems: Vec::new() })
    }
}

/// An object as the gateway would use it. Loopback may be allowed by settings that are not here.
pub(super) fn checked(name: &str, document: &Arc<Value>, data: &ReferencedData) -> Result<Cluster, OnboardError> {
    let resolution = resolve(document, data);
    let refuse = |problems| OnboardError::Object { name: name.to_owned(), problems };
    if !resolution.problems.is_empty() {
        return Err(refuse(resolution.problems));
    }
    let raw = parse_cluster(&resolution.document).map_err(|problem| refuse(vec![problem]))?;
    check_cluster(&raw, true).outcome.map_err(refuse)
}

/// The files that an object may refer to.
pub(crate) fn file_names() -> [&'static str; 7] {
    ["client.crt", "client.key", "serving.crt", "serving.key", "users.crt", "servers.crt", "token"]
}

/// Every request goes to any server: the cluster's own RBAC decides.
pub(super) fn default_policies() -> Value {
    json!([{"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"]}]}])
}

fn put(object: &mut Value, field: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(field.to_owned(), value);
    }
}

/// The labels of objects that belong to one UpstreamCluster. A name that is too long for a label has none of it.
pub(super) fn owner_labels(name: &str) -> Value {
    json!({MANAGED_BY: MANAGER, SECRET_LABEL: if name.len() <= MAX_LABEL { name } else { "" }})
}

impl Material {
    pub(super) fn secret_name(&self, cluster: &str) -> String {
        format!("{cluster}-{}", self.suffix)
    }

    pub(super) fn secret(&self, cluster: &str, namespace: &str) -> Value {
        let data: Map<String, Value> = self
            .entries
            .iter()
            .map(|entry| (entry.key.to_owned(), json!(STANDARD.encode(entry.bytes.expose()))))
            .collect();
        let kind = if self.entries.len() == 2 { "kubernetes.io/tls" } else { "Opaque" };
        let mut metadata =
            json!({"name": self.secret_name(cluster), "namespace": namespace, "labels": owner_labels(cluster)});
        if cluster.len() > MAX_LABEL {
            put(&mut metadata, "annotations", json!({SHARED_ANNOTATION: cluster}));
        }
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": data})
    }

    fn secret_data(&self, cluster: &str) -> SecretData {
        let data: BTreeMap<String, SecretBytes> =
            self.entries.iter().map(|entry| (entry.key.to_owned(), entry.bytes.clone())).collect();
        SecretData { owners: BTreeSet::from([cluster.to_owned()]), data }
    }

    /// The files below the root of references.
    pub(super) fn files(&self, cluster: &str) -> Vec<(String, &MaterialEntry)> {
        self.entries.iter().map(|entry| (format!("{cluster}/{}", entry.file), entry)).collect()
    }

    fn reference(&self, cluster: &str, form: ReferenceForm) -> Value {
        let files: Vec<String> = self.files(cluster).into_iter().map(|(path, _)| path).collect();
        match (form, files.as_slice()) {
            (ReferenceForm::Secrets, _) => json!({"secret": {"name": self.secret_name(cluster)}}),
            (ReferenceForm::Files, [certificate, key]) => {
                json!({"file": {"certificate": certificate, "privateKey": key}})
            }
            (ReferenceForm::Files, _) => json!({"file": files.first()}),
        }
    }
}

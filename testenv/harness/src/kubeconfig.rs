//! Kubeconfig files for kubectl and for the control plane.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::certs::{Ca, Identity};
use crate::error::Result;
use crate::rundir::write_private;

/// How to reach one server as one user. Written as JSON, which is YAML as well.
#[derive(Clone)]
pub struct Kubeconfig {
    server: String,
    cluster: Map<String, Value>,
    user: Map<String, Value>,
}

impl std::fmt::Debug for Kubeconfig {
    // The user's part holds keys and tokens.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubeconfig").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Kubeconfig {
    /// A server by URL, like `https://127.0.0.1:6443`, with no credential.
    pub fn new(server: impl Into<String>) -> Self {
        Self { server: server.into(), cluster: Map::new(), user: Map::new() }
    }

    /// Trusts this authority only. Without it the server's certificate is checked against the system's.
    #[must_use]
    pub fn ca(self, ca: &Ca) -> Self {
        self.in_cluster("certificate-authority-data", json!(STANDARD.encode(ca.pem())))
    }

    /// Sends this SNI and wants the certificate to carry it: how a gateway's cluster is chosen on loopback.
    #[must_use]
    pub fn tls_server_name(self, name: &str) -> Self {
        self.in_cluster("tls-server-name", json!(name))
    }

    /// Does not check the server's certificate. Cannot be combined with [`Kubeconfig::ca`].
    #[must_use]
    pub fn insecure(self) -> Self {
        self.in_cluster("insecure-skip-tls-verify", json!(true))
    }

    /// A client certificate.
    #[must_use]
    pub fn identity(self, identity: &Identity) -> Self {
        self.in_user("client-certificate-data", json!(STANDARD.encode(identity.pem())))
            .in_user("client-key-data", json!(STANDARD.encode(identity.key_pem())))
    }

    /// A bearer token.
    #[must_use]
    pub fn token(self, token: &str) -> Self {
        self.in_user("token", json!(token))
    }

    /// Impersonates a user in every request.
    #[must_use]
    pub fn impersonate(self, user: &str, groups: &[&str]) -> Self {
        self.in_user("as", json!(user)).in_user("as-groups", json!(groups))
    }

    /// The file's content.
    pub fn to_json(&self) -> Value {
        let mut cluster = self.cluster.clone();
        cluster.insert("server".to_owned(), json!(self.server));
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": self.user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "default"}}],
            "current-context": "x",
        })
    }

    /// Writes the file with mode 0600.
    ///
    /// # Errors
    /// [`crate::Error::File`].
    pub fn write(&self, path: &Path) -> Result<PathBuf> {
        write_private(path, self.to_json().to_string().as_bytes())?;
        Ok(path.to_owned())
    }

    fn in_cluster(mut self, key: &str, value: Value) -> Self {
        self.cluster.insert(key.to_owned(), value);
        self
    }

    fn in_user(mut self, key: &str, value: Value) -> Self {
        self.user.insert(key.to_owned(), value);
        self
    }
}

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::InitError;
use super::authority::{Authority, Renewal, Wanted};
use super::files::Layout;

/// A kubeconfig to have.
pub(super) struct Kubeconfig<'a> {
    pub(super) file: String,
    pub(super) server: String,
    pub(super) server_ca: &'a Authority,
    pub(super) client_ca: &'a Authority,
    pub(super) user: Wanted,
}

impl Kubeconfig<'_> {
    /// Writes it, with the certificate that it has if that will do. JSON, which is YAML as well.
    pub(super) fn write(&self, layout: &mut Layout, renewal: Renewal) -> Result<(), InitError> {
        let present = layout.read(&self.file)?.and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        let part = |name: &str| {
            let text = present.as_ref()?.pointer(&format!("/users/0/user/{name}"))?.as_str()?;
            STANDARD.decode(text).ok()
        };
        let parts = (part("client-certificate-data"), part("client-key-data"));
        let present = match parts {
            (Some(certificate), Some(key)) => [certificate, key].concat(),
            _ => Vec::new(),
        };
        let pem = self.client_ca.renewed(&present, &self.user, renewal)?;
        let text = self.text(&pem)?;
        layout.write(&self.file, text.as_bytes(), 0o600)
    }

    fn text(&self, pem: &[u8]) -> Result<String, InitError> {
        const KEY: &str = "-----BEGIN PRIVATE KEY-----";
        let pem = String::from_utf8_lossy(pem);
        let (certificate, key) = pem.split_at(pem.find(KEY).unwrap_or(pem.len()));
        let value = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "portcullis-store", "cluster": {
                "server": self.server,
                "certificate-authority-data": STANDARD.encode(self.server_ca.pem()),
            }}],
            "users": [{"name": self.user.common_name, "user": {
                "client-certificate-data": STANDARD.encode(certificate),
                "client-key-data": STANDARD.encode(key),
            }}],
            "contexts": [{"name": "portcullis-store", "context": {
                "cluster": "portcullis-store",
                "user": self.user.common_name,
            }}],
            "current-context": "portcullis-store",
        });
        Ok(format!("{}\n", serde_json::to_string_pretty(&value).map_err(InitError::Json)?))
    }
}

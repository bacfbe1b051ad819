//! Objects as a component writes them: straight to the first kube-apiserver, as the administrator.

use std::time::Duration;

use serde_json::Value;

use super::RealKube;
use crate::client::TlsTarget;
use crate::{Error, Result};

impl RealKube {
    /// Creates an object in a collection.
    ///
    /// # Errors
    /// [`Error::Http`] with kube-apiserver's answer.
    pub fn create(&self, collection: &str, object: &Value) -> Result<()> {
        self.write("POST", collection, "application/json", object)
    }

    /// Merges a status into an object.
    ///
    /// # Errors
    /// As [`RealKube::create`].
    pub fn patch_status(&self, path: &str, status: &Value) -> Result<()> {
        let patch = serde_json::json!({"status": status});
        self.write("PATCH", &format!("{path}/status"), "application/merge-patch+json", &patch)
    }

    fn write(&self, method: &str, path: &str, kind: &str, object: &Value) -> Result<()> {
        let target = TlsTarget::new(self.address(0)?).trust(&self.server_ca).identity(&self.admin);
        let body = object.to_string();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {kind}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = target.timeout(Duration::from_secs(20)).raw_request(request.as_bytes())?;
        if matches!(answer.status, 200 | 201) {
            return Ok(());
        }
        Err(Error::Http { step: "writing an object", reason: format!("{method} {path}: {}", answer.text()) })
    }
}

//! Objects as a component reads and writes them: straight to the first kube-apiserver, as the administrator.

use std::time::Duration;

use serde_json::Value;

use super::RealKube;
use crate::client::{Response, TlsTarget};
use crate::error::{Error, Result};

impl RealKube {
    /// Reads the object at a path. A poll with kubectl takes a hundred times as long.
    ///
    /// # Errors
    /// [`Error::Http`] with kube-apiserver's answer.
    pub fn get(&self, path: &str) -> Result<Value> {
        let answer = self.ask("GET", path, "\r\n")?;
        if answer.status == 200 { answer.json() } else { Err(refused("reading an object", path, &answer)) }
    }

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
        let body = object.to_string();
        let rest = format!("Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let answer = self.ask(method, path, &rest)?;
        if matches!(answer.status, 200 | 201) { Ok(()) } else { Err(refused("writing an object", path, &answer)) }
    }

    /// Asks with the rest of a head, and what comes behind it.
    fn ask(&self, method: &str, path: &str, rest: &str) -> Result<Response> {
        let target = TlsTarget::new(self.address(0)?).trust(&self.server_ca).identity(&self.admin);
        let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{rest}");
        target.timeout(Duration::from_secs(20)).raw_request(request.as_bytes())
    }
}

fn refused(step: &'static str, path: &str, answer: &Response) -> Error {
    Error::Http { step, reason: format!("{path}: {} {}", answer.status, answer.text()) }
}

//! Envoy's admin page.

use std::net::SocketAddr;

use serde_json::Value;

use crate::client::{Response, plain};
use crate::error::{Error, Result};

/// Envoy's admin page, by its address.
#[derive(Debug, Clone)]
pub struct Admin {
    address: SocketAddr,
}

impl Admin {
    /// The admin page at an address.
    pub fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    /// The address of the admin page.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// GET of any page.
    ///
    /// # Errors
    /// [`Error::Connection`] or [`Error::Http`].
    pub fn get(&self, path: &str) -> Result<Response> {
        plain::get(self.address, path)
    }

    /// POST to any page.
    ///
    /// # Errors
    /// As [`Admin::get`].
    pub fn post(&self, path: &str) -> Result<Response> {
        plain::post(self.address, path, b"")
    }

    /// GET of a page that answers JSON, like `/clusters?format=json`.
    ///
    /// # Errors
    /// As [`Admin::get`], or [`Error::Json`].
    pub fn json(&self, path: &str) -> Result<Value> {
        self.get(path)?.json()
    }

    /// The whole configuration in effect, endpoints included.
    ///
    /// # Errors
    /// As [`Admin::json`].
    pub fn config_dump(&self) -> Result<Value> {
        self.json("/config_dump?include_eds")
    }

    /// Counters and gauges whose whole name matches a regular expression, with their values.
    ///
    /// # Errors
    /// As [`Admin::json`].
    pub fn stats(&self, filter: &str) -> Result<Vec<(String, u64)>> {
        let escaped: String = filter.bytes().map(escape).collect();
        let json = self.json(&format!("/stats?format=json&filter={escaped}"))?;
        let stats = json.get("stats").and_then(Value::as_array).cloned().unwrap_or_default();
        // Histograms have no name and value of their own.
        let one = |stat: &Value| Some((stat.get("name")?.as_str()?.to_owned(), stat.get("value")?.as_u64()?));
        Ok(stats.iter().filter_map(one).collect())
    }

    /// One counter or gauge.
    ///
    /// # Errors
    /// As [`Admin::json`], or [`Error::Lacks`] when there is none of that name.
    pub fn stat(&self, name: &str) -> Result<u64> {
        let quoted = name.replace('.', "\\.");
        let found = self.stats(&format!("^{quoted}$"))?.into_iter().find(|(found, _)| found == name);
        found
            .map(|(_, value)| value)
            .ok_or_else(|| Error::Lacks { what: "Envoy's statistics".to_owned(), field: name.to_owned() })
    }
}

/// Percent-encodes what is not plain in a query.
fn escape(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
        char::from(byte).to_string()
    } else {
        format!("%{byte:02X}")
    }
}

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::client::{Response, plain};
use crate::error::{Error, Result};

/// A session of WebDriver. Ends with this value, and the browser with it.
#[derive(Debug)]
pub(super) struct Session {
    address: SocketAddr,
    path: String,
}

impl Session {
    pub(super) fn begin(address: SocketAddr, capabilities: &Value) -> Result<Self> {
        let body = json!({"capabilities": capabilities}).to_string();
        let begun = value("beginning a session of the browser", &plain::post(address, "/session", body.as_bytes())?)?;
        let id = begun.get("sessionId").and_then(Value::as_str).unwrap_or_default();
        Ok(Self { address, path: format!("/session/{id}") })
    }

    pub(super) fn get(&self, path: &str) -> Result<Value> {
        value("asking the browser", &plain::get(self.address, &format!("{}{path}", self.path))?)
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let body = body.to_string();
        value("asking the browser", &plain::post(self.address, &format!("{}{path}", self.path), body.as_bytes())?)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A driver that is gone has taken the browser with it.
        let _ = plain::request(self.address, "DELETE", &self.path, &[], b"");
    }
}

/// The value of an answer, or the driver's message.
fn value(step: &'static str, response: &Response) -> Result<Value> {
    let mut answer: Value = response.json()?;
    let value = answer.get_mut("value").map(Value::take).unwrap_or_default();
    if response.status == 200 {
        return Ok(value);
    }
    let message = value.get("message").and_then(Value::as_str).unwrap_or_default();
    Err(Error::Http { step, reason: message.lines().next().unwrap_or_default().to_owned() })
}

//! An HTTP answer, whatever protocol it came by.

use crate::error::{Error, Result};

/// An HTTP answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Header lines in order; names as received (lower-case over HTTP/2).
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body without transfer coding.
    pub body: Vec<u8>,
}

impl Response {
    /// The first value of a header, name compared without case.
    pub fn header(&self, name: &str) -> Option<String> {
        self.header_all(name).into_iter().next()
    }

    /// All values of a header in order.
    pub fn header_all(&self, name: &str) -> Vec<String> {
        let matching = self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        matching.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect()
    }

    /// The seconds of `Retry-After`. `None` without the header, and where it has no number.
    pub fn retry_after(&self) -> Option<u32> {
        self.header("retry-after")?.parse().ok()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// [`Error::Json`].
    pub fn json(&self) -> Result<serde_json::Value> {
        let what = || format!("an answer with status {}: {}", self.status, self.text());
        serde_json::from_slice(&self.body).map_err(|source| Error::Json { what: what(), source })
    }
}

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::client::TlsTarget;

/// HTTP's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

/// One client: where it connects, how, and as whom. With HTTP/2 all its requests share a connection, with HTTP/1.1 it has as
/// many as it needs.
#[derive(Debug, Clone)]
pub struct LoadProfile {
    pub(super) name: String,
    pub(super) target: TlsTarget,
    pub(super) protocol: Protocol,
    pub(super) token: Option<String>,
    /// The number of the next token, where each request has one of its own.
    next: Option<Arc<AtomicU64>>,
    pub(super) handshakes: u32,
    pub(super) headers: Vec<(String, String)>,
}

impl LoadProfile {
    /// A client with the user of its TLS certificate. `name` is its name in reports.
    pub fn new(name: impl Into<String>, target: &TlsTarget, protocol: Protocol) -> Self {
        let alpn: &[&str] = if protocol == Protocol::Http2 { &["h2"] } else { &["http/1.1"] };
        Self {
            name: name.into(),
            target: target.clone().alpn(alpn),
            protocol,
            token: None,
            next: None,
            handshakes: 1,
            headers: Vec::new(),
        }
    }

    /// Shows this bearer token.
    #[must_use]
    pub fn token(self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self }
    }

    /// Shows a new token in each request, which begins with this.
    #[must_use]
    pub fn new_tokens(self, beginning: &str) -> Self {
        Self { next: Some(Arc::default()), ..self.token(beginning) }
    }

    /// Repeats a handshake that fails until there were so many, for a connection: where several servers listen at one address, of which
    /// some do not have the name.
    #[must_use]
    pub fn handshakes(self, most: u32) -> Self {
        Self { handshakes: most, ..self }
    }

    /// Sends one more header line with each request.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The `Authorization` of the next request.
    pub(super) fn authorization(&self) -> Option<String> {
        let token = self.token.as_ref()?;
        let number = self.next.as_ref().map(|next| format!("{:08}", next.fetch_add(1, Ordering::Relaxed)));
        Some(format!("Bearer {token}{}", number.unwrap_or_default()))
    }
}

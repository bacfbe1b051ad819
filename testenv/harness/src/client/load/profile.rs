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
}

impl LoadProfile {
    /// A client with the user of its TLS certificate. `name` is its name in reports.
    pub fn new(name: impl Into<String>, target: &TlsTarget, protocol: Protocol) -> Self {
        let alpn: &[&str] = if protocol == Protocol::Http2 { &["h2"] } else { &["http/1.1"] };
        Self { name: name.into(), target: target.clone().alpn(alpn), protocol, token: None }
    }

    /// Shows this bearer token.
    #[must_use]
    pub fn token(self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self }
    }
}

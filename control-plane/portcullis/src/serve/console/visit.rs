use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Method, header};

use super::access::{Denied, Origin, Reader, origin};
use super::denied::DeniedResponse;
use super::state::Console;
use crate::listen::Connection;

/// A request of a reader who is known.
pub(super) struct Visit {
    pub(super) reader: Reader,
    pub(super) now: Instant,
    /// Path and query.
    asked: String,
    takes_tokens: bool,
}

impl Visit {
    /// A refusal of this request.
    pub(super) fn refuse(&self, denied: Denied) -> DeniedResponse {
        DeniedResponse { denied, asked: self.asked.clone(), takes_tokens: self.takes_tokens }
    }

    /// The reader's name and whether a session can be ended, for the head of a page.
    pub(super) fn label(&self) -> Option<(&str, bool)> {
        self.reader.name().map(|name| (name, self.reader.has_session()))
    }
}

impl FromRequestParts<Console> for Visit {
    type Rejection = DeniedResponse;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Self, Self::Rejection> {
        let asked = parts.uri.path_and_query().map(|path| path.as_str().to_owned()).unwrap_or_default();
        let takes_tokens = console.access.takes_tokens();
        let refuse = |denied| DeniedResponse { denied, asked: asked.clone(), takes_tokens };
        let now = Instant::now();
        if parts.method == Method::POST && !is_meant(parts, takes_tokens) {
            return Err(refuse(Denied::OtherOrigin));
        }
        let reader = console.access.authenticate(&parts.headers, &connection(parts), now).await.map_err(refuse)?;
        Ok(Self { reader, now, asked, takes_tokens })
    }
}

/// Whether a page of another site did not send it: by the browser's word, or because it carries a token, which no other site has.
fn is_meant(parts: &Parts, takes_tokens: bool) -> bool {
    match origin(&parts.headers, &parts.uri) {
        Origin::Same => true,
        Origin::Other => false,
        // A program; on loopback it has no credential that a browser could add.
        Origin::Unknown => parts.headers.contains_key(header::AUTHORIZATION) || !takes_tokens,
    }
}

/// The connection of a request. One that is not known is taken for a stranger's.
pub(super) fn connection(parts: &Parts) -> Connection {
    let unknown = || Connection::plain(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
    parts.extensions.get::<Connection>().cloned().unwrap_or_else(unknown)
}

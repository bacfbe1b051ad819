//! The servers of a cluster as labels.

use std::sync::Arc;

/// The server of a forwarded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server<'a> {
    /// One that the configuration names, by its place: [`super::ClusterMetrics::server_at`].
    Known(ServerCode),
    /// One with this name in its endpoint's metadata.
    Named(&'a [u8]),
    /// One without a name.
    Unnamed,
    /// The request came to none.
    Missing,
}

/// A server of the cluster by its place among the names, or a number for none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerCode(pub(super) u16);

impl ServerCode {
    /// An answer of the gateway's own to a request that was not forwarded.
    pub(super) const NONE: ServerCode = ServerCode(0);
    /// A server without a name.
    const UNNAMED: ServerCode = ServerCode(u16::MAX - 3);
    /// An answer of the gateway's own to a request that was forwarded and came to no server.
    pub(super) const MISSING: ServerCode = ServerCode(u16::MAX - 2);
    /// A server that the configuration does not name.
    pub(super) const UNKNOWN: ServerCode = ServerCode(u16::MAX - 1);
    /// Any server, for what has no room of its own.
    pub(super) const ANY: ServerCode = ServerCode(u16::MAX);

    /// Whether a request of it was forwarded.
    pub(super) fn is_forwarded(self) -> bool {
        self != ServerCode::NONE
    }

    /// Whether a server has a part in it.
    pub(super) fn is_server(self) -> bool {
        !matches!(self, ServerCode::NONE | ServerCode::MISSING)
    }
}

/// The label `server` of answers of the gateway's own to requests that were not forwarded.
pub(super) const NO_SERVER: &str = "-";
/// The label `server` of requests that were forwarded and came to no server. Any client can be refused, but only a gateway
/// without servers brings this about: alerts depend on the difference.
pub(super) const MISSING_SERVER: &str = "none";
/// The label `server` of a server without a name.
pub(super) const UNNAMED: &str = "unknown";

/// The servers that count apart: those that the configuration names.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerLabels(Arc<[Box<str>]>);

impl ServerLabels {
    pub(super) fn of(names: &[String]) -> Self {
        let mut names: Vec<Box<str>> = names.iter().map(|name| name.as_str().into()).collect();
        names.sort_unstable();
        ServerLabels(names.into())
    }

    /// The server of that name.
    pub(super) fn find(&self, name: &[u8]) -> Option<ServerCode> {
        let place = self.0.binary_search_by(|known| known.as_bytes().cmp(name)).ok()?;
        let code = u16::try_from(place.saturating_add(1)).ok().map(ServerCode);
        code.filter(|code| code.0 < ServerCode::UNNAMED.0)
    }

    /// The code of a request's server; `None` for a request that was not forwarded.
    pub(super) fn code(&self, server: Option<Server<'_>>) -> ServerCode {
        match server {
            None => ServerCode::NONE,
            Some(Server::Known(code)) => code,
            Some(Server::Named(name)) => self.find(name).unwrap_or(ServerCode::UNKNOWN),
            Some(Server::Unnamed) => ServerCode::UNNAMED,
            Some(Server::Missing) => ServerCode::MISSING,
        }
    }

    /// The label `server`.
    pub(super) fn label(&self, code: ServerCode) -> &str {
        match code {
            ServerCode::NONE => NO_SERVER,
            ServerCode::MISSING => MISSING_SERVER,
            ServerCode::UNNAMED => UNNAMED,
            ServerCode(place) => self.0.get(usize::from(place).saturating_sub(1)).map_or("other", |name| name),
        }
    }
}

//! The sender of a long-running stream, kept for as long as it runs: an edit may deny it later.

use std::net::IpAddr;
use std::sync::Arc;

use portcullis_filter_config::MAX_USER_AGENT;

use crate::identity::UserInfo;
use crate::request::Client;

/// A long-running request, as far as access lists and policies look at it.
#[derive(Debug)]
pub struct StreamOrigin {
    pub(crate) method: Box<[u8]>,
    /// With its query: the verb may depend on it.
    pub(crate) path: Box<[u8]>,
    pub(crate) host: RequestedHost,
    /// The listener of the configuration that it began under; empty if that names none.
    pub(crate) listener: Arc<str>,
    pub(crate) address: Option<IpAddr>,
    /// The start of its `User-Agent`, as long as entries of access lists may be.
    pub(crate) user_agent: Box<[u8]>,
    /// The authenticated client, with all its groups.
    pub(crate) client: Client,
    /// The client by whom policies are chosen.
    pub(crate) acting: Client,
    pub(crate) impersonated: Impersonated,
}

impl StreamOrigin {
    /// Keeps the part of a `User-Agent` that entries may name. Clients may write lines of any length.
    pub(crate) fn keep_user_agent(&mut self, agent: &[u8]) {
        self.user_agent = agent.get(..MAX_USER_AGENT).unwrap_or(agent).into();
    }
}

/// The host that a request is for.
#[derive(Debug)]
pub(crate) enum RequestedHost {
    /// The authority, with its port.
    Authority(Box<[u8]>),
    /// The server name of the client's handshake, as the proxy chose a filter chain by it, in the place of an address as authority.
    ServerName(Box<[u8]>),
}

/// The user whom a client's own lines ask for.
#[derive(Debug)]
pub(crate) enum Impersonated {
    /// There are no such lines.
    No,
    User(Box<UserInfo>),
    /// The lines go on to the upstream, and the gateway could not read them.
    Unreadable,
}

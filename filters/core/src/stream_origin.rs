//! The sender of a long-running stream, kept for as long as it runs: an edit may deny it later.

use std::net::IpAddr;

use crate::identity::UserInfo;
use crate::request::Client;

/// A long-running request, as far as access lists and policies look at it.
#[derive(Debug)]
pub struct StreamOrigin {
    pub(crate) method: Box<[u8]>,
    /// With its query: the verb may depend on it.
    pub(crate) path: Box<[u8]>,
    /// The authority, with its port.
    pub(crate) host: Box<[u8]>,
    pub(crate) address: Option<IpAddr>,
    pub(crate) user_agent: Box<[u8]>,
    /// The authenticated client, with all its groups.
    pub(crate) client: Client,
    /// The client by whom policies are chosen.
    pub(crate) acting: Client,
    pub(crate) impersonated: Impersonated,
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

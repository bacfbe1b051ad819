//! The changes that make a client's request the upstream's.

use super::Forward;
use crate::credential::{is_token_subprotocol, subprotocols};
use crate::header_scan::HeaderScan;

/// One change to the request's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit<'a> {
    /// Removes all lines of a name. Done, too, if there is none.
    Remove(&'a [u8]),
    /// Replaces all lines of a name by one.
    Set(&'a [u8], &'a [u8]),
    /// Adds a line to others of its name.
    Add(&'a [u8], &'a [u8]),
}

impl Forward<'_> {
    /// The edits of the request after the removals. `has_connection`: [`HeaderScan::has_connection`].
    pub fn edits(&self, has_connection: bool) -> impl Iterator<Item = Edit<'_>> {
        let connection = match (self.is_upgrade, has_connection) {
            (true, _) => Some(Edit::Set(b"connection", b"Upgrade")),
            (false, true) => Some(Edit::Remove(b"connection")),
            (false, false) => None,
        };
        let subprotocols = self.subprotocols.as_deref().map(|kept| match kept {
            b"" => Edit::Remove(b"sec-websocket-protocol"),
            kept => Edit::Set(b"sec-websocket-protocol", kept),
        });
        let user = self.user.iter().flat_map(|user| user.header_lines()).chain(&self.attribution);
        let lines = user.map(|(name, value)| Edit::Add(name.as_bytes(), value.as_bytes()));
        let via = self.via.map(|via| Edit::Add(b"via", via.as_bytes()));
        connection.into_iter().chain(subprotocols).chain(lines).chain(via)
    }
}

/// The `Sec-WebSocket-Protocol` that goes upstream: all entries but those that carry a token, as kube-apiserver joins them.
pub fn subprotocols_without_tokens(scan: &HeaderScan<'_>) -> Vec<u8> {
    let kept: Vec<&[u8]> = scan
        .subprotocols
        .iter()
        .flat_map(|line| subprotocols(line))
        .filter(|entry| !is_token_subprotocol(entry))
        .collect();
    kept.join(&b","[..])
}

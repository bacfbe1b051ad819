//! Headers that no client may send on: found in one pass over the request, before anything else looks at it, and removed from
//! every request, also from those that end here.

mod removals;
mod reserved;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use crate::credential::{is_token_subprotocol, subprotocols};
use crate::go_strings::equal_fold;
use removals::{AUTHORIZATION, FROM_INSIDE, FROM_OUTSIDE};
pub use removals::{ForwardedHeaders, HeaderRemovals};
pub(crate) use reserved::can_be_reserved;
use reserved::{FORWARDED_CLIENT_CERT, IMPERSONATE};
pub use reserved::{Reserved, is_reserved};

/// Names that describe the message or the hop itself; a `Connection` that lists them does not make them disappear.
const NOT_LISTED: [&[u8]; 8] =
    [b"", b"close", b"connection", b"content-length", b"host", b"keep-alive", b"transfer-encoding", b"upgrade"];

/// Headers that Envoy has written by now; a `Connection` that lists one would hide where a request comes from.
const HOP_WRITTEN: [&[u8]; 5] = [b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-proto", b"x-request-id"];

/// The media type of a server-side apply (apimachinery, `types.ApplyPatchType`).
const APPLY_PATCH: &[u8] = b"application/apply-patch+yaml";

/// Names that `Connection` may list.
const MAX_LISTED: usize = 16;

/// A `Connection` that no honest client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadConnection {
    /// kube-apiserver, which looks for the word `upgrade` anywhere, would see an upgrade where Envoy, which looks for a
    /// list's entry, sees none.
    #[error("the Connection header is ambiguous")]
    AmbiguousUpgrade,
    /// It lists a header that the gateway writes.
    #[error("the Connection header names a header of the gateway's own")]
    NamesHop,
    /// It lists too many headers.
    #[error("the Connection header names too many headers")]
    TooManyNames,
}

/// The findings of one pass over a request's headers. Borrows from them.
#[derive(Default)]
pub struct HeaderScan<'a> {
    /// `:method`.
    pub method: &'a [u8],
    /// `:path`, with the query.
    pub path: &'a [u8],
    /// `:authority`.
    pub authority: &'a [u8],
    /// The first `Authorization` line.
    pub authorization: Option<&'a [u8]>,
    /// How many `Authorization` lines there are, joined ones counted apart.
    pub authorization_lines: usize,
    /// Every `Impersonate-*` line.
    pub impersonation: Vec<(&'a [u8], &'a [u8])>,
    /// Whether there is a `Connection`.
    pub has_connection: bool,
    /// Whether the request asks for an upgrade: `Connection` lists the word, in any case, and there is an `Upgrade`.
    pub is_upgrade: bool,
    /// Whether the head announces a body by its length. An upgrade must not: the bytes go upstream only after the upgrade has
    /// succeeded, and a server that reads them before it answers waits for ever. Envoy removes `Transfer-Encoding` from an
    /// upgrade's head, so that no server waits for that.
    pub has_body: bool,
    /// Whether the upgrade is to WebSocket, whose subprotocols may carry a token.
    pub is_websocket: bool,
    /// Whether a WebSocket subprotocol carries a token.
    pub token_subprotocol: bool,
    /// The fault of `Connection`, if there is one.
    pub bad_connection: Option<BadConnection>,
    /// Every `Sec-WebSocket-Protocol` line.
    pub subprotocols: Vec<&'a [u8]>,
    /// The first `X-Forwarded-For` line; Envoy joins them into one.
    pub forwarded_for: &'a [u8],
    /// The first `User-Agent` line. Left empty by [`HeaderScan::from_headers`]: few configurations look at it.
    pub user_agent: &'a [u8],
    /// `X-Request-Id`, which Envoy writes.
    pub request_id: &'a [u8],
    /// Whether the body is a server-side apply, by its `Content-Type`.
    pub is_apply: bool,
    /// The `X-Forwarded-Client-Cert` line; of several the last one, see [`HeaderScan::forwarded_cert_lines`].
    pub forwarded_cert: Option<&'a [u8]>,
    /// How many `X-Forwarded-Client-Cert` lines there are.
    pub forwarded_cert_lines: usize,
    /// Whether the request has been through this gateway before.
    pub is_loop: bool,
    /// Names of the headers to take out in any case. May hold a name more than once.
    pub to_remove: Vec<&'a [u8]>,
    /// Whether `Connection` lists a header by which a client says who it is or wants to be.
    pub connection_lists_identity: bool,
    from_outside: bool,
    from_inside: bool,
    connection_listed: usize,
}

impl std::fmt::Debug for HeaderScan<'_> {
    /// Headers may be secrets.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("HeaderScan").finish_non_exhaustive()
    }
}

impl<'a> HeaderScan<'a> {
    /// The client's address, as Envoy writes it: that of the connection's peer, or the one that trusted proxies name.
    pub(crate) fn client_address(&self) -> &'a [u8] {
        self.forwarded_for.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii()
    }

    /// The client's address, if it is one.
    pub(crate) fn client_ip(&self) -> Option<IpAddr> {
        std::str::from_utf8(self.client_address()).ok()?.parse().ok()
    }

    /// Reads a request's headers; names are lower-case, as Envoy hands them out.
    ///
    /// `reserved` are the names that no client may send on.
    pub fn from_headers(
        headers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        instance: &[u8],
        reserved: Reserved<'_>,
    ) -> Self {
        let mut scan = HeaderScan::default();
        let mut connections: Vec<&'a [u8]> = Vec::new();
        let (mut has_upgrade, mut to_websocket) = (false, None);
        for (name, value) in headers {
            match name {
                b":method" => scan.method = value,
                b":path" => scan.path = value,
                b":authority" => scan.authority = value,
                AUTHORIZATION => {
                    scan.authorization.get_or_insert(value);
                    // Envoy joins lines of one name by commas, and no credential that Kubernetes knows holds one.
                    let lines = memchr::memchr_iter(b',', value).count().saturating_add(1);
                    scan.authorization_lines = scan.authorization_lines.saturating_add(lines);
                }
                b"connection" => connections.push(value),
                b"content-length" => scan.has_body |= value != b"0",
                b"content-type" => scan.is_apply = value == APPLY_PATCH,
                b"upgrade" => {
                    has_upgrade |= !value.is_empty();
                    // kube-apiserver looks at the first line only.
                    to_websocket.get_or_insert_with(|| equal_fold(value, b"websocket"));
                }
                b"x-forwarded-for" if scan.forwarded_for.is_empty() => scan.forwarded_for = value,
                b"x-request-id" => scan.request_id = value,
                b"via" => scan.is_loop |= names_instance(value, instance),
                b"sec-websocket-protocol" => {
                    scan.token_subprotocol |= subprotocols(value).any(is_token_subprotocol);
                    scan.subprotocols.push(value);
                }
                FROM_OUTSIDE => scan.from_outside = true,
                FROM_INSIDE => scan.from_inside = true,
                _ if name.starts_with(IMPERSONATE) => scan.impersonation.push((name, value)),
                _ if reserved.names(name) => {
                    if name == FORWARDED_CLIENT_CERT {
                        scan.forwarded_cert = Some(value);
                        scan.forwarded_cert_lines = scan.forwarded_cert_lines.saturating_add(1);
                    }
                    scan.to_remove.push(name);
                }
                _ => {}
            }
        }
        scan.has_connection = !connections.is_empty();
        scan.is_upgrade = has_upgrade && connections.iter().any(|value| lists_upgrade(value));
        scan.is_websocket = scan.is_upgrade && to_websocket == Some(true);
        if has_upgrade && !scan.is_upgrade && connections.iter().any(|value| contains_upgrade(value)) {
            scan.bad_connection = Some(BadConnection::AmbiguousUpgrade);
        }
        for value in connections {
            scan.remove_connection_listed(value);
        }
        scan
    }

    /// Every header to remove from the request, also from a refused one: [`HeaderScan::to_remove`], Envoy's own headers about
    /// the client, and the client's identity headers except the `forwarded` ones. Owned, because the first edit of the request
    /// ends what the scan borrows. [`crate::exchange`] removes them.
    pub fn removals(&self, forwarded: ForwardedHeaders) -> HeaderRemovals {
        let impersonation = self.impersonation.iter().map(|(name, _)| *name).filter(|_| !forwarded.impersonation);
        let has_credential = self.authorization.is_some() && !forwarded.credential;
        let usual = [
            has_credential.then_some(AUTHORIZATION),
            self.from_outside.then_some(FROM_OUTSIDE),
            self.from_inside.then_some(FROM_INSIDE),
        ];
        let others = self.to_remove.iter().copied().chain(impersonation);
        HeaderRemovals::of(usual.into_iter().flatten().chain(others))
    }

    fn remove_connection_listed(&mut self, connection: &'a [u8]) {
        for name in connection.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            if is_one_of(name, &HOP_WRITTEN) {
                self.bad_connection = Some(BadConnection::NamesHop);
            } else if !name.starts_with(b":") && !is_one_of(name, &NOT_LISTED) {
                self.connection_lists_identity |= carries_identity(name);
                self.to_remove.push(name);
                self.connection_listed = self.connection_listed.saturating_add(1);
            }
            // Each costs a call to Envoy, and off the upgrade path Envoy itself stops at ten.
            if self.connection_listed > MAX_LISTED {
                self.bad_connection = Some(BadConnection::TooManyNames);
                return;
            }
        }
    }
}

/// Whether a client says by this header who it is or wants to be; in any case, as `Connection` lists names.
fn carries_identity(name: &[u8]) -> bool {
    let starts = |prefix: &[u8]| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    starts(IMPERSONATE) || is_one_of(name, &[b"authorization", b"sec-websocket-protocol"])
}

fn is_one_of(name: &[u8], names: &[&[u8]]) -> bool {
    names.iter().any(|other| other.eq_ignore_ascii_case(name))
}

fn lists_upgrade(connection: &[u8]) -> bool {
    connection.split(|byte| *byte == b',').any(|entry| entry.trim_ascii().eq_ignore_ascii_case(b"upgrade"))
}

/// kube-apiserver looks for the word anywhere in the value, in any case (apimachinery, `httpstream.IsUpgradeRequest`).
fn contains_upgrade(connection: &[u8]) -> bool {
    connection.windows(7).any(|window| window.eq_ignore_ascii_case(b"upgrade"))
}

/// Whether one entry of a `Via` value was written by this instance.
fn names_instance(via: &[u8], instance: &[u8]) -> bool {
    via.split(|byte| *byte == b',').any(|entry| {
        entry.trim_ascii().split(|byte| *byte == b' ').nth(1).is_some_and(|received_by| received_by == instance)
    })
}

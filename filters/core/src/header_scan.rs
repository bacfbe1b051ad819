//! Headers that no client may send on: found in one pass over the request, before anything else looks at it, and removed from
//! every request, also from those that end here.

use crate::credential::{is_token_subprotocol, subprotocols};
use crate::go_strings::equal_fold;

/// Prefixes that only the gateway, or Envoy itself, may write.
const RESERVED_PREFIXES: [&[u8]; 4] = [IMPERSONATE, b"x-remote-", b"x-envoy-", b"x-portcullis-"];
const IMPERSONATE: &[u8] = b"impersonate-";
const FORWARDED_CLIENT_CERT: &[u8] = b"x-forwarded-client-cert";

/// Headers by which a client says where it is, and which Envoy neither reads nor writes. kube-apiserver's audit log would list
/// their addresses before the connection's (apimachinery, `net.SourceIPs`).
const FORWARDED: &[u8] = b"forwarded";
const REAL_IP: &[u8] = b"x-real-ip";

/// Names that describe the message or the hop itself; a `Connection` that lists them does not make them disappear.
const NOT_LISTED: [&[u8]; 8] =
    [b"", b"close", b"connection", b"content-length", b"host", b"keep-alive", b"transfer-encoding", b"upgrade"];

/// Headers that Envoy has written by now; a `Connection` that lists one would hide where a request comes from.
const HOP_WRITTEN: [&[u8]; 5] = [b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-proto", b"x-request-id"];

/// Headers of which Envoy adds one to nearly every request, for its origin. They mean nothing to kube-apiserver.
const FROM_OUTSIDE: &[u8] = b"x-envoy-external-address";
const FROM_INSIDE: &[u8] = b"x-envoy-internal";

/// The media type of a server-side apply (apimachinery, `types.ApplyPatchType`).
const APPLY_PATCH: &[u8] = b"application/apply-patch+yaml";

/// Headers that describe the request and go on with it: the scan reads them and removes none, whatever is reserved.
const READ: [&[u8]; 9] = [
    b"authorization",
    b"connection",
    b"content-length",
    b"content-type",
    b"sec-websocket-protocol",
    b"upgrade",
    b"via",
    b"x-forwarded-for",
    b"x-request-id",
];

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

/// The client's own identity headers that a request keeps, for the upstream to judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardedHeaders {
    /// `Authorization`.
    pub credential: bool,
    /// `Impersonate-*`.
    pub impersonation: bool,
}

/// Names of headers to take out of a request. Costs no memory for what honest requests have.
#[derive(Clone, Debug, Default)]
pub struct HeaderRemovals {
    authorization: bool,
    from_outside: bool,
    from_inside: bool,
    others: Vec<Box<[u8]>>,
}

impl HeaderRemovals {
    /// Header names to remove; may contain duplicates.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        let authorization = self.authorization.then_some(&b"authorization"[..]);
        let from_outside = self.from_outside.then_some(FROM_OUTSIDE);
        let from_inside = self.from_inside.then_some(FROM_INSIDE);
        let usual = [authorization, from_outside, from_inside].into_iter().flatten();
        usual.chain(self.others.iter().map(|name| &**name))
    }
}

impl std::fmt::Debug for HeaderScan<'_> {
    /// Headers may be secrets.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("HeaderScan").finish_non_exhaustive()
    }
}

impl<'a> HeaderScan<'a> {
    /// Reads a request's headers; names are lower-case, as Envoy hands them out.
    ///
    /// `reserved` are the names that no client may send on.
    pub fn of(headers: impl Iterator<Item = (&'a [u8], &'a [u8])>, instance: &[u8], reserved: Reserved<'_>) -> Self {
        let mut scan = HeaderScan::default();
        let mut connections: Vec<&'a [u8]> = Vec::new();
        let (mut has_upgrade, mut to_websocket) = (false, None);
        for (name, value) in headers {
            match name {
                b":method" => scan.method = value,
                b":path" => scan.path = value,
                b":authority" => scan.authority = value,
                b"authorization" => {
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
            scan.lift_nominated(value);
        }
        scan
    }

    /// Every header to remove from the request, also from a refused one: [`HeaderScan::to_remove`], Envoy's own headers about
    /// the client, and the client's identity headers except the `forwarded` ones. Owned, because the first edit of the request
    /// ends what the scan borrows. [`crate::exchange`] removes them.
    pub fn removals(&self, forwarded: ForwardedHeaders) -> HeaderRemovals {
        let impersonation = self.impersonation.iter().map(|(name, _)| *name).filter(|_| !forwarded.impersonation);
        HeaderRemovals {
            authorization: self.authorization.is_some() && !forwarded.credential,
            from_outside: self.from_outside,
            from_inside: self.from_inside,
            others: self.to_remove.iter().copied().chain(impersonation).map(Box::from).collect(),
        }
    }

    fn lift_nominated(&mut self, connection: &'a [u8]) {
        for name in connection.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            if is_one_of(name, &HOP_WRITTEN) {
                self.bad_connection = Some(BadConnection::NamesHop);
            } else if !name.starts_with(b":") && !is_one_of(name, &NOT_LISTED) {
                self.connection_lists_identity |= tells_identity(name);
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

/// Names of headers that no client may send on: the built-in ones ([`is_reserved`]), and configured prefixes of names.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reserved<'a> {
    of_listener: &'a [Box<[u8]>],
    /// Empty where the listener has the same.
    of_cluster: &'a [Box<[u8]>],
}

impl<'a> Reserved<'a> {
    /// Those of a listener and those of a cluster. Both lists count: during an edit one of them may be older than the other.
    pub fn of(of_listener: &'a [Box<[u8]>], of_cluster: &'a [Box<[u8]>]) -> Self {
        Reserved { of_listener, of_cluster: if of_cluster == of_listener { &[] } else { of_cluster } }
    }

    /// Whether it is one of them, or looks like one.
    pub fn names(self, name: &[u8]) -> bool {
        is_reserved(name) || self.of_listener.iter().chain(self.of_cluster).any(|prefix| is_like(name, prefix))
    }
}

/// Whether a name can be reserved, as a prefix: a word in lower case that starts the name of no header which is not removed.
pub(crate) fn can_be_reserved(prefix: &str) -> bool {
    let is_word = prefix.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    prefix.len() > 1 && is_word && !READ.iter().any(|name| is_like(name, prefix.as_bytes()))
}

/// Whether a header, or a look-alike with underscores, is one that no client may send on.
pub fn is_reserved(name: &[u8]) -> bool {
    // Most names of an honest request are settled by their first byte.
    match name.first() {
        Some(b'f') => name == FORWARDED,
        Some(b'i') => is_like(name, IMPERSONATE),
        Some(b'x') => {
            let is = |whole: &[u8]| name.len() == whole.len() && is_like(name, whole);
            RESERVED_PREFIXES.iter().any(|prefix| is_like(name, prefix)) || is(FORWARDED_CLIENT_CERT) || is(REAL_IP)
        }
        _ => false,
    }
}

/// Whether a client says by this header who it is or wants to be; in any case, as `Connection` lists names.
fn tells_identity(name: &[u8]) -> bool {
    let starts = |prefix: &[u8]| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    starts(IMPERSONATE) || is_one_of(name, &[b"authorization", b"sec-websocket-protocol"])
}

fn is_one_of(name: &[u8], names: &[&[u8]]) -> bool {
    names.iter().any(|other| other.eq_ignore_ascii_case(name))
}

/// Whether a name starts with the prefix, or with the prefix written with underscores.
fn is_like(name: &[u8], prefix: &[u8]) -> bool {
    name.get(..prefix.len()).is_some_and(|start| {
        start.iter().zip(prefix).all(|(byte, wanted)| byte == wanted || (*wanted == b'-' && *byte == b'_'))
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn scan<'a>(headers: &'a [(&'a str, &'a str)]) -> HeaderScan<'a> {
        HeaderScan::of(
            headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())),
            b"lab",
            Reserved::of(&["x-auth-".as_bytes().into()], &[]),
        )
    }

    #[test]
    fn reserved_names_and_their_look_alikes_are_lifted() {
        for name in [
            "impersonate-user",
            "impersonate-extra-a%2fb",
            "impersonate-anything",
            "impersonate_user",
            "x-remote-user",
            "x_remote-extra-a",
            "x-envoy-retry-on",
            "x-forwarded-client-cert",
            "x_forwarded_client_cert",
            "x-portcullis-destination",
            "x-auth-user",
            "x_auth-user",
            "forwarded",
            "x-real-ip",
            "x_real-ip",
        ] {
            let headers = [(name, "v")];
            let found = scan(&headers);
            let removals = found.removals(ForwardedHeaders::default());
            assert_eq!(removals.names().collect::<Vec<_>>(), [name.as_bytes()], "{name}");
        }
        for name in [
            "accept",
            "x-request-id",
            "x-forwarded-for",
            "x-stream-protocol-version",
            "if-match",
            "impersonate",
            "x-real-ip-2",
        ] {
            assert!(scan(&[(name, "v")]).to_remove.is_empty(), "{name}");
        }
    }

    #[test]
    fn removed_headers_include_credentials_and_envoys_own() {
        let found = scan(&[
            ("x-envoy-internal", "true"),
            ("x-envoy-external-address", "192.0.2.1"),
            ("authorization", "Bearer a"),
            ("x-envoy-external_address", "v"),
            ("accept", "v"),
        ]);
        let removals = found.removals(ForwardedHeaders::default());
        let names: Vec<&[u8]> = removals.names().collect();
        let expected =
            [&b"authorization"[..], b"x-envoy-external-address", b"x-envoy-internal", b"x-envoy-external_address"];
        assert_eq!(names, expected);
        assert_eq!(scan(&[("accept", "v")]).removals(ForwardedHeaders::default()).names().count(), 0);
    }

    #[test]
    fn client_credential_headers_alone_may_be_kept() {
        let found = scan(&[
            ("authorization", "Bearer a"),
            ("impersonate-user", "bob"),
            ("impersonate_user", "bob"),
            ("x-remote-user", "bob"),
        ]);
        let kept = ForwardedHeaders { credential: true, impersonation: true };
        assert_eq!(found.removals(kept).names().collect::<Vec<_>>(), [&b"impersonate_user"[..], b"x-remote-user"]);
        for (listed, expected) in
            [("Impersonate-User", true), ("close, authorization", true), ("Sec-WebSocket-Protocol", true), ("x", false)]
        {
            assert_eq!(scan(&[("connection", listed)]).connection_lists_identity, expected, "{listed}");
        }
    }

    #[test]
    fn impersonation_is_seen_though_connection_lists_it() {
        let hidden = [("impersonate-uid", "1"), ("connection", "Impersonate-Uid")];
        assert_eq!(scan(&hidden).impersonation, [(&b"impersonate-uid"[..], &b"1"[..])]);
        assert!(scan(&[("impersonate_uid", "1")]).impersonation.is_empty());
    }

    #[test]
    fn names_listed_in_connection_are_lifted_in_any_case() {
        let found = scan(&[("connection", "keep-alive, X-Secret ,Content-Length"), ("connection", "authorization")]);
        assert_eq!(found.to_remove, [&b"X-Secret"[..], b"authorization"]);
    }

    #[test]
    fn connection_hides_no_header_of_the_gateway() {
        for name in ["X-Forwarded-For", "x-request-id", "Via", "forwarded", "x-forwarded-proto"] {
            let listed = format!("Upgrade, {name}");
            assert_eq!(scan(&[("connection", &listed)]).bad_connection, Some(BadConnection::NamesHop), "{name}");
        }
        assert_eq!(scan(&[("connection", &["a"; 16].join(","))]).bad_connection, None);
        let many = scan(&[("connection", &["a"; 30_000].join(","))]).to_remove.len();
        assert!(many < 20, "{many}");
        assert_eq!(scan(&[("connection", &["a"; 17].join(","))]).bad_connection, Some(BadConnection::TooManyNames));
    }

    #[test]
    fn lines_that_envoy_joined_count_apart() {
        assert_eq!(scan(&[("authorization", "Bearer a")]).authorization_lines, 1);
        assert_eq!(scan(&[("authorization", "Bearer a,Bearer b")]).authorization_lines, 2);
    }

    #[test]
    fn upgrades_are_told_from_other_requests() {
        let is_upgrade =
            |connection: &str, upgrade: &str| scan(&[("connection", connection), ("upgrade", upgrade)]).is_upgrade;
        assert!(is_upgrade("Upgrade", "websocket"));
        assert!(is_upgrade("keep-alive, upgrade", "SPDY/3.1"));
        assert!(!is_upgrade("keep-alive", "websocket"));
        assert!(!is_upgrade("upgrade", ""));
        assert!(!scan(&[("upgrade", "websocket")]).is_upgrade);
        assert!(!is_upgrade("xupgrade", "websocket"));
        let two = [("connection", "upgrade"), ("upgrade", "a"), ("upgrade", "websocket")];
        assert!(!scan(&two).is_websocket, "the first line decides");
        let ambiguous = scan(&[("connection", "xupgrade"), ("upgrade", "websocket")]);
        assert_eq!(ambiguous.bad_connection, Some(BadConnection::AmbiguousUpgrade));
        assert_eq!(scan(&[("connection", "xupgrade")]).bad_connection, None);
    }

    #[test]
    fn header_that_the_scan_reads_cannot_be_reserved() {
        for prefix in ["x-auth-", "content-encoding", "x-forwarded-proto", "x-r"] {
            assert_eq!(can_be_reserved(prefix), prefix != "x-r", "{prefix}");
        }
        for name in READ.map(|name| std::str::from_utf8(name).unwrap()) {
            assert!((1..=name.len()).all(|end| !can_be_reserved(&name[..end])), "{name}");
            let values = [("upgrade", "websocket"), (name, "upgrade")];
            assert!(scan(&values).to_remove.is_empty(), "{name}");
        }
    }

    #[test]
    fn gateways_own_requests_are_recognised() {
        assert!(scan(&[("via", "1.1 other, 2 lab")]).is_loop);
        assert!(!scan(&[("via", "1.1 other-lab")]).is_loop);
        assert!(!scan(&[("via", "lab")]).is_loop);
    }

    #[test]
    fn token_subprotocols_are_seen_among_others() {
        let found = scan(&[("sec-websocket-protocol", "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.eA")]);
        assert!(found.token_subprotocol);
        assert!(!scan(&[("sec-websocket-protocol", "v5.channel.k8s.io")]).token_subprotocol);
    }
}

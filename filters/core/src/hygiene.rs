//! Which headers no client may send on. Found in one pass over the request, before anything else looks at it, and lifted
//! out of every request, also of those that end here.

use crate::credential::{is_token_subprotocol, subprotocols};

/// Prefixes that only the gateway, or Envoy itself, may write.
const RESERVED_PREFIXES: [&[u8]; 4] = [b"impersonate-", b"x-remote-", b"x-envoy-", b"x-portcullis-"];
const FORWARDED_CLIENT_CERT: &[u8] = b"x-forwarded-client-cert";

/// Names that describe the message or the hop itself; a `Connection` that lists them does not make them disappear.
const NOT_NOMINATED: [&[u8]; 8] =
    [b"", b"close", b"connection", b"content-length", b"host", b"keep-alive", b"transfer-encoding", b"upgrade"];

/// What one pass over a request's headers found. Borrows from them.
#[derive(Debug, Default)]
pub struct Scan<'a> {
    /// `:method`.
    pub method: &'a [u8],
    /// `:path`, with the query.
    pub path: &'a [u8],
    /// `:authority`.
    pub authority: &'a [u8],
    /// The first `Authorization` line.
    pub authorization: Option<&'a [u8]>,
    /// How many `Authorization` lines there are.
    pub authorization_lines: usize,
    /// Whether the client asks to act as somebody else, in whatever words.
    pub impersonates: bool,
    /// Whether there is a `Connection`.
    pub has_connection: bool,
    /// Whether the request asks for an upgrade: `Connection` lists the word, in any case, and there is an `Upgrade`.
    pub is_upgrade: bool,
    /// Whether kube-apiserver, which looks for the word anywhere in `Connection`, would see an upgrade where Envoy, which
    /// looks for a list's entry, sees none.
    pub is_ambiguous_upgrade: bool,
    /// Whether a WebSocket subprotocol carries a token.
    pub token_subprotocol: bool,
    /// Every `Sec-WebSocket-Protocol` line.
    pub subprotocols: Vec<&'a [u8]>,
    /// Whether the request has been through this gateway before.
    pub is_loop: bool,
    /// Names of the headers to take out. May hold a name more than once.
    pub lifted: Vec<&'a [u8]>,
}

impl<'a> Scan<'a> {
    /// Reads a request's headers; names are lower-case, as Envoy hands them out.
    pub fn of(headers: impl Iterator<Item = (&'a [u8], &'a [u8])>, instance: &[u8]) -> Self {
        let mut scan = Scan::default();
        let mut connections: Vec<&'a [u8]> = Vec::new();
        let mut has_upgrade = false;
        for (name, value) in headers {
            match name {
                b":method" => scan.method = value,
                b":path" => scan.path = value,
                b":authority" => scan.authority = value,
                b"authorization" => {
                    scan.authorization.get_or_insert(value);
                    scan.authorization_lines = scan.authorization_lines.saturating_add(1);
                }
                b"connection" => connections.push(value),
                b"upgrade" => has_upgrade |= !value.is_empty(),
                b"via" => scan.is_loop |= names_instance(value, instance),
                b"sec-websocket-protocol" => {
                    scan.token_subprotocol |= subprotocols(value).any(is_token_subprotocol);
                    scan.subprotocols.push(value);
                }
                _ if is_reserved(name) => {
                    scan.impersonates |= name.starts_with(b"impersonate-");
                    scan.lifted.push(name);
                }
                _ => {}
            }
        }
        scan.has_connection = !connections.is_empty();
        scan.is_upgrade = has_upgrade && connections.iter().any(|value| lists_upgrade(value));
        scan.is_ambiguous_upgrade =
            has_upgrade && !scan.is_upgrade && connections.iter().any(|value| contains_upgrade(value));
        for value in connections {
            scan.lift_nominated(value);
        }
        scan
    }

    fn lift_nominated(&mut self, connection: &'a [u8]) {
        for name in connection.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            let is_kept = name.starts_with(b":") || NOT_NOMINATED.iter().any(|kept| kept.eq_ignore_ascii_case(name));
            if !is_kept {
                self.lifted.push(name);
            }
        }
    }
}

/// Whether a header, or a look-alike with underscores, is one that no client may send on.
pub fn is_reserved(name: &[u8]) -> bool {
    // Most names of an honest request are settled by their first byte.
    match name.first() {
        Some(b'i') => is_like(name, b"impersonate-"),
        Some(b'x') => {
            RESERVED_PREFIXES.iter().any(|prefix| is_like(name, prefix))
                || (name.len() == FORWARDED_CLIENT_CERT.len() && is_like(name, FORWARDED_CLIENT_CERT))
        }
        _ => false,
    }
}

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

    fn scan<'a>(headers: &'a [(&'a str, &'a str)]) -> Scan<'a> {
        Scan::of(headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())), b"lab")
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
        ] {
            assert_eq!(scan(&[(name, "v")]).lifted, [name.as_bytes()], "{name}");
        }
        for name in
            ["accept", "x-request-id", "x-forwarded-for", "x-stream-protocol-version", "if-match", "impersonate"]
        {
            assert!(scan(&[(name, "v")]).lifted.is_empty(), "{name}");
        }
    }

    #[test]
    fn impersonation_is_seen_even_where_the_connection_header_would_hide_it() {
        assert!(scan(&[("impersonate-uid", "1"), ("connection", "Impersonate-Uid")]).impersonates);
        assert!(!scan(&[("impersonate_uid", "1")]).impersonates);
    }

    #[test]
    fn names_listed_in_connection_are_lifted_in_any_case() {
        let found = scan(&[("connection", "keep-alive, X-Secret ,Content-Length"), ("connection", "authorization")]);
        assert_eq!(found.lifted, [&b"X-Secret"[..], b"authorization"]);
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
        assert!(scan(&[("connection", "xupgrade"), ("upgrade", "websocket")]).is_ambiguous_upgrade);
        assert!(!scan(&[("connection", "xupgrade")]).is_ambiguous_upgrade);
    }

    #[test]
    fn the_gateways_own_requests_are_recognised() {
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

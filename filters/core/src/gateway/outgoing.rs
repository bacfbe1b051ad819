//! What a request carries when it goes upstream.

use super::Forward;
use crate::credential::{is_token_subprotocol, subprotocols};
use crate::hygiene::Scan;

/// The headers that a request goes upstream with, pseudo-headers aside. For tools: a host writes them into the message
/// that it has.
pub fn outgoing_headers<'a>(
    headers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    scan: &Scan<'_>,
    forward: &Forward<'_>,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let is_kept = |name: &[u8]| {
        let replaced = match name {
            b"connection" => true,
            b"authorization" => !forward.passed_on.credential,
            _ if name.starts_with(b"impersonate-") => !forward.passed_on.impersonation,
            b"sec-websocket-protocol" => forward.subprotocols.is_some(),
            _ => name.starts_with(b":"),
        };
        !replaced && !scan.lifted.iter().any(|lifted| lifted.eq_ignore_ascii_case(name))
    };
    let mut outgoing: Vec<(Vec<u8>, Vec<u8>)> =
        headers.filter(|(name, _)| is_kept(name)).map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    let mut add = |name: &[u8], value: &[u8]| outgoing.push((name.to_vec(), value.to_vec()));
    if forward.is_upgrade {
        add(b"connection", b"Upgrade");
    }
    if let Some(kept) = forward.subprotocols.as_deref().filter(|kept| !kept.is_empty()) {
        add(b"sec-websocket-protocol", kept);
    }
    let lines = forward.user.iter().flat_map(|user| user.lines()).chain(&forward.attribution);
    for (name, value) in lines {
        add(name.as_bytes(), value.as_bytes());
    }
    if let Some(via) = forward.via {
        add(b"via", via.as_bytes());
    }
    outgoing
}

/// The `Sec-WebSocket-Protocol` that goes upstream: all entries but those that carry a token, as kube-apiserver joins them.
pub fn subprotocols_without_tokens(scan: &Scan<'_>) -> Vec<u8> {
    let kept: Vec<&[u8]> = scan
        .subprotocols
        .iter()
        .flat_map(|line| subprotocols(line))
        .filter(|entry| !is_token_subprotocol(entry))
        .collect();
    kept.join(&b","[..])
}

//! Which bearer credential a request presents, by kube-apiserver's rules.

/// The prefix of a WebSocket subprotocol that carries a token (apiserver, `pkg/authentication/request/websocket`).
const SUBPROTOCOL_PREFIX: &[u8] = b"base64url.bearer.authorization.k8s.io.";

/// Whether an `Authorization` value presents a bearer token. Trimmed, then split at single blanks: `Bearer` in any case and
/// a second word that is not empty. Other schemes present nothing
/// (apiserver, `pkg/authentication/request/bearertoken`).
pub fn has_bearer_token(authorization: &[u8]) -> bool {
    let mut words = authorization.trim_ascii().split(|byte| *byte == b' ');
    words.next().is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer"))
        && words.next().is_some_and(|token| !token.is_empty())
}

/// The entries of a `Sec-WebSocket-Protocol` value.
pub fn subprotocols(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Whether a WebSocket subprotocol carries a token.
pub fn is_token_subprotocol(entry: &[u8]) -> bool {
    entry.starts_with(SUBPROTOCOL_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bearer_tokens_are_found_as_kube_apiserver_finds_them() {
        for present in ["Bearer x", "bearer x", "BEARER x y", " Bearer x ", "Bearer x\ty"] {
            assert!(has_bearer_token(present.as_bytes()), "{present}");
        }
        for absent in ["", "Bearer", "Bearer ", "Bearer  x", "Bearer\tx", "Basic x", "Bearerx y", "x Bearer y"] {
            assert!(!has_bearer_token(absent.as_bytes()), "{absent}");
        }
    }
}

//! Which bearer credential a request presents, by kube-apiserver's rules.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::go_strings::trim_space;

/// As Go's `RawURLEncoding`: no padding, and left-over bits may be anything.
pub(crate) const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// The prefix of a WebSocket subprotocol that carries a token (apiserver, `pkg/authentication/request/websocket`).
const SUBPROTOCOL_PREFIX: &[u8] = b"base64url.bearer.authorization.k8s.io.";

/// The most bytes of a token that is looked at.
const MAX_TOKEN: usize = 16 * 1024;

/// A token that is presented in a form that cannot succeed. The client's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token is not readable")]
pub struct BrokenToken;

/// The bearer token of an `Authorization` value. Trimmed, then split at single blanks: `Bearer` in any case and a second
/// word that is not empty. Other schemes present nothing (apiserver, `pkg/authentication/request/bearertoken`).
///
/// # Errors
/// [`BrokenToken`] if it is too long or no text.
pub fn bearer_token(authorization: &[u8]) -> Result<Option<Cow<'_, [u8]>>, BrokenToken> {
    let mut words = words(trim_space(authorization));
    match (words.next(), words.next()) {
        (Some(scheme), Some(token)) if scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty() => {
            readable(Cow::Borrowed(token)).map(Some)
        }
        _ => Ok(None),
    }
}

/// The words between single blanks. A token has a thousand bytes, so several are looked at in one instruction.
fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some((word, tail)) = memchr::memchr(b' ', text).and_then(|blank| text.split_at_checked(blank)) else {
            return rest.take();
        };
        rest = tail.get(1..);
        Some(word)
    })
}

/// The bearer token among the subprotocols of a WebSocket request (apiserver, `pkg/authentication/request/websocket`).
///
/// # Errors
/// [`BrokenToken`] if there are two, if it does not decode, or if there is no other subprotocol.
pub fn subprotocol_token<'a>(lines: &[&'a [u8]]) -> Result<Option<Cow<'a, [u8]>>, BrokenToken> {
    let entries = || lines.iter().flat_map(|line| subprotocols(line));
    let mut tokens = entries().filter_map(|entry| entry.strip_prefix(SUBPROTOCOL_PREFIX));
    let Some(encoded) = tokens.next() else { return Ok(None) };
    if tokens.next().is_some() {
        return Err(BrokenToken);
    }
    let token = BASE64URL.decode(encoded).map_err(|_| BrokenToken)?;
    if token.is_empty() {
        return Ok(None);
    }
    // An empty entry counts, too.
    if entries().all(is_token_subprotocol) {
        return Err(BrokenToken);
    }
    readable(Cow::Owned(token)).map(Some)
}

fn readable(token: Cow<'_, [u8]>) -> Result<Cow<'_, [u8]>, BrokenToken> {
    if token.len() <= MAX_TOKEN && std::str::from_utf8(&token).is_ok() { Ok(token) } else { Err(BrokenToken) }
}

/// The entries of a `Sec-WebSocket-Protocol` value.
pub fn subprotocols(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(trim_space)
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
        let token = |value: &str| bearer_token(value.as_bytes()).map(|token| token.map(Cow::into_owned));
        for present in ["Bearer x", "bearer x", "BEARER x y", " Bearer x ", "bEaReR x"] {
            assert_eq!(token(present), Ok(Some(b"x".to_vec())), "{present}");
        }
        assert_eq!(token("Bearer x\ty"), Ok(Some(b"x\ty".to_vec())), "a tab is no separator");
        assert_eq!(token("\u{a0}Bearer x\u{3000}"), Ok(Some(b"x".to_vec())), "Go trims these blanks, too");
        for absent in ["", "Bearer", "Bearer ", "Bearer  x", "Bearer\tx", "Basic x", "Bearerx y", "x Bearer y"] {
            assert_eq!(token(absent), Ok(None), "{absent}");
        }
        assert_eq!(token(&format!("Bearer {}", "x".repeat(MAX_TOKEN + 1))), Err(BrokenToken));
        assert_eq!(bearer_token(b"Bearer \xff"), Err(BrokenToken));
    }

    #[test]
    fn subprotocol_tokens_are_found_as_kube_apiserver_finds_them() {
        let token = |lines: &[&str]| {
            let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
            subprotocol_token(&lines).map(|token| token.map(Cow::into_owned))
        };
        let entry = |text: &str| format!("base64url.bearer.authorization.k8s.io.{text}");
        assert_eq!(token(&["v5.channel.k8s.io"]), Ok(None));
        assert_eq!(token(&[&entry("dG9rZW4"), "v5.channel.k8s.io"]), Ok(Some(b"token".to_vec())));
        assert_eq!(token(&[&format!("v5.channel.k8s.io , {}", entry("dG9rZW4"))]), Ok(Some(b"token".to_vec())));
        assert_eq!(token(&[&entry("eR"), "a"]), Ok(Some(b"y".to_vec())), "left-over bits may be anything");
        assert_eq!(token(&[&entry(""), "a"]), Ok(None));
        assert_eq!(token(&[&entry("")]), Ok(None), "an empty token is none, whatever stands beside it");
        assert_eq!(token(&[&entry("eA"), ""]), Ok(Some(b"x".to_vec())), "an empty subprotocol is another one");
        assert_eq!(token(&[&format!("{},", entry("eA"))]), Ok(Some(b"x".to_vec())));
        for broken in [
            vec![entry("dG9rZW4")],
            vec![entry("dG9rZW4"), entry("dG9rZW4"), "a".to_owned()],
            vec![entry("dG9rZW4="), "a".to_owned()],
            vec![entry("_w"), "a".to_owned()],
            vec![entry("!!"), "a".to_owned()],
        ] {
            let lines: Vec<&str> = broken.iter().map(String::as_str).collect();
            assert_eq!(token(&lines), Err(BrokenToken), "{lines:?}");
        }
        let other_case = format!("Base64url.bearer.authorization.k8s.io.{}", "dG9rZW4");
        assert_eq!(token(&[&other_case, "a"]), Ok(None));
    }
}

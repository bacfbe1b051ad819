use std::borrow::Cow;

use portcullis_core::credential::{BrokenToken, bearer_token, subprotocol_token};
use portcullis_core::gateway::subprotocols_without_tokens;
use portcullis_core::header_scan::HeaderScan;
use portcullis_filter_config::hex;
use ring::digest::{SHA256, digest};

use super::answer::{CredentialAnswer, text};

type Presented<'a> = Result<Option<Cow<'a, [u8]>>, BrokenToken>;

const NONE: CredentialAnswer =
    CredentialAnswer { outcome: "none", source: None, token_sha256: None, subprotocols_after_success: None };

/// The first token that is presented in a readable form; else an error, if there was one. Of several `Authorization` lines
/// none counts: the gateway refuses the request.
pub(super) fn read(scan: &HeaderScan<'_>) -> CredentialAnswer {
    if scan.authorization_lines > 1 {
        return CredentialAnswer { outcome: "error", source: Some("authorization"), ..NONE };
    }
    let from_header: Presented<'_> = scan.authorization.map_or(Ok(None), bearer_token);
    let from_subprotocol: Presented<'_> =
        if scan.is_websocket { subprotocol_token(&scan.subprotocols) } else { Ok(None) };
    let mut answer = NONE;
    for (presented, source) in [(from_header, "authorization"), (from_subprotocol, "websocket")] {
        match presented {
            Ok(Some(token)) => {
                let left = scan.is_websocket && scan.token_subprotocol;
                return CredentialAnswer {
                    outcome: "token",
                    source: Some(source),
                    token_sha256: Some(sha256_hex(&token)),
                    subprotocols_after_success: left.then(|| text(&subprotocols_without_tokens(scan))),
                };
            }
            Err(BrokenToken) if answer.source.is_none() => {
                answer = CredentialAnswer { outcome: "error", source: Some(source), ..answer };
            }
            _ => {}
        }
    }
    answer
}

fn sha256_hex(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

use http_body_util::{BodyExt, Limited};
use hyper::StatusCode;
use portcullis_api::{Cluster, Endpoint, JwksError, ServerHost, TOKEN_KEYS_PATH, is_allowed_server, read_keys};
use portcullis_filter_config::RequestHeaders;
use tokio::net::lookup_host;
use tokio::time::timeout;

use super::session::{ANSWER, GatewaySession};

/// The media type of a JSON Web Key Set: kube-apiserver has it in no other.
const KEY_SET: &str = "application/jwk-set+json";
/// Most bytes of an answer: an object has no larger set.
const MAX_ANSWER: usize = 64 << 10;
/// Most addresses of a server that are asked: the caller waits for a few seconds.
const MAX_ADDRESSES: usize = 4;

/// Why a server's keys are not known. Nothing that the server says is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenKeysError {
    #[error("the gateway's credential cannot be used")]
    Credential,
    #[error("no server has answered")]
    Answer,
    #[error("no server is written: discovered ones are not asked")]
    NoServer,
    #[error("its name resolves to no address that a server may have")]
    Address,
    /// The status is not shown: it would say what there is at an address that only the control plane reaches.
    #[error("the answer of {TOKEN_KEYS_PATH} is no key set: portcullis rbac prints the right to read it")]
    Status,
    #[error("the answer of {TOKEN_KEYS_PATH} {0}")]
    Keys(#[from] JwksError),
}

/// Asks a server for the keys of its service accounts' tokens, as the gateway: a JSON Web Key Set.
pub(crate) async fn read_token_keys(
    cluster: &Cluster,
    endpoint: &Endpoint,
    headers: &RequestHeaders,
    allow_loopback: bool,
) -> Result<String, TokenKeysError> {
    let mut keys = Err(TokenKeysError::Answer);
    for address in allowed_addresses(endpoint, allow_loopback).await? {
        let mut session = GatewaySession::open(cluster, &address).map_err(|_| TokenKeysError::Credential)?;
        session.headers = headers.clone();
        keys = read_at(&session).await;
        if keys.is_ok() {
            break;
        }
    }
    keys
}

async fn read_at(session: &GatewaySession) -> Result<String, TokenKeysError> {
    let response = session.read(TOKEN_KEYS_PATH, KEY_SET).await.map_err(|_| TokenKeysError::Answer)?;
    if response.status() != StatusCode::OK {
        return Err(TokenKeysError::Status);
    }
    let body = timeout(ANSWER, Limited::new(response.into_body(), MAX_ANSWER).collect()).await;
    let body = body.map_err(|_| TokenKeysError::Answer)?.map_err(|_| TokenKeysError::Answer)?.to_bytes();
    let text = String::from_utf8(body.to_vec()).map_err(|_| JwksError::Form)?;
    read_keys(&text)?;
    Ok(text)
}

/// The first addresses of a server. A DNS name was judged by its spelling only; here it is known what it resolves to, and no other
/// address is connected to.
async fn allowed_addresses(endpoint: &Endpoint, allow_loopback: bool) -> Result<Vec<Endpoint>, TokenKeysError> {
    let found = lookup_host(endpoint.to_string()).await.map_err(|_| TokenKeysError::Answer)?;
    let allowed = found.filter(|address| is_allowed_server(address.ip(), allow_loopback)).take(MAX_ADDRESSES);
    let allowed: Vec<_> =
        allowed.map(|address| Endpoint { host: ServerHost::Ip(address.ip()), port: address.port() }).collect();
    if allowed.is_empty() { Err(TokenKeysError::Address) } else { Ok(allowed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn name_of_the_control_planes_own_machine_is_not_asked() {
        let named = Endpoint { host: ServerHost::Dns("localhost".to_owned()), port: 6443 };
        assert_eq!(allowed_addresses(&named, false).await, Err(TokenKeysError::Address));
        let loopback = allowed_addresses(&named, true).await.unwrap();
        assert!(matches!(loopback[0].host, ServerHost::Ip(ip) if ip.is_loopback()));
        for (ip, is_allowed) in [([169, 254, 169, 254], false), ([192, 0, 2, 1], true)] {
            let written = Endpoint { host: ServerHost::Ip(ip.into()), port: 6443 };
            assert_eq!(
                allowed_addresses(&written, true).await,
                if is_allowed { Ok(vec![written]) } else { Err(TokenKeysError::Address) }
            );
        }
    }
}

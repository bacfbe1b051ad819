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

/// Why a server's keys are not known. Nothing that the server says is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenKeysError {
    #[error("the gateway's credential cannot be used")]
    Credential,
    #[error("no server has answered")]
    Answer,
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
    let address = allowed_address(endpoint, allow_loopback).await?;
    let mut session = GatewaySession::open(cluster, &address).map_err(|_| TokenKeysError::Credential)?;
    session.headers = headers.clone();
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

/// The address of a server. A DNS name was judged by its spelling only; here it is known what it resolves to, and no other address
/// is connected to.
async fn allowed_address(endpoint: &Endpoint, allow_loopback: bool) -> Result<Endpoint, TokenKeysError> {
    let mut found = lookup_host(endpoint.to_string()).await.map_err(|_| TokenKeysError::Answer)?;
    let address = found.find(|address| is_allowed_server(address.ip(), allow_loopback));
    let address = address.ok_or(TokenKeysError::Address)?;
    Ok(Endpoint { host: ServerHost::Ip(address.ip()), port: address.port() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn name_of_the_control_planes_own_machine_is_not_asked() {
        let named = Endpoint { host: ServerHost::Dns("localhost".to_owned()), port: 6443 };
        assert_eq!(allowed_address(&named, false).await, Err(TokenKeysError::Address));
        assert!(matches!(allowed_address(&named, true).await.unwrap().host, ServerHost::Ip(ip) if ip.is_loopback()));
        for (ip, is_allowed) in [([169, 254, 169, 254], false), ([192, 0, 2, 1], true)] {
            let written = Endpoint { host: ServerHost::Ip(ip.into()), port: 6443 };
            assert_eq!(
                allowed_address(&written, true).await,
                if is_allowed { Ok(written) } else { Err(TokenKeysError::Address) }
            );
        }
    }
}

use http_body_util::{BodyExt, Limited};
use hyper::StatusCode;
use portcullis_api::{Cluster, Endpoint, JwksError, TOKEN_KEYS_PATH, read_keys};
use portcullis_filter_config::RequestHeaders;
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
    #[error("the answer of {TOKEN_KEYS_PATH} is {0}: portcullis rbac prints the right to read it")]
    Status(StatusCode),
    #[error("the answer of {TOKEN_KEYS_PATH} {0}")]
    Keys(#[from] JwksError),
}

/// Asks a server for the keys of its service accounts' tokens, as the gateway: a JSON Web Key Set.
pub(crate) async fn read_token_keys(
    cluster: &Cluster,
    endpoint: &Endpoint,
    headers: &RequestHeaders,
) -> Result<String, TokenKeysError> {
    let mut session = GatewaySession::open(cluster, endpoint).map_err(|_| TokenKeysError::Credential)?;
    session.headers = headers.clone();
    let response = session.read(TOKEN_KEYS_PATH, KEY_SET).await.map_err(|_| TokenKeysError::Answer)?;
    if response.status() != StatusCode::OK {
        return Err(TokenKeysError::Status(response.status()));
    }
    let body = timeout(ANSWER, Limited::new(response.into_body(), MAX_ANSWER).collect()).await;
    let body = body.map_err(|_| TokenKeysError::Answer)?.map_err(|_| TokenKeysError::Answer)?.to_bytes();
    let text = String::from_utf8(body.to_vec()).map_err(|_| JwksError::Form)?;
    read_keys(&text)?;
    Ok(text)
}

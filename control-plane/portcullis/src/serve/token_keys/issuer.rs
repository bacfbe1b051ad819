use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{Empty, LengthLimitError};
use hyper::{Request, StatusCode, header};
use portcullis_api::{
    AskedIssuer, DiscoveryDocumentError, IssuerUrl, JwksError, ServerHost, read_discovery_document, read_keys,
};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::super::tls_connection::{TlsConnectionError, connect, handshake, roots, trusting};
use crate::http_client::{HttpError, ResponseLimits, read, send_on};

/// Time for an answer, from its connection on, and most bytes of it: an object has no larger set.
const ANSWER: ResponseLimits = ResponseLimits { time: Duration::from_secs(8), bytes: 64 << 10 };

/// Why an issuer's keys are not known. Nothing that a server says is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum IssuerKeysError {
    #[error("its CAs, or those of this system, cannot be used")]
    Authorities,
    #[error("no server answers with a certificate for the URL's host by one of the CAs")]
    Connect,
    #[error("the URL's host is no address that may be asked")]
    Address,
    #[error("no answer in time")]
    Timeout,
    #[error("the answer broke off")]
    Answer,
    #[error("the answer is larger than {} bytes", ANSWER.bytes)]
    Size,
    /// The status is not shown: it would say what there is at an address that only the control plane reaches.
    #[error("the answer is not 200 OK; redirects are not followed")]
    Status,
    #[error("{0}")]
    Document(#[from] DiscoveryDocumentError),
    #[error("the answer {0}")]
    Keys(#[from] JwksError),
}

/// Reads the keys of an issuer: a JSON Web Key Set.
pub(super) async fn read_issuer_keys(asked: &AskedIssuer, allow_loopback: bool) -> Result<String, IssuerKeysError> {
    let tls = tls_of(asked).await?;
    let get = async |url: &IssuerUrl| {
        timeout(ANSWER.time, get(url, &tls, allow_loopback)).await.unwrap_or(Err(IssuerKeysError::Timeout))
    };
    let answer = get(&asked.url).await?;
    let keys = if asked.is_discovery {
        get(&read_discovery_document(&answer, &asked.issuer, allow_loopback)?).await?
    } else {
        answer
    };
    let text = String::from_utf8(keys.to_vec()).map_err(|_| JwksError::Form)?;
    read_keys(&text)?;
    Ok(text)
}

async fn tls_of(asked: &AskedIssuer) -> Result<Arc<ClientConfig>, IssuerKeysError> {
    let roots = match &asked.authorities {
        Some(pem) => roots(pem.as_slice()),
        // They are files, which may be renewed.
        None => spawn_blocking(system_roots).await.ok().filter(|roots| !roots.is_empty()),
    };
    let builder = roots.and_then(trusting).ok_or(IssuerKeysError::Authorities)?;
    Ok(Arc::new(builder.with_no_client_auth()))
}

fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

async fn get(url: &IssuerUrl, tls: &Arc<ClientConfig>, allow_loopback: bool) -> Result<Bytes, IssuerKeysError> {
    let failed = |error| match error {
        TlsConnectionError::Connect => IssuerKeysError::Connect,
        TlsConnectionError::Address => IssuerKeysError::Address,
    };
    let (name, host) = match &url.endpoint.host {
        ServerHost::Dns(name) => (ServerName::try_from(name.clone()).ok(), name.clone()),
        ServerHost::Ip(ip) => (Some(ServerName::from(*ip)), url.endpoint.to_string()),
    };
    let host = if url.endpoint.port == 443 { host } else { url.endpoint.to_string() };
    let stream = connect(&url.endpoint, allow_loopback).await.map_err(failed)?;
    let stream = handshake(stream, name.ok_or(IssuerKeysError::Connect)?, tls).await.map_err(failed)?;
    let request = Request::get(&url.path)
        .header(header::HOST, host)
        .header(header::ACCEPT, "application/json, application/jwk-set+json")
        .header(header::USER_AGENT, "portcullis")
        .body(Empty::new())
        .map_err(|_| IssuerKeysError::Answer)?;
    let answer = send_on(stream, request).await.map_err(|_| IssuerKeysError::Answer)?;
    match read(answer, ANSWER).await {
        Ok((StatusCode::OK, body)) => Ok(body),
        Ok(_) => Err(IssuerKeysError::Status),
        Err(HttpError::Body(error)) if error.is::<LengthLimitError>() => Err(IssuerKeysError::Size),
        Err(_) => Err(IssuerKeysError::Answer),
    }
}

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode, header};
use portcullis_api::{Endpoint, PeerName};
use rustls::ClientConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::super::tls_connection::{TlsConnectionError, connect, handshake, roots, trusting};
use super::want::UpstreamAccess;
use crate::http_client::{HttpError, send_on};

/// How long a connection, a handshake on it, and the head of an answer may each take.
const STEP: Duration = Duration::from_secs(5);
/// Most bytes of a list, and of an event of a watch. The EndpointSlice of a thousand kube-apiservers has 150 KB.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// Why the upstream does not say which servers it has. No variant quotes what a server sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpstreamError {
    #[error("the credential or the CA cannot be used")]
    Credential,
    /// Whether there is something at the address is not said: only the control plane may reach it.
    #[error("{0}: no connection with a certificate of the object's CA and server name")]
    Connect(Endpoint),
    #[error("{0} resolves to an address that a server may not have")]
    Refused(Endpoint),
    #[error("the request failed")]
    Exchange(#[from] HttpError),
    #[error("the answer is {0}: may the gateway's user get, list and watch the EndpointSlice? (portcullis rbac)")]
    Status(StatusCode),
    #[error("no answer in time")]
    Timeout,
    #[error("the answer is too large or broke off")]
    Body,
    #[error("the answer is no EndpointSlice")]
    Content,
    #[error("the watch has more events than the EndpointSlice can have")]
    Noise,
}

/// An answer whose lines are read one by one.
pub(super) struct AnswerLines {
    body: Incoming,
    driver: JoinHandle<()>,
    rest: BytesMut,
    /// How many bytes of the rest hold no end of a line.
    scanned: usize,
}

impl Drop for AnswerLines {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// TLS as the gateway's own: the same CA, the same name in the certificate, the same client certificate.
pub(super) fn tls_of(access: &UpstreamAccess) -> Result<Arc<ClientConfig>, UpstreamError> {
    let builder = roots(access.authorities.as_slice()).and_then(trusting).ok_or(UpstreamError::Credential)?;
    let Some(pair) = &access.certificate else { return Ok(Arc::new(builder.with_no_client_auth())) };
    let unusable = |_| UpstreamError::Credential;
    let chain =
        CertificateDer::pem_slice_iter(pair.chain.as_slice()).collect::<Result<Vec<_>, _>>().map_err(unusable)?;
    let key = PrivateKeyDer::from_pem_slice(pair.key.expose()).map_err(unusable)?;
    let config = builder.with_client_auth_cert(chain, key).map_err(|_| UpstreamError::Credential)?;
    Ok(Arc::new(config))
}

/// Sends a GET to a server as the gateway.
pub(super) async fn get(
    access: &UpstreamAccess,
    tls: &Arc<ClientConfig>,
    server: &Endpoint,
    allow_loopback: bool,
    path: &str,
) -> Result<AnswerLines, UpstreamError> {
    let failed = |error| match error {
        TlsConnectionError::Connect => UpstreamError::Connect(server.clone()),
        TlsConnectionError::Address => UpstreamError::Refused(server.clone()),
    };
    let late = |_| UpstreamError::Connect(server.clone());
    let stream = timeout(STEP, connect(server, allow_loopback)).await.map_err(late)?.map_err(failed)?;
    let (name, host) = match &access.peer_name {
        PeerName::Dns(name) => {
            let parsed = ServerName::try_from(name.clone()).map_err(|_| UpstreamError::Credential)?;
            (parsed, name.clone())
        }
        PeerName::Ip(ip) => (ServerName::from(*ip), ip.to_string()),
    };
    let stream = timeout(STEP, handshake(stream, name, tls)).await.map_err(late)?.map_err(failed)?;
    let request = request(access, &host, path)?;
    let (response, driver) = timeout(STEP, send_on(stream, request)).await.map_err(|_| UpstreamError::Timeout)??;
    answer(response, driver)
}

fn request(access: &UpstreamAccess, host: &str, path: &str) -> Result<Request<Empty<Bytes>>, UpstreamError> {
    let mut request = Request::get(path).header(header::HOST, host).header(header::ACCEPT, "application/json");
    if let Some(token) = &access.token {
        let value = [b"Bearer ".as_slice(), token.expose()].concat();
        let mut value = header::HeaderValue::from_bytes(&value).map_err(|_| UpstreamError::Credential)?;
        value.set_sensitive(true);
        request = request.header(header::AUTHORIZATION, value);
    }
    if let Some((name, user)) = &access.user {
        request = request.header(name, user);
    }
    request.body(Empty::new()).map_err(|_| UpstreamError::Credential)
}

fn answer(response: Response<Incoming>, driver: JoinHandle<()>) -> Result<AnswerLines, UpstreamError> {
    let (head, body) = response.into_parts();
    let lines = AnswerLines { body, driver, rest: BytesMut::new(), scanned: 0 };
    if head.status == StatusCode::OK { Ok(lines) } else { Err(UpstreamError::Status(head.status)) }
}

impl AnswerLines {
    /// The whole body, which is one document.
    pub(super) async fn whole(mut self) -> Result<Bytes, UpstreamError> {
        let reading = async {
            while self.fill().await? {}
            Ok(std::mem::take(&mut self.rest).freeze())
        };
        timeout(STEP, reading).await.map_err(|_| UpstreamError::Timeout)?
    }

    /// The next line; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        loop {
            if let Some(end) = self.rest.iter().skip(self.scanned).position(|byte| *byte == b'\n') {
                let line = self.rest.split_to(self.scanned + end).freeze();
                self.rest.advance(1);
                self.scanned = 0;
                return Ok(Some(line));
            }
            self.scanned = self.rest.len();
            if !self.fill().await? {
                return Ok(None);
            }
        }
    }

    async fn fill(&mut self) -> Result<bool, UpstreamError> {
        let Some(frame) = self.body.frame().await else { return Ok(false) };
        let frame = frame.map_err(|_| UpstreamError::Body)?;
        if let Some(data) = frame.data_ref() {
            if self.rest.len().saturating_add(data.len()) > MAX_BYTES {
                return Err(UpstreamError::Body);
            }
            self.rest.extend_from_slice(data);
        }
        Ok(true)
    }
}

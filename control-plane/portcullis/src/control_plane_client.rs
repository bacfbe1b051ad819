//! A client of the control plane's pages, for `portcullis status` and `portcullis top`.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use clap::Args;
use http_body_util::Empty;
use hyper::{Request, StatusCode, header};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::http_client::{HttpError, ResponseLimits, read, send_on};
use crate::tls_client::{ClientTlsError, Identity, client_config};

/// The address of a control plane, and the credential for it.
#[derive(Clone, Debug, Args)]
pub(crate) struct ControlPlaneAddress {
    /// Address of the control plane's pages (--http-address of `portcullis serve`): an IP address or host name, and the port.
    #[arg(long, env = "PORTCULLIS_HTTP_ADDRESS", value_name = "HOST:PORT", default_value = "127.0.0.1:9080",
        value_parser = address)]
    address: String,
    /// The CAs that sign the control plane's certificate, PEM: asks over TLS.
    #[arg(long, value_name = "FILE")]
    certificate_authority: Option<PathBuf>,
    /// The name that its certificate must carry; the host of --address if unset.
    #[arg(long, value_name = "NAME", requires = "certificate_authority")]
    tls_server_name: Option<String>,
    /// A client certificate to log in with, PEM.
    #[arg(long, value_name = "FILE", requires_all = ["certificate_authority", "client_key"])]
    client_certificate: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, value_name = "FILE", requires = "client_certificate")]
    client_key: Option<PathBuf>,
    /// File with a token to log in with. It is read for each request, and sent over TLS or to this machine only.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// A host and a port; the host is looked up when it is asked.
fn address(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(_)) => Ok(text.to_owned()),
        _ => Err("must be HOST:PORT".to_owned()),
    }
}

/// A name as one segment of a path, or as a value of a query.
pub(crate) fn escaped(name: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    name.bytes().map(escape).collect()
}

/// Whether a token may be sent there without TLS.
fn is_this_machine(peer: IpAddr) -> bool {
    peer.to_canonical().is_loopback()
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error("cannot ask the control plane at {0}; does `portcullis serve` run there?")]
    Ask(String, #[source] HttpError),
    #[error("cannot ask the control plane over TLS")]
    Tls(#[from] ClientTlsError),
    #[error("{0} is no server name: set --tls-server-name")]
    Name(String),
    #[error("the handshake with {0} failed")]
    Handshake(String, #[source] io::Error),
    #[error("cannot read the token in {0}")]
    Token(PathBuf, #[source] io::Error),
    #[error("the token is not sent to {0} without TLS: set --certificate-authority, or use `kubectl port-forward`")]
    PlainToken(String),
    #[error("the control plane at {0} wants a login: --token-file, or --client-certificate")]
    Login(String),
    #[error("the control plane at {0} does not let this user read it")]
    Forbidden(String),
    #[error("the control plane at {0} has no such page: it is of an older release, or knows no object of that name")]
    NotFound(String),
}

impl ControlPlaneAddress {
    /// The body of a page.
    pub(crate) async fn get(&self, path: &str, limits: ResponseLimits) -> Result<Bytes, AskError> {
        let exchange = timeout(limits.time, self.exchange(path, limits)).await;
        let (status, body) = exchange.map_err(|_| self.failed(HttpError::Timeout(limits.time)))??;
        match status {
            StatusCode::UNAUTHORIZED => Err(AskError::Login(self.address.clone())),
            StatusCode::FORBIDDEN => Err(AskError::Forbidden(self.address.clone())),
            StatusCode::NOT_FOUND => Err(AskError::NotFound(self.address.clone())),
            status if status.is_success() => Ok(body),
            status => Err(self.failed(HttpError::Status(status))),
        }
    }

    async fn exchange(&self, path: &str, limits: ResponseLimits) -> Result<(StatusCode, Bytes), AskError> {
        let failed = |error| self.failed(error);
        let stream = TcpStream::connect(&self.address).await.map_err(|error| failed(HttpError::Connect(error)))?;
        let peer = stream.peer_addr().map_err(|error| failed(HttpError::Connect(error)))?;
        // By address: a control plane refuses host names that it was not given.
        let mut request = Request::get(path).header(header::HOST, peer.to_string());
        if let Some(token) = self.token()? {
            if self.certificate_authority.is_none() && !is_this_machine(peer.ip()) {
                return Err(AskError::PlainToken(self.address.clone()));
            }
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Empty::new()).map_err(|error| failed(error.into()))?;
        let sent = match &self.certificate_authority {
            None => send_on(stream, request).await,
            Some(ca) => {
                let (connector, name) = self.connector(ca.clone())?;
                let tls = connector.connect(name, stream).await;
                send_on(tls.map_err(|error| AskError::Handshake(self.address.clone(), error))?, request).await
            }
        };
        read(sent.map_err(failed)?, limits).await.map_err(failed)
    }

    fn failed(&self, error: HttpError) -> AskError {
        AskError::Ask(self.address.clone(), error)
    }

    fn token(&self) -> Result<Option<String>, AskError> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let read = std::fs::read_to_string(path).map_err(|error| AskError::Token(path.clone(), error))?;
        Ok(Some(read.trim().to_owned()))
    }

    fn connector(&self, ca: PathBuf) -> Result<(TlsConnector, ServerName<'static>), AskError> {
        let files = self.client_certificate.as_deref().zip(self.client_key.as_deref());
        let identity = files.map(|(certificate, key)| Identity { certificate, key });
        let mut config = client_config(&ca, identity)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let host = || self.address.rsplit_once(':').map_or("", |(host, _)| host.trim_matches(['[', ']']));
        let name = self.tls_server_name.as_deref().unwrap_or_else(host).to_owned();
        let name = ServerName::try_from(name.clone()).map_err(|_| AskError::Name(name))?;
        Ok((TlsConnector::from(Arc::new(config)), name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_sent_in_the_clear_to_this_machine_only() {
        for (peer, is_so) in [
            ("127.0.0.1", true),
            ("127.8.8.8", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.0.0.1", false),
            ("0.0.0.0", false),
            ("fe80::1", false),
            ("::ffff:10.0.0.1", false),
        ] {
            assert_eq!(is_this_machine(peer.parse().unwrap()), is_so, "{peer}");
        }
    }

    #[test]
    fn address_has_a_host_and_a_port() {
        for good in ["127.0.0.1:9080", "[::1]:9080", "control.example.com:443"] {
            assert!(address(good).is_ok(), "{good}");
        }
        for bad in ["", "9080", ":9080", "host", "host:", "host:x", "host:70000"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}

//! TLS connections of the control plane's own to addresses that objects name.

use std::sync::Arc;

use portcullis_api::{Endpoint, is_allowed_server};
use rustls::client::WantsClientCert;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Why there is no connection. Nothing in it describes the address: only the control plane may reach that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TlsConnectionError {
    /// No address answers with a certificate of the name by one of the CAs.
    Connect,
    /// The name resolves to no address that a server may have.
    Address,
}

/// The certificates of a PEM bundle; `None` if it cannot be used.
pub(super) fn roots(pem: &[u8]) -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(pem) {
        roots.add(root.ok()?).ok()?;
    }
    Some(roots)
}

/// TLS with these CAs, without a client certificate yet.
pub(super) fn trusting(roots: RootCertStore) -> Option<ConfigBuilder<ClientConfig, WantsClientCert>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Some(builder.ok()?.with_root_certificates(roots))
}

/// Connects to one of a server's addresses. A DNS name was judged by its spelling only; here it is known what it resolves to, and no
/// other address is connected to.
pub(super) async fn connect(server: &Endpoint, allow_loopback: bool) -> Result<TcpStream, TlsConnectionError> {
    let resolved = lookup_host(server.to_string()).await.map_err(|_| TlsConnectionError::Connect)?;
    let allowed: Vec<_> = resolved.filter(|address| is_allowed_server(address.ip(), allow_loopback)).collect();
    if allowed.is_empty() {
        return Err(TlsConnectionError::Address);
    }
    TcpStream::connect(allowed.as_slice()).await.map_err(|_| TlsConnectionError::Connect)
}

/// Shakes hands with the server of this name.
pub(super) async fn handshake(
    stream: TcpStream,
    name: ServerName<'static>,
    tls: &Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>, TlsConnectionError> {
    let connector = TlsConnector::from(Arc::clone(tls));
    connector.connect(name, stream).await.map_err(|_| TlsConnectionError::Connect)
}

#[cfg(test)]
mod tests {
    use portcullis_api::ServerHost;

    use super::*;

    /// A name is judged by its addresses, and an address as it is: nothing is connected to.
    #[tokio::test]
    async fn addresses_that_no_server_may_have_are_not_connected_to() {
        let name = || ServerHost::Dns("localhost".to_owned());
        let ip = |text: &str| ServerHost::Ip(text.parse().unwrap());
        let table = [
            (name(), false),
            (ip("127.0.0.1"), false),
            (ip("::1"), false),
            (ip("::ffff:127.0.0.1"), false),
            (ip("169.254.169.254"), false),
            (ip("169.254.169.254"), true),
        ];
        for (host, allow_loopback) in table {
            let server = Endpoint { host, port: 443 };
            let refused = connect(&server, allow_loopback).await.err();
            assert_eq!(refused, Some(TlsConnectionError::Address), "{server} {allow_loopback}");
        }
    }
}

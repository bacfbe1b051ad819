//! TLS for the pages, at the port that also answers probes in plain text.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use portcullis_core::identity::UserInfo;
use portcullis_core::x509::{ClientCa, ClientChain, Validity, encode_chain, verify};
use portcullis_xds::{Credentials, TlsError};
use rustls_pki_types::UnixTime;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The first byte of a TLS connection: a record of a handshake (RFC 8446, section 5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// The server's certificate, and the CAs of clients.
#[derive(Debug)]
pub(crate) struct PageTls {
    credentials: Credentials,
    /// The CAs that were read last, and their PEM.
    client_ca: Mutex<(Vec<u8>, Option<Arc<ClientCa>>)>,
}

/// The user of a client certificate, and for how long it may be believed.
#[derive(Clone, Debug)]
pub(crate) struct CertificateUser {
    user: UserInfo,
    validity: Validity,
}

impl PageTls {
    /// Reads the files; they are read anew when they change.
    pub(crate) fn open(certificate: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Self, TlsError> {
        let credentials = Credentials::of_pages(certificate, key, client_ca)?;
        Ok(Self { credentials, client_ca: Mutex::default() })
    }

    /// Makes the handshake; returns the user of the client's certificate, if it shows one that names a user.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
    ) -> io::Result<(TlsStream<TcpStream>, Option<CertificateUser>)> {
        let stream = TlsAcceptor::from(self.credentials.newest()).accept(stream).await?;
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let user = if chain.is_empty() { None } else { self.user(chain) };
        Ok((stream, user))
    }

    fn user(&self, chain: &[rustls_pki_types::CertificateDer<'_>]) -> Option<CertificateUser> {
        let encoded = encode_chain(chain.iter().map(|certificate| &**certificate));
        let verified =
            verify(&ClientChain::decode(&encoded).ok()?, self.client_ca()?.as_ref(), UnixTime::now()).ok()?;
        Some(CertificateUser { user: verified.user?, validity: verified.window })
    }

    fn client_ca(&self) -> Option<Arc<ClientCa>> {
        let pem = self.credentials.client_ca();
        // It is replaced in one step: a panic elsewhere leaves it whole.
        let mut known = self.client_ca.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != pem {
            let read = ClientCa::from_pem(&String::from_utf8_lossy(&pem));
            *known = (pem, read.ok().map(Arc::new));
        }
        known.1.clone()
    }
}

impl CertificateUser {
    /// The user, while the certificate and its issuers are valid.
    pub(crate) fn user(&self) -> Option<&UserInfo> {
        self.validity.contains(UnixTime::now()).then_some(&self.user)
    }
}

/// Whether a client begins a handshake, by its first byte, which stays to be read.
pub(crate) async fn begins_handshake(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    Ok(stream.peek(&mut first).await? == 1 && first == [HANDSHAKE_RECORD])
}

//! The target of a TLS connection, and its parameters.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme, SupportedProtocolVersion};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::KeyStore;
use crate::certs::{Ca, Identity};
use crate::error::{Error, Result};
use crate::wait;

/// The trusted server certificates.
#[derive(Debug, Clone)]
pub enum Trust {
    /// Those of this authority (DER) that carry the name connected to.
    Ca(Vec<u8>),
    /// Any: for tests that are about something else.
    Anybody,
}

/// Of the versions that rustls supports, the older one.
static TLS12: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];

/// A TLS server to connect to, with the client's side of the handshake.
#[derive(Debug, Clone)]
pub struct TlsTarget {
    pub(super) address: SocketAddr,
    pub(super) sni: Option<String>,
    pub(super) trust: Trust,
    pub(super) identity: Option<Identity>,
    pub(super) keystore: Option<KeyStore>,
    pub(super) alpn: Vec<Vec<u8>>,
    pub(super) timeout: Duration,
    pub(super) preamble: Vec<u8>,
    pub(super) is_tunnel: bool,
    pub(super) sessions: Option<Arc<ClientConfig>>,
    pub(super) versions: &'static [&'static SupportedProtocolVersion],
    pub(super) suites: Vec<String>,
}

/// As for conditions.
fn patient(timeout: Duration) -> Duration {
    timeout.saturating_mul(wait::deadline_factor())
}

impl TlsTarget {
    /// The server at `address`, believed whatever it shows, without SNI, ALPN and client certificate.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            sni: None,
            trust: Trust::Anybody,
            identity: None,
            keystore: None,
            alpn: Vec::new(),
            timeout: patient(Duration::from_secs(10)),
            preamble: Vec::new(),
            is_tunnel: false,
            sessions: None,
            versions: rustls::DEFAULT_VERSIONS,
            suites: Vec::new(),
        }
    }

    /// Sends this SNI and (with [`TlsTarget::trust`]) wants the server's certificate to carry it.
    #[must_use]
    pub fn sni(self, name: &str) -> Self {
        Self { sni: Some(name.to_owned()), ..self }
    }

    /// Believes only this authority.
    #[must_use]
    pub fn trust(self, ca: &Ca) -> Self {
        Self { trust: Trust::Ca(ca.certificate_der().to_owned()), ..self }
    }

    /// Shows this client certificate.
    #[must_use]
    pub fn identity(self, identity: &Identity) -> Self {
        Self { identity: Some(identity.clone()), ..self }
    }

    /// Shows one of these client certificates, as the server asks for.
    #[must_use]
    pub fn keystore(self, keystore: &KeyStore) -> Self {
        Self { keystore: Some(keystore.clone()), ..self }
    }

    /// Offers these protocols, like `http/1.1`.
    #[must_use]
    pub fn alpn(self, protocols: &[&str]) -> Self {
        Self { alpn: protocols.iter().map(|name| name.as_bytes().to_owned()).collect(), ..self }
    }

    /// Sends these bytes before the handshake, as a proxy does that speaks the PROXY protocol.
    #[must_use]
    pub fn preamble(self, bytes: &[u8]) -> Self {
        Self { preamble: bytes.to_owned(), ..self }
    }

    /// Sends this request before the handshake, and wants it to be answered with 200: HTTP CONNECT to a proxy.
    #[must_use]
    pub fn tunnel(self, request: &[u8]) -> Self {
        Self { preamble: request.to_owned(), is_tunnel: true, ..self }
    }

    /// Resumes the sessions of earlier connections to this target and its clones. Of the client's side only the name that it
    /// asks for can be changed from here on.
    ///
    /// # Errors
    /// [`Error::Tls`].
    pub fn resuming(self) -> Result<Self> {
        let mut config = (*self.config()?).clone();
        config.resumption = rustls::client::Resumption::in_memory_sessions(16);
        Ok(Self { sessions: Some(Arc::new(config)), ..self })
    }

    /// Offers TLS 1.2 alone, whose sessions have an id or a ticket.
    ///
    /// # Errors
    /// [`Error::Tls`].
    pub fn resuming_tls12(self) -> Result<Self> {
        self.tls12(&[]).resuming()
    }

    /// Offers TLS 1.2 alone, with these suites by their IANA names, or with all.
    #[must_use]
    pub fn tls12(self, suites: &[&str]) -> Self {
        Self { versions: TLS12, suites: suites.iter().map(ToString::to_string).collect(), ..self }
    }

    /// How long each read or write, and each HTTP/2 answer, may take.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: patient(timeout), ..self }
    }

    /// The address of the target.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn server_name(&self) -> Result<ServerName<'static>> {
        match &self.sni {
            None => Ok(ServerName::IpAddress(self.address.ip().into())),
            Some(name) => ServerName::try_from(name.clone())
                .map_err(|error| Error::Http { step: "choosing the server name", reason: error.to_string() }),
        }
    }

    pub(super) fn config(&self) -> Result<Arc<ClientConfig>> {
        if let Some(config) = &self.sessions {
            return Ok(Arc::clone(config));
        }
        let tls = |source| Error::Tls { peer: self.address.to_string(), source };
        let mut provider = ring::default_provider();
        let is_offered =
            |name: Option<&str>| self.suites.is_empty() || self.suites.iter().any(|one| Some(&**one) == name);
        provider.cipher_suites.retain(|suite| is_offered(suite.suite().as_str()));
        let provider = Arc::new(provider);
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(self.versions)
            .map_err(tls)?;
        let builder = match &self.trust {
            Trust::Ca(der) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from(der.clone())).map_err(tls)?;
                builder.with_root_certificates(roots)
            }
            Trust::Anybody => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer { provider })),
        };
        let mut config = match (&self.keystore, &self.identity) {
            (Some(keystore), _) => builder.with_client_cert_resolver(Arc::new(keystore.clone())),
            (None, None) => builder.with_no_client_auth(),
            (None, Some(identity)) => builder
                .with_client_cert_resolver(Arc::new(super::fixed_client_cert::Always::new(identity).map_err(tls)?)),
        };
        config.alpn_protocols.clone_from(&self.alpn);
        // Each test connection makes a full handshake.
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Arc::new(config))
    }
}

/// Believes any certificate, but wants the peer to own its key.
#[derive(Debug)]
struct AnyServer {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

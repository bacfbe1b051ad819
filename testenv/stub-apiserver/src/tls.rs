//! TLS as kube-apiserver sets it up: a client certificate is asked for and not verified in the handshake.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};

use crate::certificate::{Authorities, certificates};
use crate::error::StubError;
use crate::options::StubOptions;

/// The server's side of TLS. `hints` are the authorities named to clients; client-go shows only certificates of these.
pub(crate) fn server_config(options: &StubOptions, hints: &[&Authorities]) -> Result<Arc<ServerConfig>, StubError> {
    let provider = Arc::new(ring::default_provider());
    let key = PrivateKeyDer::from_pem_slice(options.tls_key.as_bytes())
        .map_err(|error| StubError::Pem { what: "the server's key", reason: error.to_string() })?;
    let hints = hints.iter().flat_map(|authorities| authorities.names()).collect();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let mut config = builder
        .with_client_cert_verifier(Arc::new(AnyClient { provider, hints }))
        .with_single_cert(certificates("the server's certificate", &options.tls_cert)?, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Asks for a certificate and takes any whose key the client owns; the verdict is made per request.
#[derive(Debug)]
struct AnyClient {
    provider: Arc<CryptoProvider>,
    hints: Vec<DistinguishedName>,
}

impl ClientCertVerifier for AnyClient {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use super::window::Window;
use super::{CertificateError, ClientChain};

/// The CAs that sign client certificates of a cluster.
#[derive(Debug)]
pub struct ClientCa {
    anchors: Vec<TrustAnchor<'static>>,
    windows: Vec<Window>,
    digest: [u8; SHA256_OUTPUT_LEN],
}

/// Why a CA bundle is not usable. The operator's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientCaError {
    /// The text is not PEM.
    #[error("the client CA bundle is not PEM")]
    Pem,
    /// It holds no certificate.
    #[error("the client CA bundle holds no certificate")]
    Empty,
    /// A certificate of it cannot be an anchor.
    #[error("certificate {0} of the client CA bundle is not acceptable")]
    Certificate(usize),
}

impl ClientCa {
    /// Reads a PEM bundle.
    ///
    /// # Errors
    /// [`ClientCaError`], the operator's fault.
    pub fn from_pem(pem: &str) -> Result<Self, ClientCaError> {
        let certificates: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().map_err(|_| ClientCaError::Pem)?;
        if certificates.is_empty() {
            return Err(ClientCaError::Empty);
        }
        let mut anchors = Vec::with_capacity(certificates.len());
        let mut windows = Vec::with_capacity(certificates.len());
        let mut all = Vec::new();
        for (index, certificate) in certificates.into_iter().enumerate() {
            let anchor = anchor_from_trusted_cert(&certificate).map_err(|_| ClientCaError::Certificate(index))?;
            let window = Window::of(&certificate).map_err(|_| ClientCaError::Certificate(index))?;
            anchors.push(anchor.to_owned());
            all.extend_from_slice(&certificate);
            windows.push(window);
        }
        let mut sum = [0; SHA256_OUTPUT_LEN];
        sum.copy_from_slice(digest(&SHA256, &all).as_ref());
        Ok(ClientCa { anchors, windows, digest: sum })
    }

    /// SHA-256 over the bundle's certificates.
    pub fn digest(&self) -> &[u8; SHA256_OUTPUT_LEN] {
        &self.digest
    }

    /// Finds a path from the leaf to one of the CAs, for client authentication: an absent extended key usage passes, as in
    /// Go. The library does not look at the anchor's own validity, Go does: hence the window.
    pub(super) fn verify(&self, chain: &ClientChain<'_>, now: UnixTime) -> Result<Window, CertificateError> {
        let leaf = CertificateDer::from(chain.leaf());
        let intermediates: Vec<CertificateDer<'_>> = chain.intermediates().map(CertificateDer::from).collect();
        let end_entity = EndEntityCert::try_from(&leaf).map_err(CertificateError::Unverified)?;
        let path = end_entity
            .verify_for_usage(
                ALL_VERIFICATION_ALGS,
                &self.anchors,
                &intermediates,
                now,
                KeyUsage::client_auth(),
                None,
                None,
            )
            .map_err(CertificateError::Unverified)?;
        let mut window = Window::of(chain.leaf())?.and(self.anchor_window(path.anchor(), now)?);
        for intermediate in path.intermediate_certificates() {
            window = window.and(Window::of(&intermediate.der())?);
        }
        if window.contains(now) { Ok(window) } else { Err(CertificateError::OutsideValidity) }
    }

    /// When the anchor is valid. A bundle can hold one key in several certificates, an old one and its renewal: the
    /// path holds for each of them, so a valid one is enough.
    fn anchor_window(&self, anchor: &TrustAnchor<'_>, now: UnixTime) -> Result<Window, CertificateError> {
        let mut same = self.anchors.iter().zip(&self.windows).filter(|(other, _)| *other == anchor).map(|(_, w)| *w);
        let first = same.next().ok_or(CertificateError::Malformed)?;
        if first.contains(now) { Ok(first) } else { Ok(same.find(|window| window.contains(now)).unwrap_or(first)) }
    }
}

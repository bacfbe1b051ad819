//! A client that shows its certificate whatever the server asks for, and whatever its certificate says.

use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::sign::CertifiedKey;

use crate::certs::Identity;

/// Shows one certificate always, also if the server names other authorities or the key is not the certificate's.
#[derive(Debug)]
pub(super) struct Always(Arc<CertifiedKey>);

impl Always {
    pub(super) fn new(identity: &Identity) -> Result<Self, rustls::Error> {
        let key = any_supported_type(&identity.rustls_key())?;
        Ok(Self(Arc::new(CertifiedKey::new(identity.rustls_chain(), key))))
    }
}

impl ResolvesClientCert for Always {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

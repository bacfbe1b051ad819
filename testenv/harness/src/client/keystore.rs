//! A client that owns several certificates and shows the one that the server asks for.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::sign::CertifiedKey;

use crate::certs::Identity;

/// Certificates of one client. Of several it shows the first one whose issuer the server names, and the first of all if the
/// server names none, as Java's key manager does.
#[derive(Debug, Clone, Default)]
pub struct KeyStore {
    keys: Arc<Vec<Arc<CertifiedKey>>>,
    named: Arc<Mutex<Option<Vec<Vec<u8>>>>>,
}

impl KeyStore {
    /// A client with these certificates.
    ///
    /// # Errors
    /// A key that cannot be used.
    pub fn new<'a>(identities: impl IntoIterator<Item = &'a Identity>) -> Result<Self, rustls::Error> {
        let key = |identity: &Identity| {
            let key = any_supported_type(&identity.rustls_key())?;
            Ok(Arc::new(CertifiedKey::new(identity.rustls_chain(), key)))
        };
        let keys = identities.into_iter().map(key).collect::<Result<Vec<_>, rustls::Error>>()?;
        Ok(Self { keys: Arc::new(keys), named: Arc::default() })
    }

    /// The names (DER) of the authorities that the server accepts, of the last handshake in which it asked for a certificate.
    pub fn named(&self) -> Option<Vec<Vec<u8>>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Whether a certificate or its name holds these bytes: enough to find an issuer's name in it.
fn holds(key: &CertifiedKey, name: &[u8]) -> bool {
    key.cert.iter().any(|der| der.windows(name.len().max(1)).any(|window| window == name))
}

impl ResolvesClientCert for KeyStore {
    fn resolve(&self, hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let named = hints.iter().map(|name| name.to_vec()).collect();
        *self.named.lock().unwrap_or_else(PoisonError::into_inner) = Some(named);
        if hints.is_empty() {
            return self.keys.first().cloned();
        }
        self.keys.iter().find(|key| hints.iter().any(|name| holds(key, name))).cloned()
    }

    fn has_certs(&self) -> bool {
        true
    }
}

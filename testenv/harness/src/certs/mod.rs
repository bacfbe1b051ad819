//! Certificates for tests: authorities, servers, users, and broken ones. EC P-256 with SHA-256 only.

mod build;
mod der;
mod extensions;
mod key;
mod request;
mod spec;

use std::path::Path;

use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

pub use key::PrivateKey;
pub use spec::{CertSpec, Usage};

use crate::error::Result;
use crate::rundir::write_private;

/// A certificate authority.
#[derive(Debug, Clone)]
pub struct Ca {
    identity: Identity,
    name: Vec<u8>,
}

impl Ca {
    /// A self-signed authority, valid for 90 days.
    ///
    /// # Errors
    /// [`crate::Error::Certificate`].
    pub fn new(cn: &str) -> Result<Self> {
        Self::self_signed(&CertSpec { is_ca: true, ..CertSpec::new(cn) })
    }

    /// A self-signed authority as specified: an expired one, for example.
    ///
    /// # Errors
    /// [`crate::Error::Certificate`].
    pub fn self_signed(spec: &CertSpec) -> Result<Self> {
        let spec = CertSpec { is_ca: true, ..spec.clone() };
        Ok(Self { identity: self_signed(&spec)?, name: build::name(&spec) })
    }

    /// An intermediate authority below this one. The certificates that it issues carry it in their chain.
    ///
    /// # Errors
    /// [`crate::Error::Certificate`].
    pub fn intermediate(&self, spec: &CertSpec) -> Result<Self> {
        let spec = CertSpec { is_ca: true, ..spec.clone() };
        Ok(Self { identity: self.issue(&spec)?, name: build::name(&spec) })
    }

    /// Issues a certificate with a new key.
    ///
    /// # Errors
    /// [`crate::Error::Certificate`].
    pub fn issue(&self, spec: &CertSpec) -> Result<Identity> {
        let key = PrivateKey::generate()?;
        let issuer = extensions::Issuer { name: &self.name, key: &self.identity.key };
        let leaf = build::certificate(spec, &key, &issuer)?;
        // A root is not sent: who trusts it has it.
        let below_root = self.identity.chain.iter().filter(|_| !self.is_root()).cloned();
        let chain = std::iter::once(leaf).chain(below_root).collect();
        Ok(Identity { chain, key, self_signed: false })
    }

    /// The authority's own certificate.
    pub fn certificate_der(&self) -> &[u8] {
        self.identity.leaf_der()
    }

    /// The authority's own certificate as PEM: what verifiers are given as their trusted bundle.
    pub fn pem(&self) -> String {
        key::pem("CERTIFICATE", self.certificate_der())
    }

    /// Writes the trusted bundle to a file.
    ///
    /// # Errors
    /// [`crate::Error::File`].
    pub fn write_pem(&self, path: &Path) -> Result<()> {
        write_private(path, self.pem().as_bytes())
    }

    fn is_root(&self) -> bool {
        self.identity.self_signed
    }
}

/// A self-signed certificate that is no authority (unless the specification says so).
///
/// # Errors
/// [`crate::Error::Certificate`].
pub fn self_signed(spec: &CertSpec) -> Result<Identity> {
    let key = PrivateKey::generate()?;
    let issuer = extensions::Issuer { name: &build::name(spec), key: &key };
    let certificate = build::certificate(spec, &key, &issuer)?;
    Ok(Identity { chain: vec![certificate], key, self_signed: true })
}

/// A certificate with its chain (leaf first, root left out) and private key.
#[derive(Debug, Clone)]
pub struct Identity {
    chain: Vec<Vec<u8>>,
    key: PrivateKey,
    self_signed: bool,
}

impl Identity {
    /// The leaf as DER.
    pub fn leaf_der(&self) -> &[u8] {
        self.chain.first().map(Vec::as_slice).unwrap_or_default()
    }

    /// Leaf first, then intermediates, as DER.
    pub fn chain_der(&self) -> &[Vec<u8>] {
        &self.chain
    }

    /// The chain as PEM.
    pub fn pem(&self) -> String {
        self.chain.iter().map(|der| key::pem("CERTIFICATE", der)).collect()
    }

    /// The private key.
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// The private key as PEM.
    pub fn key_pem(&self) -> String {
        self.key.pem()
    }

    /// The same key without the intermediates, for clients that forget to send them.
    #[must_use]
    pub fn leaf_only(&self) -> Self {
        Self { chain: self.chain.iter().take(1).cloned().collect(), ..self.clone() }
    }

    /// The same key with another identity's certificates after its own, as if they had issued it.
    #[must_use]
    pub fn followed_by(&self, other: &Identity) -> Self {
        Self { chain: [&self.chain[..], &other.chain].concat(), ..self.clone() }
    }

    /// Writes chain and key, both with mode 0600.
    ///
    /// # Errors
    /// [`crate::Error::File`].
    pub fn write_pem(&self, certificate: &Path, key: &Path) -> Result<()> {
        write_private(certificate, self.pem().as_bytes())?;
        write_private(key, self.key_pem().as_bytes())
    }

    /// The chain for rustls.
    pub fn rustls_chain(&self) -> Vec<CertificateDer<'static>> {
        self.chain.iter().cloned().map(CertificateDer::from).collect()
    }

    /// The key for rustls.
    pub fn rustls_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.pkcs8_der().to_owned()))
    }
}

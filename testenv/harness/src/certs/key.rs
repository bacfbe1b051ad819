//! EC P-256 keys.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

use super::der;
use crate::error::{Error, Result};

/// A private key for tests. Its `Debug` output shows nothing of it.
#[derive(Clone)]
pub struct PrivateKey {
    pkcs8: Vec<u8>,
    public_point: Vec<u8>,
}

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}

impl PrivateKey {
    /// A new EC P-256 key.
    ///
    /// # Errors
    /// [`Error::Certificate`] when the system has no randomness.
    pub fn generate() -> Result<Self> {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random)
            .map_err(|_| Error::Certificate("generating a key".to_owned()))?;
        let pair = key_pair(pkcs8.as_ref())?;
        Ok(Self { pkcs8: pkcs8.as_ref().to_owned(), public_point: pair.public_key().as_ref().to_owned() })
    }

    /// The public half alone, of a key that another process has. It cannot sign.
    pub(super) fn of_another(public_point: Vec<u8>) -> Self {
        Self { pkcs8: Vec::new(), public_point }
    }

    /// The key as PKCS#8 DER.
    pub fn pkcs8_der(&self) -> &[u8] {
        &self.pkcs8
    }

    /// The key as PKCS#8 PEM.
    pub fn pem(&self) -> String {
        pem("PRIVATE KEY", &self.pkcs8)
    }

    /// The public half as SubjectPublicKeyInfo PEM.
    pub fn public_pem(&self) -> String {
        pem("PUBLIC KEY", &self.public_key_info())
    }

    /// SubjectPublicKeyInfo: id-ecPublicKey on prime256v1 (RFC 5480).
    pub(super) fn public_key_info(&self) -> Vec<u8> {
        let algorithm = der::sequence(&[&der::oid(&[1, 2, 840, 10045, 2, 1]), &der::oid(&[1, 2, 840, 10045, 3, 1, 7])]);
        der::sequence(&[&algorithm, &der::bit_string(&self.public_point)])
    }

    /// The identifier of the key in its certificates: any stable value will do (RFC 5280 4.2.1.2).
    pub(super) fn identifier(&self) -> Vec<u8> {
        let digest = ring::digest::digest(&ring::digest::SHA256, &self.public_point);
        digest.as_ref().iter().copied().take(20).collect()
    }

    /// ECDSA with SHA-256 over `message`, as DER.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        let signature = key_pair(&self.pkcs8)?
            .sign(&SystemRandom::new(), message)
            .map_err(|_| Error::Certificate("signing".to_owned()))?;
        Ok(signature.as_ref().to_owned())
    }
}

fn key_pair(pkcs8: &[u8]) -> Result<EcdsaKeyPair> {
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8, &SystemRandom::new())
        .map_err(|error| Error::Certificate(format!("reading a key: {error}")))
}

/// PEM (RFC 7468) with lines of 64 characters.
pub(super) fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::extensions::X509Extension;
use x509_parser::oid_registry::{
    OID_KEY_TYPE_EC_PUBLIC_KEY, OID_PKCS1_RSAENCRYPTION, OID_X509_EXT_AUTHORITY_KEY_IDENTIFIER,
};

use crate::secret::{PublicBytes, SecretBytes};

/// Most certificates of a chain or bundle: Go's and Envoy's own limits are looser, a typo's are not.
const MAX_CERTIFICATES: usize = 256;
/// Most bytes of a PEM text.
const MAX_PEM: usize = 512 * 1024;
/// Most bytes that the names of one cluster's client CAs may take in a handshake, which lists each name once and two bytes
/// before it (RFC 8446, 4.2.4). Java refuses handshake messages of more than 32 KiB (`jdk.tls.maxHandshakeMessageSize`); above
/// 64 KiB the list cannot be written, and no handshake succeeds. 2 KiB are for the rest of the message.
const MAX_NAMES: usize = 30 * 1024;

/// The TLS feature extension (RFC 7633).
const TLS_FEATURE: &str = "1.3.6.1.5.5.7.1.24";

/// A certificate chain and its key; they belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPair {
    /// The chain, leaf first: PEM that holds certificates only.
    pub chain: PublicBytes,
    /// The key, PEM.
    pub key: SecretBytes,
    /// How long the leaf is valid, from its first second to its last.
    pub validity: Duration,
    /// The leaf's subject, its issuer, and the identifier of the issuer's key, in DER. A renewed certificate of the same
    /// subject from the same issuer has the same, whatever its key.
    pub holder: Vec<u8>,
}

/// Why certificates or keys cannot be used. No variant holds a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// There is no certificate.
    #[error("holds no PEM certificate")]
    Empty,
    /// A text or a number of certificates beyond the bound.
    #[error("is too large: at most 512 KiB and 256 certificates")]
    TooLarge,
    /// Names of CAs that no handshake holds, in bytes.
    #[error(
        "has subjects that take {0} bytes in a TLS handshake, which names each of these CAs to clients: at most {MAX_NAMES}"
    )]
    Names(usize),
    /// No PEM.
    #[error("is not well-formed PEM")]
    Pem,
    /// No X.509.
    #[error("holds a certificate that is not well-formed X.509")]
    X509,
    /// No private key.
    #[error("holds no PEM private key that is usable (PKCS#8, PKCS#1 or SEC1, not encrypted)")]
    Key,
    /// A key that Envoy does not take.
    #[error("must be an RSA key of 2048 bits or more, or an ECDSA key on P-256 or P-384")]
    KeyKind,
    /// A certificate that needs an OCSP response beside it.
    #[error(
        "must be a certificate without the TLS feature extension (OCSP must-staple): the gateway has no OCSP response"
    )]
    MustStaple,
    /// The key of another certificate.
    #[error("the certificate does not belong to the key")]
    Mismatch,
}

/// Reads a bundle of certificates and returns PEM that holds these and nothing else: what stood beside them (a key, a
/// comment) goes no further.
pub(super) fn read_bundle(pem: &PublicBytes) -> Result<PublicBytes, CertificateError> {
    read_chain(pem).map(|chain| encode(&chain))
}

/// As [`read_bundle`], of client CAs, whose names the handshake lists.
pub fn read_client_bundle(pem: &PublicBytes) -> Result<PublicBytes, CertificateError> {
    let chain = read_chain(pem)?;
    match bytes_of_names(&chain)? {
        bytes if bytes > MAX_NAMES => Err(CertificateError::Names(bytes)),
        _ => Ok(encode(&chain)),
    }
}

/// The certificates of a bundle, each as PEM by itself: equal certificates are equal texts. None of a text that is no bundle.
pub fn bundle_parts(pem: &PublicBytes) -> BTreeSet<String> {
    certificates(pem).iter().map(encode_one).collect()
}

/// How much the subjects of these certificates take in a handshake. Envoy lists equal ones once.
fn bytes_of_names(chain: &[CertificateDer<'_>]) -> Result<usize, CertificateError> {
    let mut subjects = BTreeSet::new();
    for certificate in chain {
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate).map_err(|_| CertificateError::X509)?;
        subjects.insert(parsed.subject().as_raw().to_vec());
    }
    Ok(subjects.iter().map(|subject| subject.len().saturating_add(2)).sum())
}

/// Reads a certificate chain and its key.
pub fn read_key_pair(cert: &PublicBytes, key: &SecretBytes) -> Result<KeyPair, CertificateError> {
    let chain = read_chain(cert)?;
    if key.expose().len() > MAX_PEM {
        return Err(CertificateError::TooLarge);
    }
    let private = PrivateKeyDer::from_pem_slice(key.expose()).map_err(|_| CertificateError::Key)?;
    let signer = rustls::crypto::ring::sign::any_supported_type(&private).map_err(|_| CertificateError::KeyKind)?;
    let leaf = chain.first().ok_or(CertificateError::Empty)?;
    envoy_can_use(leaf)?;
    let pair = CertifiedKey::new(chain.clone(), Arc::clone(&signer));
    pair.keys_match().map_err(|_| CertificateError::Mismatch)?;
    Ok(KeyPair { validity: validity(leaf)?, holder: holder(leaf)?, chain: encode(&chain), key: key.clone() })
}

/// The certificates of a PEM text, in DER; none if it does not parse, which the check reports.
pub(crate) fn certificates(pem: &PublicBytes) -> Vec<CertificateDer<'static>> {
    read_chain(pem).unwrap_or_default()
}

fn read_chain(pem: &PublicBytes) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    if pem.as_slice().len() > MAX_PEM {
        return Err(CertificateError::TooLarge);
    }
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(pem.as_slice()).collect::<Result<_, _>>().map_err(|_| CertificateError::Pem)?;
    match chain.len() {
        0 => return Err(CertificateError::Empty),
        n if n > MAX_CERTIFICATES => return Err(CertificateError::TooLarge),
        _ => {}
    }
    for certificate in &chain {
        let (rest, _) = x509_parser::parse_x509_certificate(certificate).map_err(|_| CertificateError::X509)?;
        if !rest.is_empty() {
            return Err(CertificateError::X509);
        }
    }
    Ok(chain)
}

fn validity(leaf: &CertificateDer<'_>) -> Result<Duration, CertificateError> {
    let (_, parsed) = x509_parser::parse_x509_certificate(leaf).map_err(|_| CertificateError::X509)?;
    let (first, last) = (parsed.validity().not_before.timestamp(), parsed.validity().not_after.timestamp());
    Ok(Duration::from_secs(u64::try_from(last.saturating_sub(first)).unwrap_or(0)))
}

fn holder(leaf: &CertificateDer<'_>) -> Result<Vec<u8>, CertificateError> {
    let (_, parsed) = x509_parser::parse_x509_certificate(leaf).map_err(|_| CertificateError::X509)?;
    let identifier =
        parsed.extensions().iter().find(|extension| extension.oid == OID_X509_EXT_AUTHORITY_KEY_IDENTIFIER);
    let identifier = identifier.map_or(&[][..], |extension| extension.value);
    Ok([parsed.subject().as_raw(), parsed.issuer().as_raw(), identifier].concat())
}

/// Envoy takes RSA and ECDSA certificates, not Ed25519.
fn envoy_can_use(leaf: &CertificateDer<'_>) -> Result<(), CertificateError> {
    let (_, parsed) = x509_parser::parse_x509_certificate(leaf).map_err(|_| CertificateError::X509)?;
    let kind = &parsed.public_key().algorithm.algorithm;
    if *kind != OID_PKCS1_RSAENCRYPTION && *kind != OID_KEY_TYPE_EC_PUBLIC_KEY {
        return Err(CertificateError::KeyKind);
    }
    let is_feature = |extension: &X509Extension<'_>| extension.oid.to_id_string() == TLS_FEATURE;
    if parsed.extensions().iter().any(is_feature) { Err(CertificateError::MustStaple) } else { Ok(()) }
}

fn encode(chain: &[CertificateDer<'_>]) -> PublicBytes {
    PublicBytes::new(chain.iter().map(encode_one).collect::<String>().into_bytes())
}

fn encode_one(certificate: &CertificateDer<'_>) -> String {
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    let text = STANDARD.encode(certificate);
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem + "-----END CERTIFICATE-----\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(kind: &'static rcgen::SignatureAlgorithm) -> (String, String) {
        let key = rcgen::KeyPair::generate_for(kind).unwrap();
        let certificate = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn pair(cert: &str, key: &str) -> Result<KeyPair, CertificateError> {
        read_key_pair(&PublicBytes::new(cert.into()), &SecretBytes::new(key.into()))
    }

    #[test]
    fn pair_must_belong_together_and_be_of_a_kind_that_envoy_takes() {
        let (cert, key) = made(&rcgen::PKCS_ECDSA_P256_SHA256);
        let (_, other_key) = made(&rcgen::PKCS_ECDSA_P256_SHA256);
        let (ed_cert, ed_key) = made(&rcgen::PKCS_ED25519);
        assert!(pair(&cert, &key).is_ok());
        assert_eq!(pair(&cert, &other_key), Err(CertificateError::Mismatch));
        assert_eq!(pair(&ed_cert, &ed_key), Err(CertificateError::KeyKind));
        assert_eq!(pair(&cert, "no key"), Err(CertificateError::Key));
        assert_eq!(pair("", &key), Err(CertificateError::Empty));
        assert_eq!(
            pair("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &key),
            Err(CertificateError::X509)
        );
    }

    #[test]
    fn certificate_that_needs_a_staple_is_refused() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        let feature = rcgen::CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 24], vec![0x30, 3, 2, 1, 5]);
        params.custom_extensions.push(feature);
        let certificate = params.self_signed(&key).unwrap();
        assert_eq!(pair(&certificate.pem(), &key.serialize_pem()), Err(CertificateError::MustStaple));
    }

    /// A CA whose subject takes at least so many bytes.
    fn authority(bytes: usize, number: usize) -> String {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, format!("{number:05}{}", "x".repeat(bytes)));
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
    }

    #[test]
    fn client_ca_names_are_bounded_by_what_a_handshake_holds() {
        let read = |pem: String| read_client_bundle(&PublicBytes::new(pem.into_bytes()));
        let many = |count: usize| (0..count).map(|number| authority(470, number)).collect::<String>();
        assert!(read(many(60)).is_ok());
        let Err(CertificateError::Names(bytes)) = read(many(64)) else { panic!("64 names of 480 bytes") };
        assert!((MAX_NAMES..64 * 520).contains(&bytes), "{bytes}");
        let message = CertificateError::Names(bytes).to_string();
        assert!(message.contains(&format!("take {bytes} bytes")) && message.contains("at most 30720"), "{message}");
        let same: String = (0..100).map(|_| authority(470, 1)).collect();
        assert!(read(same).is_ok(), "equal names stand there once");
        assert!(read_bundle(&PublicBytes::new(many(64).into_bytes())).is_ok(), "no handshake names servers' CAs");
    }

    #[test]
    fn bundle_is_reduced_to_its_certificates() {
        let (cert, key) = made(&rcgen::PKCS_ECDSA_P256_SHA256);
        let mixed = PublicBytes::new(format!("# comment\n{key}{cert}{cert}").into_bytes());
        let read = String::from_utf8(read_bundle(&mixed).unwrap().as_slice().to_vec()).unwrap();
        assert_eq!(read, format!("{cert}{cert}").replace("\r\n", "\n"));
    }

    #[test]
    fn parts_of_a_bundle_are_equal_if_their_certificates_are() {
        let [(one, key), (other, _)] = [(); 2].map(|()| made(&rcgen::PKCS_ECDSA_P256_SHA256));
        let parts = |pem: &str| bundle_parts(&PublicBytes::new(pem.into()));
        let both = parts(&format!("{one}{key}{}# comment\n{one}", other.replace("\r\n", "\n")));
        assert_eq!(both, parts(&one).into_iter().chain(parts(&other)).collect::<BTreeSet<_>>());
        assert_eq!((both.len(), parts("no bundle").len()), (2, 0));
        let joined: String = both.iter().cloned().collect();
        assert_eq!(parts(&joined), both);
    }
}

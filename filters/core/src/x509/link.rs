use rustls_pki_types::SubjectPublicKeyInfoDer;
use webpki::{ALL_VERIFICATION_ALGS, Error, RawPublicKeyEntity};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;

use super::CertificateError;
use super::bounds::Cost;
use super::strict_parse::signature_algorithm;

/// The names and key identifiers of a certificate and its issuer. Not known to be true.
#[derive(Debug)]
pub(super) struct Link<'a> {
    subject: &'a [u8],
    issuer: &'a [u8],
    key: &'a [u8],
    key_id: Option<&'a [u8]>,
    issuer_key_id: Option<&'a [u8]>,
    signed: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Link<'a> {
    /// Reads the link.
    ///
    /// # Errors
    /// [`CertificateError::Malformed`].
    pub(super) fn of(certificate: &'a X509Certificate<'a>) -> Result<Self, CertificateError> {
        let (mut key_id, mut issuer_key_id) = (None, None);
        for extension in certificate.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(id) => key_id = Some(id.0),
                ParsedExtension::AuthorityKeyIdentifier(id) => {
                    issuer_key_id = id.key_identifier.as_ref().map(|id| id.0)
                }
                _ => {}
            }
        }
        Ok(Link {
            subject: certificate.subject().as_raw(),
            issuer: certificate.issuer().as_raw(),
            key: certificate.public_key().raw,
            key_id,
            issuer_key_id,
            signed: certificate.tbs_certificate.as_ref(),
            algorithm: signature_algorithm(certificate.as_raw()).ok_or(CertificateError::Malformed)?,
            signature: &certificate.signature_value.data,
        })
    }

    /// How those name it whom it issued.
    pub(super) fn names(&self) -> IssuerNames<'a> {
        IssuerNames { subject: self.subject, key_id: self.key_id, key: self.key }
    }

    /// Whether it names this issuer: the name is the same, and the key identifier if both have one.
    pub(super) fn names_issuer(&self, issuer: &IssuerNames<'_>, cost: &mut Cost) -> bool {
        cost.equal(self.issuer, issuer.subject)
            && match (self.issuer_key_id, issuer.key_id) {
                (Some(wanted), Some(id)) => cost.equal(wanted, id),
                _ => true,
            }
    }

    /// Whether the key signed it.
    pub(super) fn is_signed_by(&self, key: &[u8]) -> bool {
        let key = SubjectPublicKeyInfoDer::from(key);
        let Ok(key) = RawPublicKeyEntity::try_from(&key) else { return false };
        // An algorithm of signatures is several here, one for each kind of key; only one computes anything.
        let fitting =
            ALL_VERIFICATION_ALGS.iter().filter(|fitting| fitting.signature_alg_id().as_ref() == self.algorithm);
        let verdicts = fitting.map(|algorithm| key.verify_signature(*algorithm, self.signed, self.signature));
        let mut verdicts = verdicts
            .skip_while(|verdict| matches!(verdict, Err(Error::UnsupportedSignatureAlgorithmForPublicKeyContext(_))));
        verdicts.next().is_some_and(|verdict| verdict.is_ok())
    }
}

/// An issuer as those name it whom it issued, and its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct IssuerNames<'a> {
    pub(super) subject: &'a [u8],
    pub(super) key_id: Option<&'a [u8]>,
    pub(super) key: &'a [u8],
}

impl IssuerNames<'_> {
    /// Whether it is the same issuer: the name and the key are. Several certificates may say so.
    pub(super) fn is_same_issuer(&self, other: &IssuerNames<'_>) -> bool {
        self.subject == other.subject && self.key == other.key
    }
}

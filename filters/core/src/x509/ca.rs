use super::CertificateError;
use super::eku::is_for_clients;
use super::link::{IssuerNames, Link};
use super::strict_parse::parse;
use rustls_pki_types::TrustAnchor;
use rustls_pki_types::UnixTime;
use webpki::anchor_from_trusted_cert;
use x509_parser::certificate::X509Certificate;
use x509_parser::oid_registry::{
    OID_X509_EXT_BASIC_CONSTRAINTS, OID_X509_EXT_EXTENDED_KEY_USAGE, OID_X509_EXT_KEY_USAGE,
    OID_X509_EXT_NAME_CONSTRAINTS,
};
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Version;

/// One certificate of a client CA bundle.
#[derive(Debug)]
pub(super) struct CaCertificate {
    pub(super) anchor: TrustAnchor<'static>,
    pub(super) window: Validity,
    /// The whole key, as certificates have it.
    key: Vec<u8>,
    subject: Vec<u8>,
    key_id: Option<Vec<u8>>,
    /// Maximum number of intermediates below it.
    max_intermediates: Option<u32>,
}

impl CaCertificate {
    /// Reads a CA. `None` for a certificate that is one, but that Go lets sign no client certificate: a bundle may hold
    /// such beside others.
    pub(super) fn of(der: &[u8]) -> Result<Option<Self>, CertificateError> {
        let certificate = parse(der)?;
        let trusted = der.into();
        let anchor = anchor_from_trusted_cert(&trusted).map_err(|_| CertificateError::Malformed)?.to_owned();
        let window = Validity::of_certificate(&certificate);
        if !may_sign_clients(&certificate)? {
            return Ok(None);
        }
        let constraints = certificate.basic_constraints().map_err(|_| CertificateError::Malformed)?;
        let max_intermediates = constraints.and_then(|constraints| constraints.value.path_len_constraint);
        let names = Link::of(&certificate)?.names();
        let (key, subject, key_id) = (names.key.to_vec(), names.subject.to_vec(), names.key_id.map(<[u8]>::to_vec));
        Ok(Some(CaCertificate { anchor, window, key, subject, key_id, max_intermediates }))
    }

    /// How those name it whom it issued.
    pub(super) fn names(&self) -> IssuerNames<'_> {
        IssuerNames { subject: &self.subject, key_id: self.key_id.as_deref(), key: &self.key }
    }

    /// Whether a path of so many intermediates may end here.
    pub(super) fn allows(&self, intermediates: usize) -> bool {
        self.max_intermediates.is_none_or(|most| usize::try_from(most).is_ok_and(|most| intermediates <= most))
    }
}

/// Go's requirement of every issuer, trusted or not (`crypto/x509`, `CheckSignatureFrom`): the key usage, if there is one.
/// webpki does not look at it.
pub(super) fn may_sign_certificates(certificate: &X509Certificate<'_>) -> Result<bool, CertificateError> {
    let usage = certificate.key_usage().map_err(|_| CertificateError::Malformed)?;
    Ok(usage.is_none_or(|usage| usage.value.flags == 0 || usage.value.key_cert_sign()))
}

/// A trusted certificate is checked as any other: a CA, not one for servers only, and without critical extensions that are not
/// read here.
fn may_sign_clients(certificate: &X509Certificate<'_>) -> Result<bool, CertificateError> {
    let malformed = |_| CertificateError::Malformed;
    let is_ca = match certificate.basic_constraints().map_err(malformed)? {
        Some(constraints) => constraints.value.ca,
        None => certificate.version() != X509Version::V3,
    };
    let read = [
        OID_X509_EXT_BASIC_CONSTRAINTS,
        OID_X509_EXT_EXTENDED_KEY_USAGE,
        OID_X509_EXT_KEY_USAGE,
        OID_X509_EXT_NAME_CONSTRAINTS,
    ];
    let is_read = certificate.extensions().iter().all(|extension| !extension.critical || read.contains(&extension.oid));
    Ok(is_ca && is_for_clients(certificate)? && is_read && may_sign_certificates(certificate)?)
}

/// The time in which every certificate of a path is valid, both ends included, in seconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    not_before: i64,
    not_after: i64,
}

impl Validity {
    /// The validity of one certificate.
    ///
    /// # Errors
    /// [`CertificateError::Malformed`] if it does not parse.
    pub fn of(der: &[u8]) -> Result<Self, CertificateError> {
        let (_, certificate) = X509Certificate::from_der(der).map_err(|_| CertificateError::Malformed)?;
        Ok(Validity::of_certificate(&certificate))
    }

    pub(super) fn of_certificate(certificate: &X509Certificate<'_>) -> Self {
        let validity = certificate.validity();
        Validity { not_before: validity.not_before.timestamp(), not_after: validity.not_after.timestamp() }
    }

    /// The time that both have in common.
    #[must_use]
    pub fn and(self, other: Validity) -> Validity {
        Validity { not_before: self.not_before.max(other.not_before), not_after: self.not_after.min(other.not_after) }
    }

    /// Whether the moment lies inside.
    pub fn contains(self, now: UnixTime) -> bool {
        i64::try_from(now.as_secs()).is_ok_and(|now| self.not_before <= now && now <= self.not_after)
    }
}

/// Whether a certificate of the client's can be part of a path at all, whatever its signature.
pub(super) fn may_issue(certificate: &X509Certificate<'_>, now: UnixTime) -> bool {
    let is_ca =
        certificate.basic_constraints().is_ok_and(|found| found.is_some_and(|constraints| constraints.value.ca));
    is_ca
        && certificate.version() == X509Version::V3
        && Validity::of_certificate(certificate).contains(now)
        && may_sign_certificates(certificate).is_ok_and(|may| may)
        && is_for_clients(certificate).is_ok_and(|may| may)
}

use rustls_pki_types::UnixTime;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::CertificateError;

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

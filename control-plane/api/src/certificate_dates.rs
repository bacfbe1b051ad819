//! The certificates of an object, and until when they are valid.

use crate::check::certificates;
use crate::secret::PublicBytes;
use crate::types::UpstreamClusterSpec;

/// Most certificates of a bundle that are listed: those that end first.
const MAX_OF_BUNDLE: usize = 8;

/// A certificate of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateDates {
    /// `serving`, `client`, `clientCA` or `upstreamCA`.
    pub usage: &'static str,
    /// The subject, as RFC 4514 writes it. Its author wrote it.
    pub subject: String,
    /// The last second of its validity, in seconds since 1970.
    pub not_after: u64,
}

/// The certificates of a specification whose references are resolved: the leaves of chains, and of each bundle of CAs those that
/// end first. Certificates that are not well-formed are left out.
pub fn certificate_dates(spec: &UpstreamClusterSpec) -> Vec<CertificateDates> {
    let mut all = Vec::new();
    add(&mut all, "serving", &spec.secure_serving.cert_data, 1);
    add(&mut all, "client", &spec.client_config.cert_data, 1);
    add(&mut all, "clientCA", &spec.secure_serving.client_ca_data, usize::MAX);
    add(&mut all, "upstreamCA", &spec.client_config.ca_data, usize::MAX);
    all
}

fn add(all: &mut Vec<CertificateDates>, usage: &'static str, pem: &PublicBytes, most: usize) {
    let found = certificates(pem);
    let dates = found.iter().take(most).filter_map(|der| {
        let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
        let not_after = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or_default();
        Some(CertificateDates { usage, subject: certificate.subject().to_string(), not_after })
    });
    let mut dates: Vec<_> = dates.collect();
    dates.sort_by_key(|one| one.not_after);
    dates.truncate(MAX_OF_BUNDLE);
    all.extend(dates);
}

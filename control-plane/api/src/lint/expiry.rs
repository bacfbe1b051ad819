use x509_parser::certificate::X509Certificate;

use super::Warnings;
use crate::check::{certificates, read_until};
use crate::problem::ProblemCode;
use crate::secret::PublicBytes;
use crate::types::{AccessSpec, UpstreamClusterSpec};

const DAY: i64 = 86_400;
/// The time before its end at which a certificate is reported, in seconds.
const SOON: i64 = 30 * DAY;

pub(super) fn lint_cluster(spec: &UpstreamClusterSpec, now: i64, warnings: &mut Warnings) {
    lint(&spec.client_config.cert_data, "spec.clientConfig.certData", true, now, warnings);
    lint(&spec.client_config.ca_data, "spec.clientConfig.caData", false, now, warnings);
    lint(&spec.secure_serving.cert_data, "spec.secureServing.certData", true, now, warnings);
    lint(&spec.secure_serving.client_ca_data, "spec.secureServing.clientCAData", false, now, warnings);
    lint_access(&spec.portcullis.access, "spec.portcullis.access", now, warnings);
}

/// Entries of access lists that have ended.
pub(super) fn lint_access(access: &AccessSpec, path: &str, now: i64, warnings: &mut Warnings) {
    for (list, entries) in [("deny", &access.deny), ("allow", &access.allow)] {
        for (number, entry) in entries.iter().enumerate() {
            let is_over =
                read_until(&entry.until).is_some_and(|until| i64::try_from(until).is_ok_and(|until| until <= now));
            if is_over {
                let path = format!("{path}.{list}[{number}].until");
                warnings.add(ProblemCode::Expiry, path, "is over: the entry matches nothing", "remove the entry");
            }
        }
    }
}

/// Of a chain, only the leaf is looked at; of a bundle of CAs, each.
pub(super) fn lint(pem: &PublicBytes, path: &str, is_chain: bool, now: i64, warnings: &mut Warnings) {
    let all = certificates(pem);
    let most = if is_chain { 1 } else { all.len() };
    let several = most > 1;
    for (der, number) in all.iter().take(most).zip(1..) {
        let Ok((_, certificate)) = x509_parser::parse_x509_certificate(der) else { continue };
        let Some(message) = validity_problem(&certificate, now) else { continue };
        let which = if several { format!("certificate {number} of the bundle") } else { "the certificate".to_owned() };
        warnings.add(ProblemCode::Expiry, path, format!("{which} {message}"), "renew it, and replace the field");
    }
}

fn validity_problem(certificate: &X509Certificate<'_>, now: i64) -> Option<String> {
    let (start, end) = (certificate.validity().not_before.timestamp(), certificate.validity().not_after.timestamp());
    let days = |seconds: i64| match seconds / DAY {
        0 => "less than a day".to_owned(),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    };
    if end <= now {
        Some(format!("expired {} ago", days(now.saturating_sub(end))))
    } else if start > now {
        Some(format!("is valid only in {}", days(start.saturating_sub(now))))
    } else if end.saturating_sub(now) < SOON {
        Some(format!("expires in {}", days(end.saturating_sub(now))))
    } else {
        None
    }
}

//! Certificates for this crate's tests.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls_pki_types::UnixTime;
use std::time::Duration;

use crate::moment::Moment;

pub(crate) type Ca = CertifiedIssuer<'static, KeyPair>;

/// 2030-01-01, inside the validity of everything that is made here by default.
pub(crate) fn now() -> UnixTime {
    at(1_893_456_000)
}

pub(crate) fn at(seconds: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}

/// A moment of [`now`]'s day.
pub(crate) fn moment(uptime: Duration) -> Moment {
    Moment { now: now(), uptime }
}

pub(crate) fn ca_params(name: &str) -> CertificateParams {
    let mut params = params(&[(DnType::CommonName, name)]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

pub(crate) fn ca(name: &str) -> Ca {
    CertifiedIssuer::self_signed(ca_params(name), KeyPair::generate().unwrap()).unwrap()
}

pub(crate) fn intermediate(name: &str, parent: &Ca) -> Ca {
    CertifiedIssuer::signed_by(ca_params(name), KeyPair::generate().unwrap(), parent).unwrap()
}

/// A subject in order; valid from 2026 to 2039.
pub(crate) fn params(subject: &[(DnType, &str)]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for (kind, value) in subject {
        params.distinguished_name.push(kind.clone(), DnValue::Utf8String((*value).to_owned()));
    }
    params.not_before = date_time_ymd(2026, 1, 1);
    params.not_after = date_time_ymd(2039, 1, 1);
    params
}

pub(crate) fn client_params(subject: &[(DnType, &str)]) -> CertificateParams {
    let mut params = params(subject);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

pub(crate) fn alice() -> CertificateParams {
    client_params(&[(DnType::OrganizationName, "dev"), (DnType::CommonName, "alice")])
}

pub(crate) fn issue(params: CertificateParams, issuer: &Ca) -> Vec<u8> {
    params.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap().der().to_vec()
}

/// A reviewer.
pub(crate) fn reviewer() -> crate::review::Reviewer {
    reviewer_for([])
}

/// A reviewer of tokens for these audiences.
pub(crate) fn reviewer_for<const N: usize>(audiences: [&str; N]) -> crate::review::Reviewer {
    let audiences = audiences.into_iter().map(str::to_owned).collect();
    crate::review::Reviewer { cluster: "c".into(), user: None, looks_for_constrained: false, audiences }
}

/// A certificate as Envoy writes it into headers.
pub(crate) fn escaped_pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let body = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN%20CERTIFICATE-----%0A{}%0A-----END%20CERTIFICATE-----%0A", body.replace('+', "%2B"))
}

/// The bytes that the validator keeps for such a chain.
pub(crate) fn encode(certificates: &[&[u8]]) -> Vec<u8> {
    crate::x509::encode_chain(certificates.iter().copied())
}

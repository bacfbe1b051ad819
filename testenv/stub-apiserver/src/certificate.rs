//! Client certificates: verified per request, and read as Kubernetes reads them.

use rustls::DistinguishedName;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};
use x509_parser::der_parser::oid;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::AttributeTypeAndValue;

use crate::error::StubError;
use crate::user::User;

/// Authorities whose certificates are believed.
#[derive(Debug, Clone)]
pub(crate) struct Authorities {
    anchors: Vec<TrustAnchor<'static>>,
    names: Vec<DistinguishedName>,
}

impl Authorities {
    pub(crate) fn from_pem(what: &'static str, pem: &str) -> Result<Self, StubError> {
        let bad = |reason: String| StubError::Pem { what, reason };
        let mut authorities = Self { anchors: Vec::new(), names: Vec::new() };
        for certificate in certificates(what, pem)? {
            let anchor = anchor_from_trusted_cert(&certificate).map_err(|error| bad(error.to_string()))?;
            authorities.names.push(DistinguishedName::in_sequence(&anchor.subject));
            authorities.anchors.push(anchor.to_owned());
        }
        Ok(authorities)
    }

    pub(crate) fn names(&self) -> Vec<DistinguishedName> {
        self.names.clone()
    }

    /// Whether the chain (leaf first) leads to one of the authorities now, for client use.
    pub(crate) fn verify(&self, chain: &[CertificateDer<'static>]) -> Result<(), String> {
        let (leaf, intermediates) = chain.split_first().ok_or("no certificate")?;
        let leaf = EndEntityCert::try_from(leaf).map_err(|error| error.to_string())?;
        let algorithms = webpki::ALL_VERIFICATION_ALGS;
        let usage = KeyUsage::client_auth();
        leaf.verify_for_usage(algorithms, &self.anchors, intermediates, UnixTime::now(), usage, None, None)
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

/// The user that a verified certificate names; `None` when it has no common name.
pub(crate) fn user(leaf: &CertificateDer<'_>) -> Result<Option<User>, String> {
    let (_, parsed) = X509Certificate::from_der(leaf).map_err(|error| error.to_string())?;
    let subject = parsed.subject();
    let Some(username) = subject.iter_common_name().last().map(text).filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let uids: Vec<String> = subject.iter_by_oid(&oid!(1.3.6.1.4.1.57683.2)).map(text).collect();
    let uid = match uids.as_slice() {
        [] => String::new(),
        [one] if !one.is_empty() => one.clone(),
        _ => return Err("the certificate must have one UID that is not empty".to_owned()),
    };
    let digest = ring::digest::digest(&ring::digest::SHA256, leaf);
    let fingerprint: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let credential =
        ("authentication.kubernetes.io/credential-id".to_owned(), vec![format!("X509SHA256={fingerprint}")]);
    let groups = subject.iter_organization().map(text).collect();
    Ok(Some(User { username, uid, groups, extra: [credential].into() }))
}

/// The last common name of a certificate, verified or not.
pub(crate) fn common_name(leaf: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(leaf).ok()?;
    parsed.subject().iter_common_name().last().map(text)
}

fn text(attribute: &AttributeTypeAndValue<'_>) -> String {
    String::from_utf8_lossy(attribute.attr_value().data).into_owned()
}

/// The certificates of a PEM text.
pub(crate) fn certificates(what: &'static str, pem: &str) -> Result<Vec<CertificateDer<'static>>, StubError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match read {
        Ok(list) if !list.is_empty() => Ok(list),
        Ok(_) => Err(StubError::Pem { what, reason: "no certificate".to_owned() }),
        Err(error) => Err(StubError::Pem { what, reason: error.to_string() }),
    }
}

use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, Error, VerifiedPath};
use x509_parser::certificate::X509Certificate;

use super::bounds::Cost;
use super::bounds::{MAX_ISSUER_ELEMENTS, MAX_LEAF_ELEMENTS};
use super::ca::Validity;
use super::ca::may_issue;
use super::ca::{CaCertificate, may_sign_certificates};
use super::eku::ClientAuthEku;
use super::link::{IssuerNames, Link};
use super::path::find;
use super::strict_parse::{parse, parse_presented};
use super::{CertificateError, ClientChain, PathError};

/// The CAs that sign client certificates of a cluster.
#[derive(Debug)]
pub struct ClientCa {
    authorities: Vec<CaCertificate>,
    digest: [u8; SHA256_OUTPUT_LEN],
}

/// Why a CA bundle is not usable. The operator's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientCaError {
    /// The text is not PEM.
    #[error("the client CA bundle is not PEM")]
    Pem,
    /// It holds no certificate.
    #[error("the client CA bundle holds no certificate")]
    Empty,
    /// A certificate of it cannot be an anchor.
    #[error("certificate {0} of the client CA bundle is not acceptable")]
    Certificate(usize),
}

impl ClientCa {
    /// Reads a PEM bundle. A certificate of it that may sign no client certificates (a leaf, a CA for servers) is left out,
    /// as Go would leave it out of every path.
    ///
    /// # Errors
    /// [`ClientCaError`], the operator's fault.
    pub fn from_pem(pem: &str) -> Result<Self, ClientCaError> {
        let certificates: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().map_err(|_| ClientCaError::Pem)?;
        if certificates.is_empty() {
            return Err(ClientCaError::Empty);
        }
        let mut authorities = Vec::with_capacity(certificates.len());
        let mut all = Vec::new();
        for (index, certificate) in certificates.iter().enumerate() {
            authorities.extend(CaCertificate::of(certificate).map_err(|_| ClientCaError::Certificate(index))?);
            all.extend_from_slice(certificate);
        }
        let mut sum = [0; SHA256_OUTPUT_LEN];
        sum.copy_from_slice(digest(&SHA256, &all).as_ref());
        Ok(ClientCa { authorities, digest: sum })
    }

    /// SHA-256 over the bundle's certificates.
    pub fn digest(&self) -> &[u8; SHA256_OUTPUT_LEN] {
        &self.digest
    }

    /// Finds a path from the leaf to one of the CAs, for client authentication. webpki is given one path only, and only when
    /// its signatures are known to be good: it checks them once more, and everything else. Go's further requirements of issuers
    /// are checked on that path.
    pub(super) fn verify(
        &self,
        chain: &ClientChain<'_>,
        now: UnixTime,
        cost: &mut Cost,
    ) -> Result<Validity, CertificateError> {
        let leaf = parse_presented(chain.leaf(), MAX_LEAF_ELEMENTS, cost)?;
        let issuers: Vec<X509Certificate<'_>> = chain
            .intermediates()
            .map(|der| parse_presented(der, MAX_ISSUER_ELEMENTS, cost))
            .collect::<Result<_, _>>()?;
        let issuers = issuers.iter().filter(|issuer| may_issue(issuer, now));
        let links: Vec<Link<'_>> =
            std::iter::once(&leaf).chain(issuers.clone()).map(Link::of).collect::<Result<_, _>>()?;
        let roots: Vec<IssuerNames<'_>> = self.authorities.iter().map(CaCertificate::names).collect();
        let path = find(&links, &roots, cost)?;

        let same = roots.get(path.root);
        let anchors: Vec<TrustAnchor<'_>> = self
            .authorities
            .iter()
            .filter(|authority| same.is_some_and(|same| authority.names().is_same_issuer(same)))
            .map(|authority| authority.anchor.clone())
            .collect();
        let ders: Vec<CertificateDer<'_>> =
            std::iter::once(&leaf).chain(issuers).map(|certificate| certificate.as_raw().into()).collect();
        let intermediates: Vec<CertificateDer<'_>> =
            path.intermediates.iter().filter_map(|at| ders.get(*at)).cloned().collect();
        self.verify_path(&chain.leaf().into(), &intermediates, &anchors, now)
    }

    fn verify_path(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        anchors: &[TrustAnchor<'_>],
        now: UnixTime,
    ) -> Result<Validity, CertificateError> {
        let end_entity = EndEntityCert::try_from(leaf).map_err(PathError::from)?;
        let path = end_entity
            .verify_for_usage(
                ALL_VERIFICATION_ALGS,
                anchors,
                intermediates,
                now,
                ClientAuthEku,
                None,
                Some(&|path| self.window_of(path, now).map(|_| ())),
            )
            .map_err(unverified)?;
        let window = self.window_of(&path, now).map_err(unverified)?;
        let window = window.and(Validity::of(leaf)?);
        if window.contains(now) { Ok(window) } else { Err(CertificateError::OutsideValidity) }
    }

    /// When all issuers of a path are valid, if Go would take it. The library does not look at the anchor's own validity. A
    /// bundle can hold one key in several certificates, an old one and its renewal: the path holds for each of them, so a
    /// valid one is enough.
    fn window_of(&self, path: &VerifiedPath<'_>, now: UnixTime) -> Result<Validity, Error> {
        let mut below = 0_usize;
        let mut window: Option<Validity> = None;
        for intermediate in path.intermediate_certificates() {
            let der = intermediate.der();
            let certificate = parse(&der).map_err(|_| Error::BadDer)?;
            if !may_sign_certificates(&certificate).is_ok_and(|may| may) {
                return Err(Error::UnknownIssuer);
            }
            let own = Validity::of_certificate(&certificate);
            window = Some(window.map_or(own, |window| window.and(own)));
            below = below.saturating_add(1);
        }
        let same = || self.authorities.iter().filter(|authority| authority.anchor == *path.anchor());
        let fitting = || same().filter(|authority| authority.allows(below));
        let valid = fitting().find(|authority| authority.window.contains(now));
        let refusal = || if fitting().next().is_some() { OUTSIDE_VALIDITY } else { Error::PathLenConstraintViolated };
        let anchor = valid.ok_or_else(refusal)?.window;
        Ok(window.map_or(anchor, |window| window.and(anchor)))
    }
}

/// How the check of a path says that its CA is not valid now.
const OUTSIDE_VALIDITY: Error = Error::InvalidCertValidity;

fn unverified(error: Error) -> CertificateError {
    if error == OUTSIDE_VALIDITY {
        CertificateError::OutsideValidity
    } else {
        CertificateError::Unverified(error.into())
    }
}

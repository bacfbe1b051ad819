//! A client certificate's chain to a user, as kube-apiserver's x509 authenticator does it
//! (apiserver, `pkg/authentication/request/x509/x509.go`): verified per request against the cluster's client CA, so that
//! expiry and a change of CA act at once on open connections. Differences fail closed (docs/compatibility.md).

mod bounds;
mod ca;
mod cache;
mod chain;
mod eku;
mod forwarded;
mod handshake;
mod known;
mod link;
mod path;
mod strict_parse;
mod subject;
mod trust;

pub use bounds::Cost;
pub use ca::Validity;
pub(crate) use cache::CertificateRooms;
pub use cache::{CertificateCache, CertificateRefused, CertifiedUser};
pub use chain::{ChainError, ClientChain, MAX_BYTES, MAX_CERTIFICATES, encode as encode_chain};
pub use forwarded::{ForwardedError, chain_from_header, chain_from_text};
pub use handshake::{HandshakeConfigError, HandshakeVerifier};
pub use known::{KnownChains, hex_digest, is_presented};
pub use path::{MAX_INTERMEDIATES, MAX_SIGNATURES};
pub use trust::{ClientCa, ClientCaError};

use rustls_pki_types::UnixTime;

use crate::identity::UserInfo;

/// The reason why a presented certificate does not authenticate. The client's fault; trying again does not help. Small, because
/// it is kept for clients that come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// No path to a trusted certificate, or none for this purpose.
    #[error("the certificate does not verify: {0}")]
    Unverified(#[from] PathError),
    /// The CA is not valid at this time.
    #[error("the CA of the certificate is not valid now")]
    OutsideValidity,
    /// A certificate of the path does not parse.
    #[error("a certificate does not parse")]
    Malformed,
    /// A certificate has more extensions, usages, policies or parts than are looked at.
    #[error("a certificate has more parts than are looked at")]
    Oversized,
    /// The subject has an attribute that is no text, or a UID that is empty or not unique.
    #[error("the certificate's subject is not acceptable")]
    Subject,
}

/// Why no path of certificates leads from the client's to a CA of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The issuer's name is not a trusted one.
    #[error("no trusted issuer")]
    Issuer,
    /// The issuer that is named did not sign it.
    #[error("a signature is not good")]
    Signature,
    /// A certificate has expired.
    #[error("expired")]
    Expired,
    /// A certificate is not valid yet.
    #[error("not valid yet")]
    NotYetValid,
    /// It is not for clients, or its issuer not for issuing.
    #[error("not made for this use")]
    Usage,
    /// An issuer does not allow its names, or so long a path.
    #[error("not allowed by its issuer")]
    Constraint,
    /// The library for paths says something else.
    #[error("not acceptable")]
    Other,
}

impl From<webpki::Error> for PathError {
    fn from(error: webpki::Error) -> Self {
        use webpki::Error;
        match error {
            Error::UnknownIssuer => PathError::Issuer,
            Error::InvalidSignatureForPublicKey | Error::MaximumSignatureChecksExceeded => PathError::Signature,
            Error::CertExpired { .. } => PathError::Expired,
            Error::CertNotValidYet { .. } => PathError::NotYetValid,
            Error::RequiredEkuNotFoundContext(_) | Error::CaUsedAsEndEntity | Error::EndEntityUsedAsCa => {
                PathError::Usage
            }
            Error::NameConstraintViolation | Error::PathLenConstraintViolated => PathError::Constraint,
            _ => PathError::Other,
        }
    }
}

/// A user that a certificate names, and for how long it may be believed.
#[derive(Debug)]
pub struct VerifiedUser {
    /// The user of the certificate; `None` if the subject has no common name: then the certificate says nothing.
    pub user: Option<UserInfo>,
    /// Validity of the whole path, the CA included.
    pub window: Validity,
}

/// Verifies a chain and reads its user.
///
/// # Errors
/// [`CertificateError`], the client's fault.
pub fn verify(chain: &ClientChain<'_>, ca: &ClientCa, now: UnixTime) -> Result<VerifiedUser, CertificateError> {
    verify_counted(chain, ca, now, &mut Cost::default())
}

/// The same, and adds up what it cost.
///
/// # Errors
/// [`CertificateError`], the client's fault.
pub fn verify_counted(
    chain: &ClientChain<'_>,
    ca: &ClientCa,
    now: UnixTime,
    cost: &mut Cost,
) -> Result<VerifiedUser, CertificateError> {
    let window = ca.verify(chain, now, cost)?;
    let user = subject::user_of(chain.leaf())?;
    Ok(VerifiedUser { user, window })
}

#[cfg(test)]
mod tests;

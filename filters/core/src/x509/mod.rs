//! A client certificate's chain to a user, as kube-apiserver's x509 authenticator does it
//! (apiserver, `pkg/authentication/request/x509/x509.go`): verified per request against the cluster's client CA, so that
//! expiry and a change of CA act at once on open connections. Differences fail closed (docs/compatibility.md).

mod authority;
mod cache;
mod chain;
mod form;
mod forwarded;
mod presented;
mod subject;
mod text;
mod trust;
mod usage;
mod window;

pub use cache::{CertificateCache, CertificateRefused, CertifiedUser};
pub use chain::{ChainError, ClientChain, MAX_BYTES, MAX_CERTIFICATES, encode as encode_chain};
pub use forwarded::{ForwardedError, chain_from_header};
pub use presented::{hex_digest, is_presented};
pub use trust::{ClientCa, ClientCaError};
pub use window::Window;

use rustls_pki_types::UnixTime;

use crate::identity::UserInfo;

/// Why a presented certificate does not authenticate. The client's fault; trying again does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// No path to the client CA, expired, wrong usage or a bad signature.
    #[error("the certificate does not verify: {0}")]
    Unverified(webpki::Error),
    /// The CA is not valid at this time.
    #[error("the CA of the certificate is not valid now")]
    OutsideValidity,
    /// A certificate of the path does not parse.
    #[error("a certificate does not parse")]
    Malformed,
    /// The subject has an attribute that is no text, or a UID that is empty or not unique.
    #[error("the certificate's subject is not acceptable")]
    Subject,
}

/// A user that a certificate names, and for how long it may be believed.
#[derive(Debug)]
pub struct VerifiedUser {
    /// The user as the certificate tells it, or nobody if the subject has no common name: then the certificate says nothing.
    pub user: Option<UserInfo>,
    /// Validity of the whole path, the CA included.
    pub window: Window,
}

/// Verifies a chain and reads its user.
///
/// # Errors
/// [`CertificateError`], the client's fault.
pub fn verify(chain: &ClientChain<'_>, ca: &ClientCa, now: UnixTime) -> Result<VerifiedUser, CertificateError> {
    let window = ca.verify(chain, now)?;
    let user = subject::user_of(chain.leaf())?;
    Ok(VerifiedUser { user, window })
}

#[cfg(test)]
mod tests;

use std::sync::Arc;

use quick_cache::sync::Cache;
use ring::digest::SHA256_OUTPUT_LEN;
use rustls_pki_types::UnixTime;

use super::window::Window;
use super::{CertificateError, ClientCa, ClientChain, verify};
use crate::identity::{HeaderNames, IdentityError, UpstreamUser, UserInfo};

/// Chains that are remembered per cluster, each kind apart, so that a flood of bad ones displaces no good one.
const CAPACITY: usize = 16_384;

/// For how long a refused chain is not looked at again, in seconds.
const REFUSED_FOR: u64 = 10;

/// A user that a certificate names, ready to be told to the upstream. `None` if it names nobody.
pub type CertifiedUser = Option<Arc<UpstreamUser>>;

/// Why a presented certificate authenticates nobody. The client's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateRefused {
    /// It does not verify.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// It verifies, but its names cannot be told to the upstream without changing them.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

type Digest = [u8; SHA256_OUTPUT_LEN];

/// What is known of the certificates of one cluster, shared by all workers. Checking a signature costs a hundred times
/// what the rest of a request does.
#[derive(Debug)]
pub struct CertificateCache {
    verified: Cache<Digest, (Window, CertifiedUser)>,
    refused: Cache<Digest, (u64, CertificateRefused)>,
}

impl Default for CertificateCache {
    fn default() -> Self {
        CertificateCache { verified: Cache::new(CAPACITY), refused: Cache::new(CAPACITY) }
    }
}

impl CertificateCache {
    /// How many chains are remembered: verified ones and refused ones.
    pub fn entries(&self) -> (usize, usize) {
        (self.verified.len(), self.refused.len())
    }

    /// Who presents the chain, now, to be told by these names: always the same ones for one cache. The validity of the whole path is compared at every call.
    ///
    /// # Errors
    /// [`CertificateRefused`], the client's fault.
    pub fn user(
        &self,
        chain: &ClientChain<'_>,
        ca: &ClientCa,
        names: &HeaderNames,
        now: UnixTime,
    ) -> Result<CertifiedUser, CertificateRefused> {
        if let Some((window, user)) = self.verified.get(chain.digest())
            && window.contains(now)
        {
            return Ok(user);
        }
        if let Some((until, refused)) = self.refused.get(chain.digest())
            && (until.saturating_sub(REFUSED_FOR)..until).contains(&now.as_secs())
        {
            return Err(refused);
        }
        match look(chain, ca, names, now) {
            Ok((window, user)) => {
                self.verified.insert(*chain.digest(), (window, user.clone()));
                Ok(user)
            }
            Err(refused) => {
                let until = now.as_secs().saturating_add(REFUSED_FOR);
                self.refused.insert(*chain.digest(), (until, refused));
                Err(refused)
            }
        }
    }
}

fn look(
    chain: &ClientChain<'_>,
    ca: &ClientCa,
    names: &HeaderNames,
    now: UnixTime,
) -> Result<(Window, CertifiedUser), CertificateRefused> {
    let verified = verify(chain, ca, now)?;
    let told = |user: UserInfo| UpstreamUser::told_by(names, user.into_authenticated());
    let user = verified.user.map(told).transpose()?.map(Arc::new);
    Ok((verified.window, user))
}

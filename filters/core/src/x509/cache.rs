use std::sync::Arc;
use std::time::Duration;

use ring::digest::{SHA256, digest};

use super::ca::Validity;
use super::{CertificateError, ClientCa, ClientChain, verify};
use crate::identity::UserInfo;
use crate::moment::Moment;
use crate::room::{Aging, Key, Remembered, Room};
use crate::upstream_user::{HeaderNames, IdentityError, UpstreamUser};

/// For how long a refused chain is not looked at again.
const REFUSED_FOR: Duration = Duration::from_secs(10);

/// For how long the signatures of a chain are not checked again. Its validity is compared with the time of each request.
const VERIFIED_FOR: Duration = Duration::from_secs(600);

/// A user that a certificate names, with its header lines. `None` if it names none.
pub type CertifiedUser = Option<Arc<UpstreamUser>>;

/// The reason why a presented certificate does not authenticate. The client's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateRefused {
    /// It does not verify.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// It verifies, but headers cannot carry its names unchanged.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// A chain that verified.
#[derive(Debug)]
struct VerifiedChain {
    window: Validity,
    user: CertifiedUser,
    until: Duration,
}

impl Aging for VerifiedChain {
    fn bytes(&self) -> u64 {
        self.user.as_ref().map_or(0, |user| user.bytes())
    }

    fn kept_until(&self) -> Duration {
        self.until
    }
}

/// A chain that did not.
#[derive(Debug)]
struct RefusedChain {
    why: CertificateRefused,
    until: Duration,
}

impl Aging for RefusedChain {
    fn bytes(&self) -> u64 {
        0
    }

    fn kept_until(&self) -> Duration {
        self.until
    }
}

/// The chain of a leaf that verified last.
#[derive(Debug)]
struct LatestChain {
    digest: Key,
    until: Duration,
}

impl Aging for LatestChain {
    fn bytes(&self) -> u64 {
        0
    }

    fn kept_until(&self) -> Duration {
        self.until
    }
}

/// Bytes that chains of each kind may take in the process.
const VERIFIED_BYTES: u64 = 28 << 20;
const LATEST_BYTES: u64 = 4 << 20;
const REFUSED_BYTES: u64 = 4 << 20;

/// The rooms of chains, of all clusters together.
#[derive(Debug)]
pub(crate) struct CertificateRooms {
    verified: Arc<Room<VerifiedChain>>,
    latest: Arc<Room<LatestChain>>,
    refused: Arc<Room<RefusedChain>>,
}

impl CertificateRooms {
    /// A part of what a process has, each room in shards that are locked apart.
    pub(crate) fn new(parts: u64, shards: usize) -> Self {
        CertificateRooms {
            verified: Room::new(VERIFIED_BYTES / parts, shards),
            latest: Room::new(LATEST_BYTES / parts, shards),
            refused: Room::new(REFUSED_BYTES / parts, shards),
        }
    }

    pub(crate) fn forget_old(&self, uptime: Duration) {
        self.verified.forget_old(uptime);
        self.latest.forget_old(uptime);
        self.refused.forget_old(uptime);
    }

    #[cfg(test)]
    pub(crate) fn capacities(&self) -> [u64; 3] {
        [self.verified.capacity(), self.latest.capacity(), self.refused.capacity()]
    }

    pub(crate) fn bytes(&self) -> u64 {
        let chains = self.verified.bytes().saturating_add(self.latest.bytes());
        chains.saturating_add(self.refused.bytes())
    }
}

/// The remembered certificates of one cluster, shared by all workers. A check of a signature costs a hundred times the rest of
/// a request. Verified chains and refused ones are apart, so that a flood of bad ones displaces no good one.
#[derive(Debug)]
pub struct CertificateCache {
    verified: Remembered<VerifiedChain>,
    /// By the leaf's own digest.
    latest: Remembered<LatestChain>,
    refused: Remembered<RefusedChain>,
}

impl CertificateCache {
    pub(crate) fn new(rooms: &CertificateRooms, owner: u64) -> Self {
        CertificateCache {
            verified: Remembered::new(&rooms.verified, owner),
            latest: Remembered::new(&rooms.latest, owner),
            refused: Remembered::new(&rooms.refused, owner),
        }
    }

    /// How many chains are remembered: verified ones and refused ones.
    pub fn entries(&self) -> (u64, u64) {
        (self.verified.entries(), self.refused.entries())
    }

    /// The user of a chain, at a moment, with these header names: always the same ones for one cache. The validity of the whole
    /// path is compared at every call.
    ///
    /// # Errors
    /// [`CertificateRefused`], the client's fault.
    pub fn user(
        &self,
        chain: &ClientChain<'_>,
        ca: &ClientCa,
        names: &HeaderNames,
        at: Moment,
    ) -> Result<CertifiedUser, CertificateRefused> {
        let valid = |known: &VerifiedChain| {
            (at.uptime < known.until && known.window.contains(at.now)).then(|| known.user.clone())
        };
        if let Some(user) = self.verified.get(chain.digest(), valid) {
            return Ok(user);
        }
        if let Some(why) = self.refused.get(chain.digest(), |known| (at.uptime < known.until).then_some(known.why)) {
            return Err(why);
        }
        match look(chain, ca, names, at) {
            Ok((window, user)) => {
                let until = at.uptime.saturating_add(VERIFIED_FOR);
                if self.is_latest(chain, until) {
                    self.verified.insert(chain.digest(), VerifiedChain { window, user: user.clone(), until });
                }
                Ok(user)
            }
            Err(why) => {
                self.refused.insert(chain.digest(), RefusedChain { why, until: at.uptime.saturating_add(REFUSED_FOR) });
                Err(why)
            }
        }
    }

    /// Makes a verified chain the only remembered one of its leaf: the certificates behind a leaf are its holder's choice, need
    /// no signature, and could fill the memory. True if it is the remembered one now.
    fn is_latest(&self, chain: &ClientChain<'_>, until: Duration) -> bool {
        if chain.intermediates().next().is_none() {
            return true;
        }
        let mut leaf = Key::default();
        leaf.copy_from_slice(digest(&SHA256, chain.leaf()).as_ref());
        let other = |latest: &LatestChain| Some(latest.digest).filter(|digest| digest != chain.digest());
        if let Some(before) = self.latest.get(&leaf, other) {
            self.verified.remove(&before);
        }
        self.latest.insert(&leaf, LatestChain { digest: *chain.digest(), until });
        self.latest.get(&leaf, |_| Some(())).is_some()
    }
}

fn look(
    chain: &ClientChain<'_>,
    ca: &ClientCa,
    names: &HeaderNames,
    at: Moment,
) -> Result<(Validity, CertifiedUser), CertificateRefused> {
    let verified = verify(chain, ca, at.now)?;
    let upstream_user = |user: UserInfo| UpstreamUser::with_header_names(names, user.into_authenticated());
    let user = verified.user.map(upstream_user).transpose()?.map(Arc::new);
    Ok((verified.window, user))
}

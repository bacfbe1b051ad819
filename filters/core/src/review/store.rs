//! The remembered answers about credentials, of all clusters together: each kind has its room in bytes, however many clusters
//! there are, so that strangers cannot grow a process. Kinds are apart, so that bad answers displace no good ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::ReviewResult;
use super::verified::Distrust;
use crate::moment::Moment;
use crate::room::{Aging, Room};
use crate::x509::CertificateRooms;

/// Time that a good answer is kept beyond its lifetime, so that its client is reviewed in slots that strangers cannot take.
const RENEWABLE: Duration = Duration::from_secs(600);

/// Bytes that answers of each kind may take in the process: 30,000 usual users for tokens.
const TOKENS: u64 = 46 << 20;
const DISTRUSTED: u64 = 2 << 20;
const ALLOWED: u64 = 8 << 20;
const BAD: u64 = 4 << 20;

/// Workers whose memories together are as large as a process's.
const WORKERS: u64 = 8;

/// Parts of each cache that are locked apart, and of one that a single worker uses. The largest user takes less than the share of
/// one.
const SHARDS: usize = 32;
const SHARDS_OF_A_WORKER: usize = 4;

/// How often entries are looked through for old ones.
const SWEPT: Duration = Duration::from_secs(10);

/// An answer, and for how long it is believed.
#[derive(Clone, Debug)]
pub(crate) struct CachedAnswer {
    /// The uptime at which it came.
    pub(super) since: Duration,
    /// The uptime from which on it is believed no more.
    pub(super) until: Duration,
    /// The time of day from which on it is not, in seconds since 1970: a token's own expiry.
    pub(super) expires: Option<u64>,
    pub(super) result: ReviewResult,
}

impl CachedAnswer {
    pub(super) fn is_believed(&self, at: Moment) -> bool {
        at.uptime < self.until && self.expires.is_none_or(|expires| at.now.as_secs() < expires)
    }
}

impl Aging for CachedAnswer {
    fn bytes(&self) -> u64 {
        match &self.result {
            ReviewResult::User(user) => user.bytes(),
            ReviewResult::Verified(verified) => verified.user.bytes(),
            _ => 0,
        }
    }

    fn kept_until(&self) -> Duration {
        match &self.result {
            ReviewResult::User(_) | ReviewResult::Verified(..) | ReviewResult::Allowed => {
                self.until.saturating_add(RENEWABLE)
            }
            _ => self.until,
        }
    }
}

/// The memory of a process for credentials.
#[derive(Debug)]
pub struct Store {
    pub(crate) tokens: Arc<Room<CachedAnswer>>,
    pub(crate) rejected: Arc<Room<CachedAnswer>>,
    pub(crate) distrusted: Arc<Room<Distrust>>,
    pub(crate) allowed: Arc<Room<CachedAnswer>>,
    pub(crate) denied: Arc<Room<CachedAnswer>>,
    pub(crate) certificates: CertificateRooms,
    owners: AtomicU64,
    /// The uptime, in milliseconds, at which entries are looked through next.
    next_sweep: AtomicU64,
}

impl Default for Store {
    fn default() -> Self {
        Store::in_parts(1, SHARDS)
    }
}

impl Store {
    /// The memory of a wasm VM, an eighth of what a process has: each of Envoy's workers has a VM, and no VM sees how many others
    /// there are.
    pub fn of_a_worker() -> Self {
        Store::in_parts(WORKERS, SHARDS_OF_A_WORKER)
    }

    fn in_parts(parts: u64, shards: usize) -> Self {
        Store {
            tokens: Room::new(TOKENS / parts, shards),
            rejected: Room::new(BAD / parts, shards),
            distrusted: Room::new(DISTRUSTED / parts, shards),
            allowed: Room::new(ALLOWED / parts, shards),
            denied: Room::new(BAD / parts, shards),
            certificates: CertificateRooms::new(parts, shards),
            owners: AtomicU64::new(0),
            next_sweep: AtomicU64::new(0),
        }
    }

    /// A number for a new owner, who shares the memory and none of its content.
    pub(crate) fn owner(&self) -> u64 {
        self.owners.fetch_add(1, Ordering::Relaxed)
    }

    /// Forgets what is too old to be of use, if it was not looked for just now. To be called every few seconds while anything is
    /// remembered. Whether anything is.
    pub fn forget_old(&self, uptime: Duration) -> bool {
        let millis = u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX);
        let next = millis.saturating_add(u64::try_from(SWEPT.as_millis()).unwrap_or(u64::MAX));
        let is_due = |due: u64| (due <= millis).then_some(next);
        if self.next_sweep.fetch_update(Ordering::AcqRel, Ordering::Acquire, is_due).is_ok() {
            for room in [&self.tokens, &self.rejected, &self.allowed, &self.denied] {
                room.forget_old(uptime);
            }
            self.distrusted.forget_old(uptime);
            self.certificates.forget_old(uptime);
        }
        self.bytes() > 0
    }

    /// Bytes that everything takes that is remembered.
    pub fn bytes(&self) -> u64 {
        let answers = [&self.tokens, &self.rejected, &self.allowed, &self.denied].map(|room| room.bytes());
        let others = self.certificates.bytes().saturating_add(self.distrusted.bytes());
        answers.into_iter().fold(others, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::review::{CredentialCaches, Lifetimes};
    use crate::room::Remembered;

    const NOTHING: Duration = Duration::ZERO;

    #[test]
    fn stores_of_eight_workers_hold_as_much_as_a_process() {
        let rooms = |store: &Store| {
            let answers = [&store.tokens, &store.rejected, &store.allowed, &store.denied].map(|room| room.capacity());
            answers.iter().chain(&store.certificates.capacities()).sum::<u64>() + store.distrusted.capacity()
        };
        assert_eq!(rooms(&Store::of_a_worker()) * 8, rooms(&Store::default()));
        assert_eq!(rooms(&Store::default()), 100 << 20);
    }

    /// A user of as many groups and as long words as a certificate or a review may have.
    const LARGEST: u64 = 230 << 10;

    struct Large;

    impl Aging for Large {
        fn bytes(&self) -> u64 {
            LARGEST
        }

        fn kept_until(&self) -> Duration {
            NOTHING
        }
    }

    #[test]
    fn largest_user_is_remembered_by_a_worker() {
        let store = Store::of_a_worker();
        for capacity in [store.tokens.capacity(), store.certificates.capacities()[0]] {
            let room = Room::new(capacity, SHARDS_OF_A_WORKER);
            let owner = Remembered::new(&room, 0);
            owner.insert(&[1; 32], Large);
            assert!(owner.contains(&[1; 32]), "{capacity}");
        }
    }

    #[test]
    fn old_entries_give_their_room_back() {
        let store = Store::default();
        let caches = Arc::new(CredentialCaches::new(&[0; 32], Lifetimes::default(), &store));
        let review =
            |token: String| crate::review::Review::of_token(token.as_bytes(), &crate::testing::reviewer(), &caches);
        let answer = |user: Option<usize>, number: usize| {
            let body = match user {
                Some(length) => format!(r#"{{"authenticated":true,"user":{{"username":"{}"}}}}"#, "u".repeat(length)),
                None => r#"{"authenticated":false}"#.to_owned(),
            };
            let body = format!(r#"{{"kind":"TokenReview","status":{body}}}"#);
            review(format!("{user:?}{number}")).accept_answer(201, body.as_bytes(), NOTHING);
        };
        (0..1_000).for_each(|number| answer(None, number));
        (1..=100).for_each(|number| answer(Some(number * 500), number));
        assert!(store.bytes() > 2_000_000, "{}", store.bytes());
        let kinds = || caches.entries().map(|(_, entries)| entries);
        assert_eq!(kinds()[..2], [100, 1_000]);
        let seconds = Duration::from_secs;
        assert!(store.forget_old(seconds(9)), "all are believed");
        assert_eq!(kinds()[..2], [100, 1_000]);
        assert!(store.forget_old(seconds(15)), "it is too soon to look again");
        assert_eq!(kinds()[..2], [100, 1_000]);
        assert!(store.forget_old(seconds(19)));
        assert_eq!(kinds()[..2], [100, 0], "users are kept for a while, to be reviewed where strangers wait");
        assert!(!store.forget_old(seconds(800)));
        assert_eq!((kinds(), store.bytes()), ([0; 7], 0));
    }
}

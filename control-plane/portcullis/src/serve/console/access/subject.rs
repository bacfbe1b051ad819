use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use portcullis_core::identity::UserInfo;
use portcullis_instances::MAX_INSTANCES;
use tokio::sync::{OnceCell, Semaphore};

use super::reviewer::{ReadKind, ReviewFailed, Reviewer, Right};
use crate::serve::turns::without_turn;

/// The age to which a denied right is not reviewed again: most objects are not the reader's.
const DENIED_AGE: Duration = Duration::from_secs(300);
/// The number of objects whose rights are reviewed for one reader; others are not seen.
pub(super) const MAX_OBJECTS: usize = 2_048;
/// The same of instances, of which [`MAX_INSTANCES`] select something.
const MAX_REVIEWED_INSTANCES: usize = MAX_INSTANCES + 28;
/// The number of reviews of rights at a time: of one reader, and of all.
const AT_ONCE: usize = 8;
pub(super) const AT_ONCE_OF_ALL: usize = 32;
/// The number of requests of one reader that wait for reviews.
const MAX_WAITING: usize = 32;

/// An authenticated reader, with the answers to reviews of its rights. Its credentials share it.
pub(crate) struct Subject {
    user: UserInfo,
    /// The age to which a right is believed.
    max_age: Duration,
    rights: Mutex<Rights>,
    /// The reviews of this reader that may be under way, of all readers, and the requests that may wait for them.
    own: Semaphore,
    all: Arc<Semaphore>,
    waiting: Semaphore,
}

#[derive(Default)]
struct Rights {
    list: Option<ReviewedRight>,
    /// By the names of the objects. None of one kind takes the place of one of the other.
    clusters: BTreeMap<String, ReviewedRight>,
    instances: BTreeMap<String, ReviewedRight>,
    /// Reviews that are under way, and their results for everyone who waits.
    under_way: BTreeMap<RightKey, Flight>,
}

/// An object to get; none for the right to list all.
type RightKey = Option<(ReadKind, String)>;

/// A review that is under way; its result is none if it failed.
type Flight = Arc<OnceCell<Option<bool>>>;

#[derive(Clone, Copy)]
struct ReviewedRight {
    is_allowed: bool,
    reviewed: Instant,
}

/// The number of objects of a kind whose rights are remembered for one reader.
const fn most(kind: ReadKind) -> usize {
    match kind {
        ReadKind::Cluster => MAX_OBJECTS,
        ReadKind::Instance => MAX_REVIEWED_INSTANCES,
    }
}

impl Rights {
    /// The reviewed rights to objects of a kind, and how many of them there may be.
    fn of_kind(&mut self, kind: ReadKind) -> (&mut BTreeMap<String, ReviewedRight>, usize) {
        match kind {
            ReadKind::Cluster => (&mut self.clusters, most(kind)),
            ReadKind::Instance => (&mut self.instances, most(kind)),
        }
    }
}

impl Subject {
    /// A reader whose reviews take places among `all`.
    pub(super) fn new(user: UserInfo, max_age: Duration, all: Arc<Semaphore>) -> Self {
        let (own, waiting) = (Semaphore::new(AT_ONCE), Semaphore::new(MAX_WAITING));
        Self { user, max_age, rights: Mutex::default(), own, all, waiting }
    }

    pub(crate) fn user(&self) -> &UserInfo {
        &self.user
    }

    /// Whether the reader may list all objects.
    pub(super) async fn may_list(&self, reviewer: &dyn Reviewer, now: Instant) -> Result<bool, ReviewFailed> {
        match self.known(&None, now) {
            Some(is_allowed) => Ok(is_allowed),
            None => self.wait(self.review(reviewer, Right::List, now)).await,
        }
    }

    /// Whether the reader may get one object.
    pub(super) async fn may_get(
        &self,
        reviewer: &dyn Reviewer,
        (kind, name): (ReadKind, &str),
        now: Instant,
    ) -> Result<bool, ReviewFailed> {
        match self.known(&Some((kind, name.to_owned())), now) {
            Some(is_allowed) => Ok(is_allowed),
            None => self.wait(self.review(reviewer, Right::Get(kind, name), now)).await,
        }
    }

    /// Those of the objects of a kind that the reader may get, of the first [`most`].
    pub(super) async fn visible(
        &self,
        reviewer: &dyn Reviewer,
        (kind, names): (ReadKind, Vec<String>),
        now: Instant,
    ) -> Result<BTreeSet<String>, ReviewFailed> {
        let names: Vec<String> = names.into_iter().take(most(kind)).collect();
        let known = |name: &String| self.known(&Some((kind, name.clone())), now);
        let (mut visible, mut unknown) = (BTreeSet::new(), Vec::new());
        for name in names {
            match known(&name) {
                Some(true) => drop(visible.insert(name)),
                Some(false) => {}
                None => unknown.push(name),
            }
        }
        if unknown.is_empty() {
            return Ok(visible);
        }
        let reviews = unknown.into_iter().map(|name| async move {
            let is_allowed = self.review(reviewer, Right::Get(kind, &name), now).await?;
            Ok(is_allowed.then_some(name))
        });
        let reviewed = stream::iter(reviews).buffer_unordered(AT_ONCE).try_collect::<Vec<Option<String>>>();
        visible.extend(self.wait(reviewed).await?.into_iter().flatten());
        Ok(visible)
    }

    /// Waits for reviews, without a turn and among a bounded number of requests.
    async fn wait<T>(&self, reviews: impl Future<Output = Result<T, ReviewFailed>>) -> Result<T, ReviewFailed> {
        let Ok(_place) = self.waiting.try_acquire() else { return Err(ReviewFailed) };
        without_turn(reviews).await
    }

    /// Reviews a right, once for everyone who asks meanwhile.
    async fn review(&self, reviewer: &dyn Reviewer, right: Right<'_>, now: Instant) -> Result<bool, ReviewFailed> {
        let key = match right {
            Right::List => None,
            Right::Get(kind, name) => Some((kind, name.to_owned())),
        };
        let flight = UnderWay::begin(self, key);
        let ask = || async {
            // A review that ended since the last look.
            if let Some(known) = self.known(&flight.key, now) {
                return Some(known);
            }
            let _places = (self.own.acquire().await.ok()?, self.all.acquire().await.ok()?);
            let is_allowed = reviewer.allows(&self.user, right).await.ok()?;
            self.remember(flight.key.clone(), ReviewedRight { is_allowed, reviewed: now });
            Some(is_allowed)
        };
        flight.result.get_or_init(ask).await.ok_or(ReviewFailed)
    }

    fn known(&self, key: &RightKey, now: Instant) -> Option<bool> {
        let mut rights = self.lock();
        let reviewed = match key {
            None => rights.list,
            Some((kind, name)) => rights.of_kind(*kind).0.get(name).copied(),
        };
        reviewed.and_then(|answer| self.fresh(answer, now))
    }

    fn remember(&self, key: RightKey, answer: ReviewedRight) {
        let mut rights = self.lock();
        let Some((kind, name)) = key else {
            rights.list = Some(answer);
            return;
        };
        let (reviewed, most) = rights.of_kind(kind);
        if reviewed.len() >= most {
            reviewed.retain(|_, known| self.fresh(*known, answer.reviewed).is_some());
        }
        if reviewed.contains_key(&name) || reviewed.len() < most {
            reviewed.insert(name, answer);
        }
    }

    fn fresh(&self, answer: ReviewedRight, now: Instant) -> Option<bool> {
        let max_age = if answer.is_allowed { self.max_age } else { DENIED_AGE };
        (now.saturating_duration_since(answer.reviewed) < max_age).then_some(answer.is_allowed)
    }

    /// Each change is whole: a panic elsewhere leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, Rights> {
        self.rights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among those who wait for one review.
struct UnderWay<'a> {
    subject: &'a Subject,
    key: RightKey,
    result: Flight,
}

impl<'a> UnderWay<'a> {
    fn begin(subject: &'a Subject, key: RightKey) -> Self {
        let result = Arc::clone(subject.lock().under_way.entry(key.clone()).or_default());
        Self { subject, key, result }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut rights = self.subject.lock();
        // An end for all: a failure is asked again by the next one, and a request that was given up leaves nothing.
        if self.result.initialized() || Arc::strong_count(&self.result) <= 2 {
            let is_own = rights.under_way.get(&self.key).is_some_and(|known| Arc::ptr_eq(known, &self.result));
            is_own.then(|| rights.under_way.remove(&self.key));
        }
    }
}

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use portcullis_core::identity::UserInfo;

use super::reviewer::{ReviewFailed, Reviewer, Right};

/// The age to which a denied right is not reviewed again: most objects are not the reader's.
const DENIED_AGE: Duration = Duration::from_secs(300);
/// The number of objects whose rights are reviewed for one reader; others are not seen.
const MAX_OBJECTS: usize = 2_048;
/// The number of reviews of one reader at a time.
const AT_ONCE: usize = 8;

/// An authenticated reader, with the answers to reviews of its rights.
pub(crate) struct Subject {
    user: UserInfo,
    /// The age to which a right is believed.
    max_age: Duration,
    rights: Mutex<Rights>,
}

#[derive(Default)]
struct Rights {
    list: Option<ReviewedRight>,
    get: BTreeMap<String, ReviewedRight>,
}

#[derive(Clone, Copy)]
struct ReviewedRight {
    is_allowed: bool,
    reviewed: Instant,
}

impl Subject {
    pub(super) fn new(user: UserInfo, max_age: Duration) -> Self {
        Self { user, max_age, rights: Mutex::default() }
    }

    pub(crate) fn user(&self) -> &UserInfo {
        &self.user
    }

    /// Whether the reader may list all objects.
    pub(super) async fn may_list(&self, reviewer: &dyn Reviewer, now: Instant) -> Result<bool, ReviewFailed> {
        let known = self.lock().list;
        if let Some(allowed) = known.and_then(|answer| self.fresh(answer, now)) {
            return Ok(allowed);
        }
        let is_allowed = reviewer.allows(&self.user, Right::List).await?;
        self.lock().list = Some(ReviewedRight { is_allowed, reviewed: now });
        Ok(is_allowed)
    }

    /// Whether the reader may get one object.
    pub(super) async fn may_get(
        &self,
        reviewer: &dyn Reviewer,
        name: &str,
        now: Instant,
    ) -> Result<bool, ReviewFailed> {
        let known = self.lock().get.get(name).copied();
        if let Some(allowed) = known.and_then(|answer| self.fresh(answer, now)) {
            return Ok(allowed);
        }
        let is_allowed = reviewer.allows(&self.user, Right::Get(name)).await?;
        let mut rights = self.lock();
        if rights.get.len() >= MAX_OBJECTS {
            rights.get.retain(|_, answer| self.fresh(*answer, now).is_some());
        }
        if rights.get.len() < MAX_OBJECTS {
            rights.get.insert(name.to_owned(), ReviewedRight { is_allowed, reviewed: now });
        }
        Ok(is_allowed)
    }

    /// Those of the objects that the reader may get, of the first [`MAX_OBJECTS`].
    pub(super) async fn visible(
        &self,
        reviewer: &dyn Reviewer,
        names: Vec<String>,
        now: Instant,
    ) -> Result<BTreeSet<String>, ReviewFailed> {
        let reviews = names.into_iter().take(MAX_OBJECTS).map(|name| async move {
            let allowed = self.may_get(reviewer, &name, now).await?;
            Ok(allowed.then_some(name))
        });
        let visible: Vec<Option<String>> = stream::iter(reviews).buffer_unordered(AT_ONCE).try_collect().await?;
        Ok(visible.into_iter().flatten().collect())
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

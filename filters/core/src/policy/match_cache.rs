use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use super::dimension::Dimension;
use super::request_terms::RequestTerms;

/// What the rules of one configuration know of a user: its name and groups as ids. Kept with the user, so that texts which
/// never change are not looked up for each request; forgotten when another configuration asks.
#[derive(Debug, Default)]
pub struct UserMatchCache(RwLock<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Of which [`super::Policies`]; none has the number 0.
    policies: u64,
    /// The first of the ids are the user's, the others its groups'.
    users: usize,
    ids: Box<[u32]>,
}

/// What is remembered of somebody is no part of who it is.
impl PartialEq for UserMatchCache {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for UserMatchCache {}

impl UserMatchCache {
    /// The facts of a user, remembered for these policies or else worked out.
    pub(super) fn facts(&self, policies: u64, work_out: impl FnOnce() -> RequestTerms) -> RequestTerms {
        let known = self.read();
        if known.policies == policies {
            return known.facts();
        }
        drop(known);
        let facts = work_out();
        let (user, groups) = (facts.of(Dimension::User), facts.of(Dimension::UserGroup));
        let known = Known { policies, users: user.len(), ids: [user, groups].concat().into() };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = known;
        facts
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn facts(&self) -> RequestTerms {
        let (user, groups) = self.ids.split_at_checked(self.users).unwrap_or_default();
        let mut facts = RequestTerms::nothing();
        facts.add_sorted(Dimension::User, user);
        facts.add_sorted(Dimension::UserGroup, groups);
        facts
    }
}

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Requester;
use super::sketch::Amounts;
use crate::observe::counters::KeyHasher;
use crate::upstream_user::UpstreamUser;

/// Users and user agents of a table at most.
const MAX_ENTRIES: usize = 256;
/// Bytes of the users of a table at most, but for the last one: no cache that bounds them may have them any more.
const MAX_BYTES: u64 = 512 * 1024;
/// The key of anonymous clients: no user has it as its address.
const ANONYMOUS: usize = 0;

/// The requests that one worker has counted and that no sketch has yet.
#[derive(Debug, Default)]
pub(super) struct WorkerTable {
    /// By the user's address, which is its own as long as it is kept here. No client chooses addresses so that they collide.
    users: HashMap<usize, (Option<Arc<UpstreamUser>>, Amounts), BuildHasherDefault<KeyHasher>>,
    user_agents: HashMap<Box<[u8]>, Amounts>,
    /// The memory of the users.
    bytes: u64,
}

impl WorkerTable {
    pub(super) fn count(&mut self, requester: Requester<'_>, user_agent: &[u8], amounts: Amounts) {
        if let Some(user) = requester {
            let key = user.map_or(ANONYMOUS, |user| Arc::as_ptr(user).addr());
            let (_, counted) = self.users.entry(key).or_insert_with(|| {
                self.bytes = self.bytes.saturating_add(user.map_or(0, |user| user.bytes()));
                (user.cloned(), Amounts::default())
            });
            counted.add(amounts);
        }
        match self.user_agents.get_mut(user_agent) {
            Some(counted) => counted.add(amounts),
            None => drop(self.user_agents.insert(user_agent.into(), amounts)),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.users.len() >= MAX_ENTRIES || self.user_agents.len() >= MAX_ENTRIES || self.bytes >= MAX_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.users.is_empty() && self.user_agents.is_empty()
    }

    /// Takes everything out; an idle cluster keeps no table.
    pub(super) fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    pub(super) fn users(&self) -> impl Iterator<Item = (Option<&UpstreamUser>, Amounts)> {
        self.users.values().map(|(user, amounts)| (user.as_deref(), *amounts))
    }

    pub(super) fn user_agents(&self) -> impl Iterator<Item = (&[u8], Amounts)> {
        self.user_agents.iter().map(|(agent, amounts)| (&**agent, *amounts))
    }
}

/// The number of this thread among those that count.
pub(super) fn worker() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    const UNKNOWN: usize = usize::MAX;
    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
    }
    NUMBER.with(|number| {
        if number.get() == UNKNOWN {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

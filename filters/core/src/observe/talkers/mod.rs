//! The clients with the most requests, by name: users, groups and user agents, if the settings ask for them.
//!
//! A worker notes a request in a small table of its own, by the address of the user that its credential had already, and by its
//! user agent. Once a second, and when a table is full, these are added to sketches of bounded size ([`Sketch`]), where each
//! user counts under all its groups. Clients choose user agents, and owners of upstreams their users: whatever they invent, no
//! table grows beyond its bound, and the names of one cluster displace none of another.

mod budget;
mod names;
mod sketch;
#[cfg(test)]
mod tests;
mod worker_table;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use portcullis_filter_config::activity::TopTalkers;

pub(crate) use self::budget::TalkerBudget;
use self::budget::TalkerLease;
use self::names::{agent_name, first_word, user_name};
pub(crate) use self::sketch::Amounts;
use self::sketch::Sketch;
use self::worker_table::{WorkerTable, worker};
use crate::identity::UserInfo;
use crate::upstream_user::UpstreamUser;

/// Tables of workers; more workers share them.
const TABLES: usize = 8;
/// Groups of a user that are counted.
const MAX_GROUPS: usize = 32;
/// The user agent of all clients that are not authenticated. No other one has blanks.
const NOT_AUTHENTICATED: &[u8] = b"(not authenticated)";
/// Most names that are shown of each kind.
const MAX_SHOWN: u32 = 1_000;

/// The user of a request: `None` if it is not known, anonymous where the inner one is.
pub(crate) type Requester<'a> = Option<Option<&'a Arc<UpstreamUser>>>;

/// The talkers of one cluster over all its configurations.
#[derive(Debug)]
pub(crate) struct Talkers {
    shown: AtomicU32,
    tables: [OnceLock<Box<Mutex<WorkerTable>>>; TABLES],
    counted: Mutex<Sketches>,
    lease: TalkerLease,
}

#[derive(Debug, Default)]
struct Sketches {
    users: Sketch,
    groups: Sketch,
    user_agents: Sketch,
}

impl Talkers {
    fn new(budget: &Arc<TalkerBudget>) -> Self {
        Talkers {
            shown: AtomicU32::new(1),
            tables: [const { OnceLock::new() }; TABLES],
            counted: Mutex::default(),
            lease: TalkerLease::new(budget),
        }
    }

    /// Forgets all names, and counts no more: another object has the cluster's name now.
    fn forget(&self) {
        let mut counted = self.lock();
        self.lease.end();
        let Sketches { users, groups, user_agents } = &mut *counted;
        for sketch in [users, groups, user_agents] {
            self.lease.give_back(sketch.shrink(0));
        }
    }

    /// Whether another object has the cluster's name now.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.lease.has_ended()
    }

    /// Shows that many of each kind from now on.
    pub(crate) fn show(&self, number: u32) {
        self.shown.store(number.clamp(1, MAX_SHOWN), Ordering::Relaxed);
    }

    /// Counts amounts of a request, with the value of its header `User-Agent`, `None` of a client that is not authenticated.
    /// Allocates only what was not counted since the last [`Talkers::merge`].
    pub(crate) fn count(&self, requester: Requester<'_>, user_agent: Option<&[u8]>, amounts: Amounts) {
        let Some(table) = self.tables.get(worker() % TABLES) else { return };
        let table = table.get_or_init(Box::default);
        let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
        table.count(requester, user_agent.map_or(NOT_AUTHENTICATED, first_word), amounts);
        if table.is_full() {
            let full = table.take();
            drop(table);
            self.add(full);
        }
    }

    /// Adds what workers have counted since the last time, and gives back the room that is beyond the cluster's share since
    /// there are more clusters.
    pub(crate) fn merge(&self) {
        for table in self.tables.iter().filter_map(OnceLock::get) {
            let counted = table.lock().unwrap_or_else(PoisonError::into_inner).take();
            self.add(counted);
        }
        self.shrink();
    }

    fn shrink(&self) {
        let share = self.lease.share(self.capacity());
        let mut counted = self.lock();
        let Sketches { users, groups, user_agents } = &mut *counted;
        for sketch in [users, groups, user_agents] {
            self.lease.give_back(sketch.shrink(share));
        }
    }

    /// Names of each kind that are followed, so that those which are shown are right.
    fn capacity(&self) -> u32 {
        self.shown.load(Ordering::Relaxed).saturating_mul(2)
    }

    #[cold]
    fn add(&self, table: WorkerTable) {
        if table.is_empty() {
            return;
        }
        let mut counted = self.lock();
        if self.is_forgotten() {
            return;
        }
        let Sketches { users, groups, user_agents } = &mut *counted;
        let capacity = self.capacity();
        let has_room = |names: usize| self.lease.has_room(names, capacity);
        let anonymous = UserInfo::anonymous();
        for (user, amounts) in table.users() {
            let user = user.map_or(&anonymous, |user| user.user());
            users.count(&user_name(&user.name), amounts, has_room);
            for group in user.groups.iter().take(MAX_GROUPS) {
                groups.count(&user_name(group), amounts, has_room);
            }
        }
        for (agent, amounts) in table.user_agents() {
            user_agents.count(&agent_name(agent), amounts, has_room);
        }
    }

    /// The talkers with the most requests.
    pub(crate) fn top(&self) -> TopTalkers {
        let shown = usize::try_from(self.shown.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        let counted = self.lock();
        TopTalkers {
            users: counted.users.top(shown),
            groups: counted.groups.top(shown),
            user_agents: counted.user_agents.top(shown),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sketches> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The processes of one owner, and the division of the owner's units among them.

use std::time::Duration;

use portcullis_filter_config::GlobalStrategy;
use portcullis_filter_config::limits::PartUse;

use crate::division::{Rest, UnitClaims};
use crate::holder::HolderId;
use crate::holdings::{Holding, Holdings, RESERVED_FOR};

/// The time for which a process is taken to want what it wanted at most.
const PEAK: Duration = Duration::from_secs(1);
/// The time after which units that cannot be halved go to others.
const TURN_SECONDS: u64 = 10;
/// A process that wants nothing gets at least this part of what it would get if all wanted the same, to begin with.
const FLOOR: u32 = 20;

/// The processes of one owner.
#[derive(Debug, Default)]
pub(crate) struct OwnerPool {
    pub(crate) holdings: Holdings,
    /// The level at which claims were capped the last time.
    level: u32,
}

/// The units that an owner may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolRoom {
    /// The units to divide, as if all parts could change at once.
    pub(crate) target: u32,
    /// The units of which processes that want nothing have a small part.
    pub(crate) idle: u32,
    /// Units that are not reserved for other owners.
    pub(crate) free: u64,
    pub(crate) rest: Rest,
    /// The turns in which the owner has had each of its units that go round: only then is it the next process's turn.
    pub(crate) turns: usize,
}

/// The most that a process is believed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Belief {
    /// Units of its part.
    pub(crate) held: u32,
    /// Units in use.
    pub(crate) used: u32,
}

impl FromIterator<(HolderId, Holding)> for OwnerPool {
    fn from_iter<I: IntoIterator<Item = (HolderId, Holding)>>(parts: I) -> Self {
        Self { holdings: parts.into_iter().collect(), level: 0 }
    }
}

impl OwnerPool {
    /// Takes note of a report. Returns the part that the process has.
    pub(crate) fn note(&mut self, position: usize, used: PartUse, belief: Belief, now: Duration) -> u32 {
        let mut holding = self.holdings.get(position);
        let held = used.held.min(belief.held);
        if used.wanted >= holding.wanted || now >= holding.wanted_at.saturating_add(PEAK) {
            (holding.wanted, holding.wanted_at) = (used.wanted, now);
        }
        holding.last = now;
        // The requests that run are as true as the part: they go on whatever it is.
        holding.reserved = held.max(used.used.min(belief.used));
        self.holdings.set(position, holding);
        held
    }

    /// The units of a process out of those of its owner, as far as no other process has them. Some looks at what all want: with many
    /// processes these are the cost of a report.
    pub(crate) fn offer(&mut self, position: usize, room: PoolRoom, strategy: GlobalStrategy, now: Duration) -> u32 {
        // Each process has its turn if there are fewer units than processes.
        let turn = turn(now).checked_div(room.turns).unwrap_or_default();
        let first = turn.checked_rem(self.holdings.len()).unwrap_or_default();
        let floor = self.floor(room.idle, strategy);
        let claims = UnitClaims { wanted: self.holdings.wanted(), floor, first };
        let units = claims.units_of(position, room.target, room.rest, &mut self.level);
        let free = room.free.saturating_sub(self.holdings.reserved_for_others(position));
        units.min(u32::try_from(free).unwrap_or(u32::MAX))
    }

    /// Reserves a part for a process, and returns it as the answer; `None` where the local limit is to hold.
    pub(crate) fn grant(
        &mut self,
        position: usize,
        quota: u32,
        (held, used): (u32, PartUse),
        (now, is_learning): (Duration, bool),
    ) -> Option<u32> {
        let holding = self.holdings.get(position);
        self.holdings.set(position, Holding { reserved: holding.reserved.max(quota), ..holding });
        // A process that joins has no part before the others have given some back.
        let is_joining = quota == 0 && now < holding.first.saturating_add(RESERVED_FOR);
        // One that has a part of 0 keeps that: it would go by its local limit otherwise.
        let keeps_none = used.is_leased && used.held == 0;
        (held > 0 || keeps_none || !(is_learning || is_joining)).then_some(quota)
    }

    /// All that the processes claim, of which no claim is less than its floor.
    pub(crate) fn claimed(&self, idle: u32, strategy: GlobalStrategy) -> u64 {
        let floor = self.floor(idle, strategy);
        self.holdings.wanted().iter().map(|wanted| u64::from(floor.max(*wanted))).fold(0, u64::saturating_add)
    }

    /// A small part of a limit for each process, of which all together have no more than `most`.
    pub(crate) fn reserve_of_each(&self, limit: u32, parts: u32, most: u32) -> u32 {
        reserve(limit, parts).min(most.checked_div(self.processes().max(1)).unwrap_or_default())
    }

    fn floor(&self, idle: u32, strategy: GlobalStrategy) -> u32 {
        match strategy {
            GlobalStrategy::Allocate => reserve(idle.checked_div(self.processes()).unwrap_or_default(), FLOOR),
            // A reserve is in each claim already.
            GlobalStrategy::Count => 0,
        }
    }

    fn processes(&self) -> u32 {
        u32::try_from(self.holdings.len()).unwrap_or(u32::MAX)
    }
}

/// The number of the turn.
pub(crate) fn turn(now: Duration) -> usize {
    usize::try_from(now.as_secs().checked_div(TURN_SECONDS).unwrap_or_default()).unwrap_or_default()
}

/// The end of the present turn.
pub(crate) fn turn_end(now: Duration) -> Duration {
    let turns = now.as_secs().checked_div(TURN_SECONDS).unwrap_or_default();
    Duration::from_secs(turns.saturating_add(1).saturating_mul(TURN_SECONDS))
}

/// A small part of a limit, at least one.
pub(crate) fn reserve(limit: u32, parts: u32) -> u32 {
    limit.checked_div(parts).unwrap_or_default().max(limit.min(1))
}

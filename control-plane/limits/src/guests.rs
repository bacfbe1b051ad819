//! The guests of a limit: owners beside the fleet whose reports may be lies. Each has a part, and none borrows.
//!
//! While the fleet is there guests have half of the limit together, in equal parts; without it all. A guest is believed no more
//! than it was granted, so that its reservation grows by grants alone. A part becomes smaller when another guest or the fleet joins,
//! and when the limit is lowered. Units that a guest keeps beyond it count for [`EXCESS`] at most, and then no more: the limit is exceeded
//! rather than another owner starved.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use portcullis_filter_config::GlobalStrategy;

use crate::granted::Granted;
use crate::holdings::{Holding, RESERVED_FOR};
use crate::issue::Issue;
use crate::owners::GuestName;
use crate::pool::{OwnerPool, turn, turn_end};

/// The time for which units count that a guest keeps beyond a part that has become smaller.
pub(crate) const EXCESS: Duration = Duration::from_secs(600);

/// One guest.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) pool: OwnerPool,
    /// All that its processes claimed at its last report: units, or of a rate that is counted the tokens that were missing.
    pub(crate) claims: u64,
    /// Units of the answers to its processes.
    pub(crate) granted: Granted,
    /// The tokens of its part of a rate that is counted.
    pub(crate) issue: Issue,
    /// The time until which its units beyond its part count; `None` while it has none.
    pub(crate) excess_until: Option<Duration>,
}

impl Guest {
    /// One that has reported nothing yet. Units that it claims while a limiter learns are no lease that this one gave: beyond a part they
    /// count no longer than the limiter learns.
    fn new(now: Duration, is_learning: bool) -> Self {
        let excess_until = is_learning.then_some(Duration::ZERO);
        Self {
            pool: OwnerPool::default(),
            claims: 0,
            granted: Granted::default(),
            issue: Issue::new(now),
            excess_until,
        }
    }

    /// Units that no other owner may have while this one has that part.
    fn counted(&self, part: u32, now: Duration) -> u64 {
        let reserved = self.pool.holdings.reserved();
        let is_over = self.excess_until.is_some_and(|until| now >= until);
        // A part that has just become smaller is leased until the next report.
        if is_over { reserved.min(self.granted.leased(now).max(part.into())) } else { reserved }
    }

    /// Notes what its processes claim and have, after an answer.
    pub(crate) fn follow(&mut self, idle: u32, strategy: GlobalStrategy, now: Duration) {
        self.claims = self.pool.claimed(idle, strategy);
        let units = self.pool.holdings.iter().map(|(_, holding)| u64::from(holding.held)).fold(0, u64::saturating_add);
        self.granted.note(units, now);
    }

    /// Notes whether it has more than `least`, its part in any turn.
    pub(crate) fn follow_excess(&mut self, least: u32, now: Duration) {
        let (reserved, least) = (self.pool.holdings.reserved(), u64::from(least));
        self.excess_until = match self.excess_until {
            _ if reserved <= least => None,
            // A unit of this turn is another owner's in the next one. By a time from now on a guest could renew it until that has passed.
            None if reserved == least.saturating_add(1) => Some(turn_end(now).saturating_add(RESERVED_FOR)),
            None => Some(now.saturating_add(EXCESS)),
            known => known,
        };
    }
}

/// Parts of all guests at some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuestParts {
    /// The units of all of them together.
    pub(crate) all: u32,
    /// The part of each in any turn.
    pub(crate) least: u32,
    guests: usize,
    /// Units that cannot be divided, and the rank from which on they are given away.
    odd: usize,
    first: usize,
}

impl GuestParts {
    /// The parts of so many guests. A unit that cannot be halved is the fleet's and the guests' by turns.
    pub(crate) fn new(total: u32, guests: usize, has_fleet: bool, now: Duration) -> Self {
        let turn = turn(now);
        let odd_half = if turn.is_multiple_of(2) { 0 } else { total.checked_rem(2).unwrap_or_default() };
        let half = total.checked_div(2).unwrap_or_default();
        let (all, always) = if has_fleet { (half.saturating_add(odd_half), half) } else { (total, total) };
        let count = u32::try_from(guests).unwrap_or(u32::MAX);
        let odd = all.checked_rem(count).and_then(|odd| usize::try_from(odd).ok()).unwrap_or_default();
        // A unit that is there in each other turn alone goes on to the next guest after two.
        let round = if has_fleet { turn.checked_div(2).unwrap_or_default() } else { turn };
        let first = round.checked_rem(guests).unwrap_or_default();
        Self { all, least: always.checked_div(count).unwrap_or_default(), guests, odd, first }
    }

    /// The part of the guest of this rank.
    pub(crate) fn of(self, rank: usize) -> u32 {
        let count = u32::try_from(self.guests).unwrap_or(u32::MAX);
        let in_turn = rank.saturating_add(self.guests).saturating_sub(self.first).checked_rem(self.guests);
        let has_odd = in_turn.is_some_and(|place| place < self.odd);
        self.all.checked_div(count).unwrap_or_default().saturating_add(u32::from(has_odd))
    }
}

/// Units of all guests, as the fleet sees them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GuestUnits {
    /// Those that the fleet leaves to them.
    pub(crate) claimed: u64,
    /// Those that the fleet cannot have yet.
    pub(crate) reserved: u64,
}

/// The guests, by name.
#[derive(Debug, Default)]
pub(crate) struct Guests(pub(crate) BTreeMap<GuestName, Guest>);

impl Guests {
    /// The rank of a guest; of a new one, whose first report is that of now.
    pub(crate) fn rank(&mut self, name: &GuestName, now: Duration, is_learning: bool) -> usize {
        self.0.entry(name.clone()).or_insert_with(|| Guest::new(now, is_learning));
        self.0.range::<str, _>((Bound::Unbounded, Bound::Excluded(&**name))).count()
    }

    pub(crate) fn get_mut(&mut self, name: &GuestName) -> Option<&mut Guest> {
        self.0.get_mut(name)
    }

    /// Lets units beyond their parts count until then at most, of all guests: those that have none say so with their next reports.
    pub(crate) fn end_excess(&mut self, at: Duration) {
        for guest in self.0.values_mut() {
            guest.excess_until = Some(guest.excess_until.map_or(at, |known| known.min(at)));
        }
    }

    pub(crate) fn parts(&self, total: u32, has_fleet: bool, now: Duration) -> GuestParts {
        GuestParts::new(total, self.0.len(), has_fleet, now)
    }

    /// Units of all guests, who have these parts.
    pub(crate) fn units(&self, parts: GuestParts, now: Duration) -> GuestUnits {
        self.0.values().enumerate().fold(GuestUnits::default(), |sum, (rank, guest)| {
            let part = parts.of(rank);
            let used = guest.claims.max(guest.pool.holdings.reserved());
            GuestUnits {
                claimed: sum.claimed.saturating_add(used.min(part.into())),
                reserved: sum.reserved.saturating_add(guest.counted(part, now)),
            }
        })
    }

    /// Units that no guest but this one may have, nor the fleet.
    pub(crate) fn reserved_for_others(&self, name: &GuestName, parts: GuestParts, now: Duration) -> u64 {
        let others = self.0.iter().enumerate().filter(|(_, (other, _))| *other != name);
        others.map(|(rank, (_, guest))| guest.counted(parts.of(rank), now)).fold(0, u64::saturating_add)
    }

    /// Tokens of a rate that is counted which the fleet leaves to guests: those that they lacked, as far as their parts have them.
    pub(crate) fn missing_tokens(&self, rates: GuestParts, bursts: GuestParts, now: Duration) -> u32 {
        let missing = self.0.values().enumerate().map(|(rank, guest)| {
            let tokens = guest.issue.available(rates.of(rank), bursts.of(rank), now);
            guest.claims.min(tokens.into())
        });
        u32::try_from(missing.fold(0, u64::saturating_add)).unwrap_or(u32::MAX)
    }

    pub(crate) fn holdings(&self) -> impl Iterator<Item = &Holding> {
        self.0.values().flat_map(|guest| guest.pool.holdings.iter().map(|(_, holding)| holding))
    }

    /// Gives back parts, and forgets guests without any.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&Holding) -> bool) {
        self.0.retain(|_, guest| {
            guest.pool.holdings.retain(&is_kept);
            guest.pool.holdings.len() > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_of_guests_are_even_and_never_more_than_half(
            total in prop_oneof![0..40_u32, any::<u32>()],
            guests in 1..101_usize,
            has_fleet in any::<bool>(),
            second in 0..4_000_u64,
        ) {
            let parts = GuestParts::new(total, guests, has_fleet, Duration::from_secs(second));
            let all: Vec<u32> = (0..guests).map(|rank| parts.of(rank)).collect();
            let sum: u64 = all.iter().map(|part| u64::from(*part)).sum();
            prop_assert_eq!(sum, u64::from(parts.all), "{:?}", all);
            let most = if has_fleet { total.div_ceil(2) } else { total };
            prop_assert!(parts.all <= most);
            let (low, high) = (all.iter().min().unwrap(), all.iter().max().unwrap());
            prop_assert!(high - low <= 1 && parts.least <= *low, "{all:?}");
        }
    }

    #[test]
    fn unit_that_cannot_be_divided_goes_round() {
        let seconds = [0, 10, 20, 30, 40, 50];
        let part =
            |total, guests, rank, second| GuestParts::new(total, guests, true, Duration::from_secs(second)).of(rank);
        assert_eq!(seconds.map(|second| part(1, 1, 0, second)), [0, 1, 0, 1, 0, 1], "by turns with the fleet");
        for rank in 0..3 {
            let turns: u32 = seconds.iter().map(|second| part(2, 3, rank, *second)).sum();
            assert_eq!(turns, 2, "guest {rank} of three with one unit");
        }
    }
}

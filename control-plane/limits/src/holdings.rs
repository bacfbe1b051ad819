//! The parts that all processes have of one limit.

use std::time::Duration;

use portcullis_filter_config::limits::LEASE;

use crate::holder::HolderId;

/// The time after an answer at which its lease has ended, with a gateway's clock that is at most two percent slow, and a limiter's that is
/// at most two percent fast.
pub const RESERVED_FOR: Duration = Duration::from_millis(3_123);
const _: () = assert!(RESERVED_FOR.as_millis() * 98 >= LEASE.as_millis() * 102);

/// The part of one process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Holding {
    /// Units that no other process may get.
    pub(crate) reserved: u32,
    /// Units that it had use for at most lately, and when.
    pub(crate) wanted: u32,
    pub(crate) wanted_at: Duration,
    /// Its first report and its last one.
    pub(crate) first: Duration,
    pub(crate) last: Duration,
    /// Of a rate that is allocated, by its last report: the number of that, its part, and the tokens in its bucket. Of a guest's process
    /// the part by its last answer.
    pub(crate) number: u64,
    pub(crate) held: u32,
    pub(crate) tokens: u32,
}

impl Holding {
    /// Whether its lease may last.
    pub(crate) fn is_live(&self, now: Duration) -> bool {
        now < self.last.saturating_add(RESERVED_FOR)
    }
}

/// The parts in the order of their processes. The numbers of all of them that a report needs are next to each other, or added up.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    ids: Vec<HolderId>,
    holdings: Vec<Holding>,
    /// [`Holding::wanted`] of each.
    wanted: Vec<u32>,
    /// [`Holding::reserved`] of all.
    reserved: u64,
}

impl Holdings {
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The position of a process; of a new one, whose first report is that of now.
    pub(crate) fn position(&mut self, id: HolderId, now: Duration) -> usize {
        match self.ids.binary_search(&id) {
            Ok(position) => position,
            Err(position) => {
                self.ids.insert(position, id);
                self.holdings.insert(position, Holding { first: now, last: now, ..Holding::default() });
                self.wanted.insert(position, 0);
                position
            }
        }
    }

    pub(crate) fn get(&self, position: usize) -> Holding {
        self.holdings.get(position).copied().unwrap_or_default()
    }

    pub(crate) fn set(&mut self, position: usize, holding: Holding) {
        let Some(known) = self.holdings.get_mut(position) else { return };
        self.reserved = self.reserved.saturating_sub(known.reserved.into()).saturating_add(holding.reserved.into());
        self.wanted.get_mut(position).into_iter().for_each(|wanted| *wanted = holding.wanted);
        *known = holding;
    }

    /// Units that each has use for.
    pub(crate) fn wanted(&self) -> &[u32] {
        &self.wanted
    }

    /// Units that are reserved for all processes.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Units that are reserved for all processes but one.
    pub(crate) fn reserved_for_others(&self, position: usize) -> u64 {
        self.reserved.saturating_sub(self.get(position).reserved.into())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (HolderId, &Holding)> {
        self.ids.iter().copied().zip(&self.holdings)
    }

    pub(crate) fn retain(&mut self, is_kept: impl Fn(&Holding) -> bool) {
        if !self.holdings.iter().all(&is_kept) {
            *self = self.iter().filter(|(_, holding)| is_kept(holding)).map(|(id, holding)| (id, *holding)).collect();
        }
    }
}

impl FromIterator<(HolderId, Holding)> for Holdings {
    /// Of two parts of one process the last one counts.
    fn from_iter<I: IntoIterator<Item = (HolderId, Holding)>>(parts: I) -> Self {
        let mut holdings = Holdings::default();
        for (id, holding) in parts {
            let position = holdings.position(id, holding.first);
            holdings.set(position, holding);
        }
        holdings
    }
}

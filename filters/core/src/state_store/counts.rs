//! Requests in flight and token buckets over all workers. The permits of a VM are a row of shared data under its number, which it
//! renews while it holds any: the permits of a VM that panicked are forgotten after a while.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::SharedData;
use super::table::{self, Id, Row, Table, update};
use crate::bucket::{BucketState, Rate, SharedBucketState};
use crate::limit::SharedCount;

/// Interval at which a VM renews the permits that it holds.
pub(super) const RENEWAL_INTERVAL: Duration = Duration::from_secs(4);
/// Time after which permits that are not renewed are forgotten.
const PERMIT_TTL_SECS: u64 = 20;

/// The permits of one schema.
#[derive(Debug)]
pub(super) struct SharedInFlight<H> {
    pub(super) host: H,
    pub(super) id: Id,
    pub(super) vm: u64,
    pub(super) own: AtomicU32,
}

impl<H: SharedData> SharedInFlight<H> {
    /// Writes the number of this VM's permits, by the number of the others'.
    fn write(&self, own: impl Fn(u64) -> Option<u64>) -> bool {
        let Some(now) = self.host.uptime().map(|now| now.as_secs()) else { return false };
        update(&self.host, Table::InFlight, &self.id, |rows| {
            // A row is (id, VM, permits, uptime of the renewal).
            rows.retain(|row| row.c.saturating_add(PERMIT_TTL_SECS) >= now);
            let others = rows.iter().filter(|row| row.id == self.id && row.a != self.vm).map(|row| row.b).sum();
            let own = own(others)?;
            rows.retain(|row| row.id != self.id || row.a != self.vm);
            if own > 0 {
                rows.push(Row { id: self.id, a: self.vm, b: own, c: now });
            }
            Some(())
        })
    }

    /// Renews the permits of this VM.
    pub(super) fn renew(&self) {
        let own = u64::from(self.own.load(Ordering::Relaxed));
        if own > 0 {
            self.write(|_| Some(own));
        }
    }
}

/// The permits of one schema that all VMs hold.
pub(super) fn permits_of_all(host: &impl SharedData, id: &Id) -> u32 {
    let now = host.uptime().map_or(0, |now| now.as_secs());
    let rows = table::rows(host, Table::InFlight, id);
    let live = rows.iter().filter(|row| row.id == *id && row.c.saturating_add(PERMIT_TTL_SECS) >= now);
    u32::try_from(live.map(|row| row.b).sum::<u64>()).unwrap_or(u32::MAX)
}

impl<H: SharedData> SharedCount for SharedInFlight<H> {
    fn acquire(&self, max: u32) -> bool {
        let own = u64::from(self.own.load(Ordering::Relaxed));
        let is_in = self.write(|others| (others.saturating_add(own) < u64::from(max)).then_some(own.saturating_add(1)));
        if is_in {
            self.own.fetch_add(1, Ordering::Relaxed);
        }
        is_in
    }

    fn release(&self) {
        let own = self.own.load(Ordering::Relaxed).saturating_sub(1);
        self.own.store(own, Ordering::Relaxed);
        // A write that fails now is made up for by the next one.
        self.write(|_| Some(u64::from(own)));
    }

    fn own(&self) -> u32 {
        self.own.load(Ordering::Relaxed)
    }
}

/// The level of one token bucket.
#[derive(Debug)]
pub(super) struct SharedBucket<H> {
    pub(super) host: H,
    pub(super) id: Id,
    pub(super) rate: Rate,
}

/// Buckets of one value, of all clusters: each change of one reads and writes them all.
const MAX_LEVELS: usize = 2_048;
/// Time for which a bucket that never refills is kept after its last use.
const UNREFILLED_TTL: Duration = Duration::from_secs(600);

impl<H> SharedBucket<H> {
    /// Nanoseconds of uptime at which the bucket is full, and so no other than one that is not there.
    fn full_at(&self, level: BucketState) -> u64 {
        let missing = self.rate.full().saturating_sub(level.tokens);
        let unrefilled = || u64::try_from(UNREFILLED_TTL.as_nanos()).unwrap_or(u64::MAX);
        let qps = u64::from(self.rate.qps);
        level.at.saturating_add(if qps == 0 { unrefilled() } else { missing.div_ceil(qps) })
    }
}

impl<H: SharedData> SharedBucketState for SharedBucket<H> {
    fn change(&self, change: &dyn Fn(Option<BucketState>) -> Option<BucketState>) -> bool {
        let now = self.host.uptime().map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        update(&self.host, Table::Levels, &self.id, |rows| {
            // A row is (id, tokens, time, time at which the bucket is full).
            let at = rows.iter().position(|row| row.id == self.id);
            let known = at.map(|at| rows.swap_remove(at)).map(|row| BucketState { tokens: row.a, at: row.b });
            let level = change(known)?;
            rows.retain(|row| row.c > now);
            if rows.len() >= MAX_LEVELS {
                let next = rows.iter().zip(0..).min_by_key(|(row, _)| row.c).map(|(_, at)| at)?;
                rows.swap_remove(next);
            }
            rows.push(Row { id: self.id, a: level.tokens, b: level.at, c: self.full_at(level) });
            Some(())
        })
    }
}

//! Requests in flight, counted over all workers. The permits of a VM are a row of shared data under its number, which it renews
//! while it holds any: the permits of a VM that panicked are forgotten after a while.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use portcullis_core::limit::SharedCount;

use crate::hostcalls::Hostcalls;
use crate::shared_table::{Id, Row, Table, update};

/// How often a VM that holds places says so.
pub(crate) const RENEWED: Duration = Duration::from_secs(4);
/// After how long the places of a VM are forgotten that does not.
const FORGOTTEN: u64 = 20;

/// One schema's places.
#[derive(Debug)]
pub(crate) struct Places<H> {
    pub(crate) host: H,
    pub(crate) id: Id,
    pub(crate) vm: u64,
    pub(crate) own: AtomicU32,
}

impl<H: Hostcalls> Places<H> {
    /// Writes what this VM holds, by what the others do.
    fn write(&self, own: impl Fn(u64) -> Option<u64>) -> bool {
        let Some(now) = self.host.uptime().map(|now| now.as_secs()) else { return false };
        update(&self.host, Table::Places, &self.id, |rows| {
            // A row is (id, VM, what it holds, when it said so).
            rows.retain(|row| row.c.saturating_add(FORGOTTEN) >= now);
            let others = rows.iter().filter(|row| row.id == self.id && row.a != self.vm).map(|row| row.b).sum();
            let own = own(others)?;
            rows.retain(|row| row.id != self.id || row.a != self.vm);
            if own > 0 {
                rows.push(Row { id: self.id, a: self.vm, b: own, c: now });
            }
            Some(())
        })
    }

    /// Says that this VM still holds what it holds.
    pub(crate) fn renew(&self) {
        let own = u64::from(self.own.load(Ordering::Relaxed));
        if own > 0 {
            self.write(|_| Some(own));
        }
    }
}

impl<H: Hostcalls> SharedCount for Places<H> {
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
        // If it is not written now, it is with the next change.
        self.write(|_| Some(u64::from(own)));
    }

    fn own(&self) -> u32 {
        self.own.load(Ordering::Relaxed)
    }
}

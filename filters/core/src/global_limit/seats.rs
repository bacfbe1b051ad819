use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use portcullis_filter_config::limits::{LimitPart, PartUse};

use super::PartName;
use super::lease::Lease;
use super::report_room::PartNeed;
use crate::limit::{InFlight, InFlightPermit};

/// No part: the local limit holds.
const NONE: u32 = u32::MAX;

/// The limits of the present configuration that hold without a lease, and beside one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FallbackSeats {
    /// The limit of this process alone.
    pub local: u32,
    /// The limit of all gateways together: the most that a process goes on with because it was in use.
    pub global: u32,
    /// The most that the requests of this configuration find in flight, whatever the part is.
    pub most: u32,
}

impl FallbackSeats {
    /// The part, and without one the larger of the local limit and of what was in use; never more than the configuration has.
    pub(crate) fn max(self, part: Option<u32>, in_use: u32) -> u32 {
        part.unwrap_or_else(|| self.local.max(in_use.min(self.global))).min(self.most)
    }
}

/// The part of a limit of requests in flight. An edit of the limit keeps it.
#[derive(Debug)]
pub struct SeatsPart {
    name: PartName,
    lease: Arc<Lease>,
    running: Arc<InFlight>,
    quota: AtomicU32,
    /// Most requests in flight between the last two reports under a lease.
    observed: AtomicU32,
    /// Most requests in flight since the last report.
    peak: AtomicU32,
    /// Requests that were refused since the last report.
    refused: AtomicU32,
}

impl SeatsPart {
    pub(super) fn new(name: PartName, lease: &Arc<Lease>, running: &Arc<InFlight>) -> Self {
        Self {
            name,
            lease: Arc::clone(lease),
            running: Arc::clone(running),
            quota: AtomicU32::new(NONE),
            observed: AtomicU32::default(),
            peak: AtomicU32::default(),
            refused: AtomicU32::default(),
        }
    }

    pub(super) fn name(&self) -> &PartName {
        &self.name
    }

    /// Takes a permit, if this part of the limit has one.
    pub fn acquire(&self, fallback: FallbackSeats, uptime: Duration) -> Option<InFlightPermit> {
        let max = self.max(fallback, uptime);
        let permit = self.running.acquire(max);
        if permit.is_some() {
            self.peak.fetch_max(self.running.count(), Ordering::Relaxed);
        } else if max < fallback.most {
            // A larger part would let it in.
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        permit
    }

    /// Most requests in flight at that uptime.
    pub fn max(&self, fallback: FallbackSeats, uptime: Duration) -> u32 {
        fallback.max(self.quota(uptime), self.observed.load(Ordering::Acquire))
    }

    /// The same by the newest answer, whether or not its lease has ended.
    pub(crate) fn last_max(&self, fallback: FallbackSeats) -> u32 {
        let quota = self.quota.load(Ordering::Acquire);
        if quota == NONE { fallback.local } else { quota }.min(fallback.most)
    }

    /// The part of the limit, while it is leased.
    pub fn quota(&self, uptime: Duration) -> Option<u32> {
        let quota = self.quota.load(Ordering::Acquire);
        (quota != NONE && self.lease.is_live(uptime)).then_some(quota)
    }

    /// The requests in flight.
    pub fn running(&self) -> &Arc<InFlight> {
        &self.running
    }

    /// The need of the part: whether requests are in flight, or came since the last report.
    pub(super) fn need(&self) -> PartNeed {
        let [peak, refused] = [&self.peak, &self.refused].map(|count| count.load(Ordering::Relaxed));
        PartNeed::of(self.running.count() > 0, peak > 0 || refused > 0)
    }

    pub(super) fn report(&self, uptime: Duration) -> PartUse {
        let used = self.running.count();
        let peak = self.peak.swap(used, Ordering::AcqRel).max(used);
        let refused = self.refused.swap(0, Ordering::AcqRel);
        let held = self.quota(uptime);
        if let Some(quota) = held {
            self.observed.store(peak.min(quota), Ordering::Release);
        }
        PartUse {
            is_rate: false,
            is_leased: held.is_some(),
            held: held.unwrap_or_default(),
            used,
            wanted: peak.saturating_add(refused),
        }
    }

    pub(super) fn replace(&self, part: Option<LimitPart>) {
        self.quota.store(part.map_or(NONE, |part| part.quota.min(NONE - 1)), Ordering::Release);
    }

    /// Ends the part of a process that is connected: the local limit alone holds. Requests in flight go on.
    pub(super) fn leave_out(&self) {
        self.replace(None);
        self.observed.store(0, Ordering::Release);
    }
}

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_filter_config::limits::{LimitPart, PartUse};

use super::PartName;
use super::lease::{Lease, nanoseconds};
use crate::bucket::{Rate, TOKEN};

/// The part of a limit of requests per second: a bucket whose rate changes while it is in use. It has one token at first, so that
/// a process that restarts brings no burst along; an edit of the limit keeps it.
#[derive(Debug)]
pub struct RatePart {
    name: PartName,
    lease: Arc<Lease>,
    bucket: Mutex<RateLevel>,
}

/// The bucket. Times are nanoseconds of uptime, and `until` is the end of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateLevel {
    /// Billionths of a token.
    pub(crate) tokens: u64,
    /// The time up to which it is refilled; `None` before it is first looked at.
    pub(crate) at: Option<u64>,
    /// The part, also when its lease has ended.
    pub(crate) part: Option<Rate>,
    /// Requests per second that went through between the last two reports under a lease.
    pub(crate) observed: u32,
    pub(crate) asked: u32,
    pub(crate) taken: u32,
    pub(crate) reported: u64,
}

impl RatePart {
    pub(super) fn new(name: PartName, lease: &Arc<Lease>) -> Self {
        Self { name, lease: Arc::clone(lease), bucket: Mutex::default() }
    }

    pub(super) fn name(&self) -> &PartName {
        &self.name
    }

    /// Takes a token, if there is one. `local` is the limit without a control plane.
    pub fn take(&self, local: Rate, uptime: Duration) -> bool {
        self.bucket().take(local, self.lease.until(), nanoseconds(uptime))
    }

    /// The part of the limit, while it is leased: tokens are added either at its rate, or with each report.
    pub fn part(&self, uptime: Duration) -> Option<Rate> {
        self.bucket().part.filter(|_| self.lease.is_live(uptime))
    }

    /// The part by the newest answer, whether or not its lease has ended.
    pub(crate) fn last_rate(&self) -> Option<Rate> {
        self.bucket().part
    }

    /// Requests that could go through at that uptime.
    pub fn tokens(&self, local: Rate, uptime: Duration) -> u32 {
        self.bucket().tokens(local, self.lease.until(), nanoseconds(uptime))
    }

    pub(super) fn report(&self, uptime: Duration) -> PartUse {
        self.bucket().report(self.lease.until(), nanoseconds(uptime))
    }

    pub(super) fn replace(&self, part: Option<LimitPart>, uptime: Duration) {
        self.bucket().replace(part, self.lease.until(), nanoseconds(uptime));
    }

    fn bucket(&self) -> MutexGuard<'_, RateLevel> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for RateLevel {
    fn default() -> Self {
        RateLevel { tokens: TOKEN, at: None, part: None, observed: 0, asked: 0, taken: 0, reported: 0 }
    }
}

impl RateLevel {
    /// Takes a token, if there is one.
    pub(crate) fn take(&mut self, local: Rate, until: u64, now: u64) -> bool {
        self.refill(Some(local), until, now);
        self.asked = self.asked.saturating_add(1);
        let rest = self.tokens.checked_sub(TOKEN);
        if let Some(rest) = rest {
            self.tokens = rest;
            self.taken = self.taken.saturating_add(1);
        }
        rest.is_some()
    }

    /// Requests that could go through.
    pub(crate) fn tokens(&mut self, local: Rate, until: u64, now: u64) -> u32 {
        self.refill(Some(local), until, now);
        whole(self.tokens)
    }

    /// The use since the last report.
    pub(crate) fn report(&mut self, until: u64, now: u64) -> PartUse {
        // Without the local limit, which the next request brings along.
        self.refill(None, until, now);
        let passed = now.saturating_sub(self.reported);
        let (asked, taken) = (per_second(self.asked, passed), per_second(self.taken, passed));
        (self.asked, self.taken, self.reported) = (0, 0, now);
        let held = self.part.filter(|_| now < until);
        if held.is_some() {
            self.observed = taken;
        }
        PartUse { is_rate: true, held: held.map_or(0, |part| part.qps), used: whole(self.tokens), wanted: asked }
    }

    /// Changes the part; `until` is the end of the lease before.
    pub(crate) fn replace(&mut self, part: Option<LimitPart>, until: u64, now: u64) {
        self.refill(None, until, now);
        // The time between two leases makes nothing for the second one.
        self.at = self.at.max(Some(now));
        self.part = part.map(|part| Rate { qps: part.quota, burst: part.burst });
        if let (Some(part), Some(rate)) = (part, self.part) {
            let added = u64::from(part.tokens).saturating_mul(TOKEN);
            self.tokens = self.tokens.saturating_add(added).min(rate.full());
        }
    }

    /// Adds what the part has made until its lease ended, and from then on what the local limit makes; without one nothing, and
    /// the time since then is left for the next call.
    fn refill(&mut self, local: Option<Rate>, until: u64, now: u64) {
        let end = now.min(until);
        // Once only: tokens that the local limit makes are not confined to the part.
        if let Some(part) = self.part.filter(|_| self.at.is_none_or(|at| at < end)) {
            self.add(part, end);
        }
        let is_over = self.part.is_none() || now >= until;
        if let Some(local) = local.filter(|_| is_over) {
            let qps = local.qps.max(self.observed);
            self.add(Rate { qps, burst: local.burst.max(qps) }, now);
        }
    }

    fn add(&mut self, rate: Rate, now: u64) {
        let at = self.at.unwrap_or(now);
        let made = now.saturating_sub(at).saturating_mul(u64::from(rate.qps));
        self.tokens = self.tokens.saturating_add(made).min(rate.full());
        self.at = Some(at.max(now));
    }
}

/// Requests per second, out of those in that many nanoseconds: at least a tenth of a second, so that a request alone is no rate.
fn per_second(requests: u32, nanoseconds: u64) -> u32 {
    let rate = u64::from(requests).saturating_mul(TOKEN).div_ceil(nanoseconds.max(TOKEN / 10));
    u32::try_from(rate).unwrap_or(u32::MAX)
}

fn whole(tokens: u64) -> u32 {
    u32::try_from(tokens.checked_div(TOKEN).unwrap_or_default()).unwrap_or(u32::MAX)
}

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_filter_config::limits::{LimitPart, PartUse};

use super::PartName;
use super::lease::{Lease, nanoseconds};
use super::report_room::PartNeed;
use crate::bucket::{Rate, TOKEN};

/// The part of a limit of requests per second: a bucket whose rate changes while it is in use. It has one token at first, so that
/// a process that restarts brings no burst along; an edit of the limit keeps it.
#[derive(Debug)]
pub struct RatePart {
    name: PartName,
    lease: Arc<Lease>,
    bucket: Mutex<RateLevel>,
}

/// The limits of the present configuration that hold without a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FallbackRate {
    /// The limit of this process alone.
    pub local: Rate,
    /// Requests per second of all gateways together: the most that a process goes on with because they were in use.
    pub global_qps: u32,
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
    /// Thousandths of a request per second that went through under leases, up to the last report that was answered: a mean over about
    /// a second.
    pub(crate) observed: u64,
    /// The same up to the first report since, which is not answered yet. A part that waits for answers gives less than was in use.
    pub(crate) unanswered: Option<u64>,
    pub(crate) asked: u32,
    pub(crate) taken: u32,
    pub(crate) reported: u64,
    /// The last answer.
    pub(crate) answered: u64,
    /// The time from which tokens that are issued with answers are overdue.
    pub(crate) overdue: u64,
}

/// The time after an answer at which the next tokens are overdue: twice that between two answers, for which a limiter issues them, within
/// these bounds.
const OVERDUE: (u64, u64) = (TOKEN / 2, 2 * TOKEN);
const THOUSAND: u64 = 1_000;

impl RatePart {
    pub(super) fn new(name: PartName, lease: &Arc<Lease>) -> Self {
        Self { name, lease: Arc::clone(lease), bucket: Mutex::default() }
    }

    pub(super) fn name(&self) -> &PartName {
        &self.name
    }

    /// Takes a token, if there is one.
    pub fn take(&self, fallback: FallbackRate, uptime: Duration) -> bool {
        self.bucket().take(fallback, self.lease.until(), nanoseconds(uptime))
    }

    /// The part of the limit, while it is leased: tokens are added either at its rate, or with each report unless these are overdue.
    pub fn part(&self, uptime: Duration) -> Option<Rate> {
        self.bucket().held(self.lease.until(), nanoseconds(uptime))
    }

    /// The part by the newest answer, whether or not its lease has ended.
    pub(crate) fn last_rate(&self) -> Option<Rate> {
        self.bucket().part
    }

    /// Requests that could go through at that uptime.
    pub fn tokens(&self, fallback: FallbackRate, uptime: Duration) -> u32 {
        self.bucket().tokens(fallback, self.lease.until(), nanoseconds(uptime))
    }

    /// The need of the part: whether requests came since the last report.
    pub(super) fn need(&self) -> PartNeed {
        PartNeed::of(false, self.bucket().asked > 0)
    }

    pub(super) fn report(&self, uptime: Duration) -> PartUse {
        self.bucket().report(self.lease.until(), nanoseconds(uptime))
    }

    pub(super) fn replace(&self, part: Option<LimitPart>, uptime: Duration) {
        self.bucket().replace(part, self.lease.until(), nanoseconds(uptime));
    }

    /// Ends the part of a process that is connected: the local limit alone holds.
    pub(super) fn leave_out(&self, uptime: Duration) {
        let mut bucket = self.bucket();
        bucket.replace(None, self.lease.until(), nanoseconds(uptime));
        bucket.forget_use();
    }

    fn bucket(&self) -> MutexGuard<'_, RateLevel> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for RateLevel {
    fn default() -> Self {
        RateLevel {
            tokens: TOKEN,
            at: None,
            part: None,
            observed: 0,
            unanswered: None,
            asked: 0,
            taken: 0,
            reported: 0,
            answered: 0,
            overdue: 0,
        }
    }
}

impl RateLevel {
    /// Takes a token, if there is one.
    pub(crate) fn take(&mut self, fallback: FallbackRate, until: u64, now: u64) -> bool {
        self.refill(Some(fallback), until, now);
        self.asked = self.asked.saturating_add(1);
        let rest = self.tokens.checked_sub(TOKEN);
        if let Some(rest) = rest {
            self.tokens = rest;
            self.taken = self.taken.saturating_add(1);
        }
        rest.is_some()
    }

    /// Requests that could go through.
    pub(crate) fn tokens(&mut self, fallback: FallbackRate, until: u64, now: u64) -> u32 {
        self.refill(Some(fallback), until, now);
        whole(self.tokens)
    }

    /// The part, while it gives tokens.
    pub(crate) fn held(&self, until: u64, now: u64) -> Option<Rate> {
        self.part.filter(|part| now < self.end_of(*part, until))
    }

    /// The use since the last report.
    pub(crate) fn report(&mut self, until: u64, now: u64) -> PartUse {
        // Without the local limit, which the next request brings along.
        self.refill(None, until, now);
        let passed = now.saturating_sub(self.reported);
        let (asked, taken) = (per_second(self.asked, passed), per_second(self.taken, passed));
        (self.asked, self.taken, self.reported) = (0, 0, now);
        let held = self.held(until, now);
        if let Some(part) = held.filter(|_| self.unanswered.is_none()) {
            // A burst is no rate.
            let used = if is_counted(part) { taken } else { taken.min(part.qps) };
            self.unanswered = Some(mean(self.observed, used, passed));
        }
        let is_leased = held.is_some();
        PartUse {
            is_rate: true,
            is_leased,
            held: held.map_or(0, |part| part.qps),
            used: whole(self.tokens),
            wanted: asked,
        }
    }

    /// Changes the part; `until` is the end of the lease before.
    pub(crate) fn replace(&mut self, part: Option<LimitPart>, until: u64, now: u64) {
        self.refill(None, until, now);
        // The time between two leases makes nothing for the second one. Without a part the local limit makes tokens across answers.
        if self.part.is_some() || part.is_some() || self.at.is_none() {
            self.at = self.at.max(Some(now));
        }
        self.observed = self.unanswered.take().unwrap_or(self.observed);
        let (least, most) = OVERDUE;
        let next = now.saturating_sub(self.answered).saturating_mul(2).clamp(least, most);
        (self.answered, self.overdue) = (now, now.saturating_add(next));
        self.part = part.map(|part| Rate { qps: part.quota, burst: part.burst });
        if let (Some(part), Some(rate)) = (part, self.part) {
            let added = u64::from(part.tokens).saturating_mul(TOKEN);
            self.tokens = self.tokens.saturating_add(added).min(rate.full());
        }
    }

    /// Forgets what was in use: without a lease the local limit alone holds.
    pub(crate) fn forget_use(&mut self) {
        (self.observed, self.unanswered) = (0, None);
    }

    /// Adds what the part has made until it ended, and from then on what the local limit makes; without one nothing, and the time
    /// since then is left for the next call.
    fn refill(&mut self, fallback: Option<FallbackRate>, until: u64, now: u64) {
        let until = self.part.map_or(until, |part| self.end_of(part, until));
        let end = now.min(until);
        // Once only: tokens that the local limit makes are not confined to the part.
        if let Some(part) = self.part.filter(|_| self.at.is_none_or(|at| at < end)) {
            self.add(part, end);
        }
        let is_over = self.part.is_none() || now >= until;
        if let Some(FallbackRate { local, global_qps }) = fallback.filter(|_| is_over) {
            let qps = local.qps.max(self.in_use().min(global_qps));
            self.add(Rate { qps, burst: local.burst.max(qps) }, now);
        }
    }

    /// The time at which a part ends: with its lease. Tokens of one that is counted are not reserved, so that no other gateway may have
    /// got them when they are overdue.
    fn end_of(&self, part: Rate, until: u64) -> u64 {
        if is_counted(part) { until.min(self.overdue) } else { until }
    }

    /// Requests per second that were in use, and no more than the last part if that was one.
    fn in_use(&self) -> u32 {
        let observed = u32::try_from(self.observed.saturating_add(THOUSAND / 2) / THOUSAND).unwrap_or(u32::MAX);
        self.part.filter(|part| !is_counted(*part)).map_or(observed, |part| observed.min(part.qps))
    }

    fn add(&mut self, rate: Rate, now: u64) {
        let at = self.at.unwrap_or(now);
        let made = now.saturating_sub(at).saturating_mul(u64::from(rate.qps));
        self.tokens = self.tokens.saturating_add(made).min(rate.full());
        self.at = Some(at.max(now));
    }
}

/// Whether tokens of a part are issued with each answer. One that is allocated has no burst without a rate.
fn is_counted(part: Rate) -> bool {
    part.qps == 0 && part.burst > 0
}

/// The mean of the last second, in thousandths: the rate before, and another one for that many nanoseconds.
fn mean(before: u64, rate: u32, nanoseconds: u64) -> u64 {
    let weight = nanoseconds.min(TOKEN) / (TOKEN / THOUSAND);
    let rest = before.saturating_mul(THOUSAND.saturating_sub(weight)) / THOUSAND;
    rest.saturating_add(u64::from(rate).saturating_mul(weight))
}

/// Requests per second, out of those in that many nanoseconds: at least a tenth of a second, so that a request alone is no rate.
fn per_second(requests: u32, nanoseconds: u64) -> u32 {
    let rate = u64::from(requests).saturating_mul(TOKEN).div_ceil(nanoseconds.max(TOKEN / 10));
    u32::try_from(rate).unwrap_or(u32::MAX)
}

fn whole(tokens: u64) -> u32 {
    u32::try_from(tokens.checked_div(TOKEN).unwrap_or_default()).unwrap_or(u32::MAX)
}

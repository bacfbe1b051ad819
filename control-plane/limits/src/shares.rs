//! One limit, and what each process has of it.

use std::time::Duration;

use portcullis_filter_config::limits::{LimitPart, PartUse};
use portcullis_filter_config::{FlowControlLimit, GlobalLimit, GlobalStrategy};

use crate::division::Rest;
use crate::guests::Guests;
use crate::holder::{Holder, HolderId};
use crate::holdings::{Holding, RESERVED_FOR};
use crate::issue::Issue;
use crate::owners::GuestName;
use crate::pool::{Belief, OwnerPool, PoolRoom, reserve};
use crate::spare::SpareTokens;

/// The pause until a process reports again: if its part is allocated, if it has less than it wants, and if it is counted.
const PAUSE: Duration = Duration::from_secs(1);
const SHORT_PAUSE: Duration = Duration::from_millis(250);
const COUNT_PAUSE: Duration = Duration::from_millis(100);
/// The time for which the fleet has its half without a report: its processes may come to a control plane later than those of guests.
const FLEET_RETURNS: Duration = Duration::from_secs(60);

/// The answer about one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitAnswer {
    /// The part of the process; `None` where the local limit is to hold.
    pub part: Option<LimitPart>,
    /// The time after which it should report again.
    pub next: Duration,
}

/// One limit.
#[derive(Debug)]
pub(crate) struct Shares {
    pub(crate) limit: GlobalLimit,
    /// Until then there may be leases of another limiter, which this one does not know.
    pub(crate) learns_until: Duration,
    /// The processes that belong to no guest.
    pub(crate) fleet: OwnerPool,
    /// Until then the fleet has its half, whether it reports or not.
    pub(crate) fleet_until: Duration,
    pub(crate) guests: Guests,
    pub(crate) issue: Issue,
    /// Until then there may be leases that make tokens by themselves.
    pub(crate) issues_from: Duration,
    pub(crate) spare: SpareTokens,
}

impl Shares {
    pub(crate) fn new(limit: GlobalLimit, now: Duration) -> Self {
        let learns_until = now.saturating_add(RESERVED_FOR);
        Self {
            limit,
            learns_until,
            fleet: OwnerPool::default(),
            fleet_until: now.saturating_add(FLEET_RETURNS),
            guests: Guests::default(),
            issue: Issue::new(now),
            issues_from: now,
            spare: SpareTokens::default(),
        }
    }

    /// Takes another limit. Parts of a larger one shrink with the next reports; a limit of another kind begins anew.
    pub(crate) fn replace(&mut self, limit: GlobalLimit, now: Duration) {
        let is_rate = |limit: &GlobalLimit| matches!(limit.limit, FlowControlLimit::TokenBucket { .. });
        if is_rate(&limit) != is_rate(&self.limit) || limit.strategy != self.limit.strategy {
            *self = Self::new(limit, now);
            self.issues_from = self.learns_until;
            self.issue = Issue::new(self.issues_from);
        }
        if units(&limit) < units(&self.limit) {
            self.end_excess(now);
        }
        self.limit = limit;
    }

    /// Lets guests keep what they have beyond their parts for no longer than their leases last: the fleet would starve otherwise.
    fn end_excess(&mut self, now: Duration) {
        self.guests.end_excess(now.saturating_add(RESERVED_FOR));
    }

    /// Whether no process has a part of it, and no other limiter has given one away.
    pub(crate) fn has_ended(&self, now: Duration) -> bool {
        let mut holdings = self.fleet.holdings.iter().map(|(_, holding)| holding).chain(self.guests.holdings());
        now >= self.learns_until.max(self.issues_from) && !holdings.any(|holding| holding.is_live(now))
    }

    /// Gives back the parts whose leases have ended.
    pub(crate) fn sweep(&mut self, now: Duration) {
        self.fleet.holdings.retain(|holding| holding.is_live(now));
        self.guests.retain(|holding| holding.is_live(now));
    }

    /// Takes the report of a process, and gives it its part from now on. `guest` is its owner, `None` for one of the fleet.
    pub(crate) fn exchange(
        &mut self,
        of: Holder,
        guest: Option<&GuestName>,
        used: PartUse,
        now: Duration,
    ) -> LimitAnswer {
        match guest {
            None => {
                if !self.has_fleet(now) {
                    self.end_excess(now);
                }
                self.fleet_until = self.fleet_until.max(now.saturating_add(FLEET_RETURNS));
                self.exchange_of_fleet(of, used, now)
            }
            Some(guest) => self.exchange_of_guest(of, guest, used, now),
        }
    }

    fn exchange_of_fleet(&mut self, of: Holder, used: PartUse, now: Duration) -> LimitAnswer {
        match (self.limit.limit, self.limit.strategy) {
            (FlowControlLimit::MaxRequestsInflight(max), strategy) if !used.is_rate => {
                let claim = match strategy {
                    GlobalStrategy::Allocate => used.wanted,
                    GlobalStrategy::Count => {
                        let reserve = self.fleet.reserve_of_each(max, 50, max.div_ceil(2));
                        used.wanted.max(used.used.saturating_add(reserve))
                    }
                };
                let position = self.fleet.holdings.position(of.id, now);
                let quota = self.divide(position, PartUse { wanted: claim, ..used }, max, now);
                let part = quota.map(|quota| LimitPart { quota, ..LimitPart::default() });
                LimitAnswer { part, next: self.pause(quota, used) }
            }
            (FlowControlLimit::TokenBucket { qps, burst }, GlobalStrategy::Allocate) if used.is_rate => {
                let position = self.fleet.holdings.position(of.id, now);
                let (lost, reserved) = lost_tokens(self.fleet.holdings.get(position), of.number, used);
                self.spare.add(lost.min(share(burst, reserved, qps)), qps, burst, now);
                // Tokens are not reserved: a bucket that shrinks loses them at once.
                let quota = self.divide(position, PartUse { used: 0, ..used }, qps, now);
                let known = self.fleet.holdings.get(position);
                let reported = Holding { number: of.number, held: used.held, tokens: used.used, ..known };
                self.fleet.holdings.set(position, reported);
                let (burst_of_all, spare) = (burst, &mut self.spare);
                let part = quota.map(|quota| {
                    let burst = share(burst_of_all, quota, qps);
                    let room = if quota > used.held { burst.saturating_sub(used.used) } else { 0 };
                    LimitPart { quota, burst, tokens: spare.take(room, qps, burst_of_all, now) }
                });
                LimitAnswer { part, next: self.pause(quota, used) }
            }
            // Leases that make tokens by themselves may be of an earlier limiter.
            (FlowControlLimit::TokenBucket { .. }, GlobalStrategy::Count)
                if now < self.learns_until && used.held > 0 =>
            {
                self.issues_from = self.learns_until;
                self.issue = Issue::new(self.issues_from);
                LimitAnswer { part: None, next: SHORT_PAUSE }
            }
            (FlowControlLimit::TokenBucket { .. }, GlobalStrategy::Count) if now < self.issues_from => {
                LimitAnswer { part: None, next: SHORT_PAUSE }
            }
            (FlowControlLimit::TokenBucket { qps, burst }, GlobalStrategy::Count) if used.is_rate => {
                let ahead = ahead(&mut self.fleet, of.id, used.wanted, now);
                let ahead = ahead.max(self.fleet.reserve_of_each(qps, 20, burst)).max(qps.min(1)).min(burst);
                let [rates, bursts] = [qps, burst].map(|total| self.guests.parts(total, true, now));
                let missing = self.guests.missing_tokens(rates, bursts, now);
                let left = self.issue.available(qps, burst, now).saturating_sub(missing);
                let tokens = self.issue.take(ahead.saturating_sub(used.used).min(left), qps, burst, now);
                LimitAnswer { part: Some(LimitPart { quota: 0, burst: ahead, tokens }), next: COUNT_PAUSE }
            }
            // The gateway has another edition of the object.
            _ => LimitAnswer { part: None, next: PAUSE },
        }
    }

    /// The units of a process of the fleet from now on, out of `total`.
    fn divide(&mut self, position: usize, used: PartUse, total: u32, now: Duration) -> Option<u32> {
        let is_learning = now < self.learns_until;
        // A process that says to have more than it ever got is not believed, but where this limiter cannot know.
        let held = if is_learning { total } else { self.fleet.holdings.get(position).reserved };
        let held = self.fleet.note(position, used, Belief { held, used: u32::MAX }, now);
        let quota = if is_learning {
            held
        } else {
            let units = self.guests.units(self.guests.parts(total, true, now), now);
            let left = |units: u64| u64::from(total).saturating_sub(units);
            let target = u32::try_from(left(units.claimed)).unwrap_or(u32::MAX);
            let rest = match self.limit.strategy {
                GlobalStrategy::Allocate => Rest::Divided,
                GlobalStrategy::Count => Rest::Kept,
            };
            let turns = if self.guests.0.is_empty() { 1 } else { 2 };
            let room = PoolRoom { target, idle: target, free: left(units.reserved), rest, turns };
            self.fleet.offer(position, room, self.limit.strategy, now)
        };
        self.fleet.grant(position, quota, (held, used), (now, is_learning))
    }

    /// Whether the fleet has its half of the limit.
    fn has_fleet(&self, now: Duration) -> bool {
        now < self.fleet_until || self.fleet.holdings.len() > 0
    }

    /// The pause after an answer with this quota.
    fn pause(&self, quota: Option<u32>, used: PartUse) -> Duration {
        let is_short = quota.is_none_or(|quota| quota < used.wanted || quota < used.held);
        match self.limit.strategy {
            GlobalStrategy::Count => COUNT_PAUSE,
            GlobalStrategy::Allocate if is_short => SHORT_PAUSE,
            GlobalStrategy::Allocate => PAUSE,
        }
    }
}

/// Reports of guests.
impl Shares {
    fn exchange_of_guest(&mut self, of: Holder, name: &GuestName, used: PartUse, now: Duration) -> LimitAnswer {
        match (self.limit.limit, self.limit.strategy) {
            (FlowControlLimit::MaxRequestsInflight(max), _) if !used.is_rate => {
                let quota = self.divide_for_guest(of.id, name, used, max, now);
                let part = quota.map(|quota| LimitPart { quota, ..LimitPart::default() });
                LimitAnswer { part, next: self.pause(quota, used) }
            }
            // Tokens that buckets lose stay in the fleet: a guest could say that it lost some.
            (FlowControlLimit::TokenBucket { qps, burst }, GlobalStrategy::Allocate) if used.is_rate => {
                let quota = self.divide_for_guest(of.id, name, PartUse { used: 0, ..used }, qps, now);
                let part = quota.map(|quota| LimitPart { quota, burst: share(burst, quota, qps), tokens: 0 });
                LimitAnswer { part, next: self.pause(quota, used) }
            }
            // The guest alone waits for its own leases: it could stop the tokens of all otherwise.
            (FlowControlLimit::TokenBucket { .. }, GlobalStrategy::Count)
                if now < self.issues_from || (now < self.learns_until && used.held > 0) =>
            {
                LimitAnswer { part: None, next: SHORT_PAUSE }
            }
            (FlowControlLimit::TokenBucket { qps, burst }, GlobalStrategy::Count) if used.is_rate => {
                let part = self.issue_to_guest(of.id, name, used, (qps, burst), now);
                LimitAnswer { part, next: COUNT_PAUSE }
            }
            _ => LimitAnswer { part: None, next: PAUSE },
        }
    }

    /// The units of a guest's process from now on, out of its guest's part of `total`.
    fn divide_for_guest(
        &mut self,
        of: HolderId,
        name: &GuestName,
        used: PartUse,
        total: u32,
        now: Duration,
    ) -> Option<u32> {
        let (is_learning, has_fleet) = (now < self.learns_until, self.has_fleet(now));
        let strategy = self.limit.strategy;
        let rank = self.guests.rank(name, now, is_learning);
        let parts = self.guests.parts(total, has_fleet, now);
        let others = self.guests.reserved_for_others(name, parts, now);
        let part = parts.of(rank);
        let left = u64::from(total).saturating_sub(self.fleet.holdings.reserved()).saturating_sub(others);
        let free = left.min(u64::from(parts.all).saturating_sub(others)).min(part.into());
        // Without the fleet the part is there for whatever comes; beside it the fleet has what the guest does not claim.
        let rest = if has_fleet || strategy == GlobalStrategy::Count { Rest::Kept } else { Rest::Divided };
        // Of a part of one unit an idle guest keeps none: the fleet would lack it.
        let idle = if has_fleet { part.checked_div(2).unwrap_or_default() } else { part };
        let turns = self.guests.0.len().saturating_mul(2);
        let guest = self.guests.get_mut(name)?;
        let claim = match strategy {
            GlobalStrategy::Allocate => used.wanted.saturating_add(reserve(used.wanted, 4)),
            GlobalStrategy::Count => {
                let reserve = guest.pool.reserve_of_each(part, 50, idle.min(part.div_ceil(2)));
                used.wanted.max(used.used.saturating_add(reserve))
            }
        };
        let position = guest.pool.holdings.position(of, now);
        let known = guest.pool.holdings.get(position).reserved;
        let believed = if is_learning {
            // It has what this limiter has renewed already, also if its part is smaller since another guest has joined.
            let left = u64::from(part).saturating_sub(guest.pool.holdings.reserved_for_others(position));
            u32::try_from(left).unwrap_or(u32::MAX).max(known)
        } else {
            known
        };
        let belief = Belief { held: believed, used: believed };
        let held = guest.pool.note(position, PartUse { wanted: claim, ..used }, belief, now);
        let room = PoolRoom { target: part, idle, free, rest, turns };
        let quota = if is_learning { held } else { guest.pool.offer(position, room, strategy, now) };
        let granted = guest.pool.grant(position, quota, (held, used), (now, is_learning));
        let known = guest.pool.holdings.get(position);
        guest.pool.holdings.set(position, Holding { held: quota, ..known });
        guest.follow(idle, strategy, now);
        if !is_learning {
            guest.follow_excess(parts.least, now);
        }
        granted
    }

    /// Tokens out of the bucket of all and out of the guest's own, as many from one as from the other.
    fn issue_to_guest(
        &mut self,
        of: HolderId,
        name: &GuestName,
        used: PartUse,
        (qps, burst): (u32, u32),
        now: Duration,
    ) -> Option<LimitPart> {
        let rank = self.guests.rank(name, now, false);
        let has_fleet = self.has_fleet(now);
        let [own_qps, own_burst] = [qps, burst].map(|total| self.guests.parts(total, has_fleet, now).of(rank));
        let guest = self.guests.get_mut(name)?;
        let ahead = ahead(&mut guest.pool, of, used.wanted, now);
        let reserve = guest.pool.reserve_of_each(own_qps, 20, own_burst);
        let ahead = ahead.max(reserve).max(own_qps.min(1)).min(own_burst);
        let lacking = ahead.saturating_sub(used.used);
        let own = guest.issue.available(own_qps, own_burst, now);
        let tokens = self.issue.take(lacking.min(own), qps, burst, now);
        guest.issue.take(tokens, own_qps, own_burst, now);
        let position = guest.pool.holdings.position(of, now);
        let known = guest.pool.holdings.get(position);
        guest.pool.holdings.set(position, Holding { wanted: lacking.saturating_sub(tokens), ..known });
        guest.follow(0, GlobalStrategy::Count, now);
        Some(LimitPart { quota: 0, burst: ahead, tokens })
    }
}

/// Tokens that a process will use until its report after the next one, if they come as they did the last time.
fn ahead(pool: &mut OwnerPool, holder: HolderId, wanted: u32, now: Duration) -> u32 {
    let position = pool.holdings.position(holder, now);
    let holding = pool.holdings.get(position);
    let passed = now.saturating_sub(holding.last).clamp(COUNT_PAUSE, PAUSE);
    pool.holdings.set(position, Holding { last: now, ..holding });
    let milliseconds = u32::try_from(passed.as_millis()).unwrap_or(u32::MAX);
    share(wanted, milliseconds.saturating_mul(2), 1_000)
}

/// Tokens that the bucket of a process has lost since its report before the one of this number because its part shrank, and the
/// part that it had. Those of a process that had requests meanwhile may as well have been used.
fn lost_tokens(before: Holding, number: u64, used: PartUse) -> (u32, u32) {
    let is_next = before.number.checked_add(1) == Some(number);
    let has_shrunk = is_next && used.wanted == 0 && used.held < before.held;
    let lost = if has_shrunk { before.tokens.saturating_sub(used.used) } else { 0 };
    (lost, before.held.min(before.reserved))
}

/// The units that are divided: requests in flight, or per second.
fn units(limit: &GlobalLimit) -> u32 {
    match limit.limit {
        FlowControlLimit::MaxRequestsInflight(units) | FlowControlLimit::TokenBucket { qps: units, .. } => units,
    }
}

/// `whole × units ÷ of`, rounded down, so that the shares of all units together are not more than the whole.
fn share(whole: u32, units: u32, of: u32) -> u32 {
    let part = u64::from(whole).saturating_mul(u64::from(units)).checked_div(u64::from(of));
    u32::try_from(part.unwrap_or_default()).unwrap_or(u32::MAX)
}

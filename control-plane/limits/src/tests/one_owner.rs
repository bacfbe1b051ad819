//! A limit that has no guests is divided as before there were any: this is that division, and the answers are compared.

use std::time::Duration;

use portcullis_filter_config::limits::{LimitPart, PartUse};
use portcullis_filter_config::{FlowControlLimit, GlobalLimit, GlobalStrategy};
use proptest::prelude::*;

use crate::division::{Rest, UnitClaims};
use crate::holder::{Holder, HolderId};
use crate::holdings::{Holding, Holdings, RESERVED_FOR};
use crate::issue::Issue;
use crate::pool::reserve;
use crate::shares::{LimitAnswer, Shares};
use crate::spare::SpareTokens;

/// The time for which a process is taken to want what it wanted at most.
const PEAK: Duration = Duration::from_secs(1);
/// The pause until a process reports again: if its part is allocated, if it has less than it wants, and if it is counted.
const PAUSE: Duration = Duration::from_secs(1);
const SHORT_PAUSE: Duration = Duration::from_millis(250);
const COUNT_PAUSE: Duration = Duration::from_millis(100);
/// The time after which units that cannot be halved go to other processes.
const TURN_SECONDS: u64 = 10;
/// A process that wants nothing gets at least this part of what it would get if all wanted the same, to begin with.
const FLOOR: u32 = 20;

/// One limit.
#[derive(Debug)]
struct OneOwner {
    limit: GlobalLimit,
    /// Until then there may be leases of another limiter, which this one does not know.
    learns_until: Duration,
    holdings: Holdings,
    /// The level at which claims were capped the last time.
    level: u32,
    issue: Issue,
    /// Until then there may be leases that make tokens by themselves.
    issues_from: Duration,
    spare: SpareTokens,
}

impl OneOwner {
    fn new(limit: GlobalLimit, now: Duration) -> Self {
        let learns_until = now.saturating_add(RESERVED_FOR);
        Self {
            limit,
            learns_until,
            holdings: Holdings::default(),
            level: 0,
            issue: Issue::new(now),
            issues_from: now,
            spare: SpareTokens::default(),
        }
    }

    fn sweep(&mut self, now: Duration) {
        self.holdings.retain(|holding| now < holding.last.saturating_add(RESERVED_FOR));
    }

    /// Takes the report of a process, and gives it its part from now on.
    fn exchange(&mut self, of: Holder, used: PartUse, now: Duration) -> LimitAnswer {
        match (self.limit.limit, self.limit.strategy) {
            (FlowControlLimit::MaxRequestsInflight(max), strategy) if !used.is_rate => {
                let claim = match strategy {
                    GlobalStrategy::Allocate => used.wanted,
                    GlobalStrategy::Count => {
                        let reserve = self.reserve_of_each(max, 50, max.div_ceil(2));
                        used.wanted.max(used.used.saturating_add(reserve))
                    }
                };
                let position = self.holdings.position(of.id, now);
                let quota = self.divide(position, PartUse { wanted: claim, ..used }, max, now);
                let part = quota.map(|quota| LimitPart { quota, ..LimitPart::default() });
                LimitAnswer {
                    part,
                    next: self.pause(quota.is_none_or(|quota| quota < used.wanted || quota < used.held)),
                }
            }
            (FlowControlLimit::TokenBucket { qps, burst }, GlobalStrategy::Allocate) if used.is_rate => {
                let position = self.holdings.position(of.id, now);
                let (lost, reserved) = lost_tokens(self.holdings.get(position), of.number, used);
                self.spare.add(lost.min(share(burst, reserved, qps)), qps, burst, now);
                // Tokens are not reserved: a bucket that shrinks loses them at once.
                let quota = self.divide(position, PartUse { used: 0, ..used }, qps, now);
                let reported =
                    Holding { number: of.number, held: used.held, tokens: used.used, ..self.holdings.get(position) };
                self.holdings.set(position, reported);
                let (burst_of_all, spare) = (burst, &mut self.spare);
                let part = quota.map(|quota| {
                    let burst = share(burst_of_all, quota, qps);
                    let room = if quota > used.held { burst.saturating_sub(used.used) } else { 0 };
                    LimitPart { quota, burst, tokens: spare.take(room, qps, burst_of_all, now) }
                });
                LimitAnswer {
                    part,
                    next: self.pause(quota.is_none_or(|quota| quota < used.wanted || quota < used.held)),
                }
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
                let ahead = self.ahead(of.id, used.wanted, now);
                let ahead = ahead.max(self.reserve_of_each(qps, 20, burst)).max(qps.min(1)).min(burst);
                let tokens = self.issue.take(ahead.saturating_sub(used.used), qps, burst, now);
                LimitAnswer { part: Some(LimitPart { quota: 0, burst: ahead, tokens }), next: COUNT_PAUSE }
            }
            // The gateway has another edition of the object.
            _ => LimitAnswer { part: None, next: PAUSE },
        }
    }

    /// Tokens that a process will use until its report after the next one, if they come as they did the last time.
    fn ahead(&mut self, holder: HolderId, wanted: u32, now: Duration) -> u32 {
        let position = self.holdings.position(holder, now);
        let holding = self.holdings.get(position);
        let passed = now.saturating_sub(holding.last).clamp(COUNT_PAUSE, PAUSE);
        self.holdings.set(position, Holding { last: now, ..holding });
        let milliseconds = u32::try_from(passed.as_millis()).unwrap_or(u32::MAX);
        share(wanted, milliseconds.saturating_mul(2), 1_000)
    }

    fn pause(&self, is_short: bool) -> Duration {
        match self.limit.strategy {
            GlobalStrategy::Count => COUNT_PAUSE,
            GlobalStrategy::Allocate if is_short => SHORT_PAUSE,
            GlobalStrategy::Allocate => PAUSE,
        }
    }

    /// The units of a process from now on, out of `total`.
    fn divide(&mut self, position: usize, used: PartUse, total: u32, now: Duration) -> Option<u32> {
        let is_learning = now < self.learns_until;
        let mut holding = self.holdings.get(position);
        // A process that says to have more than it ever got is not believed, but where this limiter cannot know.
        let held = if is_learning { used.held.min(total) } else { used.held.min(holding.reserved) };
        if used.wanted >= holding.wanted || now >= holding.wanted_at.saturating_add(PEAK) {
            (holding.wanted, holding.wanted_at) = (used.wanted, now);
        }
        holding.last = now;
        // The requests that run are as true as the part: they go on whatever it is.
        holding.reserved = held.max(used.used);
        self.holdings.set(position, holding);
        let quota = if is_learning { held } else { self.offer(position, total, now) };
        self.holdings.set(position, Holding { reserved: holding.reserved.max(quota), ..holding });
        // A process that joins has no part before the others have given some back.
        let is_joining = quota == 0 && now < holding.first.saturating_add(RESERVED_FOR);
        // One that has a part of 0 keeps that: it would go by its local limit otherwise.
        let keeps_none = used.is_leased && used.held == 0;
        (held > 0 || keeps_none || !(is_learning || is_joining)).then_some(quota)
    }

    /// The units of a process if all parts could change at once, as far as no other process has them. Some looks at what all want:
    /// with many processes these are the cost of a report.
    fn offer(&mut self, position: usize, total: u32, now: Duration) -> u32 {
        let even = total.checked_div(self.processes()).unwrap_or_default();
        let (floor, rest) = match self.limit.strategy {
            GlobalStrategy::Allocate => (reserve(even, FLOOR), Rest::Divided),
            // A reserve is in each claim already.
            GlobalStrategy::Count => (0, Rest::Kept),
        };
        // Each process has its turn if there are fewer units than processes.
        let turns = now.as_secs().checked_div(TURN_SECONDS).unwrap_or_default();
        let turn = usize::try_from(turns).unwrap_or_default().checked_rem(self.holdings.len()).unwrap_or_default();
        let claims = UnitClaims { wanted: self.holdings.wanted(), floor, first: turn };
        let units = claims.units_of(position, total, rest, &mut self.level);
        let free = u64::from(total).saturating_sub(self.holdings.reserved_for_others(position));
        units.min(u32::try_from(free).unwrap_or_default())
    }

    /// A small part of a limit for each process, of which all together have no more than `most`.
    fn reserve_of_each(&self, limit: u32, parts: u32, most: u32) -> u32 {
        reserve(limit, parts).min(most.checked_div(self.processes().max(1)).unwrap_or_default())
    }

    fn processes(&self) -> u32 {
        u32::try_from(self.holdings.len()).unwrap_or(u32::MAX)
    }
}

/// Tokens that the bucket of a process has lost since its report before the one of this number because its part shrank, and the
/// part that it had. Those of a process that had requests meanwhile may as well have been used.
fn lost_tokens(before: Holding, number: u64, used: PartUse) -> (u32, u32) {
    let is_next = before.number.checked_add(1) == Some(number);
    let has_shrunk = is_next && used.wanted == 0 && used.held < before.held;
    let lost = if has_shrunk { before.tokens.saturating_sub(used.used) } else { 0 };
    (lost, before.held.min(before.reserved))
}

/// `whole × units ÷ of`, rounded down, so that the shares of all units together are not more than the whole.
fn share(whole: u32, units: u32, of: u32) -> u32 {
    let part = u64::from(whole).saturating_mul(u64::from(units)).checked_div(u64::from(of));
    u32::try_from(part.unwrap_or_default()).unwrap_or(u32::MAX)
}

fn limit() -> impl Strategy<Value = GlobalLimit> {
    let size = || prop_oneof![0..4_u32, 0..60_u32, 0..5_000_u32];
    let seats = size().prop_map(FlowControlLimit::MaxRequestsInflight);
    let rate = (size(), size()).prop_map(|(qps, burst)| FlowControlLimit::TokenBucket { qps, burst });
    let strategy = prop_oneof![Just(GlobalStrategy::Allocate), Just(GlobalStrategy::Count)];
    (prop_oneof![seats, rate], strategy).prop_map(|(limit, strategy)| GlobalLimit { limit, strategy })
}

/// A report: its process, milliseconds since the one before it, whether processes without a lease are forgotten, and the use.
fn report() -> impl Strategy<Value = (u64, u64, bool, PartUse)> {
    let number = || prop_oneof![3 => 0..60_u32, 1 => any::<u32>()];
    let used = (prop::bool::weighted(0.9), any::<bool>(), number(), number(), number());
    let used = used.prop_map(|(is_alike, is_leased, held, used, wanted)| PartUse {
        is_rate: is_alike,
        is_leased,
        held,
        used,
        wanted,
    });
    (0..6_u64, prop_oneof![0..200_u64, 0..4_000_u64], any::<bool>(), used)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn limit_without_guests_is_divided_as_before(
        limit in limit(),
        reports in prop::collection::vec(report(), 1..80),
    ) {
        let mut now = Duration::from_secs(1_000);
        let (mut before, mut shares) = (OneOwner::new(limit, now), Shares::new(limit, now));
        let is_rate = matches!(limit.limit, FlowControlLimit::TokenBucket { .. });
        for (number, (process, later, is_swept, used)) in (0..).zip(reports) {
            now += Duration::from_millis(later);
            if is_swept {
                before.sweep(now);
                shares.sweep(now);
            }
            let of = Holder { id: HolderId(process), number };
            let used = PartUse { is_rate: is_rate == used.is_rate, ..used };
            prop_assert_eq!(shares.exchange(of, None, used, now), before.exchange(of, used, now), "report {}", number);
        }
    }
}

//! Token buckets, exact over all workers of the process.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Cost of one request. In billionths of a token a rate per second is a whole number per nanosecond, so that nothing is ever
/// rounded: no drift, however long and however often a bucket is asked.
pub(crate) const TOKEN: u64 = 1_000_000_000;

/// The rate and burst of a bucket. Equal rates are the same bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Requests per second; 0 never refills.
    pub qps: u32,
    /// Most requests at once, and what the bucket holds at first; 0 refuses all.
    pub burst: u32,
}

impl Rate {
    /// A full bucket: at most 2^32 tokens, which is 2^62 billionths.
    pub(crate) fn full(self) -> u64 {
        u64::from(self.burst).saturating_mul(TOKEN)
    }
}

/// The bucket of one flow control schema: full at first, refilled continuously. In any span of `t` seconds it admits at
/// most `burst + qps × t` requests, whichever workers ask. Outlives the configurations that name it, so that an edit does
/// not refill it.
#[derive(Debug)]
pub struct TokenBucket {
    rate: Rate,
    level: StateOwner,
}

#[derive(Debug)]
enum StateOwner {
    // Held for a handful of instructions. A single atomic would have no room for both fields without rounding.
    Local(Mutex<BucketState>),
    Shared(Box<dyn SharedBucketState>),
}

/// How full a bucket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketState {
    /// Billionths of a token, at most the burst's.
    pub tokens: u64,
    /// Nanoseconds of uptime up to which the bucket is refilled.
    pub at: u64,
}

/// A level that a host keeps whose workers share no memory.
pub trait SharedBucketState: std::fmt::Debug + Send + Sync {
    /// Changes the level in one step, by a function of the level before; `None` before the first change. If the function
    /// returns `None`, the level stays. True if it was changed; false, too, if that is not known.
    fn change(&self, change: &dyn Fn(Option<BucketState>) -> Option<BucketState>) -> bool;
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(rate: Rate) -> Self {
        TokenBucket { rate, level: StateOwner::Local(Mutex::new(BucketState { tokens: rate.full(), at: 0 })) }
    }

    /// A bucket whose level the host keeps.
    pub fn shared(rate: Rate, level: Box<dyn SharedBucketState>) -> Self {
        TokenBucket { rate, level: StateOwner::Shared(level) }
    }

    /// Its rate and burst.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Tokens that are taken at that uptime, parts of one as a whole. 0 where the host keeps the level.
    pub fn used(&self, uptime: Duration) -> u32 {
        let StateOwner::Local(level) = &self.level else { return 0 };
        let now = u64::try_from(uptime.as_nanos()).unwrap_or(u64::MAX);
        let level = refilled(self.rate, *level.lock().unwrap_or_else(PoisonError::into_inner), now);
        let taken = self.rate.full().saturating_sub(level.tokens).div_ceil(TOKEN);
        u32::try_from(taken).unwrap_or(u32::MAX)
    }

    /// Takes a token, if there is one; a refused request takes nothing. `uptime` is the time since any fixed point, by a clock
    /// that only goes forward; workers may read it out of order.
    pub fn take(&self, uptime: Duration) -> bool {
        let now = u64::try_from(uptime.as_nanos()).unwrap_or(u64::MAX);
        match &self.level {
            StateOwner::Local(level) => {
                let mut level = level.lock().unwrap_or_else(PoisonError::into_inner);
                *level = refilled(self.rate, *level, now);
                let rest = level.tokens.checked_sub(TOKEN);
                level.tokens = rest.unwrap_or(level.tokens);
                rest.is_some()
            }
            StateOwner::Shared(shared) => shared.change(&|level| {
                let level = level.unwrap_or(BucketState { tokens: self.rate.full(), at: 0 });
                let level = refilled(self.rate, level, now);
                Some(BucketState { tokens: level.tokens.checked_sub(TOKEN)?, at: level.at })
            }),
        }
    }
}

fn refilled(rate: Rate, level: BucketState, now: u64) -> BucketState {
    let refill = now.saturating_sub(level.at).saturating_mul(u64::from(rate.qps));
    BucketState { tokens: level.tokens.saturating_add(refill).min(rate.full()), at: level.at.max(now) }
}

#[cfg(test)]
mod tests;

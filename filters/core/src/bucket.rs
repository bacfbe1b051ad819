//! Token buckets, exact over all workers of the process.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What one request costs. In billionths of a token a rate per second is a whole number per nanosecond, so that nothing is
/// ever rounded: no drift, however long and however often a bucket is asked.
const TOKEN: u64 = 1_000_000_000;

/// What a bucket admits. Two that are equal are the same bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Requests per second; 0 never refills.
    pub qps: u32,
    /// Most requests at once, and what the bucket holds at first; 0 refuses all.
    pub burst: u32,
}

/// The bucket of one flow control schema: full at first, refilled continuously. In any span of `t` seconds it admits at
/// most `burst + qps × t` requests, whichever workers ask. Outlives the configurations that name it, so that an edit does
/// not refill it.
#[derive(Debug)]
pub struct TokenBucket {
    rate: Rate,
    // Held for a handful of instructions. A single atomic would have no room for both fields without rounding.
    level: Mutex<Level>,
}

#[derive(Debug)]
struct Level {
    /// Billionths of a token, at most the burst's.
    tokens: u64,
    /// Nanoseconds of uptime up to which the bucket is refilled.
    at: u64,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(rate: Rate) -> Self {
        TokenBucket { rate, level: Mutex::new(Level { tokens: full(rate), at: 0 }) }
    }

    /// Takes a token, if there is one; who is refused takes nothing. `uptime` is the time since any fixed point, by a clock
    /// that nobody sets; workers may read it out of order.
    pub fn take(&self, uptime: Duration) -> bool {
        let now = u64::try_from(uptime.as_nanos()).unwrap_or(u64::MAX);
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let refill = now.saturating_sub(level.at).saturating_mul(u64::from(self.rate.qps));
        level.at = level.at.max(now);
        level.tokens = level.tokens.saturating_add(refill).min(full(self.rate));
        match level.tokens.checked_sub(TOKEN) {
            Some(rest) => {
                level.tokens = rest;
                true
            }
            None => false,
        }
    }
}

/// A full bucket: at most 2^32 tokens, which is 2^62 billionths.
fn full(rate: Rate) -> u64 {
    u64::from(rate.burst).saturating_mul(TOKEN)
}

#[cfg(test)]
mod tests;

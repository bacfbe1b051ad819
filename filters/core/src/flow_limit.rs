//! The limit of a flow control schema, compiled: in this process alone, or its part of a limit of all gateways.

use std::sync::Arc;
use std::time::Duration;

use portcullis_filter_config::{FlowControlLimit, FlowControlSchema};

use crate::bucket::{Rate, TokenBucket};
use crate::global_limit::{FallbackRate, FallbackSeats, GlobalLimits, RatePart, SeatsPart};
use crate::limit::{InFlight, InFlightPermit};

/// A limit.
#[derive(Clone, Debug)]
pub struct FlowLimit(FlowLimitKind);

#[derive(Clone, Debug)]
enum FlowLimitKind {
    InFlight { running: Arc<InFlight>, max: u32 },
    Bucket(Arc<TokenBucket>),
    Seats { part: Arc<SeatsPart>, fallback: FallbackSeats },
    Rate { part: Arc<RatePart>, fallback: FallbackRate },
    Shared(Arc<dyn SharedLimit>),
}

/// The part of a limit of all gateways that a host keeps whose workers share no memory.
pub trait SharedLimit: std::fmt::Debug + Send + Sync {
    /// As [`FlowLimit::acquire`].
    ///
    /// # Errors
    /// As there; also if the host cannot count.
    fn acquire(&self, uptime: Duration) -> Result<Option<InFlightPermit>, LimitReached>;

    /// As [`FlowLimit::level`].
    fn level(&self, uptime: Duration) -> LimitLevel;

    /// The requests in flight of this worker, and the most of all workers; `None` for requests per second.
    fn seats(&self) -> Option<(u32, u32)>;

    /// Requests per second in the long run; `None` for requests in flight.
    fn rate(&self) -> Option<u32>;
}

/// The limit is reached.
#[derive(Debug)]
pub struct LimitReached;

/// A limit as it is at some uptime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitLevel {
    /// Requests in flight, or used tokens.
    pub used: u32,
    /// The most requests in flight, or the size of the bucket.
    pub limit: u32,
    /// Tokens a second; 0 for requests in flight.
    pub rate: u32,
    /// Whether the limit of this process holds in the place of one that gateways share.
    pub is_local: bool,
    /// Whether gateways share it.
    pub is_shared: bool,
}

impl FlowLimit {
    /// A limit of requests in flight in this process.
    pub fn in_flight(running: Arc<InFlight>, max: u32) -> Self {
        Self(FlowLimitKind::InFlight { running, max })
    }

    /// The part that a host keeps whose workers share no memory.
    pub(crate) fn shared(limit: Arc<dyn SharedLimit>) -> Self {
        Self(FlowLimitKind::Shared(limit))
    }

    /// A limit of requests per second in this process.
    pub fn bucket(bucket: Arc<TokenBucket>) -> Self {
        Self(FlowLimitKind::Bucket(bucket))
    }

    /// This process's part of the schema's limit of all gateways. `None` if it has none, or one of another kind than the local one.
    pub fn global(
        schema: &FlowControlSchema,
        cluster: &str,
        limits: &GlobalLimits,
        running: impl FnOnce() -> Arc<InFlight>,
    ) -> Option<Self> {
        match (schema.limit, schema.global?.limit) {
            (FlowControlLimit::MaxRequestsInflight(local), FlowControlLimit::MaxRequestsInflight(global)) => {
                let part = limits.seats(cluster, &schema.name, &running());
                let most = schema.at_most.unwrap_or(u32::MAX);
                Some(Self(FlowLimitKind::Seats { part, fallback: FallbackSeats { local, global, most } }))
            }
            (FlowControlLimit::TokenBucket { qps, burst }, FlowControlLimit::TokenBucket { qps: global_qps, .. }) => {
                let part = limits.rate(cluster, &schema.name);
                let fallback = FallbackRate { local: Rate { qps, burst }, global_qps };
                Some(Self(FlowLimitKind::Rate { part, fallback }))
            }
            _ => None,
        }
    }

    /// Counts a request. `Ok(None)` if it has no permit to release: a token was taken, which cannot be given back.
    ///
    /// # Errors
    /// [`LimitReached`] if no permit is free or no token is left.
    pub fn acquire(&self, uptime: Duration) -> Result<Option<InFlightPermit>, LimitReached> {
        match &self.0 {
            FlowLimitKind::InFlight { running, max } => running.acquire(*max).map(Some).ok_or(LimitReached),
            FlowLimitKind::Bucket(bucket) => bucket.take(uptime).then_some(None).ok_or(LimitReached),
            FlowLimitKind::Seats { part, fallback } => part.acquire(*fallback, uptime).map(Some).ok_or(LimitReached),
            FlowLimitKind::Rate { part, fallback } => part.take(*fallback, uptime).then_some(None).ok_or(LimitReached),
            FlowLimitKind::Shared(limit) => limit.acquire(uptime),
        }
    }

    /// The limit and its use at that uptime.
    pub fn level(&self, uptime: Duration) -> LimitLevel {
        match &self.0 {
            FlowLimitKind::InFlight { running, max } => {
                LimitLevel { used: running.count(), limit: *max, rate: 0, is_local: false, is_shared: false }
            }
            FlowLimitKind::Seats { part, fallback } => {
                let (used, is_local) = (part.running().count(), part.quota(uptime).is_none());
                LimitLevel { used, limit: part.max(*fallback, uptime), rate: 0, is_local, is_shared: true }
            }
            FlowLimitKind::Bucket(bucket) => {
                let Rate { qps, burst } = bucket.rate();
                LimitLevel { used: bucket.used(uptime), limit: burst, rate: qps, is_local: false, is_shared: false }
            }
            FlowLimitKind::Rate { part, fallback } => {
                let held = part.part(uptime);
                let Rate { qps, burst } = held.unwrap_or(fallback.local);
                let used = burst.saturating_sub(part.tokens(*fallback, uptime));
                // Of a rate that is counted a process has tokens only.
                let rate = if qps == 0 { fallback.global_qps } else { qps };
                LimitLevel { used, limit: burst, rate, is_local: held.is_none(), is_shared: true }
            }
            FlowLimitKind::Shared(limit) => limit.level(uptime),
        }
    }

    /// Requests in flight, and the most there may be; `None` for requests per second.
    pub(crate) fn seats(&self) -> Option<(u32, u32)> {
        match &self.0 {
            FlowLimitKind::InFlight { running, max } => Some((running.count(), *max)),
            FlowLimitKind::Seats { part, fallback } => Some((part.running().count(), part.last_max(*fallback))),
            FlowLimitKind::Shared(limit) => limit.seats(),
            FlowLimitKind::Bucket(_) | FlowLimitKind::Rate { .. } => None,
        }
    }

    /// Requests per second in the long run; `None` for requests in flight.
    pub(crate) fn rate(&self) -> Option<u32> {
        match &self.0 {
            FlowLimitKind::Bucket(bucket) => Some(bucket.rate().qps),
            FlowLimitKind::Rate { part, fallback } => {
                let qps = part.last_rate().map_or(fallback.local.qps, |rate| rate.qps);
                Some(if qps == 0 { fallback.global_qps } else { qps })
            }
            FlowLimitKind::Shared(limit) => limit.rate(),
            FlowLimitKind::InFlight { .. } | FlowLimitKind::Seats { .. } => None,
        }
    }
}

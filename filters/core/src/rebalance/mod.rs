//! Draining of client connections at random, so that clients of several gateways spread over them again.
//!
//! An HTTP/2 client keeps its connection for as long as it lives: after a gateway restarted, all clients are on the others. A drained
//! connection finishes what runs on it, and the client's next request makes a new one, which the load balancer in front gives to any
//! gateway.

mod load;
mod lots;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use load::ProcessLoad;
pub(crate) use load::RunningPlace;
pub use lots::Lots;
use portcullis_filter_config as config;

const MILLION: u64 = 1_000_000;

/// The choice of the requests that drain their connections.
#[derive(Debug)]
pub struct Rebalance {
    /// A random number below this is a hit.
    threshold: u64,
    /// Time between two drains of the process, at least.
    interval: Duration,
    when: Option<config::RebalanceConditions>,
    load: Arc<ProcessLoad>,
    drained: [AtomicU64; Trigger::ALL.len()],
}

/// The outcome of a request that may drain its connection. Others may not: a stranger would use up the drains of others, and one with
/// a bad credential is no better off elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It goes to a server.
    Forwarded,
    /// A limit of flow control refuses it.
    Limited,
}

/// The condition by which a request drains its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// There are no conditions.
    Chance,
    /// Requests in flight.
    InFlight,
    /// Requests per second.
    RequestsPerSecond,
    /// Memory of the process.
    Memory,
    /// A limit refused the request.
    Limited,
}

impl Trigger {
    /// All of them.
    pub const ALL: [Trigger; 5] =
        [Trigger::Chance, Trigger::InFlight, Trigger::RequestsPerSecond, Trigger::Memory, Trigger::Limited];

    /// The label `trigger`: the condition's name in the settings.
    pub const fn label(self) -> &'static str {
        match self {
            Trigger::Chance => "chance",
            Trigger::InFlight => "inFlight",
            Trigger::RequestsPerSecond => "requestsPerSecond",
            Trigger::Memory => "memory",
            Trigger::Limited => "onLimited",
        }
    }
}

impl Rebalance {
    /// Compiles a configuration. `None` if it is out of bounds.
    pub(crate) fn compile(config: &config::Rebalance, load: Arc<ProcessLoad>) -> Option<Self> {
        let chance = config.chance_per_million;
        if !(1..=config::Rebalance::MAX_CHANCE_PER_MILLION).contains(&chance) {
            return None;
        }
        let part = u64::MAX.checked_div(MILLION)?;
        Some(Rebalance {
            threshold: part.saturating_mul(chance.into()),
            interval: Duration::from_secs(1).checked_div(config.connections_per_second)?,
            when: config.when.clone(),
            load,
            drained: Default::default(),
        })
    }

    /// A request goes to a server: counts it where a condition asks for that. The place is given back with the value.
    pub(crate) fn start(&self, is_long: bool, uptime: Duration) -> Option<RunningPlace> {
        let when = self.when.as_ref()?;
        if when.requests_per_second.is_some() {
            self.load.arrives(uptime);
        }
        (when.in_flight.is_some() && !is_long).then(|| ProcessLoad::start(&self.load))
    }

    /// The condition by which a request drains its connection, if it does: the numbers are drawn first, because most requests are
    /// through then. `memory` gives the bytes of resident memory.
    pub(crate) fn trigger(
        &self,
        fate: Fate,
        random: u64,
        uptime: Duration,
        memory: impl FnOnce() -> Option<u64>,
    ) -> Option<Trigger> {
        if random >= self.threshold {
            return None;
        }
        let trigger = self.condition(fate, uptime, memory)?;
        self.load.admits_drain(uptime, self.interval).then_some(trigger)
    }

    fn condition(&self, fate: Fate, uptime: Duration, memory: impl FnOnce() -> Option<u64>) -> Option<Trigger> {
        let Some(when) = &self.when else { return Some(Trigger::Chance) };
        if fate == Fate::Limited && when.on_limited {
            return Some(Trigger::Limited);
        }
        if when.in_flight.is_some_and(|most| self.load.in_flight() > most) {
            return Some(Trigger::InFlight);
        }
        if when.requests_per_second.is_some_and(|most| self.load.is_faster_than(most, uptime)) {
            return Some(Trigger::RequestsPerSecond);
        }
        let most = when.memory_bytes?;
        memory().is_some_and(|bytes| bytes > most).then_some(Trigger::Memory)
    }

    /// Counts a drain.
    pub(crate) fn count(&self, trigger: Trigger) {
        if let Some(count) = self.drained.get(trigger as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether drains were counted since the last time.
    pub(crate) fn has_counts(&self) -> bool {
        self.drained.iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// Takes out the drains that were counted since the last time.
    pub(crate) fn take_counts(&self) -> impl Iterator<Item = (Trigger, u64)> {
        let counts = self.drained.iter().map(|count| count.swap(0, Ordering::Relaxed));
        Trigger::ALL.into_iter().zip(counts).filter(|(_, count)| *count > 0)
    }
}

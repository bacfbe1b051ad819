use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The number of failures that are reported one by one.
const TOLD: usize = 8;

/// One request that was not answered as expected.
#[derive(Debug, Clone)]
pub struct Failure {
    /// When it was sent, from the load's start.
    pub sent: Duration,
    /// How long it took.
    pub took: Duration,
    /// Which lane sent it.
    pub lane: String,
    /// The response or error in its place.
    pub reason: String,
}

/// The results of the requests since the last call.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// For how long requests were sent.
    pub elapsed: Duration,
    /// Requests that were sent.
    pub sent: u64,
    /// Requests that were due while too many were under way, and were not sent.
    pub withheld: u64,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Answers with status 200 by the server that gave them, as it names itself in `x-stub-name`.
    pub servers: BTreeMap<String, u64>,
    /// How many requests were not answered with 200.
    pub failed: u64,
    /// The first of these.
    pub failures: Vec<Failure>,
    /// Connections that were made.
    pub connections: usize,
    /// How long the answers took, microseconds, unsorted.
    pub(super) latencies: Vec<u32>,
}

impl Outcome {
    /// Answers of status 200.
    pub fn good(&self) -> u64 {
        self.statuses.get(&200).copied().unwrap_or_default()
    }

    /// Requests that were sent, per second.
    pub fn rate(&self) -> f64 {
        self.sent as f64 / self.elapsed.as_secs_f64().max(f64::EPSILON)
    }

    /// The time within which that part of the answers came; zero without any.
    pub fn quantile(&self, part: f64) -> Duration {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let index = (sorted.len().saturating_sub(1)) as f64 * part.clamp(0.0, 1.0);
        let micros = sorted.get(index.round() as usize).copied().unwrap_or_default();
        Duration::from_micros(micros.into())
    }

    /// Both outcomes together.
    #[must_use]
    pub fn and(mut self, later: Self) -> Self {
        self.elapsed += later.elapsed;
        self.sent += later.sent;
        self.withheld += later.withheld;
        for (status, count) in later.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        for (server, count) in later.servers {
            *self.servers.entry(server).or_default() += count;
        }
        self.failed += later.failed;
        self.failures.extend(later.failures);
        self.failures.truncate(TOLD);
        self.connections += later.connections;
        self.latencies.extend(later.latencies);
        self
    }

    /// The busiest server's share over the least busy one's, of so many servers; infinite if one got nothing.
    pub fn imbalance(&self, servers: usize) -> f64 {
        let most = self.servers.values().max().copied().unwrap_or_default() as f64;
        let least = self.servers.values().min().copied().filter(|_| self.servers.len() == servers).unwrap_or_default();
        if least == 0 { f64::INFINITY } else { most / least as f64 }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests in {:.1?} ({:.0} a second), ", self.sent, self.elapsed, self.rate())?;
        write!(f, "{} failed, {} withheld, by status {:?}; ", self.failed, self.withheld, self.statuses)?;
        let [median, most, slowest] = [0.5, 0.99, 1.0].map(|part| self.quantile(part));
        write!(f, "answered in {median:.1?} (median), {most:.1?} (99 %), {slowest:.1?} (slowest)")?;
        for failure in &self.failures {
            let Failure { sent, took, lane, reason } = failure;
            write!(f, "\n  at {sent:.1?}, after {took:.1?}, {lane}: {reason}")?;
        }
        Ok(())
    }
}

/// Counts what happens.
#[derive(Debug)]
pub(super) struct Tally {
    started: Instant,
    since: Mutex<(Instant, Outcome)>,
}

impl Tally {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { started: now, since: Mutex::new((now, Outcome::default())) }
    }

    pub(super) fn sent(&self, count: u64) {
        self.lock().1.sent += count;
    }

    pub(super) fn withheld(&self, count: u64) {
        self.lock().1.withheld += count;
    }

    /// A response's status and its sender, or the reason that there is none; `body` is reported of one that is not 200.
    pub(super) fn ended(&self, lane: &str, sent: Instant, end: Result<(u16, String, String), String>) {
        let took = sent.elapsed();
        let mut locked = self.lock();
        let outcome = &mut locked.1;
        outcome.latencies.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
        let reason = match end {
            Ok((200, server, _)) => {
                *outcome.statuses.entry(200).or_default() += 1;
                *outcome.servers.entry(server).or_default() += 1;
                return;
            }
            Ok((status, server, body)) => {
                *outcome.statuses.entry(status).or_default() += 1;
                format!("{status} {server} {body}")
            }
            Err(reason) => reason,
        };
        outcome.failed += 1;
        if outcome.failures.len() < TOLD {
            let sent = sent.duration_since(self.started);
            outcome.failures.push(Failure { sent, took, lane: lane.to_owned(), reason });
        }
    }

    /// The results since the last call.
    pub(super) fn take(&self) -> Outcome {
        let mut locked = self.lock();
        let now = Instant::now();
        let since = std::mem::replace(&mut locked.0, now);
        Outcome { elapsed: now.duration_since(since), ..std::mem::take(&mut locked.1) }
    }

    fn lock(&self) -> MutexGuard<'_, (Instant, Outcome)> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

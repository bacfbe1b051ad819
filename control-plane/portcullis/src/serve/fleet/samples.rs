use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::counts::ReportedCounts;
use super::growth::Growth;
use super::keys::{Key, Names};
use super::rates::Rates;
use super::view::RATE_WINDOW;
use crate::activity_report::{ClusterMessage, LimitMessage};

/// The least time between two samples that stay. With the newest, at most four are kept.
const SPACING: Duration = Duration::from_secs(RATE_WINDOW.as_secs() / 2);

/// A time, and the growth since the one before it.
#[derive(Clone, Debug)]
struct Sample {
    at: Instant,
    growth: Growth,
}

/// The use of a flow control schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitGauge {
    /// The position in [`Names::schemas`].
    pub(super) schema: u8,
    pub(super) used: u32,
    pub(super) limit: u32,
    pub(super) rate: u32,
    pub(super) local: bool,
    /// Whether gateways share it.
    pub(super) shared: bool,
}

/// The activity of one cluster in one process: counts of the last [`RATE_WINDOW`] and newest gauges.
#[derive(Clone, Debug, Default)]
pub(super) struct ClusterActivity {
    pub(super) names: Names,
    /// The counts of the last report.
    reported: ReportedCounts,
    /// Oldest first.
    samples: VecDeque<Sample>,
    running: u32,
    watches: u32,
    sessions: u32,
    pub(super) limits: Box<[LimitGauge]>,
    /// Since when its own limit holds in the place of one that gateways share.
    pub(super) local_since: Option<Instant>,
    /// Requests in flight, by the position of the server in [`Names::servers`]; none for 0.
    pub(super) in_flight: Box<[(u8, u32)]>,
    /// The encoded clients with the most requests.
    pub(super) top: Option<Box<[u8]>>,
    /// The word of the object that it belongs to; empty where a filter names none.
    object: Box<str>,
}

impl ClusterActivity {
    /// The word of the object that it belongs to; empty where a filter names none.
    pub(super) fn object(&self) -> &str {
        &self.object
    }

    /// A cluster without a request until `at`.
    pub(super) fn idle(at: Instant) -> Self {
        let samples = VecDeque::from([Sample { at, growth: Growth::none() }]);
        Self { reported: ReportedCounts::zero(), samples, ..Self::default() }
    }

    /// Takes the counts of a report that came at `at`. Reports that came until `unchanged` had no others than those before.
    pub(super) fn take(
        &mut self,
        message: &ClusterMessage,
        reasons: &[u8],
        detail: bool,
        unchanged: Option<Instant>,
        at: Instant,
    ) {
        if self.names.is_full() {
            *self = Self::default();
        }
        if *self.object != *message.object {
            self.object = message.object.as_str().into();
        }
        let mut counts = ReportedCounts::of(message, reasons, detail.then_some(&mut self.names));
        let mut growth = Growth::between(&self.reported, &counts);
        if let Some(last) = self.samples.back() {
            growth.share_keys(last.growth.keys());
            if let Some(unchanged) = unchanged.filter(|unchanged| last.at < *unchanged) {
                self.push(unchanged, Growth::none());
            }
        }
        counts.share_keys(growth.keys());
        self.reported = counts;
        self.push(at, growth);
        (self.running, self.watches, self.sessions) = (message.running, message.watches, message.sessions);
        let names = &mut self.names;
        let gauge = |one: &LimitMessage| {
            let schema = names.schema(&one.schema)?;
            let LimitMessage { used, limit, rate, local, shared, .. } = *one;
            Some(LimitGauge { schema, used, limit, rate, local, shared })
        };
        self.limits = message.limits.iter().filter(|_| detail).filter_map(gauge).collect();
        let is_local = self.limits.iter().any(|one| one.shared && one.local);
        self.local_since = is_local.then(|| self.local_since.unwrap_or(at));
        let busy = message.servers.iter().filter(|one| detail && one.in_flight > 0);
        self.in_flight = busy.filter_map(|one| Some((names.server(&one.server)?, one.in_flight))).collect();
        self.top = message.top.as_ref().filter(|_| detail).map(|top| top.as_ref().into());
    }

    /// Adds the growth until `at`. The first one is that of a time before there was a memory.
    fn push(&mut self, at: Instant, growth: Growth) {
        let last_but_one = self.samples.len().checked_sub(2).and_then(|position| self.samples.get(position));
        let last_but_one = last_but_one.map(|one| one.at);
        match self.samples.back_mut() {
            None => self.samples.push_back(Sample { at, growth: Growth::none() }),
            // The newest stays only if it is far enough from the one before it.
            Some(last) if last_but_one.is_some_and(|one| last.at.saturating_duration_since(one) < SPACING) => {
                last.growth = std::mem::take(&mut last.growth).and(growth);
                last.at = at;
            }
            Some(_) => self.samples.push_back(Sample { at, growth }),
        }
        self.forget(at);
    }

    /// Forgets samples that no window needs at `at`: of those that are older than the window, the newest is its begin.
    pub(super) fn forget(&mut self, at: Instant) {
        while self.samples.get(1).is_some_and(|one| at.saturating_duration_since(one.at) >= RATE_WINDOW) {
            self.samples.pop_front();
            self.samples.front_mut().into_iter().for_each(|begin| begin.growth = Growth::none());
        }
    }

    /// The growth in the window before `at`, in pieces, and how many seconds the window has. `None` with one report.
    fn window(&self, at: Instant) -> Option<(impl Iterator<Item = &Growth> + Clone, f64)> {
        let is_old = |one: &Sample| at.saturating_duration_since(one.at) >= RATE_WINDOW;
        let begin = self.samples.iter().rposition(is_old).unwrap_or_default();
        let seconds = at.saturating_duration_since(self.samples.get(begin)?.at).as_secs_f64();
        let pieces = self.samples.iter().skip(begin + 1).map(|one| &one.growth);
        (seconds > 0.0).then_some((pieces, seconds))
    }

    /// Rates and gauges, as of the process' report at `at`.
    pub(super) fn rates(&self, at: Instant) -> Rates {
        let rates = self.window(at).map(|(pieces, seconds)| Growth::rates(pieces, seconds)).unwrap_or_default();
        Rates { running: self.running, watches: self.watches, sessions: self.sessions, ..rates }
    }

    /// The rate of each count, as of the process' report at `at`.
    pub(super) fn each(&self, at: Instant) -> Vec<(Key, f64)> {
        self.window(at).map(|(pieces, seconds)| Growth::each(pieces, seconds)).unwrap_or_default()
    }

    /// The memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        let samples: usize = self.samples.iter().map(|one| size_of::<Sample>() + one.growth.bytes()).sum();
        // Keys that differ are rare: those of the report count for all.
        let keys = self.reported.keys.as_deref().map_or(0, size_of_val);
        let top = self.top.as_ref().map_or(0, |top| top.len());
        size_of::<Self>()
            + self.reported.bytes()
            + samples
            + keys
            + self.names.bytes()
            + size_of_val(&*self.limits)
            + size_of_val(&*self.in_flight)
            + top
            + self.object.len()
    }
}

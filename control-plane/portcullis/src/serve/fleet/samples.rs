use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::counts::Counts;
use super::growth::Growth;
use super::keys::{Key, Names};
use super::rates::Rates;
use super::view::RATE_WINDOW;
use crate::activity_report::{ClusterMessage, LimitMessage};

/// The least time between two samples that stay. With the newest, at most four are kept.
const SPACING: Duration = Duration::from_secs(RATE_WINDOW.as_secs() / 2);

/// The growth of all counts until one time.
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
}

/// The activity of one cluster in one process: counts of the last [`RATE_WINDOW`] and newest gauges.
#[derive(Clone, Debug, Default)]
pub(super) struct ClusterActivity {
    pub(super) names: Names,
    /// The counts of the last report.
    reported: Counts,
    /// Oldest first.
    samples: VecDeque<Sample>,
    running: u32,
    watches: u32,
    sessions: u32,
    pub(super) limits: Box<[LimitGauge]>,
    /// The encoded clients with the most requests.
    pub(super) top: Option<Box<[u8]>>,
}

impl ClusterActivity {
    /// A cluster without a request until `at`.
    pub(super) fn idle(at: Instant) -> Self {
        let samples = VecDeque::from([Sample { at, growth: Growth::none(&Counts::zero()) }]);
        Self { reported: Counts::zero(), samples, ..Self::default() }
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
        let counts = Counts::of(message, reasons, detail.then_some(&mut self.names));
        let grown = match self.samples.back().cloned() {
            None => Growth::none(&counts),
            Some(before) => {
                let grown = before.growth.after(&self.reported, &counts);
                if let Some(unchanged) = unchanged.filter(|unchanged| before.at < *unchanged) {
                    self.push(Sample { at: unchanged, growth: before.growth });
                }
                grown
            }
        };
        self.reported = counts;
        self.push(Sample { at, growth: grown });
        (self.running, self.watches, self.sessions) = (message.running, message.watches, message.sessions);
        let names = &mut self.names;
        let gauge = |one: &LimitMessage| {
            let schema = names.schema(&one.schema)?;
            Some(LimitGauge { schema, used: one.used, limit: one.limit, rate: one.rate })
        };
        self.limits = message.limits.iter().filter(|_| detail).filter_map(gauge).collect();
        self.top = message.top.as_ref().filter(|_| detail).map(|top| top.as_ref().into());
    }

    fn push(&mut self, sample: Sample) {
        let at = sample.at;
        let last_but_one = self.samples.len().checked_sub(2).and_then(|position| self.samples.get(position));
        // The newest but for this one stays only if it is far enough from the one before it.
        let is_near = last_but_one
            .zip(self.samples.back())
            .is_some_and(|(one, last)| last.at.saturating_duration_since(one.at) < SPACING);
        if is_near {
            self.samples.pop_back();
        }
        self.samples.push_back(sample);
        self.forget(at);
    }

    /// Forgets samples that no window needs at `at`: of those that are older than the window, the newest is its begin.
    pub(super) fn forget(&mut self, at: Instant) {
        while self.samples.get(1).is_some_and(|one| at.saturating_duration_since(one.at) >= RATE_WINDOW) {
            self.samples.pop_front();
        }
    }

    /// The growth until the end of the window before `at`, that until its begin, and how many seconds are between them. `None` with
    /// one report.
    fn window(&self, at: Instant) -> Option<(&Growth, &Growth, f64)> {
        let newest = self.samples.back()?;
        let is_old = |one: &&Sample| at.saturating_duration_since(one.at) >= RATE_WINDOW;
        let base = self.samples.iter().rev().find(is_old).or_else(|| self.samples.front())?;
        let seconds = at.saturating_duration_since(base.at).as_secs_f64();
        (seconds > 0.0).then_some((&newest.growth, &base.growth, seconds))
    }

    /// Rates and gauges, as of the process' report at `at`.
    pub(super) fn rates(&self, at: Instant) -> Rates {
        let rates = self.window(at).map(|(newest, base, seconds)| newest.rates(base, seconds)).unwrap_or_default();
        Rates { running: self.running, watches: self.watches, sessions: self.sessions, ..rates }
    }

    /// The rate of each count, as of the process' report at `at`.
    pub(super) fn each(&self, at: Instant) -> impl Iterator<Item = (Key, f64)> + '_ {
        self.window(at).into_iter().flat_map(|(newest, base, seconds)| newest.each(base, seconds))
    }

    /// The memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        let samples: usize = self.samples.iter().map(|one| size_of::<Instant>() + one.growth.bytes()).sum();
        // Keys that differ are rare: those of one sample count for all, and once more for the report.
        let keys = self.samples.back().map_or(0, |one| 2 * one.growth.key_bytes());
        let top = self.top.as_ref().map_or(0, |top| top.len());
        size_of::<Self>()
            + self.reported.bytes()
            + samples
            + keys
            + self.names.bytes()
            + size_of_val(&*self.limits)
            + top
    }
}

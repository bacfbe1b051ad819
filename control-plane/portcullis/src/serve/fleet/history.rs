use std::collections::{BTreeMap, VecDeque};

use super::fleet_time::FleetTime;
use super::rates::Rates;
use super::view::{HISTORY_LENGTH, HISTORY_STEP, HistoryPoint, Numbers};

/// Points of one cluster: 360.
const MAX_POINTS: usize = points();
/// Most clusters with a history. A point has 36 bytes, so a thousand clusters take 13 MB, and all together 39.
const MAX_CLUSTERS: usize = 3_000;

const fn points() -> usize {
    let points = HISTORY_LENGTH.as_secs() / HISTORY_STEP.as_secs();
    points as usize
}

/// The numbers of a cluster at one time, compact.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Point {
    /// Seconds since 1970, until 2106.
    seconds: u32,
    requests: f32,
    errors: f32,
    refusals: f32,
    /// Not a number without a request.
    p50: f32,
    p99: f32,
    running: u32,
    watches: u32,
    sessions: u32,
}

/// The histories of all clusters, over all gateways together.
#[derive(Debug, Default)]
pub(super) struct Histories {
    points: BTreeMap<String, VecDeque<Point>>,
    last: Option<FleetTime>,
}

impl Histories {
    /// Whether it is time for a point.
    pub(super) fn is_due(&self, now: FleetTime) -> bool {
        self.last.is_none_or(|last| now.since(last.uptime) >= HISTORY_STEP)
    }

    /// Adds a point of each cluster of which gateways report, and forgets clusters that `is_known` does not know.
    pub(super) fn add(&mut self, rates: &BTreeMap<&str, Rates>, is_known: impl Fn(&str) -> bool, now: FleetTime) {
        // Points keep their distance as long as turns come in time.
        let step = self.last.and_then(|last| last.uptime.checked_add(HISTORY_STEP));
        let due = step.filter(|step| now.since(*step) < HISTORY_STEP).unwrap_or(now.uptime);
        self.last = Some(FleetTime { uptime: due, ..now });
        self.points.retain(|name, _| is_known(name));
        for (name, rates) in rates {
            if !self.points.contains_key(*name) && self.points.len() >= MAX_CLUSTERS {
                continue;
            }
            let points = self.points.entry((*name).to_owned()).or_insert_with(|| VecDeque::with_capacity(MAX_POINTS));
            if points.len() >= MAX_POINTS {
                points.pop_front();
            }
            points.push_back(Point::of(&rates.numbers(), now.seconds));
        }
    }

    /// Forgets the history of a cluster.
    pub(super) fn forget(&mut self, name: &str) {
        self.points.remove(name);
    }

    /// The history of a cluster in the last hour, oldest first.
    pub(super) fn of(&self, name: &str, now: FleetTime) -> Vec<HistoryPoint> {
        let begin = now.seconds.saturating_sub(HISTORY_LENGTH.as_secs());
        let points = self.points.get(name).into_iter().flatten().map(|point| point.view());
        points.filter(|point| point.time >= begin).collect()
    }
}

impl Point {
    fn of(numbers: &Numbers, seconds: u64) -> Self {
        let quantile = |quantile: Option<f64>| quantile.map_or(f32::NAN, short);
        Self {
            seconds: u32::try_from(seconds).unwrap_or(u32::MAX),
            requests: short(numbers.requests_per_second),
            errors: short(numbers.errors_per_second),
            refusals: short(numbers.refusals_per_second),
            p50: quantile(numbers.p50),
            p99: quantile(numbers.p99),
            running: numbers.running,
            watches: numbers.watches,
            sessions: numbers.sessions,
        }
    }

    fn view(&self) -> HistoryPoint {
        let quantile = |quantile: f32| (!quantile.is_nan()).then_some(f64::from(quantile));
        let numbers = Numbers {
            requests_per_second: f64::from(self.requests),
            errors_per_second: f64::from(self.errors),
            refusals_per_second: f64::from(self.refusals),
            p50: quantile(self.p50),
            p99: quantile(self.p99),
            running: self.running,
            watches: self.watches,
            sessions: self.sessions,
        };
        HistoryPoint { time: u64::from(self.seconds), numbers }
    }
}

const _: () = assert!(size_of::<Point>() == 36, "the bound of all histories counts on it");

#[expect(clippy::cast_possible_truncation, reason = "seven digits are enough for a chart")]
fn short(number: f64) -> f32 {
    number as f32
}

//! Figures of a run: use, how fast parts follow, traffic.

use std::time::Duration;

use portcullis_core::global_limit::LimitReport;
use portcullis_filter_config::limits::LimitPart;
use portcullis_report::limits::{PartsMessage, encode_use};
use prost::Message;

use crate::bounds::{RateBound, SeatsBound};
use crate::demand::Demand;
use crate::follow::Follow;
use crate::gateway::{Gateway, Part};
use crate::plan::Plan;
use crate::plot::{Point, Watched};
use crate::world::{SECOND, World};

/// One message in so many is encoded for its length.
const ENCODED: u64 = 64;
/// One sample in so many is drawn.
const DRAWN: u64 = 30;

/// Counts of a run.
pub(crate) struct Figures {
    plans: Vec<Plan>,
    pub(crate) faults: u64,
    reports: Traffic,
    answers: Traffic,
    follow: Follow,
    samples: u64,
    last_sample: u64,
    /// Gateways without a lease, of all that were looked at.
    unleased: u64,
    looked_at: u64,
    pub(crate) limits: Vec<Use>,
    pub(crate) watched: Watched,
}

#[derive(Default)]
struct Traffic {
    messages: u64,
    encoded: u64,
    bytes: u64,
    /// In the sample that runs, and in the one with most.
    recent: u64,
    most: u64,
}

/// Use of one limit, in parts of it.
#[derive(Default)]
pub(crate) struct Use {
    admitted: u64,
    pub(crate) used: Vec<f64>,
    leased: Vec<f64>,
    /// Of the demand, as far as it is within the limit.
    met: Vec<f64>,
    pub(crate) points: Vec<Point>,
}

impl Traffic {
    fn count(&mut self, length: impl FnOnce() -> usize) {
        if self.messages.is_multiple_of(ENCODED) {
            self.encoded += 1;
            self.bytes += length() as u64;
        }
        self.messages += 1;
        self.recent += 1;
    }

    fn sample(&mut self) {
        self.most = self.most.max(std::mem::take(&mut self.recent));
    }

    fn line(&self, what: &str, seconds: f64, sample: f64) -> String {
        let each = self.bytes as f64 / self.encoded.max(1) as f64;
        let (mean, most) = (self.messages as f64 / seconds, self.most as f64 / sample);
        format!(
            "{what}: {mean:.0} a second, {most:.0} at most, {each:.0} bytes each: {:.0} and {:.0} KiB a second",
            mean * each / 1024.0,
            most * each / 1024.0
        )
    }
}

impl Figures {
    pub(crate) fn new(demand: &Demand, plans: &[Plan]) -> Self {
        Figures {
            plans: plans.to_vec(),
            faults: 0,
            reports: Traffic::default(),
            answers: Traffic::default(),
            follow: Follow::new(plans.len()),
            samples: 0,
            last_sample: 0,
            unleased: 0,
            looked_at: 0,
            limits: plans.iter().map(|_| Use::default()).collect(),
            watched: Watched::new(demand),
        }
    }

    pub(crate) fn report(&mut self, _now: u64, process: u64, report: &LimitReport) {
        self.reports.count(|| {
            let parts = report.parts.iter().map(|(name, used)| (&*name.cluster, &*name.schema, *used));
            // As large as the numbers of processes are.
            encode_use(process | 1 << 63, report.number, parts).len()
        });
    }

    pub(crate) fn answer(&mut self, number: u64, parts: &[Option<LimitPart>], next: Duration) {
        self.answers.count(|| {
            let next_milliseconds = next.as_millis() as u32;
            let mut message = PartsMessage { number, next_milliseconds, columns: Vec::new() };
            parts.iter().for_each(|part| message.push(*part));
            message.encoded_len()
        });
    }

    pub(crate) fn jump(&mut self, now: u64, gateway: usize) {
        self.follow.begin(now, gateway);
    }

    pub(crate) fn settle(&mut self) {
        self.follow.end();
    }

    /// A gateway has another part.
    pub(crate) fn part(&mut self, now: u64, number: usize, gateway: &Gateway) {
        if !self.follow.is_of(number) {
            return;
        }
        for limit in 0..self.plans.len() {
            let level = match &gateway.parts[limit] {
                Part::Rate(bucket) if bucket.is_counted => None,
                _ => Some(f64::from(gateway.quota(limit, now).unwrap_or_default())),
            };
            let admitted = match &gateway.parts[limit] {
                Part::Rate(bucket) => bucket.admitted,
                Part::Seats(_) => 0,
            };
            self.follow.see(limit, now, level, admitted);
        }
    }

    pub(crate) fn sample(
        &mut self,
        now: u64,
        demand: &Demand,
        gateways: &[Gateway],
        bounds: (&[Option<SeatsBound>], &[Option<RateBound>]),
    ) {
        let seconds = (now - self.last_sample) as f64 / SECOND as f64;
        (self.last_sample, self.samples) = (now, self.samples + 1);
        self.reports.sample();
        self.answers.sample();
        let up = gateways.iter().filter(|gateway| !gateway.is_down);
        let (unleased, all) = up
            .fold((0, 0), |(unleased, all), gateway| (unleased + u64::from(gateway.quota(0, now).is_none()), all + 1));
        self.unleased += unleased;
        self.looked_at += all;
        let wanted: f64 = (0..gateways.len()).map(|number| demand.at(number, now)).sum();
        let wanted = wanted / gateways.len() as f64;
        for (limit, plan) in self.plans.iter().enumerate() {
            let total = f64::from(plan.total());
            let figures = &mut self.limits[limit];
            let (used, leased) = match (&bounds.0[limit], &bounds.1[limit]) {
                (Some(seats), _) => ((seats.leased + seats.unleased) as f64, seats.parts as f64),
                (_, Some(rate)) => {
                    let before = std::mem::replace(&mut figures.admitted, rate.admitted);
                    ((rate.admitted - before) as f64 / seconds, rate.parts as f64)
                }
                _ => continue,
            };
            figures.used.push(used / total);
            figures.leased.push(leased / total);
            figures.met.push(used / total / wanted.min(1.0));
            if self.samples.is_multiple_of(DRAWN) {
                figures.points.push(Point { at: now, wanted, used: used / total, leased: leased / total });
                self.watched.note(limit, now, plan, demand, gateways);
            }
        }
    }

    /// The figures as text.
    pub(crate) fn lines(&self, world: &World) -> Vec<String> {
        let seconds = self.last_sample as f64 / SECOND as f64;
        let sample = seconds / self.samples.max(1) as f64;
        let mut lines = vec![
            self.reports.line("reports", seconds, sample),
            self.answers.line("answers", seconds, sample),
            format!(
                "{} faults; {:.2} % of gateways without a lease, on average",
                self.faults,
                100.0 * self.unleased as f64 / self.looked_at.max(1) as f64
            ),
        ];
        for (limit, plan) in self.plans.iter().enumerate() {
            lines.push(format!("{}: {}", plan.name, self.limits[limit].line()));
            lines.push(format!("  {}", self.follow.line(limit)));
            lines.extend(world.seats[limit].as_ref().map(seats_line));
            lines.extend(world.rates[limit].as_ref().map(rate_line));
        }
        lines
    }
}

impl Use {
    fn line(&self) -> String {
        let mean = |numbers: &[f64]| 100.0 * numbers.iter().sum::<f64>() / numbers.len().max(1) as f64;
        let most = |numbers: &[f64]| 100.0 * numbers.iter().copied().fold(0.0, f64::max);
        let mut met = self.met.clone();
        met.sort_unstable_by(f64::total_cmp);
        let worst = met.get(met.len() / 100).copied().unwrap_or_default();
        format!(
            "used {:.1} % of the limit, {:.1} % at most; parts {:.1} %, {:.1} % at most; of the demand within it met {:.1} %, \
             {:.1} % in the worst hundredth",
            mean(&self.used),
            most(&self.used),
            mean(&self.leased),
            most(&self.leased),
            mean(&self.met),
            100.0 * worst,
        )
    }
}

fn seats_line(seats: &SeatsBound) -> String {
    format!(
        "  in flight by leases at most {} of {}, with gateways without one {}; {} of {} requests admitted",
        seats.most_leased, seats.max, seats.most_running, seats.admitted, seats.offered
    )
}

fn rate_line(rate: &RateBound) -> String {
    format!(
        "  beyond the rate in any time: admitted by leases at most {:.0}, issued {:.0}, of a burst of {}; brought along {}; \
         {} of {} requests admitted, {} without a lease",
        rate.most_over, rate.most_issued, rate.burst, rate.brought, rate.admitted, rate.offered, rate.unleased
    )
}

//! A gateway: the real parts of its limits, and the requests of its clients.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::bucket::Rate;
use portcullis_core::global_limit::{FallbackRate, FallbackSeats, GlobalLimits, RatePart, SeatsPart};
use portcullis_core::limit::InFlightPermit;
use portcullis_filter_config::FlowControlLimit;

use crate::bounds::{RateBound, SeatsBound};
use crate::demand::Demand;
use crate::lots::Lots;
use crate::plan::{CLUSTER, Plan};
use crate::world::SECOND;

/// Local limits: nothing, so that the bound is seen.
const NO_SEATS: FallbackSeats = FallbackSeats { local: 0, global: u32::MAX, most: u32::MAX };
const NO_RATE: FallbackRate = FallbackRate { local: Rate { qps: 0, burst: 0 }, global_qps: u32::MAX };
/// Requests of a rate come in batches.
const BATCH: u64 = SECOND / 10;

/// One process, and the clients that it has.
pub(crate) struct Gateway {
    pub(crate) node: String,
    pub(crate) process: u64,
    pub(crate) limits: GlobalLimits,
    pub(crate) parts: Vec<Part>,
    /// Parts of a million by which its clock is fast.
    pub(crate) skew: i64,
    pub(crate) is_cut_off: bool,
    pub(crate) is_down: bool,
    /// The time of its next report.
    pub(crate) next_report: u64,
    pub(crate) served: u64,
}

/// Its part of one limit.
pub(crate) enum Part {
    Seats(Seats),
    Rate(Bucket),
}

/// Requests in flight.
pub(crate) struct Seats {
    part: Arc<SeatsPart>,
    permits: Vec<Option<Permit>>,
    free: Vec<usize>,
    /// The number of its present lease.
    lease: u64,
    leased: u64,
    /// The part as the bound counts it.
    quota: u64,
}

struct Permit {
    /// The lease under which it was admitted.
    lease: Option<u64>,
    _held: InFlightPermit,
}

/// Requests per second.
pub(crate) struct Bucket {
    part: Arc<RatePart>,
    pub(crate) is_counted: bool,
    quota: u64,
    was_leased: bool,
    /// Requests that were admitted.
    pub(crate) admitted: u64,
}

impl Gateway {
    /// A process with empty parts of all limits.
    pub(crate) fn new(number: usize, process: u64, skew: i64, plans: &[Plan], now: u64) -> Self {
        let limits = GlobalLimits::default();
        let parts = plans.iter().map(|plan| Part::new(&limits, plan)).collect();
        Gateway {
            node: format!("gateway-{number:04}"),
            process,
            limits,
            parts,
            skew,
            is_cut_off: false,
            is_down: false,
            next_report: u64::MAX,
            served: now,
        }
    }

    /// The uptime by its own clock.
    pub(crate) fn uptime(&self, now: u64) -> Duration {
        Duration::from_micros((now as i64 + now as i64 / 1_000_000 * self.skew) as u64)
    }

    /// Sends the requests of rates that have come since the last call.
    pub(crate) fn serve(
        &mut self,
        number: usize,
        now: u64,
        world: (&Demand, &mut Lots),
        bounds: &mut [Option<RateBound>],
    ) {
        let (demand, lots) = world;
        let level = demand.at(number, now);
        while self.served + BATCH <= now {
            self.served += BATCH;
            let at = self.uptime(self.served);
            for (part, bound) in self.parts.iter_mut().zip(bounds.iter_mut()) {
                if let (Part::Rate(bucket), Some(bound)) = (part, bound) {
                    let mean = level * f64::from(bound.qps) / demand.gateways as f64;
                    let requests = lots.poisson(mean * BATCH as f64 / SECOND as f64);
                    bucket.serve(requests, self.served, at, bound);
                }
            }
        }
    }

    /// The part of a limit at that time, in seats or requests per second.
    pub(crate) fn quota(&self, limit: usize, now: u64) -> Option<u32> {
        self.parts[limit].quota(self.uptime(now))
    }

    /// Notes what has ended before an answer is applied.
    pub(crate) fn before_answer(&mut self, now: u64, seats: &mut [Option<SeatsBound>]) {
        let uptime = self.uptime(now);
        for (part, bound) in self.parts.iter_mut().zip(seats) {
            match part {
                Part::Seats(seats) => seats.note_end(uptime, bound),
                Part::Rate(bucket) => bucket.was_leased = bucket.part.part(uptime).is_some(),
            }
        }
    }

    /// Takes the parts into account, as they are now.
    pub(crate) fn count_parts(&mut self, now: u64, seats: &mut [Option<SeatsBound>], rates: &mut [Option<RateBound>]) {
        let uptime = self.uptime(now);
        for (at, part) in self.parts.iter_mut().enumerate() {
            match part {
                Part::Seats(part) => {
                    part.note_end(uptime, &mut seats[at]);
                    if let Some(bound) = &mut seats[at] {
                        let quota = part.part.quota(uptime).map_or(0, u64::from);
                        bound.parts = bound.parts - std::mem::replace(&mut part.quota, quota) + quota;
                    }
                }
                Part::Rate(bucket) => {
                    if let Some(bound) = &mut rates[at] {
                        bucket.count(now, uptime, bound);
                    }
                }
            }
        }
    }

    /// Ends the process: its requests end with it.
    pub(crate) fn end(&mut self, seats: &mut [Option<SeatsBound>], rates: &mut [Option<RateBound>]) {
        self.is_down = true;
        for (at, part) in self.parts.drain(..).enumerate() {
            match (part, &mut seats[at], &mut rates[at]) {
                (Part::Seats(part), Some(bound), _) => {
                    bound.leased -= part.leased;
                    bound.parts -= part.quota;
                    let running = part.permits.iter().flatten().count() as u64;
                    bound.unleased -= running - part.leased;
                }
                (Part::Rate(bucket), _, Some(bound)) => bound.parts -= bucket.quota,
                _ => {}
            }
        }
    }
}

impl Part {
    fn new(limits: &GlobalLimits, plan: &Plan) -> Self {
        match plan.limit {
            FlowControlLimit::MaxRequestsInflight(_) => {
                let part = limits.seats(CLUSTER, plan.name, &Arc::default());
                let (permits, free) = (Vec::new(), Vec::new());
                Part::Seats(Seats { part, permits, free, lease: 0, leased: 0, quota: 0 })
            }
            FlowControlLimit::TokenBucket { .. } => {
                let part = limits.rate(CLUSTER, plan.name);
                Part::Rate(Bucket { part, is_counted: plan.is_counted(), quota: 0, was_leased: false, admitted: 0 })
            }
        }
    }

    fn quota(&self, uptime: Duration) -> Option<u32> {
        match self {
            Part::Seats(seats) => seats.part.quota(uptime),
            Part::Rate(bucket) => bucket.part.part(uptime).map(|rate| rate.qps),
        }
    }
}

impl Seats {
    /// A request comes. Returns the place of its permit.
    pub(crate) fn arrive(&mut self, uptime: Duration, bound: &mut SeatsBound) -> Option<usize> {
        let is_leased = self.part.quota(uptime).is_some();
        let held = self.part.acquire(NO_SEATS, uptime)?;
        let lease = is_leased.then_some(self.lease);
        self.leased += u64::from(is_leased);
        bound.leased += u64::from(is_leased);
        bound.unleased += u64::from(!is_leased);
        let permit = Some(Permit { lease, _held: held });
        match self.free.pop() {
            Some(place) => {
                self.permits[place] = permit;
                Some(place)
            }
            None => {
                self.permits.push(permit);
                Some(self.permits.len() - 1)
            }
        }
    }

    /// A request ends.
    pub(crate) fn leave(&mut self, place: usize, bound: &mut SeatsBound) {
        if let Some(permit) = self.permits[place].take() {
            self.free.push(place);
            let is_leased = permit.lease == Some(self.lease);
            self.leased -= u64::from(is_leased);
            bound.leased -= u64::from(is_leased);
            bound.unleased -= u64::from(!is_leased);
        }
    }

    /// Requests that a lease let through count as leased until it ends.
    fn note_end(&mut self, uptime: Duration, bound: &mut Option<SeatsBound>) {
        if let Some(bound) = bound.as_mut().filter(|_| self.part.quota(uptime).is_none()) {
            bound.leased -= self.leased;
            bound.unleased += self.leased;
            (self.leased, self.lease) = (0, self.lease + 1);
        }
    }
}

impl Bucket {
    fn serve(&mut self, requests: u32, at: u64, uptime: Duration, bound: &mut RateBound) {
        if requests == 0 {
            return;
        }
        let is_leased = self.part.part(uptime).is_some();
        let admitted = (0..requests).filter(|_| self.part.take(NO_RATE, uptime)).count() as u64;
        self.admitted += admitted;
        bound.offer(u64::from(requests), admitted);
        if is_leased {
            bound.admit(at, admitted as i64);
        } else {
            bound.unleased += admitted;
        }
    }

    fn count(&mut self, now: u64, uptime: Duration, bound: &mut RateBound) {
        let part = self.part.part(uptime);
        if !self.was_leased && !self.is_counted && part.is_some() {
            // Tokens from before the lease are the slack of a gateway that joins.
            let brought = self.part.tokens(NO_RATE, uptime);
            bound.brought += u64::from(brought);
            bound.admit(now, -i64::from(brought));
        }
        self.was_leased = part.is_some();
        let quota = part.filter(|_| !self.is_counted).map_or(0, |rate| u64::from(rate.qps));
        bound.parts = bound.parts - std::mem::replace(&mut self.quota, quota) + quota;
    }
}

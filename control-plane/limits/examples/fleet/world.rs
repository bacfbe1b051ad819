//! The fleet in virtual time: a heap of events, the real limiter, and gateways.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::time::Duration;

use portcullis_core::global_limit::LimitReport;
use portcullis_filter_config::FlowControlLimit;
use portcullis_filter_config::limits::LimitPart;
use portcullis_limits::Limiter;

use crate::bounds::{RateBound, SeatsBound};
use crate::demand::Demand;
use crate::faults::{FASTEST, Fault, delays, schedule, skew};
use crate::figures::Figures;
use crate::gateway::{Gateway, Part};
use crate::lots::Lots;
use crate::plan::{CLUSTER, Plan, limits};

/// Microseconds.
pub(crate) const SECOND: u64 = 1_000_000;
/// Mean time that a request is in flight, seconds.
const IN_FLIGHT: f64 = 2.0;
/// The longest time until a gateway looks for another demand.
const LOOK: f64 = 1.0;
const SAMPLE: u64 = 10 * SECOND;

enum Event {
    Report { gateway: usize },
    AtLimiter(Rc<Sent>),
    AtGateway(Rc<Answer>),
    Arrive { gateway: usize, limit: usize, is_request: bool },
    Leave { gateway: usize, process: u64, limit: usize, place: usize },
    Fault(Fault),
    Smooth,
    Join { first: usize, count: usize },
    Start { gateway: usize },
    Elect { alone: u64 },
    Sample,
    Jump { gateway: usize },
    Settled,
}

struct Sent {
    gateway: usize,
    process: u64,
    report: LimitReport,
}

struct Answer {
    gateway: usize,
    process: u64,
    number: u64,
    parts: Vec<Option<LimitPart>>,
    next: Duration,
}

struct Timed {
    at: u64,
    number: u64,
    event: Event,
}

/// The fleet.
pub(crate) struct World {
    now: u64,
    events: BinaryHeap<Timed>,
    number: u64,
    lots: Lots,
    limiter: Option<Limiter>,
    gateways: Vec<Gateway>,
    plans: Vec<Plan>,
    demand: Demand,
    is_rough: bool,
    pub(crate) seats: Vec<Option<SeatsBound>>,
    pub(crate) rates: Vec<Option<RateBound>>,
    pub(crate) figures: Figures,
}

impl World {
    /// A fleet whose limiter knows nothing yet.
    pub(crate) fn new(seed: u64, count: usize, plans: Vec<Plan>, length: u64) -> Self {
        let mut lots = Lots(seed);
        let gateways = (0..count).map(|number| Gateway::new(number, 1, skew(&mut lots), &plans, 0)).collect();
        let demand = Demand { seed, gateways: count };
        let seats = plans.iter().map(|plan| match plan.limit {
            FlowControlLimit::MaxRequestsInflight(max) => Some(SeatsBound::new(max.into())),
            FlowControlLimit::TokenBucket { .. } => None,
        });
        let rate = |plan: &Plan| Some(RateBound::new((plan.total(), plan.burst()?), plan.is_counted(), FASTEST));
        let rates = plans.iter().map(rate);
        let mut world = World {
            now: 0,
            events: BinaryHeap::new(),
            number: 0,
            seats: seats.collect(),
            rates: rates.collect(),
            figures: Figures::new(&demand, &plans),
            lots,
            limiter: None,
            gateways,
            plans,
            demand,
            is_rough: false,
        };
        world.elect(0);
        for gateway in 0..count {
            world.start(gateway);
            for limit in 0..world.plans.len() {
                world.look(gateway, limit);
            }
        }
        for (at, fault) in schedule(count, length, &mut world.lots) {
            world.add(at, Event::Fault(fault));
        }
        world.add(SAMPLE, Event::Sample);
        world.plan_jump();
        world
    }

    /// Runs until that time.
    pub(crate) fn run(&mut self, until: u64) {
        while let Some(timed) = self.events.pop() {
            if timed.at > until {
                return;
            }
            self.now = timed.at;
            self.happen(timed.event);
        }
    }

    fn add(&mut self, at: u64, event: Event) {
        self.number += 1;
        self.events.push(Timed { at, number: self.number, event });
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Report { gateway } => self.report(gateway),
            Event::AtLimiter(sent) => self.divide(&sent),
            Event::AtGateway(answer) => self.apply(&answer),
            Event::Arrive { gateway, limit, is_request } => self.arrive(gateway, limit, is_request),
            Event::Leave { gateway, process, limit, place } => self.leave(gateway, process, limit, place),
            Event::Fault(fault) => self.suffer(fault),
            Event::Smooth => self.is_rough = false,
            Event::Join { first, count } => self.cut_off(first, count, false),
            Event::Start { gateway } => self.restart(gateway),
            Event::Elect { alone } => self.elect(alone),
            Event::Sample => self.sample(),
            Event::Jump { gateway } => {
                self.figures.jump(self.now, gateway);
                self.add(self.now + 60 * SECOND, Event::Settled);
            }
            Event::Settled => {
                self.figures.settle();
                self.plan_jump();
            }
        }
    }

    fn plan_jump(&mut self) {
        let at = self.demand.next_jump(self.now);
        if let Some(gateway) = self.demand.hot(at) {
            self.add(at, Event::Jump { gateway });
        }
    }

    fn suffer(&mut self, fault: Fault) {
        self.figures.faults += 1;
        match fault {
            Fault::Rough(length) => {
                self.is_rough = true;
                self.add(self.now + length, Event::Smooth);
            }
            Fault::Partition { first, count, length } => {
                self.cut_off(first, count, true);
                self.add(self.now + length, Event::Join { first, count });
            }
            Fault::Restart { gateway, pause } => {
                if !self.gateways[gateway].is_down {
                    self.serve(gateway);
                    self.gateways[gateway].end(&mut self.seats, &mut self.rates);
                    self.add(self.now + pause, Event::Start { gateway });
                }
            }
            Fault::Replace { pause, alone } => {
                self.limiter = None;
                self.add(self.now + pause, Event::Elect { alone });
            }
        }
    }

    fn cut_off(&mut self, first: usize, count: usize, is_cut_off: bool) {
        let gateways = self.gateways.len();
        (first..first + count).for_each(|number| self.gateways[number % gateways].is_cut_off = is_cut_off);
    }

    /// A limiter begins that has been alone for so long.
    fn elect(&mut self, alone: u64) {
        let mut limiter = Limiter::new();
        limiter.configure(&limits(&self.plans), Duration::from_micros(self.now - alone));
        self.limiter = Some(limiter);
    }

    fn restart(&mut self, gateway: usize) {
        let before = &self.gateways[gateway];
        let (process, skew, is_cut_off) = (before.process + 1, before.skew, before.is_cut_off);
        let fresh = Gateway::new(gateway, process, skew, &self.plans, self.now);
        self.gateways[gateway] = Gateway { is_cut_off, ..fresh };
        self.start(gateway);
    }

    fn start(&mut self, gateway: usize) {
        let at = self.now + self.lots.below(SECOND);
        self.report_at(gateway, at);
    }

    fn report_at(&mut self, gateway: usize, at: u64) {
        self.gateways[gateway].next_report = at;
        self.add(at, Event::Report { gateway });
    }

    /// The requests of rates up to now.
    fn serve(&mut self, gateway: usize) {
        let world = (&self.demand, &mut self.lots);
        self.gateways[gateway].serve(gateway, self.now, world, &mut self.rates);
    }

    fn report(&mut self, number: usize) {
        let gateway = &self.gateways[number];
        // Another time was set since.
        if gateway.is_down || gateway.next_report != self.now {
            return;
        }
        self.serve(number);
        let gateway = &self.gateways[number];
        let report = gateway.limits.report(gateway.uptime(self.now));
        let sent = Rc::new(Sent { gateway: number, process: gateway.process, report });
        self.figures.report(self.now, sent.process, &sent.report);
        self.report_at(number, self.now + SECOND);
        for delay in delays(self.is_rough, &mut self.lots).into_iter().flatten() {
            self.add(self.now + delay, Event::AtLimiter(Rc::clone(&sent)));
        }
    }

    fn divide(&mut self, sent: &Sent) {
        let gateway = &self.gateways[sent.gateway];
        let now = Duration::from_micros(self.now);
        let Some(limiter) = self.limiter.as_mut().filter(|_| !gateway.is_cut_off) else { return };
        let number = sent.report.number;
        let Ok(holder) = limiter.holder(&gateway.node, sent.process, number, now) else { return };
        let mut next = Duration::from_secs(1);
        let mut parts = Vec::with_capacity(sent.report.parts.len());
        for (name, used) in &sent.report.parts {
            let answer = limiter.exchange(holder, CLUSTER, &name.schema, *used, now).unwrap();
            next = next.min(answer.next);
            parts.push(answer.part);
            let at = self.plans.iter().position(|plan| plan.name == name.schema).unwrap();
            if let (Some(rate), Some(part)) = (&mut self.rates[at], answer.part) {
                rate.issue(self.now, part.tokens);
            }
        }
        self.figures.answer(number, &parts, next);
        let answer = Rc::new(Answer { gateway: sent.gateway, process: sent.process, number, parts, next });
        for delay in delays(self.is_rough, &mut self.lots).into_iter().flatten() {
            self.add(self.now + delay, Event::AtGateway(Rc::clone(&answer)));
        }
    }

    fn apply(&mut self, answer: &Answer) {
        let number = answer.gateway;
        let gateway = &self.gateways[number];
        if gateway.is_down || gateway.is_cut_off || gateway.process != answer.process {
            return;
        }
        self.serve(number);
        let gateway = &mut self.gateways[number];
        gateway.before_answer(self.now, &mut self.seats);
        if !gateway.limits.apply(answer.number, answer.parts.iter().copied(), gateway.uptime(self.now)) {
            return;
        }
        gateway.count_parts(self.now, &mut self.seats, &mut self.rates);
        let next = self.now + answer.next.as_micros() as u64;
        if next < gateway.next_report {
            self.report_at(number, next);
        }
        self.figures.part(self.now, number, &self.gateways[number]);
        self.check();
    }

    /// The next request in flight, or the next look at the demand.
    fn look(&mut self, gateway: usize, limit: usize) {
        let Some(seats) = &self.seats[limit] else { return };
        let even = seats.max as f64 / self.gateways.len() as f64;
        let mean = IN_FLIGHT / (even * self.demand.at(gateway, self.now)).max(1e-9);
        let pause = self.lots.exponential(mean);
        let at = self.now + (pause.min(LOOK) * SECOND as f64) as u64;
        self.add(at, Event::Arrive { gateway, limit, is_request: pause < LOOK });
    }

    fn arrive(&mut self, number: usize, limit: usize, is_request: bool) {
        self.look(number, limit);
        let gateway = &mut self.gateways[number];
        let (uptime, process) = (gateway.uptime(self.now), gateway.process);
        if !is_request || gateway.is_down {
            return;
        }
        let (Part::Seats(seats), Some(bound)) = (&mut gateway.parts[limit], &mut self.seats[limit]) else { return };
        bound.offered += 1;
        if let Some(place) = seats.arrive(uptime, bound) {
            bound.admitted += 1;
            bound.note();
            let at = self.now + (self.lots.exponential(IN_FLIGHT) * SECOND as f64) as u64;
            self.add(at, Event::Leave { gateway: number, process, limit, place });
            self.check();
        }
    }

    fn leave(&mut self, number: usize, process: u64, limit: usize, place: usize) {
        let gateway = &mut self.gateways[number];
        if gateway.is_down || gateway.process != process {
            return;
        }
        if let (Part::Seats(seats), Some(bound)) = (&mut gateway.parts[limit], &mut self.seats[limit]) {
            seats.leave(place, bound);
        }
    }

    /// Checks the bounds. Leases that have ended meanwhile are looked for if one seems not to hold.
    fn check(&mut self) {
        if self.holds() {
            return;
        }
        for gateway in self.gateways.iter_mut().filter(|gateway| !gateway.is_down) {
            gateway.count_parts(self.now, &mut self.seats, &mut self.rates);
        }
        assert!(self.holds(), "a bound is broken at {} µs:\n{}", self.now, self.figures.lines(self).join("\n"));
    }

    fn holds(&self) -> bool {
        self.seats.iter().flatten().all(SeatsBound::holds) && self.rates.iter().flatten().all(RateBound::holds)
    }

    fn sample(&mut self) {
        for gateway in self.gateways.iter_mut().filter(|gateway| !gateway.is_down) {
            gateway.count_parts(self.now, &mut self.seats, &mut self.rates);
        }
        self.figures.sample(self.now, &self.demand, &self.gateways, (&self.seats, &self.rates));
        self.add(self.now + SAMPLE, Event::Sample);
    }
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Timed {}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The first one is the greatest, as the heap wants it.
impl Ord for Timed {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

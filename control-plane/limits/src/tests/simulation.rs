//! The real parts of gateways and the real limiter in virtual time: messages come late or never, clocks are askew, gateways and limiters
//! restart.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use portcullis_core::bucket::Rate;
use portcullis_core::global_limit::{FallbackRate, FallbackSeats, GlobalLimits, LimitReport, RatePart, SeatsPart};
use portcullis_core::limit::InFlightPermit;
use portcullis_filter_config::limits::LimitPart;
use portcullis_filter_config::{FlowControlLimit, GlobalLimit, GlobalStrategy};
use proptest::prelude::*;

use super::guests::owners;
use crate::Limiter;

const STEP: Duration = Duration::from_millis(50);
const MAX: u32 = 40;
const QPS: u32 = 200;
const BURST: u32 = 300;
/// Local limits: nothing, so that the bound is seen.
const NO_SEATS: FallbackSeats = FallbackSeats { local: 0, global: MAX, most: u32::MAX };
const NO_RATE: FallbackRate = FallbackRate { local: Rate { qps: 0, burst: 0 }, global_qps: QPS };

/// Numbers that look random (xorshift).
struct Lots(u64);

impl Lots {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most.max(1)
    }
}

struct Gateway {
    node: String,
    process: u64,
    limits: GlobalLimits,
    seats: Arc<SeatsPart>,
    allocated: Arc<RatePart>,
    counted: Arc<RatePart>,
    running: Vec<(Duration, InFlightPermit)>,
    /// Parts of a thousand by which its clock is fast.
    skew: i64,
    is_cut_off: bool,
    next_report: Duration,
    /// Requests that it admitted, by rate, and of these the ones without a lease.
    admitted: [u64; 2],
    unleased: [u64; 2],
}

enum Message {
    Report { gateway: usize, process: u64, report: LimitReport },
    Answer { gateway: usize, process: u64, number: u64, parts: Vec<Option<LimitPart>>, next: Duration },
}

struct World {
    now: Duration,
    lots: Lots,
    limiter: Option<Limiter>,
    /// Since when there is none.
    quiet_since: Option<Duration>,
    gateways: Vec<Gateway>,
    messages: Vec<(Duration, Message)>,
    is_rough: bool,
}

fn limits() -> BTreeMap<String, BTreeMap<String, GlobalLimit>> {
    let rate = FlowControlLimit::TokenBucket { qps: QPS, burst: BURST };
    let of = |limit, strategy| GlobalLimit { limit, strategy };
    let schemas = [
        ("allocated", of(rate, GlobalStrategy::Allocate)),
        ("counted", of(rate, GlobalStrategy::Count)),
        ("seats", of(FlowControlLimit::MaxRequestsInflight(MAX), GlobalStrategy::Allocate)),
    ];
    let schemas = schemas.map(|(name, limit)| (name.to_owned(), limit));
    BTreeMap::from([("c".to_owned(), BTreeMap::from(schemas))])
}

impl Gateway {
    fn new(node: String, process: u64, skew: i64) -> Self {
        let limits = GlobalLimits::default();
        let seats = limits.seats("c", "seats", &Arc::default());
        let (allocated, counted) = (limits.rate("c", "allocated"), limits.rate("c", "counted"));
        Gateway {
            node,
            process,
            limits,
            seats,
            allocated,
            counted,
            running: Vec::new(),
            skew,
            is_cut_off: false,
            next_report: Duration::ZERO,
            admitted: [0; 2],
            unleased: [0; 2],
        }
    }

    /// Its own clock, at that time.
    fn uptime(&self, now: Duration) -> Duration {
        let nanoseconds = i64::try_from(now.as_nanos()).unwrap();
        Duration::from_nanos(u64::try_from(nanoseconds + nanoseconds / 1_000 * self.skew).unwrap())
    }

    fn serve(&mut self, now: Duration, lots: &mut Lots, demand: u64) {
        let uptime = self.uptime(now);
        self.running.retain(|(end, _)| now < *end);
        for _ in 0..lots.below(demand + 1) {
            if let Some(permit) = self.seats.acquire(NO_SEATS, uptime) {
                self.running.push((now + Duration::from_millis(lots.below(3_000)), permit));
            }
            for (at, rate) in [&self.allocated, &self.counted].into_iter().enumerate() {
                let is_leased = rate.part(uptime).is_some();
                if rate.take(NO_RATE, uptime) {
                    self.admitted[at] += 1;
                    self.unleased[at] += u64::from(!is_leased);
                }
            }
        }
    }
}

impl World {
    fn new(seed: u64, count: usize) -> Self {
        Self::of((0..count).map(|number| format!("node-{number}")), seed)
    }

    fn of(nodes: impl IntoIterator<Item = String>, seed: u64) -> Self {
        let mut lots = Lots(seed | 1);
        let gateways = nodes.into_iter().map(|node| Gateway::new(node, 0, lots.below(19) as i64 - 9)).collect();
        let (now, limiter, quiet_since) = (Duration::ZERO, None, None);
        let mut world = World { now, lots, limiter, quiet_since, gateways, messages: Vec::new(), is_rough: false };
        world.elect();
        world
    }

    fn elect(&mut self) {
        let mut limiter = Limiter::of_owners(owners());
        limiter.configure(&limits(), self.quiet_since.take().unwrap_or(self.now));
        self.limiter = Some(limiter);
    }

    fn lose(&mut self) {
        if self.limiter.take().is_some() {
            self.quiet_since = Some(self.now);
        }
    }

    /// A message arrives within half a second as a rule. In a rough world it seldom comes much later, or not at all.
    fn send(&mut self, message: Message) {
        if !self.is_rough || self.lots.below(20) > 0 {
            let most = if self.is_rough && self.lots.below(10) == 0 { 3_000 } else { 500 };
            let at = self.now + Duration::from_millis(self.lots.below(most));
            self.messages.push((at, message));
        }
    }

    fn deliver(&mut self) {
        let (due, later) = std::mem::take(&mut self.messages).into_iter().partition(|(at, _)| *at <= self.now);
        self.messages = later;
        let due: Vec<(Duration, Message)> = due;
        for (_, message) in due {
            match message {
                Message::Report { gateway, process, report } => self.answer(gateway, process, &report),
                Message::Answer { gateway, process, number, parts, next } => {
                    let to = &mut self.gateways[gateway];
                    if to.process == process && !to.is_cut_off {
                        to.limits.apply(number, parts, to.uptime(self.now));
                        to.next_report = to.next_report.min(self.now + next);
                    }
                }
            }
        }
    }

    fn answer(&mut self, gateway: usize, process: u64, report: &LimitReport) {
        let (node, now) = (self.gateways[gateway].node.clone(), self.now);
        let Some(limiter) = self.limiter.as_mut().filter(|_| !self.gateways[gateway].is_cut_off) else { return };
        let Ok(holder) = limiter.holder(&node, process, report.number, now) else { return };
        let mut next = Duration::from_secs(1);
        let mut parts = Vec::new();
        for (name, used) in &report.parts {
            let answer = limiter.exchange(holder, &name.cluster, &name.schema, *used, now).unwrap();
            next = next.min(answer.next);
            parts.push(answer.part);
        }
        self.send(Message::Answer { gateway, process, number: report.number, parts, next });
    }

    fn step(&mut self, demands: &[u64]) {
        self.now += STEP;
        self.deliver();
        for (number, demand) in demands.iter().enumerate() {
            let now = self.now;
            self.gateways[number].serve(now, &mut self.lots, *demand);
            let gateway = &mut self.gateways[number];
            if now >= gateway.next_report {
                gateway.next_report = now + Duration::from_secs(1);
                let report = gateway.limits.report(gateway.uptime(now));
                let process = gateway.process;
                self.send(Message::Report { gateway: number, process, report });
            }
        }
    }

    /// Parts under a lease, of requests in flight and of a rate.
    fn leased(&self) -> (u64, u64) {
        let sum = |part: fn(&Gateway, Duration) -> u32| {
            self.gateways.iter().map(|one| u64::from(part(one, one.uptime(self.now)))).sum()
        };
        let rate = |one: &Gateway, at| one.allocated.part(at).map_or(0, |rate| rate.qps);
        (sum(|one, at| one.seats.quota(at).unwrap_or_default()), sum(rate))
    }
}

/// An event of the world, and for how many steps it goes on undisturbed after it.
#[derive(Clone, Debug)]
enum Event {
    Demand(usize, u64),
    CutOff(usize),
    Join(usize),
    Restart(usize),
    LoseLimiter,
    Elect,
}

fn events(count: usize) -> impl Strategy<Value = Vec<(Event, u8)>> {
    let event = prop_oneof![
        4 => (0..count, 0..40_u64).prop_map(|(gateway, demand)| Event::Demand(gateway, demand)),
        1 => (0..count).prop_map(Event::CutOff),
        2 => (0..count).prop_map(Event::Join),
        1 => (0..count).prop_map(Event::Restart),
        1 => Just(Event::LoseLimiter),
        2 => Just(Event::Elect),
    ];
    proptest::collection::vec((event, any::<u8>()), 1..24)
}

fn happen(world: &mut World, demands: &mut [u64], event: &Event) {
    match event {
        Event::Demand(gateway, demand) => demands[*gateway] = *demand,
        Event::CutOff(gateway) => world.gateways[*gateway].is_cut_off = true,
        Event::Join(gateway) => world.gateways[*gateway].is_cut_off = false,
        Event::Restart(number) => {
            let before = &world.gateways[*number];
            let (process, admitted, unleased) = (before.process + 1, before.admitted, before.unleased);
            // The process before is dead: it holds nothing and runs nothing.
            let fresh = Gateway { admitted, unleased, ..Gateway::new(before.node.clone(), process, before.skew) };
            world.gateways[*number] = fresh;
        }
        Event::LoseLimiter => world.lose(),
        Event::Elect => world.elect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Leases of all gateways together are never more than the limit, nor are the requests that they let through.
    #[test]
    fn parts_are_never_more_than_the_limit(seed in any::<u64>(), events in events(4), has_guests in any::<bool>()) {
        let nodes = if has_guests { ["fleet-0", "fleet-1", "a/0", "b/0"] } else { ["n-0", "n-1", "n-2", "n-3"] };
        let mut world = World { is_rough: true, ..World::of(nodes.map(str::to_owned), seed) };
        let mut demands = vec![4; 4];
        let mut restarts = 0_u64;
        for (event, steps) in &events {
            restarts += u64::from(matches!(event, Event::Restart(_)));
            happen(&mut world, &mut demands, event);
            for _ in 0..*steps {
                world.step(&demands);
                let (seats, rate) = world.leased();
                prop_assert!(seats <= u64::from(MAX), "{seats} seats at {:?}", world.now);
                prop_assert!(rate <= u64::from(QPS), "{rate} requests per second at {:?}", world.now);
            }
        }
        // Clocks are up to a hundredth fast. A process has one token at first.
        let made = u64::from(BURST) + u64::from(QPS) * (world.now.as_millis() as u64) * 101 / 100_000 + 1;
        let first = 4 + restarts;
        for at in 0..2 {
            let leased: u64 = world.gateways.iter().map(|one| one.admitted[at] - one.unleased[at]).sum();
            prop_assert!(leased <= made + first, "{leased} of {made} of rate {at}");
        }
    }
}

#[test]
fn parts_follow_the_demand_from_gateway_to_gateway() {
    for seed in 1..20 {
        let mut world = World::new(seed, 4);
        for turn in 0..4 {
            let demands: Vec<u64> = (0..4).map(|number| if number == turn { 40 } else { 0 }).collect();
            (0..200).for_each(|_| world.step(&demands));
            let gateway = &world.gateways[turn];
            let at = gateway.uptime(world.now);
            let quota = (gateway.seats.quota(at), gateway.allocated.part(at).map(|rate| rate.qps));
            assert!(matches!(quota, (Some(30..=40), Some(150..=200))), "seed {seed}, turn {turn}: {quota:?}");
        }
    }
}

#[test]
fn rate_of_all_gateways_is_used_up() {
    for seed in 1..10 {
        let mut world = World::new(seed, 4);
        let begun = |world: &World, at: usize| world.gateways.iter().map(|one| one.admitted[at]).sum::<u64>();
        // Twice as many as may pass, unevenly; until the first leases are there.
        let demands = [2, 40, 10, 0];
        (0..200).for_each(|_| world.step(&demands));
        let before = [0, 1].map(|at| begun(&world, at));
        (0..600).for_each(|_| world.step(&demands));
        for (at, strategy) in ["allocated", "counted"].into_iter().enumerate() {
            let admitted = begun(&world, at) - before[at];
            let wanted = u64::from(QPS) * 30;
            assert!((wanted * 90 / 100..=wanted + u64::from(BURST)).contains(&admitted), "{strategy}: {admitted}");
        }
    }
}

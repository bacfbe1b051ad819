//! All that may happen to leases, within bounds: two gateways, messages that are lost, late, repeated and out of order, clocks that
//! are askew, restarts, and limiters that replace each other. The limiter and the gateways' parts are the real ones: a state has
//! the calls that lead to it, and is known by all that they hold.

mod bounds;
mod machine;

use std::collections::BTreeSet;
use std::fmt::{self, Debug, Formatter};
use std::hash::{Hash, Hasher};

use portcullis_filter_config::limits::PartUse;
use portcullis_filter_config::{FlowControlLimit, GlobalStrategy};
use stateright::{Model, Property};

use machine::{Call, Machine, digest, time};

use super::rules::limits;
use crate::Limiter;

const GATEWAYS: usize = 2;
/// Steps of time after which the limiter takes a lease as ended, in the very moment.
const STEPS_OF_LEASE: u32 = 2;

/// The bounds within which all is tried.
#[derive(Clone)]
struct Leases {
    max: u32,
    strategy: GlobalStrategy,
    /// The speed of each gateway's clock, in parts of a hundred.
    clocks: [u32; GATEWAYS],
    /// Steps of time, reports of each gateway, restarts of gateways, and other limiters.
    steps: u32,
    reports: [u64; GATEWAYS],
    restarts: u32,
    limiters: u32,
    /// Whether a limiter is silent for a while before another one begins, as one that was killed is.
    has_silence: bool,
    /// Steps by which the next limiter counts from too early a moment.
    early: u32,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Tick,
    /// A report of a gateway that is busy: as many requests run as may, whenever it gets another part, and one more is refused.
    Busy(usize),
    /// A report of one whose requests have all ended.
    Idle(usize),
    /// As many requests come to it as it admits, before it has an answer.
    Fill(usize),
    Deliver(Letter),
    Restart(usize),
    /// The limiter answers for the last time.
    Silence,
    Replace,
}

/// A message, from the moment at which it is sent. It may arrive at any time, more than once, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Letter {
    gateway: usize,
    process: u64,
    number: u64,
    content: Content,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Content {
    Use { is_leased: bool, held: u32, used: u32, wanted: u32 },
    Quota(Option<u32>),
}

#[derive(Clone, PartialEq)]
struct Situation {
    step: u32,
    restarts: u32,
    limiters: u32,
    limiter: Known,
    silent_since: Option<u32>,
    gateways: [Process; GATEWAYS],
    letters: BTreeSet<Letter>,
}

/// The calls since the beginning, and all that the real thing holds after them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    since: u32,
    calls: Vec<Call>,
    holds: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Process {
    clock: u32,
    process: u64,
    reports: u64,
    known: Known,
    /// The part under a lease, and requests that the present lease let through.
    quota: Option<u32>,
    leased: u32,
    running: u32,
    is_busy: bool,
}

impl Leases {
    /// The limiter after its calls, and its answer to the last of them.
    fn divide(&self, known: &mut Known) -> Option<Option<u32>> {
        let mut limiter = Limiter::new();
        let limit = FlowControlLimit::MaxRequestsInflight(self.max);
        limiter.configure(&limits(limit, self.strategy), time(known.since));
        let mut quota = None;
        for call in &known.calls {
            let Call::Exchange(
                step,
                Letter { gateway, process, number, content: Content::Use { is_leased, held, used, wanted } },
            ) = *call
            else {
                continue;
            };
            let node = ["a", "b"][gateway];
            let used = PartUse { is_rate: false, is_leased, held, used, wanted };
            let holder = limiter.holder(node, process, number, time(step)).ok();
            let answer = holder.and_then(|holder| limiter.exchange(holder, "c", "s", used, time(step)));
            quota = answer.map(|answer| answer.part.map(|part| part.quota));
        }
        known.holds = digest(&limiter);
        quota
    }
}

impl Process {
    /// Calls the real part, and notes what it holds then.
    fn call(&mut self, step: u32, call: Option<Call>) -> PartUse {
        self.known.calls.extend(call);
        let machine = Machine::after(self.clock, &self.known.calls);
        self.known.holds = digest(&(&machine.limits, &machine.seats));
        let before = std::mem::replace(&mut self.quota, machine.seats.quota(machine.uptime(step)));
        let running = u32::try_from(machine.permits.len()).unwrap();
        self.is_busy = match call {
            Some(Call::Fill(_)) => true,
            Some(Call::Empty) => false,
            _ => self.is_busy,
        };
        // Requests that run when a lease ends are those of a gateway that is cut off.
        self.leased = match before.and(self.quota) {
            None => 0,
            Some(_) if running > self.running => self.leased + running - self.running,
            Some(_) => self.leased.min(running),
        };
        self.running = running;
        machine.reported
    }
}

impl Model for Leases {
    type State = Situation;
    type Action = Step;

    fn init_states(&self) -> Vec<Situation> {
        let mut limiter = Known::default();
        self.divide(&mut limiter);
        let gateways = [0, 1].map(|gateway| {
            let mut process = Process { clock: self.clocks[gateway], process: 1, ..Process::default() };
            process.call(STEPS_OF_LEASE, None);
            process
        });
        // The first limiter has learnt that there is no lease. Then the first gateway gets all, and the second one asks.
        let (step, silent_since, letters) = (STEPS_OF_LEASE, None, BTreeSet::new());
        let start = Situation { step, restarts: 0, limiters: 0, limiter, silent_since, gateways, letters };
        let asked = self.follow(self.follow(start, Step::Busy(0)), Step::Busy(1));
        vec![asked.letters.iter().fold(asked.clone(), |last, letter| {
            let answered = self.follow(last, Step::Deliver(*letter));
            let answers = answered.letters.difference(&asked.letters).copied().collect::<Vec<_>>();
            answers.into_iter().fold(answered, |last, answer| self.follow(last, Step::Deliver(answer)))
        })]
    }

    fn actions(&self, situation: &Situation, actions: &mut Vec<Step>) {
        if situation.step < STEPS_OF_LEASE + self.steps {
            actions.push(Step::Tick);
        }
        for (number, gateway) in situation.gateways.iter().enumerate() {
            if gateway.reports <= self.reports[number] {
                actions.extend([Step::Busy(number), Step::Idle(number)]);
            }
            if !gateway.is_busy && gateway.quota > Some(0) {
                actions.push(Step::Fill(number));
            }
            if situation.restarts < self.restarts {
                actions.push(Step::Restart(number));
            }
        }
        if situation.limiters < self.limiters {
            let must_end = self.has_silence && situation.silent_since.is_none();
            actions.push(if must_end { Step::Silence } else { Step::Replace });
        }
        actions.extend(situation.letters.iter().copied().map(Step::Deliver));
    }

    fn next_state(&self, last: &Situation, action: Step) -> Option<Situation> {
        let mut next = last.clone();
        let step = last.step;
        match action {
            Step::Tick => {
                next.step += 1;
                next.gateways.iter_mut().for_each(|gateway| _ = gateway.call(step + 1, None));
            }
            Step::Fill(number) => _ = next.gateways[number].call(step, Some(Call::Fill(step))),
            Step::Busy(number) | Step::Idle(number) => {
                let gateway = &mut next.gateways[number];
                let load = if matches!(action, Step::Busy(_)) { Call::Fill(step) } else { Call::Empty };
                gateway.call(step, Some(load));
                let PartUse { is_leased, held, used, wanted, .. } = gateway.call(step, Some(Call::Report(step)));
                gateway.reports += 1;
                let content = Content::Use { is_leased, held, used, wanted };
                let letter = Letter { gateway: number, process: gateway.process, number: gateway.reports, content };
                // Answers to earlier reports count no more.
                next.letters.retain(|old| old.gateway != number || matches!(old.content, Content::Use { .. }));
                next.letters.insert(letter);
            }
            Step::Restart(number) => {
                next.restarts += 1;
                let process = next.gateways[number].process + 1;
                next.gateways[number] = Process { clock: self.clocks[number], process, ..Process::default() };
                next.gateways[number].call(step, None);
            }
            Step::Replace => {
                next.limiters += 1;
                let since = next.silent_since.take().unwrap_or(step) - self.early;
                next.limiter = Known { since, ..Known::default() };
                self.divide(&mut next.limiter);
            }
            Step::Silence => next.silent_since = Some(step),
            Step::Deliver(letter) => self.deliver(&mut next, letter, step)?,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(PARTS, |model: &Leases, situation: &Situation| {
                situation.gateways.iter().filter_map(|gateway| gateway.quota).sum::<u32>() <= model.max
            }),
            Property::always(ADMITTED, |model: &Leases, situation: &Situation| {
                situation.gateways.iter().map(|gateway| gateway.leased).sum::<u32>() <= model.max
            }),
            Property::sometimes(ALONE, |model: &Leases, situation: &Situation| {
                // The one that had nothing at first.
                situation.gateways[1].quota == Some(model.max)
            }),
            Property::sometimes(BOTH, |_, situation: &Situation| {
                situation.gateways.iter().all(|gateway| gateway.quota > Some(0))
            }),
            Property::sometimes(RENEWED, |_, situation: &Situation| {
                let is_learning = situation.step < situation.limiter.since + STEPS_OF_LEASE;
                let has_answer = |letter: &Letter| matches!(letter.content, Content::Quota(Some(1..)));
                situation.limiter.since > 0 && is_learning && situation.letters.iter().any(has_answer)
            }),
        ]
    }
}

impl Leases {
    fn follow(&self, last: Situation, step: Step) -> Situation {
        self.next_state(&last, step).unwrap()
    }

    fn deliver(&self, next: &mut Situation, letter: Letter, step: u32) -> Option<()> {
        match letter.content {
            Content::Use { .. } if next.silent_since.is_some() => None,
            Content::Use { .. } => {
                let before = next.limiter.holds;
                next.limiter.calls.push(Call::Exchange(step, letter));
                let quota = self.divide(&mut next.limiter);
                let is_newest = next.gateways[letter.gateway].reports == letter.number
                    && next.gateways[letter.gateway].process == letter.process;
                if let Some(quota) = quota.filter(|_| is_newest) {
                    next.letters.insert(Letter { content: Content::Quota(quota), ..letter });
                }
                (before != next.limiter.holds).then_some(())
            }
            Content::Quota(quota) => {
                let gateway = &mut next.gateways[letter.gateway];
                if gateway.process != letter.process {
                    return None;
                }
                gateway.call(step, Some(Call::Apply(step, letter.number, quota)));
                if gateway.is_busy {
                    gateway.call(step, Some(Call::Fill(step)));
                }
                // It counts once: no second copy does anything.
                next.letters.retain(|old| old.gateway != letter.gateway || matches!(old.content, Content::Use { .. }));
                Some(())
            }
        }
    }
}

impl Hash for Situation {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.step, self.restarts, self.limiters, self.silent_since).hash(hasher);
        (&self.limiter.holds, &self.letters).hash(hasher);
        for gateway in &self.gateways {
            let Process { clock, process, reports, known, quota, leased, running, is_busy } = gateway;
            (clock, process, reports, &known.holds, quota, leased, running, is_busy).hash(hasher);
        }
    }
}

impl Debug for Situation {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let parts = self.gateways.each_ref().map(|gateway| (gateway.quota, gateway.leased, gateway.running));
        write!(formatter, "step {}: {parts:?}", self.step)
    }
}

const PARTS: &str = "parts are within the limit";
const ADMITTED: &str = "requests that leases let through are within the limit";
const ALONE: &str = "a gateway that asks alone gets all";
const BOTH: &str = "both have a part";
const RENEWED: &str = "another limiter renews a lease";

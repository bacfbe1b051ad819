//! The real parts of a process, after calls.

use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use portcullis_core::global_limit::{FallbackSeats, GlobalLimits, SeatsPart};
use portcullis_core::limit::InFlightPermit;
use portcullis_filter_config::limits::{LimitPart, PartUse};

use super::{Letter, STEPS_OF_LEASE};
use crate::RESERVED_FOR;

/// Without a lease nothing.
const NO_SEATS: FallbackSeats = FallbackSeats { local: 0, global: 0, most: u32::MAX };

/// A call that a real part or limiter gets, at that step of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Call {
    Fill(u32),
    Empty,
    Report(u32),
    Apply(u32, u64, Option<u32>),
    Exchange(u32, Letter),
}

pub(super) fn time(step: u32) -> Duration {
    RESERVED_FOR / STEPS_OF_LEASE * step
}

/// A number for all that a thing holds, of which nothing is hidden from its debug text.
pub(super) fn digest(held: &dyn Debug) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{held:?}").hash(&mut hasher);
    hasher.finish()
}

/// The real parts of a process.
pub(super) struct Machine {
    pub(super) limits: GlobalLimits,
    pub(super) seats: Arc<SeatsPart>,
    pub(super) permits: Vec<InFlightPermit>,
    pub(super) reported: PartUse,
    clock: u32,
}

impl Machine {
    pub(super) fn after(clock: u32, calls: &[Call]) -> Self {
        let limits = GlobalLimits::default();
        let seats = limits.seats("c", "s", &Arc::default());
        let mut machine = Machine { limits, seats, permits: Vec::new(), reported: PartUse::default(), clock };
        calls.iter().for_each(|call| machine.call(*call));
        machine
    }

    pub(super) fn uptime(&self, step: u32) -> Duration {
        time(step) * self.clock / 100
    }

    fn call(&mut self, call: Call) {
        match call {
            Call::Fill(step) => {
                while let Some(permit) = self.seats.acquire(NO_SEATS, self.uptime(step)) {
                    self.permits.push(permit);
                }
            }
            Call::Empty => self.permits.clear(),
            Call::Report(step) => self.reported = self.limits.report(self.uptime(step)).parts[0].1,
            Call::Apply(step, number, quota) => {
                let part = quota.map(|quota| LimitPart { quota, ..LimitPart::default() });
                self.limits.apply(number, [part], self.uptime(step));
            }
            Call::Exchange(..) => {}
        }
    }
}

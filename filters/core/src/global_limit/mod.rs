//! The parts of this process of limits that several gateways share.
//!
//! A control plane divides such a limit. The host sends a report of the use of each part ([`GlobalLimits::report`]) and applies
//! the answer ([`GlobalLimits::apply`]); no request waits for either. All parts have one lease, which the newest answer prolongs.
//! When it has ended, or before there was one, the larger of the local limit and of what was in use holds, the latter up to the limit
//! of all gateways. Of a rate of which tokens come with answers it holds as soon as these are overdue.
//!
//! A process with more parts than a report has room for reports those in use, and the others in turn; it has no lease of the parts
//! that the newest answer says nothing of, and goes by their local limits alone: it is connected.

mod lease;
mod rate;
mod report_room;
mod seats;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use portcullis_filter_config::limits::{LEASE, LimitPart, PartUse};

use lease::Lease;
pub(crate) use lease::nanoseconds;
pub(crate) use rate::RateLevel;
pub use rate::{FallbackRate, RatePart};
pub(crate) use report_room::{PartNeed, ReportRoom};
pub use seats::{FallbackSeats, SeatsPart};

use crate::limit::InFlight;
use crate::weak_map::WeakMap;

/// All parts of a process.
#[derive(Debug, Default)]
pub struct GlobalLimits {
    lease: Arc<Lease>,
    /// By the name under which the cluster counts and the schema's.
    seats: WeakMap<(String, String), SeatsPart>,
    rates: WeakMap<(String, String), RatePart>,
    report: Mutex<NewestReport>,
}

/// The newest report, until it is answered.
#[derive(Debug, Default)]
struct NewestReport {
    number: u64,
    written: Duration,
    /// Whether it says that there are parts.
    was_leased: bool,
    parts: Vec<ReportedPart>,
    /// Those that it has no room for.
    left_out: Vec<ReportedPart>,
    room: ReportRoom,
    /// Whether there was any part in it, answered or not.
    has_parts: bool,
    /// Whether the last answer left a limit to the local one.
    lacks_parts: bool,
}

#[derive(Debug)]
enum SharedPart {
    Seats(Arc<SeatsPart>),
    Rate(Arc<RatePart>),
}

/// A part in a report: it may go before the answer comes.
#[derive(Debug)]
enum ReportedPart {
    Seats(Weak<SeatsPart>),
    Rate(Weak<RatePart>),
}

/// The limit that a part is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartName {
    /// The name under which the cluster counts.
    pub cluster: String,
    /// The flow control schema.
    pub schema: String,
}

/// A report to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitReport {
    /// To be in the answer.
    pub number: u64,
    /// The use of each part, by name.
    pub parts: Vec<(PartName, PartUse)>,
}

impl GlobalLimits {
    /// The part of a limit of requests in flight.
    pub fn seats(&self, cluster: &str, schema: &str, running: &Arc<InFlight>) -> Arc<SeatsPart> {
        let new = || SeatsPart::new(name(cluster, schema), &self.lease, running);
        self.seats.get_or_insert_with((cluster.to_owned(), schema.to_owned()), new)
    }

    /// The part of a limit of requests per second.
    pub fn rate(&self, cluster: &str, schema: &str) -> Arc<RatePart> {
        let new = || RatePart::new(name(cluster, schema), &self.lease);
        self.rates.get_or_insert_with((cluster.to_owned(), schema.to_owned()), new)
    }

    /// A report of all parts that are in use, as far as it has room. The answers to earlier ones count no more.
    pub fn report(&self, uptime: Duration) -> LimitReport {
        let mut parts = Vec::new();
        self.seats.for_each(|part| parts.push(SharedPart::Seats(part)));
        self.rates.for_each(|part| parts.push(SharedPart::Rate(part)));
        // Of two editions of a schema the part of requests in flight is first.
        parts.sort_by(|one, other| one.name().cmp(other.name()));
        let mut newest = self.newest();
        newest.number = newest.number.saturating_add(1);
        newest.written = uptime;
        newest.was_leased = self.lease.is_live(uptime);
        newest.has_parts = !parts.is_empty();
        let named: Vec<_> = parts.iter().map(|part| (part.name(), part.need())).collect();
        let chosen = newest.room.choose(&named, uptime);
        let is_chosen = |position: usize| chosen.as_ref().is_none_or(|chosen| chosen.get(position) == Some(&true));
        let (reported, left_out): (Vec<_>, Vec<_>) =
            parts.iter().enumerate().partition(|(position, _)| is_chosen(*position));
        newest.parts = reported.iter().map(|(_, part)| part.reported()).collect();
        newest.left_out = left_out.iter().map(|(_, part)| part.reported()).collect();
        let uses = reported.iter().map(|(_, part)| (part.name().clone(), part.report(uptime)));
        LimitReport { number: newest.number, parts: uses.collect() }
    }

    /// Applies the answer to the report of that number: the parts of all limits in its order, `None` where the local limit is to
    /// hold. False if a newer report was written, it was answered before, or the lease that it speaks of has ended since: a control
    /// plane that begins to divide would renew what an earlier one may have given away by then.
    pub fn apply(&self, number: u64, parts: impl IntoIterator<Item = Option<LimitPart>>, uptime: Duration) -> bool {
        let mut newest = self.newest();
        if number != newest.number || newest.parts.is_empty() {
            return false;
        }
        if newest.was_leased && !self.lease.is_live(uptime) {
            newest.parts.clear();
            return false;
        }
        let granted = parts.into_iter().chain(std::iter::repeat(None));
        newest.lacks_parts = false;
        for (part, granted) in std::mem::take(&mut newest.parts).iter().zip(granted) {
            newest.lacks_parts |= granted.is_none();
            part.replace(granted, uptime);
        }
        // The lease is of all: what was not reported may be another gateway's before it ends.
        for part in std::mem::take(&mut newest.left_out) {
            newest.lacks_parts = true;
            part.leave_out(uptime);
        }
        // By this process's clock, from a moment before the control plane's began to count.
        self.lease.prolong(newest.written.saturating_add(LEASE));
        true
    }

    /// Whether a local limit holds in the place of one that gateways share, as of the last report and its answer.
    pub fn is_degraded(&self, uptime: Duration) -> bool {
        let newest = self.newest();
        newest.has_parts && (newest.lacks_parts || !self.lease.is_live(uptime))
    }

    fn newest(&self) -> MutexGuard<'_, NewestReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedPart {
    fn name(&self) -> &PartName {
        match self {
            SharedPart::Seats(part) => part.name(),
            SharedPart::Rate(part) => part.name(),
        }
    }

    /// The need that the process has of it.
    fn need(&self) -> PartNeed {
        match self {
            SharedPart::Seats(part) => part.need(),
            SharedPart::Rate(part) => part.need(),
        }
    }

    fn report(&self, uptime: Duration) -> PartUse {
        match self {
            SharedPart::Seats(part) => part.report(uptime),
            SharedPart::Rate(part) => part.report(uptime),
        }
    }

    fn reported(&self) -> ReportedPart {
        match self {
            SharedPart::Seats(part) => ReportedPart::Seats(Arc::downgrade(part)),
            SharedPart::Rate(part) => ReportedPart::Rate(Arc::downgrade(part)),
        }
    }
}

impl ReportedPart {
    fn replace(&self, granted: Option<LimitPart>, uptime: Duration) {
        match self {
            ReportedPart::Seats(seats) => seats.upgrade().into_iter().for_each(|seats| seats.replace(granted)),
            ReportedPart::Rate(rate) => rate.upgrade().into_iter().for_each(|rate| rate.replace(granted, uptime)),
        }
    }

    /// Ends the part of a limit that an answered report has no room for.
    fn leave_out(&self, uptime: Duration) {
        match self {
            ReportedPart::Seats(seats) => seats.upgrade().into_iter().for_each(|seats| seats.leave_out()),
            ReportedPart::Rate(rate) => rate.upgrade().into_iter().for_each(|rate| rate.leave_out(uptime)),
        }
    }
}

fn name(cluster: &str, schema: &str) -> PartName {
    PartName { cluster: cluster.to_owned(), schema: schema.to_owned() }
}

//! The parts of limits of all gateways where workers share no memory: the counterpart of [`GlobalLimits`]. All workers count together,
//! and one of them at a time reports for all and applies the answer.
//!
//! [`GlobalLimits`]: crate::global_limit::GlobalLimits

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use portcullis_filter_config::limits::{LEASE, LimitPart, PartUse};
use portcullis_filter_config::{FlowControlLimit, FlowControlSchema};
use ring::hmac;

use super::SharedData;
use super::counts::permits_of_all;
use super::parts::{PartLevel, PartRecord, SeatsLevel, all, find, keys, update, update_all};
use super::table::{Id, MAX_TRIES, row_id};
use crate::bucket::Rate;
use crate::flow_limit::{LimitLevel, LimitReached, SharedLimit};
use crate::global_limit::{FallbackRate, FallbackSeats, LimitReport, PartName, RateLevel, ReportRoom, nanoseconds};
use crate::limit::{InFlight, InFlightPermit};

/// The worker whose turn it is, the uptime in nanoseconds of its next report, and the number of the last one.
const TURN: &[u8] = b"portcullis/turn";
/// Time after which another worker takes over from one that does not report. Each has connections of its own.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// Interval at which a worker renews the parts that its configurations name.
pub(super) const RENEWAL_INTERVAL: Duration = Duration::from_secs(15);

/// The exchange of one worker about the limits of all.
#[derive(Debug)]
pub struct SharedLimits<H> {
    host: H,
    vm: u64,
    secret: hmac::Key,
    process: u64,
    newest: RefCell<NewestReport>,
    room: RefCell<ReportRoom>,
    parts: RefCell<Vec<Weak<HostPart<H>>>>,
    renewed: RefCell<Duration>,
}

/// The newest report of this worker, until it is answered: its number, when it was written, and its parts, each with whether it
/// was under a lease.
#[derive(Debug, Default)]
struct NewestReport {
    number: u64,
    written: Duration,
    parts: Vec<(Id, bool)>,
    /// Whether there was any part in it, answered or not, and whether there was one that it had no room for.
    has_parts: bool,
    leaves_out: bool,
    /// Whether the last answer left a limit to the local one, and nanoseconds of uptime at which its lease ends.
    lacks_parts: bool,
    until: u64,
}

/// The state of the turn.
#[derive(Clone, Copy, Debug, Default)]
struct TurnState {
    vm: u64,
    next: u64,
    number: u64,
}

/// A part of a limit, as one worker's configurations name it.
#[derive(Debug)]
struct HostPart<H> {
    host: H,
    id: Id,
    name: PartName,
    local: LocalLimit,
}

#[derive(Debug)]
enum LocalLimit {
    Seats { running: Arc<InFlight>, permits: Id, fallback: FallbackSeats },
    Rate(FallbackRate),
}

/// Makes the value that is missing, as [`super::table::prepare`].
pub(super) fn prepare(host: &impl SharedData) -> bool {
    let turn = host.shared(TURN).is_some() || host.set_shared(TURN, &TurnState::default().write(), 0);
    turn && keys().all(|key| host.shared(&key).is_some() || host.set_shared(&key, &[], 0))
}

impl<H: SharedData> SharedLimits<H> {
    pub(super) fn new(host: &H, vm: u64, secret: &hmac::Key) -> Self {
        let tag = hmac::sign(secret, b"process");
        SharedLimits {
            host: host.clone(),
            vm,
            secret: secret.clone(),
            process: tag.as_ref().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)),
            newest: RefCell::default(),
            room: RefCell::default(),
            parts: RefCell::default(),
            renewed: RefCell::default(),
        }
    }

    /// A number of the process, the same for all its workers.
    pub fn process(&self) -> u64 {
        self.process
    }

    /// The part of a schema's limit; `running` counts its requests. `None` if it has none, or one of another kind than the local one.
    pub(super) fn part(
        &self,
        cluster: &str,
        schema: &FlowControlSchema,
        running: impl FnOnce() -> Arc<InFlight>,
    ) -> Option<Arc<dyn SharedLimit>> {
        let words = [cluster.as_bytes(), schema.name.as_bytes()];
        let local = match (schema.limit, schema.global?.limit) {
            (FlowControlLimit::MaxRequestsInflight(local), FlowControlLimit::MaxRequestsInflight(global)) => {
                let fallback = FallbackSeats { local, global, most: schema.at_most.unwrap_or(u32::MAX) };
                LocalLimit::Seats { running: running(), permits: row_id(&self.secret, &words), fallback }
            }
            (FlowControlLimit::TokenBucket { qps, burst }, FlowControlLimit::TokenBucket { qps: global_qps, .. }) => {
                LocalLimit::Rate(FallbackRate { local: Rate { qps, burst }, global_qps })
            }
            _ => return None,
        };
        let kind: &[u8] = if matches!(local, LocalLimit::Seats { .. }) { b"seats" } else { b"rate" };
        let [cluster_word, schema_word] = words;
        let id = row_id(&self.secret, &[cluster_word, schema_word, kind]);
        let name = PartName { cluster: cluster.to_owned(), schema: schema.name.clone() };
        let part = Arc::new(HostPart { host: self.host.clone(), id, name, local });
        self.parts.borrow_mut().push(Arc::downgrade(&part));
        part.renew();
        Some(part)
    }

    /// Claims the turn to report, until then, if it has come.
    pub fn claim(&self, uptime: Duration, until: Duration) -> bool {
        let now = nanoseconds(uptime);
        self.change_turn(|turn| {
            let patience = if turn.vm == self.vm { 0 } else { nanoseconds(PATIENCE) };
            let is_due = turn.next.saturating_add(patience) <= now;
            is_due.then_some(TurnState { vm: self.vm, next: nanoseconds(until), ..turn })
        })
    }

    /// Sets the uptime of the next report; true if this worker still has the turn.
    pub fn set_next(&self, at: Duration) -> bool {
        self.change_turn(|turn| (turn.vm == self.vm).then_some(TurnState { next: nanoseconds(at), ..turn }))
    }

    fn change_turn(&self, change: impl Fn(TurnState) -> Option<TurnState>) -> bool {
        for _ in 0..MAX_TRIES {
            let Some((value, cas)) = self.host.shared(TURN) else { return false };
            let Some(changed) = change(TurnState::read(&value)) else { return false };
            if self.host.set_shared(TURN, &changed.write(), cas) {
                return true;
            }
        }
        false
    }

    /// A report of all parts of all workers, as far as it has room. The answers to earlier ones count no more.
    pub fn report(&self, uptime: Duration) -> LimitReport {
        let now = nanoseconds(uptime);
        if !self.change_turn(|turn| Some(TurnState { number: turn.number.saturating_add(1), ..turn })) {
            return LimitReport::default();
        }
        let number = self.turn().number;
        let chosen = self.choose(uptime);
        let is_chosen = |record: &&mut PartRecord| chosen.as_ref().is_none_or(|chosen| chosen.contains(&record.id));
        let mut parts: Vec<(PartName, PartUse, Id, bool)> = Vec::new();
        for key in keys() {
            let reported = update_all(&self.host, &key, |records| {
                let one = |record: &mut PartRecord| {
                    let is_leased = record.is_live(now);
                    let used = record.report(self.running(record), now);
                    (record.name.clone(), used, record.id, is_leased)
                };
                Some(records.iter_mut().filter(is_chosen).map(one).collect::<Vec<_>>())
            });
            parts.extend(reported.into_iter().flatten());
        }
        // Of two editions of a schema the part of requests in flight is first.
        parts.sort_by(|(one, used, ..), (other, others, ..)| (one, used.is_rate).cmp(&(other, others.is_rate)));
        let reported = parts.iter().map(|(.., id, is_leased)| (*id, *is_leased)).collect();
        let mut newest = self.newest.borrow_mut();
        (newest.number, newest.written, newest.has_parts, newest.parts) = (number, uptime, !parts.is_empty(), reported);
        newest.leaves_out = chosen.is_some();
        LimitReport { number, parts: parts.into_iter().map(|(name, used, ..)| (name, used)).collect() }
    }

    /// The parts for a report that has no room for all; `None` if there is.
    fn choose(&self, uptime: Duration) -> Option<HashSet<Id>> {
        let mut records: Vec<PartRecord> = keys().flat_map(|key| all(&self.host, &key)).collect();
        records.sort_by(|one, other| one.name.cmp(&other.name));
        let named = records.iter().map(|record| (&record.name, record.need(self.running(record))));
        let chosen = self.room.borrow_mut().choose(&named.collect::<Vec<_>>(), uptime)?;
        Some(records.iter().zip(chosen).filter(|(_, is_chosen)| *is_chosen).map(|(record, _)| record.id).collect())
    }

    /// Applies the answer to the report of that number, as [`crate::global_limit::GlobalLimits::apply`].
    pub fn apply(&self, number: u64, parts: impl IntoIterator<Item = Option<LimitPart>>, uptime: Duration) -> bool {
        let mut newest = self.newest.borrow_mut();
        // Another worker may have reported since.
        if number != newest.number || newest.parts.is_empty() || self.turn().number != number {
            return false;
        }
        let (now, until) = (nanoseconds(uptime), nanoseconds(newest.written.saturating_add(LEASE)));
        let granted = parts.into_iter().chain(std::iter::repeat(None));
        // The lease of a part that was left out ends by itself.
        (newest.lacks_parts, newest.until) = (newest.leaves_out, until);
        let reported = std::mem::take(&mut newest.parts);
        if newest.leaves_out {
            self.leave_out_others(&reported);
        }
        for ((id, was_leased), granted) in reported.iter().zip(granted) {
            // Of a part that has gone since there is nothing to change.
            let is_applied = update(
                &self.host,
                id,
                || None,
                |record| {
                    let is_current = !was_leased || record.is_live(now);
                    if is_current {
                        record.replace(granted, until, now);
                    }
                    is_current
                },
            );
            newest.lacks_parts |= granted.is_none() || is_applied == Some(false);
        }
        true
    }

    fn leave_out_others(&self, reported: &[(Id, bool)]) {
        let reported: HashSet<Id> = reported.iter().map(|(id, _)| *id).collect();
        for key in keys() {
            // One that is not changed has what it had in use until the next answer.
            let _ = update_all(&self.host, &key, |records| {
                records.iter_mut().filter(|one| !reported.contains(&one.id)).for_each(PartRecord::leave_out);
                Some(())
            });
        }
    }

    /// Whether a local limit holds in the place of one that gateways share, as of this worker's last report and its answer. False where
    /// another worker reports.
    pub fn is_degraded(&self, uptime: Duration) -> bool {
        let newest = self.newest.borrow();
        let is_over = newest.lacks_parts || nanoseconds(uptime) >= newest.until;
        newest.has_parts && is_over && self.turn().vm == self.vm
    }

    /// Renews the parts that this worker's configurations name.
    pub fn renew(&self, uptime: Duration) {
        if uptime.saturating_sub(*self.renewed.borrow()) < RENEWAL_INTERVAL {
            return;
        }
        *self.renewed.borrow_mut() = uptime;
        let mut parts = self.parts.borrow_mut();
        parts.retain(|part| part.strong_count() > 0);
        parts.iter().filter_map(Weak::upgrade).for_each(|part| part.renew());
    }

    fn running(&self, record: &PartRecord) -> u32 {
        let PartLevel::Seats(_) = record.level else { return 0 };
        let PartName { cluster, schema } = &record.name;
        permits_of_all(&self.host, &row_id(&self.secret, &[cluster.as_bytes(), schema.as_bytes()]))
    }

    fn turn(&self) -> TurnState {
        self.host.shared(TURN).map(|(value, _)| TurnState::read(&value)).unwrap_or_default()
    }
}

impl TurnState {
    fn read(value: &[u8]) -> Self {
        let (numbers, _) = value.as_chunks();
        match numbers {
            [vm, next, number] => {
                let [vm, next, number] = [vm, next, number].map(|bytes| u64::from_le_bytes(*bytes));
                TurnState { vm, next, number }
            }
            _ => TurnState::default(),
        }
    }

    fn write(self) -> Vec<u8> {
        [self.vm, self.next, self.number].map(u64::to_le_bytes).concat()
    }
}

impl<H: SharedData> HostPart<H> {
    fn new_record(&self) -> PartRecord {
        let level = match &self.local {
            LocalLimit::Seats { .. } => PartLevel::Seats(SeatsLevel::default()),
            LocalLimit::Rate { .. } => PartLevel::Rate(RateLevel::default()),
        };
        PartRecord { id: self.id, name: self.name.clone(), seen: 0, until: 0, level }
    }

    fn change<R>(&self, change: impl Fn(&mut PartRecord) -> R) -> Option<R> {
        update(&self.host, &self.id, || Some(self.new_record()), change)
    }

    fn renew(&self) {
        let _ = self.change(|_| ());
    }

    /// The record; a new one where it is not known.
    fn record(&self) -> PartRecord {
        find(&self.host, &self.id).unwrap_or_else(|| self.new_record())
    }

    fn seats_level(&self) -> (SeatsLevel, PartRecord) {
        let record = self.record();
        let PartLevel::Seats(seats) = record.level else { return (SeatsLevel::default(), record) };
        (seats, record)
    }

    fn acquire_seat(
        &self,
        running: &Arc<InFlight>,
        permits: &Id,
        fallback: FallbackSeats,
        now: u64,
    ) -> Option<InFlightPermit> {
        let (before, record) = self.seats_level();
        let max = before.max(fallback, record.is_live(now));
        let permit = running.acquire(max);
        let of_all = permit.as_ref().map(|_| permits_of_all(&self.host, permits));
        if of_all.map_or(max < fallback.most, |of_all| of_all > before.peak) {
            let _ = self.change(|record| {
                let PartLevel::Seats(seats) = &mut record.level else { return };
                match of_all {
                    Some(of_all) => seats.peak = seats.peak.max(of_all),
                    None => seats.refused = seats.refused.saturating_add(1),
                }
            });
        }
        permit
    }

    fn rate_level(&self) -> (RateLevel, u64) {
        let record = self.record();
        let PartLevel::Rate(rate) = record.level else { return (RateLevel::default(), 0) };
        (rate, record.until)
    }
}

impl<H: SharedData> SharedLimit for HostPart<H> {
    fn acquire(&self, uptime: Duration) -> Result<Option<InFlightPermit>, LimitReached> {
        let now = nanoseconds(uptime);
        match &self.local {
            LocalLimit::Seats { running, permits, fallback } => {
                self.acquire_seat(running, permits, *fallback, now).map(Some).ok_or(LimitReached)
            }
            LocalLimit::Rate(fallback) => {
                let take = |record: &mut PartRecord| match &mut record.level {
                    PartLevel::Rate(rate) => rate.take(*fallback, record.until, now),
                    PartLevel::Seats(_) => false,
                };
                // One that is not counted is refused.
                self.change(take).unwrap_or(false).then_some(None).ok_or(LimitReached)
            }
        }
    }

    fn level(&self, uptime: Duration) -> LimitLevel {
        let now = nanoseconds(uptime);
        match &self.local {
            LocalLimit::Seats { running, fallback, .. } => {
                let (seats, record) = self.seats_level();
                let (used, is_live) = (running.count(), record.is_live(now));
                let is_local = seats.held(is_live).is_none();
                LimitLevel { used, limit: seats.max(*fallback, is_live), rate: 0, is_local, is_shared: true }
            }
            LocalLimit::Rate(fallback) => {
                let (mut level, until) = self.rate_level();
                let held = level.held(until, now);
                let Rate { qps, burst } = held.unwrap_or(fallback.local);
                let used = burst.saturating_sub(level.tokens(*fallback, until, now));
                // Of a rate that is counted a process has tokens only.
                let rate = if qps == 0 { fallback.global_qps } else { qps };
                LimitLevel { used, limit: burst, rate, is_local: held.is_none(), is_shared: true }
            }
        }
    }

    fn seats(&self) -> Option<(u32, u32)> {
        let LocalLimit::Seats { running, fallback, .. } = &self.local else { return None };
        Some((running.count(), self.seats_level().0.last_max(*fallback)))
    }

    fn rate(&self) -> Option<u32> {
        let LocalLimit::Rate(FallbackRate { local, global_qps }) = &self.local else { return None };
        let qps = self.rate_level().0.part.map_or(local.qps, |part| part.qps);
        Some(if qps == 0 { *global_qps } else { qps })
    }
}

//! The parts of limits of all gateways, as all workers share them: each a record with its names, in a fixed number of values that exist
//! before the first worker runs, as those of [`super::table`].

use portcullis_filter_config::limits::{LimitPart, PartUse};

use super::SharedData;
use super::table::{ID_SIZE, Id, MAX_TRIES};
use crate::bucket::Rate;
use crate::global_limit::{FallbackSeats, PartName, PartNeed, RateLevel};

/// Values, and most records of one: more limits have no part.
pub(super) const SHARDS: usize = 64;
const MAX_RECORDS: usize = 256;
/// Seconds after which a record is forgotten that no worker renews.
const RECORD_TTL_SECS: u64 = 60;
const NUMBERS: usize = 14;
/// No part: the local limit holds.
const NONE: u32 = u32::MAX;

/// One part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartRecord {
    pub(super) id: Id,
    pub(super) name: PartName,
    /// Seconds of uptime of its last renewal.
    pub(super) seen: u64,
    /// Nanoseconds of uptime at which its lease ends.
    pub(super) until: u64,
    pub(super) level: PartLevel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartLevel {
    Seats(SeatsLevel),
    Rate(RateLevel),
}

/// The part of a limit of requests in flight: the counterpart of [`crate::global_limit::SeatsPart`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeatsLevel {
    pub(super) quota: u32,
    /// Most requests in flight between the last two reports under a lease.
    pub(super) observed: u32,
    /// Most requests in flight since the last report.
    pub(super) peak: u32,
    /// Requests that were refused since the last report.
    pub(super) refused: u32,
}

impl Default for SeatsLevel {
    fn default() -> Self {
        SeatsLevel { quota: NONE, observed: 0, peak: 0, refused: 0 }
    }
}

impl SeatsLevel {
    /// Most requests in flight.
    pub(super) fn max(&self, fallback: FallbackSeats, is_live: bool) -> u32 {
        fallback.max(self.held(is_live), self.observed)
    }

    /// The same by the newest answer, whether or not its lease has ended.
    pub(super) fn last_max(&self, fallback: FallbackSeats) -> u32 {
        self.held(true).unwrap_or(fallback.local).min(fallback.most)
    }

    /// The part, while it is leased.
    pub(super) fn held(&self, is_live: bool) -> Option<u32> {
        (is_live && self.quota != NONE).then_some(self.quota)
    }

    fn report(&mut self, used: u32, is_live: bool) -> PartUse {
        let peak = self.peak.max(used);
        let wanted = peak.saturating_add(self.refused);
        (self.peak, self.refused) = (used, 0);
        let held = self.held(is_live);
        if let Some(quota) = held {
            self.observed = peak.min(quota);
        }
        PartUse { is_rate: false, is_leased: held.is_some(), held: held.unwrap_or_default(), used, wanted }
    }
}

impl PartRecord {
    pub(super) fn is_live(&self, now: u64) -> bool {
        now < self.until
    }

    /// The need of the part: whether `running` requests are in flight, or some came since the last report.
    pub(super) fn need(&self, running: u32) -> PartNeed {
        match &self.level {
            PartLevel::Seats(seats) => PartNeed::of(running > 0, seats.peak > 0 || seats.refused > 0),
            PartLevel::Rate(rate) => PartNeed::of(false, rate.asked > 0),
        }
    }

    /// The use since the last report; `used` are the requests in flight.
    pub(super) fn report(&mut self, used: u32, now: u64) -> PartUse {
        let is_live = self.is_live(now);
        match &mut self.level {
            PartLevel::Seats(seats) => seats.report(used, is_live),
            PartLevel::Rate(rate) => rate.report(self.until, now),
        }
    }

    /// Changes the part, under a lease until then.
    pub(super) fn replace(&mut self, part: Option<LimitPart>, until: u64, now: u64) {
        match &mut self.level {
            PartLevel::Seats(seats) => seats.quota = part.map_or(NONE, |part| part.quota.min(NONE - 1)),
            PartLevel::Rate(rate) => rate.replace(part, self.until, now),
        }
        self.until = self.until.max(until);
    }

    /// Has the local limit alone hold when the lease ends, as an answered report has no room for it.
    pub(super) fn leave_out(&mut self) {
        match &mut self.level {
            PartLevel::Seats(seats) => seats.observed = 0,
            PartLevel::Rate(rate) => rate.forget_use(),
        }
    }

    fn numbers(&self) -> [u64; NUMBERS] {
        let (seen, until) = (self.seen, self.until);
        match self.level {
            PartLevel::Seats(SeatsLevel { quota, observed, peak, refused }) => {
                let [quota, observed, peak, refused] = [quota, observed, peak, refused].map(u64::from);
                [seen, until, 0, quota, observed, peak, refused, 0, 0, 0, 0, 0, 0, 0]
            }
            PartLevel::Rate(rate) => {
                let RateLevel { tokens, observed, reported, answered, overdue, .. } = rate;
                let [asked, taken] = [rate.asked, rate.taken].map(u64::from);
                // 0 is none, also of the burst.
                let [at, unanswered] = [rate.at, rate.unanswered].map(|it| it.map_or(0, |it| it.saturating_add(1)));
                let (qps, burst) = rate.part.map_or((0, 0), |part| (u64::from(part.qps), u64::from(part.burst) + 1));
                [
                    seen, until, 1, tokens, at, qps, burst, observed, unanswered, asked, taken, reported, answered,
                    overdue,
                ]
            }
        }
    }

    fn of_numbers(id: Id, name: PartName, numbers: [u64; NUMBERS]) -> Self {
        let [seen, until, is_rate, rest @ ..] = numbers;
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let level = if is_rate == 0 {
            let [quota, observed, peak, refused, ..] = rest.map(small);
            PartLevel::Seats(SeatsLevel { quota, observed, peak, refused })
        } else {
            let [tokens, at, qps, burst, observed, unanswered, asked, taken, reported, answered, overdue] = rest;
            let part = burst.checked_sub(1).map(|burst| Rate { qps: small(qps), burst: small(burst) });
            let [at, unanswered] = [at, unanswered].map(|it| it.checked_sub(1));
            let [asked, taken] = [asked, taken].map(small);
            PartLevel::Rate(RateLevel {
                tokens,
                at,
                part,
                observed,
                unanswered,
                asked,
                taken,
                reported,
                answered,
                overdue,
            })
        };
        PartRecord { id, name, seen, until, level }
    }
}

/// The keys of all values.
pub(super) fn keys() -> impl Iterator<Item = Vec<u8>> {
    (0..SHARDS).map(key)
}

fn key(shard: usize) -> Vec<u8> {
    // With the number of numbers: a proxy may run an older filter at the same time.
    format!("portcullis/parts/{NUMBERS}/{shard}").into_bytes()
}

/// All records of one value.
pub(super) fn all(host: &impl SharedData, key: &[u8]) -> Vec<PartRecord> {
    host.shared(key).map(|(value, _)| read(&value)).unwrap_or_default()
}

/// The record of a part, if there is one.
pub(super) fn find(host: &impl SharedData, id: &Id) -> Option<PartRecord> {
    let (value, _) = host.shared(&key_of(id))?;
    read(&value).into_iter().find(|record| record.id == *id)
}

/// Changes the record of a part in one step; `new` makes the one that is missing. `None` if it is not known, or there is no room.
pub(super) fn update<R>(
    host: &impl SharedData,
    id: &Id,
    new: impl Fn() -> Option<PartRecord>,
    change: impl Fn(&mut PartRecord) -> R,
) -> Option<R> {
    let seconds = host.uptime()?.as_secs();
    update_all(host, &key_of(id), |records| {
        let at = match records.iter().position(|record| record.id == *id) {
            Some(at) => at,
            None if records.len() >= MAX_RECORDS => return None,
            None => {
                records.push(new()?);
                records.len().checked_sub(1)?
            }
        };
        let record = records.get_mut(at)?;
        record.seen = seconds;
        Some(change(record))
    })
}

/// Changes all records of one value in one step; those that no worker renews any more are gone. `None` of `change` keeps them.
pub(super) fn update_all<R>(
    host: &impl SharedData,
    key: &[u8],
    change: impl Fn(&mut Vec<PartRecord>) -> Option<R>,
) -> Option<R> {
    let seconds = host.uptime()?.as_secs();
    for _ in 0..MAX_TRIES {
        let (value, cas) = host.shared(key)?;
        let mut records = read(&value);
        records.retain(|record| record.seen.saturating_add(RECORD_TTL_SECS) >= seconds);
        let changed = change(&mut records)?;
        let written = write(&records);
        if written == value || host.set_shared(key, &written, cas) {
            return Some(changed);
        }
    }
    None
}

fn key_of(id: &Id) -> Vec<u8> {
    key(usize::from(id.first().copied().unwrap_or(0)) % SHARDS)
}

fn read(mut value: &[u8]) -> Vec<PartRecord> {
    let mut records = Vec::new();
    while let Some((record, rest)) = read_one(value) {
        records.push(record);
        value = rest;
    }
    records
}

fn read_one(value: &[u8]) -> Option<(PartRecord, &[u8])> {
    let (id, mut value) = value.split_first_chunk::<ID_SIZE>()?;
    let mut numbers = [0; NUMBERS];
    for number in &mut numbers {
        let (bytes, rest) = value.split_first_chunk()?;
        (*number, value) = (u64::from_le_bytes(*bytes), rest);
    }
    let (cluster, value) = read_text(value)?;
    let (schema, value) = read_text(value)?;
    Some((PartRecord::of_numbers(*id, PartName { cluster, schema }, numbers), value))
}

fn read_text(value: &[u8]) -> Option<(String, &[u8])> {
    let (length, value) = value.split_first_chunk()?;
    let (text, rest) = value.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    Some((std::str::from_utf8(text).ok()?.to_owned(), rest))
}

fn write(records: &[PartRecord]) -> Vec<u8> {
    let mut value = Vec::new();
    for record in records {
        // Longer names, which no object has, would be read as others.
        let [Ok(cluster), Ok(schema)] =
            [&record.name.cluster, &record.name.schema].map(|name| u16::try_from(name.len()))
        else {
            continue;
        };
        value.extend_from_slice(&record.id);
        record.numbers().iter().for_each(|number| value.extend_from_slice(&number.to_le_bytes()));
        for (length, name) in [(cluster, &record.name.cluster), (schema, &record.name.schema)] {
            value.extend_from_slice(&length.to_le_bytes());
            value.extend_from_slice(name.as_bytes());
        }
    }
    value
}

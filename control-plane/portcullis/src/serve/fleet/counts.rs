//! The counts of one cluster in one Envoy process, compact: 50 gateways report 1,000 clusters of 100 policies, and each count is
//! kept for several times.

use std::sync::Arc;

use super::rates::Rates;
use crate::activity_report::{ClusterMessage, OTHER, ServerMessage};

/// Buckets of a histogram of durations.
pub(super) const BUCKETS: usize = portcullis_filter_config::activity::LATENCY_BOUNDS.len() + 1;
/// Kinds of answers: none, then 1xx to 5xx.
const ANSWERS: usize = 6;
/// The position of 5xx.
const SERVER_ERRORS: usize = 5;
/// Most counts of one cluster and process; the sums count the others, too.
const MAX_COUNTS: usize = 4_096;
/// Most names of servers, and of schemas, that a process may have used for one cluster.
const MAX_NAMES: usize = 127;

/// The lower half of a count: the difference of two is right as long as it is less than half of the range, and a count that
/// has sunk shows as a larger one.
fn low(count: u64) -> u32 {
    u32::try_from(count & u64::from(u32::MAX)).unwrap_or_default()
}

/// How much a count has grown; none if it has sunk.
fn growth(before: u32, now: u32) -> u32 {
    let growth = now.wrapping_sub(before);
    if growth > u32::MAX / 2 { 0 } else { growth }
}

/// Which count it is. Order and equality are those of the packed number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Forwarded requests of a policy: its number plus one, 0 for none, [`REST`] for the rest.
    Forwarded(u16),
    /// Refused requests of a policy, by the position of the reason.
    Refused(u16, u8),
    /// Answers of the server at this position of [`Names::servers`], by kind.
    Answers(u8, u8),
    /// Answers of that server, by duration.
    Latency(u8, u8),
    /// Requests beyond the limit at this position of [`Names::schemas`].
    Limited(u8),
}

/// The policy that is the rest of a list.
pub(super) const REST: u16 = u16::MAX;

/// The number of a policy, as a report has it.
fn policy(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(REST)
}

impl Key {
    fn pack(self) -> u32 {
        let (kind, one, two) = match self {
            Self::Forwarded(policy) => (0, policy, 0),
            Self::Refused(policy, reason) => (1, policy, reason),
            Self::Answers(server, kind) => (2, u16::from(server), kind),
            Self::Latency(server, bucket) => (3, u16::from(server), bucket),
            Self::Limited(schema) => (4, u16::from(schema), 0),
        };
        (kind << 24) | (u32::from(one) << 8) | u32::from(two)
    }

    fn unpack(packed: u32) -> Self {
        let [kind, high, middle, two] = packed.to_be_bytes();
        let one = u16::from_be_bytes([high, middle]);
        match kind {
            0 => Self::Forwarded(one),
            1 => Self::Refused(one, two),
            2 => Self::Answers(middle, two),
            3 => Self::Latency(middle, two),
            _ => Self::Limited(middle),
        }
    }
}

/// Names of servers and schemas, by position. They are added and never moved.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub(super) servers: Vec<Box<str>>,
    pub(super) schemas: Vec<Box<str>>,
}

impl Names {
    /// Whether there is no room for others: servers were replaced many times.
    pub(super) fn is_full(&self) -> bool {
        self.servers.len() >= MAX_NAMES || self.schemas.len() >= MAX_NAMES
    }

    fn position(names: &mut Vec<Box<str>>, name: &str) -> Option<u8> {
        let known = names.iter().position(|known| **known == *name).or_else(|| {
            let name = if names.len() + 1 < MAX_NAMES { name } else { OTHER };
            names.push(name.into());
            Some(names.len() - 1)
        });
        known.and_then(|position| position.try_into().ok())
    }

    pub(super) fn schema(&mut self, name: &str) -> Option<u8> {
        Self::position(&mut self.schemas, name)
    }

    fn bytes(&self) -> usize {
        self.servers.iter().chain(&self.schemas).map(|name| name.len() + size_of::<Box<str>>()).sum()
    }
}

/// Sums over all policies and servers of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    answers: u32,
    errors: u32,
    refusals: u32,
    latency: [u32; BUCKETS],
}

/// All counts of a cluster at one time.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    sums: Sums,
    /// Packed keys of the counts that are not zero, sorted; the same for several times as a rule. `None` if single counts are not
    /// kept, for want of room.
    keys: Option<Arc<[u32]>>,
    /// In the order of the keys.
    values: Arc<[u32]>,
}

impl Counts {
    /// Before the first request.
    pub(super) fn zero() -> Self {
        Self { keys: Some(Arc::default()), ..Self::default() }
    }

    /// The counts of a report. `reasons` are the positions of its reasons. Without `names` only sums are kept.
    pub(super) fn of(message: &ClusterMessage, reasons: &[u8], mut names: Option<&mut Names>) -> Self {
        let mut builder = Builder { has_room: names.is_some(), ..Builder::default() };
        for one in &message.policies {
            let policy = policy(one.policy);
            builder.add(Key::Forwarded(policy), one.forwarded);
            for (reason, count) in one.reasons.iter().zip(&one.refused) {
                builder.sums.refusals = builder.sums.refusals.wrapping_add(low(*count));
                let reason = usize::try_from(*reason).ok().and_then(|reason| reasons.get(reason));
                reason.into_iter().for_each(|reason| builder.add(Key::Refused(policy, *reason), *count));
            }
        }
        for one in &message.servers {
            let server = names.as_mut().and_then(|names| Names::position(&mut names.servers, &one.server));
            builder.add_server(one, server);
        }
        for one in &message.limits {
            let schema = names.as_mut().and_then(|names| names.schema(&one.schema));
            schema.into_iter().for_each(|schema| builder.add(Key::Limited(schema), one.refused));
        }
        builder.build()
    }

    /// Shares the keys of the counts before, which are the same as a rule.
    pub(super) fn sharing(mut self, before: &Self) -> Self {
        if self.keys == before.keys {
            self.keys.clone_from(&before.keys);
        }
        self
    }

    /// The growth since `base` in a second.
    pub(super) fn rates(&self, base: &Self, seconds: f64) -> Rates {
        let rate = |before, now| f64::from(growth(before, now)) / seconds;
        let mut latency = [0.0; BUCKETS];
        let counts = self.sums.latency.iter().zip(base.sums.latency);
        latency.iter_mut().zip(counts).for_each(|(sum, (now, before))| *sum = rate(before, *now));
        Rates {
            answers: rate(base.sums.answers, self.sums.answers),
            errors: rate(base.sums.errors, self.sums.errors),
            refusals: rate(base.sums.refusals, self.sums.refusals),
            latency,
            ..Rates::default()
        }
    }

    /// The growth of each count since `base` in a second. Nothing if one of the two was kept without single counts.
    pub(super) fn each<'a>(&'a self, base: &'a Self, seconds: f64) -> impl Iterator<Item = (Key, f64)> + 'a {
        let both = self.keys.as_deref().zip(base.keys.as_deref());
        let (keys, before) = both.unwrap_or_default();
        let mut before = before.iter().zip(base.values.iter()).peekable();
        keys.iter().zip(self.values.iter()).map(move |(key, value)| {
            while before.next_if(|(other, _)| *other < key).is_some() {}
            let known = before.next_if(|(other, _)| *other == key).map_or(0, |(_, value)| *value);
            (Key::unpack(*key), f64::from(growth(known, *value)) / seconds)
        })
    }

    /// The memory that it takes beside keys that others share.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.values)
    }

    /// The memory of its keys.
    pub(super) fn key_bytes(&self) -> usize {
        self.keys.as_deref().map_or(0, size_of_val)
    }
}

/// The memory of names.
pub(super) fn name_bytes(names: &Names) -> usize {
    names.bytes()
}

#[derive(Default)]
struct Builder {
    sums: Sums,
    /// Whether single counts are kept.
    has_room: bool,
    counts: Vec<(u32, u32)>,
}

impl Builder {
    fn add(&mut self, key: Key, count: u64) {
        if self.has_room && count > 0 {
            self.counts.push((key.pack(), low(count)));
        }
    }

    fn add_server(&mut self, one: &ServerMessage, server: Option<u8>) {
        for (kind, count) in (0u8..).zip(one.answers.iter().take(ANSWERS)) {
            self.sums.answers = self.sums.answers.wrapping_add(low(*count));
            if kind == 0 || usize::from(kind) == SERVER_ERRORS {
                self.sums.errors = self.sums.errors.wrapping_add(low(*count));
            }
            server.into_iter().for_each(|server| self.add(Key::Answers(server, kind), *count));
        }
        for (bucket, (sum, count)) in (0u8..).zip(self.sums.latency.into_iter().zip(&one.latency)) {
            let sum = sum.wrapping_add(low(*count));
            self.sums.latency.get_mut(usize::from(bucket)).into_iter().for_each(|one| *one = sum);
            server.into_iter().for_each(|server| self.add(Key::Latency(server, bucket), *count));
        }
    }

    fn build(mut self) -> Counts {
        if !self.has_room || self.counts.len() > MAX_COUNTS {
            return Counts { sums: self.sums, ..Counts::default() };
        }
        self.counts.sort_unstable_by_key(|(key, _)| *key);
        // Names that share a position, as those of servers beyond the bound, are counted together.
        self.counts.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 = kept.1.wrapping_add(next.1);
            }
            is_same
        });
        let (keys, values): (Vec<u32>, Vec<u32>) = self.counts.into_iter().unzip();
        Counts { sums: self.sums, keys: Some(keys.into()), values: values.into() }
    }
}

/// Whether an answer of this kind is an error.
pub(super) fn is_error(kind: u8) -> bool {
    kind == 0 || usize::from(kind) == SERVER_ERRORS
}

//! The counts of one cluster in one Envoy process, as a report has them.

use std::sync::Arc;

use super::keys::{CountValues, GATEWAY, Key, NO_SERVER, Names, is_conclusive, is_error, policy};
use crate::activity_report::{ClusterMessage, ServerMessage};

/// Buckets of a histogram of durations.
pub(super) const BUCKETS: usize = portcullis_filter_config::activity::LATENCY_BOUNDS.len() + 1;
/// Kinds of answers: none, then 1xx to 5xx.
const ANSWERS: usize = 6;
/// Most counts of one cluster and process; the sums count the others, too.
const MAX_COUNTS: usize = 4_096;

/// Sums over all policies and servers of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums<T> {
    pub(super) answers: T,
    pub(super) errors: T,
    /// Answers that errors are compared with: [`is_conclusive`].
    pub(super) conclusive: T,
    pub(super) refusals: T,
    pub(super) latency: [T; BUCKETS],
}

/// All counts of a report.
#[derive(Clone, Debug, Default)]
pub(super) struct ReportedCounts {
    pub(super) sums: Sums<u64>,
    /// Packed keys of the counts that are not zero, sorted. `None` if single counts are not kept, for want of room.
    pub(super) keys: Option<Arc<[u32]>>,
    /// In the order of the keys.
    pub(super) values: CountValues,
}

impl ReportedCounts {
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
                builder.sums.refusals = builder.sums.refusals.saturating_add(*count);
                let reason = usize::try_from(*reason).ok().and_then(|reason| reasons.get(reason));
                reason.into_iter().for_each(|reason| builder.add(Key::Refused(policy, *reason), *count));
            }
        }
        for one in &message.servers {
            let server = names.as_mut().and_then(|names| names.server(&one.server));
            builder.add_server(one, server);
        }
        for one in &message.limits {
            let schema = names.as_mut().and_then(|names| names.schema(&one.schema));
            schema.into_iter().for_each(|schema| builder.add(Key::Limited(schema), one.refused));
        }
        builder.build()
    }

    /// Shares the keys of others, if they are the same.
    pub(super) fn share_keys(&mut self, others: &Option<Arc<[u32]>>) {
        if self.keys == *others {
            self.keys.clone_from(others);
        }
    }

    /// The memory that it takes beside its keys.
    pub(super) fn bytes(&self) -> usize {
        self.values.bytes()
    }
}

#[derive(Default)]
struct Builder {
    sums: Sums<u64>,
    /// Whether single counts are kept.
    has_room: bool,
    counts: Vec<(u32, u64)>,
}

impl Builder {
    fn add(&mut self, key: Key, count: u64) {
        if self.has_room && count > 0 {
            self.counts.push((key.pack(), count));
        }
    }

    fn add_server(&mut self, one: &ServerMessage, server: Option<u8>) {
        // The position of a server whose name has no room matters only for whether it is one.
        let origin = if one.server == NO_SERVER { GATEWAY } else { 0 };
        for (kind, count) in (0u8..).zip(one.answers.iter().take(ANSWERS)) {
            self.sums.answers = self.sums.answers.saturating_add(*count);
            if is_error(origin, kind) {
                self.sums.errors = self.sums.errors.saturating_add(*count);
            }
            if is_conclusive(origin, kind) {
                self.sums.conclusive = self.sums.conclusive.saturating_add(*count);
            }
            server.into_iter().for_each(|server| self.add(Key::Answers(server, kind), *count));
        }
        for (bucket, (sum, count)) in (0u8..).zip(self.sums.latency.into_iter().zip(&one.latency)) {
            let sum = sum.saturating_add(*count);
            self.sums.latency.get_mut(usize::from(bucket)).into_iter().for_each(|one| *one = sum);
            server.into_iter().for_each(|server| self.add(Key::Latency(server, bucket), *count));
        }
    }

    fn build(mut self) -> ReportedCounts {
        if !self.has_room || self.counts.len() > MAX_COUNTS {
            return ReportedCounts { sums: self.sums, ..ReportedCounts::default() };
        }
        self.counts.sort_unstable_by_key(|(key, _)| *key);
        // Names that share a position, as those of servers beyond the bound, are counted together.
        self.counts.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            is_same
        });
        let (keys, values): (Vec<u32>, Vec<u64>) = self.counts.into_iter().unzip();
        ReportedCounts { sums: self.sums, keys: Some(keys.into()), values: values.into() }
    }
}

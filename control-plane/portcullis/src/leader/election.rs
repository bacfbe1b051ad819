use std::time::Duration;

/// A moment of this machine's own clock, which is never set.
pub(super) type Moment = Duration;

/// The times of an election. `renew_within` is less than `lease`, so that a leader stops before another may start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// How long a leader's silence is waited out.
    pub(super) lease: Duration,
    /// How long a leader goes on after the last renewal that succeeded.
    renew_within: Duration,
    /// How often it is asked and renewed.
    pub(super) retry: Duration,
    /// Timeout of one request.
    pub(super) request: Duration,
}

impl Timing {
    /// Kubernetes' own for its controllers.
    pub(crate) const CONTROLLER: Self = Self {
        lease: Duration::from_secs(15),
        renew_within: Duration::from_secs(10),
        retry: Duration::from_secs(2),
        request: Duration::from_secs(3),
    };

    /// Those of the replica that divides limits: another one leads before the leases of gateways end, which have three seconds.
    pub(crate) const LIMITS: Self = Self {
        lease: Duration::from_millis(1_300),
        renew_within: Duration::from_millis(900),
        retry: Duration::from_millis(300),
        request: Duration::from_millis(400),
    };

    /// The time after which a leader whose renewal was seen goes on no more, by clocks that are at most two percent askew each.
    fn quiet_after(self) -> Duration {
        self.renew_within.saturating_mul(105) / 100
    }
}

/// A time for which a replica leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tenure {
    /// Greater than that of the time before if another replica may have led in between.
    pub(crate) term: u64,
    /// Its end, if it is not renewed.
    pub(crate) until: Moment,
    /// Since then no other replica acts as the leader.
    pub(crate) alone_since: Moment,
}

/// The content of the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Empty if no replica holds it.
    pub(super) holder: String,
    /// How long its holder's silence is to be waited out, as the holder says.
    pub(super) lease: Duration,
    /// Differs after each renewal; whose clock made it does not matter.
    pub(super) renewal: String,
    /// How often the holder changed.
    pub(super) transitions: i32,
}

/// The new content of the Lease. The store must refuse it if the Lease changed since it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// How often the holder has changed then.
    pub(super) transitions: i32,
    /// Whether another replica held it before, or none.
    pub(super) is_new: bool,
}

/// One candidate.
#[derive(Debug)]
pub(super) struct Election {
    identity: String,
    timing: Timing,
    /// The record that was read last, and when it was new.
    seen: Option<(Record, Moment)>,
    tenure: Option<Tenure>,
    /// Since when others are quiet, once a record was seen that is not this candidate's own.
    quiet_since: Option<Moment>,
    terms: u64,
}

impl Election {
    /// `identity` must be unique among the replicas.
    pub(super) fn new(identity: String, timing: Timing) -> Self {
        Self { identity, timing, seen: None, tenure: None, quiet_since: None, terms: 0 }
    }

    /// Takes the Lease that was read at `now`; returns the Lease to write, if any.
    pub(super) fn observe(&mut self, record: Option<&Record>, now: Moment) -> Option<Claim> {
        let Some(record) = record else {
            self.resign();
            self.quiet_since = Some(now);
            return Some(Claim { transitions: 0, is_new: true });
        };
        let since = match &self.seen {
            Some((seen, since)) if seen == record => *since,
            _ => {
                self.seen = Some((record.clone(), now));
                now
            }
        };
        if record.holder == self.identity {
            return Some(Claim { transitions: record.transitions, is_new: false });
        }
        self.tenure = None;
        let is_free = record.holder.is_empty() || now >= since.saturating_add(self.silence(record));
        self.quiet_since = is_free.then(|| self.quiet(record, since, now));
        is_free.then(|| Claim { transitions: record.transitions.saturating_add(1), is_new: true })
    }

    /// How long the holder's silence is to be waited out.
    fn silence(&self, record: &Record) -> Duration {
        record.lease.max(self.timing.lease)
    }

    /// Since when the holder of a record that is free acts as the leader no more.
    fn quiet(&self, record: &Record, since: Moment, now: Moment) -> Moment {
        // A holder stops before it gives the Lease up.
        let after = if record.holder.is_empty() { Duration::ZERO } else { self.timing.quiet_after() };
        // One with longer times goes on for longer.
        if record.lease > self.timing.lease { now } else { since.saturating_add(after).min(now) }
    }

    /// The time left until the Lease is free, if nothing else happens.
    pub(super) fn free_in(&self, now: Moment) -> Option<Duration> {
        let (record, since) = self.seen.as_ref().filter(|(record, _)| record.holder != self.identity)?;
        Some(since.saturating_add(self.silence(record)).saturating_sub(now))
    }

    /// The write that was sent at `sent` succeeded.
    pub(super) fn written(&mut self, sent: Moment) {
        let until = sent.saturating_add(self.timing.renew_within);
        let tenure = match (self.tenure, self.quiet_since.take()) {
            (Some(tenure), None) => Tenure { until, ..tenure },
            (_, quiet_since) => {
                self.terms = self.terms.saturating_add(1);
                Tenure { term: self.terms, until, alone_since: quiet_since.unwrap_or(sent) }
            }
        };
        self.tenure = Some(tenure);
    }

    /// The time for which this candidate leads. It may be over.
    pub(super) fn tenure(&self) -> Option<Tenure> {
        self.tenure
    }

    /// Leads no more, and begins anew with what is read next.
    pub(super) fn resign(&mut self) {
        (self.seen, self.tenure) = (None, None);
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

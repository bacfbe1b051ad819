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
    /// Since when no Lease is there, after one that was read.
    gone_since: Option<Moment>,
    /// Renewals that were sent and may be in the Lease, and when they were sent: those that would still count.
    unanswered: Vec<(String, Moment)>,
    tenure: Option<Tenure>,
    /// Since when others are quiet, once a record was seen that is not this candidate's own.
    quiet_since: Option<Moment>,
    terms: u64,
}

impl Election {
    /// `identity` must be unique among the replicas.
    pub(super) fn new(identity: String, timing: Timing) -> Self {
        Self {
            identity,
            timing,
            seen: None,
            gone_since: None,
            unanswered: Vec::new(),
            tenure: None,
            quiet_since: None,
            terms: 0,
        }
    }

    /// Takes the Lease that was read at `now`; returns the Lease to write, if any.
    pub(super) fn observe(&mut self, record: Option<&Record>, now: Moment) -> Option<Claim> {
        let Some(record) = record else { return self.vanished(now) };
        let was_gone = self.gone_since.take().is_some();
        let since = match &self.seen {
            Some((seen, since)) if seen == record && !was_gone => *since,
            _ => {
                self.seen = Some((record.clone(), now));
                now
            }
        };
        if record.holder == self.identity {
            self.proven(&record.renewal);
            return Some(Claim { transitions: record.transitions, is_new: false });
        }
        self.tenure = None;
        self.unanswered.clear();
        let is_free = record.holder.is_empty() || now >= since.saturating_add(self.silence(record));
        // A holder stops before it gives the Lease up.
        let after = if record.holder.is_empty() { Duration::ZERO } else { self.timing.quiet_after() };
        self.quiet_since = is_free.then(|| self.quiet(record, since.saturating_add(after), now));
        is_free.then(|| Claim { transitions: record.transitions.saturating_add(1), is_new: true })
    }

    /// Takes that there is no Lease. If there was one, its last holder may act as the leader still, and may have renewed it since this
    /// candidate read it.
    fn vanished(&mut self, now: Moment) -> Option<Claim> {
        let leads = self.tenure.is_some_and(|tenure| now < tenure.until);
        self.tenure = None;
        self.unanswered.clear();
        let claim = Claim { transitions: 0, is_new: true };
        let Some((record, _)) = self.seen.as_ref().filter(|_| !leads) else {
            self.resign();
            self.quiet_since = Some(now);
            return Some(claim);
        };
        let since = *self.gone_since.get_or_insert(now);
        let is_free = now >= since.saturating_add(self.silence(record));
        self.quiet_since = is_free.then(|| self.quiet(record, since.saturating_add(self.timing.quiet_after()), now));
        is_free.then_some(claim)
    }

    /// How long the holder's silence is to be waited out.
    fn silence(&self, record: &Record) -> Duration {
        record.lease.max(self.timing.lease)
    }

    /// Since when the holder of a record that is free acts as the leader no more; `stopped` if its times are no longer than these.
    fn quiet(&self, record: &Record, stopped: Moment, now: Moment) -> Moment {
        if record.lease > self.timing.lease { now } else { stopped.min(now) }
    }

    /// The time left until the Lease is free, if nothing else happens.
    pub(super) fn free_in(&self, now: Moment) -> Option<Duration> {
        let (record, seen) = self.seen.as_ref()?;
        if self.gone_since.is_none() && record.holder == self.identity {
            return None;
        }
        let since = self.gone_since.unwrap_or(*seen);
        Some(since.saturating_add(self.silence(record)).saturating_sub(now))
    }

    /// A write with this renewal is sent at `sent`.
    pub(super) fn sends(&mut self, renewal: String, sent: Moment) {
        self.unanswered.retain(|(_, before)| sent < before.saturating_add(self.timing.renew_within));
        self.unanswered.push((renewal, sent));
    }

    /// This candidate has the Lease by that renewal: a write without an answer succeeded, if it is one of those.
    fn proven(&mut self, renewal: &str) {
        if let Some(&(_, sent)) = self.unanswered.iter().find(|(unanswered, _)| unanswered == renewal) {
            self.written(sent);
        }
    }

    /// The write that was sent at `sent` was refused, as the Lease is another one than that which was read. Without a write of this
    /// candidate that may have made it so another one did, and this one leads no more.
    pub(super) fn refused(&mut self, sent: Moment) {
        self.unanswered.retain(|(_, unanswered)| *unanswered != sent);
        if self.unanswered.is_empty() {
            self.tenure = None;
        }
    }

    /// The write that was sent at `sent` succeeded.
    pub(super) fn written(&mut self, sent: Moment) {
        self.unanswered.retain(|(_, later)| *later > sent);
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
        (self.seen, self.gone_since, self.tenure) = (None, None, None);
        self.unanswered.clear();
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

use std::time::Duration;

/// A moment of this machine's own clock, which is never set.
pub(super) type Moment = Duration;

/// The times of an election. `renew_within` is less than `lease`, so that a leader stops before another may start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// How long a leader's silence is waited out.
    pub(super) lease: Duration,
    /// How long a leader goes on after the last renewal that succeeded.
    renew_within: Duration,
    /// How often it is asked and renewed.
    pub(super) retry: Duration,
}

impl Timing {
    /// Kubernetes' own for its controllers.
    pub(super) const DEFAULT: Self =
        Self { lease: Duration::from_secs(15), renew_within: Duration::from_secs(10), retry: Duration::from_secs(2) };
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
    leads_until: Option<Moment>,
}

impl Election {
    /// `identity` must be unique among the replicas.
    pub(super) fn new(identity: String, timing: Timing) -> Self {
        Self { identity, timing, seen: None, leads_until: None }
    }

    /// Takes the Lease that was read at `now`; returns the Lease to write, if any.
    pub(super) fn observe(&mut self, record: Option<&Record>, now: Moment) -> Option<Claim> {
        let Some(record) = record else {
            self.seen = None;
            self.leads_until = None;
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
        self.leads_until = None;
        let silence = record.lease.max(self.timing.lease);
        let is_free = record.holder.is_empty() || now >= since.saturating_add(silence);
        is_free.then(|| Claim { transitions: record.transitions.saturating_add(1), is_new: true })
    }

    /// The write that was sent at `sent` succeeded.
    pub(super) fn written(&mut self, sent: Moment) {
        self.leads_until = Some(sent.saturating_add(self.timing.renew_within));
    }

    /// Until when this candidate leads, if nothing else happens.
    pub(super) fn leads_until(&self) -> Option<Moment> {
        self.leads_until
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

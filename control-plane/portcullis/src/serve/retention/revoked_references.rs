use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_api::{ReferencedData, resolve};
use serde_json::Value;

use super::Documents;

/// The grace period of [`RevokedReferences`] unless the operator sets another.
pub(in super::super) const DEFAULT_GRACE_PERIOD: Duration = Duration::from_secs(24 * 60 * 60);

/// Objects whose version that was accepted last refers to a Secret or file that does not exist any more.
///
/// It may have been deleted by mistake, and then the cluster should go on; or to take its keys out of use, and then they
/// must not stay in use for ever. A grace period serves both.
#[derive(Debug)]
pub(super) struct RevokedReferences {
    grace_period: Duration,
    /// Documents that were accepted last, as they were written.
    written: BTreeMap<String, Arc<Value>>,
    since: BTreeMap<String, Instant>,
}

/// The grace period of the version of an object that was accepted last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Grace {
    /// No reference of the version is revoked.
    NotNeeded,
    /// A reference is revoked; the version is served until the period is over.
    Running,
    /// The period is over; the version is served no longer.
    Over,
}

impl Default for RevokedReferences {
    fn default() -> Self {
        Self::new(DEFAULT_GRACE_PERIOD)
    }
}

impl RevokedReferences {
    pub(super) fn new(grace_period: Duration) -> Self {
        Self { grace_period, written: Documents::new(), since: BTreeMap::new() }
    }

    /// The grace period of an object whose newest version is invalid. The first call that finds a revoked reference starts it.
    pub(super) fn grace(&mut self, name: &str, referenced_data: &ReferencedData, now: Instant) -> Grace {
        let is_whole =
            self.written.get(name).is_none_or(|written| resolve(written, referenced_data).problems.is_empty());
        if is_whole {
            self.since.remove(name);
            return Grace::NotNeeded;
        }
        let since = *self.since.entry(name.to_owned()).or_insert(now);
        if now.saturating_duration_since(since) < self.grace_period { Grace::Running } else { Grace::Over }
    }

    /// Records the documents, as they were written, whose newest version is accepted, as far as they may be other ones than before,
    /// and forgets objects that are served no longer.
    pub(super) fn record(&mut self, newest: Documents, gone: &[String]) {
        for (name, document) in newest {
            self.since.remove(&name);
            self.written.insert(name, document);
        }
        for name in gone {
            self.written.remove(name);
            self.since.remove(name);
        }
    }

    /// The number of objects whose grace period runs.
    pub(super) fn count(&self) -> usize {
        self.since.len()
    }

    /// The end of the next grace period.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.since.values().filter_map(|since| since.checked_add(self.grace_period)).min()
    }
}

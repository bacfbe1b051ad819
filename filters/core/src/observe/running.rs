//! Requests that are running.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::verb::{ReportedVerb, Scope};

/// Combinations of labels of long-running requests of one cluster that count apart.
const MAX_LONG_RUNNING: usize = 1_024;

/// A cluster's running requests, whatever configuration they began under.
#[derive(Debug, Default)]
pub struct RunningRequests {
    read_only: AtomicU32,
    mutating: AtomicU32,
    long_running: Mutex<HashMap<LongRunningKey, Arc<AtomicU32>>>,
}

/// The labels of long-running requests: as texts, because the numbers of resources are those of one configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LongRunningKey {
    pub(super) verb: ReportedVerb,
    pub(super) resource: Box<str>,
    pub(super) subresource: Box<str>,
    pub(super) scope: Scope,
}

/// A running request; not running any more when it is dropped, however it ends.
#[derive(Debug)]
pub(crate) enum RunningRequest {
    /// It reads, and ends by itself.
    ReadOnly(Arc<RunningRequests>),
    /// It writes.
    Mutating(Arc<RunningRequests>),
    /// It runs until one of its ends leaves.
    Long(Arc<AtomicU32>),
}

impl RunningRequests {
    /// A request that ends by itself has begun.
    pub(super) fn start(self: &Arc<Self>, verb: ReportedVerb) -> RunningRequest {
        let running = match verb {
            ReportedVerb::Get | ReportedVerb::List | ReportedVerb::Watch => RunningRequest::ReadOnly(Arc::clone(self)),
            _ => RunningRequest::Mutating(Arc::clone(self)),
        };
        running.count().fetch_add(1, Ordering::Relaxed);
        running
    }

    /// A long-running request has begun. `admits` says whether there is room for labels of which none is running.
    pub(super) fn start_long(
        &self,
        key: LongRunningKey,
        admits: impl FnOnce(&LongRunningKey) -> bool,
    ) -> RunningRequest {
        let mut known = self.long_running.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = known.contains_key(&key) || known.len() < MAX_LONG_RUNNING && admits(&key);
        let key = if has_room { key } else { key.rest() };
        let running = RunningRequest::Long(Arc::clone(known.entry(key).or_default()));
        running.count().fetch_add(1, Ordering::Relaxed);
        running
    }

    /// Running requests that read and that write.
    pub(super) fn by_kind(&self) -> [(&'static str, u32); 2] {
        [("readOnly", self.read_only.load(Ordering::Relaxed)), ("mutating", self.mutating.load(Ordering::Relaxed))]
    }

    /// Watches, and other long-running requests.
    pub(super) fn watches_and_sessions(&self) -> (u32, u32) {
        let (watches, sessions): (Vec<_>, Vec<_>) =
            self.long_running().into_iter().partition(|(key, _)| key.verb == ReportedVerb::Watch);
        let sum = |of: &[(LongRunningKey, u32)]| of.iter().map(|(_, count)| *count).fold(0, u32::saturating_add);
        (sum(&watches), sum(&sessions))
    }

    /// Long-running requests.
    pub(super) fn long_running(&self) -> Vec<(LongRunningKey, u32)> {
        let mut known = self.long_running.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, count| Arc::strong_count(count) > 1);
        known.iter().map(|(key, count)| (key.clone(), count.load(Ordering::Relaxed))).collect()
    }
}

impl LongRunningKey {
    /// The labels of what has no room of its own.
    fn rest(self) -> Self {
        LongRunningKey { resource: "other".into(), subresource: "".into(), scope: Scope::None, ..self }
    }
}

impl RunningRequest {
    fn count(&self) -> &AtomicU32 {
        match self {
            RunningRequest::ReadOnly(running) => &running.read_only,
            RunningRequest::Mutating(running) => &running.mutating,
            RunningRequest::Long(count) => count,
        }
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.count().fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(resource: &str) -> LongRunningKey {
        let (verb, scope) = (ReportedVerb::Watch, Scope::Cluster);
        LongRunningKey { verb, resource: resource.into(), subresource: "".into(), scope }
    }

    #[test]
    fn requests_run_until_they_are_dropped() {
        let running = Arc::new(RunningRequests::default());
        let reads = [ReportedVerb::Get, ReportedVerb::List].map(|verb| running.start(verb));
        let write = running.start(ReportedVerb::Patch);
        let watches = ["pods", "pods", "nodes"].map(|resource| running.start_long(watch(resource), |_| true));
        assert_eq!(running.by_kind(), [("readOnly", 2), ("mutating", 1)]);
        let counts: HashMap<_, _> = running.long_running().into_iter().collect();
        assert_eq!((counts[&watch("pods")], counts[&watch("nodes")]), (2, 1));
        let exec = running.start_long(LongRunningKey { verb: ReportedVerb::Connect, ..watch("pods") }, |_| true);
        assert_eq!(running.watches_and_sessions(), (3, 1));
        drop(exec);
        drop((reads, write, watches));
        assert_eq!(running.by_kind(), [("readOnly", 0), ("mutating", 0)]);
        assert!(running.long_running().is_empty());
    }

    #[test]
    fn long_running_requests_of_too_many_kinds_count_together() {
        let running = RunningRequests::default();
        let start = |n: usize| running.start_long(watch(&format!("r{n}")), |_| n >= 100);
        let _watches: Vec<_> = (0..2_000).map(start).collect();
        let counts: HashMap<_, _> = running.long_running().into_iter().collect();
        assert_eq!(counts.len(), MAX_LONG_RUNNING);
        assert_eq!((counts[&watch("r100")], counts[&watch("other").rest()]), (1, 2_000 - 1_023));
    }
}

//! The state of the source during outages: whether the objects are current, the reason, and the pauses between attempts.

use std::time::{Duration, SystemTime};

use kube::runtime::watcher;
use ring::rand::{SecureRandom, SystemRandom};

/// Whether what a source yields is current.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceHealth {
    /// Since when it is not, if it is not: the last set stays in use. At a start, since then.
    pub stale_since: Option<SystemTime>,
    /// Why, for people. No secret is in it.
    pub reason: Option<String>,
}

impl SourceHealth {
    /// The known objects are current.
    pub fn current() -> Self {
        Self::default()
    }

    /// The known objects may be old.
    pub fn stale(since: SystemTime, reason: impl Into<String>) -> Self {
        Self { stale_since: Some(since), reason: Some(reason.into()) }
    }
}

/// Why the API did not answer as it should, for people. Only what the server says of a refusal is quoted: the text of
/// other errors may hold a piece of an answer, and answers hold keys.
pub(super) fn reason(what: &str, error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 404 => {
            format!("{what}: 404, is the definition there? (portcullis crd)")
        }
        kube::Error::Api(status) => format!("{what}: {} {}", status.code, status.message),
        kube::Error::Auth(_) => format!("{what}: the credential cannot be read"),
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => format!("{what}: the answer cannot be read"),
        _ => format!("{what}: no connection"),
    }
}

/// As the reason of a failed request, of a failed watch of `what`.
pub fn watch_reason(what: &str, error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => reason(what, error),
        watcher::Error::WatchError(status) => format!("{what}: {} {}", status.code, status.message),
        watcher::Error::NoResourceVersion => format!("{what}: the answer cannot be read"),
    }
}

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(10);

/// How long to wait before the next try: doubled each time, and then between half and all of it by chance, so that
/// replicas do not come back in step.
#[derive(Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Begins anew, after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// How long to wait now.
    pub fn pause(&mut self) -> Duration {
        let mut bytes = [0; 8];
        // Without randomness replicas come back in step, which is no reason to stop.
        let _ = SystemRandom::new().fill(&mut bytes);
        self.next(u64::from_le_bytes(bytes))
    }

    /// `chance` is any number.
    fn next(&mut self, chance: u64) -> Duration {
        let whole = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let half = whole / 2;
        half + half.mul_f64((chance % 1024) as f64 / 1024.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_are_spread() {
        for (chance, share) in [(0, 0.5), (512, 0.75), (1024, 0.5)] {
            let mut backoff = Backoff::default();
            let waits: Vec<Duration> = (0..70).map(|_| backoff.next(chance)).collect();
            assert_eq!(waits[0], FIRST.mul_f64(share));
            assert_eq!(waits[1], waits[0] * 2);
            assert_eq!(waits[69], LONGEST.mul_f64(share));
            backoff.reset();
            assert_eq!(backoff.next(chance), waits[0]);
        }
    }
}

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use super::StreamRegistry;
use crate::moment::Moment;
use crate::stream_origin::StreamOrigin;

/// The part of an edition that denies senders.
pub trait StreamJudge: Debug + Send + Sync {
    /// Digest of all that [`StreamJudge::denies`] depends on but the time.
    fn digest(&self) -> &[u8];

    /// Whether a request that runs would be denied now, in seconds since 1970.
    fn denies(&self, origin: &StreamOrigin, now: u64) -> bool;
}

/// The judge of the edition in use, and the streams that it has denied.
#[derive(Debug, Default)]
pub(super) struct Judged {
    judge: Option<Arc<dyn StreamJudge>>,
    edition: u64,
    /// The greatest edition that was ever in use.
    latest: u64,
    denied: BTreeSet<u64>,
}

impl Judged {
    pub(super) fn deny(&mut self, number: u64) {
        self.denied.insert(number);
    }

    pub(super) fn forget(&mut self, number: u64) {
        self.denied.remove(&number);
    }

    pub(super) fn take_denied(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.denied).into_iter().collect()
    }

    /// Takes the judge of an edition that comes into use. False if it denies what the one before denied.
    fn replace(&mut self, judge: Arc<dyn StreamJudge>, edition: u64) -> bool {
        let is_other = self.judge.as_ref().is_none_or(|before| before.digest() != judge.digest());
        self.judge = Some(judge);
        self.edition = edition;
        self.latest = self.latest.max(edition);
        is_other
    }

    /// The judge of a stream that began under an edition and is registered only now, if another edition is in use. One that has not
    /// come into use yet has judged the stream already.
    pub(super) fn judge_of(&self, edition: u64) -> Option<Arc<dyn StreamJudge>> {
        self.judge.clone().filter(|_| edition != self.edition && edition <= self.latest)
    }
}

impl<T> StreamRegistry<T> {
    /// Judges the streams that run by an edition that comes into use, and those that began under an earlier one when they are
    /// registered. Returns when [`StreamRegistry::expire`] has to be called because of it, if at all.
    pub(crate) fn judge(&self, judge: &Arc<dyn StreamJudge>, edition: u64, now: Moment) -> Option<Duration> {
        let running: Vec<(u64, Arc<StreamOrigin>)> = {
            let mut inner = self.lock();
            if !inner.judged.replace(Arc::clone(judge), edition) {
                return None;
            }
            let latest = inner.judged.latest;
            let began = inner.streams.iter().filter(|(_, stream)| stream.edition <= latest);
            began.filter_map(|(number, stream)| Some((*number, Arc::clone(stream.origin.as_ref()?)))).collect()
        };
        // Without the lock: workers register streams meanwhile.
        let is_denied = |origin: &StreamOrigin| judge.denies(origin, now.now.as_secs());
        let denied: Vec<u64> =
            running.iter().filter(|(_, origin)| is_denied(origin)).map(|(number, _)| *number).collect();
        let mut inner = self.lock();
        for number in &denied {
            if inner.streams.contains_key(number) {
                inner.judged.deny(*number);
            }
        }
        (!denied.is_empty()).then_some(now.uptime)
    }
}

#[cfg(test)]
#[path = "denied_tests.rs"]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use super::StreamRegistry;
use crate::moment::Moment;
use crate::stream_origin::StreamOrigin;

/// Streams that are judged at a time: other tasks of the same thread wait no longer.
const SLICE: usize = 256;

/// The part of an edition that denies senders.
pub trait StreamJudge: Debug + Send + Sync {
    /// Digest of all that [`StreamJudge::denies`] depends on but the time.
    fn digest(&self) -> &[u8];

    /// Whether a request that runs would be denied now, in seconds since 1970. `None` if the edition is gone.
    fn denies(&self, origin: &StreamOrigin, now: u64) -> Option<bool>;
}

/// The judge of the edition in use, and the streams that it has denied.
#[derive(Debug, Default)]
pub(super) struct Judged {
    judge: Option<Arc<dyn StreamJudge>>,
    edition: u64,
    /// The greatest edition that was ever in use.
    latest: u64,
    /// The time of day at which it came into use, in seconds since 1970.
    since: u64,
    /// Streams that are yet to be judged.
    waiting: Vec<(u64, Arc<StreamOrigin>)>,
    /// A stream could not be judged when it was registered.
    has_missed: bool,
    denied: BTreeSet<u64>,
}

impl Judged {
    pub(super) fn deny(&mut self, number: u64) {
        self.denied.insert(number);
    }

    pub(super) fn miss(&mut self) {
        self.has_missed = true;
    }

    pub(super) fn forget(&mut self, number: u64) {
        self.denied.remove(&number);
    }

    pub(super) fn take_denied(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.denied).into_iter().collect()
    }

    /// Whether streams are yet to be judged.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes the judge of an edition that comes into use. False if it denies what the one before denied.
    fn replace(&mut self, judge: Arc<dyn StreamJudge>, edition: u64, now: u64) -> bool {
        let is_other = self.judge.as_ref().is_none_or(|before| before.digest() != judge.digest());
        self.judge = Some(judge);
        self.edition = edition;
        self.latest = self.latest.max(edition);
        self.since = now;
        is_other || std::mem::take(&mut self.has_missed)
    }

    /// The judge of a stream that began under an edition and is registered only now, if another edition is in use. One that has not
    /// come into use yet has judged the stream already.
    pub(super) fn judge_of(&self, edition: u64) -> Option<Arc<dyn StreamJudge>> {
        self.judge.clone().filter(|_| edition != self.edition && edition <= self.latest)
    }
}

impl<T> StreamRegistry<T> {
    /// Has the streams that run judged by an edition that comes into use, and those that began under an earlier one when they are
    /// registered. Returns when [`StreamRegistry::expire`] has to be called because of it, if at all.
    pub(crate) fn judge(&self, judge: &Arc<dyn StreamJudge>, edition: u64, now: Moment) -> Option<Duration> {
        let mut inner = self.lock();
        if !inner.judged.replace(Arc::clone(judge), edition, now.now.as_secs()) {
            return None;
        }
        let latest = inner.judged.latest;
        let began = inner.streams.iter().filter(|(_, stream)| stream.edition <= latest);
        let waiting: Vec<_> =
            began.filter_map(|(number, stream)| Some((*number, Arc::clone(stream.origin.as_ref()?)))).collect();
        inner.judged.waiting = waiting;
        inner.judged.is_waiting().then_some(now.uptime)
    }

    /// Judges some of the streams that wait for it, without the lock: workers register streams meanwhile.
    pub(super) fn judge_some(&self) {
        let (judge, now, waiting) = {
            let judged = &mut self.lock().judged;
            let Some(judge) = judged.judge.clone().filter(|_| judged.is_waiting()) else { return };
            let rest = judged.waiting.len().saturating_sub(SLICE);
            (judge, judged.since, judged.waiting.split_off(rest))
        };
        let verdicts: Vec<_> = waiting.iter().map(|(number, origin)| (*number, judge.denies(origin, now))).collect();
        let mut inner = self.lock();
        for (number, verdict) in verdicts {
            match verdict {
                None => inner.judged.miss(),
                Some(true) if inner.streams.contains_key(&number) => inner.judged.deny(number),
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
#[path = "denied_tests.rs"]
mod tests;

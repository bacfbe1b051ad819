use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use super::{RegisteredStream, StreamRegistry};
use crate::moment::Moment;
use crate::stream_origin::StreamOrigin;

/// Streams that are judged at a time: other tasks of the same thread wait no longer.
const SLICE: usize = 256;

/// The part of an edition that denies senders.
pub trait StreamJudge: Debug + Send + Sync {
    /// Digest of all that [`StreamJudge::denies`] depends on but the time, and of the streams that it concerns.
    fn digest(&self) -> &[u8];

    /// Whether a request that runs would be denied now, in seconds since 1970. `None` if the edition is gone.
    fn denies(&self, origin: &StreamOrigin, now: u64) -> Option<bool>;

    /// The variant of the configuration that the edition is of.
    fn variant(&self) -> &str {
        ""
    }

    /// Whether the edition is gone.
    fn is_gone(&self) -> bool {
        false
    }

    /// Whether the edition denies for a stream that began under a variant.
    fn concerns(&self, _variant: &str, _origin: &StreamOrigin) -> bool {
        true
    }
}

/// The judges of the editions in use, and the streams that they have denied.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// By variant.
    judges: BTreeMap<Box<str>, JudgeInUse>,
    /// Streams that are yet to be judged, by their numbers and the judge's variant.
    waiting: BTreeMap<(u64, Box<str>), WaitingStream>,
    /// A stream could not be judged when it was registered.
    has_missed: bool,
    denied: BTreeSet<u64>,
}

#[derive(Debug)]
struct JudgeInUse {
    judge: Arc<dyn StreamJudge>,
    edition: u64,
    /// The greatest edition of the variant that was ever in use.
    latest: u64,
}

#[derive(Debug)]
struct WaitingStream {
    judge: Arc<dyn StreamJudge>,
    /// The time of day at which the judge came into use, in seconds since 1970.
    since: u64,
    origin: Arc<StreamOrigin>,
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

    /// Takes the judge of an edition that comes into use. Returns the greatest edition of its variant that was in use, or none if it
    /// denies what the one before denied.
    fn replace(&mut self, judge: &Arc<dyn StreamJudge>, edition: u64) -> Option<u64> {
        // Tenants make routes, and with them variants.
        self.judges.retain(|variant, one| variant.is_empty() || !one.judge.is_gone());
        let before = self.judges.get(judge.variant());
        let is_other = before.is_none_or(|before| before.judge.digest() != judge.digest());
        let latest = before.map_or(edition, |before| before.latest.max(edition));
        self.judges.insert(judge.variant().into(), JudgeInUse { judge: Arc::clone(judge), edition, latest });
        (is_other || std::mem::take(&mut self.has_missed)).then_some(latest)
    }

    /// The judges of a stream that began under an edition and is registered only now, if another edition is in use: those of its own
    /// variant, and of the cluster's own configuration, whose denials all variants have. One that has not come into use yet has judged
    /// the stream already.
    pub(super) fn judges_of(&self, variant: &str, edition: u64) -> Vec<Arc<dyn StreamJudge>> {
        let own = self.judges.get(variant);
        let of_cluster = self.judges.get("").filter(|_| !variant.is_empty());
        let is_newer = |one: &&JudgeInUse| edition != one.edition && edition <= one.latest;
        own.into_iter().chain(of_cluster).filter(is_newer).map(|one| Arc::clone(&one.judge)).collect()
    }
}

impl<T> StreamRegistry<T> {
    /// Has the streams that run judged by an edition that comes into use, and those that began under an earlier one when they are
    /// registered. Returns when [`StreamRegistry::expire`] has to be called because of it, if at all.
    pub(crate) fn judge(&self, judge: &Arc<dyn StreamJudge>, edition: u64, now: Moment) -> Option<Duration> {
        let mut inner = self.lock();
        let latest = inner.judged.replace(judge, edition)?;
        let variant = judge.variant();
        // Of another variant each is judged by this one for the first time.
        let began = |stream: &RegisteredStream<T>| stream.edition <= latest || *stream.variant != *variant;
        let mut waiting = std::mem::take(&mut inner.judged.waiting);
        for (number, stream) in &inner.streams {
            let Some(origin) = stream.origin.as_ref().filter(|_| began(stream)) else { continue };
            if judge.concerns(&stream.variant, origin) {
                let (judge, origin) = (Arc::clone(judge), Arc::clone(origin));
                let stream = WaitingStream { judge, since: now.now.as_secs(), origin };
                waiting.insert((*number, variant.into()), stream);
            }
        }
        inner.judged.waiting = waiting;
        inner.judged.is_waiting().then_some(now.uptime)
    }

    /// Judges some of the streams that wait for it, without the lock: workers register streams meanwhile.
    pub(super) fn judge_some(&self) {
        let waiting: Vec<_> = {
            let waiting = &mut self.lock().judged.waiting;
            std::iter::from_fn(|| waiting.pop_last()).take(SLICE).collect()
        };
        if waiting.is_empty() {
            return;
        }
        let verdict =
            |((number, _), one): ((u64, Box<str>), WaitingStream)| (number, one.judge.denies(&one.origin, one.since));
        let verdicts: Vec<_> = waiting.into_iter().map(verdict).collect();
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

//! Streams that run, judged by denials that come into use, and by those that came into use before they were registered.

use std::sync::Arc;
use std::time::Duration;

use super::denied::{ComingDenials, LateJudge, WaitingStream};
use super::{RegisteredStream, RegistryState, StreamJudge, StreamRegistry};
use crate::moment::Moment;
use crate::stream_origin::StreamOrigin;

/// Streams that are judged at a time: other tasks of the same thread wait no longer.
const SLICE: usize = 256;

/// A stream that runs, as far as a judge looks at it.
struct RunningStream {
    number: u64,
    variant: Arc<str>,
    received: Duration,
    origin: Arc<StreamOrigin>,
}

impl<T> StreamRegistry<T> {
    /// Has the streams that run judged by a load of an edition that comes into use, and those that began under an earlier one when they
    /// are registered. Returns when [`StreamRegistry::expire`] has to be called because of it, if at all. One thread at a time calls it.
    pub(crate) fn judge(&self, judge: &Arc<dyn StreamJudge>, edition: u64, load: u64, now: Moment) -> Option<Duration> {
        let variant: Arc<str> = judge.variant().into();
        let (begun, coming) = {
            let mut inner = self.lock();
            // First: streams that are registered from now on are judged then.
            let coming = inner.judged.replace(judge, edition, load, now.uptime);
            let begun = match coming {
                ComingDenials::New { .. } => inner.begun_before(load),
                ComingDenials::Known { load: known } => inner.begun_between(known, load, &variant),
            };
            (begun, coming)
        };
        // Without the lock: workers register streams meanwhile, and tenants give a variant many host names.
        let is_known = matches!(coming, ComingDenials::Known { .. });
        let was_away = |stream: &RunningStream| variant.is_empty() || judge.owns(&stream.origin);
        if is_known && !begun.iter().any(was_away) {
            return None;
        }
        let is_before = |stream: &RunningStream| match coming {
            // As [`Judged::judges_of`] does with those that are registered from now on.
            ComingDenials::New { since } => stream.received <= since || judge.owns(&stream.origin),
            ComingDenials::Known { .. } => true,
        };
        let is_concerned = |stream: &RunningStream| {
            let has_denials = variant.is_empty() || stream.variant == variant;
            has_denials || (judge.concerns(&stream.variant, &stream.origin) && is_before(stream))
        };
        let since = now.now.as_secs();
        let concerned = begun.into_iter().filter(is_concerned);
        let waiting: Vec<_> = concerned
            .map(|RunningStream { number, origin, .. }| {
                ((number, Arc::clone(&variant)), WaitingStream::new(judge, since, origin))
            })
            .collect();
        let (replaced, is_waiting) = {
            let judged = &mut self.lock().judged;
            if is_known {
                judged.come_back(judge, now.uptime);
            }
            (judged.wait(waiting), judged.is_waiting())
        };
        // Without the lock: it may be the last that keeps an edition.
        drop(replaced);
        is_waiting.then_some(now.uptime)
    }

    /// Judges a stream that was registered just now, without the lock. Whether [`StreamRegistry::expire`] has to be called because of it.
    pub(super) fn judge_late(
        &self,
        number: u64,
        judges: Vec<LateJudge>,
        variant: &str,
        origin: &Arc<StreamOrigin>,
        since: u64,
    ) -> bool {
        let concerns = |late: &LateJudge| {
            late.judge.concerns(variant, origin) && (!late.is_for_own_names || late.judge.owns(origin))
        };
        let mut is_waiting = false;
        for LateJudge { judge, .. } in judges.into_iter().filter(concerns) {
            match judge.denies(origin, since) {
                Some(true) => {
                    self.lock().judged.deny(number);
                    return true;
                }
                // The next one may have come into its place meanwhile.
                None => {
                    let key = (number, judge.variant().into());
                    let one = WaitingStream::new(&judge, since, Arc::clone(origin));
                    is_waiting |= self.lock().judged.leave(key, one);
                }
                Some(false) => {}
            }
        }
        is_waiting
    }

    /// Judges some of the streams that wait for it, without the lock: workers register streams meanwhile.
    pub(super) fn judge_some(&self) {
        let waiting = self.lock().judged.take_waiting(SLICE);
        if waiting.is_empty() {
            return;
        }
        let verdict =
            |(key, one): ((u64, Arc<str>), WaitingStream)| (key, one.judge.denies(&one.origin, one.since), one);
        let verdicts: Vec<_> = waiting.into_iter().map(verdict).collect();
        // Dropped without the lock, as above.
        let mut done = Vec::new();
        let mut inner = self.lock();
        for (key, verdict, one) in verdicts {
            let number = key.0;
            match verdict {
                None => _ = inner.judged.leave(key, one),
                Some(is_denied) => {
                    if is_denied && inner.streams.contains_key(&number) {
                        inner.judged.deny(number);
                    }
                    done.push(one);
                }
            }
        }
        drop(inner);
        drop(done);
    }
}

impl<T> RegistryState<T> {
    /// The streams that began under an earlier load.
    fn begun_before(&self, load: u64) -> Vec<RunningStream> {
        let earlier = self.streams.iter().filter(|(_, stream)| stream.load < load);
        earlier.filter_map(|(number, stream)| stream.running(*number)).collect()
    }

    /// The streams of other variants that began under loads between two of a variant: no others are looked at, however many loads there
    /// are. Earlier ones were when the first of the two came into use, or are when they are registered.
    fn begun_between(&self, first: u64, last: u64, variant: &str) -> Vec<RunningStream> {
        let between = (first < last).then(|| self.by_load.range((first, u64::MAX)..(last, 0)));
        let others = between.into_iter().flatten().filter_map(|(_, number)| {
            let stream = self.streams.get(number).filter(|stream| *stream.variant != *variant)?;
            stream.running(*number)
        });
        others.collect()
    }
}

impl<T> RegisteredStream<T> {
    /// `None` if its sender is not known.
    fn running(&self, number: u64) -> Option<RunningStream> {
        let (variant, origin) = (Arc::clone(&self.variant), Arc::clone(self.origin.as_ref()?));
        Some(RunningStream { number, variant, received: self.received, origin })
    }
}

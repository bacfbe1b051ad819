use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use super::StreamStart;
use crate::stream_origin::StreamOrigin;

/// Time after which all workers use a load that was applied: a proxy compiles whole route configurations before.
const SWAP_TIME: Duration = Duration::from_secs(60);

/// The part of an edition that denies senders.
pub trait StreamJudge: Debug + Send + Sync {
    /// Digest of all that [`StreamJudge::denies`] depends on but the time, and of the streams that it concerns.
    fn digest(&self) -> &[u8];

    /// Whether a request that runs would be denied now, in seconds since 1970. `None` if the edition is gone.
    fn denies(&self, origin: &StreamOrigin, now: u64) -> Option<bool>;

    /// Something that keeps the edition, unless it is gone.
    fn needs(&self) -> Option<Arc<dyn Debug + Send + Sync>> {
        None
    }

    /// The variant of the configuration that the edition is of.
    fn variant(&self) -> &str {
        ""
    }

    /// The listener for whose requests a variant is in use.
    fn listener(&self) -> &str {
        ""
    }

    /// Whether nothing is left that has these denials for these streams. Something may be left that is not in use: a stream keeps what it
    /// began under.
    fn is_gone(&self) -> bool {
        false
    }

    /// Whether a request is for one of its names, by its listener: one that began under another variant did so while none that has these
    /// denials was in use. False where that is not known.
    fn owns(&self, _origin: &StreamOrigin) -> bool {
        false
    }

    /// Whether the edition denies for a stream that began under a variant.
    fn concerns(&self, _variant: &str, _origin: &StreamOrigin) -> bool {
        true
    }
}

/// The judges of the editions in use, and the streams that they have denied. A stream is judged by loads that are newer than its own:
/// those have denials that it did not pass.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// By variant.
    judges: BTreeMap<Box<str>, JudgesInUse>,
    /// Of the variants, by listener: those of another one concern no stream.
    newest: BTreeMap<Box<str>, NewestLoad>,
    /// Streams that are yet to be judged, by their numbers and the judge's variant.
    waiting: BTreeMap<(u64, Arc<str>), WaitingStream>,
    denied: BTreeSet<u64>,
}

/// The newest judge of a variant at a listener.
#[derive(Clone, Copy, Debug, Default)]
struct NewestLoad {
    /// The number of its load.
    load: u64,
    /// The uptime at which it came into use.
    since: Duration,
}

/// The judges of a variant.
#[derive(Debug)]
struct JudgesInUse {
    edition: u64,
    /// The number of their newest load.
    newest: u64,
    /// The newest of each listener, in the order in which they came into use: a variant has different host names at each. One of the
    /// cluster's own, which has none.
    loads: Vec<LoadJudge>,
}

#[derive(Debug)]
struct LoadJudge {
    judge: Arc<dyn StreamJudge>,
    /// The number of its load.
    load: u64,
    /// The uptime at which its denials came into use.
    since: Duration,
    /// A stream could not be judged by it.
    has_missed: bool,
}

impl NewestLoad {
    fn raise(&mut self, other: NewestLoad) {
        *self = NewestLoad { load: self.load.max(other.load), since: self.since.max(other.since) };
    }
}

impl LoadJudge {
    /// Whether it is in the place of another one.
    fn replaces(&self, other: &dyn StreamJudge) -> bool {
        self.judge.variant() == other.variant()
            && (other.variant().is_empty() || self.judge.listener() == other.listener())
    }

    fn late(&self, is_for_own_names: bool) -> LateJudge {
        LateJudge { judge: Arc::clone(&self.judge), is_for_own_names }
    }

    /// As a judge of a late stream of another variant: of one whose request came before these denials, and of one for a name of its own,
    /// since a worker may use the load some time after that. Loads that a proxy uses together give a name to one variant alone.
    fn of_other(&self, stream: StreamStart<'_>, origin: &StreamOrigin) -> Option<LateJudge> {
        let is_before = stream.received <= self.since;
        let may_concern = is_before || *self.judge.listener() == *origin.listener;
        (stream.load < self.load && may_concern).then(|| self.late(!is_before))
    }
}

/// Denials that come into use.
pub(super) enum ComingDenials {
    /// For streams that began before them.
    New {
        /// The uptime from which on they were in use.
        since: Duration,
    },
    /// Those of an earlier load, with its number. Streams that began under a load between show whether they were in use all the time;
    /// of the cluster's own nothing shows it, and these are judged.
    Known { load: u64 },
}

/// A judge of a stream that is registered after the judge came into use.
#[derive(Debug)]
pub(super) struct LateJudge {
    pub(super) judge: Arc<dyn StreamJudge>,
    /// Only if the stream is for a name of its own.
    pub(super) is_for_own_names: bool,
}

#[derive(Debug)]
pub(super) struct WaitingStream {
    pub(super) judge: Arc<dyn StreamJudge>,
    /// The edition, which the next one may have replaced already.
    _kept: Option<Arc<dyn Debug + Send + Sync>>,
    /// The time of day at which the judge came into use, in seconds since 1970.
    pub(super) since: u64,
    pub(super) origin: Arc<StreamOrigin>,
}

impl WaitingStream {
    pub(super) fn new(judge: &Arc<dyn StreamJudge>, since: u64, origin: Arc<StreamOrigin>) -> Self {
        WaitingStream { judge: Arc::clone(judge), _kept: judge.needs(), since, origin }
    }
}

impl Judged {
    pub(super) fn deny(&mut self, number: u64) {
        self.denied.insert(number);
    }

    /// Leaves a stream that a judge could not judge, whose edition is gone, to the one in its place. Whether the stream waits for that.
    pub(super) fn leave(&mut self, key: (u64, Arc<str>), one: WaitingStream) -> bool {
        let Some(judge) = self.successor(&one.judge) else {
            self.miss(&*one.judge);
            return false;
        };
        self.waiting.entry(key).or_insert_with(|| WaitingStream::new(&judge, one.since, one.origin));
        true
    }

    /// Notes that a stream could not be judged by a judge: the next one in its place does.
    fn miss(&mut self, judge: &dyn StreamJudge) {
        let loads = self.judges.get_mut(judge.variant()).into_iter().flat_map(|of_variant| &mut of_variant.loads);
        loads.filter(|load| load.replaces(judge)).for_each(|load| load.has_missed = true);
    }

    pub(super) fn forget(&mut self, number: u64) {
        self.denied.remove(&number);
    }

    pub(super) fn take_denied(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.denied).into_iter().collect()
    }

    /// Takes streams that are to be judged. Returns those that another judge of the variant has not judged.
    pub(super) fn wait(&mut self, streams: Vec<((u64, Arc<str>), WaitingStream)>) -> Vec<WaitingStream> {
        streams.into_iter().filter_map(|(key, stream)| self.waiting.insert(key, stream)).collect()
    }

    /// Removes some of these streams, to judge them now.
    pub(super) fn take_waiting(&mut self, most: usize) -> Vec<((u64, Arc<str>), WaitingStream)> {
        std::iter::from_fn(|| self.waiting.pop_last()).take(most).collect()
    }

    /// Whether streams are yet to be judged.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The judge in the place of one, if it is another with the same denials.
    fn successor(&self, judge: &Arc<dyn StreamJudge>) -> Option<Arc<dyn StreamJudge>> {
        let mut loads = self.judges.get(judge.variant())?.loads.iter();
        let other = &loads.find(|load| load.replaces(&**judge))?.judge;
        (!Arc::ptr_eq(other, judge) && other.digest() == judge.digest()).then(|| Arc::clone(other))
    }

    /// Takes the judge of a load that comes into use. Its denials are known if it denies what the one in its place denied, for the same
    /// streams, and that missed none.
    pub(super) fn replace(
        &mut self,
        judge: &Arc<dyn StreamJudge>,
        edition: u64,
        load: u64,
        uptime: Duration,
    ) -> ComingDenials {
        // Tenants make routes, and with them variants.
        self.judges.retain(|variant, of_variant| {
            of_variant.loads.retain(|load| variant.is_empty() || !load.judge.is_gone());
            !of_variant.loads.is_empty()
        });
        let new = || JudgesInUse { edition, newest: load, loads: Vec::new() };
        let of_variant = self.judges.entry(judge.variant().into()).or_insert_with(new);
        of_variant.newest = of_variant.newest.max(load);
        of_variant.edition = edition;
        let before = of_variant.loads.extract_if(.., |load| load.replaces(&**judge)).last();
        let known = before.filter(|before| before.judge.digest() == judge.digest());
        let since = known.as_ref().map_or(uptime, |known| known.since);
        of_variant.loads.push(LoadJudge { judge: Arc::clone(judge), load, since, has_missed: false });
        if !judge.variant().is_empty() {
            self.note_newest(judge.listener(), NewestLoad { load, since: uptime });
        }
        match known.filter(|known| !known.has_missed) {
            Some(known) => ComingDenials::Known { load: known.load },
            None => ComingDenials::New { since },
        }
    }

    fn note_newest(&mut self, listener: &str, next: NewestLoad) {
        if let Some(newest) = self.newest.get_mut(listener) {
            newest.raise(next);
            return;
        }
        // Rarely: operators make listeners.
        let judges = self.judges.values().flat_map(|of_variant| &of_variant.loads);
        let listeners: BTreeSet<_> = judges.map(|load| load.judge.listener()).collect();
        self.newest.retain(|known, _| listeners.contains(&**known));
        self.newest.insert(listener.into(), next);
    }

    /// The newest of the judges that may concern streams of a listener. One that is not known may be each.
    fn newest_at(&self, listener: &str) -> Option<NewestLoad> {
        let may_concern = |other: &str| listener.is_empty() || other.is_empty() || *other == *listener;
        let newest = self.newest.iter().filter(|(other, _)| may_concern(other)).map(|(_, newest)| *newest);
        newest.reduce(|mut one, other| {
            one.raise(other);
            one
        })
    }

    /// Notes that the denials of a judge were not in use for a while, and are since that uptime.
    pub(super) fn come_back(&mut self, judge: &Arc<dyn StreamJudge>, uptime: Duration) {
        let loads = self.judges.get_mut(judge.variant()).into_iter().flat_map(|of_variant| &mut of_variant.loads);
        loads.filter(|load| Arc::ptr_eq(&load.judge, judge)).for_each(|load| load.since = uptime);
    }

    /// The judges of a stream that is registered only now: those of newer loads than its own that came into use before.
    pub(super) fn judges_of(&self, stream: StreamStart<'_>, origin: &StreamOrigin) -> Vec<LateJudge> {
        let variant = &**stream.kept.variant();
        let of_newer = |variant: &str| self.judges.get(variant).filter(|judges| stream.load < judges.newest);
        let of_own = of_newer(variant).filter(|judges| judges.edition != stream.kept.edition());
        // All variants have the denials of the cluster's own configuration.
        let of_cluster = of_newer("").filter(|_| !variant.is_empty());
        let newest = of_own.into_iter().chain(of_cluster).filter_map(|judges| judges.loads.last());
        let newest = newest.map(|load| load.late(false));
        // Later requests begin under the newest load of their listener. A cluster may have thousands of variants.
        let is_late = self.newest_at(&origin.listener).is_some_and(|newest| {
            stream.load < newest.load && stream.received <= newest.since.saturating_add(SWAP_TIME)
        });
        let others = self.judges.iter().filter(|(other, _)| is_late && !other.is_empty() && ***other != *variant);
        let of_others = others.flat_map(|(_, judges)| &judges.loads).filter_map(|load| load.of_other(stream, origin));
        newest.chain(of_others).collect()
    }
}

#[cfg(test)]
#[path = "denied_tests.rs"]
mod tests;

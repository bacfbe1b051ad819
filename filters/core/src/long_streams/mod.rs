//! Long-running streams by their server: when a server is removed, its streams end a grace period later.
//! Sessions, which are upgraded connections, may end after a time of their own, too. And streams of loads that were
//! replaced end when streams keep too much of those, and those whose sender an edit denies.

mod denied;
mod edition;
mod handle;
mod judging;
mod kept_bytes;
mod kept_loads;
mod owners;
mod placing;
mod route_load;
mod shutdown;
mod table_load;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use denied::Judged;
pub use denied::StreamJudge;
pub use edition::Edition;
pub use handle::{StreamCommand, StreamHandle};
pub(crate) use kept_loads::TablePlace;
pub use owners::{EndedLoads, StreamOwners};
pub use route_load::RouteLoad;
use route_load::RouteLoadRef;
pub use shutdown::Shutdown;
pub(crate) use table_load::{LoadPart, TableLoad};

use crate::moment::Moment;
use crate::schedule::{Task, Wake};
use crate::stream_origin::StreamOrigin;

/// Most time for which streams outlive their object, where another has its name: as long as Envoy drains a removed filter chain.
/// Else an owner who makes an object anew again and again could keep all of them for a day.
const MAX_FORMER_GRACE: Duration = Duration::from_secs(600);

/// Most time for an ordinary answer to an upgrade: kube-apiserver's own for requests that do not run for long (`--request-timeout`).
const MAX_ANSWER: Duration = Duration::from_secs(60);

/// The long-running streams of one object. Outlives the configurations, so that a stream hears of what was edited after it
/// began. `T` is how the host reaches a stream.
///
/// Times are the host's uptime, which only goes forward.
#[derive(Debug)]
pub struct StreamRegistry<T>(Mutex<RegistryState<T>>);

#[derive(Debug)]
struct RegistryState<T> {
    /// `None` before the first configuration.
    served: Option<Served>,
    /// How long a session may take, if it may not for ever.
    session_limit: Option<Duration>,
    next: u64,
    /// By number, and so by when they began. The other maps have these numbers.
    streams: BTreeMap<u64, RegisteredStream<T>>,
    servers: BTreeMap<Box<str>, ServerStreams>,
    /// When each session began.
    sessions: BTreeMap<u64, Duration>,
    /// When each ordinary answer to an upgrade began.
    answers: BTreeMap<u64, Duration>,
    /// By the ids of their loads.
    loads: BTreeMap<u64, LoadStreams>,
    /// Each by the number of the load that it began under.
    by_load: BTreeSet<(u64, u64)>,
    judged: Judged,
}

/// The present servers, and how long a stream may outlive its own.
#[derive(Debug)]
struct Served {
    names: HashSet<Box<str>>,
    grace: Duration,
    /// The edition that says so.
    edition: u64,
}

#[derive(Debug)]
struct LoadStreams {
    load: RouteLoadRef,
    streams: BTreeSet<u64>,
}

#[derive(Debug)]
struct RegisteredStream<T> {
    server: Option<Box<str>>,
    /// The id of its load.
    kept: u64,
    /// The number of its load.
    load: u64,
    /// That of its load.
    variant: Arc<str>,
    /// The uptime at which its request came.
    received: Duration,
    origin: Option<Arc<StreamOrigin>>,
    handle: T,
}

#[derive(Debug)]
struct ServerStreams {
    gone_since: Option<Duration>,
    streams: BTreeSet<u64>,
}

/// A stream that begins.
#[derive(Clone, Copy, Debug)]
pub struct StreamStart<'a> {
    /// The server that it runs on, if that is known.
    pub server: Option<&'a str>,
    /// Whether it is a session.
    pub is_session: bool,
    /// Whether it is an ordinary answer, to an upgrade that the server ignored. The proxy has no time limit for it.
    pub is_answer: bool,
    /// The load that it began under, and keeps.
    pub kept: &'a RouteLoad,
    /// The number that the load had then, which is greater than those of earlier loads.
    pub load: u64,
    /// The uptime at which its request came, and its load was chosen.
    pub received: Duration,
    /// The sender, if the gateway knows it: an edition may deny it.
    pub origin: Option<&'a Arc<StreamOrigin>>,
}

/// Why a stream is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminationReason {
    /// Its server was taken away a while ago.
    ServerRemoved,
    /// It is a session, and took as long as sessions may.
    SessionLimit,
    /// Streams kept too much of what was replaced of configurations, and its load was in use for the least part of its time.
    ConfigurationReplaced,
    /// It is an ordinary answer to an upgrade, and took as long as those may.
    UpgradeIgnored,
    /// An edit denies its sender: an access list, or a policy with `action: Deny`.
    NewlyDenied,
}

impl TerminationReason {
    /// All of them.
    pub const ALL: [TerminationReason; 5] = [
        TerminationReason::ServerRemoved,
        TerminationReason::SessionLimit,
        TerminationReason::ConfigurationReplaced,
        TerminationReason::UpgradeIgnored,
        TerminationReason::NewlyDenied,
    ];

    /// The reason in snake case, for access logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            TerminationReason::ServerRemoved => "server_removed",
            TerminationReason::SessionLimit => "session_limit",
            TerminationReason::ConfigurationReplaced => "configuration_replaced",
            TerminationReason::UpgradeIgnored => "upgrade_ignored",
            TerminationReason::NewlyDenied => "newly_denied",
        }
    }
}

/// A stream's place on its server; given back when it is dropped, however the stream ends.
#[derive(Debug)]
pub struct StreamGuard<T> {
    streams: Arc<StreamRegistry<T>>,
    number: u64,
}

impl<T> Default for StreamRegistry<T> {
    fn default() -> Self {
        StreamRegistry(Mutex::new(RegistryState {
            served: None,
            session_limit: None,
            next: 0,
            streams: BTreeMap::new(),
            servers: BTreeMap::new(),
            sessions: BTreeMap::new(),
            answers: BTreeMap::new(),
            loads: BTreeMap::new(),
            by_load: BTreeSet::new(),
            judged: Judged::default(),
        }))
    }
}

impl<T> StreamRegistry<T> {
    /// Says which servers are there by an edition, and for how long a stream may outlive its own. Returns when [`StreamRegistry::expire`] has
    /// to be called, if at all.
    pub fn set_servers<'s>(
        &self,
        names: impl Iterator<Item = &'s str>,
        grace: Duration,
        edition: u64,
        now: Duration,
    ) -> Option<Duration> {
        let mut inner = self.lock();
        let names: HashSet<Box<str>> = names.map(Into::into).collect();
        for (name, server) in &mut inner.servers {
            server.gone_since = if names.contains(name) { None } else { server.gone_since.or(Some(now)) };
        }
        inner.served = Some(Served { names, grace, edition });
        inner.next_end()
    }

    /// Takes all servers away, because another object has the name. Returns what [`StreamRegistry::set_servers`] returns.
    pub(crate) fn close(&self, now: Duration) -> Option<Duration> {
        let (grace, edition) =
            self.lock().served.as_ref().map(|served| (served.grace.min(MAX_FORMER_GRACE), served.edition))?;
        self.set_servers(std::iter::empty(), grace, edition, now)
    }

    /// Says how long sessions may take from their beginning, those that run included; `None` lets them run for as long as
    /// they like. Returns what [`StreamRegistry::set_servers`] returns.
    pub fn limit_sessions(&self, limit: Option<Duration>) -> Option<Duration> {
        let mut inner = self.lock();
        inner.session_limit = limit;
        inner.next_end()
    }

    /// Notes a stream. The time is when [`StreamRegistry::expire`] has to be called because of it, if at all.
    pub fn register(
        self: &Arc<Self>,
        arrival: StreamStart<'_>,
        stream: T,
        now: Moment,
    ) -> (StreamGuard<T>, Option<Duration>) {
        let time_of_day = now.now.as_secs();
        let now = now.uptime;
        let mut inner = self.lock();
        let number = inner.next;
        inner.next = inner.next.wrapping_add(1);
        let mut is_awaited = false;
        if let Some(name) = arrival.server {
            is_awaited |= inner.note_server(number, name, arrival.kept.edition(), now);
        }
        if arrival.is_session {
            // An earlier session is due earlier, and `expire` goes on from there.
            is_awaited |= inner.session_limit.is_some() && inner.sessions.is_empty();
            inner.sessions.insert(number, now);
        }
        if arrival.is_answer {
            is_awaited |= inner.answers.is_empty();
            inner.answers.insert(number, now);
        }
        let kept = arrival.kept.id();
        let new = || LoadStreams { load: arrival.kept.downgrade(), streams: BTreeSet::new() };
        inner.loads.entry(kept).or_insert_with(new).streams.insert(number);
        let origin = arrival.origin.cloned();
        let server = arrival.server.map(Into::into);
        let variant = Arc::clone(arrival.kept.variant());
        let StreamStart { load, received, .. } = arrival;
        inner.by_load.insert((load, number));
        let registered = RegisteredStream { server, kept, load, variant, received, origin, handle: stream };
        inner.streams.insert(number, registered);
        let end = match (arrival.kept.is_ended(), is_awaited) {
            (true, _) => Some(now),
            (false, true) => inner.next_end(),
            (false, false) => None,
        };
        // A judge that comes from now on finds the stream.
        let judges = arrival.origin.map_or_else(Vec::new, |origin| inner.judged.judges_of(arrival, origin));
        drop(inner);
        let guard = StreamGuard { streams: Arc::clone(self), number };
        let variant = arrival.kept.variant();
        let is_awaited =
            arrival.origin.is_some_and(|origin| self.judge_late(number, judges, variant, origin, time_of_day));
        (guard, if is_awaited { Some(now) } else { end })
    }

    /// Calls `end` for every stream whose time is over, once, and returns when to call again, if at all. A stream that
    /// has given its place back is not called for, and none gives it back meanwhile: `end` must not drop a [`StreamGuard`].
    pub fn expire(&self, now: Duration, end: impl Fn(&T, TerminationReason)) -> Option<Duration> {
        self.judge_some();
        let mut inner = self.lock();
        for (due, why) in [
            (inner.judged.take_denied(), TerminationReason::NewlyDenied),
            (inner.on_gone_servers(now), TerminationReason::ServerRemoved),
            (inner.old_sessions(now), TerminationReason::SessionLimit),
            (inner.old_answers(now), TerminationReason::UpgradeIgnored),
            (inner.of_ended_loads(), TerminationReason::ConfigurationReplaced),
        ] {
            for number in due {
                if let Some(stream) = inner.remove(number) {
                    end(&stream, why);
                }
            }
        }
        if inner.judged.is_waiting() { Some(now) } else { inner.next_end() }
    }

    /// Calls `f` for every stream whose end was not due yet; what holds for `end` of [`StreamRegistry::expire`] holds here.
    pub fn for_each(&self, f: impl FnMut(&T)) {
        self.lock().streams.values().map(|stream| &stream.handle).for_each(f);
    }

    fn lock(&self) -> MutexGuard<'_, RegistryState<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> RegistryState<T> {
    fn on_gone_servers(&self, now: Duration) -> Vec<u64> {
        let Some(served) = &self.served else { return Vec::new() };
        let is_due = |since: Duration| since.saturating_add(served.grace) <= now;
        let due = self.servers.values().filter(|server| server.gone_since.is_some_and(is_due));
        due.flat_map(|server| &server.streams).copied().collect()
    }

    fn old_sessions(&self, now: Duration) -> Vec<u64> {
        let Some(limit) = self.session_limit else { return Vec::new() };
        let is_old = |since: &Duration| since.saturating_add(limit) <= now;
        self.sessions.iter().take_while(|(_, since)| is_old(since)).map(|(number, _)| *number).collect()
    }

    fn old_answers(&self, now: Duration) -> Vec<u64> {
        let is_old = |since: &Duration| since.saturating_add(MAX_ANSWER) <= now;
        self.answers.iter().take_while(|(_, since)| is_old(since)).map(|(number, _)| *number).collect()
    }

    fn of_ended_loads(&self) -> Vec<u64> {
        let ended = self.loads.values().filter(|kept| kept.load.is_ended());
        ended.flat_map(|kept| &kept.streams).copied().collect()
    }

    /// Forgets a stream. `None` if it was forgotten before.
    fn remove(&mut self, number: u64) -> Option<T> {
        let stream = self.streams.remove(&number)?;
        self.by_load.remove(&(stream.load, number));
        self.sessions.remove(&number);
        self.answers.remove(&number);
        self.judged.forget(number);
        if let Some(kept) = self.loads.get_mut(&stream.kept) {
            kept.streams.remove(&number);
            if kept.streams.is_empty() {
                self.loads.remove(&stream.kept);
            }
        }
        if let Some(name) = &stream.server
            && let Some(server) = self.servers.get_mut(name)
        {
            server.streams.remove(&number);
            if server.streams.is_empty() {
                self.servers.remove(name);
            }
        }
        Some(stream.handle)
    }

    fn next_end(&self) -> Option<Duration> {
        let on_servers = self.served.as_ref().and_then(|served| {
            let since = self.servers.values().filter_map(|server| server.gone_since).min()?;
            Some(since.saturating_add(served.grace))
        });
        let first = self.sessions.first_key_value().map(|(_, since)| *since);
        let of_sessions = self.session_limit.zip(first).map(|(limit, since)| since.saturating_add(limit));
        let of_answers = self.answers.first_key_value().map(|(_, since)| since.saturating_add(MAX_ANSWER));
        on_servers.into_iter().chain(of_sessions).chain(of_answers).min()
    }
}

impl<W: Wake + Send + Sync + 'static> Task for StreamRegistry<StreamHandle<W>> {
    fn run(&self, uptime: Duration) -> Option<Duration> {
        self.expire(uptime, StreamHandle::terminate)
    }
}

impl<T> Drop for StreamGuard<T> {
    fn drop(&mut self) {
        let mut inner = self.streams.lock();
        let _removed = inner.remove(self.number);
    }
}

#[cfg(test)]
mod tests;

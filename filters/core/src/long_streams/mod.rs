//! Long-running streams by their server: when a server is removed, its streams end a grace period later.
//! Sessions, which are upgraded connections, may end after a time of their own, too.

mod handle;
mod shutdown;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use handle::{StreamCommand, StreamHandle};
pub use shutdown::Shutdown;

use crate::schedule::{Task, Wake};

/// The long-running streams of one cluster. Outlives the configurations, so that a stream hears of what was edited after it
/// began. `T` is how the host reaches a stream.
///
/// Times are the host's uptime, which only goes forward.
#[derive(Debug)]
pub struct StreamRegistry<T>(Mutex<RegistryState<T>>);

#[derive(Debug)]
struct RegistryState<T> {
    /// The present servers, and how long a stream may outlive its own; `None` before the first configuration.
    served: Option<(HashSet<Box<str>>, Duration)>,
    servers: BTreeMap<Box<str>, ServerStreams<T>>,
    /// How long a session may take, if it may not for ever.
    session_limit: Option<Duration>,
    /// By number, and so by when they began.
    sessions: BTreeMap<u64, Session<T>>,
    next: u64,
}

#[derive(Debug)]
struct ServerStreams<T> {
    gone_since: Option<Duration>,
    streams: BTreeMap<u64, T>,
}

#[derive(Debug)]
struct Session<T> {
    since: Duration,
    server: Option<Box<str>>,
    stream: T,
}

/// A stream that begins.
#[derive(Clone, Copy, Debug)]
pub struct StreamStart<'a> {
    /// The server that it runs on, if that is known.
    pub server: Option<&'a str>,
    /// Whether it is a session.
    pub is_session: bool,
}

/// Why a stream is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminationReason {
    /// Its server was taken away a while ago.
    ServerRemoved,
    /// It is a session, and took as long as sessions may.
    SessionLimit,
}

impl TerminationReason {
    /// All of them.
    pub const ALL: [TerminationReason; 2] = [TerminationReason::ServerRemoved, TerminationReason::SessionLimit];

    /// The reason in snake case, for access logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            TerminationReason::ServerRemoved => "server_removed",
            TerminationReason::SessionLimit => "session_limit",
        }
    }
}

/// A stream's place on its server; given back when it is dropped, however the stream ends.
#[derive(Debug)]
pub struct StreamGuard<T> {
    streams: Arc<StreamRegistry<T>>,
    server: Option<Box<str>>,
    number: u64,
}

impl<T> Default for StreamRegistry<T> {
    fn default() -> Self {
        StreamRegistry(Mutex::new(RegistryState {
            served: None,
            servers: BTreeMap::new(),
            session_limit: None,
            sessions: BTreeMap::new(),
            next: 0,
        }))
    }
}

impl<T: Clone> StreamRegistry<T> {
    /// Says which servers are there, and for how long a stream may outlive its own. Returns when [`StreamRegistry::expire`] has
    /// to be called, if at all.
    pub fn set_servers<'s>(
        &self,
        names: impl Iterator<Item = &'s str>,
        grace: Duration,
        now: Duration,
    ) -> Option<Duration> {
        let mut inner = self.lock();
        let names: HashSet<Box<str>> = names.map(Into::into).collect();
        for (name, server) in &mut inner.servers {
            server.gone_since = if names.contains(name) { None } else { server.gone_since.or(Some(now)) };
        }
        inner.served = Some((names, grace));
        inner.next_end()
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
        now: Duration,
    ) -> (StreamGuard<T>, Option<Duration>) {
        let mut inner = self.lock();
        let number = inner.next;
        inner.next = inner.next.wrapping_add(1);
        let mut is_awaited = false;
        if let Some(name) = arrival.server {
            let is_gone = inner.served.as_ref().is_some_and(|(names, _)| !names.contains(name));
            let new = || ServerStreams { gone_since: is_gone.then_some(now), streams: BTreeMap::new() };
            let server = inner.servers.entry(name.into()).or_insert_with(new);
            server.streams.insert(number, stream.clone());
            is_awaited |= is_gone;
        }
        if arrival.is_session {
            // An earlier session is due earlier, and `expire` goes on from there.
            is_awaited |= inner.session_limit.is_some() && inner.sessions.is_empty();
            inner.sessions.insert(number, Session { since: now, server: arrival.server.map(Into::into), stream });
        }
        let end = if is_awaited { inner.next_end() } else { None };
        (StreamGuard { streams: Arc::clone(self), server: arrival.server.map(Into::into), number }, end)
    }

    /// Calls `end` for every stream whose time is over, once, and returns when to call again, if at all. A stream that
    /// has given its place back is not called for, and none gives it back meanwhile: `end` must not drop a [`StreamGuard`].
    pub fn expire(&self, now: Duration, end: impl Fn(&T, TerminationReason)) -> Option<Duration> {
        let mut inner = self.lock();
        inner.end_on_gone_servers(now, &end);
        inner.end_sessions(now, &end);
        inner.next_end()
    }

    /// Calls `f` for every stream whose end was not due yet; what holds for `end` of [`StreamRegistry::expire`] holds here.
    pub fn for_each(&self, f: impl FnMut(&T)) {
        let inner = self.lock();
        let elsewhere = inner.sessions.values().filter(|session| session.server.is_none());
        let on_servers = inner.servers.values().flat_map(|server| server.streams.values());
        on_servers.chain(elsewhere.map(|session| &session.stream)).for_each(f);
    }
}

impl<T> StreamRegistry<T> {
    fn lock(&self) -> MutexGuard<'_, RegistryState<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> RegistryState<T> {
    fn end_on_gone_servers(&mut self, now: Duration, end: &impl Fn(&T, TerminationReason)) {
        let Some((_, grace)) = &self.served else { return };
        for server in self.servers.values_mut() {
            if server.gone_since.is_some_and(|since| since.saturating_add(*grace) <= now) {
                for (number, stream) in std::mem::take(&mut server.streams) {
                    self.sessions.remove(&number);
                    end(&stream, TerminationReason::ServerRemoved);
                }
            }
        }
        self.servers.retain(|_, server| !server.streams.is_empty());
    }

    fn end_sessions(&mut self, now: Duration, end: &impl Fn(&T, TerminationReason)) {
        let Some(limit) = self.session_limit else { return };
        while let Some(first) = self.sessions.first_entry() {
            if first.get().since.saturating_add(limit) > now {
                break;
            }
            let (number, session) = first.remove_entry();
            if let Some(name) = &session.server {
                self.remove(name, number);
            }
            end(&session.stream, TerminationReason::SessionLimit);
        }
    }

    fn remove(&mut self, name: &str, number: u64) {
        let Some(server) = self.servers.get_mut(name) else { return };
        server.streams.remove(&number);
        if server.streams.is_empty() {
            self.servers.remove(name);
        }
    }

    fn next_end(&self) -> Option<Duration> {
        let on_servers = self.served.as_ref().and_then(|(_, grace)| {
            let since = self.servers.values().filter_map(|server| server.gone_since).min()?;
            Some(since.saturating_add(*grace))
        });
        let first = self.sessions.first_key_value().map(|(_, session)| session.since);
        let of_sessions = self.session_limit.zip(first).map(|(limit, since)| since.saturating_add(limit));
        on_servers.into_iter().chain(of_sessions).min()
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
        inner.sessions.remove(&self.number);
        if let Some(name) = &self.server {
            inner.remove(name, self.number);
        }
    }
}

#[cfg(test)]
mod tests;

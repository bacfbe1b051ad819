//! Streams that run for long, by the server that they run on: when a server is taken away, its streams end a while later.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The long-running streams of one cluster. Outlives the configurations, so that a stream hears of servers that were taken
/// away after it began. `T` is how the host reaches a stream.
///
/// Times are the host's uptime, which only goes forward.
#[derive(Debug)]
pub struct Streams<T>(Mutex<Inner<T>>);

#[derive(Debug)]
struct Inner<T> {
    /// The servers that are there, and for how long a stream may outlive its own; `None` before it was told.
    served: Option<(HashSet<Box<str>>, Duration)>,
    servers: BTreeMap<Box<str>, Server<T>>,
    next: u64,
}

#[derive(Debug)]
struct Server<T> {
    gone_since: Option<Duration>,
    streams: BTreeMap<u64, T>,
}

/// A stream's place on its server; given back when it is dropped, however the stream ends.
#[derive(Debug)]
pub struct Stay<T> {
    streams: Arc<Streams<T>>,
    server: Box<str>,
    number: u64,
}

impl<T> Default for Streams<T> {
    fn default() -> Self {
        Streams(Mutex::new(Inner { served: None, servers: BTreeMap::new(), next: 0 }))
    }
}

impl<T> Streams<T> {
    /// Says which servers are there, and for how long a stream may outlive its own. Returns when [`Streams::end_due`] has
    /// to be called, if at all.
    pub fn serve<'s>(&self, names: impl Iterator<Item = &'s str>, grace: Duration, now: Duration) -> Option<Duration> {
        let mut inner = self.lock();
        let names: HashSet<Box<str>> = names.map(Into::into).collect();
        for (name, server) in &mut inner.servers {
            server.gone_since = if names.contains(name) { None } else { server.gone_since.or(Some(now)) };
        }
        inner.served = Some((names, grace));
        inner.next_end()
    }

    /// Notes a stream on a server. The time is when [`Streams::end_due`] has to be called because of it, if at all.
    pub fn enter(self: &Arc<Self>, name: &str, stream: T, now: Duration) -> (Stay<T>, Option<Duration>) {
        let mut inner = self.lock();
        let is_gone = inner.served.as_ref().is_some_and(|(names, _)| !names.contains(name));
        let number = inner.next;
        inner.next = inner.next.wrapping_add(1);
        let new = || Server { gone_since: is_gone.then_some(now), streams: BTreeMap::new() };
        let server = inner.servers.entry(name.into()).or_insert_with(new);
        server.streams.insert(number, stream);
        let end = if is_gone { inner.next_end() } else { None };
        (Stay { streams: Arc::clone(self), server: name.into(), number }, end)
    }

    /// Calls `end` for every stream whose time is over, once, and returns when to call again, if at all. A stream that
    /// has given its place back is not called for, and none gives it back meanwhile: `end` must not drop a [`Stay`].
    pub fn end_due(&self, now: Duration, end: impl Fn(&T)) -> Option<Duration> {
        let mut inner = self.lock();
        let grace = inner.served.as_ref().map(|(_, grace)| *grace)?;
        for server in inner.servers.values_mut() {
            if server.gone_since.is_some_and(|since| since.saturating_add(grace) <= now) {
                server.streams.values().for_each(&end);
                server.streams.clear();
            }
        }
        inner.servers.retain(|_, server| !server.streams.is_empty());
        inner.next_end()
    }

    /// Calls `f` for every stream, whether its time is over or not; what holds for `end` of [`Streams::end_due`] holds here.
    pub fn each(&self, mut f: impl FnMut(&T)) {
        self.lock().servers.values().flat_map(|server| server.streams.values()).for_each(&mut f);
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Inner<T> {
    fn next_end(&self) -> Option<Duration> {
        let (_, grace) = self.served.as_ref()?;
        self.servers.values().filter_map(|server| server.gone_since).min().map(|since| since.saturating_add(*grace))
    }
}

impl<T> Drop for Stay<T> {
    fn drop(&mut self) {
        let mut inner = self.streams.lock();
        if let Some(server) = inner.servers.get_mut(&self.server) {
            server.streams.remove(&self.number);
            if server.streams.is_empty() {
                inner.servers.remove(&self.server);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const GRACE: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn ended(streams: &Arc<Streams<u32>>, now: u64) -> (Vec<u32>, Option<Duration>) {
        let ended = RefCell::new(Vec::new());
        let next = streams.end_due(at(now), |stream| ended.borrow_mut().push(*stream));
        (ended.into_inner(), next)
    }

    #[test]
    fn streams_end_a_while_after_their_server_was_taken_away_and_only_they() {
        let streams = Arc::new(Streams::default());
        assert_eq!(streams.serve(["a", "b", "c"].into_iter(), GRACE, at(0)), None);
        let stays: Vec<_> = [("a", 1), ("b", 2), ("b", 3), ("c", 4)]
            .into_iter()
            .map(|(server, number)| streams.enter(server, number, at(1)))
            .collect();
        assert!(stays.iter().all(|(_, end)| end.is_none()));
        let all = RefCell::new(Vec::new());
        streams.each(|stream| all.borrow_mut().push(*stream));
        assert_eq!(all.into_inner(), [1, 2, 3, 4]);
        assert_eq!(streams.serve(["a", "c"].into_iter(), GRACE, at(5)), Some(at(15)));
        assert_eq!(streams.serve(["a"].into_iter(), GRACE, at(8)), Some(at(15)), "b is gone since 5 s");
        assert_eq!(ended(&streams, 14), (vec![], Some(at(15))));
        assert_eq!(ended(&streams, 15), (vec![2, 3], Some(at(18))));
        assert_eq!(ended(&streams, 18), (vec![4], None));
        assert_eq!(ended(&streams, 99), (vec![], None), "once");
        drop(stays);
        assert!(streams.lock().servers.is_empty());
    }

    #[test]
    fn a_server_that_comes_back_keeps_its_streams_and_another_time_holds_from_the_same_start() {
        let streams = Arc::new(Streams::default());
        streams.serve(["a"].into_iter(), GRACE, at(0));
        let _stay = streams.enter("a", 1, at(0));
        assert_eq!(streams.serve([].into_iter(), GRACE, at(5)), Some(at(15)));
        assert_eq!(streams.serve(["a"].into_iter(), GRACE, at(9)), None);
        assert_eq!(ended(&streams, 99), (vec![], None));
        assert_eq!(streams.serve([].into_iter(), GRACE, at(100)), Some(at(110)));
        assert_eq!(streams.serve([].into_iter(), at(2), at(101)), Some(at(102)));
        assert_eq!(ended(&streams, 102).0, vec![1]);
    }

    #[test]
    fn a_stream_that_begins_on_a_server_that_is_gone_has_its_time_too_and_one_that_left_is_not_called() {
        let streams = Arc::new(Streams::default());
        let (early, none) = streams.enter("x", 1, at(0));
        assert_eq!((none, ended(&streams, 99).1), (None, None), "nobody said which servers there are");
        streams.serve(["a"].into_iter(), GRACE, at(1));
        let (_late, end) = streams.enter("y", 2, at(3));
        assert_eq!(end, Some(at(11)), "x first");
        drop(early);
        assert_eq!(ended(&streams, 12), (vec![], Some(at(13))));
        assert_eq!(ended(&streams, 13), (vec![2], None));
    }
}

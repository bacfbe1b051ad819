//! Answers by server, verb, resource, scope and code, with their durations and sizes.
//!
//! One lookup finds all that a request counts in. Envoy's series are coarser: those of durations sum over servers and codes, those
//! of a server's part over resources, so that no product of all labels has a histogram.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

use super::catalog::{DURATION_BOUNDS, SIZE_BOUNDS};
use super::counters::{CounterKey, KeyHasher};
use super::histogram::{Histogram, Taken, swap};
use super::response_key::{self, ResponseKey};
use super::servers::{Server, ServerLabels};
use super::status_code;

/// An answered request, or one that ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// The status of the answer; 0 without one.
    pub code: u16,
    /// The server that the request went to last. `None` for a request that was not forwarded.
    pub server: Option<Server<'a>>,
    /// From the request's headers to the end of the answer; to its headers for a request that runs for long. `None` for a
    /// request that was not forwarded: it depends on no server, and its client may take any time to read the answer.
    pub duration: Option<Duration>,
    /// From the request's departure to the headers of the answer.
    pub server_duration: Option<Duration>,
    /// Bytes of the answer's body. `None` if the proxy does not count them.
    pub bytes: Option<u64>,
}

/// Answers of one server and one class of the status, since the last time that they were taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AnsweredRequests {
    /// [`status_code::class`]
    pub(super) class: u16,
    pub(super) count: u64,
    /// Those that took up to each of [`DURATION_BOUNDS`] and longer than the one before, then the longest.
    pub(super) durations: [u64; DURATION_BOUNDS.len() + 1],
    /// The sum of the durations.
    pub(super) microseconds: u64,
}

/// Microseconds of a second.
const SECOND: u64 = 1_000_000;

/// The counts of one [`ResponseKey`].
#[derive(Debug)]
struct ResponseCounts {
    /// Its requests were forwarded.
    is_forwarded: bool,
    /// A server has a part in it.
    has_server: bool,
    /// Sizes are recorded.
    is_read: bool,
    count: AtomicU32,
    /// The part of the durations' sum that was taken out once and has stayed there.
    carried: AtomicU64,
    /// Microseconds.
    durations: Histogram<{ DURATION_BOUNDS.len() }>,
    /// Microseconds.
    server_durations: Histogram<{ DURATION_BOUNDS.len() }>,
    /// Bytes.
    sizes: Histogram<{ SIZE_BOUNDS.len() }>,
}

/// The counts of one key since the last time, durations in whole seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct TakenResponses {
    pub(super) count: u64,
    pub(super) durations: Option<Taken<{ DURATION_BOUNDS.len() }>>,
    pub(super) server_durations: Option<Taken<{ DURATION_BOUNDS.len() }>>,
    pub(super) sizes: Option<Taken<{ SIZE_BOUNDS.len() }>>,
    /// The microseconds of durations that are new.
    microseconds: u64,
}

impl TakenResponses {
    /// The same for the cluster's activity.
    pub(super) fn answered(&self, key: ResponseKey) -> AnsweredRequests {
        let mut answered =
            AnsweredRequests { class: status_code::class(key.code), count: self.count, ..Default::default() };
        if let Some(taken) = &self.durations {
            let mut before = 0;
            for (count, up_to) in answered.durations.iter_mut().zip(taken.buckets.iter().chain([&taken.count])) {
                *count = up_to.saturating_sub(before);
                before = *up_to;
            }
            answered.microseconds = self.microseconds;
        }
        answered
    }
}

impl ResponseCounts {
    fn new(key: ResponseKey) -> Box<Self> {
        let is_forwarded = key.server.is_forwarded();
        Box::new(ResponseCounts {
            is_forwarded,
            has_server: key.server.is_server(),
            is_read: is_forwarded && key.verb.is_read(),
            count: AtomicU32::new(0),
            carried: AtomicU64::new(0),
            durations: Histogram::default(),
            server_durations: Histogram::default(),
            sizes: Histogram::default(),
        })
    }

    fn record(&self, response: &Response<'_>) {
        if let Some(duration) = response.duration.filter(|_| self.is_forwarded) {
            self.durations.record(&DURATION_BOUNDS, microseconds(duration));
        }
        if let Some(duration) = response.server_duration.filter(|_| self.has_server) {
            self.server_durations.record(&DURATION_BOUNDS, microseconds(duration));
        }
        if let Some(bytes) = response.bytes.filter(|_| self.is_read) {
            self.sizes.record(&SIZE_BOUNDS, bytes);
        }
        // Last: whatever is recorded is shown with a count, now or later.
        self.count.fetch_add(1, Ordering::Release);
    }

    fn take(&self) -> Option<TakenResponses> {
        let count = u64::from(swap(&self.count));
        if count == 0 {
            return None;
        }
        let durations = self.durations.take(SECOND);
        let new_microseconds = |taken: &Taken<{ DURATION_BOUNDS.len() }>| {
            // A part of them was there the last time.
            let carried = self.carried.swap(taken.left, Ordering::Relaxed);
            taken.sum.saturating_mul(SECOND).saturating_add(taken.left).saturating_sub(carried)
        };
        Some(TakenResponses {
            count,
            microseconds: durations.as_ref().map_or(0, new_microseconds),
            durations,
            server_durations: self.server_durations.take(SECOND),
            sizes: self.sizes.take(1),
        })
    }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

type Numbered<V> = HashMap<u64, V, BuildHasherDefault<KeyHasher>>;

/// Answers by key, shared by all workers. Counting what was counted before takes no lock exclusively and allocates nothing.
#[derive(Debug, Default)]
pub(super) struct ResponseTable {
    pub(super) servers: ServerLabels,
    entries: RwLock<Numbered<Box<ResponseCounts>>>,
    /// Held by one of several publishers while it takes counts out, and never while it writes them.
    taker: Mutex<()>,
}

impl ResponseTable {
    pub(super) fn new(servers: ServerLabels) -> Self {
        ResponseTable { servers, ..ResponseTable::default() }
    }

    /// Counts an answer. `admits` says whether there is room for a key that is new.
    pub(super) fn count(&self, request: CounterKey, response: &Response<'_>, admits: impl FnOnce(ResponseKey) -> bool) {
        let (server, code) = (self.servers.code(response.server), status_code::reported(response.code));
        let number = response_key::number(server, request, code);
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = entries.get(&number) {
            return counts.record(response);
        }
        drop(entries);
        let key = ResponseKey::of_number(number);
        self.count_new(if admits(key) { key } else { key.rest() }, response);
    }

    #[cold]
    fn count_new(&self, key: ResponseKey, response: &Response<'_>) {
        let number = key.number();
        // Counts that have no room go under a key that is known, mostly.
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = entries.get(&number) {
            return counts.record(response);
        }
        drop(entries);
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        entries.entry(number).or_insert_with(|| ResponseCounts::new(key)).record(response);
    }

    /// The keys under which something was counted that is not taken yet.
    pub(super) fn changed(&self) -> Vec<ResponseKey> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let changed = entries.iter().filter(|(_, counts)| counts.count.load(Ordering::Relaxed) != 0);
        changed.map(|(number, _)| ResponseKey::of_number(*number)).collect()
    }

    /// Takes out what was counted under a key.
    pub(super) fn take(&self, key: ResponseKey) -> Option<TakenResponses> {
        let _taker = self.taker.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.get(&key.number()).and_then(|counts| counts.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: CounterKey = CounterKey { policy: 0, verb: 2, resource: 7, scope: 1, outcome: 0, is_known: true };

    fn response(code: u16, server: Option<&str>) -> Response<'_> {
        let server = server.map(|name| Server::Named(name.as_bytes()));
        let duration = Some(Duration::from_millis(150));
        Response { code, server, duration, server_duration: Some(Duration::from_secs(61)), bytes: Some(1_000) }
    }

    fn table() -> ResponseTable {
        ResponseTable::new(ServerLabels::of(&["b:1".to_owned(), "a:1".to_owned()]))
    }

    /// Server, code, number of answers, and of those with durations, of every key.
    fn taken(table: &ResponseTable) -> Vec<(String, String, u64, u64)> {
        let row = |key: ResponseKey| {
            let taken = table.take(key).unwrap();
            let durations = taken.durations.map_or(0, |durations| durations.count);
            (table.servers.label(key.server).to_owned(), status_code::label(key.code), taken.count, durations)
        };
        let mut all: Vec<_> = table.changed().into_iter().map(row).collect();
        all.sort();
        all
    }

    fn rows<const N: usize>(rows: [(&str, &str, u64, u64); N]) -> Vec<(String, String, u64, u64)> {
        rows.into_iter().map(|(server, code, all, timed)| (server.to_owned(), code.to_owned(), all, timed)).collect()
    }

    #[test]
    fn answers_count_by_server_and_code() {
        let table = table();
        for (code, server) in
            [(200, Some("a:1")), (200, Some("a:1")), (200, Some("b:1")), (0, Some("gone:1")), (403, None)]
        {
            table.count(REQUEST, &response(code, server), |_| true);
        }
        for server in [Server::Unnamed, Server::Missing] {
            table.count(REQUEST, &Response { server: Some(server), ..response(503, None) }, |_| true);
        }
        let expected = [
            ("-", "403", 1, 0),
            ("-", "503", 1, 1),
            ("a:1", "200", 2, 2),
            ("b:1", "200", 1, 1),
            ("other", "0", 1, 1),
            ("unknown", "503", 1, 1),
        ];
        assert_eq!(taken(&table), rows(expected));
        assert!(taken(&table).is_empty(), "taken once");
    }

    #[test]
    fn answers_without_room_count_together_by_class_and_origin() {
        let table = table();
        let has_room = |key: ResponseKey| key.resource == REQUEST.resource;
        table.count(REQUEST, &response(200, Some("a:1")), has_room);
        let others = CounterKey { resource: 8, ..REQUEST };
        for (code, server) in [(200, "b:1"), (201, "a:1"), (404, "b:1"), (503, "b:1"), (599, "c:1")] {
            table.count(others, &response(code, Some(server)), has_room);
        }
        table.count(others, &response(500, None), has_room);
        table.count(others, &Response { server: Some(Server::Missing), ..response(503, None) }, has_room);
        table.count(REQUEST, &response(200, Some("a:1")), |_| panic!("it is known"));
        let expected = [
            ("-", "5xx", 1, 0),
            ("-", "5xx", 1, 1),
            ("a:1", "200", 2, 2),
            ("other", "2xx", 2, 2),
            ("other", "4xx", 1, 1),
            ("other", "5xx", 2, 2),
        ];
        assert_eq!(taken(&table), rows(expected));
    }

    /// Several parts of a listener publish the counts of one cluster.
    #[test]
    fn answers_are_taken_once_by_threads_that_publish_them() {
        let (table, micros) = (table(), AtomicU64::new(0));
        let take_all = || {
            for key in table.changed() {
                let sum = table.take(key).map_or(0, |taken| taken.answered(key).microseconds);
                micros.fetch_add(sum, Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| (0..20_000).for_each(|_| table.count(REQUEST, &response(200, Some("a:1")), |_| true)));
            for _ in 0..2 {
                scope.spawn(|| (0..2_000).for_each(|_| take_all()));
            }
        });
        table.count(REQUEST, &response(200, Some("a:1")), |_| true);
        take_all();
        assert_eq!(micros.into_inner(), 20_001 * 150_000);
    }
}

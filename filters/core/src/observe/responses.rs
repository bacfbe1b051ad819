//! Answers by server, verb, resource, scope and code, with their durations and sizes.
//!
//! One lookup finds all that a request counts in. Envoy's series are coarser: those of durations sum over servers and codes, those
//! of a server's part over resources, so that no product of all labels has a histogram.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use super::catalog::{DURATION_BOUNDS, SIZE_BOUNDS};
use super::counters::{CounterKey, KeyHasher};
use super::histogram::{Histogram, Taken, swap};
use super::resource::OTHER;
use super::series_budget::{SeriesBudget, SeriesLease};
use super::verb::{ReportedVerb, Scope};

/// Series of a histogram beside its finite bounds: `+Inf`, the sum and the count.
const BESIDE_BOUNDS: u32 = 3;

/// An answered request, or one that ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// The status of the answer; 0 without one.
    pub code: u16,
    /// The server that the request went to last. `None` for an answer of the gateway's own.
    pub server: Option<Server<'a>>,
    /// From the request's headers to the end of the answer; to its headers for a request that runs for long. `None` for a
    /// request that the filter did not see.
    pub duration: Option<Duration>,
    /// From the request's departure to the headers of the answer.
    pub server_duration: Option<Duration>,
    /// Bytes of the answer's body. `None` if the proxy does not count them.
    pub bytes: Option<u64>,
}

/// How a server is found among those that the configuration names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server<'a> {
    /// By its place: [`super::ClusterMetrics::server_at`].
    Known(ServerCode),
    /// By the name in its endpoint's metadata.
    Named(&'a [u8]),
}

/// The labels of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResponseKey {
    pub(super) server: ServerCode,
    /// [`super::resource::ResourceLabels::code`]
    pub(super) resource: u16,
    pub(super) verb: ReportedVerb,
    pub(super) scope: Scope,
    /// The status; the first digit alone in what counts together for want of room.
    pub(super) code: u16,
}

/// A server of the cluster by its place among the names, or a number for none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerCode(u16);

impl ServerCode {
    /// An answer of the gateway's own.
    const NONE: ServerCode = ServerCode(0);
    /// A server that the configuration does not name.
    const UNKNOWN: ServerCode = ServerCode(u16::MAX - 1);
    /// Every answer that has no room of its own, whatever its server.
    const REST: ServerCode = ServerCode(u16::MAX);
}

/// The servers that count apart: those that the configuration names.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerLabels(Arc<[Box<str>]>);

/// The label `server` of answers of the gateway's own.
pub(super) const NO_SERVER: &str = "-";

impl ServerLabels {
    pub(super) fn of(names: &[String]) -> Self {
        let mut names: Vec<Box<str>> = names.iter().map(|name| name.as_str().into()).collect();
        names.sort_unstable();
        ServerLabels(names.into())
    }

    /// The server of that name.
    pub(super) fn find(&self, name: &[u8]) -> Option<ServerCode> {
        let place = self.0.binary_search_by(|known| known.as_bytes().cmp(name)).ok()?;
        let code = u16::try_from(place.saturating_add(1)).ok().map(ServerCode);
        code.filter(|code| code.0 < ServerCode::UNKNOWN.0)
    }

    fn code(&self, server: Option<Server<'_>>) -> ServerCode {
        match server {
            None => ServerCode::NONE,
            Some(Server::Known(code)) => code,
            Some(Server::Named(name)) => self.find(name).unwrap_or(ServerCode::UNKNOWN),
        }
    }

    /// The label `server`.
    pub(super) fn label(&self, code: ServerCode) -> &str {
        match code {
            ServerCode::NONE => NO_SERVER,
            ServerCode(place) => self.0.get(usize::from(place).saturating_sub(1)).map_or("other", |name| name),
        }
    }
}

impl ResponseKey {
    fn number(self) -> u64 {
        let ResponseKey { server, resource, verb, scope, code } = self;
        self.group_number()
            | u64::from(server.0) << 48
            | u64::from(code)
            | u64::from(resource) << 32
            | u64::from(verb.code()) << 24
            | u64::from(scope.code()) << 16
    }

    /// The part that durations are counted by.
    fn group_number(self) -> u64 {
        u64::from(self.resource) << 32 | u64::from(self.verb.code()) << 24 | u64::from(self.scope.code()) << 16
    }

    /// The part that a server's durations are counted by; never equal to a [`ResponseKey::group_number`].
    fn server_number(self) -> u64 {
        u64::from(self.server.0) << 48 | u64::from(self.verb.code()) << 24 | 1
    }

    #[allow(clippy::cast_possible_truncation, reason = "takes apart what `number` has put together")]
    fn of_number(number: u64) -> Self {
        ResponseKey {
            server: ServerCode((number >> 48) as u16),
            resource: (number >> 32) as u16,
            verb: ReportedVerb::of_code((number >> 24) as u8),
            scope: Scope::of_code((number >> 16) as u8),
            code: number as u16,
        }
    }

    /// The key of everything that has no room of its own; the class of the status is kept.
    const fn rest(self) -> Self {
        ResponseKey {
            server: ServerCode::REST,
            resource: OTHER,
            verb: ReportedVerb::Other,
            scope: Scope::None,
            code: self.code / 100,
        }
    }

    /// Whether it counts what has no room of its own.
    pub(super) fn is_rest(self) -> bool {
        self.server == ServerCode::REST
    }

    /// The first digit of the status, 0 without one.
    pub(super) fn class(self) -> u16 {
        if self.is_rest() { self.code } else { self.code / 100 }
    }

    /// Whether a server has a part in it.
    pub(super) fn has_server(self) -> bool {
        self.server != ServerCode::NONE
    }

    /// The label `code`.
    pub(super) fn code_label(self) -> String {
        if self.is_rest() { format!("{}xx", self.code) } else { self.code.to_string() }
    }
}

/// Answers of one server and one class of the status, since the last time that they were taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AnsweredRequests {
    /// [`ResponseKey::class`]
    pub(super) class: u16,
    pub(super) count: u64,
    /// Those that took up to each of [`DURATION_BOUNDS`] and longer than the one before, then the longest.
    pub(super) durations: [u64; DURATION_BOUNDS.len() + 1],
    /// The sum of the durations.
    pub(super) microseconds: u64,
}

impl AnsweredRequests {
    /// Takes over durations whose sum is `microseconds`.
    pub(super) fn took(&mut self, taken: &Taken<{ DURATION_BOUNDS.len() }>, microseconds: u64) {
        let mut before = 0;
        for (count, up_to) in self.durations.iter_mut().zip(taken.buckets.iter().chain([&taken.count])) {
            *count = up_to.saturating_sub(before);
            before = *up_to;
        }
        self.microseconds = microseconds;
    }
}

/// The counts of one [`ResponseKey`].
#[derive(Debug, Default)]
pub(super) struct ResponseCounts {
    count: AtomicU32,
    /// The part of the durations' sum that was taken out once and has stayed there.
    carried: AtomicU64,
    /// Microseconds.
    pub(super) durations: Histogram<{ DURATION_BOUNDS.len() }>,
    /// Microseconds.
    pub(super) server_durations: Histogram<{ DURATION_BOUNDS.len() }>,
    /// Bytes.
    pub(super) sizes: Histogram<{ SIZE_BOUNDS.len() }>,
}

impl ResponseCounts {
    fn record(&self, key: ResponseKey, response: &Response<'_>) {
        if let Some(duration) = response.duration {
            self.durations.record(&DURATION_BOUNDS, microseconds(duration));
        }
        if let Some(duration) = response.server_duration {
            self.server_durations.record(&DURATION_BOUNDS, microseconds(duration));
        }
        if let Some(bytes) = response.bytes.filter(|_| key.verb.is_read()) {
            self.sizes.record(&SIZE_BOUNDS, bytes);
        }
        // Last: whatever is recorded is shown with a count, now or later.
        self.count.fetch_add(1, Ordering::Release);
    }

    /// Takes the number of answers out.
    pub(super) fn take_count(&self) -> u64 {
        u64::from(swap(&self.count))
    }

    /// The microseconds of durations that were taken in this unit and are new: a part of them was there the last time.
    pub(super) fn new_microseconds(&self, taken: &Taken<{ DURATION_BOUNDS.len() }>, unit: u64) -> u64 {
        let carried = self.carried.swap(taken.left, Ordering::Relaxed);
        taken.sum.saturating_mul(unit).saturating_add(taken.left).saturating_sub(carried)
    }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

type Numbered<V> = HashMap<u64, V, BuildHasherDefault<KeyHasher>>;

/// Answers by key, shared by all workers. Counting what was counted before takes no lock exclusively and allocates nothing.
#[derive(Debug)]
pub(super) struct ResponseTable {
    pub(super) servers: ServerLabels,
    entries: RwLock<Entries>,
    lease: SeriesLease,
}

#[derive(Debug, Default)]
struct Entries {
    counts: Numbered<Box<ResponseCounts>>,
    /// Histograms that have series already, [`ResponseKey::group_number`] and [`ResponseKey::server_number`].
    histograms: HashSet<u64, BuildHasherDefault<KeyHasher>>,
}

impl ResponseTable {
    pub(super) fn new(servers: ServerLabels, budget: &Arc<SeriesBudget>) -> Self {
        ResponseTable { servers, entries: RwLock::default(), lease: SeriesLease::new(budget) }
    }

    pub(super) fn count(&self, request: CounterKey, response: &Response<'_>) {
        let key = ResponseKey {
            server: self.servers.code(response.server),
            resource: request.resource,
            verb: ReportedVerb::of_code(request.verb),
            scope: Scope::of_code(request.scope),
            code: response.code,
        };
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = entries.counts.get(&key.number()) {
            return counts.record(key, response);
        }
        drop(entries);
        self.count_new(key, response);
    }

    #[cold]
    fn count_new(&self, key: ResponseKey, response: &Response<'_>) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let has_room = entries.counts.contains_key(&key.number()) || self.lease.extend(entries.new_series(key));
        let key = if has_room { key } else { key.rest() };
        if has_room {
            entries.histograms.insert(key.group_number());
            entries.histograms.insert(key.server_number());
        }
        entries.counts.entry(key.number()).or_default().record(key, response);
    }

    /// Shows every key with its counts.
    pub(super) fn for_each(&self, mut each: impl FnMut(ResponseKey, &ResponseCounts)) {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        for (number, counts) in &entries.counts {
            each(ResponseKey::of_number(*number), counts);
        }
    }
}

impl Entries {
    /// Number of series that a key's first answer makes.
    fn new_series(&self, key: ResponseKey) -> u32 {
        let of = |bounds: usize| u32::try_from(bounds).unwrap_or(u32::MAX).saturating_add(BESIDE_BOUNDS);
        let (durations, sizes) = (of(DURATION_BOUNDS.len()), of(SIZE_BOUNDS.len()));
        let mut series = 1_u32;
        if !self.histograms.contains(&key.group_number()) {
            series = series.saturating_add(durations).saturating_add(if key.verb.is_read() { sizes } else { 0 });
        }
        if key.has_server() && !self.histograms.contains(&key.server_number()) {
            series = series.saturating_add(durations);
        }
        series
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: CounterKey = CounterKey { policy: 0, verb: 2, resource: 7, scope: 1, outcome: 0 };

    fn response(code: u16, server: Option<&str>) -> Response<'_> {
        let server = server.map(|name| Server::Named(name.as_bytes()));
        let duration = Some(Duration::from_millis(150));
        Response { code, server, duration, server_duration: Some(Duration::from_secs(61)), bytes: Some(1_000) }
    }

    fn table(series: u32) -> ResponseTable {
        let servers = ServerLabels::of(&["b:1".to_owned(), "a:1".to_owned()]);
        ResponseTable::new(servers, &Arc::new(SeriesBudget::of(series)))
    }

    /// Server, code and number of answers of every key.
    fn taken(table: &ResponseTable) -> Vec<(String, String, u64)> {
        let mut all = Vec::new();
        table.for_each(|key, counts| {
            let server = table.servers.label(key.server).to_owned();
            all.extend(Some((server, key.code_label(), counts.take_count())).filter(|(.., count)| *count > 0));
        });
        all.sort();
        all
    }

    #[test]
    fn key_survives_its_number() {
        for server in [ServerCode::NONE, ServerCode(3), ServerCode::UNKNOWN, ServerCode::REST] {
            let (verb, scope) = (ReportedVerb::Connect, Scope::Resource);
            let key = ResponseKey { server, resource: u16::MAX, verb, scope, code: 599 };
            assert_eq!(ResponseKey::of_number(key.number()), key);
        }
    }

    #[test]
    fn answers_count_by_server_and_code() {
        let table = table(1_000);
        for (code, server) in
            [(200, Some("a:1")), (200, Some("a:1")), (200, Some("b:1")), (0, Some("gone:1")), (403, None)]
        {
            table.count(REQUEST, &response(code, server));
        }
        let expected = [("-", "403", 1), ("a:1", "200", 2), ("b:1", "200", 1), ("other", "0", 1)];
        assert_eq!(taken(&table), expected.map(|(server, code, count)| (server.to_owned(), code.to_owned(), count)));
        assert!(taken(&table).is_empty(), "taken once");
    }

    #[test]
    fn answers_without_room_count_together_by_class() {
        // A list's counter and its three histograms, the size's included.
        let table = table(1 + 15 + 10 + 15);
        table.count(REQUEST, &response(200, Some("a:1")));
        for code in [200, 201, 404, 503] {
            table.count(CounterKey { resource: 8, ..REQUEST }, &response(code, Some("b:1")));
        }
        table.count(REQUEST, &response(200, Some("a:1")));
        let expected = [("a:1", "200", 2), ("other", "2xx", 2), ("other", "4xx", 1), ("other", "5xx", 1)];
        assert_eq!(taken(&table), expected.map(|(server, code, count)| (server.to_owned(), code.to_owned(), count)));
    }
}

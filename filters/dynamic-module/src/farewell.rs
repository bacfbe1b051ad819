//! Ends streams whose server was taken away, and sessions that took too long, when their time is over: one thread waits for
//! that time, for all clusters.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use envoy_abi::http::{FilterHandle, StreamScheduler};
use envoy_abi::log;
use portcullis_core::Cluster;
use portcullis_core::alive::Alive;
use portcullis_core::farewell::{self, Arrival, End, Stay};
use portcullis_filter_config::{ClusterConfig, names};

use crate::memory::uptime;

type Streams = farewell::Streams<Arc<Guest>>;

/// By the cluster's name over all edits.
static STREAMS: LazyLock<Alive<String, Streams>> = LazyLock::new(Alive::default);
/// The queue of the process's one thread, `None` if it could not be started.
static QUEUE: OnceLock<Option<&'static Queue>> = OnceLock::new();

/// A cluster's configuration with the streams of the cluster.
pub(crate) struct Route {
    cluster: Cluster,
    streams: Arc<Streams>,
}

/// A long-running stream.
#[derive(Debug)]
pub(crate) struct Guest {
    scheduler: StreamScheduler,
    /// Why it is to end, once it is.
    over: OnceLock<End>,
    is_watch: bool,
    /// What is wished of it and not done yet, and whether its end was wished.
    wish: AtomicU8,
    is_ended: AtomicBool,
    /// Whether the answer was ended here: Envoy keeps a stream whose client does not read, and must not be told again.
    is_finished: AtomicBool,
}

/// What is wished of a stream when Envoy is about to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Its connection takes no more requests.
    GoAway = 1,
    /// It ends, as if the upstream had ended it.
    End = 2,
}

impl Guest {
    /// Wishes something of the stream. To be called by [`each_guest`] only, while the stream cannot go.
    pub(crate) fn tell(&self, wish: Wish) {
        self.wish.fetch_or(wish as u8, Ordering::AcqRel);
        if wish == Wish::End {
            self.is_ended.store(true, Ordering::Release);
        }
        self.scheduler.wake();
    }

    fn finish(&self, stream: &mut FilterHandle) {
        if !self.is_finished.swap(true, Ordering::AcqRel) {
            stream.finish();
        }
    }

    /// Whether it is a watch whose end nobody has wished yet.
    pub(crate) fn is_watch(&self) -> bool {
        self.is_watch && !self.is_ended.load(Ordering::Acquire)
    }
}

/// Calls `f` for the long-running streams of all clusters.
pub(crate) fn each_guest(mut f: impl FnMut(&Guest)) {
    STREAMS.each(|streams| streams.each(|guest| f(guest)));
}

/// What a long-running stream keeps of it.
#[derive(Default)]
pub(crate) enum Visit {
    /// It does not run for long.
    #[default]
    None,
    /// It is not known yet on which server it runs; it may be a watch.
    Comes(Arc<Streams>, bool),
    /// It runs.
    Stays(Arc<Guest>, #[expect(dead_code, reason = "held for its end")] Stay<Arc<Guest>>),
}

impl Route {
    /// Tells the cluster's streams which servers there are, and for how long sessions may run.
    pub(crate) fn new(cluster: Cluster, config: &ClusterConfig) -> Self {
        let streams = STREAMS.find_or_make(config.name.clone(), Streams::default);
        if let Some(servers) = &config.servers {
            let names = servers.names.iter().map(String::as_str);
            let grace = Duration::from_secs(servers.drain_seconds);
            call_at(&streams, streams.serve(names, grace, uptime(Instant::now())));
        }
        call_at(&streams, streams.limit_sessions(config.session_limit_seconds.map(Duration::from_secs)));
        Route { cluster, streams }
    }

    /// For a request that may run for as long as it likes.
    pub(crate) fn visit(&self, is_watch: bool) -> Visit {
        Visit::Comes(Arc::clone(&self.streams), is_watch)
    }
}

impl Deref for Route {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Visit {
    /// The upstream has answered, so the server is known, and whether an upgrade has become a session.
    pub(crate) fn begin(&mut self, is_session: bool, stream: &mut FilterHandle) {
        let Visit::Comes(streams, is_watch) = std::mem::take(self) else { return };
        // An answer of Envoy's own may have no server.
        let server = stream.endpoint_metadata(names::HOST, names::HOST_SERVER);
        let server = server.and_then(|name| std::str::from_utf8(name).ok()).map(str::to_owned);
        if server.is_none() && !is_session {
            return;
        }
        let guest = Arc::new(Guest {
            scheduler: stream.scheduler(),
            over: OnceLock::new(),
            is_watch,
            wish: AtomicU8::new(0),
            is_ended: AtomicBool::new(false),
            is_finished: AtomicBool::new(false),
        });
        let arrival = Arrival { server: server.as_deref(), is_session };
        let (stay, end) = streams.enter(arrival, Arc::clone(&guest), uptime(Instant::now()));
        call_at(&streams, end);
        *self = Visit::Stays(guest, stay);
    }

    /// Does what was wished of it, if anything.
    pub(crate) fn obey(&self, stream: &mut FilterHandle) {
        let Visit::Stays(guest, _) = self else { return };
        let wishes = guest.wish.swap(0, Ordering::AcqRel);
        let is_wished = |wish: Wish| wishes & wish as u8 != 0;
        if is_wished(Wish::GoAway) {
            stream.drain_connection();
        }
        if is_wished(Wish::End) {
            guest.finish(stream);
        }
    }

    /// Ends it. A watch ends as if the server had ended it: its client opens it again.
    pub(crate) fn end(&self, why: End, stream: &mut FilterHandle) {
        match self {
            Visit::Stays(guest, _) if guest.is_watch => guest.finish(stream),
            _ => stream.reset(format!("{}{}", names::REPLY_DETAILS_PREFIX, why.as_str())),
        }
    }

    /// Why it is to end, if its time is over.
    pub(crate) fn over(&self) -> Option<End> {
        match self {
            Visit::Stays(guest, _) => guest.over.get().copied(),
            Visit::None | Visit::Comes(..) => None,
        }
    }
}

#[derive(Debug, Default)]
struct Queue {
    ends: Mutex<Vec<(Duration, Weak<Streams>)>>,
    is_changed: Condvar,
}

/// Has the streams looked through at that time.
fn call_at(streams: &Arc<Streams>, end: Option<Duration>) {
    let (Some(end), Some(queue)) = (end, QUEUE.get_or_init(start)) else { return };
    let mut ends = queue.ends.lock().unwrap_or_else(PoisonError::into_inner);
    let known = ends.iter_mut().find(|(_, known)| std::ptr::eq(known.as_ptr(), Arc::as_ptr(streams)));
    match known {
        Some((at, _)) => *at = end.min(*at),
        None => ends.push((end, Arc::downgrade(streams))),
    }
    queue.is_changed.notify_one();
}

fn start() -> Option<&'static Queue> {
    let queue: &'static Queue = Box::leak(Box::default());
    let started = thread::Builder::new().name("portcullis-end".to_owned()).spawn(|| run(queue));
    if started.is_err() {
        log::error("portcullis: the thread that ends streams could not be started; they stay");
    }
    started.is_ok().then_some(queue)
}

fn run(queue: &Queue) {
    loop {
        for streams in due(queue) {
            let next = streams.end_due(uptime(Instant::now()), |guest, why| {
                guest.over.get_or_init(|| why);
                guest.scheduler.wake();
            });
            call_at(&streams, next);
        }
    }
}

/// Waits until there is something to look through.
fn due(queue: &Queue) -> Vec<Arc<Streams>> {
    let mut ends = queue.ends.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let now = uptime(Instant::now());
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut *ends).into_iter().partition(|(at, _)| *at <= now);
        *ends = later;
        if !due.is_empty() {
            return due.iter().filter_map(|(_, streams)| streams.upgrade()).collect();
        }
        let next = ends.iter().map(|(at, _)| at.saturating_sub(now)).min();
        ends = match next {
            None => queue.is_changed.wait(ends).unwrap_or_else(PoisonError::into_inner),
            Some(time) => queue.is_changed.wait_timeout(ends, time).unwrap_or_else(PoisonError::into_inner).0,
        };
    }
}

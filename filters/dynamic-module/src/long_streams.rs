//! Long-running streams, which other threads end or send commands to: the timer ends those whose server was removed and sessions
//! that took too long, for all clusters, and watches of an Envoy that shuts down.

use std::cell::Cell;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use envoy_abi::http::FilterHandle;
use portcullis_core::Moment;
use portcullis_core::exchange::RouteUpdate;
use portcullis_core::long_streams::{Shutdown, StreamHandle, StreamOwners};
use portcullis_core::schedule::Task;
use rustls_pki_types::UnixTime;

use crate::memory::uptime;
use crate::timer::{StreamWaker, run_at};

/// Time in which Envoy has refused a configuration, if it refuses it: it does so before the main thread does anything else.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// A handle of a long-running stream.
pub(crate) type LongStream = StreamHandle<StreamWaker>;

/// The long-running streams of all clusters, over all edits.
pub(crate) static STREAMS: LazyLock<StreamOwners<LongStream>> = LazyLock::new(StreamOwners::default);
/// The changes of configurations that Envoy may yet refuse.
static UPDATES: LazyLock<Arc<Updates>> = LazyLock::new(Arc::default);
static SHUTDOWN: OnceLock<Arc<Shutdown<StreamWaker>>> = OnceLock::new();

/// Sends clients away within that time; once. The agent that runs Envoy says when to begin.
pub(crate) fn shut_down(time: Duration) {
    let now = uptime(Instant::now());
    let shutdown = Arc::new(Shutdown::new(&STREAMS, now.saturating_add(time)));
    if SHUTDOWN.set(Arc::clone(&shutdown)).is_ok() {
        run_at(&shutdown, now);
    }
}

/// Updates, each with the uptime at which it is applied.
#[derive(Default)]
struct Updates(Mutex<Vec<(Duration, RouteUpdate<LongStream>)>>);

/// Applies the changes of a configuration once Envoy uses it.
pub(crate) fn apply_if_used(update: RouteUpdate<LongStream>) {
    let at = uptime(Instant::now()).saturating_add(REFUSAL_TIME);
    UPDATES.0.lock().unwrap_or_else(PoisonError::into_inner).push((at, update));
    if !run_at(&UPDATES, at) {
        UPDATES.run(at);
    }
}

impl Task for Updates {
    fn run(&self, uptime: Duration) -> Option<Duration> {
        let (due, next) = {
            let mut updates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let due: Vec<_> = updates.extract_if(.., |(at, _)| *at <= uptime).collect();
            (due, updates.iter().map(|(at, _)| *at).min())
        };
        let now = Moment { now: UnixTime::now(), uptime };
        for (_, update) in due {
            for (streams, at) in update.apply(&STREAMS, now) {
                run_at(&streams, at);
            }
        }
        next
    }
}

/// Has the streams of this worker look at their end whose edition has to go. The timer ends those that run for long.
pub(crate) fn end_editions(stream: &FilterHandle) {
    thread_local! {
        /// The number of [`StreamOwners::ended`] that this worker has acted on.
        static SEEN: Cell<u64> = const { Cell::new(0) };
    }
    let ended = STREAMS.ended();
    if SEEN.replace(ended) != ended {
        let editions = STREAMS.ended_editions();
        stream.wake_streams(|edition| editions.contains(&edition));
    }
}

//! Long-running streams, which other threads end or send commands to: the timer ends those whose server was removed and sessions
//! that took too long, for all clusters, and watches of an Envoy that shuts down.

use std::cell::Cell;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use envoy_abi::http::FilterHandle;
use portcullis_core::Moment;
use portcullis_core::exchange::{PendingUpdates, RouteUpdate};
use portcullis_core::long_streams::{Shutdown, StreamHandle, StreamOwners};
use portcullis_core::next_turn::{NextTurn, TurnPlace};
use portcullis_core::schedule::Task;
use rustls_pki_types::UnixTime;

use crate::memory::uptime;
use crate::timer::{ConfigWaker, StreamWaker, run_at};

/// Time after which changes apply once Envoy uses their configuration: its workers get it meanwhile. Also the time in which Envoy has
/// refused a configuration where no turn of the main thread shows it.
const APPLY_AFTER: Duration = Duration::from_secs(1);
/// Time after which changes apply although the turn of the main thread has not come that was asked for.
const MAX_TURN_TIME: Duration = Duration::from_secs(60);

/// A handle of a long-running stream.
pub(crate) type LongStream = StreamHandle<StreamWaker>;

/// The long-running streams of all clusters, over all edits.
pub(crate) static STREAMS: LazyLock<StreamOwners<LongStream>> = LazyLock::new(StreamOwners::default);
/// The changes of configurations that Envoy may yet refuse.
static UPDATES: LazyLock<Arc<Updates>> = LazyLock::new(Arc::default);
/// The next turn of the main thread: Envoy has taken or refused a configuration before it does anything else there.
static TURN: LazyLock<Arc<NextTurn<ConfigWaker>>> = LazyLock::new(Arc::default);
static SHUTDOWN: OnceLock<Arc<Shutdown<StreamWaker>>> = OnceLock::new();

/// Sends clients away within that time; once. The agent that runs Envoy says when to begin.
pub(crate) fn shut_down(time: Duration) {
    let now = uptime(Instant::now());
    let shutdown = Arc::new(Shutdown::new(&STREAMS, now.saturating_add(time)));
    if SHUTDOWN.set(Arc::clone(&shutdown)).is_ok() {
        run_at(&shutdown, now);
    }
}

#[derive(Default)]
struct Updates(Mutex<PendingUpdates<LongStream>>);

/// A filter configuration, as one that can be woken on the main thread.
pub(crate) fn join_turns(waker: ConfigWaker) -> TurnPlace<ConfigWaker> {
    TURN.join(waker)
}

/// Applies the changes of a configuration once Envoy uses it. On the main thread.
pub(crate) fn apply_if_used(update: RouteUpdate<LongStream>) {
    let time = if TURN.ask() { MAX_TURN_TIME } else { APPLY_AFTER };
    let now = uptime(Instant::now());
    let at = now.saturating_add(time);
    UPDATES.lock().add(update, at);
    if !run_at(&UPDATES, now.saturating_add(APPLY_AFTER)) {
        UPDATES.run(at);
    }
}

/// Notes a turn of the main thread: Envoy uses all configurations of before, but for those that it has refused.
pub(crate) fn begin_turn() {
    if !TURN.begin() {
        return;
    }
    let at = uptime(Instant::now()).saturating_add(APPLY_AFTER);
    let refused = UPDATES.lock().settle(at);
    drop(refused);
    run_at(&UPDATES, at);
}

impl Updates {
    fn lock(&self) -> MutexGuard<'_, PendingUpdates<LongStream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Without the lock between: a panic in one leaves the others to the next run.
    fn take_due(&self, uptime: Duration) -> Option<RouteUpdate<LongStream>> {
        self.lock().take_due(uptime)
    }
}

impl Task for Updates {
    fn run(&self, uptime: Duration) -> Option<Duration> {
        let now = Moment { now: UnixTime::now(), uptime };
        while let Some(update) = self.take_due(uptime) {
            for (streams, at) in update.apply(&STREAMS, now) {
                run_at(&streams, at);
            }
        }
        let (next, is_settled) = {
            let updates = self.lock();
            (updates.next(), updates.is_settled())
        };
        if is_settled {
            return next;
        }
        // The configuration that was asked for the turn may be gone, and so may the next one.
        TURN.ask();
        let again = uptime.saturating_add(APPLY_AFTER);
        Some(next.map_or(again, |next| next.min(again)))
    }
}

/// Has the streams of this worker look at their end whose load has to go, once for each end of a load. The timer ends those that run for
/// long.
pub(crate) fn end_loads(stream: &FilterHandle) {
    thread_local! {
        /// The number of [`StreamOwners::ended`] that this worker has acted on.
        static SEEN: Cell<u64> = const { Cell::new(0) };
    }
    let ended = STREAMS.ended();
    let seen = SEEN.replace(ended);
    if seen != ended {
        let loads = STREAMS.ended_loads(seen);
        stream.wake_streams(|group| loads.contains(group));
    }
}

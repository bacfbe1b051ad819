//! Long-running streams, which other threads end or send commands to: one thread ends those whose server was removed and
//! sessions that took too long, for all clusters.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};

use envoy_abi::http::{FilterHandle, StreamScheduler};
use portcullis_core::long_streams::{StreamRegistry as Registry, TerminationReason};
use portcullis_core::weak_map::WeakMap;

use crate::memory::uptime;
use crate::timer::{Task, run_at};

type StreamRegistry = Registry<LongStream>;

/// By the cluster's name over all edits.
static STREAMS: LazyLock<WeakMap<String, StreamRegistry>> = LazyLock::new(WeakMap::default);

/// A handle of a long-running stream.
#[derive(Clone, Debug)]
pub(crate) struct LongStream(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    scheduler: StreamScheduler,
    is_watch: bool,
    termination: OnceLock<TerminationReason>,
    /// Commands that were sent and not applied yet, one bit each.
    commands: AtomicU8,
    is_end_sent: AtomicBool,
    /// Whether the response was ended here: Envoy keeps a stream whose client does not read, and must not end it again.
    is_finished: AtomicBool,
}

/// A command to a stream of an Envoy that shuts down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamCommand {
    /// Its connection takes no more requests.
    GoAway = 1,
    /// It ends, as if the upstream had ended it.
    End = 2,
}

impl LongStream {
    pub(crate) fn new(scheduler: StreamScheduler, is_watch: bool) -> Self {
        LongStream(Arc::new(Shared {
            scheduler,
            is_watch,
            termination: OnceLock::new(),
            commands: AtomicU8::new(0),
            is_end_sent: AtomicBool::new(false),
            is_finished: AtomicBool::new(false),
        }))
    }

    /// Sends a command. To be called by [`for_each`] only, while the stream cannot go.
    pub(crate) fn send(&self, command: StreamCommand) {
        self.0.commands.fetch_or(command as u8, Ordering::AcqRel);
        if command == StreamCommand::End {
            self.0.is_end_sent.store(true, Ordering::Release);
        }
        self.0.scheduler.wake();
    }

    /// Applies the commands that were sent.
    pub(crate) fn apply_commands(&self, stream: &mut FilterHandle) {
        let commands = self.0.commands.swap(0, Ordering::AcqRel);
        let is_sent = |command: StreamCommand| commands & command as u8 != 0;
        if is_sent(StreamCommand::GoAway) {
            stream.drain_connection();
        }
        if is_sent(StreamCommand::End) {
            self.finish(stream);
        }
    }

    /// Ends the response, once.
    pub(crate) fn finish(&self, stream: &mut FilterHandle) {
        if !self.0.is_finished.swap(true, Ordering::AcqRel) {
            stream.finish();
        }
    }

    /// Whether it is a watch that was not sent its end yet.
    pub(crate) fn is_watch(&self) -> bool {
        self.0.is_watch && !self.0.is_end_sent.load(Ordering::Acquire)
    }

    /// The reason to end it, if it is to end.
    pub(crate) fn termination(&self) -> Option<TerminationReason> {
        self.0.termination.get().copied()
    }

    fn terminate(&self, why: TerminationReason) {
        self.0.termination.get_or_init(|| why);
        self.0.scheduler.wake();
    }
}

/// The long-running streams of a cluster.
pub(crate) fn of_cluster(name: &str) -> Arc<StreamRegistry> {
    STREAMS.get_or_insert_with(name.to_owned(), StreamRegistry::default)
}

/// Calls `f` for the long-running streams of all clusters.
pub(crate) fn for_each(mut f: impl FnMut(&LongStream)) {
    STREAMS.for_each(|streams| streams.for_each(|stream| f(stream)));
}

/// Has the streams looked through at that uptime. Without a timer they go on.
pub(crate) fn call_at(streams: &Arc<StreamRegistry>, at: Duration) {
    run_at(streams, at);
}

impl Task for StreamRegistry {
    fn run(self: Arc<Self>) {
        if let Some(next) = self.expire(uptime(Instant::now()), LongStream::terminate) {
            call_at(&self, next);
        }
    }
}

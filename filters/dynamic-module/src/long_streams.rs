//! Long-running streams, which other threads end or send commands to: one thread ends those whose server was removed and
//! sessions that took too long, for all clusters.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use envoy_abi::http::StreamScheduler;
use portcullis_core::long_streams::{StreamHandle, StreamRegistry as Registry, Wake};
use portcullis_core::weak_map::WeakMap;

use crate::memory::uptime;
use crate::timer::{Task, run_at};

/// A handle of a long-running stream.
pub(crate) type LongStream = StreamHandle<Waker>;
type StreamRegistry = Registry<LongStream>;

/// By the cluster's name over all edits.
static STREAMS: LazyLock<WeakMap<String, StreamRegistry>> = LazyLock::new(WeakMap::default);

#[derive(Debug)]
pub(crate) struct Waker(pub(crate) StreamScheduler);

impl Wake for Waker {
    fn wake(&self) {
        self.0.wake();
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
        if let Some(next) = self.expire(uptime(Instant::now()), StreamHandle::terminate) {
            call_at(&self, next);
        }
    }
}

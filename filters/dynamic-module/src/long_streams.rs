//! Long-running streams, which other threads end or send commands to: one thread ends those whose server was removed and
//! sessions that took too long, for all clusters.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use envoy_abi::http::StreamScheduler;
use portcullis_core::long_streams::{StreamHandle, StreamOwners, StreamRegistry as Registry, Wake};

use crate::memory::uptime;
use crate::timer::{Task, run_at};

/// A handle of a long-running stream.
pub(crate) type LongStream = StreamHandle<Waker>;
type StreamRegistry = Registry<LongStream>;

/// The long-running streams of all clusters, over all edits.
pub(crate) static STREAMS: LazyLock<StreamOwners<LongStream>> = LazyLock::new(StreamOwners::default);

#[derive(Debug)]
pub(crate) struct Waker(pub(crate) StreamScheduler);

impl Wake for Waker {
    fn wake(&self) {
        self.0.wake();
    }
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

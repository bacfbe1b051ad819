//! Long-running streams, which other threads end or send commands to: the timer ends those whose server was removed and sessions
//! that took too long, for all clusters, and watches of an Envoy that shuts down.

use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};

use portcullis_core::long_streams::{Shutdown, StreamHandle, StreamRegistry};
use portcullis_core::weak_map::WeakMap;

use crate::memory::uptime;
use crate::timer::{StreamWaker, run_at};

/// A handle of a long-running stream.
pub(crate) type LongStream = StreamHandle<StreamWaker>;

/// By the cluster's name over all edits.
static STREAMS: LazyLock<WeakMap<String, StreamRegistry<LongStream>>> = LazyLock::new(WeakMap::default);
static SHUTDOWN: OnceLock<Arc<Shutdown<StreamWaker>>> = OnceLock::new();

/// The long-running streams of a cluster.
pub(crate) fn of_cluster(name: &str) -> Arc<StreamRegistry<LongStream>> {
    STREAMS.get_or_insert_with(name.to_owned(), StreamRegistry::default)
}

/// Sends clients away within that time; once. The agent that runs Envoy says when to begin.
pub(crate) fn shut_down(time: Duration) {
    let now = uptime(Instant::now());
    let shutdown = Arc::new(Shutdown::new(&STREAMS, now.saturating_add(time)));
    if SHUTDOWN.set(Arc::clone(&shutdown)).is_ok() {
        run_at(&shutdown, now);
    }
}

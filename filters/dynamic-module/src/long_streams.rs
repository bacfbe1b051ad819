//! Long-running streams, which other threads end or send commands to: the timer ends those whose server was removed and sessions
//! that took too long, for all clusters, and watches of an Envoy that shuts down.

use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};

use portcullis_core::long_streams::{Shutdown, StreamHandle, StreamOwners};

use crate::memory::uptime;
use crate::timer::{StreamWaker, run_at};

/// A handle of a long-running stream.
pub(crate) type LongStream = StreamHandle<StreamWaker>;

/// The long-running streams of all clusters, over all edits.
pub(crate) static STREAMS: LazyLock<StreamOwners<LongStream>> = LazyLock::new(StreamOwners::default);
static SHUTDOWN: OnceLock<Arc<Shutdown<StreamWaker>>> = OnceLock::new();

/// Sends clients away within that time; once. The agent that runs Envoy says when to begin.
pub(crate) fn shut_down(time: Duration) {
    let now = uptime(Instant::now());
    let shutdown = Arc::new(Shutdown::new(&STREAMS, now.saturating_add(time)));
    if SHUTDOWN.set(Arc::clone(&shutdown)).is_ok() {
        run_at(&shutdown, now);
    }
}

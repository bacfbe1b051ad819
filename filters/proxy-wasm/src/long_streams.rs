//! Ends streams whose server was removed, and sessions that took too long, when their time is over.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use portcullis_core::long_streams::{StreamOwners, StreamRegistry, TerminationReason};
use portcullis_core::schedule::Schedule;

/// The long-running streams of this VM, and when they have to be looked through.
#[derive(Debug, Default)]
pub(crate) struct LongStreams {
    pub(crate) streams: Rc<StreamOwners<u32>>,
    /// The number of [`StreamOwners::ended`] that was acted on.
    seen: u64,
    calls: Schedule<Arc<StreamRegistry<u32>>>,
}

impl LongStreams {
    /// Streams whose time is over.
    pub(crate) fn due(&mut self, uptime: Duration) -> Vec<(u32, TerminationReason)> {
        let over = std::cell::RefCell::new(Vec::new());
        for streams in self.calls.take_due(uptime) {
            if let Some(at) = streams.expire(uptime, |stream, why| over.borrow_mut().push((*stream, why))) {
                self.call_at(&streams, at);
            }
        }
        over.into_inner()
    }

    /// Whether further loads have ended since the last call.
    pub(crate) fn have_loads_ended(&mut self) -> bool {
        let ended = self.streams.ended();
        std::mem::replace(&mut self.seen, ended) != ended
    }

    /// The uptime at which there is something to look through, if there is.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.calls.next()
    }

    /// Has the streams looked through at that uptime.
    pub(crate) fn call_at(&mut self, streams: &Arc<StreamRegistry<u32>>, end: Duration) {
        self.calls.add(Arc::as_ptr(streams).addr(), Arc::clone(streams), end);
    }
}

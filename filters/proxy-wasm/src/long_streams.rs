//! Ends streams whose server was removed, and sessions that took too long, when their time is over.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::long_streams::{StreamRegistry, TerminationReason};
use portcullis_core::weak_map::WeakMap;

/// The long-running streams of this VM by cluster, and when they have to be looked through.
#[derive(Debug, Default)]
pub(crate) struct LongStreams {
    streams: WeakMap<String, StreamRegistry<u32>>,
    calls: Vec<(Duration, Arc<StreamRegistry<u32>>)>,
}

impl LongStreams {
    /// The streams of a cluster.
    pub(crate) fn of_cluster(&self, name: &str) -> Arc<StreamRegistry<u32>> {
        self.streams.get_or_insert_with(name.to_owned(), StreamRegistry::default)
    }

    /// Streams whose time is over.
    pub(crate) fn due(&mut self, uptime: Duration) -> Vec<(u32, TerminationReason)> {
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.calls).into_iter().partition(|(at, _)| *at <= uptime);
        self.calls = later;
        let over = std::cell::RefCell::new(Vec::new());
        for (_, streams) in due {
            if let Some(at) = streams.expire(uptime, |stream, why| over.borrow_mut().push((*stream, why))) {
                self.call_at(&streams, at);
            }
        }
        over.into_inner()
    }

    /// The uptime at which there is something to look through, if there is.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.calls.iter().map(|(at, _)| *at).min()
    }

    /// Has the streams looked through at that uptime.
    pub(crate) fn call_at(&mut self, streams: &Arc<StreamRegistry<u32>>, end: Duration) {
        match self.calls.iter_mut().find(|(_, known)| Arc::ptr_eq(known, streams)) {
            Some((at, _)) => *at = end.min(*at),
            None => self.calls.push((end, Arc::clone(streams))),
        }
    }
}

//! Ends streams whose server was taken away, and sessions that took too long, when their time is over.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::alive::Alive;
use portcullis_core::farewell::{Arrival, End, Stay, Streams};
use portcullis_filter_config::ClusterConfig;

/// The long-running streams of this VM by cluster, and when they have to be looked through.
#[derive(Debug, Default)]
pub(crate) struct Farewell {
    streams: Alive<String, Streams<u32>>,
    ends: Vec<(Duration, Arc<Streams<u32>>)>,
}

impl Farewell {
    /// The streams of a cluster.
    pub(crate) fn of(&self, name: &str) -> Arc<Streams<u32>> {
        self.streams.find_or_make(name.to_owned(), Streams::default)
    }

    /// Tells the cluster's streams which servers there are, and for how long sessions may run.
    pub(crate) fn configure(&mut self, streams: &Arc<Streams<u32>>, config: &ClusterConfig, uptime: Duration) {
        if let Some(servers) = &config.servers {
            let names = servers.names.iter().map(String::as_str);
            let end = streams.serve(names, Duration::from_secs(servers.drain_seconds), uptime);
            self.call_at(streams, end);
        }
        let end = streams.limit_sessions(config.session_limit_seconds.map(Duration::from_secs));
        self.call_at(streams, end);
    }

    /// Notes a stream.
    pub(crate) fn enter(
        &mut self,
        streams: &Arc<Streams<u32>>,
        arrival: Arrival<'_>,
        stream: u32,
        uptime: Duration,
    ) -> Stay<u32> {
        let (stay, end) = streams.enter(arrival, stream, uptime);
        self.call_at(streams, end);
        stay
    }

    /// Streams whose time is over.
    pub(crate) fn due(&mut self, uptime: Duration) -> Vec<(u32, End)> {
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.ends).into_iter().partition(|(at, _)| *at <= uptime);
        self.ends = later;
        let over = std::cell::RefCell::new(Vec::new());
        for (_, streams) in due {
            let next = streams.end_due(uptime, |stream, why| over.borrow_mut().push((*stream, why)));
            self.call_at(&streams, next);
        }
        over.into_inner()
    }

    /// When there is something to look through, if at all.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.ends.iter().map(|(at, _)| *at).min()
    }

    fn call_at(&mut self, streams: &Arc<Streams<u32>>, end: Option<Duration>) {
        let Some(end) = end else { return };
        match self.ends.iter_mut().find(|(_, known)| Arc::ptr_eq(known, streams)) {
            Some((at, _)) => *at = end.min(*at),
            None => self.ends.push((end, Arc::clone(streams))),
        }
    }
}

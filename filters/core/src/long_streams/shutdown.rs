//! Graceful shutdown of streams that a proxy cannot drain: connections on which no response begins, and open watches.
//!
//! Envoy sends `Connection: close` or GOAWAY with the headers of a response only.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{StreamCommand, StreamHandle, StreamOwners};
use crate::schedule::{Task, Wake};

/// Interval at which some watches end.
const INTERVAL: Duration = Duration::from_millis(100);

/// Closes every connection with a long-running request for further requests, and ends the watches one after the other, so that
/// they do not all reach the other gateways at once. A watch that begins meanwhile is ended, too. Runs until the proxy ends.
#[derive(Debug)]
pub struct Shutdown<W: 'static> {
    streams: &'static StreamOwners<StreamHandle<W>>,
    end: Duration,
    drains: AtomicBool,
}

impl<W: Wake> Shutdown<W> {
    /// Sends the clients of these streams away until that uptime.
    pub fn new(streams: &'static StreamOwners<StreamHandle<W>>, end: Duration) -> Self {
        Shutdown { streams, end, drains: AtomicBool::new(false) }
    }

    fn for_each(&self, mut f: impl FnMut(&StreamHandle<W>)) {
        self.streams.for_each(|streams| streams.for_each(&mut f));
    }

    /// Ends as many watches as are to end in one interval, for all to have ended after `left`.
    fn end_due_watches(&self, left: Duration) {
        let mut watches = 0;
        self.for_each(|stream| watches += usize::from(stream.is_open_watch()));
        let mut due = watches_to_end(watches, left, INTERVAL);
        self.for_each(|stream| {
            if due > 0 && stream.is_open_watch() {
                stream.send(StreamCommand::End);
                due -= 1;
            }
        });
    }
}

impl<W: Wake + Send + Sync> Task for Shutdown<W> {
    fn run(&self, uptime: Duration) -> Option<Duration> {
        // Noted first: after a panic the next step is taken, because the proxy waits for the streams.
        if !self.drains.swap(true, Ordering::Relaxed) {
            self.for_each(|stream| stream.send(StreamCommand::DrainConnection));
        }
        self.end_due_watches(self.end.saturating_sub(uptime));
        Some(uptime.saturating_add(INTERVAL))
    }
}

/// How many of the open watches of a proxy that shuts down end now, if this is asked at every interval: one after the other, so
/// that they do not all reach the other gateways at once. Rounded down: a few watches end at the end of the time, many all along.
fn watches_to_end(open: usize, left: Duration, interval: Duration) -> usize {
    let intervals = left.as_millis().checked_div(interval.as_millis()).unwrap_or(0).max(1);
    open.checked_div(usize::try_from(intervals).unwrap_or(usize::MAX)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_end_evenly_over_the_time() {
        let (interval, mut left, mut open) = (Duration::from_millis(100), Duration::from_secs(1), 100);
        let mut ended = Vec::new();
        while open > 0 {
            let due = watches_to_end(open, left, interval);
            ended.push(due);
            open -= due;
            left = left.saturating_sub(interval);
        }
        assert_eq!((ended.len(), ended.iter().max()), (10, Some(&10)));
        assert_eq!(watches_to_end(3, Duration::from_secs(1), interval), 0);
        assert_eq!(watches_to_end(3, Duration::ZERO, interval), 3);
    }
}

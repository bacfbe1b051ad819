//! Graceful shutdown of streams that Envoy cannot drain: connections on which no response begins, and open watches.
//!
//! Envoy sends `Connection: close` or GOAWAY with the headers of a response only. The agent that runs Envoy says when to begin.

use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

use envoy_abi::guard::guard;
use envoy_abi::log;
use portcullis_core::long_streams::{StreamCommand, watches_to_end};

use crate::long_streams::for_each;

static STARTED: Once = Once::new();
/// Interval at which some watches end.
const TICK: Duration = Duration::from_millis(100);

/// Sends clients away within that time; once.
pub(crate) fn begin(time: Duration) {
    STARTED.call_once(|| {
        let drain = move || drain_streams(time);
        if thread::Builder::new().name("portcullis-drain".to_owned()).spawn(drain).is_err() {
            log::error("portcullis: the thread that ends watches could not be started; they end with Envoy");
        }
    });
}

/// Closes every connection with a long-running request for further requests, and ends the watches one after the other, so that
/// they do not all reach the other gateways at once. A watch that begins meanwhile is ended, too. Runs until Envoy ends.
fn drain_streams(time: Duration) {
    const PANICKED: &str = "portcullis: a panic while streams are drained";
    // A panic ends one step, and the next one is taken: Envoy waits for the streams.
    let _ = guard(PANICKED, || for_each(|stream| stream.send(StreamCommand::DrainConnection)));
    let start = Instant::now();
    loop {
        let _ = guard(PANICKED, || end_due_watches(time.saturating_sub(start.elapsed())));
        thread::park_timeout(TICK);
    }
}

/// Ends as many watches as are to end in one tick, for all to have ended after `left`.
fn end_due_watches(left: Duration) {
    let mut watches = 0;
    for_each(|stream| watches += usize::from(stream.is_open_watch()));
    let mut due = watches_to_end(watches, left, TICK);
    for_each(|stream| {
        if due > 0 && stream.is_open_watch() {
            stream.send(StreamCommand::End);
            due -= 1;
        }
    });
}

//! An Envoy that is about to end sends away who would else not be told: connections on which no answer begins, and watches.
//!
//! Envoy tells a connection with the headers of an answer only. The agent that runs Envoy says by standard input when.

use std::io::BufRead;
use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

use envoy_abi::log;
use portcullis_filter_config::names;

use crate::farewell::{Wish, each_guest};

static STARTED: Once = Once::new();
/// How often some watches end.
const TICK: Duration = Duration::from_millis(100);

/// Listens to the agent, if one runs this Envoy.
pub(crate) fn listen() {
    STARTED.call_once(|| {
        if std::env::var_os(names::AGENT_VARIABLE).is_none() {
            return;
        }
        if thread::Builder::new().name("portcullis-leave".to_owned()).spawn(obey).is_err() {
            log::error("portcullis: the thread that listens to the agent could not be started; watches end with Envoy");
        }
    });
}

fn obey() {
    // The end of the input is the agent's end, and with it Envoy's.
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match within(&line) {
            Some(time) => leave(time),
            None => log::error("portcullis: the agent says what this module does not know"),
        }
    }
}

fn within(line: &str) -> Option<Duration> {
    let time = line.strip_prefix(names::AGENT_LEAVE)?.trim().parse().ok()?;
    Some(Duration::from_millis(time))
}

/// Sends every connection with a long-running request away, and ends the watches one after the other, so that they do not
/// all come to the other gateways at once. A watch that begins meanwhile has its turn, too. Returns with Envoy's end only.
fn leave(time: Duration) {
    each_guest(|guest| guest.tell(Wish::GoAway));
    let start = Instant::now();
    loop {
        let left = time.saturating_sub(start.elapsed());
        let ticks = (left.as_millis() / TICK.as_millis()).max(1);
        let mut watches: u128 = 0;
        each_guest(|guest| watches += u128::from(guest.is_watch()));
        // Rounded down: a few watches end at the end of the time, many all along.
        let mut due = watches / ticks;
        each_guest(|guest| {
            if due > 0 && guest.is_watch() {
                guest.tell(Wish::End);
                due -= 1;
            }
        });
        // Nobody wakes this thread: time is what it waits for.
        thread::park_timeout(TICK);
    }
}

//! Waits of a connection's streams for this process: for room, or until work of before is made up for. That nothing comes meanwhile is no
//! fault of the peer.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::held_messages::ProcessTime;
use crate::lock::lock;

/// The waits of one connection.
#[derive(Default)]
pub(super) struct Waits(Mutex<WaitTimes>);

#[derive(Default)]
struct WaitTimes {
    under_way: usize,
    /// When the last one ended.
    ended: Option<Instant>,
}

/// A wait that is under way. Messages are not read meanwhile.
pub(crate) struct Wait {
    waits: Arc<Waits>,
    _time: ProcessTime,
}

impl Waits {
    pub(super) fn begin(self: &Arc<Self>, time: ProcessTime) -> Wait {
        lock(&self.0).under_way += 1;
        Wait { waits: Arc::clone(self), _time: time }
    }

    /// Whether there was a wait within a time before `now`.
    pub(super) fn was_any(&self, within: Duration, now: Instant) -> bool {
        let times = lock(&self.0);
        times.under_way > 0 || times.ended.is_some_and(|ended| now.saturating_duration_since(ended) < within)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut times = lock(&self.waits.0);
        times.under_way = times.under_way.saturating_sub(1);
        times.ended = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::super::held_messages::HeldMessages;
    use super::*;

    #[test]
    fn wait_counts_while_it_is_under_way_and_for_a_time() {
        let (waits, within) = (Arc::new(Waits::default()), Duration::from_secs(10));
        let later = |seconds| Instant::now() + Duration::from_secs(seconds);
        assert!(!waits.was_any(within, later(0)));
        let messages = Arc::new(HeldMessages::default());
        let begin = || waits.begin(messages.wait(Instant::now()));
        let (first, second) = (begin(), begin());
        drop(first);
        assert!(waits.was_any(within, later(1_000)));
        drop(second);
        assert!(waits.was_any(within, later(9)) && !waits.was_any(within, later(11)));
    }
}

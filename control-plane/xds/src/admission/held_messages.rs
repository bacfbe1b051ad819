//! The times of large messages that have room. Others may wait for that room: a connection with a message that keeps it for too long
//! ends, whatever its streams do meanwhile. A stream that waits for the room of a response reads nothing, and has no event for a message.
//!
//! Each has two times. In that of its peer this process reads, and the message comes. The other one is that of this process: while one of
//! the connection's streams waits for it, or the message is whole and not decoded yet. Waits count for all streams of the connection,
//! because what one of them does not read takes the others' part of its flow control.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;

use crate::limits::Limits;
use crate::lock::lock;

/// The large messages of one connection that have room.
#[derive(Default)]
pub(super) struct HeldMessages(Mutex<MessageTable>);

#[derive(Default)]
struct MessageTable {
    next: u64,
    /// Waits for this process that are under way.
    waits: usize,
    /// By number.
    all: BTreeMap<u64, MessageTimes>,
}

/// The times for which a message has had room.
struct MessageTimes {
    of_peer: Duration,
    of_process: Duration,
    is_whole: bool,
    /// Until when the times are counted.
    counted: Instant,
}

/// Time in which messages are not read, by no fault of their peer.
pub(crate) struct ProcessTime(Arc<HeldMessages>);

/// The room of a large message until it is decoded: of its peer's, of its instance's or its Gateway's namespace's, and of that of all
/// network peers.
pub(crate) struct MessageRoom {
    _permits: Vec<OwnedSemaphorePermit>,
    of_connection: Arc<HeldMessages>,
    number: u64,
}

impl MessageTimes {
    /// The times of the peer and of this process.
    fn at(&self, now: Instant, are_waits: bool) -> (Duration, Duration) {
        let passed = now.saturating_duration_since(self.counted);
        match self.is_whole || are_waits {
            true => (self.of_peer, self.of_process.saturating_add(passed)),
            false => (self.of_peer.saturating_add(passed), self.of_process),
        }
    }
}

impl MessageTable {
    /// Counts all times until now, before it changes which of them pass.
    fn count(&mut self, now: Instant) {
        for times in self.all.values_mut() {
            (times.of_peer, times.of_process) = times.at(now, self.waits > 0);
            times.counted = now;
        }
    }
}

impl HeldMessages {
    /// Adds a message that has room, whose time begins.
    pub(super) fn add(self: &Arc<Self>, permits: Vec<OwnedSemaphorePermit>, now: Instant) -> MessageRoom {
        let mut table = lock(&self.0);
        let number = table.next;
        table.next += 1;
        let (of_peer, of_process) = (Duration::ZERO, Duration::ZERO);
        table.all.insert(number, MessageTimes { of_peer, of_process, is_whole: false, counted: now });
        MessageRoom { _permits: permits, of_connection: Arc::clone(self), number }
    }

    /// Begins a wait of one of the connection's streams for this process.
    pub(super) fn wait(self: &Arc<Self>, now: Instant) -> ProcessTime {
        self.begin_wait(now);
        ProcessTime(Arc::clone(self))
    }

    fn begin_wait(&self, now: Instant) {
        let mut table = lock(&self.0);
        table.count(now);
        table.waits += 1;
    }

    fn end_wait(&self, now: Instant) {
        let mut table = lock(&self.0);
        table.count(now);
        table.waits = table.waits.saturating_sub(1);
    }

    /// Whether one of them has had room for too long.
    pub(super) fn is_overdue(&self, limits: &Limits, now: Instant) -> bool {
        let table = lock(&self.0);
        table.all.values().any(|times| {
            let (of_peer, of_process) = times.at(now, table.waits > 0);
            of_peer >= limits.message_time || of_process >= limits.message_wait
        })
    }
}

impl Drop for ProcessTime {
    fn drop(&mut self) {
        self.0.end_wait(Instant::now());
    }
}

impl MessageRoom {
    /// The time that its peer still has until it has to be whole.
    pub(super) fn left(&self, limits: &Limits, now: Instant) -> Duration {
        let table = lock(&self.of_connection.0);
        let times = table.all.get(&self.number).map(|times| times.at(now, table.waits > 0));
        let (of_peer, _) = times.unwrap_or_default();
        limits.message_time.saturating_sub(of_peer)
    }

    /// Ends the time of its peer: the message is whole.
    pub(super) fn end_peers_time(&self, now: Instant) {
        let mut table = lock(&self.of_connection.0);
        table.count(now);
        if let Some(times) = table.all.get_mut(&self.number) {
            times.is_whole = true;
        }
    }
}

impl Drop for MessageRoom {
    fn drop(&mut self) {
        lock(&self.of_connection.0).all.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        let (message_time, message_wait) = (Duration::from_secs(30), Duration::from_secs(90));
        Limits { message_time, message_wait, ..Limits::default() }
    }

    /// The messages of a connection, and whether one is overdue so many seconds later.
    fn messages() -> (Arc<HeldMessages>, Instant, impl Fn(u64) -> bool) {
        let (messages, start) = (Arc::new(HeldMessages::default()), Instant::now());
        let table = Arc::clone(&messages);
        (messages, start, move |seconds: u64| table.is_overdue(&limits(), start + Duration::from_secs(seconds)))
    }

    #[test]
    fn message_is_overdue_whether_its_stream_is_read_or_not() {
        let (messages, start, is_overdue) = messages();
        let room = messages.add(Vec::new(), start);
        assert!(!is_overdue(29) && is_overdue(30));
        drop(room);
        assert!(!is_overdue(1_000_000));
    }

    #[test]
    fn time_in_which_nothing_is_read_has_a_bound_of_its_own() {
        let (messages, start, is_overdue) = messages();
        let at = |seconds| start + Duration::from_secs(seconds);
        let room = messages.add(Vec::new(), start);
        messages.begin_wait(at(10));
        messages.begin_wait(at(20));
        assert!(!is_overdue(99) && is_overdue(100), "it has passed for 90 seconds");
        messages.end_wait(at(40));
        assert_eq!(room.left(&limits(), at(50)), Duration::from_secs(20), "another one is under way");
        messages.end_wait(at(60));
        assert_eq!(room.left(&limits(), at(70)), Duration::from_secs(10));
        assert!(!is_overdue(79) && is_overdue(80));
    }

    #[test]
    fn message_that_is_whole_takes_no_time_of_its_peer() {
        let (messages, start, is_overdue) = messages();
        let room = messages.add(Vec::new(), start);
        room.end_peers_time(start + Duration::from_secs(29));
        assert!(!is_overdue(118) && is_overdue(119), "it is not decoded for 90 seconds");
        let _later = messages.add(Vec::new(), start + Duration::from_secs(29));
        assert!(is_overdue(59), "another one has a time of its own");
    }
}

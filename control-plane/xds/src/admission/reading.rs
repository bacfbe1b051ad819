//! The time in which a response has to be read. Until then it has room that others may wait for: the connection of a peer that does
//! not read ends, whatever the peer sends meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;

use crate::limits::Limits;
use crate::lock::lock;

/// The room that a response takes until the transport has its last frame; none for one that is too small to count.
#[derive(Default)]
pub(crate) struct ResponseRoom {
    _permits: Vec<OwnedSemaphorePermit>,
    _unread: Option<UnreadResponse>,
}

/// A response that is not read yet.
struct UnreadResponse {
    of_stream: Arc<AtomicUsize>,
    of_connection: Arc<UnreadResponses>,
    number: u64,
}

impl Drop for UnreadResponse {
    fn drop(&mut self) {
        self.of_stream.fetch_sub(1, Ordering::Relaxed);
        self.of_connection.remove(self.number);
    }
}

/// The responses of one stream that are not read yet.
pub(super) struct UnreadOfStream {
    count: Arc<AtomicUsize>,
    of_connection: Arc<UnreadResponses>,
}

impl UnreadOfStream {
    pub(super) fn new(of_connection: &Arc<UnreadResponses>) -> Self {
        Self { count: Arc::default(), of_connection: Arc::clone(of_connection) }
    }

    /// Adds a response that has room, whose time begins.
    pub(super) fn add(&self, bytes: usize, permits: Vec<OwnedSemaphorePermit>, limits: &Limits) -> ResponseRoom {
        self.count.fetch_add(1, Ordering::Relaxed);
        let number = self.of_connection.add(bytes, limits, Instant::now());
        let (of_stream, of_connection) = (Arc::clone(&self.count), Arc::clone(&self.of_connection));
        ResponseRoom { _permits: permits, _unread: Some(UnreadResponse { of_stream, of_connection, number }) }
    }

    pub(super) fn is_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }
}

/// The responses of one connection that are not read yet.
#[derive(Default)]
pub(super) struct UnreadResponses(Mutex<UnreadTable>);

#[derive(Default)]
struct UnreadTable {
    next: u64,
    bytes: usize,
    /// By number: its bytes, and until when it has to be read.
    all: BTreeMap<u64, (usize, Instant)>,
}

impl UnreadResponses {
    /// Adds a response. It comes behind the others, whose bytes give it more time.
    fn add(&self, bytes: usize, limits: &Limits, now: Instant) -> u64 {
        let mut table = lock(&self.0);
        table.bytes = table.bytes.saturating_add(bytes);
        let seconds = table.bytes as f64 / limits.reading_rate.max(1) as f64;
        let deadline = now + limits.reading + Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let number = table.next;
        table.next += 1;
        table.all.insert(number, (bytes, deadline));
        number
    }

    fn remove(&self, number: u64) {
        let mut table = lock(&self.0);
        if let Some((bytes, _)) = table.all.remove(&number) {
            table.bytes = table.bytes.saturating_sub(bytes);
        }
    }

    /// Whether the time of one of them is over.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        lock(&self.0).all.values().any(|(_, deadline)| *deadline <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_is_overdue_after_the_time_for_it_and_those_before() {
        let limits = Limits { reading: Duration::from_secs(60), reading_rate: 1_000, ..Limits::default() };
        let (unread, start) = (UnreadResponses::default(), Instant::now());
        let is_overdue = |seconds| unread.is_overdue(start + Duration::from_secs(seconds));
        let first = unread.add(5_000, &limits, start);
        let second = unread.add(10_000, &limits, start);
        assert!(!is_overdue(64) && is_overdue(65));
        unread.remove(first);
        assert!(!is_overdue(74) && is_overdue(75));
        unread.remove(second);
        assert!(!is_overdue(1_000_000));
        unread.add(0, &limits, start);
        assert!(!is_overdue(59) && is_overdue(60), "what was read takes no time of later ones");
    }
}

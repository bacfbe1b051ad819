use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use super::edition::Edition;

/// Bytes of a load of a configuration besides its text: the proxy's routes.
const LOAD_BYTES: usize = 32 << 10;
/// Most bytes that are counted of one part: sums of them stay exact.
const MAX_PART_BYTES: u64 = 1 << 40;

/// Streams of the load go on.
const GOING_ON: u8 = 0;
/// Streams of the load have to end.
const ENDED: u8 = 1;
/// A request has begun under the load after its end: the proxy has it as a route still.
const IN_USE: u8 = 2;

/// A load of a route table: those of all configurations that a proxy took together, the cluster's own and its variants at a listener. A
/// stream of one of them keeps all, because a proxy keeps the whole table for it. Alive for as long as one of them is.
#[derive(Debug)]
pub(crate) struct TableLoad {
    /// The uptime from which on it was the newest.
    since: Duration,
    /// Whether it has all configurations of its table. One alone is of a proxy that keeps each for itself.
    is_whole: bool,
    parts: Arc<[LoadPart]>,
    /// Those of its parts, which are few: configurations of a table are loaded one after the other.
    ids: Box<[RangeInclusive<u64>]>,
    state: AtomicU8,
}

/// The memory of one configuration in a load of a route table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadPart {
    /// That of the [`super::RouteLoad`].
    pub(super) id: u64,
    pub(super) edition: u64,
    /// The memory of the edition, which other loads may share.
    pub(super) edition_bytes: u64,
    /// That of the proxy's routes, which no other load shares.
    pub(super) route_bytes: u64,
}

impl LoadPart {
    /// That of a load of an edition by the load's id, with a text of that many bytes.
    pub(crate) fn new(id: u64, edition: &Edition, text: usize) -> Self {
        let counted = |bytes: usize| u64::try_from(bytes).unwrap_or(MAX_PART_BYTES).min(MAX_PART_BYTES);
        let [edition_bytes, route_bytes] = [edition.bytes(), text.saturating_add(LOAD_BYTES)].map(counted);
        LoadPart { id, edition: edition.id(), edition_bytes, route_bytes }
    }
}

impl TableLoad {
    /// The load of all configurations that a proxy took together, the newest from that uptime on.
    pub(crate) fn together(since: Duration, parts: impl Iterator<Item = LoadPart>) -> Arc<Self> {
        Self::new(since, true, parts.collect())
    }

    /// The load of one configuration that the proxy keeps for itself.
    pub(crate) fn alone(since: Duration, part: LoadPart) -> Arc<Self> {
        Self::new(since, false, Arc::new([part]))
    }

    fn new(since: Duration, is_whole: bool, parts: Arc<[LoadPart]>) -> Arc<Self> {
        let ids = ranges(parts.iter().map(|part| part.id).collect());
        Arc::new(TableLoad { since, is_whole, parts, ids, state: AtomicU8::new(GOING_ON) })
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    pub(super) fn since(&self) -> Duration {
        self.since
    }

    pub(super) fn parts(&self) -> &Arc<[LoadPart]> {
        &self.parts
    }

    /// The ids of its parts ([`super::RouteLoad::id`]).
    pub(super) fn ids(&self) -> &[RangeInclusive<u64>] {
        &self.ids
    }

    /// Whether its streams have to end.
    pub(super) fn is_ended(&self) -> bool {
        self.state.load(Ordering::Acquire) == ENDED
    }

    /// Notes that a request begins under it.
    pub(super) fn note_use(&self) {
        if self.is_ended() {
            let _changed = self.state.compare_exchange(ENDED, IN_USE, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    pub(super) fn end(&self) {
        self.state.store(ENDED, Ordering::Release);
    }

    /// Takes back that its streams have to end.
    pub(super) fn go_on(&self) {
        self.state.store(GOING_ON, Ordering::Release);
    }

    /// Whether a request has begun under it after its end. It goes on then.
    pub(super) fn was_used_after_its_end(&self) -> bool {
        self.state.compare_exchange(IN_USE, GOING_ON, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

fn ranges(mut ids: Vec<u64>) -> Box<[RangeInclusive<u64>]> {
    ids.sort_unstable();
    let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
    for id in ids {
        match ranges.last_mut().filter(|last| last.end().saturating_add(1) >= id) {
            Some(last) => *last = *last.start()..=id,
            None => ranges.push(id..=id),
        }
    }
    ranges.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_a_load_are_few_ranges() {
        let part = |id| LoadPart { id, edition: 0, edition_bytes: 0, route_bytes: 0 };
        for (ids, expected) in
            [(vec![], vec![]), (vec![7], vec![7..=7]), (vec![4, 3, 5, 9, 10, 12], vec![3..=5, 9..=10, 12..=12])]
        {
            let load = TableLoad::together(Duration::ZERO, ids.into_iter().map(part));
            assert_eq!(load.ids(), expected.as_slice());
        }
    }
}

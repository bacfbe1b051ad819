use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use portcullis_xds::SourceNetwork;

/// The number of unknown tokens under review, of all clients and of one source.
const MAX_AT_ONCE: u32 = 8;
const MAX_AT_ONCE_OF_SOURCE: u32 = 2;
/// Attempts of one source: a burst, and one more each second.
const BURST: u32 = 10;
const REFILL: Duration = Duration::from_secs(1);
/// The number of sources that are remembered.
const MAX_SOURCES: usize = 1_024;

/// Attempts to authenticate by tokens that are not known yet: bounded in number, so that a flood of wrong tokens is no flood of
/// reviews. Sessions and tokens that were reviewed a short time ago do not count.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    state: Arc<Mutex<AttemptState>>,
}

#[derive(Debug, Default)]
struct AttemptState {
    at_once: u32,
    sources: BTreeMap<SourceNetwork, SourceAttempts>,
}

#[derive(Debug)]
struct SourceAttempts {
    at_once: u32,
    /// The time at which all attempts of the burst are free again.
    full_at: Instant,
}

/// An attempt that is under way. Its end is this value's.
#[derive(Debug)]
pub(super) struct Attempt {
    state: Arc<Mutex<AttemptState>>,
    source: SourceNetwork,
}

impl Attempts {
    /// Begins an attempt; `None` where there are too many.
    pub(super) fn begin(&self, address: IpAddr, now: Instant) -> Option<Attempt> {
        let source = SourceNetwork::from_address(address);
        let mut state = lock(&self.state);
        if state.at_once >= MAX_AT_ONCE {
            return None;
        }
        if state.sources.len() >= MAX_SOURCES {
            // A source that could begin a whole burst is one without a past.
            state.sources.retain(|_, one| one.at_once > 0 || one.full_at > now);
        }
        if state.sources.len() >= MAX_SOURCES && !state.sources.contains_key(&source) {
            return None;
        }
        let one = state.sources.entry(source).or_insert(SourceAttempts { at_once: 0, full_at: now });
        let full_at = one.full_at.max(now) + REFILL;
        if one.at_once >= MAX_AT_ONCE_OF_SOURCE || full_at > now + REFILL * BURST {
            return None;
        }
        one.full_at = full_at;
        one.at_once += 1;
        state.at_once += 1;
        Some(Attempt { state: Arc::clone(&self.state), source })
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.at_once = state.at_once.saturating_sub(1);
        if let Some(one) = state.sources.get_mut(&self.source) {
            one.at_once = one.at_once.saturating_sub(1);
        }
    }
}

/// Each change is whole: a panic elsewhere leaves nothing half done.
fn lock(state: &Mutex<AttemptState>) -> MutexGuard<'_, AttemptState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn attempts_of_one_source_are_bounded_in_time() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        let tries = |seconds| {
            (0..100).filter(|_| attempts.begin(address(1), now + Duration::from_secs(seconds)).is_some()).count()
        };
        assert_eq!([tries(0), tries(1), tries(3), tries(100)], [10, 1, 2, 10]);
        assert!(attempts.begin(address(2), now).is_some(), "another source has attempts of its own");
    }

    #[test]
    fn attempts_under_way_are_bounded_for_each_source_and_for_all() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        let mut held: Vec<Attempt> = (0..10).flat_map(|_| attempts.begin(address(1), now)).collect();
        assert_eq!(held.len(), 2);
        held.extend(
            (2..100)
                .flat_map(|last| [attempts.begin(address(last), now), attempts.begin(address(last), now)])
                .flatten(),
        );
        assert_eq!(held.len(), 8);
        assert!(attempts.begin(address(200), now).is_none());
        drop(held);
        assert!(attempts.begin(address(200), now).is_some(), "their ends make room");
    }

    #[test]
    fn flood_of_sources_is_forgotten() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        let source = |number: u32| IpAddr::from(number.to_be_bytes());
        let begun = (0..5_000).filter(|number| attempts.begin(source(*number), now).is_some()).count();
        assert_eq!((begun, lock(&attempts.state).sources.len()), (MAX_SOURCES, MAX_SOURCES));
        assert!(attempts.begin(source(9_999), now + REFILL).is_some());
        assert_eq!(lock(&attempts.state).sources.len(), 1);
    }
}

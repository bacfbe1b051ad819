use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use portcullis_xds::SourceNetwork;

use crate::listen::Connection;

/// The number of unknown tokens under review, of all clients and of one source.
const MAX_AT_ONCE: u32 = 8;
const MAX_AT_ONCE_OF_SOURCE: u32 = 2;
/// Attempts of one client: a burst, and one more each second.
const OF_CLIENT: AttemptRate =
    AttemptRate { burst: 10, refill: Duration::from_secs(1), at_once: MAX_AT_ONCE_OF_SOURCE };
/// Attempts of all clients of one proxy together.
const OF_PROXY: AttemptRate = AttemptRate { burst: 100, refill: Duration::from_millis(100), at_once: MAX_AT_ONCE };
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
    sources: BTreeMap<AttemptSource, SourceAttempts>,
}

/// The number of attempts of one source.
#[derive(Clone, Copy, Debug)]
struct AttemptRate {
    burst: u32,
    /// The time after which there is one more.
    refill: Duration,
    at_once: u32,
}

/// A source of attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AttemptSource {
    Client(SourceNetwork),
    Proxy(SourceNetwork),
}

impl AttemptSource {
    const fn rate(self) -> AttemptRate {
        match self {
            AttemptSource::Client(_) => OF_CLIENT,
            AttemptSource::Proxy(_) => OF_PROXY,
        }
    }
}

/// The sender of a token: a client, and the proxy that it came by.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenSender {
    address: IpAddr,
    proxy: Option<IpAddr>,
}

impl TokenSender {
    /// That of a request. Only a declared proxy is believed, and of its header only the hop that it wrote itself.
    pub(super) fn of(headers: &HeaderMap, connection: &Connection, behind_tls_proxy: bool) -> Self {
        let peer = connection.peer.ip();
        match last_hop(headers).filter(|_| behind_tls_proxy) {
            Some(address) => Self { address, proxy: Some(peer) },
            None => Self { address: peer, proxy: None },
        }
    }

    fn sources(self) -> Vec<AttemptSource> {
        let proxy = self.proxy.map(|proxy| AttemptSource::Proxy(SourceNetwork::from_address(proxy)));
        [Some(AttemptSource::Client(SourceNetwork::from_address(self.address))), proxy].into_iter().flatten().collect()
    }
}

/// The address that the nearest proxy wrote.
fn last_hop(headers: &HeaderMap) -> Option<IpAddr> {
    let line = headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
    let hop = line.rsplit(',').next()?.trim();
    let bare = hop.strip_prefix('[').and_then(|hop| hop.strip_suffix(']')).unwrap_or(hop);
    bare.parse().ok().or_else(|| hop.parse::<SocketAddr>().ok().map(|address| address.ip()))
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
    sources: Vec<AttemptSource>,
}

impl Attempts {
    /// Begins an attempt; `None` where there are too many.
    pub(super) fn begin(&self, client: TokenSender, now: Instant) -> Option<Attempt> {
        let sources = client.sources();
        let mut state = lock(&self.state);
        if state.at_once >= MAX_AT_ONCE || !sources.iter().all(|source| state.admits(*source, now)) {
            return None;
        }
        for source in &sources {
            let one = state.sources.entry(*source).or_insert(SourceAttempts { at_once: 0, full_at: now });
            one.full_at = one.full_at.max(now) + source.rate().refill;
            one.at_once += 1;
        }
        state.at_once += 1;
        Some(Attempt { state: Arc::clone(&self.state), sources })
    }
}

impl AttemptState {
    /// Whether a source has an attempt left, and there is room to remember it.
    fn admits(&mut self, source: AttemptSource, now: Instant) -> bool {
        if self.sources.len() >= MAX_SOURCES {
            // A source that could begin a whole burst is one without a past.
            self.sources.retain(|_, one| one.at_once > 0 || one.full_at > now);
        }
        let Some(one) = self.sources.get(&source) else { return self.sources.len() < MAX_SOURCES };
        let AttemptRate { burst, refill, at_once } = source.rate();
        one.at_once < at_once && one.full_at.max(now) + refill <= now + refill * burst
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.at_once = state.at_once.saturating_sub(1);
        for source in &self.sources {
            if let Some(one) = state.sources.get_mut(source) {
                one.at_once = one.at_once.saturating_sub(1);
            }
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

    fn address(last: u8) -> TokenSender {
        TokenSender { address: IpAddr::from([192, 0, 2, last]), proxy: None }
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
        let source = |number: u32| TokenSender { address: IpAddr::from(number.to_be_bytes()), proxy: None };
        let begun = (0..5_000).filter(|number| attempts.begin(source(*number), now).is_some()).count();
        assert_eq!((begun, lock(&attempts.state).sources.len()), (MAX_SOURCES, MAX_SOURCES));
        assert!(attempts.begin(source(9_999), now + OF_CLIENT.refill).is_some());
        assert_eq!(lock(&attempts.state).sources.len(), 1);
    }
}

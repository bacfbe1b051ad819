use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_core::state_store::SharedData;

use crate::abi::{Hostcalls, LocalResponse, Map, MetricKind};

/// An Envoy with one stream at a time, whose clones share everything, as workers do.
#[derive(Clone, Debug, Default)]
pub(super) struct Fake(Arc<Mutex<State>>);

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) headers: Vec<(String, String)>,
    pub(super) trailers: Vec<(String, String)>,
    /// A name that is not removed, from headers or trailers.
    pub(super) sticks: Option<String>,
    pub(super) closed: u32,
    pub(super) properties: BTreeMap<String, Vec<u8>>,
    /// Properties that were asked for.
    pub(super) asked: Vec<String>,
    pub(super) filter_state: BTreeMap<String, Vec<u8>>,
    pub(super) replies: Vec<(u16, String)>,
    pub(super) callouts: Vec<(String, Vec<u8>)>,
    pub(super) callout_status: String,
    pub(super) callout_body: Vec<u8>,
    pub(super) continued: u32,
    pub(super) cleared: u32,
    pub(super) seconds: u64,
    pub(super) shared: HashMap<Vec<u8>, (Vec<u8>, u32)>,
}

impl Fake {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn header_values(&self, wanted: &str) -> Vec<String> {
        let state = self.state();
        state.headers.iter().filter(|(name, _)| name == wanted).map(|(_, value)| value.clone()).collect()
    }
}

impl SharedData for Fake {
    fn uptime(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.state().seconds))
    }

    fn random(&self) -> Option<[u8; 32]> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        Some(bytes)
    }

    fn shared(&self, key: &[u8]) -> Option<(Vec<u8>, u32)> {
        self.state().shared.get(key).cloned()
    }

    fn set_shared(&self, key: &[u8], value: &[u8], cas: u32) -> bool {
        let mut state = self.state();
        let known = state.shared.get(key).map_or(0, |(_, number)| *number);
        if cas != 0 && cas != known {
            return false;
        }
        state.shared.insert(key.to_vec(), (value.to_vec(), known + 1));
        true
    }
}

impl Hostcalls for Fake {
    fn log(&self, message: &str) {
        eprintln!("{message}");
    }

    fn now(&self) -> Option<Duration> {
        Some(Duration::from_secs(1_700_000_000 + self.state().seconds))
    }

    fn tick_every(&self, _period: Duration) {}

    fn act_for(&self, _context: u32) -> bool {
        true
    }

    fn continue_request(&self) {
        self.state().continued += 1;
    }

    fn close_request(&self) {
        self.state().closed += 1;
    }

    fn headers(&self, map: Map) -> Option<Vec<u8>> {
        let state = self.state();
        let pairs = match map {
            Map::Request => &state.headers,
            Map::RequestTrailers => &state.trailers,
            _ => return None,
        };
        let lines: Vec<_> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        Some(crate::abi::header_map::write(&lines))
    }

    fn header(&self, map: Map, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        match map {
            Map::Callout => (name == ":status").then(|| state.callout_status.clone().into_bytes()),
            Map::Request => {
                state.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone().into())
            }
            _ => None,
        }
    }

    fn set_header(&self, name: &[u8], value: &[u8]) -> bool {
        self.remove_header(Map::Request, name) && self.add_header(name, value)
    }

    fn add_header(&self, name: &[u8], value: &[u8]) -> bool {
        self.state()
            .headers
            .push((String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(value).into_owned()));
        true
    }

    fn remove_header(&self, map: Map, name: &[u8]) -> bool {
        let mut state = self.state();
        if state.sticks.as_deref().map(str::as_bytes) == Some(name) {
            return false;
        }
        let pairs = if map == Map::RequestTrailers { &mut state.trailers } else { &mut state.headers };
        pairs.retain(|(known, _)| known.as_bytes() != name);
        true
    }

    fn property(&self, path: &str) -> Option<Vec<u8>> {
        let mut state = self.state();
        state.asked.push(path.to_owned());
        state.properties.get(path).cloned()
    }

    fn set_filter_state(&self, name: &str, value: &[u8]) -> bool {
        self.state().filter_state.insert(name.to_owned(), value.to_vec());
        true
    }

    fn clear_route_cache(&self) -> bool {
        self.state().cleared += 1;
        true
    }

    fn callout(&self, cluster: &str, _headers: &[(&str, &str)], body: &[u8], _timeout_ms: u32) -> Option<u32> {
        let mut state = self.state();
        state.callouts.push((cluster.to_owned(), body.to_vec()));
        u32::try_from(state.callouts.len()).ok()
    }

    fn callout_body(&self, most: usize) -> Option<Vec<u8>> {
        let body = self.state().callout_body.clone();
        Some(body.get(..most).map_or(body.clone(), <[u8]>::to_vec))
    }

    fn reply(&self, response: &LocalResponse<'_>) -> bool {
        self.state().replies.push((response.status, response.details.to_owned()));
        true
    }

    fn metric(&self, _kind: MetricKind, _name: &str) -> Option<u32> {
        Some(1)
    }

    fn add_metric(&self, _id: u32, _by: i64) {}

    fn record_metric(&self, _id: u32, _value: u64) {}
}

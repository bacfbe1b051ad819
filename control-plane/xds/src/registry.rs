use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{DeltaStream, TypeStatus};

/// Where one node stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// The node's id, as it tells it.
    pub id: String,
    /// Whether its stream is open.
    pub connected: bool,
    /// By type URL.
    pub types: BTreeMap<String, TypeStatus>,
    /// The version of the newest snapshot that its stream knows.
    pub snapshot: String,
    /// Whether all that it subscribed to is acknowledged as it stands in that snapshot.
    pub in_sync: bool,
}

/// Every node that was seen, up to a bound: of those that are gone the last ones are kept.
#[derive(Debug, Default)]
pub struct Registry {
    streams: Mutex<Streams>,
}

#[derive(Debug, Default)]
struct Streams {
    next: u64,
    open: BTreeMap<u64, NodeStatus>,
    gone: BTreeMap<String, NodeStatus>,
}

/// Most nodes that are remembered after they left.
const MAX_GONE: usize = 1_000;

impl Registry {
    /// Every node, sorted by id. A node with two streams, as for a moment after a reconnect, occurs twice.
    pub fn nodes(&self) -> Vec<NodeStatus> {
        let streams = self.lock();
        let is_open = |id: &str| streams.open.values().any(|node| node.id == id);
        let mut nodes: Vec<_> = streams.open.values().cloned().collect();
        nodes.extend(streams.gone.values().filter(|node| !is_open(&node.id)).cloned());
        nodes.sort_by(|a, b| a.id.cmp(&b.id));
        nodes
    }

    pub(crate) fn open(&self) -> u64 {
        let mut streams = self.lock();
        streams.next += 1;
        streams.next
    }

    /// Tells whether the node has come to be in sync with a snapshot.
    pub(crate) fn update(&self, id: u64, stream: &DeltaStream) -> bool {
        let status = NodeStatus {
            id: stream.node().to_owned(),
            connected: true,
            types: stream.status(),
            snapshot: stream.snapshot_version().to_owned(),
            in_sync: stream.is_in_sync(),
        };
        let synced = |status: &NodeStatus| status.in_sync.then(|| status.snapshot.clone());
        let now = synced(&status);
        let before = self.lock().open.insert(id, status);
        now.is_some() && now != before.as_ref().and_then(synced)
    }

    pub(crate) fn close(&self, id: u64) {
        let mut streams = self.lock();
        let Some(status) = streams.open.remove(&id) else { return };
        if streams.gone.len() >= MAX_GONE && !streams.gone.contains_key(&status.id) {
            streams.gone.pop_first();
        }
        streams.gone.insert(status.id.clone(), NodeStatus { connected: false, in_sync: false, ..status });
    }

    /// A panic elsewhere leaves the maps whole: each change is one insertion or removal.
    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::observer::{Observed, Observer};
use crate::stream::NodeStream;
use crate::{Refused, Snapshot, Standing, TypeStatus};

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
    /// What it refuses of that snapshot.
    pub refused: Vec<Refused>,
}

/// Every node that was seen, up to a bound: of those that are gone the last ones are kept. Where a node stands is
/// computed when it is asked for.
#[derive(Default)]
pub struct Registry {
    streams: Mutex<Streams>,
    pub(crate) observed: Observed,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.nodes()).finish()
    }
}

/// A conversation that its task and the registry share.
pub(crate) type Shared = Arc<Mutex<dyn NodeStream>>;

#[derive(Default)]
struct Streams {
    next: u64,
    open: BTreeMap<u64, Shared>,
    gone: BTreeMap<String, NodeStatus>,
}

/// Most nodes that are remembered after they left.
const MAX_GONE: usize = 1_000;

impl Registry {
    /// A registry whose conversations are observed.
    pub fn observed_by(observer: Arc<dyn Observer>) -> Self {
        Self { observed: Observed::by(observer), ..Self::default() }
    }

    /// Every node, sorted by id. A node with two streams, as for a moment after a reconnect, occurs twice.
    pub fn nodes(&self) -> Vec<NodeStatus> {
        let (open, mut gone) = {
            let streams = lock(&self.streams);
            (self.open_streams(&streams), streams.gone.clone())
        };
        // One that has not told its name yet is nobody.
        let mut nodes: Vec<_> = open.iter().map(|one| status(one)).filter(|node| !node.id.is_empty()).collect();
        for node in &nodes {
            gone.remove(&node.id);
        }
        nodes.extend(gone.into_values());
        nodes.sort_by(|a, b| a.id.cmp(&b.id));
        nodes
    }

    /// Where every connected node stands with one owner's resources, as they stand in `snapshot`. Empty if the snapshot
    /// holds none of them.
    pub fn standing(&self, snapshot: &Snapshot, owner: &str) -> BTreeMap<String, Standing> {
        let open = self.open_streams(&lock(&self.streams));
        let mut standings: BTreeMap<String, Standing> = BTreeMap::new();
        for stream in open {
            let stream = lock(&stream);
            let Some(standing) = stream.standing(snapshot, owner).filter(|_| !stream.node().is_empty()) else {
                continue;
            };
            let known = standings.remove(stream.node());
            let standing = known.map_or(standing.clone(), |known| known.and(standing));
            standings.insert(stream.node().to_owned(), standing);
        }
        standings
    }

    fn open_streams(&self, streams: &Streams) -> Vec<Shared> {
        streams.open.values().cloned().collect()
    }

    pub(crate) fn open(&self, stream: Shared) -> u64 {
        let mut streams = lock(&self.streams);
        streams.next += 1;
        let id = streams.next;
        streams.open.insert(id, stream);
        id
    }

    pub(crate) fn close(&self, id: u64) {
        let Some(stream) = lock(&self.streams).open.remove(&id) else { return };
        let status = status(&stream);
        if status.id.is_empty() {
            return;
        }
        let mut streams = lock(&self.streams);
        if streams.gone.len() >= MAX_GONE && !streams.gone.contains_key(&status.id) {
            streams.gone.pop_first();
        }
        streams.gone.insert(status.id.clone(), NodeStatus { connected: false, in_sync: false, ..status });
    }
}

fn status(stream: &Mutex<dyn NodeStream>) -> NodeStatus {
    let stream = lock(stream);
    NodeStatus {
        id: stream.node().to_owned(),
        connected: true,
        types: stream.status(),
        snapshot: stream.snapshot_version().to_owned(),
        in_sync: stream.is_in_sync(),
        refused: stream.refused(),
    }
}

/// A panic elsewhere leaves the maps whole: each change is one insertion or removal.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::delta::DeltaStream;
use crate::observer::{Observed, Observer};
use crate::{Refused, Snapshot, Standing, TurnedAway, TypeStatus, View};

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
    /// What it is told.
    pub view: View,
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
pub(crate) type Shared = Arc<Mutex<DeltaStream>>;

#[derive(Default)]
struct Streams {
    next: u64,
    open: BTreeMap<u64, Open>,
    gone: BTreeMap<String, NodeStatus>,
    /// By node id and by who told it.
    turned_away: BTreeMap<(String, String), (String, u64)>,
}

#[derive(Clone)]
struct Open {
    stream: Shared,
    view: View,
}

/// Most nodes that are remembered because they were refused.
const MAX_TURNED_AWAY: usize = 100;

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
        let mut nodes: Vec<_> = open.iter().map(status).filter(|node| !node.id.is_empty()).collect();
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
        for Open { stream, view } in open {
            let stream = lock(&stream);
            let Some(snapshot) = snapshot.view(&view) else { continue };
            let Some(standing) = stream.standing(snapshot, owner).filter(|_| !stream.node().is_empty()) else {
                continue;
            };
            let known = standings.remove(stream.node());
            let standing = known.map_or(standing.clone(), |known| known.and(standing));
            standings.insert(stream.node().to_owned(), standing);
        }
        standings
    }

    /// Where one connected node stands with every owner's resources. Empty if it is not connected.
    pub(crate) fn standings_of(&self, snapshot: &Snapshot, node: &str) -> BTreeMap<String, Standing> {
        let mut standings = BTreeMap::new();
        let open = self.open_streams(&lock(&self.streams));
        for Open { stream, view } in open.into_iter().filter(|one| lock(&one.stream).node() == node) {
            let Some(snapshot) = snapshot.view(&view) else { continue };
            for owner in snapshot.owners() {
                // Locked for each, so that the conversation goes on in between.
                let Some(standing) = lock(&stream).standing(snapshot, owner) else { continue };
                let known: Option<Standing> = standings.remove(owner);
                let standing = known.map_or(standing.clone(), |known| known.and(standing));
                standings.insert(owner.to_owned(), standing);
            }
        }
        standings
    }

    fn open_streams(&self, streams: &Streams) -> Vec<Open> {
        streams.open.values().cloned().collect()
    }

    /// Nodes whose streams were refused, the last hundred of them.
    pub fn turned_away(&self) -> Vec<TurnedAway> {
        let streams = lock(&self.streams);
        let told = |((node, by), (reason, times)): (&(String, String), &(String, u64))| TurnedAway {
            node: node.clone(),
            by: by.clone(),
            reason: reason.clone(),
            times: *times,
        };
        streams.turned_away.iter().map(told).collect()
    }

    pub(crate) fn turn_away(&self, node: &str, by: &str, reason: &str) {
        tracing::warn!(node, by, reason, "a node was turned away");
        let mut streams = lock(&self.streams);
        let key = (node.to_owned(), by.to_owned());
        if streams.turned_away.len() >= MAX_TURNED_AWAY && !streams.turned_away.contains_key(&key) {
            streams.turned_away.pop_first();
        }
        let (told, times) = streams.turned_away.entry(key).or_default();
        reason.clone_into(told);
        *times += 1;
    }

    pub(crate) fn open(&self, stream: Shared, view: View) -> u64 {
        let mut streams = lock(&self.streams);
        streams.next += 1;
        let id = streams.next;
        streams.open.insert(id, Open { stream, view });
        id
    }

    pub(crate) fn close(&self, id: u64) {
        let Some(open) = lock(&self.streams).open.remove(&id) else { return };
        let status = status(&open);
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

fn status(open: &Open) -> NodeStatus {
    let stream = lock(&open.stream);
    NodeStatus {
        id: stream.node().to_owned(),
        connected: true,
        types: stream.status(),
        snapshot: stream.snapshot_version().to_owned(),
        in_sync: stream.is_in_sync(),
        refused: stream.refused(),
        view: open.view.clone(),
    }
}

/// A panic elsewhere leaves the maps whole: each change is one insertion or removal.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

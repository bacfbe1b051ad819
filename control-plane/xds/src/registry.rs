use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::delta::DeltaStream;
use crate::delta::TypeStatus;
use crate::metrics::{OptionalMetrics, XdsMetrics};
use crate::node::{Refused, RejectedNode, View, combined};
use crate::snapshot::Snapshot;
use portcullis_api::status::GatewayProgress;

/// The state of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// The node's id in its requests.
    pub id: String,
    /// Whether its stream is open.
    pub connected: bool,
    /// By type URL.
    pub types: BTreeMap<String, TypeStatus>,
    /// The version of its view in the newest snapshot that its stream knows.
    pub snapshot: String,
    /// Whether all that it subscribed to is acknowledged in that snapshot's version.
    pub in_sync: bool,
    /// The resources of that snapshot that it refuses.
    pub refused: Vec<Refused>,
    /// The view that it is sent.
    pub view: View,
}

/// Every node that was seen, up to a bound: of the disconnected ones the last are kept. States are computed on request.
#[derive(Default)]
pub struct Registry {
    streams: Mutex<Streams>,
    pub(crate) metrics: OptionalMetrics,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.nodes()).finish()
    }
}

/// A stream that its task and the registry share.
pub(crate) type SharedStream = Arc<Mutex<DeltaStream>>;

#[derive(Default)]
struct Streams {
    next: u64,
    open: BTreeMap<u64, OpenStream>,
    disconnected: BTreeMap<String, NodeStatus>,
    /// By node id and peer.
    rejected_nodes: BTreeMap<(String, String), RejectedNode>,
}

#[derive(Clone)]
struct OpenStream {
    stream: SharedStream,
    view: View,
}

/// The number of rejected nodes that are remembered.
const MAX_REJECTED_NODES: usize = 100;

/// Time for which a refused node counts as there. Envoy asks again within five seconds by our bootstrap, and within thirty by
/// its own default.
const FROZEN_MEMORY: Duration = Duration::from_secs(60);

/// The number of disconnected nodes that are remembered.
const MAX_DISCONNECTED: usize = 1_000;

impl Registry {
    /// A registry that counts into these metrics.
    pub fn with_metrics(metrics: Arc<dyn XdsMetrics>) -> Self {
        Self { metrics: OptionalMetrics::new(metrics), ..Self::default() }
    }

    /// Every node, sorted by id. A node with two streams, as for a moment after a reconnect, occurs twice.
    pub fn nodes(&self) -> Vec<NodeStatus> {
        let (open, mut disconnected) = {
            let streams = lock(&self.streams);
            (self.open_streams(&streams), streams.disconnected.clone())
        };
        // A stream without a node id is no node yet.
        let mut nodes: Vec<_> = open.iter().map(status).filter(|node| !node.id.is_empty()).collect();
        for node in &nodes {
            disconnected.remove(&node.id);
        }
        nodes.extend(disconnected.into_values());
        nodes.sort_by(|a, b| a.id.cmp(&b.id));
        nodes
    }

    /// The progress of every connected node with one owner's resources in `snapshot`. Empty if the snapshot holds none of them.
    pub fn progress(&self, snapshot: &Snapshot, owner: &str) -> BTreeMap<String, GatewayProgress> {
        let open = self.open_streams(&lock(&self.streams));
        let mut progresses: BTreeMap<String, GatewayProgress> = BTreeMap::new();
        for OpenStream { stream, view } in open {
            let stream = lock(&stream);
            let Some(snapshot) = snapshot.view(&view) else { continue };
            let Some(progress) = stream.progress(snapshot, owner).filter(|_| !stream.node().is_empty()) else {
                continue;
            };
            let known = progresses.remove(stream.node());
            let progress = known.map_or(progress.clone(), |known| combined(known, progress));
            progresses.insert(stream.node().to_owned(), progress);
        }
        progresses
    }

    /// The progress of every connected node of a view with all of that view in `snapshot`.
    pub fn view_progress(&self, snapshot: &Snapshot, view: &View) -> BTreeMap<String, GatewayProgress> {
        let open = self.open_streams(&lock(&self.streams));
        let Some(snapshot) = snapshot.view(view) else { return BTreeMap::new() };
        let mut progresses: BTreeMap<String, GatewayProgress> = BTreeMap::new();
        for OpenStream { stream, .. } in open.into_iter().filter(|one| one.view == *view) {
            let stream = lock(&stream);
            let progress = stream.progress_with_all(snapshot);
            let known = progresses.remove(stream.node());
            let progress = known.map_or(progress.clone(), |known| combined(known, progress));
            progresses.insert(stream.node().to_owned(), progress);
        }
        // A stream without a node id is no node yet.
        progresses.remove("");
        progresses
    }

    /// The progress of one connected node with every owner's resources. Empty if it is not connected.
    pub(crate) fn standings_of(&self, snapshot: &Snapshot, node: &str) -> BTreeMap<String, GatewayProgress> {
        let mut progresses = BTreeMap::new();
        let open = self.open_streams(&lock(&self.streams));
        for OpenStream { stream, view } in open.into_iter().filter(|one| lock(&one.stream).node() == node) {
            let Some(snapshot) = snapshot.view(&view) else { continue };
            for owner in snapshot.owners() {
                // Locked for each, so that the stream goes on in between.
                let Some(progress) = lock(&stream).progress(snapshot, owner) else { continue };
                let known: Option<GatewayProgress> = progresses.remove(owner);
                let progress = known.map_or(progress.clone(), |known| combined(known, progress));
                progresses.insert(owner.to_owned(), progress);
            }
        }
        progresses
    }

    fn open_streams(&self, streams: &Streams) -> Vec<OpenStream> {
        streams.open.values().cloned().collect()
    }

    /// Nodes whose streams were refused, at most a hundred of them. One that was let in later is not among them.
    pub fn rejected_nodes(&self) -> Vec<RejectedNode> {
        lock(&self.streams).rejected_nodes.values().cloned().collect()
    }

    /// Nodes that keep their last configuration because there is no view for them, with the reason, as long as they go on
    /// asking.
    pub fn frozen(&self, now: Instant) -> BTreeMap<String, String> {
        let streams = lock(&self.streams);
        let is_frozen = |one: &&RejectedNode| one.is_frozen && now.saturating_duration_since(one.last) < FROZEN_MEMORY;
        streams.rejected_nodes.values().filter(is_frozen).map(|one| (one.node.clone(), one.reason.clone())).collect()
    }

    /// Records that a stream was refused.
    pub(crate) fn record_rejection(&self, refused: RejectedNode) {
        let RejectedNode { node, by, reason, .. } = &refused;
        let key = (node.clone(), by.clone());
        let mut streams = lock(&self.streams);
        let times = streams.rejected_nodes.get(&key).map_or(0, |before| before.times);
        if times == 0 {
            tracing::warn!(node, by, reason, "a node was rejected");
        } else {
            tracing::debug!(node, by, reason, times, "a node was rejected again");
        }
        if streams.rejected_nodes.len() >= MAX_REJECTED_NODES && times == 0 {
            streams.rejected_nodes.pop_first();
        }
        streams.rejected_nodes.insert(key, RejectedNode { times: times + 1, ..refused });
    }

    /// Forgets that a node was refused: it is let in now.
    pub(crate) fn forget_rejection(&self, node: &str, by: &str) {
        lock(&self.streams).rejected_nodes.remove(&(node.to_owned(), by.to_owned()));
    }

    pub(crate) fn open(&self, stream: SharedStream, view: View) -> u64 {
        let mut streams = lock(&self.streams);
        streams.next += 1;
        let id = streams.next;
        streams.open.insert(id, OpenStream { stream, view });
        id
    }

    pub(crate) fn close(&self, id: u64) {
        let Some(open) = lock(&self.streams).open.remove(&id) else { return };
        let status = status(&open);
        if status.id.is_empty() {
            return;
        }
        let mut streams = lock(&self.streams);
        if streams.disconnected.len() >= MAX_DISCONNECTED && !streams.disconnected.contains_key(&status.id) {
            streams.disconnected.pop_first();
        }
        streams.disconnected.insert(status.id.clone(), NodeStatus { connected: false, in_sync: false, ..status });
    }
}

fn status(open: &OpenStream) -> NodeStatus {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frozen_node_is_listed_until_it_is_let_in_or_stays_away() {
        let (registry, start) = (Registry::default(), Instant::now());
        let refused = |node: &str, is_frozen| RejectedNode {
            node: node.to_owned(),
            by: "the socket".to_owned(),
            reason: "reads version 1".to_owned(),
            times: 0,
            is_frozen,
            last: start,
        };
        registry.record_rejection(refused("old", true));
        registry.record_rejection(refused("old", true));
        registry.record_rejection(refused("thief", false));
        let frozen = BTreeMap::from([("old".to_owned(), "reads version 1".to_owned())]);
        assert_eq!(registry.frozen(start), frozen, "one with another's name is not");
        assert_eq!(registry.rejected_nodes()[0].times, 2);
        assert_eq!(registry.frozen(start + FROZEN_MEMORY), BTreeMap::new());
        registry.forget_rejection("old", "the socket");
        assert_eq!(registry.frozen(start), BTreeMap::new());
        assert_eq!(registry.rejected_nodes().len(), 1);
    }
}

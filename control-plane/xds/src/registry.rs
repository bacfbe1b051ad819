mod remembered;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::changed_names::ChangedNames;
use crate::delta::TypeStatus;
use crate::lock::lock;
use crate::metrics::{OptionalMetrics, XdsMetrics};
use crate::node::{NodeRefusals, Refused, RejectedNode, View};
use crate::open_streams::{OpenStream, OpenStreams, SharedStream, add};
use crate::snapshot::Snapshot;
use portcullis_api::status::GatewayProgress;
use remembered::{MAX_DISCONNECTED, MAX_REJECTED, disconnected};

/// The state of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// The node's name: its id in its requests, with the instance or the Gateway of its certificate before it.
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

#[derive(Default)]
struct Streams {
    next: u64,
    open: BTreeMap<u64, OpenStream>,
    /// By name.
    disconnected: BTreeMap<String, NodeStatus>,
    /// By name and peer.
    rejected_nodes: BTreeMap<(String, String), RejectedNode>,
    /// Changes beside the events of open streams.
    changes: RegistryChanges,
}

/// Changes since they were taken last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistryChanges {
    /// Whether anything may be otherwise.
    pub is_any: bool,
    /// The owners with which a node's progress may be another one.
    pub owners: ChangedNames,
    /// The views with all of whose owners it may be.
    pub views: BTreeSet<View>,
}

impl RegistryChanges {
    /// Adds the owners with which the progress of a node of a view may be another one: it has none with those of other views.
    fn add(&mut self, view: &View, owners: ChangedNames) {
        self.is_any = true;
        match owners {
            ChangedNames::All => {
                self.views.insert(view.clone());
            }
            named @ ChangedNames::Named(_) => self.owners.extend(named),
        }
    }
}

/// Time for which a refused node counts as there. Envoy asks again within five seconds by our bootstrap, and within thirty by
/// its own default.
const FROZEN_MEMORY: Duration = Duration::from_secs(60);

impl Registry {
    /// A registry that counts into these metrics.
    pub fn with_metrics(metrics: Arc<dyn XdsMetrics>) -> Self {
        Self { metrics: OptionalMetrics::new(metrics), ..Self::default() }
    }

    /// Every node, sorted by name. A node with two streams, as for a moment after a reconnect, occurs twice.
    pub fn nodes(&self) -> Vec<NodeStatus> {
        let (open, mut disconnected) = {
            let streams = lock(&self.streams);
            (self.open_streams(&streams), streams.disconnected.clone())
        };
        let mut nodes: Vec<_> = open.iter().map(status).filter(|node| !node.id.is_empty()).collect();
        for node in &nodes {
            disconnected.remove(&node.id);
        }
        nodes.extend(disconnected.into_values());
        nodes.sort_by(|a, b| a.id.cmp(&b.id));
        nodes
    }

    /// The streams that are open now.
    pub fn streams(&self) -> OpenStreams {
        let mut open = self.open_streams(&lock(&self.streams));
        open.sort_by(|one, other| one.view.cmp(&other.view));
        OpenStreams(open)
    }

    /// The resources of a view in `snapshot` that each connected node of it refuses, and whether it has the rest.
    pub fn view_refusals(&self, snapshot: &Snapshot, view: &View) -> BTreeMap<String, NodeRefusals> {
        let mut nodes: BTreeMap<String, NodeRefusals> = BTreeMap::new();
        let Some(snapshot) = snapshot.view(view) else { return nodes };
        let open = self.open_streams(&lock(&self.streams));
        for OpenStream { name, stream, .. } in open.into_iter().filter(|one| one.view == *view) {
            let stream = lock(&stream);
            if !stream.node().is_empty() {
                let NodeRefusals { is_pending, refused } = stream.refusals(snapshot);
                let known = nodes.entry(name).or_default();
                known.is_pending |= is_pending;
                known.refused.extend(refused);
            }
        }
        nodes
    }

    /// The progress of every connected node of the views that are meant, each with all of its view in `snapshot`.
    pub fn progress_of_views(
        &self,
        snapshot: &Snapshot,
        is_meant: impl Fn(&View) -> bool,
    ) -> BTreeMap<View, BTreeMap<String, GatewayProgress>> {
        let open = self.open_streams(&lock(&self.streams));
        let mut views: BTreeMap<View, BTreeMap<String, GatewayProgress>> = BTreeMap::new();
        for OpenStream { name, stream, view } in open.into_iter().filter(|one| is_meant(&one.view)) {
            let (Some(snapshot), stream) = (snapshot.view(&view), lock(&stream)) else { continue };
            // A stream without a node id is no node yet.
            if !stream.node().is_empty() {
                add(views.entry(view).or_default(), name, stream.progress_with_all(snapshot));
            }
        }
        views
    }

    /// The changes since this was asked last, of its one reader. Asked before all else: a later change is one of the next time.
    pub fn take_changes(&self) -> RegistryChanges {
        let (open, mut changes) = {
            let mut streams = lock(&self.streams);
            (self.open_streams(&streams), std::mem::take(&mut streams.changes))
        };
        let of_streams = open.iter().filter_map(|one| Some((&one.view, lock(&one.stream).take_changed()?)));
        of_streams.for_each(|(view, owners)| changes.add(view, owners));
        changes
    }

    /// The open streams of a node and the numbers of their events: as long as they are the same, so is the node's progress in the same
    /// snapshot.
    pub(crate) fn revisions(&self, name: &str) -> Vec<(u64, u64)> {
        let streams = lock(&self.streams);
        let of_node = streams.open.iter().filter(|(_, one)| one.name == name).map(|(id, one)| (*id, one.clone()));
        let of_node: Vec<_> = of_node.collect();
        drop(streams);
        of_node.into_iter().map(|(id, one)| (id, lock(&one.stream).revision())).collect()
    }

    /// The progress of one connected node with every owner's resources. Empty if it is not connected.
    pub(crate) fn standings_of(&self, snapshot: &Snapshot, name: &str) -> BTreeMap<String, GatewayProgress> {
        let mut progresses = BTreeMap::new();
        let open = self.open_streams(&lock(&self.streams));
        for OpenStream { stream, view, .. } in open.into_iter().filter(|one| one.name == name) {
            let Some(snapshot) = snapshot.view(&view) else { continue };
            for owner in snapshot.owners() {
                // Locked for each, so that the stream goes on in between.
                let Some(progress) = lock(&stream).progress(snapshot, owner) else { continue };
                add(&mut progresses, owner.to_owned(), progress);
            }
        }
        progresses
    }

    fn open_streams(&self, streams: &Streams) -> Vec<OpenStream> {
        streams.open.values().cloned().collect()
    }

    /// Nodes whose streams were refused, up to a bound. One that was let in later is not among them.
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
        if times == 0 && !MAX_REJECTED.make(&mut streams.rejected_nodes, node, |(name, _)| name) {
            return;
        }
        streams.rejected_nodes.insert(key, RejectedNode { times: times + 1, ..refused });
        streams.changes.is_any = true;
    }

    /// Forgets that a node was refused: it is let in now.
    pub(crate) fn forget_rejection(&self, name: &str, by: &str) {
        let mut streams = lock(&self.streams);
        streams.changes.is_any |= streams.rejected_nodes.remove(&(name.to_owned(), by.to_owned())).is_some();
    }

    /// Takes a stream of the node of that name.
    pub(crate) fn open(&self, name: String, stream: SharedStream, view: View) -> u64 {
        let mut streams = lock(&self.streams);
        streams.next += 1;
        let id = streams.next;
        streams.changes.add(&view, ChangedNames::All);
        streams.open.insert(id, OpenStream { name, stream, view });
        id
    }

    pub(crate) fn close(&self, id: u64) {
        let mut streams = lock(&self.streams);
        let Some(open) = streams.open.remove(&id) else { return };
        streams.changes.add(&open.view, ChangedNames::All);
        drop(streams);
        let status = status(&open);
        if status.id.is_empty() {
            return;
        }
        let mut streams = lock(&self.streams);
        let is_known = streams.disconnected.contains_key(&status.id);
        if !is_known && !MAX_DISCONNECTED.make(&mut streams.disconnected, &status.id, |name| name) {
            return;
        }
        streams.disconnected.insert(status.id.clone(), disconnected(status));
        streams.changes.is_any = true;
    }
}

fn status(open: &OpenStream) -> NodeStatus {
    let stream = lock(&open.stream);
    NodeStatus {
        // A stream without a node id is no node yet.
        id: if stream.node().is_empty() { String::new() } else { open.name.clone() },
        connected: true,
        types: stream.status(),
        snapshot: stream.snapshot_version().to_owned(),
        in_sync: stream.is_in_sync(),
        refused: stream.refused(),
        view: open.view.clone(),
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::core::v3::Node;
    use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;

    use super::*;
    use crate::delta::DeltaStream;
    use crate::kind::CDS;
    use crate::resource::Resource;

    fn stream(view: &Snapshot) -> SharedStream {
        let mut stream = DeltaStream::new(Arc::new(view.clone()), std::hash::RandomState::new());
        let node = Some(Node { id: "envoy-0".to_owned(), ..Node::default() });
        stream.on_request(DeltaDiscoveryRequest { node, type_url: CDS.to_owned(), ..DeltaDiscoveryRequest::default() });
        Arc::new(Mutex::new(stream))
    }

    /// Two tenants may give their Envoys the same id.
    #[test]
    fn nodes_of_one_id_are_apart_for_each_owner() {
        let registry = Registry::default();
        let of = |owner: &str| {
            let resource = Resource::new(vec![1]).owned_by(format!("{owner}.test"));
            Snapshot::new([(CDS.to_owned(), format!("{owner}/all"), resource)])
        };
        let view = |owner: &str| format!("instance/{owner}");
        let served = Snapshot::default().with_views(["a", "b"].map(|owner| (view(owner), of(owner))));
        let [a, b] = ["a", "b"]
            .map(|owner| registry.open(format!("{owner}/envoy-0"), stream(&of(owner)), View(Some(view(owner)))));
        let owners = |name: &str| registry.standings_of(&served, name).into_keys().collect::<Vec<_>>();
        assert_eq!(
            [owners("a/envoy-0"), owners("b/envoy-0"), owners("envoy-0")],
            [vec!["a.test"], vec!["b.test"], vec![]]
        );
        registry.close(a);
        let known = || registry.nodes().into_iter().map(|node| (node.id, node.connected)).collect::<Vec<_>>();
        assert_eq!(known(), [("a/envoy-0".to_owned(), false), ("b/envoy-0".to_owned(), true)]);
        registry.close(b);
        for number in 0..500 {
            registry.close(registry.open(format!("a/{number:03}"), stream(&of("a")), View(Some(view("a")))));
        }
        let nodes = known();
        assert_eq!(nodes.len(), MAX_DISCONNECTED.of_one + 1, "a flood displaces those of its own instance");
        assert!(nodes.contains(&("b/envoy-0".to_owned(), false)) && nodes.contains(&("a/499".to_owned(), false)));
    }

    #[test]
    fn rejections_of_an_instance_leave_those_of_others() {
        let (registry, last) = (Registry::default(), Instant::now());
        let refused = |node: &str, is_frozen| {
            let (node, by, reason) = (node.to_owned(), "a peer".to_owned(), "no".to_owned());
            registry.record_rejection(RejectedNode { node, by, reason, times: 0, is_frozen, last });
        };
        refused("old", true);
        refused("b/thief", false);
        (0..500).for_each(|number| refused(&format!("a/{number:03}"), false));
        let known: Vec<_> = registry.rejected_nodes().into_iter().map(|one| one.node).collect();
        assert_eq!(known.len(), MAX_REJECTED.of_one + 2);
        assert!(known.contains(&"old".to_owned()) && known.contains(&"b/thief".to_owned()));
        assert_eq!(registry.frozen(last).len(), 1);
    }

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

use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::status::{Gateway, Health, Standing};
use portcullis_xds::{NodeStatus, Registry, Snapshot};

/// What the gateways make of the objects, at one time.
#[derive(Debug)]
pub(super) struct Fleet {
    nodes: Vec<NodeStatus>,
    snapshot: Option<Arc<Snapshot>>,
}

impl Fleet {
    pub(super) fn new(registry: &Registry, snapshot: Option<Arc<Snapshot>>) -> Self {
        Self { nodes: registry.nodes(), snapshot }
    }

    /// Every node that was seen.
    pub(super) fn nodes(&self) -> &[NodeStatus] {
        &self.nodes
    }

    /// Every connected gateway, and what it makes of an `UpstreamCluster`.
    pub(super) fn gateways(&self, _owner: &str) -> Vec<Gateway<'_>> {
        let version = self.snapshot.as_ref().map(|snapshot| snapshot.version());
        let connected = self.nodes.iter().filter(|node| node.connected);
        let standing = |node: &NodeStatus| {
            let is_done = node.in_sync && Some(node.snapshot.as_str()) == version;
            if is_done { Standing::Acknowledged } else { Standing::Pending }
        };
        let health: BTreeMap<&str, Health> = BTreeMap::new();
        connected
            .map(|node| Gateway {
                name: &node.id,
                standing: standing(node),
                health: health.get(node.id.as_str()).copied(),
            })
            .collect()
    }

    /// A hash of the resources of an `UpstreamCluster`.
    pub(super) fn content_hash(&self, _owner: &str) -> String {
        self.snapshot.as_ref().map(|snapshot| snapshot.version().to_owned()).unwrap_or_default()
    }
}

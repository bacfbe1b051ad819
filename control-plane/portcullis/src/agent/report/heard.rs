//! Acknowledgements that each control plane reports of an Envoy, which the agent repeats to the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use envoy_types::pb::envoy::service::health::v3::ClusterEndpointsHealth;
use tokio::sync::watch;

/// Entries by the control plane that said them last.
pub(super) type ByPeer = BTreeMap<String, Vec<ClusterEndpointsHealth>>;

/// Shared by the streams to all control planes.
pub(super) type Channel = Arc<watch::Sender<ByPeer>>;

/// The messages of one control plane, while the stream to it is open.
pub(super) struct Heard {
    peer: String,
    channel: Channel,
}

impl Heard {
    pub(super) fn from(peer: String, channel: &Channel) -> Self {
        Self { peer, channel: Arc::clone(channel) }
    }

    /// Takes what it says now, in the place of what it said before.
    pub(super) fn replace(&self, entries: Vec<ClusterEndpointsHealth>) {
        self.channel.send_if_modified(|all| match entries.is_empty() {
            true => all.remove(&self.peer).is_some(),
            false => all.insert(self.peer.clone(), entries.clone()).as_ref() != Some(&entries),
        });
    }

    /// The messages of the other control planes, to be repeated to this one.
    pub(super) fn of_others(&self) -> Vec<ClusterEndpointsHealth> {
        let all = self.channel.borrow();
        all.iter().filter(|(peer, _)| **peer != self.peer).flat_map(|(_, entries)| entries.clone()).collect()
    }
}

/// A replica that is gone says nothing more of an Envoy that has gone elsewhere.
impl Drop for Heard {
    fn drop(&mut self) {
        self.replace(Vec::new());
    }
}

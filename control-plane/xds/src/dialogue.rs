//! One Envoy's conversation without a network, for properties about what it is told and when.

use std::sync::Arc;

use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};

use crate::Snapshot;
use crate::delta::DeltaStream;
use crate::stream::Conversation;

/// The server's side of an incremental stream.
#[derive(Debug)]
pub struct Dialogue(DeltaStream);

impl Dialogue {
    /// A new stream.
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        Self(Conversation::new(snapshot))
    }

    /// What is said to a request.
    pub fn on_request(&mut self, request: DeltaDiscoveryRequest) -> Vec<DeltaDiscoveryResponse> {
        Conversation::on_request(&mut self.0, request).into_iter().map(DeltaStream::finish).collect()
    }

    /// What is said because of a newer snapshot.
    pub fn on_snapshot(&mut self, snapshot: Arc<Snapshot>) -> Vec<DeltaDiscoveryResponse> {
        Conversation::on_snapshot(&mut self.0, snapshot).into_iter().map(DeltaStream::finish).collect()
    }
}

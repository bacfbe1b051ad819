//! One Envoy's conversation without a network, for properties about what it is told and when.

use std::sync::Arc;

use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};

use crate::Snapshot;
use crate::delta::{DeltaStream, PendingResponse};

/// The server's side of an incremental stream.
#[derive(Debug)]
pub struct Dialogue(DeltaStream);

impl Dialogue {
    /// A new stream.
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        Self(DeltaStream::new(snapshot))
    }

    /// What is said to a request.
    pub fn on_request(&mut self, request: DeltaDiscoveryRequest) -> Vec<DeltaDiscoveryResponse> {
        self.0.on_request(request).into_iter().map(PendingResponse::encode).collect()
    }

    /// What is said because of a newer snapshot.
    pub fn on_snapshot(&mut self, snapshot: Arc<Snapshot>) -> Vec<DeltaDiscoveryResponse> {
        self.0.on_snapshot(snapshot).into_iter().map(PendingResponse::encode).collect()
    }
}

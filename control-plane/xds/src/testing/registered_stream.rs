//! A stream of a node that a registry knows.

use std::collections::VecDeque;
use std::hash::RandomState;
use std::sync::{Arc, Mutex};

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use envoy_types::pb::google::rpc::Status;

use crate::delta::{DeltaStream, PendingResponse};
use crate::kind::{CDS, LDS};
use crate::lock::lock;
use crate::node::{RejectedNode, View};
use crate::open_streams::SharedStream;
use crate::registry::Registry;
use crate::snapshot::Snapshot;

/// A stream of a node that asks for all clusters and listeners. It is open until it is dropped.
#[derive(Debug)]
pub struct RegisteredStream {
    registry: Arc<Registry>,
    id: u64,
    stream: SharedStream,
    view: View,
    inbox: VecDeque<DeltaDiscoveryResponse>,
}

impl RegisteredStream {
    /// Opens it.
    pub fn open(registry: &Arc<Registry>, name: &str, view: View, snapshot: &Arc<Snapshot>) -> Self {
        let of_view = snapshot.shared_view(&view).unwrap_or_default();
        let stream = Arc::new(Mutex::new(DeltaStream::new(of_view, RandomState::new())));
        let id = registry.open(name.to_owned(), Arc::clone(&stream), view.clone());
        let mut this = Self { registry: Arc::clone(registry), id, stream, view, inbox: VecDeque::new() };
        for type_url in [CDS, LDS] {
            let node = Some(Node { id: name.to_owned(), ..Node::default() });
            this.say(DeltaDiscoveryRequest { node, type_url: type_url.to_owned(), ..Default::default() });
        }
        this
    }

    /// Takes its view of a newer snapshot.
    pub fn follow(&mut self, snapshot: &Arc<Snapshot>) {
        let Some(of_view) = snapshot.shared_view(&self.view) else { return };
        let pending = lock(&self.stream).on_snapshot(of_view);
        self.take(pending);
    }

    /// Acknowledges the oldest response, or refuses it; returns whether there was one.
    pub fn answer(&mut self, refuses: bool) -> bool {
        let Some(DeltaDiscoveryResponse { type_url, nonce, .. }) = self.inbox.pop_front() else { return false };
        let error_detail = refuses.then(|| Status { message: "no".to_owned(), ..Status::default() });
        self.say(DeltaDiscoveryRequest { type_url, response_nonce: nonce, error_detail, ..Default::default() });
        true
    }

    fn say(&mut self, request: DeltaDiscoveryRequest) {
        let pending = lock(&self.stream).on_request(request);
        self.take(pending);
    }

    fn take(&mut self, pending: Vec<PendingResponse>) {
        self.inbox.extend(pending.into_iter().map(PendingResponse::decoded));
    }
}

impl Drop for RegisteredStream {
    fn drop(&mut self) {
        self.registry.close(self.id);
    }
}

/// Has a registry remember that a node was refused.
pub fn reject(registry: &Registry, rejected: RejectedNode) {
    registry.record_rejection(rejected);
}

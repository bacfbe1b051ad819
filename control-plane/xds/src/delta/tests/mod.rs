//! Rules of a stream as tables, and one property: whatever happens on the way, in the end the client has what the
//! last snapshot holds, and on no step does anything it has refer to something it has not.

mod client;
mod on_demand;
mod property;
mod refusals;
mod room;
mod rules;
mod steps;
mod waiting;

use std::hash::RandomState;
use std::ops::Deref;
use std::sync::Arc;

use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};

use super::{DeltaStream, NextResponse, PendingResponse};
use crate::kind::{CDS, EDS, LDS, RDS, SDS};
use crate::resource::Resource;
use crate::snapshot::Snapshot;

impl DeltaStream {
    /// Whether nothing that is due is overlooked.
    pub(crate) fn is_complete(&self) -> bool {
        self.subscriptions.iter().all(|((_, url), subscription)| subscription.is_complete(&self.snapshot, url))
    }
}

/// A stream that encodes its responses.
struct Encoded(DeltaStream);

impl Deref for Encoded {
    type Target = DeltaStream;

    fn deref(&self) -> &DeltaStream {
        &self.0
    }
}

impl Encoded {
    fn new(snapshot: Arc<Snapshot>) -> Self {
        Self(DeltaStream::new(snapshot, RandomState::new()))
    }

    /// One whose responses have so many bytes at most.
    fn with_most(snapshot: Arc<Snapshot>, most: usize) -> Self {
        Self(DeltaStream::new(snapshot, RandomState::new()).with_most(most))
    }

    fn on_request(&mut self, request: DeltaDiscoveryRequest) -> Vec<DeltaDiscoveryResponse> {
        self.0.on_request(request).into_iter().map(PendingResponse::decoded).collect()
    }

    fn on_snapshot(&mut self, snapshot: Arc<Snapshot>) -> Vec<DeltaDiscoveryResponse> {
        self.0.on_snapshot(snapshot).into_iter().map(PendingResponse::decoded).collect()
    }

    /// Takes a request while there is no room for responses.
    fn on_request_without_room(&mut self, request: DeltaDiscoveryRequest) {
        self.0.take_request(request);
        self.has_no_room();
    }

    /// Takes a newer snapshot while there is no room for responses.
    fn on_snapshot_without_room(&mut self, snapshot: Arc<Snapshot>) {
        self.0.take_snapshot(snapshot);
        self.has_no_room();
    }

    fn has_no_room(&mut self) {
        assert!(!matches!(self.0.respond(|_| None::<()>), NextResponse::Made(..)));
    }

    /// The responses that had no room.
    fn on_room(&mut self) -> Vec<DeltaDiscoveryResponse> {
        self.0.responses().into_iter().map(PendingResponse::decoded).collect()
    }
}

/// A snapshot of `(type, name, content)`. A cluster's companion is the assignment of its name.
fn snapshot(resources: &[(&str, &str, &str)]) -> Arc<Snapshot> {
    Arc::new(Snapshot::new(resources.iter().map(|(url, name, body)| {
        let mut resource = Resource::new(body.as_bytes().to_vec());
        if *url == CDS {
            resource = resource.with_companion(EDS, *name);
        }
        ((*url).to_owned(), (*name).to_owned(), resource)
    })))
}

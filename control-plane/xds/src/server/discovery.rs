//! The aggregated discovery service. It is not the generated one, which copies each message as a whole, and keeps the memory of the
//! largest one for as long as the stream is open.

use std::convert::Infallible;
use std::sync::Arc;

use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::SERVICE_NAME;
use http_body_util::StreamBody;
use tokio::sync::mpsc;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, http};

use super::frames::Frames;
use super::task::Task;
use super::{MAX_QUEUED_RESPONSES, STATE_OF_THE_WORLD, ServerState};
use crate::admission::{ResponseStream, admission};
use crate::bounded_message::FieldBounds;
use crate::message_reader::MessageReader;
use crate::service_frame::{self, ReadyService};

/// The service, as the server calls it.
#[derive(Clone)]
pub(super) struct DiscoveryServer {
    pub(super) served: ServerState,
    /// Most bytes of a request.
    pub(super) max_message: usize,
}

impl ReadyService for DiscoveryServer {
    const NAME: &'static str = SERVICE_NAME;

    fn answer(&self, request: http::Request<Body>) -> BoxFuture<http::Response<Body>, Infallible> {
        let answer = match request.uri().path().rsplit('/').next() {
            Some("DeltaAggregatedResources") => self.open(request),
            Some("StreamAggregatedResources") => Err(Status::unimplemented(STATE_OF_THE_WORLD)),
            _ => Err(Status::unimplemented("use DeltaAggregatedResources")),
        };
        Box::pin(std::future::ready(Ok(answer.unwrap_or_else(Status::into_http))))
    }
}

impl DiscoveryServer {
    /// Answers a stream, whose task then runs until it ends.
    fn open(&self, request: http::Request<Body>) -> Result<http::Response<Body>, Status> {
        let admission = admission(&request)?;
        let (responses, queued) = mpsc::channel(MAX_QUEUED_RESPONSES);
        let outgoing = ResponseStream::new(queued, Arc::clone(&admission));
        let (body, bounds) = (request.into_body(), Some(FieldBounds::DISCOVERY));
        let requests =
            MessageReader::<DeltaDiscoveryRequest>::new(body, self.max_message, bounds, Arc::clone(&admission));
        let task = Task { served: self.served.clone(), admission, responses };
        tokio::spawn(task.run(requests));
        Ok(service_frame::answer(Body::new(StreamBody::new(Frames::new(outgoing)))))
    }
}

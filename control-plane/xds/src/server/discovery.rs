//! The aggregated discovery service. It is not the generated one, which copies each message as a whole, and keeps the memory of the
//! largest one for as long as the stream is open.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::SERVICE_NAME;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use http_body_util::StreamBody;
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::codec::{Codec, Streaming};
use tonic::codegen::http::header::{CONTENT_TYPE, HeaderValue};
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::frames::Frames;
use super::task::Task;
use super::{MAX_QUEUED_RESPONSES, STATE_OF_THE_WORLD, ServerState};
use crate::admission::{ResponseStream, admission};

/// The service, as the server calls it.
#[derive(Clone)]
pub(super) struct DiscoveryServer {
    pub(super) served: ServerState,
    /// Most bytes of a request.
    pub(super) max_message: usize,
}

impl NamedService for DiscoveryServer {
    const NAME: &'static str = SERVICE_NAME;
}

impl Service<http::Request<Body>> for DiscoveryServer {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let answer = match request.uri().path().rsplit('/').next() {
            Some("DeltaAggregatedResources") => self.open(Request::from_http(request)),
            Some("StreamAggregatedResources") => Err(Status::unimplemented(STATE_OF_THE_WORLD)),
            _ => Err(Status::unimplemented("use DeltaAggregatedResources")),
        };
        Box::pin(std::future::ready(Ok(answer.unwrap_or_else(Status::into_http))))
    }
}

impl DiscoveryServer {
    /// Answers a stream, whose task then runs until it ends.
    fn open(&self, request: Request<Body>) -> Result<http::Response<Body>, Status> {
        let admission = admission(&request)?;
        let (responses, queued) = mpsc::channel(MAX_QUEUED_RESPONSES);
        let outgoing = ResponseStream::new(queued, Arc::clone(&admission));
        let decoder = ProstCodec::<DeltaDiscoveryResponse, DeltaDiscoveryRequest>::default().decoder();
        let requests = Streaming::new_request(decoder, request.into_inner(), None, Some(self.max_message));
        let task = Task { served: self.served.clone(), admission, responses };
        tokio::spawn(task.run(requests));
        let mut answer = http::Response::new(Body::new(StreamBody::new(Frames::new(outgoing))));
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        Ok(answer)
    }
}

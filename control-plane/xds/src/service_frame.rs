//! A gRPC service of this crate, as tonic's server calls it.

use std::convert::Infallible;
use std::task::{Context, Poll};

use futures_util::Stream;
use http::header::{CONTENT_TYPE, HeaderValue};
use prost::Message;
use tonic::Status;
use tonic::body::Body;
use tonic::codec::{Codec, EncodeBody, SingleMessageCompressionOverride};
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;
use tonic_prost::ProstCodec;

/// A service that is always ready.
pub(crate) trait ReadyService: Clone + Send + Sync + 'static {
    /// Its name in paths.
    const NAME: &'static str;

    /// The answer to a request.
    fn answer(&self, request: http::Request<Body>) -> BoxFuture<http::Response<Body>, Infallible>;
}

/// A [`ReadyService`] with what tonic needs around it.
#[derive(Clone)]
pub(crate) struct ServiceFrame<T>(pub(crate) T);

impl<T: ReadyService> NamedService for ServiceFrame<T> {
    const NAME: &'static str = T::NAME;
}

impl<T: ReadyService> Service<http::Request<Body>> for ServiceFrame<T> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        self.0.answer(request)
    }
}

/// An answer with this body.
pub(crate) fn answer(body: Body) -> http::Response<Body> {
    let mut answer = http::Response::new(body);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    answer
}

/// An answer of these messages.
pub(crate) fn answer_of<M: Message + Default + 'static>(
    messages: impl Stream<Item = Result<M, Status>> + Send + 'static,
) -> http::Response<Body> {
    let encoder = ProstCodec::<M, M>::default().encoder();
    let whole = SingleMessageCompressionOverride::default();
    answer(Body::new(EncodeBody::new_server(encoder, messages, None, whole, None)))
}

//! Counts streams before anything of them is read, and bounds what is read of them before their node is let in.

use std::convert::Infallible;
use std::sync::Arc;

use futures_util::StreamExt;
use http_body_util::{BodyStream, StreamBody};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Context, Poll, Service, http};
use tonic::server::NamedService;

use super::connection::{Admission, Connection};
use super::limits::Rejection;

/// A service behind the bounds.
#[derive(Clone)]
pub(super) struct Admitted<S>(pub(super) S);

impl<S: NamedService> NamedService for Admitted<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Admitted<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let connection = request.extensions().get::<Arc<Connection>>().cloned();
        let opened = connection
            .ok_or(Rejection::Node)
            .and_then(|connection| connection.open_stream().inspect_err(|excess| connection.peers.rejected(*excess)));
        let Ok(admission) = opened else {
            let refusal = Status::resource_exhausted("too many streams of this peer").into_http();
            return Box::pin(std::future::ready(Ok(refusal)));
        };
        request.extensions_mut().insert(Arc::clone(&admission));
        Box::pin(self.0.call(request.map(|body| bounded(body, admission))))
    }
}

/// A body that ends with an error when its first message gets too large. Afterwards each message has a bound of its own.
fn bounded(body: Body, admission: Arc<Admission>) -> Body {
    let mut left = admission.limits().introduction;
    let frames = BodyStream::new(body).map(move |frame| {
        let frame = frame?;
        let length = frame.data_ref().map_or(0, |data| data.len());
        if admission.is_admitted() {
            return Ok(frame);
        }
        match left.checked_sub(length) {
            Some(less) => left = less,
            None => {
                admission.rejected(Rejection::Message);
                return Err(Status::resource_exhausted("too large a message for a node that is not known yet"));
            }
        }
        Ok(frame)
    });
    Body::new(StreamBody::new(frames))
}

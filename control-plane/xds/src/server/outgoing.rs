//! Responses on their way: those that a peer does not read are bounded in bytes, over all of its streams.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tonic::Status;

use super::connection::Admission;

/// A response, and the room that it takes.
pub(crate) struct QueuedResponse<T> {
    pub(crate) content: Result<T, Status>,
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

/// What the transport takes responses from. It asks for the next one when most of the last one is written, not before.
pub(crate) struct ResponseStream<T> {
    queued: mpsc::Receiver<QueuedResponse<T>>,
    /// Of what was taken last.
    room: Option<OwnedSemaphorePermit>,
    /// The stream counts for as long as something of it waits here.
    _admission: Arc<Admission>,
}

impl<T> ResponseStream<T> {
    pub(crate) fn new(queued: mpsc::Receiver<QueuedResponse<T>>, admission: Arc<Admission>) -> Self {
        Self { queued, room: None, _admission: admission }
    }
}

impl<T> Stream for ResponseStream<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.room = None;
        self.queued.poll_recv(context).map(|response| {
            let response = response?;
            self.room = response.room;
            Some(response.content)
        })
    }
}

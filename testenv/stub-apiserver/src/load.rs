//! How many requests run at a time: what a limit in front of the stub has to hold to.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame, SizeHint};

use crate::status::Answer;

/// Requests that run: from their headers to the end of their answer, of their tunnel, or to their client's leaving. Neither
/// health checks nor reviews count, which a gateway sends on its own account.
#[derive(Debug, Default)]
pub(crate) struct Load {
    running: AtomicUsize,
    peak: AtomicUsize,
}

/// One request that runs, for as long as a copy of this lives.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    _counted: Option<Arc<Counted>>,
}

#[derive(Debug)]
struct Counted(Arc<Load>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Load {
    pub(crate) fn enter(self: &Arc<Self>, path: &str) -> Running {
        if path == "/readyz" || path.ends_with("reviews") {
            return Running { _counted: None };
        }
        let now = self.running.fetch_add(1, Ordering::AcqRel) + 1;
        self.peak.fetch_max(now, Ordering::AcqRel);
        Running { _counted: Some(Arc::new(Counted(Arc::clone(self)))) }
    }

    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Ordering::Acquire)
    }

    pub(crate) fn take_peak(&self) -> usize {
        self.peak.swap(self.running(), Ordering::AcqRel)
    }
}

impl Running {
    /// The request runs until the last of the answer is handed over, or the answer is given up.
    pub(crate) fn until_sent(self, answer: Answer) -> Answer {
        answer.map(|body| {
            let running = (!body.is_end_stream()).then_some(self);
            Counting { body, running }.boxed_unsync()
        })
    }
}

/// A body that ends its request with its last frame: a client with the response finds the place free.
struct Counting {
    body: UnsyncBoxBody<Bytes, Infallible>,
    running: Option<Running>,
}

impl Body for Counting {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) || self.body.is_end_stream() {
            self.running = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

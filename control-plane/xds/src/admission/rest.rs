//! The wait until the work of a peer, and of its instance, is made up for.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use super::connection::Admission;
use super::waits::Wait;

/// The wait of one stream until the work of its peer and of the peer's instance is made up for.
#[derive(Default)]
pub(crate) struct Rest(Option<(Pin<Box<Sleep>>, Wait)>);

impl Rest {
    /// Ready when nothing has to be made up for. Streams of one peer that work right afterwards do no more together than one.
    pub(crate) fn poll(&mut self, admission: &Admission, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some((sleep, _)) = &mut self.0 {
                ready!(sleep.as_mut().poll(context));
            }
            let rest = admission.worked(Duration::ZERO);
            if rest.is_zero() {
                self.0 = None;
                return Poll::Ready(());
            }
            let wait = self.0.take().map_or_else(|| admission.begin_wait(), |(_, wait)| wait);
            self.0 = Some((Box::pin(sleep(rest)), wait));
        }
    }
}

impl Admission {
    /// Waits until the work of before is made up for.
    pub(crate) async fn rested(&self) {
        let mut rest = Rest::default();
        std::future::poll_fn(|context| rest.poll(self, context)).await;
    }
}

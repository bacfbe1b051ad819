//! Messages that have to come soon.

use std::pin::pin;
use std::time::Instant;

use futures_util::{Stream, StreamExt};
use tonic::Status;

use super::connection::Admission;
use crate::limits::Rejection;

impl Admission {
    /// The first message of a stream, which says which node this is. `None` if the stream ends without one.
    pub(crate) async fn first_message<M>(
        &self,
        messages: &mut (impl Stream<Item = Result<M, Status>> + Unpin),
    ) -> Result<Option<M>, Status> {
        let first = self.soon(messages).await.ok_or_else(|| Status::deadline_exceeded("say which node this is"))?;
        Ok(first.and_then(Result::ok))
    }

    /// The message of an exchange. `None` if it ends without one.
    pub(crate) async fn only_message<M: prost::Message>(
        &self,
        messages: &mut (impl Stream<Item = Result<M, Status>> + Unpin),
    ) -> Result<Option<M>, Status> {
        let message = self.soon(messages).await.ok_or_else(|| Status::deadline_exceeded("the report did not come"))?;
        let Some(message) = message.transpose()? else { return Ok(None) };
        self.received(message.encoded_len());
        Ok(Some(message))
    }

    /// The next message, or the end. `None` if neither comes in the time that a stream may be idle; in which it waits for room, or until
    /// work is made up for, does not count.
    async fn soon<M>(
        &self,
        messages: &mut (impl Stream<Item = Result<M, Status>> + Unpin),
    ) -> Option<Option<Result<M, Status>>> {
        let idle = self.limits().idle;
        let mut next = pin!(messages.next());
        loop {
            if let Ok(next) = tokio::time::timeout(idle, next.as_mut()).await {
                return Some(next);
            }
            if !self.has_waited(idle, Instant::now()) {
                self.rejected(Rejection::Idle);
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::stream;

    use super::*;
    use crate::admission::Rest;
    use crate::limits::Limits;

    #[tokio::test]
    async fn time_until_work_is_made_up_for_is_not_idle() {
        let limits = Limits { idle: Duration::from_millis(20), work: Duration::from_millis(50), ..Limits::default() };
        let admission = Admission::of_certificate(&["a"], limits);
        assert!(admission.first_message(&mut stream::pending::<Result<(), Status>>()).await.is_err());
        // For a fifth of a second.
        admission.worked(Duration::from_secs(60));
        let mut rest = Rest::default();
        let resting = stream::poll_fn(|context| rest.poll(&admission, context).map(|()| Some(Ok::<_, Status>("late"))));
        assert_eq!(admission.first_message(&mut Box::pin(resting)).await.unwrap(), Some("late"));
    }
}

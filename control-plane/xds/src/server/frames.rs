//! The body of an answer: messages in frames, each made when the transport asks for it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use hyper::body::Frame;
use tonic::Status;
use tonic::codegen::http::HeaderMap;

use crate::chunk::{ByteChunks, length};

/// Most bytes of a frame. The transport asks for the next one as long as it keeps less than some hundred KiB.
const MAX_FRAME: usize = 64 * 1024;

/// The frames of messages of gRPC, each with its prefix and in pieces, and of the status behind them. The rest of a message, which is
/// not written yet, shares the bytes of its pieces.
pub(super) struct Frames<S> {
    messages: S,
    /// Of the message that is being written.
    rest: std::vec::IntoIter<Bytes>,
    /// The piece in front of `rest`.
    front: Bytes,
    /// Bytes of both.
    left: usize,
    is_ended: bool,
}

impl<S> Frames<S> {
    pub(super) fn new(messages: S) -> Self {
        Self { messages, rest: Vec::new().into_iter(), front: Bytes::new(), left: 0, is_ended: false }
    }

    fn begin(&mut self, message: ByteChunks) {
        self.left = length(&message);
        self.rest = message.into_iter();
    }

    /// The next frame of the message. One that is of several pieces is copied, so that small ones do not have frames of their own.
    fn next_frame(&mut self) -> Option<Bytes> {
        let first = self.take(MAX_FRAME)?;
        let size = self.left.saturating_add(first.len()).min(MAX_FRAME);
        if first.len() == size {
            return Some(first);
        }
        let mut frame = BytesMut::with_capacity(size);
        frame.extend_from_slice(&first);
        while let Some(more) = self.take(size - frame.len()) {
            frame.extend_from_slice(&more);
        }
        Some(frame.freeze())
    }

    /// At most so many of the next bytes, of one piece; `None` if no byte is left, or none is to be taken.
    fn take(&mut self, most: usize) -> Option<Bytes> {
        while self.front.is_empty() {
            self.front = self.rest.next()?;
        }
        let taken = self.front.split_to(self.front.len().min(most));
        self.left -= taken.len();
        (!taken.is_empty()).then_some(taken)
    }

    fn end(&mut self, status: &Status) -> Result<Frame<Bytes>, Status> {
        self.is_ended = true;
        let mut trailers = HeaderMap::new();
        status.add_header(&mut trailers)?;
        Ok(Frame::trailers(trailers))
    }
}

impl<S: Stream<Item = Result<ByteChunks, Status>> + Unpin> Stream for Frames<S> {
    type Item = Result<Frame<Bytes>, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(frame) = this.next_frame() {
                return Poll::Ready(Some(Ok(Frame::data(frame))));
            }
            if this.is_ended {
                return Poll::Ready(None);
            }
            match ready!(Pin::new(&mut this.messages).poll_next(context)) {
                Some(Ok(message)) => this.begin(message),
                Some(Err(status)) => return Poll::Ready(Some(this.end(&status))),
                None => return Poll::Ready(Some(this.end(&Status::ok("")))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, StreamExt, stream};
    use proptest::prelude::*;

    use super::*;

    fn frames(messages: Vec<Result<ByteChunks, Status>>) -> Vec<Frame<Bytes>> {
        let all = Frames::new(stream::iter(messages)).map(Result::unwrap).collect();
        FutureExt::now_or_never(all).unwrap()
    }

    fn status(frame: Frame<Bytes>) -> String {
        frame.into_trailers().unwrap()["grpc-status"].to_str().unwrap().to_owned()
    }

    proptest! {
        #[test]
        fn frames_are_the_bytes_of_the_messages(
            messages in proptest::collection::vec(
                proptest::collection::vec(prop_oneof![0..9_usize, 60_000..70_000_usize, Just(2 * MAX_FRAME)], 0..6), 0..4),
        ) {
            let mut number = 0_u8;
            let mut piece = |size: usize| {
                number = number.wrapping_add(1);
                Bytes::from(vec![number; size])
            };
            let messages: Vec<ByteChunks> =
                messages.into_iter().map(|sizes| sizes.into_iter().map(&mut piece).collect()).collect();
            let mut found = frames(messages.iter().cloned().map(Ok).collect());
            prop_assert_eq!(status(found.pop().unwrap()), "0");
            let found: Vec<Bytes> = found.into_iter().map(|frame| frame.into_data().unwrap()).collect();
            prop_assert_eq!(found.concat(), messages.concat().concat());
            prop_assert!(found.iter().all(|frame| (1..=MAX_FRAME).contains(&frame.len())));
            let fewest = messages.iter().map(|pieces| length(pieces).div_ceil(MAX_FRAME)).sum::<usize>();
            let pieces = messages.iter().flatten().map(|piece| piece.len().div_ceil(MAX_FRAME)).sum::<usize>();
            prop_assert!((fewest..=fewest + pieces).contains(&found.len()));
        }
    }

    #[test]
    fn large_piece_is_not_copied() {
        let large = Bytes::from(vec![7; MAX_FRAME * 2]);
        let frame = frames(vec![Ok(vec![large.clone()])]).remove(0).into_data().unwrap();
        assert_eq!((frame.as_ptr(), frame.len()), (large.as_ptr(), MAX_FRAME));
    }

    #[test]
    fn status_ends_the_frames() {
        let messages = vec![Ok(vec![Bytes::from("a")]), Err(Status::internal("no")), Ok(vec![Bytes::from("b")])];
        let mut found = frames(messages);
        assert_eq!(found.len(), 2);
        assert_eq!(status(found.remove(1)), "13");
    }
}

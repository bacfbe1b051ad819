//! Large messages of a peer, on their way and until they are decoded: each peer, each instance and all together have a bounded number of
//! bytes of them in memory, and one has a bounded time until it is whole ([`super::held_messages`]).

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{FutureExt, Stream, StreamExt, stream};
use http_body_util::{BodyStream, StreamBody};
use hyper::body::Frame;
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;

use super::connection::Admission;
use super::held_messages::MessageRoom;
use crate::limits::Rejection;

/// Bytes before each message of gRPC: whether it is compressed, and its length.
const PREFIX: usize = 5;
/// The least time between two looks at the time of a message: as long as this process waits for something, no time passes for the peer.
const SHORTEST_LOOK: Duration = Duration::from_millis(50);
/// Largest message that needs no room: each stream may have one of these.
const SMALL: usize = 64 << 10;

/// A body that ends with an error when its first message gets too large, or a large one takes too long, and that waits for the room of
/// a large one before more of it is read. `introduction` are most bytes before the node is known.
pub(super) fn bounded(body: Body, admission: Arc<Admission>, introduction: usize) -> Body {
    let begun = BegunMessage { introduction, ..BegunMessage::default() };
    let state = Some((BodyStream::new(body), admission, begun));
    let frames = stream::unfold(state, |state| async {
        let (mut frames, admission, mut begun) = state?;
        let frame = begun.next(&mut frames, &admission).await?;
        let is_over = frame.is_err();
        Some((frame, (!is_over).then_some((frames, admission, begun))))
    });
    Body::new(StreamBody::new(frames))
}

/// The message of a stream that has come in part.
#[derive(Default)]
struct BegunMessage {
    /// Bytes that may come before the node is known.
    introduction: usize,
    prefix: Vec<u8>,
    /// How many have begun, this one among them.
    number: u64,
    /// Bytes of it that are missing.
    missing: usize,
    /// The room of a large one.
    room: Option<MessageRoom>,
    /// Bytes that came behind a large one.
    rest: Bytes,
}

/// The last bytes of a large message, and its room: its reader keeps both until the message is decoded.
struct LastBytes {
    data: Bytes,
    _room: MessageRoom,
}

impl AsRef<[u8]> for LastBytes {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl BegunMessage {
    async fn next(
        &mut self,
        frames: &mut (impl Stream<Item = Result<Frame<Bytes>, Status>> + Unpin),
        admission: &Admission,
    ) -> Option<Result<Frame<Bytes>, Status>> {
        let mut data = match self.come(frames, admission).await?.map(Frame::into_data) {
            Ok(Ok(data)) => data,
            Ok(Err(trailers)) => return Some(Ok(trailers)),
            Err(status) => return Some(Err(status)),
        };
        // The next one may need the room that this one has until it is decoded.
        if self.room.is_some() && self.missing < data.len() {
            self.rest = data.split_off(self.missing);
        }
        if !admission.is_admitted() {
            match self.introduction.checked_sub(data.len()) {
                Some(less) => self.introduction = less,
                None => return Some(Err(too_large_an_introduction(admission))),
            }
        }
        if let Some(length) = self.follow(&data) {
            // The node is in the first one, which has to come as a whole before.
            if self.number == 1 && self.missing > self.introduction && !admission.is_admitted() {
                return Some(Err(too_large_an_introduction(admission)));
            }
            // A longer one is refused by its prefix.
            if length <= admission.limits().message {
                self.room = Some(room_of(length, admission).await);
            }
        } else if self.missing == 0
            && let Some(room) = self.room.take()
        {
            room.end_peers_time(Instant::now());
            data = Bytes::from_owner(LastBytes { data, _room: room });
        }
        Some(Ok(Frame::data(data)))
    }

    /// The bytes that came behind the last message, or the next frame, for which a large message has a bounded time.
    async fn come(
        &mut self,
        frames: &mut (impl Stream<Item = Result<Frame<Bytes>, Status>> + Unpin),
        admission: &Admission,
    ) -> Option<Result<Frame<Bytes>, Status>> {
        if !self.rest.is_empty() {
            return Some(Ok(Frame::data(std::mem::take(&mut self.rest))));
        }
        let Some(room) = &self.room else { return frames.next().await };
        let left = || room.left(admission.limits(), Instant::now());
        let mut next = pin!(frames.next());
        loop {
            if let Ok(next) = timeout(left().max(SHORTEST_LOOK), next.as_mut()).await {
                return next;
            }
            // There is more time than before if the stream was not read for a while.
            if left().is_zero() {
                admission.rejected(Rejection::Message);
                admission.close_connection();
                return Some(Err(Status::deadline_exceeded("a message takes too long")));
            }
        }
    }

    /// Follows what has come. Returns the length of the last message, if it has begun in this, is large and not yet whole.
    fn follow(&mut self, mut data: &[u8]) -> Option<usize> {
        let mut begun = None;
        while !data.is_empty() {
            if self.missing == 0 {
                let (more, rest) = data.split_at(data.len().min(PREFIX - self.prefix.len()));
                self.prefix.extend_from_slice(more);
                data = rest;
                let Ok([_, length @ ..]) = <[u8; PREFIX]>::try_from(self.prefix.as_slice()) else { return None };
                self.prefix.clear();
                self.number += 1;
                self.missing = u32::from_be_bytes(length) as usize;
                begun = (self.missing > SMALL).then_some(self.missing);
            }
            let come = data.len().min(self.missing);
            self.missing -= come;
            data = data.get(come..).unwrap_or_default();
            if self.missing == 0 {
                begun = None;
            }
        }
        begun
    }
}

/// Waits for the room of a message, whose time then begins.
async fn room_of(length: usize, admission: &Admission) -> MessageRoom {
    let mut room = pin!(admission.receive(length));
    match room.as_mut().now_or_never() {
        Some(room) => room,
        None => {
            let _wait = admission.begin_wait();
            room.await
        }
    }
}

fn too_large_an_introduction(admission: &Admission) -> Status {
    admission.rejected(Rejection::Message);
    Status::resource_exhausted("too large a message for a node that is not known yet")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::limits::Limits;

    fn message(length: usize) -> Vec<u8> {
        let prefix = u32::try_from(length).unwrap().to_be_bytes();
        [&[0][..], &prefix, &vec![7; length]].concat()
    }

    fn limits() -> Limits {
        Limits { receiving: 1 << 20, message_time: Duration::from_millis(50), ..Limits::default() }
    }

    fn frames(data: &[u8]) -> impl Stream<Item = Result<Frame<Bytes>, Status>> + Unpin + use<> {
        let chunks: Vec<_> =
            data.chunks(16 << 10).map(|chunk| Ok(Frame::data(Bytes::copy_from_slice(chunk)))).collect();
        stream::iter(chunks)
    }

    proptest! {
        #[test]
        fn messages_are_followed_however_they_are_divided(
            lengths in proptest::collection::vec(prop_oneof![0..9_usize, Just(SMALL), Just(SMALL + 1), Just(3 * SMALL)], 1..5),
            cuts in proptest::collection::vec(1..40_000_usize, 1..6),
        ) {
            let all: Vec<u8> = lengths.iter().flat_map(|length| message(*length)).collect();
            let (mut begun, mut rest) = (BegunMessage::default(), all.as_slice());
            let mut large = Vec::new();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (data, later) = rest.split_at((*cut).min(rest.len()));
                large.extend(begun.follow(data));
                rest = later;
            }
            prop_assert_eq!((begun.missing, begun.prefix.len()), (0, 0));
            let expected: Vec<_> = lengths.into_iter().filter(|length| *length > SMALL).collect();
            prop_assert_eq!(large, expected);
        }
    }

    #[tokio::test]
    async fn large_message_that_does_not_end_is_given_up() {
        let admission = Admission::of_certificate(&["a"], limits());
        let part = &message(1 << 20)[..100_000];
        let mut frames = frames(part).chain(stream::pending());
        let mut begun = BegunMessage { introduction: usize::MAX, ..BegunMessage::default() };
        let status = loop {
            if let Err(status) = begun.next(&mut frames, &admission).await.unwrap() {
                break status;
            }
        };
        assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
    }

    #[tokio::test]
    async fn time_in_which_nothing_is_read_is_not_the_peers() {
        let limits = Limits { message_time: Duration::from_millis(300), ..limits() };
        let admission = Admission::of_certificate(&["a"], limits);
        let part = &message(1 << 20)[..100_000];
        let mut frames = frames(part).chain(stream::pending());
        let mut begun = BegunMessage { introduction: usize::MAX, ..BegunMessage::default() };
        for _ in 0..7 {
            assert!(begun.next(&mut frames, &admission).await.unwrap().is_ok());
        }
        let time = admission.process_time();
        let next = timeout(Duration::from_millis(600), begun.next(&mut frames, &admission)).await;
        assert!(next.is_err(), "it has as much time as before");
        drop(time);
        assert!(begun.next(&mut frames, &admission).await.unwrap().is_err());
    }

    #[tokio::test]
    async fn too_large_a_first_message_takes_no_room() {
        let admission = Admission::of_certificate(&["a"], limits());
        let _room = admission.receive(1 << 20).now_or_never().unwrap();
        let mut begun = BegunMessage { introduction: 100_000, ..BegunMessage::default() };
        let whole = message(100_000 - PREFIX + 1);
        let refused = begun.next(&mut frames(&whole), &admission).now_or_never().unwrap().unwrap();
        assert_eq!(refused.unwrap_err().code(), tonic::Code::ResourceExhausted);
        let mut begun = BegunMessage { introduction: 100_000, ..BegunMessage::default() };
        let whole = message(100_000 - PREFIX);
        assert!(begun.next(&mut frames(&whole), &admission).now_or_never().is_none(), "it waits for room");
    }

    #[tokio::test]
    async fn second_large_message_waits_for_the_first() {
        let first = Admission::of_certificate(&["a"], limits());
        let mut one = BegunMessage { introduction: usize::MAX, ..BegunMessage::default() };
        let whole = message(1 << 20);
        let mut frames_of_one = frames(&whole);
        assert!(one.next(&mut frames_of_one, &first).await.unwrap().is_ok());
        let mut other = BegunMessage { introduction: usize::MAX, ..BegunMessage::default() };
        let mut frames_of_other = frames(&whole);
        let waits = other.next(&mut frames_of_other, &first);
        tokio::pin!(waits);
        assert!(waits.as_mut().now_or_never().is_none());
        while one.next(&mut frames_of_one, &first).await.is_some() {}
        assert!(one.room.is_none());
        assert!(waits.await.unwrap().is_ok());
    }
}

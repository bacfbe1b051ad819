//! The messages of gRPC in the frames of a request's body, each in memory of its own: tonic keeps the memory of the largest one for as
//! long as the stream is open.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use futures_util::Stream;
use http_body_util::BodyStream;
use hyper::body::Frame;
use prost::Message;
use tonic::Status;
use tonic::body::Body;

use crate::admission::{Admission, Rest};
use crate::bounded_message::FieldBounds;
use crate::limits::Rejection;

/// Bytes before each message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// The messages of a peer's stream, which has to be let in. Decodes them within bounds, and counts the time as the peer's. A peer that
/// has work to make up for is not read meanwhile.
pub(crate) struct MessageReader<M, S = BodyStream<Body>> {
    frames: S,
    /// Most bytes of a message.
    most: usize,
    bounds: Option<FieldBounds>,
    admission: Arc<Admission>,
    /// The rest of the last frame.
    frame: Bytes,
    prefix: Vec<u8>,
    begun: Option<EncodedMessage>,
    /// A message of which all has come, and that is not decoded yet.
    whole: Option<EncodedMessage>,
    rest: Rest,
    is_ended: bool,
    message: PhantomData<fn() -> M>,
}

/// A message of which a part has come, or all.
struct EncodedMessage {
    length: usize,
    content: Vec<u8>,
    /// Its last bytes; those of a large one have its room.
    last: Bytes,
}

impl<M> MessageReader<M> {
    /// The messages in a body, of so many bytes at most.
    pub(crate) fn new(body: Body, most: usize, bounds: Option<FieldBounds>, admission: Arc<Admission>) -> Self {
        Self::of_frames(BodyStream::new(body), most, bounds, admission)
    }
}

impl<M, S> MessageReader<M, S> {
    fn of_frames(frames: S, most: usize, bounds: Option<FieldBounds>, admission: Arc<Admission>) -> Self {
        Self {
            frames,
            most,
            bounds,
            admission,
            frame: Bytes::new(),
            prefix: Vec::with_capacity(PREFIX),
            begun: None,
            whole: None,
            rest: Rest::default(),
            is_ended: false,
            message: PhantomData,
        }
    }

    /// Takes what the frame has of the next message, and the message, if that is all of it.
    fn take(&mut self) -> Result<Option<EncodedMessage>, Status> {
        if self.begun.is_none() {
            self.begun = self.begin()?;
        }
        let Some(EncodedMessage { length, content, last }) = &mut self.begun else { return Ok(None) };
        let missing = length.saturating_sub(content.len());
        *last = self.frame.split_to(missing.min(self.frame.len()));
        content.extend_from_slice(last);
        let is_whole = content.len() == *length;
        Ok(self.begun.take_if(|_| is_whole))
    }

    /// The message that begins with the frame, once its prefix has come.
    fn begin(&mut self) -> Result<Option<EncodedMessage>, Status> {
        let missing = PREFIX - self.prefix.len();
        self.prefix.extend_from_slice(&self.frame.split_to(missing.min(self.frame.len())));
        let Ok([compressed, length @ ..]) = <[u8; PREFIX]>::try_from(self.prefix.as_slice()) else { return Ok(None) };
        self.prefix.clear();
        let length = u32::from_be_bytes(length) as usize;
        if compressed != 0 {
            return Err(Status::internal("a message is compressed"));
        }
        if length > self.most {
            return Err(Status::out_of_range(format!("a message has {length} bytes, more than {}", self.most)));
        }
        Ok(Some(EncodedMessage { length, content: Vec::with_capacity(length), last: Bytes::new() }))
    }

    fn is_within_message(&self) -> bool {
        self.begun.is_some() || !self.prefix.is_empty()
    }
}

impl<M: Message + Default, S> MessageReader<M, S> {
    fn decode(&self, encoded: EncodedMessage) -> Result<M, Status> {
        let EncodedMessage { content, last: _room, .. } = encoded;
        let start = Instant::now();
        if self.bounds.is_some_and(|bounds| !bounds.allow(&content)) {
            self.admission.worked(start.elapsed());
            self.admission.rejected(Rejection::Message);
            return Err(Status::resource_exhausted("a message has too many fields, or cannot be read"));
        }
        let decoded = M::decode(Bytes::from(content)).map_err(|error| Status::internal(error.to_string()));
        self.admission.worked(start.elapsed());
        decoded
    }
}

impl<M, S> Stream for MessageReader<M, S>
where
    M: Message + Default,
    S: Stream<Item = Result<Frame<Bytes>, Status>> + Unpin,
{
    type Item = Result<M, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        while !this.is_ended {
            if this.whole.is_none() {
                match this.take() {
                    Ok(whole) => this.whole = whole,
                    Err(status) => {
                        this.is_ended = true;
                        return Poll::Ready(Some(Err(status)));
                    }
                }
            }
            // A message of which a part has come has its room and its time: it is read to its end.
            if this.whole.is_some() || !this.is_within_message() {
                ready!(this.rest.poll(&this.admission, context));
            }
            if let Some(encoded) = this.whole.take() {
                let message = this.decode(encoded);
                this.is_ended = message.is_err();
                return Poll::Ready(Some(message));
            }
            match ready!(Pin::new(&mut this.frames).poll_next(context)) {
                // Trailers say nothing in a request.
                Some(Ok(frame)) => this.frame = frame.into_data().unwrap_or_default(),
                Some(Err(status)) => {
                    this.is_ended = true;
                    return Poll::Ready(Some(Err(status)));
                }
                None => {
                    this.is_ended = true;
                    if this.is_within_message() {
                        return Poll::Ready(Some(Err(Status::internal("the stream ended within a message"))));
                    }
                }
            }
        }
        Poll::Ready(None)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, StreamExt, stream};
    use portcullis_report::ReportRequest;
    use proptest::prelude::*;

    use super::*;
    use crate::limits::Limits;

    fn framed(message: &ReportRequest) -> Vec<u8> {
        let length = u32::try_from(message.encoded_len()).unwrap().to_be_bytes();
        [&[0][..], &length, &message.encode_to_vec()].concat()
    }

    fn of_size(size: usize) -> ReportRequest {
        ReportRequest { node: "n".repeat(size), ..ReportRequest::default() }
    }

    type Frames = stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Status>>>;

    fn reader(frames: Vec<Vec<u8>>) -> MessageReader<ReportRequest, Frames> {
        let frames: Vec<_> = frames.into_iter().map(|data| Ok(Frame::data(Bytes::from(data)))).collect();
        MessageReader::of_frames(stream::iter(frames), 1 << 20, None, Admission::local(Limits::default()))
    }

    /// All messages, and the code of what ended them.
    fn read(mut reader: MessageReader<ReportRequest, Frames>) -> (Vec<ReportRequest>, Option<tonic::Code>) {
        let mut all = Vec::new();
        while let Some(next) = reader.next().now_or_never().unwrap() {
            match next {
                Ok(message) => all.push(message),
                Err(status) => {
                    assert!(reader.next().now_or_never().unwrap().is_none());
                    return (all, Some(status.code()));
                }
            }
        }
        (all, None)
    }

    proptest! {
        #[test]
        fn messages_are_read_however_they_are_divided(
            sizes in proptest::collection::vec(prop_oneof![0..9_usize, Just(70_000)], 0..5),
            cuts in proptest::collection::vec(1..20_000_usize, 1..6),
            missing in 0..2_usize,
        ) {
            let messages: Vec<_> = sizes.into_iter().map(of_size).collect();
            let mut bytes = messages.iter().map(framed).collect::<Vec<_>>().concat();
            bytes.truncate(bytes.len().saturating_sub(missing));
            let (mut frames, mut rest) = (Vec::new(), bytes.as_slice());
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (data, later) = rest.split_at((*cut).min(rest.len()));
                frames.push(data.to_vec());
                rest = later;
            }
            let (found, code) = read(reader(frames));
            let is_cut = missing > 0 && !messages.is_empty();
            prop_assert_eq!(code, is_cut.then_some(tonic::Code::Internal));
            prop_assert_eq!(&found[..], &messages[..messages.len() - usize::from(is_cut)]);
        }
    }

    #[test]
    fn message_that_is_too_large_or_compressed_ends_the_stream() {
        for (prefix, code) in [
            ([0, 0, 0x10, 0, 1], tonic::Code::OutOfRange),
            ([1, 0, 0, 0, 0], tonic::Code::Internal),
            ([0, 0, 0, 0, 1], tonic::Code::Internal),
        ] {
            let frames = vec![framed(&of_size(3)), [&prefix[..], &[0xff]].concat()];
            assert_eq!(read(reader(frames)), (vec![of_size(3)], Some(code)), "{prefix:?}");
        }
    }

    #[tokio::test]
    async fn message_is_not_read_until_work_is_made_up_for() {
        let limits = Limits { work: std::time::Duration::from_millis(50), ..Limits::default() };
        let admission = Admission::of_certificate(&["a"], limits);
        let mut reader = MessageReader { admission: Arc::clone(&admission), ..reader(vec![framed(&of_size(3))]) };
        admission.worked(std::time::Duration::from_secs(60));
        assert!(reader.next().now_or_never().is_none() && reader.begun.is_none());
        assert_eq!(reader.next().await.unwrap().unwrap(), of_size(3));
    }

    #[test]
    fn memory_of_a_message_that_was_read_is_given_back() {
        let mut reader = reader(vec![framed(&of_size(1 << 19)), framed(&of_size(3)), vec![0]]);
        for _ in 0..2 {
            assert!(reader.next().now_or_never().unwrap().unwrap().is_ok());
            assert!(reader.begun.is_none() && reader.frame.is_empty() && reader.prefix.capacity() < 16);
        }
    }
}

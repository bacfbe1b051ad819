//! HTTP/2 frame by frame: for streams that end at a chosen moment, and for clients that keep to no rule.

use super::{TlsConnection, TlsTarget};
use crate::error::{Error, Result};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// RFC 9113 section 7: the stream is no longer needed.
const CANCEL: u32 = 8;
/// RFC 9113 section 6.5.2: how many bytes of each answer the server may send unasked.
const INITIAL_WINDOW_SIZE: u16 = 4;

/// One HTTP/2 connection whose frames wait until [`H2Frames::send`], so that several arrive as one piece.
#[derive(Debug)]
pub struct H2Frames {
    connection: TlsConnection,
    authority: String,
    next: u32,
    waiting: Vec<u8>,
}

impl H2Frames {
    /// Connects with ALPN `h2`. Of the body of each answer the server may send `window` bytes.
    ///
    /// # Errors
    /// As [`TlsTarget::connect`].
    pub fn connect(target: &TlsTarget, window: u32) -> Result<Self> {
        let connection = target.clone().alpn(&["h2"]).connect()?;
        let settings = [&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &window.to_be_bytes()].concat();
        let mut waiting = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        put(&mut waiting, SETTINGS, 0, 0, &settings);
        let authority = target.sni.clone().unwrap_or_else(|| target.address.to_string());
        let mut frames = Self { connection, authority, next: 1, waiting };
        frames.send()?;
        Ok(frames)
    }

    /// The head of a request on a new stream, whose number this returns. With `ends` it has no body.
    pub fn open(&mut self, method: &str, path: &str, headers: &[(&str, &str)], ends: bool) -> u32 {
        let stream = self.next;
        self.next = stream.wrapping_add(2);
        let pseudo = [(":method", method), (":scheme", "https"), (":authority", &self.authority), (":path", path)];
        let lines = pseudo.iter().chain(headers);
        let block = lines.fold(Vec::new(), |mut block, (name, value)| {
            // A literal without indexing, its name a literal as well (RFC 7541 section 6.2.2).
            block.push(0);
            literal(&mut block, name);
            literal(&mut block, value);
            block
        });
        put(&mut self.waiting, HEADERS, END_HEADERS | if ends { END_STREAM } else { 0 }, stream, &block);
        stream
    }

    /// A piece of a request's body, not the last one.
    pub fn data(&mut self, stream: u32, bytes: &[u8]) {
        put(&mut self.waiting, DATA, 0, stream, bytes);
    }

    /// The end of a stream by RST_STREAM.
    pub fn reset(&mut self, stream: u32) {
        put(&mut self.waiting, RST_STREAM, 0, stream, &CANCEL.to_be_bytes());
    }

    /// Sends the frames that wait.
    ///
    /// # Errors
    /// [`Error::Connection`].
    pub fn send(&mut self) -> Result<()> {
        self.connection.write(&std::mem::take(&mut self.waiting))
    }

    /// Sends what waits and reads until an answer begins on the stream.
    ///
    /// # Errors
    /// [`Error::Connection`], also when the server closes before; [`Error::Http`] when it resets the stream.
    pub fn until_answered(&mut self, stream: u32) -> Result<()> {
        self.until(stream, HEADERS)
    }

    /// Sends what waits and reads until a piece of an answer's body has come on the stream.
    ///
    /// # Errors
    /// As [`H2Frames::until_answered`].
    pub fn until_data(&mut self, stream: u32) -> Result<()> {
        self.until(stream, DATA)
    }

    fn until(&mut self, stream: u32, wanted: u8) -> Result<()> {
        self.send()?;
        loop {
            let (kind, of) = self.read()?;
            match kind {
                kind if of == stream && kind == wanted => return Ok(()),
                RST_STREAM if of == stream => return Err(failed("the stream was reset")),
                _ => {}
            }
        }
    }

    /// Kind and stream of the next frame. A PING is answered, so that the server keeps the connection.
    fn read(&mut self) -> Result<(u8, u32)> {
        let head = self.connection.read_exact(9)?;
        let [a, b, c, kind, flags, stream @ ..] = head.as_slice() else { return Err(failed("a frame is cut")) };
        let length = u32::from_be_bytes([0, *a, *b, *c]);
        let stream = <[u8; 4]>::try_from(stream).map_err(|_| failed("a frame is cut"))?;
        let payload = self.connection.read_exact(usize::try_from(length).unwrap_or(usize::MAX))?;
        if *kind == PING && flags & ACK == 0 {
            let mut answer = Vec::new();
            put(&mut answer, PING, ACK, 0, &payload);
            self.connection.write(&answer)?;
        }
        Ok((*kind, u32::from_be_bytes(stream) & (u32::MAX >> 1)))
    }

    /// The connection below.
    pub fn into_connection(self) -> TlsConnection {
        self.connection
    }
}

fn put(bytes: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    bytes.extend(length);
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
}

/// A string of RFC 7541 section 5.2, not compressed.
fn literal(block: &mut Vec<u8>, text: &str) {
    const MOST: usize = 127;
    match u8::try_from(text.len()) {
        Ok(length) if text.len() < MOST => block.push(length),
        _ => {
            block.push(0x7f);
            let mut rest = text.len().saturating_sub(MOST);
            while rest >= 128 {
                block.push(0x80 | u8::try_from(rest % 128).unwrap_or(0));
                rest /= 128;
            }
            block.push(u8::try_from(rest).unwrap_or(0));
        }
    }
    block.extend(text.as_bytes());
}

fn failed(reason: &str) -> Error {
    Error::Http { step: "reading frames", reason: reason.to_owned() }
}

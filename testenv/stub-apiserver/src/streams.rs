//! Pod logs and proxies: answers that are not objects.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream::{StreamExt, iter, pending};
use http_body_util::{BodyExt, StreamBody};
use hyper::StatusCode;
use hyper::body::Frame;

use crate::route::flag;
use crate::status::{self, Answer};

const LOG: &str = "line 1\nline 2\n";

/// Two lines; with `follow` the answer then stays open.
pub(crate) fn log(uri: &str) -> Answer {
    if !flag(uri, "follow") {
        return status::text(StatusCode::OK, LOG);
    }
    let first = iter([Ok::<_, Infallible>(Frame::data(Bytes::from_static(LOG.as_bytes())))]);
    let body = StreamBody::new(first.chain(pending())).boxed_unsync();
    status::answer(StatusCode::OK, "text/plain; charset=utf-8", body)
}

/// Text of this many MiB, in equal pieces.
pub(crate) fn large(mebibytes: u32) -> Answer {
    const PIECE: &[u8] = &[b'x'; 64 * 1024];
    let pieces = (0..mebibytes.saturating_mul(16)).map(|_| Ok::<_, Infallible>(Frame::data(Bytes::from_static(PIECE))));
    status::answer(StatusCode::OK, "application/json", StreamBody::new(iter(pieces)).boxed_unsync())
}

/// The response of a proxied server: the method and target that reached it, and the body.
pub(crate) fn proxied(method: &str, uri: &str, body: &[u8]) -> Answer {
    status::text(StatusCode::OK, format!("proxied {method} {uri}\n{}", String::from_utf8_lossy(body)))
}

//! Server-sent events: one whenever the pages have changed.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use tokio::sync::watch;
use tokio::time::Instant;

use super::access::Reader;
use super::state::{Console, StreamPlace};
use super::visit::Visit;

/// The shortest time between two events of a stream.
const MIN_INTERVAL: Duration = Duration::from_secs(2);
/// The longest time without one.
const MAX_INTERVAL: Duration = Duration::from_secs(10);
/// The life of a stream, shorter than that of its connection. The browser opens another one, which is authenticated anew.
const LIFETIME: Duration = Duration::from_secs(50);
/// The time after which a browser opens another one.
const RETRY: Duration = Duration::from_secs(1);

/// A stream that is open.
struct EventStream {
    changes: watch::Receiver<u64>,
    /// Closed when the reader's session ends.
    session_end: Option<watch::Receiver<()>>,
    ends: Instant,
    is_first: bool,
    _place: StreamPlace,
}

pub(super) async fn events(State(console): State<Console>, visit: Visit) -> Response {
    let Some(place) = console.stream_place(&visit.reader) else {
        return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "10")], "too many streams\n").into_response();
    };
    let session_end = match visit.reader {
        Reader::Subject(_, end) => end,
        Reader::Everything(_) => None,
    };
    let (changes, ends) = (console.data.changed(), Instant::now() + LIFETIME);
    let stream = EventStream { changes, session_end, ends, is_first: true, _place: place };
    let events = unfold(stream, |mut stream| async move {
        let event = stream.next().await?;
        Some((Ok::<_, Infallible>(event), stream))
    });
    Sse::new(events).into_response()
}

impl EventStream {
    /// The next event; `None` at the stream's end.
    async fn next(&mut self) -> Option<Event> {
        if std::mem::take(&mut self.is_first) {
            return Some(Event::default().event("open").retry(RETRY).data("live"));
        }
        tokio::select! {
            () = ended(&mut self.session_end) => None,
            () = tokio::time::sleep_until(self.ends) => None,
            is_open = changed(&mut self.changes) => {
                let number = *self.changes.borrow_and_update();
                is_open.then(|| Event::default().event("changed").data(number.to_string()))
            }
        }
    }
}

/// Waits until the pages have changed, or are worth a new look; false if they never will.
async fn changed(changes: &mut watch::Receiver<u64>) -> bool {
    tokio::time::sleep(MIN_INTERVAL).await;
    match tokio::time::timeout(MAX_INTERVAL, changes.changed()).await {
        Ok(Err(_)) => false,
        Ok(Ok(())) | Err(_) => true,
    }
}

async fn ended(session_end: &mut Option<watch::Receiver<()>>) {
    match session_end {
        Some(end) => while end.changed().await.is_ok() {},
        None => std::future::pending().await,
    }
}

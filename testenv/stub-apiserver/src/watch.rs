//! Watches: one JSON object per change, until the client goes or its time is over.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use http_body_util::{BodyExt, StreamBody};
use hyper::StatusCode;
use hyper::body::Frame;
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::route::query;
use crate::status::{self, Answer};
use crate::store::{Filter, Store};

/// Longer than any test.
const FOREVER: Duration = Duration::from_secs(24 * 3600);

/// Starts a watch. Without a resourceVersion, or with 0, the present objects come first as ADDED.
pub(crate) fn answer(store: &Arc<Store>, filter: Filter, uri: &str) -> Answer {
    if query(uri, "sendInitialEvents").is_some() {
        // The answer of kube-apiserver without the feature WatchList; clients then list and watch.
        let message = "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
        return status::failure(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message, None);
    }
    let since = query(uri, "resourceVersion").unwrap_or_default();
    let seconds = query(uri, "timeoutSeconds").and_then(|value| value.parse().ok()).filter(|seconds| *seconds > 0);
    let mut first = Vec::new();
    let version = match since.as_str() {
        "" | "0" => {
            let (objects, version) = store.list(&filter);
            objects.iter().for_each(|object| first.extend(line("ADDED", object)));
            version
        }
        other => match other.parse() {
            Ok(version) => version,
            Err(_) => return status::bad_request("resourceVersion is not a number"),
        },
    };
    let end = Instant::now() + seconds.map_or(FOREVER, Duration::from_secs);
    let state = Watch { news: store.subscribe(), store: Arc::clone(store), filter, version, end, first };
    let frames = unfold(state, |mut watch| async move { Some((watch.next().await?, watch)) });
    let frames = futures_util::StreamExt::map(frames, |bytes| Ok::<_, Infallible>(Frame::data(bytes)));
    status::answer(StatusCode::OK, "application/json", StreamBody::new(frames).boxed_unsync())
}

struct Watch {
    store: Arc<Store>,
    news: tokio::sync::watch::Receiver<u64>,
    filter: Filter,
    version: u64,
    end: Instant,
    first: Vec<u8>,
}

impl Watch {
    async fn next(&mut self) -> Option<Bytes> {
        if !self.first.is_empty() {
            return Some(Bytes::from(std::mem::take(&mut self.first)));
        }
        loop {
            // Marked as seen before reading, so that nothing falls in between.
            self.news.borrow_and_update();
            let (changes, version) = self.store.changes_after(&self.filter, self.version);
            self.version = self.version.max(version);
            let lines: Vec<u8> = changes.iter().flat_map(|change| line(change.kind, &change.object)).collect();
            if !lines.is_empty() {
                return Some(Bytes::from(lines));
            }
            tokio::select! {
                changed = self.news.changed() => changed.ok()?,
                () = sleep_until(self.end) => return None,
            }
        }
    }
}

fn line(kind: &str, object: &serde_json::Value) -> Vec<u8> {
    format!("{}\n", json!({"type": kind, "object": object})).into_bytes()
}

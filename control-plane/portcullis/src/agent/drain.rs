//! Draining of Envoy's clients.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::admin::Admin;
use super::filter::Filter;
use crate::http_client::HttpError;

/// The interval of looking for open connections. With 1,000 clusters each look takes 40 ms of Envoy's main thread.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Envoy closes an HTTP/2 connection this long after its first GOAWAY (`drain_timeout` of its connection manager).
const ENVOY_DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The last watch ends this long before the drain timeout.
const FINAL_MARGIN: Duration = Duration::from_secs(1);

/// Sends Envoy's clients away within about `patience`, and returns when the last has gone: never, if some stay.
///
/// Envoy announces the end of a connection with the next response on it. In the first part of the time only some responses do,
/// more and more, so that busy clients do not all reach the other gateways at one moment; after that every response does.
///
/// On a connection without a new response the filter announces it. The filter also ends the watches, one after the other, as if
/// the upstream had: their clients open them again elsewhere.
pub(super) async fn drain(admin: Admin, filter: &Filter, patience: Duration) {
    let start = Instant::now();
    warn_on_error("drain its listeners", admin.post("/drain_listeners?graceful&skip_exit").await);
    if timeout_at(start + first_part(patience), wait_for_idle(admin)).await.is_ok() {
        return;
    }
    warn_on_error("send every client away", admin.post("/healthcheck/fail").await);
    let left = patience.saturating_sub(start.elapsed());
    if let Err(error) = filter.leave(left.saturating_sub(FINAL_MARGIN)).await {
        tracing::warn!(%error, "the filter cannot be told to end watches");
    }
    wait_for_idle(admin).await;
}

/// Half of the time that is left when Envoy's farewell to an HTTP/2 connection is taken off.
fn first_part(patience: Duration) -> Duration {
    patience.saturating_sub(ENVOY_DRAIN_TIMEOUT) / 2
}

fn warn_on_error(what: &str, outcome: Result<(), HttpError>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "Envoy cannot be told to {what}");
    }
}

/// Waits until no connection is left.
async fn wait_for_idle(admin: Admin) {
    while connections(admin).await != Some(0) {
        sleep(POLL_INTERVAL).await;
    }
}

/// Open connections of clients; none if Envoy does not answer.
async fn connections(admin: Admin) -> Option<u64> {
    let page = admin.get("/stats?usedonly&type=Gauges&filter=%5Elistener%5C..%2Adownstream_cx_active%24").await.ok()?;
    Some(count(&String::from_utf8_lossy(&page)))
}

/// Sums the listeners' gauges: neither the admin page's, which counts this question, nor each worker's share.
fn count(page: &str) -> u64 {
    let listeners = page.lines().filter(|line| !line.starts_with("listener.admin.") && !line.contains(".worker_"));
    listeners.filter_map(|line| line.rsplit_once(": ")?.1.trim().parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_counted_are_those_of_clients() {
        let page = "listener.0.0.0.0_6443.downstream_cx_active: 3\n\
                    listener.0.0.0.0_6443.worker_0.downstream_cx_active: 1\n\
                    listener.0.0.0.0_6443.worker_1.downstream_cx_active: 2\n\
                    listener.[__]_8443.downstream_cx_active: 4\n\
                    listener.admin.downstream_cx_active: 1\n\
                    listener.admin.main_thread.downstream_cx_active: 1\n";
        assert_eq!(count(page), 7);
        assert_eq!(count(""), 0);
    }

    #[test]
    fn every_client_gets_a_goaway_in_time() {
        for (patience, first) in [(0, 0.0), (5, 0.0), (20, 7.5), (65, 30.0)] {
            assert_eq!(first_part(Duration::from_secs(patience)).as_secs_f64(), first);
        }
    }
}

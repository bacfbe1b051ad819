//! Parts of limits that gateways share: the filter's report of their use to every control plane, and the answer of the one that
//! divides them back to the filter. The agent reads neither.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use portcullis_filter_config::limits::LEASE;
use portcullis_report::limits::next_exchange;
use portcullis_xds::ReportClient;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tonic::Status;
use tonic::transport::Channel;

use crate::agent::activity::{ActivityError, ActivitySource};

/// The time that an answer may take. A later one would be for a report that is not the newest any more.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause before another question, where there are no limits to share or there was no answer.
const PAUSE: Duration = Duration::from_secs(1);
/// The same where the filter does not know the question: an older release.
const OLD_FILTER_PAUSE: Duration = Duration::from_secs(60);
/// The pause before another stream.
const RECONNECT_PAUSE: Duration = Duration::from_secs(2);

/// The newest report; empty if there is none.
pub(super) type UseReports = watch::Receiver<Bytes>;
/// The way of answers.
pub(super) type PartsSender = mpsc::Sender<Bytes>;

/// The success of the exchange, for metrics.
#[derive(Clone, Debug, Default)]
pub(in crate::agent) struct LimitsState(Arc<Mutex<LastExchange>>);

#[derive(Clone, Copy, Debug, Default)]
struct LastExchange {
    /// Whether the filter has a part of any limit.
    has_parts: bool,
    answered: Option<Instant>,
}

impl LimitsState {
    fn change(&self, change: impl FnOnce(&mut LastExchange)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Metrics in the text format of Prometheus; empty where no limit is shared.
    pub(in crate::agent) fn text(&self) -> String {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !last.has_parts {
            return String::new();
        }
        let is_degraded = last.answered.is_none_or(|at| at.elapsed() >= LEASE);
        format!(
            "# HELP portcullis_limits_degraded Whether local limits hold in this gateway in the place of limits that gateways share, \
             because no control plane divides them.\n\
             # TYPE portcullis_limits_degraded gauge\n\
             portcullis_limits_degraded {}\n",
            u8::from(is_degraded)
        )
    }
}

/// Asks the filter, and carries the first answer back to it, until the runtime ends.
pub(super) async fn follow(
    source: ActivitySource,
    reports: watch::Sender<Bytes>,
    mut answers: mpsc::Receiver<Bytes>,
    state: LimitsState,
) {
    loop {
        let pause = match source.limits().await {
            Ok(report) => {
                state.change(|last| last.has_parts = !report.is_empty());
                exchange(&source, report, &reports, &mut answers, &state).await
            }
            Err(ActivityError::Timeout) => OLD_FILTER_PAUSE,
            Err(error) => {
                tracing::debug!(%error, "the filter does not report the use of limits");
                PAUSE
            }
        };
        sleep(pause).await;
    }
}

/// Returns the time until the next report.
async fn exchange(
    source: &ActivitySource,
    report: Bytes,
    reports: &watch::Sender<Bytes>,
    answers: &mut mpsc::Receiver<Bytes>,
    state: &LimitsState,
) -> Duration {
    if report.is_empty() {
        return PAUSE;
    }
    // PartsSender to the report before.
    while answers.try_recv().is_ok() {}
    reports.send_replace(report);
    let Ok(Some(parts)) = timeout(ANSWER_TIMEOUT, answers.recv()).await else { return Duration::ZERO };
    match source.apply(&parts).await {
        Ok(()) => state.change(|last| last.answered = Some(Instant::now())),
        Err(error) => tracing::debug!(%error, "the filter does not take the parts of limits"),
    }
    next_exchange(&parts).unwrap_or(PAUSE)
}

/// Sends every report on a connection for as long as it is polled. A failure concerns these reports alone.
pub(super) async fn exchange_on(
    channel: Channel,
    node: &str,
    mut reports: UseReports,
    answers: PartsSender,
    peer: &str,
) -> Infallible {
    let client = ReportClient::new(channel);
    let mut last = String::new();
    loop {
        let Err(status) = send_reports(&client, node, &mut reports, &answers).await;
        // Once, and not at every try.
        if status.message() != last {
            tracing::warn!(control_plane = peer, error = status.message(), "the use of limits is not reported");
            status.message().clone_into(&mut last);
        }
        sleep(RECONNECT_PAUSE).await;
    }
}

async fn send_reports(
    client: &ReportClient,
    node: &str,
    reports: &mut UseReports,
    answers: &PartsSender,
) -> Result<Infallible, Status> {
    // A gateway that shares no limit opens no stream.
    if reports.wait_for(|report| !report.is_empty()).await.is_err() {
        std::future::pending::<()>().await;
    }
    let mut stream = client.open(node).await?;
    loop {
        let report = reports.borrow_and_update().clone();
        let parts = stream.divide(report).await?;
        if !parts.is_empty() {
            // Beyond the first one they are not needed.
            let _ = answers.try_send(parts);
        }
        if reports.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

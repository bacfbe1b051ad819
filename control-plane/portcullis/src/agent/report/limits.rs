//! Parts of limits that gateways share: the filter's report of their use to every control plane, and the answer of the one that
//! divides them back to the filter. The agent reads neither.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use portcullis_filter_config::limits::LEASE;
use portcullis_report::limits::{answered_number, lacks_parts, next_exchange, reported_number};
use portcullis_xds::ReportClient;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tonic::Status;
use tonic::transport::Channel;

use super::stream_end::{ReportStreamEnd, ReportingEnvoy};
use crate::agent::activity::{ActivityError, ActivitySource};

/// The time that an answer may take at least and at most. A later one would be for a report that is not the newest any more.
const ANSWER_TIMEOUT: (Duration, Duration) = (Duration::from_millis(400), Duration::from_millis(1_500));
/// Bytes of reports that a control plane takes from a gateway.
const BYTES_PER_MILLISECOND: u64 = 1_024;
/// The pause before another question, where there are no limits to share or there was no answer.
const PAUSE: Duration = Duration::from_secs(1);
/// The same where the filter does not know the question: an older release.
const OLD_FILTER_PAUSE: Duration = Duration::from_secs(60);

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
    /// Whether the last answer had no part of some limit.
    lacks_parts: bool,
}

/// The time until the next report, and the time that its answer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ExchangePace {
    pause: Duration,
    patience: Duration,
}

impl ExchangePace {
    /// Before the first answer, and where there is nothing to answer.
    fn slow(pause: Duration) -> Self {
        let (_, most) = ANSWER_TIMEOUT;
        ExchangePace { pause, patience: most }
    }

    /// After a report that was waited for so long, in vain. Another control plane may divide from now on, and has to hear of leases
    /// before they end; one that is slow must not be asked ever sooner.
    fn unanswered(patience: Duration) -> Self {
        let (_, most) = ANSWER_TIMEOUT;
        ExchangePace { pause: Duration::ZERO, patience: (patience + patience / 2).min(most) }
    }

    /// After an answer that took so long.
    fn answered(pause: Duration, took: Duration) -> Self {
        let (least, most) = ANSWER_TIMEOUT;
        ExchangePace { pause, patience: took.saturating_mul(4).clamp(least, most) }
    }

    /// For a report of so many bytes, of which a control plane takes so many in a second.
    fn for_report(self, bytes: usize) -> Self {
        let least = u64::try_from(bytes).unwrap_or(u64::MAX) / BYTES_PER_MILLISECOND;
        ExchangePace { patience: self.patience.max(Duration::from_millis(least)), ..self }
    }
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
        let is_degraded = last.lacks_parts || last.answered.is_none_or(|at| at.elapsed() >= LEASE);
        format!(
            "# HELP portcullis_limits_degraded Whether a local limit holds in this gateway in the place of one that gateways share, \
             because no control plane gives it a part.\n\
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
    let (mut has_answered, mut pace) = (false, ExchangePace::slow(PAUSE));
    loop {
        pace = match source.limits().await {
            Ok(report) => {
                has_answered = true;
                state.change(|last| last.has_parts = !report.is_empty());
                let pace = pace.for_report(report.len());
                exchange(&source, report, pace.patience, (&reports, &mut answers), &state).await
            }
            Err(ActivityError::Timeout) if !has_answered => ExchangePace::slow(OLD_FILTER_PAUSE),
            Err(error) => {
                tracing::debug!(%error, "the filter does not report the use of limits");
                ExchangePace::slow(PAUSE)
            }
        };
        sleep(pace.pause).await;
    }
}

/// Exchanges one report.
async fn exchange(
    source: &ActivitySource,
    report: Bytes,
    patience: Duration,
    (reports, answers): (&watch::Sender<Bytes>, &mut mpsc::Receiver<Bytes>),
    state: &LimitsState,
) -> ExchangePace {
    if report.is_empty() {
        return ExchangePace::slow(PAUSE);
    }
    let (number, sent) = (reported_number(&report), Instant::now());
    reports.send_replace(report);
    // An answer to a report before this one means nothing to the filter.
    let answer = async {
        loop {
            let parts = answers.recv().await?;
            if answered_number(&parts) == number {
                return Some(parts);
            }
        }
    };
    let Ok(Some(parts)) = timeout(patience, answer).await else { return ExchangePace::unanswered(patience) };
    let took = sent.elapsed();
    match source.apply(&parts).await {
        Ok(()) => state.change(|last| {
            last.answered = Some(Instant::now());
            last.lacks_parts = lacks_parts(&parts);
        }),
        Err(error) => tracing::debug!(%error, "the filter does not take the parts of limits"),
    }
    ExchangePace::answered(next_exchange(&parts).unwrap_or(PAUSE), took)
}

/// Sends every report on a connection for as long as it is polled. A failure concerns these reports alone. `last` is why they failed
/// last, on this connection or one before it.
pub(super) async fn exchange_on(
    channel: Channel,
    envoy: &ReportingEnvoy,
    (mut reports, answers): (UseReports, PartsSender),
    peer: &str,
    last: &mut String,
) -> Infallible {
    let client = ReportClient::new(channel);
    loop {
        let Err(status) = send_reports(&client, envoy, &mut reports, &answers).await;
        let ReportStreamEnd { why, pause } = ReportStreamEnd::of(&status, envoy);
        // Once, and not at every try.
        if why != *last {
            tracing::warn!(control_plane = peer, error = why, "the use of limits is not reported");
            *last = why;
        }
        sleep(pause).await;
    }
}

async fn send_reports(
    client: &ReportClient,
    envoy: &ReportingEnvoy,
    reports: &mut UseReports,
    answers: &PartsSender,
) -> Result<Infallible, Status> {
    // A gateway that shares no limit opens no stream.
    if reports.wait_for(|report| !report.is_empty()).await.is_err() {
        std::future::pending::<()>().await;
    }
    let mut stream = client.open(&envoy.node, envoy.gateway.as_deref()).await?;
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

#[cfg(test)]
mod tests {
    use portcullis_filter_config::limits::{LimitPart, PartUse};
    use portcullis_report::limits::{PartsMessage, encode_use};
    use prost::Message;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex, split};

    use super::*;
    use crate::agent::filter::Filter;

    fn answer(number: u64, parts: &[Option<LimitPart>]) -> Bytes {
        let mut message = PartsMessage { number, next_milliseconds: 100, ..PartsMessage::default() };
        parts.iter().for_each(|part| message.push(*part));
        message.encode_to_vec().into()
    }

    /// Answers the agent's next question with a report of that number, and returns the command that was sent before it, if any.
    async fn report(filter: &mut BufReader<DuplexStream>, number: u64) -> Option<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            filter.read_line(&mut line).await.unwrap();
            if let Some(question) = line.strip_prefix("limits ") {
                let page = encode_use(1, number, [("c", "s", PartUse::default())]);
                let head = format!("activity {} {}\n", question.trim(), page.len());
                filter.write_all(&[head.as_bytes(), &page].concat()).await.unwrap();
                return lines.pop();
            }
            lines.push(line);
        }
    }

    #[test]
    fn answers_that_were_fast_are_soon_asked_for_again() {
        let ms = Duration::from_millis;
        let rows = [(100, 5, 400), (1_000, 5, 400), (100, 200, 800), (1_000, 900, 1_500)];
        for (pause, took, patience) in rows {
            let pace = ExchangePace::answered(ms(pause), ms(took));
            assert_eq!(pace, ExchangePace { pause: ms(pause), patience: ms(patience) }, "{pause}, {took}");
            assert_eq!(pace.for_report(500), pace);
        }
        assert_eq!(ExchangePace::answered(ms(0), ms(5)).for_report(768 << 10).patience, ms(768));
    }

    #[test]
    fn reports_without_an_answer_follow_each_other_more_slowly() {
        let first = ExchangePace::answered(PAUSE, Duration::ZERO).patience;
        let follow = std::iter::successors(Some(first), |patience| Some(ExchangePace::unanswered(*patience).patience));
        let patience: Vec<_> = follow.take(6).map(|patience| patience.as_millis()).collect();
        // Three of them are sent within a lease that was a second old.
        assert_eq!(patience, [400, 600, 900, 1_350, 1_500, 1_500]);
    }

    #[tokio::test]
    async fn answer_that_is_lost_is_soon_asked_for_again() {
        let (ours, theirs) = duplex(1 << 16);
        let (pages, commands) = split(ours);
        let source = ActivitySource::start(Filter::new(commands), pages);
        let mut filter = BufReader::new(theirs);
        filter.write_all(b"activity\n").await.unwrap();
        let (reports, _seen) = watch::channel(Bytes::new());
        let (answers, receiver) = mpsc::channel(8);
        tokio::spawn(follow(source, reports, receiver, LimitsState::default()));
        report(&mut filter, 1).await;
        // The pause after it is a short one.
        answers.send(answer(1, &[None])).await.unwrap();
        report(&mut filter, 2).await;
        let lost = Instant::now();
        report(&mut filter, 3).await;
        let waited = lost.elapsed();
        assert!(waited < Duration::from_millis(1_000), "{waited:?} for an answer that is there in some milliseconds");
    }

    #[tokio::test]
    async fn answer_to_an_older_report_is_not_taken_for_the_newest() {
        let (ours, theirs) = duplex(1 << 16);
        let (pages, commands) = split(ours);
        let source = ActivitySource::start(Filter::new(commands), pages);
        let mut filter = BufReader::new(theirs);
        filter.write_all(b"activity\n").await.unwrap();
        let (reports, mut seen) = watch::channel(Bytes::new());
        let (answers, receiver) = mpsc::channel(8);
        let state = LimitsState::default();
        tokio::spawn(follow(source, reports, receiver, state.clone()));
        assert_eq!(report(&mut filter, 1).await, None);
        seen.changed().await.unwrap();
        assert!(state.text().contains("portcullis_limits_degraded 1"));
        let part = Some(LimitPart { quota: 7, ..LimitPart::default() });
        // One that came too late, and then the one that counts.
        answers.send(answer(0, &[part])).await.unwrap();
        answers.send(answer(1, &[part])).await.unwrap();
        let applied = report(&mut filter, 2).await.unwrap();
        assert_eq!(
            portcullis_report::channel::Command::parse(&applied),
            Some(portcullis_report::channel::Command::Parts(answer(1, &[part]).to_vec()))
        );
        assert!(state.text().contains("portcullis_limits_degraded 0"));
        answers.send(answer(2, &[None])).await.unwrap();
        report(&mut filter, 3).await.unwrap();
        assert!(state.text().contains("portcullis_limits_degraded 1"), "the local limit holds");
    }
}

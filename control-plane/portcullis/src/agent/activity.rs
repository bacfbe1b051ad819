//! Answers of the filter in Envoy over the agent's channel: the page of activity, and the use of limits that gateways share.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use portcullis_filter_config::activity::Activity;
use portcullis_report::channel::{ANNOUNCEMENT, Command, parse_answer};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::filter::Filter;

/// The time for an answer. The filter makes it on a thread of its own, so that only a stopped Envoy is late.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a page: some ten times what 10,000 clusters with traffic take.
const MAX_BYTES: u64 = 32 << 20;
/// Bytes of the line in front of it.
const MAX_LINE: u64 = 128;

/// Why there is no page. It is asked for again.
#[derive(Debug, thiserror::Error)]
pub(super) enum ActivityError {
    #[error("no filter has said that it counts activity")]
    Unavailable,
    #[error("cannot ask the filter")]
    Ask(#[source] io::Error),
    #[error("no answer within {TIMEOUT:?}")]
    Timeout,
    #[error("the channel to the filter has ended")]
    Ended,
    #[error("the answer cannot be read")]
    Page(#[from] serde_json::Error),
}

/// Asks the filter in Envoy for its activity.
#[derive(Clone, Debug)]
pub(super) struct ActivitySource(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    filter: Filter,
    /// Whether the filter has said that it answers.
    is_announced: AtomicBool,
    /// One question at a time; with it the newest answer.
    turn: tokio::sync::Mutex<Option<(Instant, Arc<Activity>)>>,
    last: AtomicU64,
    waiting: Mutex<Option<(u64, ActivityReply)>>,
}

type ActivityReply = oneshot::Sender<Vec<u8>>;

impl ActivitySource {
    /// Asks the filter, and reads its answers as long as the channel is open.
    pub(super) fn start(filter: Filter, answers: impl AsyncRead + Send + Unpin + 'static) -> Self {
        let shared = Arc::new(Shared {
            filter,
            is_announced: AtomicBool::new(false),
            turn: tokio::sync::Mutex::default(),
            last: AtomicU64::new(0),
            waiting: Mutex::default(),
        });
        let reader = Arc::clone(&shared);
        tokio::spawn(async move {
            if let Err(error) = reader.read(BufReader::new(answers)).await {
                tracing::warn!(%error, "the filter's answers cannot be read: its activity is not known");
            }
            reader.is_announced.store(false, Ordering::Relaxed);
            *reader.waiting() = None;
        });
        Self(shared)
    }

    /// A new page.
    pub(super) async fn fetch(&self) -> Result<Arc<Activity>, ActivityError> {
        self.newer_than(Duration::ZERO).await
    }

    /// The newest page, if it is younger than that, or a new one.
    pub(super) async fn newer_than(&self, age: Duration) -> Result<Arc<Activity>, ActivityError> {
        if !self.0.is_announced.load(Ordering::Relaxed) {
            return Err(ActivityError::Unavailable);
        }
        let mut newest = self.0.turn.lock().await;
        if let Some((_, page)) = newest.as_ref().filter(|(at, _)| at.elapsed() < age) {
            return Ok(Arc::clone(page));
        }
        let page = Arc::new(serde_json::from_slice(&self.0.ask(Command::Activity).await?)?);
        *newest = Some((Instant::now(), Arc::clone(&page)));
        Ok(page)
    }

    /// A report of the use of limits that gateways share; empty if the filter has no part of one.
    pub(super) async fn limits(&self) -> Result<Bytes, ActivityError> {
        if !self.0.is_announced.load(Ordering::Relaxed) {
            return Err(ActivityError::Unavailable);
        }
        let _turn = self.0.turn.lock().await;
        self.0.ask(Command::Limits).await.map(Bytes::from)
    }

    /// Has the filter apply the parts of these limits.
    pub(super) async fn apply(&self, parts: &[u8]) -> Result<(), ActivityError> {
        self.0.filter.send(Command::Parts(parts.to_vec())).await.map_err(ActivityError::Ask)
    }
}

impl Shared {
    async fn ask(&self, question: impl FnOnce(u64) -> Command) -> Result<Vec<u8>, ActivityError> {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        *self.waiting() = Some((number, sender));
        let exchange = async {
            self.filter.send(question(number)).await.map_err(ActivityError::Ask)?;
            answer.await.map_err(|_| ActivityError::Ended)
        };
        timeout(TIMEOUT, exchange).await.map_err(|_| ActivityError::Timeout)?
    }

    /// Reads all answers, also those that came too late: the next one begins behind them.
    async fn read(&self, mut answers: impl AsyncBufRead + Unpin) -> io::Result<()> {
        loop {
            let mut line = String::new();
            if (&mut answers).take(MAX_LINE).read_line(&mut line).await? == 0 {
                return Ok(());
            }
            if line.trim_end() == ANNOUNCEMENT {
                self.is_announced.store(true, Ordering::Relaxed);
                continue;
            }
            let (number, length) = head(&line).ok_or_else(|| io::Error::other("an answer of another kind"))?;
            let mut page = Vec::new();
            if (&mut answers).take(length).read_to_end(&mut page).await? as u64 != length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let waiting = self.waiting().take_if(|(waiting, _)| *waiting == number);
            if let Some((_, answer)) = waiting {
                // The caller may have gone.
                let _ = answer.send(page);
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Option<(u64, ActivityReply)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Number and length of the answer that begins with the line.
fn head(line: &str) -> Option<(u64, u64)> {
    parse_answer(line).filter(|(_, length)| *length <= MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, DuplexStream, duplex, split};

    use super::*;

    /// A source, and the filter's end of its channel.
    fn pair() -> (ActivitySource, BufReader<DuplexStream>) {
        let (ours, theirs) = duplex(1 << 16);
        let (answers, commands) = split(ours);
        (ActivitySource::start(Filter::new(commands), answers), BufReader::new(theirs))
    }

    async fn announced(source: &ActivitySource, filter: &mut BufReader<DuplexStream>) {
        filter.write_all(b"activity\n").await.unwrap();
        while !source.0.is_announced.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
    }

    async fn question(filter: &mut BufReader<DuplexStream>) -> String {
        let mut line = String::new();
        filter.read_line(&mut line).await.unwrap();
        line
    }

    #[tokio::test]
    async fn source_that_was_never_announced_is_not_asked() {
        let (source, _filter) = pair();
        assert!(matches!(source.fetch().await, Err(ActivityError::Unavailable)));
    }

    #[tokio::test]
    async fn answer_that_comes_late_is_not_the_next_one() {
        let (source, mut filter) = pair();
        announced(&source, &mut filter).await;
        tokio::select! {
            page = source.fetch() => panic!("{page:?}"),
            // The caller goes.
            line = question(&mut filter) => assert_eq!(line, "activity 0\n"),
        }
        let answers = async {
            assert_eq!(question(&mut filter).await, "activity 1\n");
            let (late, page) = (r#"{"process":1}"#, r#"{"process":2}"#);
            let text = format!("activity 0 {}\n{late}activity 1 {}\n{page}", late.len(), page.len());
            filter.write_all(text.as_bytes()).await.unwrap();
        };
        let (page, ()) = tokio::join!(source.fetch(), answers);
        assert_eq!(page.unwrap().process, 2);
        let again = source.newer_than(Duration::from_secs(3_600)).await;
        assert_eq!(again.unwrap().process, 2, "it is young enough, and nobody is asked");
    }

    #[tokio::test]
    async fn answer_that_is_too_long_or_none_ends_the_source() {
        for text in ["activity 0 33554433\n", "another word\n", "activity 0 5\nabc", "activity 0\n"] {
            let (source, mut filter) = pair();
            announced(&source, &mut filter).await;
            let answers = async {
                question(&mut filter).await;
                filter.write_all(text.as_bytes()).await.unwrap();
                filter.shutdown().await.unwrap();
            };
            let (page, ()) = tokio::join!(source.fetch(), answers);
            assert!(matches!(page, Err(ActivityError::Ended)), "{text:?}: {page:?}");
            assert!(matches!(source.fetch().await, Err(ActivityError::Unavailable)), "{text:?}");
        }
    }
}

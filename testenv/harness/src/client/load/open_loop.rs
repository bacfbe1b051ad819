use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::connection::{LoadConnection, failure_text};
use super::tally::Tally;
use super::{LoadProfile, Outcome};
use crate::client::ClientPool;
use crate::error::{Error, Result};
use crate::wait;

/// How often it is looked whether requests are due.
const TICK: Duration = Duration::from_millis(4);
/// More under way than this, and further ones are withheld: the machine would only measure itself.
const MAX_UNDER_WAY: u64 = 250;

/// Requests at a steady rate, until it is stopped or dropped.
#[derive(Debug)]
pub struct OpenLoopLoad {
    runtime: Arc<Runtime>,
    shared: Arc<Shared>,
    pacer: JoinHandle<()>,
    connections: std::sync::atomic::AtomicUsize,
}

#[derive(Debug)]
struct Shared {
    lines: Vec<Arc<LoadConnection>>,
    paths: Vec<String>,
    patience: Duration,
    tally: Tally,
    under_way: AtomicU64,
    over: AtomicBool,
}

impl ClientPool {
    /// Sends GETs to the paths in turn, each on the next lane, so many per second. An answer that takes longer than the
    /// lane's timeout is a failure.
    ///
    /// # Errors
    /// [`Error::Http`] without a lane or a path, [`Error::Tls`].
    pub fn steady(&self, lanes: &[LoadProfile], paths: &[&str], per_second: f64) -> Result<OpenLoopLoad> {
        let lines = lanes.iter().cloned().map(|lane| LoadConnection::new(lane).map(Arc::new));
        self.steady_on(lines.collect::<Result<_>>()?, paths, per_second)
    }

    pub(super) fn steady_on(
        &self,
        lines: Vec<Arc<LoadConnection>>,
        paths: &[&str],
        per_second: f64,
    ) -> Result<OpenLoopLoad> {
        let patience = lines.iter().map(|line| line.lane.target.timeout).max();
        let Some(patience) = patience.filter(|_| !paths.is_empty()) else {
            return Err(Error::Http { step: "starting a load", reason: "no lane or no path".to_owned() });
        };
        let shared = Arc::new(Shared {
            lines,
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            patience,
            tally: Tally::new(),
            under_way: AtomicU64::new(0),
            over: AtomicBool::new(false),
        });
        let runtime = Arc::clone(self.runtime());
        let pacer = runtime.spawn(pace(Arc::clone(&shared), per_second));
        Ok(OpenLoopLoad { runtime, shared, pacer, connections: Default::default() })
    }
}

impl OpenLoopLoad {
    /// The results since the start or the last call. Requests under way count in the interval in which they end.
    pub fn take(&self) -> Outcome {
        let connections = self.shared.lines.iter().map(|line| line.connections()).sum();
        let before = self.connections.swap(connections, Ordering::AcqRel);
        Outcome { connections: connections - before, ..self.shared.tally.take() }
    }

    /// Sends no more, waits for the requests under way, and returns the results since the last call.
    ///
    /// # Errors
    /// [`Error::Deadline`] if requests neither end nor time out.
    pub fn stop(mut self) -> Result<Outcome> {
        self.shared.over.store(true, Ordering::Release);
        let paced = self.runtime.block_on(&mut self.pacer);
        paced.map_err(|error| Error::Http { step: "sending a load", reason: error.to_string() })?;
        let outcome = self.take();
        let all_ended = || (self.shared.under_way.load(Ordering::Acquire) == 0).then_some(());
        wait::until("all requests have ended", self.shared.patience + Duration::from_secs(5), all_ended)?;
        let last = self.take();
        Ok(outcome.and(last))
    }
}

impl Drop for OpenLoopLoad {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        self.pacer.abort();
    }
}

async fn pace(shared: Arc<Shared>, per_second: f64) {
    let started = Instant::now();
    let mut asked: u64 = 0;
    let mut ticks = tokio::time::interval(TICK);
    while !shared.over.load(Ordering::Acquire) {
        ticks.tick().await;
        let due = (started.elapsed().as_secs_f64() * per_second) as u64;
        while asked < due {
            if shared.under_way.load(Ordering::Acquire) >= MAX_UNDER_WAY {
                shared.tally.withheld(due - asked);
                asked = due;
                break;
            }
            shared.under_way.fetch_add(1, Ordering::AcqRel);
            shared.tally.sent(1);
            tokio::spawn(one(Arc::clone(&shared), asked));
            asked += 1;
        }
    }
}

async fn one(shared: Arc<Shared>, number: u64) {
    let pick = |count: usize, number: u64| usize::try_from(number).unwrap_or_default() % count.max(1);
    let lane = pick(shared.lines.len(), number);
    // Every lane asks for every path.
    let path = pick(shared.paths.len(), number / shared.lines.len().max(1) as u64);
    if let (Some(line), Some(path)) = (shared.lines.get(lane), shared.paths.get(path)) {
        let sent = Instant::now();
        let end = tokio::time::timeout(shared.patience, exchange(line, path)).await;
        let end = end.unwrap_or_else(|_| Err("no whole answer in time".to_owned()));
        shared.tally.ended(&line.lane.name, sent, end.map_err(|reason| format!("{path}: {reason}")));
    }
    shared.under_way.fetch_sub(1, Ordering::AcqRel);
}

/// The status, the server's name, and the body if it is no good one.
async fn exchange(line: &LoadConnection, path: &str) -> std::result::Result<(u16, String, String), String> {
    let (response, own) = line.send(path).await?.split();
    let (parts, body) = response.into_parts();
    let server = parts.headers.get("x-stub-name").and_then(|name| name.to_str().ok()).unwrap_or_default().to_owned();
    let is_good = parts.status == 200;
    let body = read(body, !is_good).await?;
    line.recycle(own).await;
    Ok((parts.status.as_u16(), server, body))
}

async fn read(mut body: Incoming, keep: bool) -> std::result::Result<String, String> {
    let mut kept = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| failure_text("reading the body", &error))?;
        if let (true, Ok(data)) = (keep, frame.into_data()) {
            kept.extend(data);
        }
    }
    Ok(String::from_utf8_lossy(&kept).into_owned())
}

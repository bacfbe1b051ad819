use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::task::JoinSet;

use super::connection::{LoadConnection, failure_text};
use super::{Failure, LoadProfile, OpenLoopLoad};
use crate::client::ClientPool;
use crate::error::{Error, Result};

/// The number of watches that are opened at a time.
const AT_ONCE: usize = 32;

/// Watches that stay open until they are dropped, and what each of them saw.
#[derive(Debug)]
pub struct Watches {
    shared: Arc<Shared>,
    lines: Vec<Arc<LoadConnection>>,
    // Dropping it ends the watches.
    _following: JoinSet<()>,
    pool: ClientPool,
}

#[derive(Debug)]
struct Shared {
    started: Instant,
    /// How many lines each watch has read: one for each event.
    lines: Vec<AtomicU64>,
    ended: Mutex<Vec<Failure>>,
}

impl ClientPool {
    /// Opens so many watches on each lane and returns when all are answered. With HTTP/2 those of a lane share its
    /// connection.
    ///
    /// # Errors
    /// [`Error::Http`] if one cannot be opened; [`Error::Tls`].
    pub fn watches(&self, lanes: &[(LoadProfile, usize)], path: &str) -> Result<Watches> {
        let total = lanes.iter().map(|(_, count)| count).sum();
        let shared = Arc::new(Shared {
            started: Instant::now(),
            lines: (0..total).map(|_| AtomicU64::new(0)).collect(),
            ended: Mutex::default(),
        });
        let mut numbers = 0..total;
        let mut plan: Vec<(usize, Arc<LoadConnection>)> = Vec::with_capacity(total);
        let mut lines = Vec::with_capacity(lanes.len());
        for (lane, count) in lanes {
            let line = Arc::new(LoadConnection::new(lane.clone())?);
            lines.push(Arc::clone(&line));
            plan.extend(numbers.by_ref().take(*count).map(|number| (number, Arc::clone(&line))));
        }
        let opened = self.runtime().block_on(open(plan, path.to_owned(), Arc::clone(&shared)));
        let following = opened.map_err(|reason| Error::Http { step: "opening a watch", reason })?;
        Ok(Watches { shared, lines, _following: following, pool: self.clone() })
    }
}

impl Watches {
    /// How many were opened.
    pub fn len(&self) -> usize {
        self.shared.lines.len()
    }

    /// Whether none was opened.
    pub fn is_empty(&self) -> bool {
        self.shared.lines.is_empty()
    }

    /// Those that ended, however that was: a watch in these tests never ends by itself.
    pub fn ended(&self) -> Vec<Failure> {
        self.shared.ended().clone()
    }

    /// The fewest and the most events on one of them.
    pub fn events(&self) -> (u64, u64) {
        let counts = self.shared.lines.iter().map(|lines| lines.load(Ordering::Acquire));
        counts.fold((u64::MAX, 0), |(least, most), count| (least.min(count), most.max(count)))
    }

    /// As [`ClientPool::steady`], over the connections that the watches of HTTP/2 lanes were opened on, until these close.
    ///
    /// # Errors
    /// [`Error::Http`] without a lane or a path.
    pub fn steady(&self, paths: &[&str], per_second: f64) -> Result<OpenLoopLoad> {
        self.pool.steady_on(self.lines.clone(), paths, per_second)
    }

    /// The threads that they share.
    pub fn pool(&self) -> &ClientPool {
        &self.pool
    }
}

impl Shared {
    fn ended(&self) -> MutexGuard<'_, Vec<Failure>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn open(
    plan: Vec<(usize, Arc<LoadConnection>)>,
    path: String,
    shared: Arc<Shared>,
) -> std::result::Result<JoinSet<()>, String> {
    let mut following = JoinSet::new();
    let mut opening = JoinSet::new();
    let mut waiting = plan.into_iter();
    loop {
        while opening.len() < AT_ONCE {
            let Some((number, line)) = waiting.next() else { break };
            let path = path.clone();
            opening.spawn(async move {
                let opened = tokio::time::timeout(line.lane.target.timeout, head(&line, &path)).await;
                let opened = opened.unwrap_or_else(|_| Err("no answer in time".to_owned()));
                (number, Arc::clone(&line), opened)
            });
        }
        let Some(opened) = opening.join_next().await else { return Ok(following) };
        let (number, line, body) = opened.map_err(|error| error.to_string())?;
        let body = body.map_err(|reason| format!("{}: {reason}", line.lane.name))?;
        following.spawn(follow(number, line, body, Arc::clone(&shared)));
    }
}

/// The answer's body, and the connection if it is the watch's own: it ends with this value.
async fn head(line: &LoadConnection, path: &str) -> std::result::Result<(Incoming, impl Send + use<>), String> {
    let (response, own) = line.send(path).await?.split();
    let status = response.status();
    if status != 200 {
        return Err(format!("status {status}"));
    }
    Ok((response.into_body(), own))
}

async fn follow(number: usize, line: Arc<LoadConnection>, (mut body, own): (Incoming, impl Send), shared: Arc<Shared>) {
    let opened = Instant::now();
    let reason = loop {
        match body.frame().await {
            None => break "it ended".to_owned(),
            Some(Err(error)) => break failure_text("reading", &error),
            Some(Ok(frame)) => {
                let Ok(data) = frame.into_data() else { continue };
                let lines = data.iter().filter(|byte| **byte == b'\n').count() as u64;
                if let Some(count) = shared.lines.get(number) {
                    count.fetch_add(lines, Ordering::AcqRel);
                }
            }
        }
    };
    drop(own);
    let (sent, took): (_, Duration) = (opened.duration_since(shared.started), opened.elapsed());
    shared.ended().push(Failure { sent, took, lane: line.lane.name.clone(), reason });
}

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::task::JoinSet;

use super::LoadProfile;
use super::connection::{LoadConnection, failure_text};
use crate::client::ClientPool;
use crate::error::Result;

/// How long a client waits before it opens a watch again.
const AGAIN: Duration = Duration::from_millis(100);

/// Watches that are opened again whenever they end, as informers do, until this value is dropped.
#[derive(Debug)]
pub struct Watchers {
    ends: Arc<Mutex<Vec<End>>>,
    // Dropping it ends the watches.
    _following: JoinSet<()>,
}

/// The end of a watch.
#[derive(Debug, Clone)]
pub struct End {
    /// When it was.
    pub at: Instant,
    /// Why, if the server did not end the answer in order.
    pub broken: Option<String>,
}

impl ClientPool {
    /// One watch on each lane, over a connection of its own.
    ///
    /// # Errors
    /// [`crate::Error::Tls`].
    pub fn follow(&self, lanes: &[LoadProfile], path: &str) -> Result<Watchers> {
        let ends = Arc::<Mutex<Vec<End>>>::default();
        let mut following = JoinSet::new();
        for lane in lanes {
            let line = LoadConnection::new(lane.clone())?;
            following.spawn_on(follow(line, path.to_owned(), Arc::clone(&ends)), self.runtime().handle());
        }
        Ok(Watchers { ends, _following: following })
    }
}

impl Watchers {
    /// Every end so far.
    pub fn ends(&self) -> Vec<End> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn follow(line: LoadConnection, path: String, ends: Arc<Mutex<Vec<End>>>) {
    loop {
        let broken = watch(&line, &path).await.err().map(|reason| format!("{}: {reason}", line.lane.name));
        ends.lock().unwrap_or_else(PoisonError::into_inner).push(End { at: Instant::now(), broken });
        tokio::time::sleep(AGAIN).await;
    }
}

/// Opens a watch and reads it to its end.
async fn watch(line: &LoadConnection, path: &str) -> std::result::Result<(), String> {
    // The connection stays as long as its watch.
    let (response, _own) = line.send(path).await?.split();
    let status = response.status();
    if status != 200 {
        return Err(format!("status {status}"));
    }
    read(response.into_body()).await
}

async fn read(mut body: Incoming) -> std::result::Result<(), String> {
    while let Some(frame) = body.frame().await {
        frame.map_err(|error| failure_text("reading", &error))?;
    }
    Ok(())
}

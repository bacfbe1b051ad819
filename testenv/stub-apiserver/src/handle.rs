//! A stub inside a test process, behind a blocking API.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::app::App;
use crate::error::StubError;
use crate::faults::Fault;
use crate::options::StubOptions;
use crate::record::{Counters, Record};
use crate::server::Bound;

/// A running stub. Dropping it closes every connection and frees its port.
pub struct StubServer {
    app: Arc<App>,
    address: SocketAddr,
    admin_address: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

type Started = Result<(Arc<App>, SocketAddr, Option<SocketAddr>), StubError>;

impl StubServer {
    /// Starts a stub in a thread of its own; it listens when this returns.
    ///
    /// # Errors
    /// [`StubError`] when its options or its address are bad.
    pub fn start(options: StubOptions) -> Result<Self, StubError> {
        let (started, wait) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name(format!("stub-{}", options.name))
            .spawn(move || run(options, &started, stopped))
            .map_err(StubError::Runtime)?;
        let (app, address, admin_address) = wait.recv().map_err(|_| StubError::Thread)??;
        Ok(Self { app, address, admin_address, stop: Some(stop), thread: Some(thread) })
    }

    /// The address of its listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of its admin page.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// `https://<address>`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Every request since the start or the last [`StubServer::clear`], exactly as it came.
    pub fn records(&self) -> Vec<Record> {
        self.app.records.all()
    }

    /// Records of requests for one path (query aside).
    pub fn records_for(&self, path: &str) -> Vec<Record> {
        let mut records = self.records();
        records.retain(|record| record.path() == path);
        records
    }

    /// Forgets the records. Counters go on.
    pub fn clear(&self) {
        self.app.records.clear();
    }

    /// The counts of connections and messages, also of those without a request.
    pub fn counters(&self) -> Counters {
        self.app.records.counters()
    }

    /// How many requests run now, reviews and health checks aside.
    pub fn running(&self) -> usize {
        self.app.load.running()
    }

    /// The value of [`StubServer::take_peak`], which stays.
    pub fn peak(&self) -> usize {
        self.app.load.peak()
    }

    /// The most requests that ran at a time since the start or the last call, reviews and health checks aside.
    pub fn take_peak(&self) -> usize {
        self.app.load.take_peak()
    }

    /// Shows this certificate to connections from now on.
    ///
    /// # Errors
    /// [`StubError::Pem`] or [`StubError::Tls`]; the one before is then still shown.
    pub fn show(&self, certificate: &str, key: &str) -> Result<(), StubError> {
        self.app.show(certificate, key)
    }

    /// Adds a fault behind those that are there.
    pub fn fault(&self, fault: Fault) {
        self.app.faults.add(fault);
    }

    /// Ends all faults; what [`crate::Action::Hold`] holds goes on.
    pub fn clear_faults(&self) {
        self.app.faults.replace(Vec::new());
    }
}

impl std::fmt::Debug for StubServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StubServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for StubServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the server's thread was printed already.
            let _ = thread.join();
        }
    }
}

fn run(options: StubOptions, started: &mpsc::Sender<Started>, stopped: oneshot::Receiver<()>) {
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(started.send(Err(StubError::Runtime(error)))),
    };
    // Dropping the runtime at the end of this function ends every connection.
    runtime.block_on(async move {
        let bound = match Bound::new(options).await {
            Ok(bound) => bound,
            Err(error) => return drop(started.send(Err(error))),
        };
        if started.send(Ok((Arc::clone(&bound.app), bound.address, bound.admin_address))).is_err() {
            return;
        }
        tokio::select! {
            () = bound.run() => {}
            _ = stopped => {}
        }
    });
}

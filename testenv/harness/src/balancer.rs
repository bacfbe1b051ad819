//! A load balancer on layer 4: new connections go to servers that are ready, open ones stay.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::client::plain;
use crate::error::{Error, Result};
use crate::ports;

/// One server behind a [`Balancer`].
#[derive(Debug, Clone, Copy)]
pub struct Backend {
    /// The target of connections.
    pub address: SocketAddr,
    /// The address of the /readyz that decides about new connections.
    pub readiness: SocketAddr,
}

/// A running load balancer. Ends with this value.
#[derive(Debug)]
pub struct Balancer {
    address: SocketAddr,
    ready: Ready,
    // Ends what runs on it when it is dropped.
    _runtime: Runtime,
}

type Ready = Arc<Mutex<Vec<SocketAddr>>>;

impl Balancer {
    /// Starts a load balancer that asks for readiness at an interval.
    ///
    /// # Errors
    /// [`Error::Ports`] or [`Error::Connection`].
    pub fn start(backends: Vec<Backend>, interval: Duration) -> Result<Self> {
        let address = ports::free_address()?;
        let failed = Error::connection("listening at", address);
        let listening =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().and_then(|runtime| {
                let listener = runtime.block_on(TcpListener::bind(address))?;
                Ok((runtime, listener))
            });
        let (runtime, listener) = listening.map_err(failed)?;
        let ready = Ready::default();
        runtime.spawn(serve(listener, Arc::clone(&ready)));
        runtime.spawn(ask(backends, interval, Arc::clone(&ready)));
        Ok(Self { address, ready, _runtime: runtime })
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The servers that get new connections.
    pub fn ready(&self) -> Vec<SocketAddr> {
        lock(&self.ready).clone()
    }
}

async fn ask(backends: Vec<Backend>, interval: Duration, ready: Ready) {
    loop {
        let asked = backends.clone();
        let asking = tokio::task::spawn_blocking(move || {
            let is_ready =
                |backend: &Backend| plain::get(backend.readiness, "/readyz").is_ok_and(|got| got.status == 200);
            asked.into_iter().filter(is_ready).map(|backend| backend.address).collect()
        });
        if let Ok(found) = asking.await {
            *lock(&ready) = found;
        }
        tokio::time::sleep(interval).await;
    }
}

async fn serve(listener: TcpListener, ready: Ready) {
    let mut turn: usize = 0;
    while let Ok((mut client, _)) = listener.accept().await {
        let ready = lock(&ready).clone();
        turn = turn.wrapping_add(1);
        // No server is ready: the connection is closed.
        let Some(address) = ready.get(turn % ready.len().max(1)).copied() else { continue };
        tokio::spawn(async move {
            let Ok(mut server) = TcpStream::connect(address).await else { return };
            // Small writes are answered at once.
            let _ = (client.set_nodelay(true), server.set_nodelay(true));
            // How it ends, both sides see.
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        });
    }
}

fn lock(ready: &Ready) -> std::sync::MutexGuard<'_, Vec<SocketAddr>> {
    ready.lock().unwrap_or_else(PoisonError::into_inner)
}

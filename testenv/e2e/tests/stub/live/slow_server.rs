//! A server that takes its time for each connection.

use std::io::copy;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// The time that a connection lies before its handshake is answered.
const DELAY: Duration = Duration::from_millis(1_500);

/// A relay to a server. Nothing that comes is read before [`DELAY`] is over; what follows is not delayed.
pub(super) struct SlowServer {
    address: SocketAddr,
    relayed: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl SlowServer {
    pub(super) fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (relayed, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (count, over) = (Arc::clone(&relayed), Arc::clone(&is_over));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if over.load(Ordering::Acquire) {
                    return;
                }
                let count = Arc::clone(&count);
                std::thread::spawn(move || relay(&client, server, &count));
            }
        });
        SlowServer { address, relayed, is_over }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of connections that reached the server.
    pub(super) fn relayed(&self) -> u64 {
        self.relayed.load(Ordering::Acquire)
    }
}

impl Drop for SlowServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.address));
    }
}

fn relay(client: &TcpStream, server: SocketAddr, count: &AtomicU64) {
    let (_kept, never) = mpsc::channel::<()>();
    // The delay is the fault that this server has, and no test waits for it.
    drop(never.recv_timeout(DELAY));
    let Ok(server) = TcpStream::connect(server) else { return };
    count.fetch_add(1, Ordering::AcqRel);
    let forward = |mut from: &TcpStream, mut to: &TcpStream| {
        // How it ends, both sides see.
        drop(copy(&mut from, &mut to));
        drop(to.shutdown(Shutdown::Write));
    };
    std::thread::scope(|scope| {
        scope.spawn(|| forward(client, &server));
        forward(&server, client);
    });
}

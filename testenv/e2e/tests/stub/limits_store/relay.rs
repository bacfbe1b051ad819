//! An address of which another server may be behind, and a distant one.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::sleep;

/// Carries connections to a server. It ends with this value.
pub(super) struct Relay {
    pub(super) address: SocketAddr,
    target: watch::Sender<SocketAddr>,
    _runtime: Runtime,
}

impl Relay {
    /// To that server, with a delay each way.
    pub(super) fn start(target: SocketAddr, delay: Duration) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (sender, target) = watch::channel(target);
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, target.clone(), delay));
            }
        });
        Relay { address, target: sender, _runtime: runtime }
    }

    /// Ends all connections; new ones go to that server.
    pub(super) fn switch(&self, target: SocketAddr) {
        self.target.send_replace(target);
    }
}

/// Carries a connection until one side ends it, or another server is behind the address.
async fn carry(mut client: TcpStream, mut target: watch::Receiver<SocketAddr>, delay: Duration) {
    let address = *target.borrow_and_update();
    let Ok(mut server) = TcpStream::connect(address).await else { return };
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) = (client.split(), server.split());
    tokio::select! {
        () = carry_bytes(&mut from_client, &mut to_server, delay) => {}
        () = carry_bytes(&mut from_server, &mut to_client, delay) => {}
        _ = target.changed() => {}
    }
}

async fn carry_bytes(from: &mut (impl AsyncReadExt + Unpin), to: &mut (impl AsyncWriteExt + Unpin), delay: Duration) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        sleep(delay).await;
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

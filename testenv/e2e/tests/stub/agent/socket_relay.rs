//! A way to a control plane that can be cut: nothing ends, nothing arrives, and what was sent meanwhile arrives late.

use std::path::{Path, PathBuf};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Carries connections to a socket. It ends with this value.
pub(super) struct SocketRelay {
    pub(super) path: PathBuf,
    is_open: watch::Sender<bool>,
    _runtime: Runtime,
}

impl SocketRelay {
    /// At `path`, to that socket.
    pub(super) fn start(path: PathBuf, target: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (is_open, open) = watch::channel(true);
        let listener = {
            let _inside = runtime.enter();
            UnixListener::bind(&path).unwrap()
        };
        let target = target.to_owned();
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, target.clone(), open.clone()));
            }
        });
        SocketRelay { path, is_open, _runtime: runtime }
    }

    /// Cuts the way, or heals it.
    pub(super) fn set_open(&self, is_open: bool) {
        self.is_open.send_replace(is_open);
    }
}

async fn carry(mut client: UnixStream, target: PathBuf, open: watch::Receiver<bool>) {
    wait_open(&open).await;
    let Ok(mut server) = UnixStream::connect(&target).await else { return };
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) = (client.split(), server.split());
    tokio::select! {
        () = carry_bytes(&mut from_client, &mut to_server, &open) => {}
        () = carry_bytes(&mut from_server, &mut to_client, &open) => {}
    }
}

async fn carry_bytes(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    open: &watch::Receiver<bool>,
) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        wait_open(open).await;
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

async fn wait_open(open: &watch::Receiver<bool>) {
    let _ = open.clone().wait_for(|is_open| *is_open).await;
}

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use portcullis_report::channel::Command;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;

/// The filter in Envoy, for commands. They go by Envoy's standard input, a line each.
#[derive(Clone)]
pub(super) struct Filter(Arc<Mutex<Box<dyn AsyncWrite + Send + Unpin>>>);

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").finish_non_exhaustive()
    }
}

impl Filter {
    /// The filter at the other end of a channel.
    pub(super) fn new(channel: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(channel))))
    }

    /// Has the connections of long-running requests sent away, and watches ended within a time.
    pub(super) async fn leave(&self, time: Duration) -> io::Result<()> {
        self.send(Command::Drain(time)).await
    }

    /// Sends a command.
    pub(super) async fn send(&self, command: Command) -> io::Result<()> {
        self.0.lock().await.write_all(command.to_string().as_bytes()).await
    }
}

use std::io;

use tokio::runtime::{Builder, Runtime};

/// The runtime of a command cannot start.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the runtime")]
pub(crate) struct RuntimeError(#[from] io::Error);

/// The threads that run a command's tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    /// The present one.
    Current,
    /// One for each core.
    PerCore,
}

/// The runtime of a command, with timers and I/O.
pub(crate) fn runtime(threads: Threads) -> Result<Runtime, RuntimeError> {
    let mut builder = match threads {
        Threads::Current => Builder::new_current_thread(),
        Threads::PerCore => Builder::new_multi_thread(),
    };
    Ok(builder.enable_all().build()?)
}

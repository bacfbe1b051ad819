//! The one thread that starts all children.
//!
//! The kernel sends a child's parent-death signal when the *thread* that forked it exits, not when the process does. A
//! test runs in a thread of its own that ends with the test, so children are started from a thread that never ends.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex, PoisonError};

struct Job {
    command: Command,
    reply: Sender<io::Result<Child>>,
}

static JOBS: LazyLock<io::Result<Mutex<Sender<Job>>>> = LazyLock::new(|| {
    let (sender, receiver) = channel::<Job>();
    std::thread::Builder::new().name("harness-spawner".to_owned()).spawn(move || {
        for mut job in receiver {
            // The answer is not awaited only if the asking thread died; the child then ends here.
            if let Err(unwanted) = job.reply.send(job.command.spawn()) {
                let _ = unwanted.0.map(|mut child| child.kill().and_then(|()| child.wait()));
            }
        }
    })?;
    Ok(Mutex::new(sender))
});

/// Starts a command from the process-wide thread.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    let jobs = JOBS.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
    let (reply, answer) = channel();
    let gone = || io::Error::other("the spawner thread is gone");
    jobs.lock().unwrap_or_else(PoisonError::into_inner).send(Job { command, reply }).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

//! The lowest priority for load whose share of the processor is not what is measured.

use std::ffi::OsStr;

use rustix::io::Errno;
use rustix::process::{Pid, setpriority_process};

use crate::error::BenchError;

/// The kernel's lowest priority of ordinary threads: it has some 1.5 % of a core that another thread wants, too.
const LOWEST: i32 = 19;

/// Lowers all threads of a process, and with them those that they start later.
pub(super) fn lower(pid: u32) -> Result<(), BenchError> {
    for thread in threads_of(pid)? {
        match setpriority_process(Some(thread), LOWEST) {
            // It has ended meanwhile.
            Err(Errno::SRCH) | Ok(()) => {}
            Err(errno) => return Err(BenchError::Priority(format!("process {pid}"), errno.into())),
        }
    }
    Ok(())
}

/// The threads of a process.
pub(super) fn threads_of(pid: u32) -> Result<Vec<Pid>, BenchError> {
    let path = format!("/proc/{pid}/task");
    let threads = std::fs::read_dir(&path).map_err(|source| BenchError::Read { path, source })?;
    let id = |name: &OsStr| name.to_str()?.parse().ok().and_then(Pid::from_raw);
    Ok(threads.flatten().filter_map(|thread| id(&thread.file_name())).collect())
}

/// Lowers the calling thread, and with it those that it starts later.
pub(super) fn lower_this_thread() -> Result<(), BenchError> {
    setpriority_process(None, LOWEST).map_err(|errno| BenchError::Priority("a thread".to_owned(), errno.into()))
}

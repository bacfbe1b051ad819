//! Cores of the machine, of which some are for instance `b` alone, as machines of its own are.

use std::thread::available_parallelism;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::priority::threads_of;
use crate::error::BenchError;

/// The cores for one part of the processes.
#[derive(Clone, Copy)]
pub(super) struct Cores(CpuSet);

impl Cores {
    /// The halves of the cores that this process may use: the first for the control plane and instance `a`, the second for `b`.
    pub(super) fn halves() -> Result<[Self; 2], BenchError> {
        let usable = sched_getaffinity(None).map_err(|errno| refused("this process", errno))?;
        let all: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| usable.is_set(*core)).collect();
        let count = available_parallelism().map_or(1, usize::from).min(all.len());
        if count < 2 {
            return Err(BenchError::OneCore);
        }
        let (first, second) = all.split_at(all.len() / 2);
        Ok([first, second].map(|cores| {
            let mut set = CpuSet::new();
            cores.iter().for_each(|core| set.set(*core));
            Self(set)
        }))
    }

    /// Keeps all threads of a process there, and with them those that they start later.
    pub(super) fn keep(self, pid: u32) -> Result<(), BenchError> {
        for thread in threads_of(pid)? {
            match sched_setaffinity(Some(thread), &self.0) {
                // It has ended meanwhile.
                Err(Errno::SRCH) | Ok(()) => {}
                Err(errno) => return Err(refused(&format!("process {pid}"), errno)),
            }
        }
        Ok(())
    }

    /// Keeps the calling thread there, and with it those that it starts later.
    pub(super) fn keep_this_thread(self) -> Result<(), BenchError> {
        sched_setaffinity(None::<Pid>, &self.0).map_err(|errno| refused("a thread", errno))
    }
}

fn refused(of: &str, errno: Errno) -> BenchError {
    BenchError::Cores(of.to_owned(), errno.into())
}

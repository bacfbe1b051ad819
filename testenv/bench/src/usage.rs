//! Memory, CPU time and file descriptors of processes.

use std::time::Duration;

use crate::error::BenchError;

/// The memory of a process now and at most, in KiB.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) now: u64,
    pub(crate) peak: u64,
}

/// CPU time that a process has spent, in steps of 10 ms.
pub(crate) fn spent(pid: u32) -> Result<Duration, BenchError> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).map_err(|source| BenchError::Read { path, source })?;
    // Behind the command, which may hold blanks: fields 14 and 15 are user and system time in ticks of a hundredth.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 10))
}

/// CPU time that the whole machine has spent since it started, of all processes and in the kernel, in steps of 10 ms. Time that a
/// hypervisor gave to others counts: no process of this machine had it.
pub(crate) fn spent_by_all() -> Result<Duration, BenchError> {
    let path = "/proc/stat".to_owned();
    let text = std::fs::read_to_string(&path).map_err(|source| BenchError::Read { path, source })?;
    Ok(busy(&text))
}

/// Of the first line: user, nice, system, idle, iowait, irq, softirq and steal, in ticks of a hundredth.
fn busy(text: &str) -> Duration {
    let fields = text.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8).enumerate();
    let busy = fields.filter(|(at, _)| !matches!(at, 3 | 4)).filter_map(|(_, ticks)| ticks.parse::<u64>().ok());
    Duration::from_millis(busy.sum::<u64>() * 10)
}

pub(crate) fn of(pid: u32) -> Result<Memory, BenchError> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).map_err(|source| BenchError::Read { path, source })?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or_default()
    };
    Ok(Memory { now: field("VmRSS:"), peak: field("VmHWM:") })
}

/// CPU time of a process so far, in nanoseconds: all of its threads, in the kernel too. None of Envoy's threads ends early.
pub(crate) fn process_time(pid: u32) -> Result<u64, BenchError> {
    let path = format!("/proc/{pid}/task");
    let failed = |source| BenchError::Read { path: path.clone(), source };
    let mut sum = 0;
    for task in std::fs::read_dir(&path).map_err(failed)?.flatten() {
        let told = std::fs::read_to_string(task.path().join("schedstat")).map_err(failed)?;
        sum += told.split(' ').next().and_then(|spent| spent.parse().ok()).unwrap_or(0_u64);
    }
    Ok(sum)
}

/// The open file descriptors of a process.
pub(crate) fn descriptors(pid: u32) -> Result<usize, BenchError> {
    let path = format!("/proc/{pid}/fd");
    Ok(std::fs::read_dir(&path).map_err(|source| BenchError::Read { path, source })?.count())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::busy;

    #[test]
    fn idle_time_is_not_busy() {
        let text = "cpu  1 2 3 400 50 6 7 8 9 10\ncpu0 1 2 3 400 50 6 7 8 9 10\n";
        assert_eq!(busy(text), Duration::from_millis(270));
    }
}

//! Envoy as a child process.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use portcullis_filter_config::names;
use rustix::process::{Pid, Resource, Signal, getppid, getrlimit, kill_process, set_parent_process_death_signal};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::activity::ActivitySource;
use super::filter::Filter;
use super::{Agent, ExecEnvoy};
use crate::service_manager;

/// The time for Envoy to end after SIGTERM. With 1,000 clusters on a busy machine it took 4 s.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Open files below which the agent warns. Each connection of a client takes one, each to a server, and the check of each server.
const FEW_FILES: u64 = 65_536;

/// A running Envoy.
#[derive(Debug)]
pub(super) struct EnvoyProcess {
    child: Child,
    filter: Filter,
    activity: ActivitySource,
}

impl EnvoyProcess {
    /// Starts Envoy. To be called by a thread that lives as long as Envoy is to live: the kernel takes that thread's end
    /// for the parent's.
    pub(super) fn start(arguments: &Agent) -> io::Result<Self> {
        let max_heap = arguments.bootstrap.max_heap().or_else(heap_limit);
        tracing::info!(max_heap, "starting Envoy");
        // Envoy raises its limit to the most that it may have by itself.
        if let Some(most) = getrlimit(Resource::Nofile).maximum.filter(|most| *most < FEW_FILES) {
            tracing::warn!(
                most,
                "few open files are permitted: Envoy crashes when it needs more (LimitNOFILE, ulimit -Hn)"
            );
        }
        let network = &arguments.bootstrap.network;
        for file in network.files().into_iter().flatten() {
            // Envoy would start without the file, and follow no control plane.
            File::open(file).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))?;
        }
        // To be kept until Envoy has inherited it.
        let secrets = network.resources().map(|resources| resources.in_memory()).transpose()?;
        let secrets = secrets.as_ref().map(|secrets| &secrets.paths);
        let (channel, input) = StdUnixStream::pair()?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("exec-envoy")
            .arg(format!("--parent={}", process::id()))
            .arg("--")
            .arg(&arguments.envoy)
            // On the command line and not in a file: it holds no secret, and needs no directory that can be written.
            .arg("--config-yaml")
            .arg(crate::bootstrap::bootstrap(&arguments.bootstrap, max_heap, secrets).to_string())
            // Two Envoys of one machine would else meet in one shared memory.
            .arg("--disable-hot-restart")
            .args(&arguments.envoy_flags)
            // Carries commands to the filter, and its answers back; no other process holds an end of it.
            .stdin(Stdio::from(OwnedFd::from(input)))
            .env(names::AGENT_VARIABLE, "1")
            // A Ctrl-C at the terminal is for this program, which lets Envoy drain.
            .process_group(0)
            .kill_on_drop(true);
        for name in service_manager::VARIABLES {
            command.env_remove(name);
        }
        if let Some(directory) = &arguments.module_dir {
            command.env("ENVOY_DYNAMIC_MODULES_SEARCH_PATH", directory);
        }
        channel.set_nonblocking(true)?;
        let (answers, commands) = UnixStream::from_std(channel)?.into_split();
        let filter = Filter::new(commands);
        let activity = ActivitySource::start(filter.clone(), answers);
        Ok(Self { child: command.spawn()?, filter, activity })
    }

    /// The filter, for commands.
    pub(super) fn filter(&self) -> Filter {
        self.filter.clone()
    }

    /// The activity that the filter counts.
    pub(super) fn activity(&self) -> ActivitySource {
        self.activity.clone()
    }

    /// Waits for its end.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Ends it now: SIGTERM, at which Envoy closes its connections and ends; SIGKILL if it does not.
    pub(super) async fn end(&mut self) -> io::Result<ExitStatus> {
        // Not reaped yet, so that the id is still its own.
        let pid = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(pid) = pid {
            // An Envoy that is gone is what was wanted.
            let _ = kill_process(pid, Signal::TERM);
            if let Ok(ended) = timeout(TERMINATION_TIMEOUT, self.child.wait()).await {
                return ended;
            }
            tracing::warn!("Envoy does not end and is killed");
            self.child.start_kill()?;
        }
        self.child.wait().await
    }
}

/// The exit status as a shell shows it.
pub(super) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

/// Why Envoy does not run. The operator has to act.
#[derive(Debug, thiserror::Error)]
enum ExecError {
    #[error("cannot ask for a signal at the parent's death")]
    Prctl(#[source] io::Error),
    #[error("the agent that started Envoy has ended")]
    Orphan,
    #[error("cannot run {0}")]
    Exec(String, #[source] io::Error),
}

/// Replaces this process by Envoy. The kernel ends it with its parent: an Envoy without its agent would go on without
/// readiness, drain and health reports. Only the process itself can ask for that, between fork and exec, which std offers to
/// unsafe code alone; hence this step.
pub(crate) fn exec_envoy(arguments: &ExecEnvoy) -> ExitCode {
    match exec(arguments) {
        Ok(never) => match never {},
        Err(error) => crate::fail(&error),
    }
}

fn exec(arguments: &ExecEnvoy) -> Result<std::convert::Infallible, ExecError> {
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(|error| ExecError::Prctl(error.into()))?;
    // It may have died before the kernel was asked.
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(arguments.parent) {
        return Err(ExecError::Orphan);
    }
    let Some((program, rest)) = arguments.command.split_first() else { return Err(ExecError::Orphan) };
    let error = process::Command::new(program).args(rest).exec();
    Err(ExecError::Exec(program.to_string_lossy().into_owned(), error))
}

/// Larger values are how version 1 says that there is no limit.
const UNLIMITED: u64 = 1 << 60;

/// Envoy's part of the limit: the rest is for this program, Envoy's code and stacks, and the kernel's buffers of sockets.
fn heap_limit() -> Option<u64> {
    limit(|path| std::fs::read_to_string(path).ok()).map(|bytes| bytes / 10 * 9)
}

/// The smallest limit of the process's own group and of those around it, bytes; nothing without any.
fn limit(read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let groups = read(Path::new("/proc/self/cgroup"))?;
    let files = groups.lines().filter_map(file_of).flat_map(|(root, file, group)| {
        // Within a container its own group may be at the root, whatever the path says.
        let around: Vec<PathBuf> = Path::new(group.trim_start_matches('/')).ancestors().map(Path::to_owned).collect();
        around.into_iter().map(move |group| Path::new(root).join(group).join(file))
    });
    files.filter_map(|path| read(&path)?.trim().parse().ok()).filter(|bytes| *bytes < UNLIMITED).min()
}

/// The file with the memory limit of a line of /proc/self/cgroup: root, file and group.
fn file_of(line: &str) -> Option<(&'static str, &'static str, &str)> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, group) = (parts.next()?, parts.next()?, parts.next()?);
    if controllers.is_empty() {
        return Some(("/sys/fs/cgroup", "memory.max", group));
    }
    let is_memory = controllers.split(',').any(|controller| controller == "memory");
    is_memory.then_some(("/sys/fs/cgroup/memory", "memory.limit_in_bytes", group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_status_is_that_of_envoy() {
        // As wait(2) encodes it: the exit status in the second byte, a signal in the first.
        for (raw, code) in [(0, 0), (1 << 8, 1), (77 << 8, 77), (9, 137), (15, 143)] {
            assert_eq!(exit_code(ExitStatus::from_raw(raw)), code, "{raw}");
        }
    }

    fn limit_with(files: Files<'_>) -> Option<u64> {
        limit(|path| files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned()))
    }

    type Files<'a> = &'a [(&'a str, &'a str)];

    #[test]
    fn smallest_limit_of_all_groups_around_counts() {
        let cgroup = |text| ("/proc/self/cgroup", text);
        let cases: &[(&str, Files<'_>, Option<u64>)] = &[
            ("nothing to read", &[], None),
            ("version 2", &[cgroup("0::/a/b\n"), ("/sys/fs/cgroup/a/b/memory.max", "1000\n")], Some(1000)),
            (
                "a group around",
                &[
                    cgroup("0::/a/b\n"),
                    ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
                    ("/sys/fs/cgroup/a/memory.max", "500\n"),
                ],
                Some(500),
            ),
            ("no limit", &[cgroup("0::/a\n"), ("/sys/fs/cgroup/a/memory.max", "max\n")], None),
            ("in a container", &[cgroup("0::/\n"), ("/sys/fs/cgroup/memory.max", "700\n")], Some(700)),
            (
                "version 1",
                &[
                    cgroup("5:cpu,memory:/pod/one\n0::/\n"),
                    ("/sys/fs/cgroup/memory/pod/one/memory.limit_in_bytes", "900\n"),
                    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ],
                Some(900),
            ),
            (
                "version 1 without a limit",
                &[cgroup("5:memory:/\n"), ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")],
                None,
            ),
            (
                "version 1, seen from within",
                &[cgroup("5:memory:/docker/x\n"), ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "800\n")],
                Some(800),
            ),
        ];
        for (case, files, expected) in cases {
            assert_eq!(limit_with(files), *expected, "{case}");
        }
    }
}

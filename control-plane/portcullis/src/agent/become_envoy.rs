use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::BecomeEnvoy;

/// Why Envoy does not run. The operator has to act.
#[derive(Debug, thiserror::Error)]
enum BecomeError {
    #[error("cannot ask for a signal at the parent's death")]
    Prctl(#[source] io::Error),
    #[error("the program that was to watch Envoy is gone")]
    Orphan,
    #[error("cannot run {0}")]
    Exec(String, #[source] io::Error),
}

/// Replaces this process by Envoy. The kernel ends it with its parent: an Envoy without its agent would go on without
/// readiness, drain and health reports. Only the process itself can ask for that, between fork and exec, which std offers to
/// unsafe code alone; hence this step.
pub(crate) fn become_envoy(arguments: &BecomeEnvoy) -> ExitCode {
    match exec(arguments) {
        Ok(never) => match never {},
        Err(error) => crate::fail(&error),
    }
}

fn exec(arguments: &BecomeEnvoy) -> Result<std::convert::Infallible, BecomeError> {
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(|error| BecomeError::Prctl(error.into()))?;
    // It may have died before the kernel was asked.
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(arguments.parent) {
        return Err(BecomeError::Orphan);
    }
    let Some((program, rest)) = arguments.command.split_first() else { return Err(BecomeError::Orphan) };
    let error = Command::new(program).args(rest).exec();
    Err(BecomeError::Exec(program.to_string_lossy().into_owned(), error))
}

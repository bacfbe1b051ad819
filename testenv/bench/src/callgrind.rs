//! callgrind, from outside.

use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use portcullis_harness::deps;

use crate::error::BenchError;
use crate::profile::Profile;

/// The prefix of callgrind's files.
pub(crate) const OUT: &str = "callgrind.out";

/// The command that Envoy runs under: nothing is counted until [`control`] says so, each thread apart, by the address of each
/// instruction.
pub(crate) fn wrapper(out: &Path) -> Vec<OsString> {
    let mut file = OsString::from("--callgrind-out-file=");
    file.push(out);
    let flags = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", "--dump-instr=yes"];
    flags.map(OsString::from).into_iter().chain([file]).collect()
}

/// Writes a script that runs the pinned Envoy in that way, for a program that starts Envoy itself.
pub(crate) fn script(out: &Path, path: &Path) -> Result<PathBuf, BenchError> {
    let envoy = deps::envoy().map_err(portcullis_harness::Error::from)?;
    let words = wrapper(out).into_iter().chain([envoy.into()]);
    let command: Vec<String> = words.map(|word| format!("'{}'", word.to_string_lossy())).collect();
    let failed = |source| BenchError::Write { path: path.display().to_string(), source };
    std::fs::write(path, format!("#!/bin/sh\nexec {} \"$@\"\n", command.join(" "))).map_err(failed)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o755)).map_err(failed)?;
    Ok(path.to_owned())
}

/// Sends a command to a running callgrind.
pub(crate) fn control(pid: u32, command: &str) -> Result<(), BenchError> {
    let output =
        Command::new("callgrind_control").args([command, &pid.to_string()]).output().map_err(BenchError::Control)?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(BenchError::Refused { command: command.to_owned(), output: String::from_utf8_lossy(&text).into_owned() })
}

/// The files of the `number`-th dump, one for each thread: `<out>.<number>-<thread>`.
pub(crate) fn dumps(out: &Path, number: u32) -> Vec<PathBuf> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let prefix = format!("{}.{number}-", name(out));
    let entries = out.parent().and_then(|dir| std::fs::read_dir(dir).ok());
    let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    paths.filter(|path| name(path).starts_with(&prefix)).collect()
}

/// The profile of Envoy's worker, of one dump's files.
pub(crate) fn worker(files: &[PathBuf]) -> Result<Profile, BenchError> {
    let mut worker = Profile::default();
    for path in files {
        let text = std::fs::read_to_string(path)
            .map_err(|source| BenchError::Read { path: path.display().to_string(), source })?;
        let profile = Profile { file: path.clone(), ..Profile::parse(&text) };
        // The main thread checks health and collects statistics; the worker has the load.
        if profile.total > worker.total {
            worker = profile;
        }
    }
    Ok(worker)
}

//! callgrind, from outside.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::BenchError;

/// The command that Envoy runs under: nothing is counted until [`control`] says so, each thread apart.
pub(crate) fn wrapper(out: &Path) -> Vec<OsString> {
    let mut file = OsString::from("--callgrind-out-file=");
    file.push(out);
    let flags = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes"];
    flags.map(OsString::from).into_iter().chain([file]).collect()
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

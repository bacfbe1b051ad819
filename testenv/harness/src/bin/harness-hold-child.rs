//! Starts a child from a thread that ends at once, as tests' threads do, writes its id into a file, and waits to be killed.

use std::path::PathBuf;
use std::process::ExitCode;

use portcullis_harness::process::{Process, Spec};

fn main() -> ExitCode {
    let Some(report) = std::env::args_os().nth(1).map(PathBuf::from) else { return ExitCode::from(2) };
    let Some(dir) = report.parent().map(PathBuf::from) else { return ExitCode::from(2) };
    let start = move || Process::start(Spec::new("sleeper", "sleep", &dir).arg("1000"));
    let Ok(Ok(child)) = std::thread::spawn(start).join() else { return ExitCode::FAILURE };
    if std::fs::write(&report, child.pid().to_string()).is_err() {
        return ExitCode::FAILURE;
    }
    loop {
        std::thread::park();
    }
}

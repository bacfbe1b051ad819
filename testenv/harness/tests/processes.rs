//! Children end when their value is dropped, and with the process that started them.

#![cfg(test)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use portcullis_harness::process::{Process, Signal, Spec};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{Error, wait};

const DEADLINE: Duration = Duration::from_secs(20);

fn sleeper(dir: &Path) -> Process {
    Process::start(Spec::new("sleeper", "sleep", dir).arg("1000")).unwrap()
}

/// Whether a process with this id exists and is not a zombie.
fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[test]
fn killed_parent_takes_its_children_along() {
    let run = RunDir::new("reaping").unwrap();
    let report = run.join("pid");
    let mut parent = Command::new(env!("CARGO_BIN_EXE_harness-hold-child"))
        .arg(&report)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid: u32 = wait::until("the parent's report", DEADLINE, || {
        std::fs::read_to_string(&report).ok().and_then(|text| text.parse().ok())
    })
    .unwrap();
    wait::until("sleep runs under the reported id", DEADLINE, || is_sleep(pid).then_some(())).unwrap();
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait::until("the child's end", DEADLINE, || (!alive(pid)).then_some(())).unwrap();
}

fn is_sleep(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim() == "sleep"
}

#[test]
fn child_outlives_the_thread_that_asked_for_it() {
    let run = RunDir::new("thread").unwrap();
    let dir = run.path().to_owned();
    let child = std::thread::spawn(move || sleeper(&dir)).join().unwrap();
    wait::until("sleep runs", DEADLINE, || is_sleep(child.pid()).then_some(())).unwrap();
    assert!(child.wait_exit(Duration::from_millis(300)).is_err(), "ended with its thread");
    assert!(child.is_running());
}

#[test]
fn drop_ends_a_process_that_ignores_sigterm_or_is_frozen() {
    let run = RunDir::new("drop").unwrap();
    let stubborn =
        Spec::new("stubborn", "sh", run.path()).args(["-c", "trap '' TERM; echo ready; while :; do sleep 1; done"]);
    let stubborn = Process::start(stubborn).unwrap();
    stubborn
        .wait_ready("its trap", DEADLINE, || if stubborn.log().contains("ready") { Ok(()) } else { Err("") })
        .unwrap();
    let frozen = sleeper(run.path());
    frozen.signal(Signal::Stop).unwrap();
    let pids = [stubborn.pid(), frozen.pid()];
    drop((stubborn, frozen));
    assert!(pids.iter().all(|pid| !alive(*pid)));
}

#[test]
fn failures_carry_the_last_log_lines() {
    let run = RunDir::new("log").unwrap();
    let failing = Spec::new("failing", "sh", run.path()).args(["-c", "echo the reason >&2; exit 3"]);
    let failing = Process::start(failing).unwrap();
    let error = failing.wait_ready("never", DEADLINE, || Err::<(), _>("not yet")).unwrap_err();
    assert!(matches!(&error, Error::Ended { log, .. } if log.contains("the reason")), "{error}");
    assert_eq!(failing.wait_exit(DEADLINE).unwrap().code(), Some(3));
}

//! Running test programs.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use portcullis_compatibility::{Combination, Error};
use serde_json::Value;

use crate::libtest;

/// The suites that tests of features are in.
pub(crate) const NAMES: [&str; 2] = ["stub", "kube"];

/// How long the tests of one suite may take with one combination.
const ALL: Duration = Duration::from_secs(900);
/// How long one test may take alone.
const ALONE: Duration = Duration::from_secs(180);
/// How often the output is looked at.
const PACE: Duration = Duration::from_millis(200);

/// The test programs of the package `portcullis-e2e`, by suite.
#[derive(Debug)]
pub(crate) struct Suites {
    programs: BTreeMap<String, PathBuf>,
    root: PathBuf,
    logs: PathBuf,
}

/// The outcome of a test program.
#[derive(Debug)]
pub(crate) struct Outputs {
    /// The output of the program.
    pub(crate) text: String,
    /// The tests that passed, with their suite.
    pub(crate) passed: Vec<String>,
}

impl Suites {
    /// Builds them, in the shape in which `cargo test --workspace` does.
    pub(crate) fn build(root: &Path) -> Result<Self, Error> {
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--workspace", "--test", "stub", "--test", "kube", "--no-run"]);
        cargo.arg("--message-format=json-render-diagnostics").current_dir(root).stderr(Stdio::inherit());
        let output = cargo.output().map_err(|source| Error::Program { program: "cargo".to_owned(), source })?;
        let messages = String::from_utf8_lossy(&output.stdout);
        let built = messages.lines().filter_map(|line| {
            let message: Value = serde_json::from_str(line).ok()?;
            let program = PathBuf::from(message.get("executable")?.as_str()?);
            let is_test = message.pointer("/profile/test")?.as_bool()?;
            is_test.then_some((message.pointer("/target/name")?.as_str()?.to_owned(), program))
        });
        let programs = built.collect();
        let logs = root.join("target/compatibility");
        std::fs::create_dir_all(&logs).map_err(file("making", &logs))?;
        Ok(Self { programs, root: root.to_owned(), logs })
    }

    /// Runs tests of one suite with a combination, all at once or one alone, and waits for their end, or ends them when it is too late.
    pub(crate) fn run(&self, suite: &str, tests: &[&str], combination: &Combination) -> Result<Outputs, Error> {
        let program = self.programs.get(suite).ok_or_else(|| Error::Suite { suite: suite.to_owned() })?;
        let name = match tests {
            [one] => format!("{}-{}-{}", combination.envoy, combination.filter, one.replace("::", "-")),
            _ => format!("{}-{}-{suite}", combination.envoy, combination.filter),
        };
        let path = self.logs.join(name + ".log");
        let log = File::create(&path).map_err(file("making", &path))?;
        let errors = log.try_clone().map_err(file("making", &path))?;
        let package = self.root.join("testenv/e2e");
        let mut command = Command::new(program);
        command.args(tests).arg("--exact").current_dir(&package).stdout(log).stderr(errors).stdin(Stdio::null());
        command.env("CARGO_MANIFEST_DIR", &package).env_remove("PORTCULLIS_ENVOY");
        command.env("PORTCULLIS_ENVOY_VERSION", &combination.envoy);
        command.env("PORTCULLIS_FILTER", combination.filter.to_string());
        // A missing dependency is an error, and not a test that passes.
        command.env("CI", "true").env("RUST_TEST_THREADS", threads());
        let text = wait_for_end(command, program, &path, if tests.len() == 1 { ALONE } else { ALL })?;
        let passed = libtest::ended(&text).into_iter().filter(|(_, passed)| *passed);
        let passed = passed.map(|(test, _)| format!("{suite}::{test}")).collect();
        Ok(Outputs { text, passed })
    }
}

/// Most end-to-end tests wait, so that one thread more than there are cores delays none.
fn threads() -> String {
    let own = std::env::var("RUST_TEST_THREADS").ok();
    own.unwrap_or_else(|| (std::thread::available_parallelism().map_or(2, usize::from) + 1).to_string())
}

/// Reports each test that ends until all have, or until the time limit. Processes of a test end with the program.
fn wait_for_end(mut command: Command, program: &Path, log: &Path, patience: Duration) -> Result<String, Error> {
    let failed = |source| Error::Program { program: program.display().to_string(), source };
    let mut child = command.spawn().map_err(failed)?;
    let (started, mut told) = (Instant::now(), 0);
    loop {
        let has_ended = child.try_wait().map_err(failed)?.is_some();
        let text = std::fs::read(log).map_err(file("reading", log))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        for line in text.lines().filter(|line| is_result(line)).skip(told) {
            eprintln!("{:>4}s {line}", started.elapsed().as_secs());
            told += 1;
        }
        if has_ended {
            return Ok(text);
        }
        if started.elapsed() > patience {
            eprintln!("not ended after {patience:?}: {}", log.display());
            child.kill().map_err(failed)?;
            child.wait().map_err(failed)?;
            return Ok(text);
        }
        std::thread::park_timeout(PACE);
    }
}

fn is_result(line: &str) -> bool {
    !libtest::ended(line).is_empty()
}

fn file(step: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { step, path, source }
}

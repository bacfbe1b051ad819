//! kubectl as a user runs it, with a home of its own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::process::{Process, Spec};

/// Gives each run files of its own.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// A kubectl command to run.
#[derive(Debug, Clone)]
pub struct Kubectl {
    spec: Spec,
    timeout: Duration,
}

/// The output of a command.
#[derive(Debug, Clone)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    command: String,
}

impl Kubectl {
    /// kubectl with a kubeconfig; its home, caches and logs are below `dir`.
    pub fn new(binary: &Path, kubeconfig: &Path, dir: &Path) -> Self {
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let name = format!("kubectl-{number}");
        let stdout: PathBuf = dir.join(format!("{name}.out"));
        let mut spec = Spec::new(name, binary, dir)
            .env("KUBECONFIG", kubeconfig)
            .env("HOME", dir)
            .env("KUBECACHEDIR", dir.join(format!("kubectl-cache-{number}")))
            // Most runs end before there is garbage worth collecting.
            .env("GOGC", "400")
            .stdout_to(stdout);
        // Traffic to loopback must not meet a proxy.
        for variable in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "KUBECTL_EXTERNAL_DIFF"] {
            spec = spec.env_remove(variable);
        }
        Self { spec, timeout: Duration::from_secs(30) }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(self, args: I) -> Self {
        Self { spec: self.spec.args(args), ..self }
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn env(self, name: &str, value: &str) -> Self {
        Self { spec: self.spec.env(name, value), ..self }
    }

    /// Standard input is a file.
    #[must_use]
    pub fn stdin_from(self, path: PathBuf) -> Self {
        Self { spec: self.spec.stdin_from(path), ..self }
    }

    /// Standard input is written by [`Process::write`].
    #[must_use]
    pub fn stdin_piped(self) -> Self {
        Self { spec: self.spec.stdin_piped(), ..self }
    }

    /// Runs it on a terminal, see [`Spec::on_terminal`]. To be called last.
    #[must_use]
    pub fn on_terminal(self, rows: u16, columns: u16, name: &Path) -> Self {
        Self { spec: self.spec.on_terminal(rows, columns, name), ..self }
    }

    /// Uses a discovery cache that other runs share. Without it each run asks the server for its API groups first, and prints a
    /// 403 there as "unknown" whatever the Status says.
    #[must_use]
    pub fn cache_dir(self, dir: &Path) -> Self {
        Self { spec: self.spec.env("KUBECACHEDIR", dir), ..self }
    }

    /// The time limit; 30 seconds by default.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Runs it to its end, which may be a failure.
    ///
    /// # Errors
    /// [`Error::Spawn`], or [`Error::Deadline`] when it does not end in time.
    pub fn run(self) -> Result<Output> {
        let (timeout, command) = (self.timeout, self.spec.command_line());
        let process = self.spawn()?;
        let status = process.wait_exit(timeout)?;
        Ok(Output { status, stdout: process.stdout(), stderr: process.log(), command })
    }

    /// Runs it and wants success; gives its standard output.
    ///
    /// # Errors
    /// As [`Kubectl::run`], or [`Error::Command`].
    pub fn run_ok(self) -> Result<String> {
        self.run()?.ok()
    }

    /// Runs it with `-o json` and wants success.
    ///
    /// # Errors
    /// As [`Kubectl::run_ok`], or [`Error::Json`].
    pub fn json(self) -> Result<Value> {
        let text = self.args(["-o", "json"]).run_ok()?;
        serde_json::from_str(&text).map_err(|source| Error::Json { what: format!("kubectl's output {text}"), source })
    }

    /// Starts it and lets it run: `get -w`, `port-forward`.
    ///
    /// # Errors
    /// [`Error::Spawn`].
    pub fn spawn(self) -> Result<Process> {
        Process::start(self.spec)
    }
}

impl Output {
    /// Whether it ended with 0.
    pub fn success(&self) -> bool {
        self.status.success()
    }

    /// Standard output if it ended with 0.
    ///
    /// # Errors
    /// [`Error::Command`] with standard error.
    pub fn ok(self) -> Result<String> {
        if self.success() {
            return Ok(self.stdout);
        }
        Err(Error::Command { command: self.command, status: self.status.to_string(), stderr: self.stderr })
    }
}

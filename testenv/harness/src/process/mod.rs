//! Child processes that cannot outlive the tests.
//!
//! Three nets: the value's `Drop` ends its process; `setpriv --pdeathsig KILL` has the kernel end it when this process
//! dies in any other way; and each child has a process group of its own, so that a Ctrl-C on the terminal reaches the
//! tests first and they can end their children in order.

mod log;
mod spawner;
mod spec;

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Pid;

pub use spec::Spec;

use crate::error::{Error, Result};
use crate::wait;

/// How long a process has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// The signals for a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// End in order.
    Term,
    /// End now.
    Kill,
    /// Freeze: the process keeps its sockets and answers nothing.
    Stop,
    /// Go on after [`Signal::Stop`].
    Cont,
    /// Hang up; many servers read their configuration again.
    Hup,
}

/// A running process with its log.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    child: Mutex<Child>,
    input: Mutex<Option<ChildStdin>>,
    spec: Spec,
}

impl Process {
    /// Starts a process.
    ///
    /// # Errors
    /// [`Error::Spawn`] if it cannot be started, [`Error::File`] if its log cannot be written.
    pub fn start(mut spec: Spec) -> Result<Self> {
        let mut child = spawner::spawn(spec.command()?)
            .map_err(name_the_missing)
            .map_err(|source| Error::Spawn { name: spec.name.clone(), source })?;
        spec.close_socket();
        let input = Mutex::new(child.stdin.take());
        Ok(Self { pid: child.id(), child: Mutex::new(child), input, spec })
    }

    /// Ends it, unless it has ended, and starts it again as before, but for a socket that was its standard input.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub fn start_again(&mut self) -> Result<()> {
        self.stop();
        *self = Self::start(self.spec.clone())?;
        Ok(())
    }

    /// Writes to its standard input, which must be a pipe ([`Spec::stdin_piped`]) and open.
    ///
    /// # Errors
    /// [`Error::Connection`], also when it is closed or no pipe.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let written = input.as_mut().ok_or_else(closed).and_then(|input| input.write_all(bytes));
        written.map_err(Error::connection("writing to the input of", &self.spec.name))
    }

    /// Ends its standard input, if that is a pipe.
    pub fn close_input(&self) {
        *self.input.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The process's id. `setpriv` replaces itself by the command, so this is the command's own id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The name given in the [`Spec`].
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Whether it has not ended.
    pub fn is_running(&self) -> bool {
        self.exit_status().is_none()
    }

    /// The exit status if it has ended.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.lock().try_wait().ok().flatten()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// [`Error::Deadline`] with the last log lines; the process keeps running.
    pub fn wait_exit(&self, deadline: Duration) -> Result<ExitStatus> {
        let what = format!("end of {}", self.spec.name);
        wait::until_ok(&what, deadline, || self.exit_status().ok_or_else(|| self.log_tail()))
    }

    /// Asks `probe` until it succeeds, and stops early when the process ends.
    ///
    /// # Errors
    /// [`Error::Ended`] or [`Error::Deadline`], both with the last log lines.
    pub fn wait_ready<T, E: std::fmt::Display>(
        &self,
        what: &str,
        deadline: Duration,
        mut probe: impl FnMut() -> std::result::Result<T, E>,
    ) -> Result<T> {
        let outcome = wait::until_ok(what, deadline, || match (self.exit_status(), probe()) {
            (_, Ok(value)) => Ok(Ok(value)),
            (Some(status), Err(_)) => Ok(Err(status)),
            (None, Err(reason)) => Err(reason.to_string()),
        });
        match outcome {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(status)) => Err(Error::Ended {
                name: self.spec.name.clone(),
                status: status.to_string(),
                what: what.to_owned(),
                log: self.log_tail(),
            }),
            Err(Error::Deadline { what, waited, detail }) => {
                Err(Error::Deadline { what, waited, detail: format!("{detail}{}", self.log_tail()) })
            }
            Err(other) => Err(other),
        }
    }

    /// Waits until it takes TCP connections at an address.
    ///
    /// # Errors
    /// As [`Process::wait_ready`].
    pub fn wait_listening(&self, address: SocketAddr, deadline: Duration) -> Result<()> {
        let connect = || TcpStream::connect_timeout(&address, Duration::from_secs(1)).map(drop);
        self.wait_ready(&format!("a listener on {address}"), deadline, connect)
    }

    /// Sends a signal; nothing happens if the process has ended.
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn signal(&self, signal: Signal) -> Result<()> {
        // Locked and not reaped: the id still belongs to this process.
        let mut child = self.lock();
        if child.try_wait().ok().flatten().is_some() {
            return Ok(());
        }
        let sent = match self.rustix_pid() {
            Some(pid) => rustix::process::kill_process(pid, signal.into()),
            None => Err(rustix::io::Errno::SRCH),
        };
        sent.map_err(|errno| Error::Signal { name: self.spec.name.clone(), source: errno.into() })
    }

    /// Ends the process: SIGTERM, up to five seconds of patience, then SIGKILL for its whole group.
    pub fn stop(&self) {
        if self.signal(Signal::Term).is_ok() && self.signal(Signal::Cont).is_ok() && self.wait_exit(GRACE).is_ok() {
            return;
        }
        self.kill();
    }

    /// Ends the process and its group with SIGKILL and waits until it is gone.
    pub fn kill(&self) {
        let mut child = self.lock();
        if child.try_wait().ok().flatten().is_some() {
            return;
        }
        if let Some(pid) = self.rustix_pid() {
            // A group that is gone already is what was wanted.
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
        let _ = child.kill();
        let _ = child.wait();
    }

    /// The file that holds its standard error (and standard output unless that goes elsewhere).
    pub fn log_path(&self) -> &Path {
        &self.spec.log
    }

    /// The content of its standard output file so far.
    pub fn stdout(&self) -> String {
        log::read(self.spec.stdout_path())
    }

    /// The content of its log so far.
    pub fn log(&self) -> String {
        log::read(&self.spec.log)
    }

    /// The last lines of its log, with a heading that starts with a line break.
    pub fn log_tail(&self) -> String {
        log::tail(&self.spec.name, &self.spec.log)
    }

    fn rustix_pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.pid).ok()?)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The program that is started directly is always `setpriv`; a missing program shows in the log instead.
fn name_the_missing(error: std::io::Error) -> std::io::Error {
    if error.kind() == std::io::ErrorKind::NotFound {
        return std::io::Error::other("setpriv is missing; it comes with util-linux");
    }
    error
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

impl From<Signal> for rustix::process::Signal {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Term => Self::TERM,
            Signal::Kill => Self::KILL,
            Signal::Stop => Self::STOP,
            Signal::Cont => Self::CONT,
            Signal::Hup => Self::HUP,
        }
    }
}

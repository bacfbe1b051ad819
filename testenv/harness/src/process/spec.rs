//! The specification of a process.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::error::{Error, Result};

/// The standard input of a process.
#[derive(Debug, Clone)]
enum Input {
    Nothing,
    Pipe,
    File(PathBuf),
    Socket(Arc<OwnedFd>),
}

/// A process to start: program, arguments, environment and where its output goes.
#[derive(Debug, Clone)]
pub struct Spec {
    pub(super) name: String,
    pub(super) log: PathBuf,
    stdin: Input,
    stdout: Option<PathBuf>,
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    env_remove: Vec<OsString>,
}

impl Spec {
    /// A process called `name`, whose output is appended to `<dir>/<name>.log`.
    pub fn new(name: impl Into<String>, program: impl Into<PathBuf>, dir: &Path) -> Self {
        let name = name.into();
        Self {
            log: dir.join(format!("{name}.log")),
            stdin: Input::Nothing,
            stdout: None,
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            env_remove: Vec::new(),
            name,
        }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(mut self, args: I) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// `--name=value`, the form that every program here understands.
    #[must_use]
    pub fn flag(self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let mut arg = OsString::from(format!("--{name}="));
        arg.push(value);
        self.arg(arg)
    }

    /// One variable of its environment; the rest is inherited.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Takes a variable out of the inherited environment.
    #[must_use]
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.env_remove.push(name.as_ref().to_owned());
        self
    }

    /// Standard input is written by [`Process::write`](super::Process::write).
    #[must_use]
    pub fn stdin_piped(mut self) -> Self {
        self.stdin = Input::Pipe;
        self
    }

    /// Standard input is a file.
    #[must_use]
    pub fn stdin_from(mut self, path: PathBuf) -> Self {
        self.stdin = Input::File(path);
        self
    }

    /// Standard input is a socket.
    #[must_use]
    pub fn stdin_socket(mut self, socket: UnixStream) -> Self {
        self.stdin = Input::Socket(Arc::new(socket.into()));
        self
    }

    /// Standard output goes to a file of its own, emptied first, instead of the log.
    #[must_use]
    pub fn stdout_to(mut self, path: PathBuf) -> Self {
        self.stdout = Some(path);
        self
    }

    /// Runs it on a terminal of its own, of this size, by `script` of util-linux. Everything that it writes there is standard
    /// output; the terminal's name is written to a file, so that a test can change its size by `stty`.
    #[must_use]
    pub fn on_terminal(mut self, rows: u16, columns: u16, name: &Path) -> Self {
        let words = std::iter::once(self.program.as_os_str()).chain(self.args.iter().map(OsString::as_os_str));
        let words: Vec<String> = words.map(quoted).collect();
        let name = quoted(name.as_os_str());
        let command = format!("stty rows {rows} cols {columns}; tty > {name}; exec {}", words.join(" "));
        self.program = "script".into();
        self.args = ["--quiet", "--flush", "--return", "--command", &command, "/dev/null"].map(OsString::from).into();
        self
    }

    /// The program and its arguments, for messages.
    pub fn command_line(&self) -> String {
        let args: Vec<_> = self.args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        format!("{} {}", self.program.display(), args.join(" "))
    }

    /// Closes its copy of a socket, whose other end is to see when the process ends.
    pub(super) fn close_socket(&mut self) {
        if matches!(self.stdin, Input::Socket(_)) {
            self.stdin = Input::Nothing;
        }
    }

    pub(super) fn stdout_path(&self) -> &Path {
        self.stdout.as_deref().unwrap_or(&self.log)
    }

    pub(super) fn command(&self) -> Result<Command> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .map_err(Error::file("opening the log", &self.log))?;
        let stdout = match &self.stdout {
            Some(path) => File::create(path).map_err(Error::file("opening", path))?,
            None => log.try_clone().map_err(Error::file("opening the log", &self.log))?,
        };
        let stdin = match &self.stdin {
            Input::Nothing => Stdio::null(),
            Input::Pipe => Stdio::piped(),
            Input::File(path) => File::open(path).map_err(Error::file("opening", path))?.into(),
            Input::Socket(socket) => {
                let again = socket.try_clone().map_err(Error::connection("passing on a socket to", &self.name))?;
                again.into()
            }
        };
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.program).args(&self.args);
        command.stdin(stdin).stdout(stdout).stderr(log).process_group(0);
        for name in &self.env_remove {
            command.env_remove(name);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }
}

/// A word as a shell reads it back.
fn quoted(word: &OsStr) -> String {
    format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"))
}

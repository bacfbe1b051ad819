//! One error type for the harness: each variant names the step that failed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Errors of the test environment. All of them are faults of the environment or of the program under test, never of the
/// caller's input; a retry makes sense only where the text says so.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that the tests need was not built or installed.
    #[error(transparent)]
    Missing(#[from] crate::deps::Missing),
    /// The file system refused.
    #[error("{step} {}: {source}", path.display())]
    File {
        /// The step that failed.
        step: &'static str,
        /// On which path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A process could not be started at all.
    #[error("starting {name}: {source}")]
    Spawn {
        /// The process's name in this run.
        name: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A signal could not be sent.
    #[error("signalling {name}: {source}")]
    Signal {
        /// The process's name in this run.
        name: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A condition did not become true in time.
    #[error("{what}: not so after {waited:?}{detail}")]
    Deadline {
        /// The condition that was waited for.
        what: String,
        /// How long was waited.
        waited: Duration,
        /// The last state that was seen or the last log lines; empty or starts with a line break.
        detail: String,
    },
    /// A process ended although it should run.
    #[error("{name} ended ({status}) while waiting for: {what}{log}")]
    Ended {
        /// The process's name in this run.
        name: String,
        /// Its exit status.
        status: String,
        /// The condition that was waited for.
        what: String,
        /// Its last log lines.
        log: String,
    },
    /// A command of the program under test failed.
    #[error("{command} failed ({status}):\n{stderr}")]
    Command {
        /// The command.
        command: String,
        /// Its exit status.
        status: String,
        /// The message of the command.
        stderr: String,
    },
    /// No loopback port is free.
    #[error("no free loopback port: {0}")]
    Ports(String),
    /// A certificate could not be made.
    #[error("making a certificate: {0}")]
    Certificate(String),
    /// A connection could not be made or used.
    #[error("{step} {peer}: {source}")]
    Connection {
        /// The step that failed.
        step: &'static str,
        /// With whom.
        peer: String,
        /// The cause.
        source: std::io::Error,
    },
    /// TLS could not be set up, or the handshake failed.
    #[error("TLS with {peer}: {source}")]
    Tls {
        /// With whom.
        peer: String,
        /// The cause.
        source: rustls::Error,
    },
    /// An HTTP exchange failed.
    #[error("HTTP {step}: {reason}")]
    Http {
        /// Which step.
        step: &'static str,
        /// Why.
        reason: String,
    },
    /// A peer stayed silent beyond the client's timeout.
    #[error("HTTP {step}: timeout")]
    Timeout {
        /// Which step.
        step: &'static str,
    },
    /// An answer was not the JSON that was expected.
    #[error("JSON of {what}: {source}")]
    Json {
        /// The owner of the JSON.
        what: String,
        /// The cause.
        source: serde_json::Error,
    },
    /// An answer lacks something that the caller needs.
    #[error("{what} has no {field}")]
    Lacks {
        /// Which answer.
        what: String,
        /// The missing part.
        field: String,
    },
}

impl Error {
    /// Whether a client gave up a peer that stayed silent beyond the client's own timeout.
    pub fn is_timeout(&self) -> bool {
        let is_late = |source: &std::io::Error| matches!(source.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        match self {
            Self::Timeout { .. } => true,
            Self::Connection { source, .. } => is_late(source),
            _ => false,
        }
    }

    /// A file-system error at one step.
    pub(crate) fn file(step: &'static str, path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::File { step, path, source }
    }

    /// A connection error at one step.
    pub(crate) fn connection(step: &'static str, peer: impl ToString) -> impl FnOnce(std::io::Error) -> Self {
        let peer = peer.to_string();
        move |source| Self::Connection { step, peer, source }
    }
}

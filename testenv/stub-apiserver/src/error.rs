//! Why a stub could not start.

use std::net::SocketAddr;

/// Why a stub could not start. All are faults of its options or its machine.
#[derive(Debug, thiserror::Error)]
pub enum StubError {
    /// The address is taken or not ours.
    #[error("listening on {address}: {source}")]
    Listen {
        /// The wanted address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// A certificate or key is not PEM, or does not fit.
    #[error("reading {what}: {reason}")]
    Pem {
        /// Which of the options.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// TLS refuses the server's certificate.
    #[error("setting up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The runtime could not be started.
    #[error("starting the runtime: {0}")]
    Runtime(std::io::Error),
    /// The server's thread ended before it said where it listens.
    #[error("the server's thread ended early")]
    Thread,
    /// A file of the command line cannot be read.
    #[error("reading {path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
}

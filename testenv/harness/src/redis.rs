//! Debian's Redis and its sentinel.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use crate::error::Result;
use crate::process::{Process, Spec};
use crate::{deps, ports};

const READY: Duration = Duration::from_secs(20);

/// A running Redis or sentinel at a loopback address. Ends with this value.
#[derive(Debug)]
pub struct Redis {
    process: Process,
    address: SocketAddr,
}

impl Redis {
    /// Starts a server that keeps everything in memory. `settings` are lines of its configuration, which come last; see
    /// [`Redis::free_address`] for its address.
    ///
    /// # Errors
    /// [`crate::error::Error::Missing`], or the step that failed with the last log lines.
    pub fn server(directory: &Path, name: &str, address: SocketAddr, settings: &[&str]) -> Result<Self> {
        let port = format!("port {}", address.port());
        let lines = [port.as_str(), "save \"\"", "appendonly no", "repl-diskless-sync-delay 0"];
        let program = deps::redis()?.server;
        Self::start(directory, name, program.as_path(), address, &[&lines, settings].concat())
    }

    /// Starts a sentinel.
    ///
    /// # Errors
    /// As [`Redis::server`].
    pub fn sentinel(directory: &Path, name: &str, settings: &[&str]) -> Result<Self> {
        let address = Self::free_address()?;
        let port = format!("port {}", address.port());
        let program = deps::redis()?.sentinel;
        Self::start(directory, name, program.as_path(), address, &[&[port.as_str()], settings].concat())
    }

    /// An address for a server.
    ///
    /// # Errors
    /// As [`ports::free_address`].
    pub fn free_address() -> Result<SocketAddr> {
        ports::free_address()
    }

    fn start(directory: &Path, name: &str, program: &Path, address: SocketAddr, lines: &[&str]) -> Result<Self> {
        let file = directory.join(format!("{name}.conf"));
        let text = format!("bind 127.0.0.1\ndir {}\n{}\n", directory.display(), lines.join("\n"));
        crate::write_private(&file, text.as_bytes())?;
        let libraries = deps::redis()?.libraries;
        let spec = Spec::new(name, program, directory).arg(&file).env("LD_LIBRARY_PATH", libraries);
        let process = Process::start(spec)?;
        process.wait_listening(address, READY)?;
        Ok(Self { process, address })
    }

    /// Starts it again, after its process has ended.
    ///
    /// # Errors
    /// As [`Redis::server`].
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill();
        self.process.start_again()?;
        self.process.wait_listening(self.address, READY)
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The address that it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

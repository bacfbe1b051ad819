//! Debian's dnsmasq, a DNS server with a few records of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Result;
use crate::process::{Process, Spec};
use crate::{deps, ports};

const READY: Duration = Duration::from_secs(20);

/// A running DNS server at a loopback address, which knows nothing but its records. Ends with this value.
#[derive(Debug)]
pub struct DnsServer {
    process: Process,
    address: SocketAddr,
    file: PathBuf,
}

impl DnsServer {
    /// Starts it with these records below the domain `test`, as lines of dnsmasq's configuration: `host-record=…`, `srv-host=…`.
    /// They hold for a second.
    ///
    /// # Errors
    /// [`crate::error::Error::Missing`], or the step that failed with the last log lines.
    pub fn start(directory: &Path, records: &[String]) -> Result<Self> {
        let (found, address) = (deps::dnsmasq()?, ports::free_address()?);
        let file = directory.join("dnsmasq.conf");
        let spec = Spec::new("dnsmasq", found.program, directory)
            .args(["--keep-in-foreground", "--log-facility=-", "--user=root", "--pid-file"])
            .arg(format!("--conf-file={}", file.display()))
            .env("LD_LIBRARY_PATH", found.libraries);
        write(&file, address, records)?;
        let process = Process::start(spec)?;
        process.wait_listening(address, READY)?;
        Ok(Self { process, address, file })
    }

    /// Starts it again with these records in the place of those before.
    ///
    /// # Errors
    /// As [`DnsServer::start`].
    pub fn restart(&mut self, records: &[String]) -> Result<()> {
        self.process.kill();
        write(&self.file, self.address, records)?;
        self.process.start_again()?;
        self.process.wait_listening(self.address, READY)
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The address that it listens at, over UDP and TCP.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn write(file: &Path, address: SocketAddr, records: &[String]) -> Result<()> {
    let listen = format!("listen-address={}\nport={}\nbind-interfaces", address.ip(), address.port());
    let closed = "no-resolv\nno-hosts\nlocal=/test/\nlocal-ttl=1";
    crate::write_private(file, format!("{listen}\n{closed}\n{}\n", records.join("\n")).as_bytes())
}

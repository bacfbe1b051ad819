//! `portcullis agent`: Envoy as an operator runs it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::client::plain;
use crate::envoy::Admin;
use crate::error::{Error, Result};
use crate::process::{Process, Spec};
use crate::{deps, inotify, ports};

/// How to start an Envoy by `portcullis agent`.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// Envoy's version, like `1.38.3`; `None` = the pinned version.
    pub version: Option<String>,
    /// Another program in the place of Envoy, which runs one.
    pub envoy: Option<PathBuf>,
    /// The sockets of the control planes.
    pub xds_sockets: Vec<PathBuf>,
    /// `--shutdown-delay`.
    pub shutdown_delay_seconds: u32,
    /// `--drain-timeout`.
    pub drain_timeout_seconds: u32,
    /// More flags of the agent.
    pub flags: Vec<String>,
    /// Flags of Envoy.
    pub envoy_flags: Vec<String>,
}

impl AgentOptions {
    /// The pinned Envoy, which follows these control planes and may take a second to go.
    pub fn new<'a>(xds_sockets: impl IntoIterator<Item = &'a Path>) -> Self {
        Self {
            version: None,
            envoy: None,
            xds_sockets: xds_sockets.into_iter().map(Path::to_owned).collect(),
            shutdown_delay_seconds: 0,
            drain_timeout_seconds: 1,
            flags: Vec::new(),
            envoy_flags: ["--concurrency", "2"].map(str::to_owned).into(),
        }
    }
}

/// A running `portcullis agent`. Ends with this value.
#[derive(Debug)]
pub struct Agent {
    process: Process,
    dir: PathBuf,
    name: String,
    admin: Admin,
    http: SocketAddr,
}

impl Agent {
    /// Starts it, with its log in `dir`, and waits until its own pages answer. Envoy may still be starting.
    ///
    /// # Errors
    /// [`Error::Missing`], or the step that failed with the last log lines.
    pub fn start(dir: &Path, name: &str, options: &AgentOptions) -> Result<Self> {
        let (http, admin) = (ports::free_address()?, ports::free_address()?);
        let spec = Self::spec(dir, name, options, (http, admin))?;
        inotify::wait_for_room();
        let process = Process::start(spec)?;
        let agent = Self { process, dir: dir.to_owned(), name: name.to_owned(), admin: Admin::new(admin), http };
        agent.wait_answering()?;
        Ok(agent)
    }

    fn spec(dir: &Path, name: &str, options: &AgentOptions, (http, admin): (SocketAddr, SocketAddr)) -> Result<Spec> {
        let envoy = match &options.envoy {
            Some(program) => program.clone(),
            None => options.version.as_deref().map_or_else(deps::envoy, deps::envoy_version)?,
        };
        let mut spec = Spec::new(name, deps::portcullis()?, dir)
            .arg("agent")
            .arg("--envoy")
            .arg(envoy)
            .arg("--module-dir")
            .arg(deps::module_dir()?)
            .args(["--node-id", name])
            .args(["--http-address", &http.to_string(), "--admin-address", &admin.to_string()])
            .args(["--shutdown-delay", &format!("{}s", options.shutdown_delay_seconds)])
            .args(["--drain-timeout", &format!("{}s", options.drain_timeout_seconds)])
            // cargo points it at its own builds, among which Envoy would find a module that it is not to load.
            .env_remove("LD_LIBRARY_PATH");
        for socket in &options.xds_sockets {
            spec = spec.arg("--xds-socket").arg(socket);
        }
        Ok(spec.args(&options.flags).arg("--").arg("--reject-unknown-dynamic-fields").args(&options.envoy_flags))
    }

    /// Starts it again, after it has ended, with the same addresses and other options.
    ///
    /// # Errors
    /// As [`Agent::start`].
    pub fn start_again_with(&mut self, options: &AgentOptions) -> Result<()> {
        let spec = Self::spec(&self.dir, &self.name, options, (self.http, self.admin.address()))?;
        self.process = Process::start(spec)?;
        self.wait_answering()
    }

    /// Starts it again, after it has ended, with the same addresses.
    ///
    /// # Errors
    /// As [`Agent::start`].
    pub fn start_again(&mut self) -> Result<()> {
        self.process.start_again()?;
        self.wait_answering()
    }

    fn wait_answering(&self) -> Result<()> {
        self.process.wait_ready("the agent's pages", Duration::from_secs(20), || self.status_of("/healthz")).map(drop)
    }

    /// Waits until /readyz says yes.
    ///
    /// # Errors
    /// [`Error::Deadline`] or [`Error::Ended`], with the last log lines.
    pub fn wait_ready(&self, deadline: Duration) -> Result<()> {
        self.process.wait_ready("readiness of the gateway", deadline, || match self.status_of("/readyz")? {
            200 => Ok(()),
            other => Err(Error::Http { step: "asking /readyz", reason: other.to_string() }),
        })
    }

    /// The status code of one of its pages.
    ///
    /// # Errors
    /// [`Error::Connection`] or [`Error::Http`].
    pub fn status_of(&self, path: &str) -> Result<u16> {
        Ok(plain::get(self.http, path)?.status)
    }

    /// The address of its pages.
    pub fn http_address(&self) -> SocketAddr {
        self.http
    }

    /// Envoy's admin page.
    pub fn admin(&self) -> &Admin {
        &self.admin
    }

    /// The agent's process; its log is Envoy's as well.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Envoy's process id: of the agent's only child. `None` if there is none.
    pub fn envoy_pid(&self) -> Option<u32> {
        let entries = std::fs::read_dir("/proc").ok()?;
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.into_iter().find(|pid| parent(*pid) == Some(self.process.pid()))
    }
}

/// Whether a process exists and has not ended.
pub fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z')
}

fn parent(pid: u32) -> Option<u32> {
    stat(pid).map(|(_, parent)| parent)
}

/// State and parent of a process.
fn stat(pid: u32) -> Option<(char, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may hold some itself.
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

//! A real Envoy.

mod admin;
mod filter;
mod foreign;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

pub use admin::Admin;
pub use filter::FilterChannel;
pub(crate) use foreign::{foreign_bootstrap, socket_address};

use crate::error::{Error, Result};
use crate::process::{Process, Spec};
use crate::rundir::write_private;
use crate::{deps, inotify};

/// How to start an Envoy.
#[derive(Debug, Clone)]
pub struct EnvoyOptions {
    /// Like `1.38.3`; `None` = the pinned version.
    pub version: Option<String>,
    /// The bootstrap; must have an admin address on loopback.
    pub bootstrap: Value,
    /// A file to run instead, as a user wrote it. Of the bootstrap only the admin address is looked at then, which must be the
    /// file's.
    pub file: Option<PathBuf>,
    /// The directory of `libportcullis.so`; `None` = found by [`deps::module_dir`] if it is built.
    pub module_dir: Option<PathBuf>,
    /// Worker threads.
    pub concurrency: u32,
    /// Log levels by component, like `dynamic_modules:debug,http:debug`.
    pub component_log_level: String,
    /// More flags.
    pub flags: Vec<String>,
    /// A program that runs Envoy, like valgrind, with its own flags.
    pub wrapper: Vec<OsString>,
    /// How long the admin page may take to answer.
    pub patience: Duration,
    /// Whether the filter has a channel as it has to an agent ([`Envoy::filter`]).
    pub has_channel: bool,
}

impl EnvoyOptions {
    /// The pinned version with two workers.
    pub fn new(bootstrap: Value) -> Self {
        Self {
            version: None,
            bootstrap,
            file: None,
            module_dir: None,
            concurrency: 2,
            component_log_level: "dynamic_modules:info".to_owned(),
            flags: Vec::new(),
            wrapper: Vec::new(),
            patience: Duration::from_secs(20),
            has_channel: false,
        }
    }
}

/// A running Envoy. Ends with this value.
#[derive(Debug)]
pub struct Envoy {
    process: Process,
    admin: Admin,
    filter: Option<FilterChannel>,
}

impl Envoy {
    /// Starts an Envoy called `name`, with bootstrap and log in `dir`, and waits until its admin page answers. Its
    /// listeners may still be warming: see [`Envoy::wait_ready`].
    ///
    /// # Errors
    /// [`Error::Missing`], or the step that failed with the last log lines.
    pub fn start(dir: &Path, name: &str, options: &EnvoyOptions) -> Result<Self> {
        let binary = match &options.version {
            Some(version) => deps::envoy_version(version)?,
            None => deps::envoy()?,
        };
        let admin = Admin::new(admin_address(&options.bootstrap)?);
        let config = match &options.file {
            Some(file) => file.clone(),
            None => {
                let config = dir.join(format!("{name}-bootstrap.json"));
                write_private(&config, options.bootstrap.to_string().as_bytes())?;
                config
            }
        };
        let mut line = options.wrapper.iter().cloned().chain([binary.into_os_string()]);
        let mut spec = Spec::new(name, line.next().unwrap_or_default(), dir)
            .args(line)
            .arg("-c")
            .arg(&config)
            .arg("--disable-hot-restart")
            .arg("--reject-unknown-dynamic-fields")
            .args(["--log-level", "info", "--component-log-level", &options.component_log_level])
            .args(["--concurrency", &options.concurrency.to_string()])
            .args(&options.flags)
            // cargo points it at its own builds, among which Envoy would find a module that it is not to load.
            .env_remove("LD_LIBRARY_PATH");
        if let Some(modules) = options.module_dir.clone().or_else(|| deps::module_dir().ok()) {
            spec = spec.env("ENVOY_DYNAMIC_MODULES_SEARCH_PATH", modules);
        }
        let mut filter = None;
        if options.has_channel {
            let (channel, input) = FilterChannel::new()?;
            spec = spec.stdin_socket(input).env(filter::VARIABLE, "1");
            filter = Some(channel);
        }
        inotify::wait_for_room();
        let envoy = Self { process: Process::start(spec)?, admin, filter };
        envoy.process.wait_ready("Envoy's admin page", options.patience, || envoy.admin.get("/server_info"))?;
        Ok(envoy)
    }

    /// Waits until `/ready` says LIVE: the first xDS snapshot is in effect.
    ///
    /// # Errors
    /// [`Error::Deadline`] or [`Error::Ended`], with the last log lines.
    pub fn wait_ready(&self, deadline: Duration) -> Result<()> {
        self.process.wait_ready("readiness of Envoy", deadline, || {
            let response = self.admin.get("/ready")?;
            if response.status == 200 {
                return Ok(());
            }
            Err(Error::Http { step: "asking /ready", reason: response.text() })
        })
    }

    /// Waits until a TCP connection to a listener is accepted.
    ///
    /// # Errors
    /// As [`Envoy::wait_ready`].
    pub fn wait_listening(&self, address: SocketAddr, deadline: Duration) -> Result<()> {
        self.process.wait_listening(address, deadline)
    }

    /// The admin page.
    pub fn admin(&self) -> &Admin {
        &self.admin
    }

    /// The channel to the filter, if it was asked for.
    pub fn filter(&self) -> Option<&FilterChannel> {
        self.filter.as_ref()
    }

    /// The process, its log included.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Asks Envoy to end through its admin page and waits.
    ///
    /// # Errors
    /// [`Error::Deadline`] with the last log lines.
    pub fn quit(&self) -> Result<()> {
        // The answer may be lost, as Envoy is ending.
        let _ = self.admin.post("/quitquitquit");
        self.process.wait_exit(Duration::from_secs(10)).map(drop)
    }
}

fn admin_address(bootstrap: &Value) -> Result<SocketAddr> {
    let lacks = || Error::Lacks { what: "the bootstrap".to_owned(), field: "admin.address.socket_address".to_owned() };
    let socket = bootstrap.pointer("/admin/address/socket_address");
    // protobuf's JSON allows both spellings of a name.
    let socket = socket.or_else(|| bootstrap.pointer("/admin/address/socketAddress")).ok_or_else(lacks)?;
    let port = socket.get("port_value").or_else(|| socket.get("portValue")).and_then(Value::as_u64);
    let host = socket.get("address").and_then(Value::as_str).and_then(|host| host.parse().ok());
    match (host, port.and_then(|port| u16::try_from(port).ok())) {
        (Some(host), Some(port)) => Ok(SocketAddr::new(host, port)),
        _ => Err(lacks()),
    }
}

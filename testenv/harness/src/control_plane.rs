//! The control plane's executable.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::client::plain;
use crate::error::{Error, Result};
use crate::process::{Process, Spec};
use crate::{deps, ports};

/// A running `portcullis serve`. Ends with this value.
#[derive(Debug)]
pub struct ControlPlane {
    process: Process,
    binary: PathBuf,
    dir: PathBuf,
    xds_socket: PathBuf,
    http: SocketAddr,
    // Short-lived directory of the socket: a socket's path may have at most 107 bytes.
    _socket_dir: TempDir,
}

impl ControlPlane {
    /// Starts the control plane over a directory of YAML files, logging in `dir`, and waits until its status page
    /// answers.
    ///
    /// # Errors
    /// [`Error::Missing`], or the step that failed with the last log lines.
    pub fn start(dir: &Path, config_dir: &Path) -> Result<Self> {
        Self::start_with(dir, config_dir, &[])
    }

    /// As [`ControlPlane::start`], with more flags of `serve`.
    ///
    /// # Errors
    /// As [`ControlPlane::start`].
    pub fn start_with(dir: &Path, config_dir: &Path, flags: &[&str]) -> Result<Self> {
        let config_dir = config_dir.display().to_string();
        Self::start_from(dir, &[&["--config", config_dir.as_str()], flags].concat())
    }

    /// Starts the control plane with flags that say where its objects come from.
    ///
    /// # Errors
    /// As [`ControlPlane::start`].
    pub fn start_from(dir: &Path, flags: &[&str]) -> Result<Self> {
        Self::start_in(dir, flags, &[])
    }

    /// As [`ControlPlane::start_from`], with more variables in its environment.
    ///
    /// # Errors
    /// As [`ControlPlane::start`].
    pub fn start_in(dir: &Path, flags: &[&str], env: &[(&str, &str)]) -> Result<Self> {
        let plane = Self::launch(dir, None, flags, env)?;
        plane.wait_answering()?;
        Ok(plane)
    }

    /// Starts the control plane with its pages at all addresses of the machine, where they need a login. It is asked on
    /// loopback, and [`ControlPlane::status`] is refused.
    ///
    /// # Errors
    /// As [`ControlPlane::start`].
    pub fn start_behind_login(dir: &Path, flags: &[&str]) -> Result<Self> {
        let plane = Self::launch(dir, Some(Ipv4Addr::UNSPECIFIED), flags, &[])?;
        plane.process.wait_ready("the control plane is alive", Duration::from_secs(20), || {
            let answer = plain::get(plane.http, "/healthz")?;
            let step = "asking /healthz";
            if answer.status == 200 { Ok(()) } else { Err(Error::Http { step, reason: answer.text() }) }
        })?;
        Ok(plane)
    }

    /// Starts the process; its pages are at loopback, or at another address that includes it.
    fn launch(dir: &Path, pages: Option<Ipv4Addr>, flags: &[&str], env: &[(&str, &str)]) -> Result<Self> {
        let binary = deps::portcullis()?;
        // In /tmp and not TMPDIR, which may be long.
        let socket_dir = tempfile::Builder::new()
            .prefix("pc-x-")
            .tempdir_in("/tmp")
            .map_err(Error::file("making a directory for the socket in", "/tmp"))?;
        let xds_socket = socket_dir.path().join("xds.sock");
        let http = ports::free_address()?;
        let spec = Spec::new("portcullis", &binary, dir)
            .args(["serve", "--xds-socket"])
            .arg(&xds_socket)
            .args(["--http-address", &format!("{}:{}", pages.map_or(http.ip(), IpAddr::V4), http.port())])
            .args(flags);
        let spec = env.iter().fold(spec, |spec, (name, value)| spec.env(name, value));
        let process = Process::start(spec)?;
        Ok(Self { process, binary, dir: dir.to_owned(), xds_socket, http, _socket_dir: socket_dir })
    }

    /// Ends the process (in order, or with SIGKILL through [`ControlPlane::process`] before) and starts it again on the
    /// same socket and address; waits until its status page answers.
    ///
    /// # Errors
    /// The step that failed, with the last log lines.
    pub fn restart(&mut self) -> Result<()> {
        self.process.start_again()?;
        self.wait_answering()
    }

    fn wait_answering(&self) -> Result<()> {
        let what = "the control plane's status page";
        self.process.wait_ready(what, Duration::from_secs(20), || self.status()).map(drop)
    }

    /// The bootstrap that `portcullis bootstrap` prints for a node, with the admin page on a free loopback port.
    ///
    /// # Errors
    /// [`Error::Command`] or [`Error::Json`].
    pub fn bootstrap(&self, node_id: &str) -> Result<Value> {
        self.bootstrap_with(node_id, &[])
    }

    /// As [`ControlPlane::bootstrap`], with more flags.
    ///
    /// # Errors
    /// As [`ControlPlane::bootstrap`].
    pub fn bootstrap_with(&self, node_id: &str, more: &[&str]) -> Result<Value> {
        let socket = self.xds_socket.display().to_string();
        let mut flags = vec!["--xds-socket", &socket];
        flags.extend(more);
        self.bootstrap_at(node_id, &flags)
    }

    /// As [`ControlPlane::bootstrap`], with flags that say where xDS is.
    ///
    /// # Errors
    /// As [`ControlPlane::bootstrap`].
    pub fn bootstrap_at(&self, node_id: &str, more: &[&str]) -> Result<Value> {
        let admin = ports::free_address()?.to_string();
        let mut flags = vec!["bootstrap", "--admin-address", &admin, "--node-id", node_id];
        flags.extend(more);
        let text = self.print(&format!("portcullis-bootstrap-{node_id}"), &flags)?;
        serde_json::from_str(&text).map_err(|source| Error::Json { what: format!("the bootstrap {text}"), source })
    }

    /// The manifests that `portcullis rbac` prints for the gateway's own user.
    ///
    /// # Errors
    /// [`Error::Command`].
    pub fn rbac(&self, user: &str) -> Result<String> {
        self.print("portcullis-rbac", &["rbac", "--user", user])
    }

    /// The gateway's rights as `portcullis rbac` prints them for the manifests of a file or directory.
    ///
    /// # Errors
    /// As [`ControlPlane::rbac`].
    pub fn rbac_of(&self, user: &str, manifests: &Path) -> Result<String> {
        let manifests = manifests.to_string_lossy();
        self.print("portcullis-rbac", &["rbac", "--user", user, "-f", &manifests])
    }

    /// The output of another command of the same executable.
    fn print(&self, name: &str, args: &[&str]) -> Result<String> {
        let spec = Spec::new(name, &self.binary, &self.dir).args(args).stdout_to(self.dir.join(format!("{name}.out")));
        let command = spec.command_line();
        let process = Process::start(spec)?;
        let status = process.wait_exit(Duration::from_secs(20))?;
        if status.success() {
            return Ok(process.stdout());
        }
        Err(Error::Command { command, status: status.to_string(), stderr: process.log() })
    }

    /// The status page.
    ///
    /// # Errors
    /// [`Error::Connection`], [`Error::Http`] or [`Error::Json`].
    pub fn status(&self) -> Result<Value> {
        let response = plain::get(self.http, "/status")?;
        if response.status == 200 {
            return response.json();
        }
        Err(Error::Http { step: "asking /status", reason: format!("{}: {}", response.status, response.text()) })
    }

    /// Waits until at least `nodes` Envoys are connected and every one of them has the current snapshot.
    ///
    /// # Errors
    /// [`Error::Deadline`] with the last status and the last log lines.
    pub fn wait_in_sync(&self, nodes: usize, deadline: Duration) -> Result<Value> {
        self.wait_status("Envoy has the current snapshot", deadline, |status| in_sync(status, nodes))
    }

    /// Waits until the status satisfies a condition.
    ///
    /// # Errors
    /// As [`ControlPlane::wait_in_sync`].
    pub fn wait_status(&self, what: &str, deadline: Duration, mut holds: impl FnMut(&Value) -> bool) -> Result<Value> {
        self.process.wait_ready(what, deadline, || {
            let status = self.status().map_err(|error| error.to_string())?;
            if holds(&status) { Ok(status) } else { Err(format!("{status:#}")) }
        })
    }

    /// The address of the status page.
    pub fn http_address(&self) -> SocketAddr {
        self.http
    }

    /// The socket that Envoy asks for its configuration.
    pub fn xds_socket(&self) -> &Path {
        &self.xds_socket
    }

    /// The process, its log included.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

/// `nodes` is an object by node id or a list; both are read.
fn in_sync(status: &Value, at_least: usize) -> bool {
    let nodes: Vec<&Value> = match status.get("nodes") {
        Some(Value::Array(list)) => list.iter().collect(),
        Some(Value::Object(map)) => map.values().collect(),
        _ => Vec::new(),
    };
    let synced = |node: &Value| node.get("inSync").and_then(Value::as_bool) == Some(true);
    nodes.len() >= at_least.max(1) && nodes.into_iter().all(synced)
}

#[cfg(test)]
mod tests {
    use super::in_sync;
    use serde_json::json;

    #[test]
    fn sync_needs_every_node_and_enough_of_them() {
        let table = [
            (json!({"nodes": [{"inSync": true}]}), 1, true),
            (json!({"nodes": {"a": {"inSync": true}}}), 1, true),
            (json!({"nodes": [{"inSync": true}, {"inSync": false}]}), 1, false),
            (json!({"nodes": [{"inSync": true}]}), 2, false),
            (json!({"nodes": []}), 0, false),
            (json!({}), 0, false),
        ];
        for (status, nodes, expected) in table {
            assert_eq!(in_sync(&status, nodes), expected, "{status}");
        }
    }
}

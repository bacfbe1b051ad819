use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use portcullis_harness::{Error, Result, project_root};

/// The settings of a cluster for the scripts that fill in samples.
pub(crate) struct Settings<'a> {
    /// The host name of the cluster.
    pub(crate) name: &'a str,
    /// The kube-apiservers.
    pub(crate) servers: &'a [SocketAddr],
    /// The folder of certificates.
    pub(crate) pki: &'a Path,
    /// Further settings, `NAME=VALUE`.
    pub(crate) more: &'a [String],
}

/// Runs `envoy/<house>/render`; gives what it prints.
///
/// # Errors
/// [`Error::Command`] with what the script says.
pub(crate) fn render(house: &str, first: &[&OsStr], settings: &Settings<'_>) -> Result<String> {
    let setting = |name: &str, value: &dyn std::fmt::Display| OsString::from(format!("{name}={value}"));
    let mut command = Command::new(project_root().join("envoy").join(house).join("render"));
    command.args(first).arg(setting("name", &settings.name)).arg(setting("pki", &settings.pki.display()));
    command.args(settings.servers.iter().map(|server| setting("server", server))).args(settings.more);
    let output = command.output().map_err(|source| Error::Spawn { name: "render".to_owned(), source })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let (status, stderr) = (output.status.to_string(), text(&output.stderr));
    Err(Error::Command { command: format!("{command:?}"), status, stderr })
}

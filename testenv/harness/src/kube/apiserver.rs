//! One kube-apiserver.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::options::{Anonymous, KubeOptions};
use super::{audit, node};
use crate::certs::{Ca, CertSpec, Identity};
use crate::client::TlsTarget;
use crate::deps;
use crate::error::{Error, Result};
use crate::ports;
use crate::process::{Process, Spec};

/// The common parts of all kube-apiservers of one store.
pub(super) struct Setup<'a> {
    pub(super) binary: &'a Path,
    pub(super) dir: &'a Path,
    pub(super) server_ca: &'a Ca,
    pub(super) etcd_url: &'a str,
    pub(super) options: &'a KubeOptions,
}

/// A running kube-apiserver.
#[derive(Debug)]
pub struct ApiServer {
    process: Process,
    address: SocketAddr,
    audit_log: PathBuf,
}

impl ApiServer {
    pub(super) fn start(setup: &Setup<'_>, index: usize) -> Result<Self> {
        let address = ports::free_address()?;
        let name = format!("apiserver-{index}");
        let file = |suffix: &str| setup.dir.join(format!("{name}{suffix}"));
        let names = setup.options.server_names.iter().cloned().chain(["kubernetes.default.svc".to_owned()]);
        let identity = setup.server_ca.issue(&CertSpec::server("kube-apiserver", names))?;
        identity.write_pem(&file(".crt"), &file(".key"))?;
        let audit_log = file("-audit.log");
        let spec = Spec::new(&name, setup.binary, setup.dir)
            // Half of a start is collecting garbage otherwise; memory is there, and bounded.
            .env("GOGC", "off")
            .env("GOMEMLIMIT", "1GiB")
            .flag("secure-port", address.port().to_string())
            .flag("tls-cert-file", file(".crt"))
            .flag("tls-private-key-file", file(".key"))
            .flag("audit-log-path", &audit_log);
        let spec = common_flags(spec, setup);
        Ok(Self { process: Process::start(spec)?, address, audit_log })
    }

    /// The address of its listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process, to freeze or kill it.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Its audit log so far: one event per request, at its end, level Metadata.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Json`].
    pub fn audit_events(&self) -> Result<Vec<Value>> {
        audit::read(&self.audit_log)
    }

    /// Audit events of requests for a path, without its query.
    ///
    /// # Errors
    /// As [`ApiServer::audit_events`].
    pub fn audit_events_for(&self, path: &str) -> Result<Vec<Value>> {
        let mut events = self.audit_events()?;
        events.retain(|event| audit::path(event) == Some(path));
        Ok(events)
    }

    /// Waits for an audit event: a long answer may reach its client before the event reaches the log.
    ///
    /// # Errors
    /// [`Error::Deadline`] naming `what`, with how many events there are.
    pub fn wait_audit(&self, what: &str, deadline: Duration, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        crate::wait::until_ok(what, deadline, || {
            let events = self.audit_events().map_err(|error| error.to_string())?;
            let count = events.len();
            events.into_iter().find(|event| wanted(event)).ok_or_else(|| format!("{count} other audit events"))
        })
    }

    pub(super) fn restart(&mut self) -> Result<()> {
        self.process.start_again()
    }

    pub(super) fn wait_ready(&self, ca: &Ca, admin: &Identity, deadline: Duration) -> Result<()> {
        let target = TlsTarget::new(self.address).trust(ca).identity(admin).timeout(Duration::from_secs(5));
        let request = b"GET /readyz?verbose HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let what = format!("readiness of {}", self.process.name());
        self.process.wait_ready(&what, deadline, || {
            let response = target.raw_request(request)?;
            if response.status == 200 {
                return Ok(());
            }
            Err(Error::Http { step: "asking /readyz", reason: response.text() })
        })
    }
}

fn common_flags(spec: Spec, setup: &Setup<'_>) -> Spec {
    let file = |name: &str| setup.dir.join(name);
    let spec = spec
        .flag("etcd-servers", setup.etcd_url)
        .flag("bind-address", "127.0.0.1")
        // Loopback is not a valid endpoint of the service "kubernetes", and the service is not used here.
        .flag("endpoint-reconciler-type", "none")
        .flag("service-cluster-ip-range", "10.0.0.0/24")
        .flag("client-ca-file", file("client-ca.pem"))
        .flag("service-account-key-file", file("accounts.pub"))
        .flag("service-account-signing-key-file", file("accounts.key"))
        .flag("service-account-issuer", "https://kubernetes.default.svc")
        .flag("authorization-mode", "RBAC")
        // No controller makes service accounts here, and pods would wait for one.
        .flag("disable-admission-plugins", "ServiceAccount")
        .flag("allow-privileged", "true")
        .flag("audit-policy-file", file("audit-policy.json"))
        // Without batching, so that a test sees soon what it caused.
        .flag("audit-log-mode", "blocking")
        .flag("audit-log-format", "json");
    let spec = match setup.options.anonymous {
        Anonymous::On => spec.flag("anonymous-auth", "true"),
        Anonymous::Off => spec.flag("anonymous-auth", "false"),
        Anonymous::HealthOnly => spec.flag("authentication-config", file("authentication.json")),
    };
    let spec = match setup.options.traces {
        Some(_) => spec.flag("tracing-config-file", file("tracing.json")),
        None => spec,
    };
    let spec = if setup.options.node { node::flags(spec, setup.dir) } else { spec };
    front_proxy_flags(spec, setup).args(&setup.options.flags)
}

fn front_proxy_flags(spec: Spec, setup: &Setup<'_>) -> Spec {
    let Some(front) = &setup.options.request_header else { return spec };
    // 1.32 has a flag for UIDs, and takes it with this alone.
    let gates = (deps::kube_minor() == 32).then(|| "--feature-gates=RemoteRequestHeaderUID=true".to_owned());
    let spec = spec
        .args(gates)
        .flag("requestheader-client-ca-file", setup.dir.join("requestheader-ca.pem"))
        .flag("requestheader-allowed-names", front.allowed_names.join(","));
    // Said twice, these flags would add up.
    if setup.options.flags.iter().any(|flag| flag.starts_with("--requestheader-username-headers=")) {
        return spec;
    }
    spec.flag("requestheader-username-headers", "X-Remote-User")
        .flag("requestheader-uid-headers", "X-Remote-Uid")
        .flag("requestheader-group-headers", "X-Remote-Group")
        .flag("requestheader-extra-headers-prefix", "X-Remote-Extra-")
}

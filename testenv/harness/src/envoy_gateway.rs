//! Envoy Gateway's control plane, outside of the cluster that it looks after, and how an Envoy comes to be a proxy of one of its
//! Gateways.

#![allow(clippy::indexing_slicing, reason = "what a JSON value does not have is null")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};

use crate::client::plain;
use crate::deps::{Missing, present, unless_required};
use crate::envoy::foreign_bootstrap;
use crate::error::{Error, Result};
use crate::kube::RealKube;
use crate::process::{Process, Spec};
use crate::rundir::RunDir;
use crate::{ports, project_root, write_private};

/// The namespace of its pods, and of those that it runs.
pub const SYSTEM: &str = "envoy-gateway-system";
/// The GatewayClass that it serves, of the name in its documents.
pub const CLASS: &str = "eg";
/// The controller that the class names.
const CONTROLLER: &str = "gateway.envoyproxy.io/gatewayclass-controller";
/// The socket at which it serves xDS, in its working directory (testenv/scripts/build-envoy-gateway).
const SOCKET: &str = "xds.sock";

/// Envoy Gateway's control plane, and the definitions of its objects. Built by Go and long to build.
#[derive(Debug, Clone)]
pub struct EnvoyGatewayBuild {
    program: PathBuf,
    crds: PathBuf,
}

impl EnvoyGatewayBuild {
    /// The build, or a reason to skip a test; `make test-envoy-gateway` sets `PORTCULLIS_ENVOY_GATEWAY=required`.
    ///
    /// # Errors
    /// The missing part, if it is required.
    pub fn or_skip(test: &str) -> std::result::Result<Option<Self>, Missing> {
        let dir = project_root().join(".deps/envoy-gateway/current");
        let find = |name: &str| present("Envoy Gateway", dir.join(name), "make test-envoy-gateway");
        let found = find("envoy-gateway").and_then(|program| Ok(Self { program, crds: find("crds.yaml")? }));
        unless_required("PORTCULLIS_ENVOY_GATEWAY", test, found)
    }
}

/// A running Envoy Gateway. Ends with this value.
#[derive(Debug)]
pub struct EnvoyGateway {
    process: Process,
    directory: PathBuf,
}

impl EnvoyGateway {
    /// Installs the definitions of its objects and of the Gateway API in a cluster, makes its certificates by its own command, and
    /// starts it for that cluster, with patches of Envoy's configuration allowed.
    ///
    /// # Errors
    /// The step that failed, with the last log lines.
    pub fn start(run: &RunDir, kube: &RealKube, built: &EnvoyGatewayBuild) -> Result<Self> {
        let directory = run.make_dir("eg")?;
        let kubeconfig = kube.prepare(&built.crds, SYSTEM, &directory)?;
        kube.apply(&run.write("eg/class.json", class().to_string())?)?;
        let command = |name: &str, args: &[&str]| {
            let spec = Spec::new(name, "env", &directory).arg(format!("--chdir={}", directory.display()));
            let spec = spec.arg(&built.program).args(args).env("KUBECONFIG", &kubeconfig);
            spec.env("ENVOY_GATEWAY_NAMESPACE", SYSTEM).env("HOME", &directory)
        };
        let certificates = Process::start(command("eg-certgen", &["certgen", "--disable-topology-injector"]))?;
        let status = certificates.wait_exit(Duration::from_secs(60))?;
        if !status.success() {
            let (command, stderr) = ("envoy-gateway certgen".to_owned(), certificates.log());
            return Err(Error::Command { command, status: status.to_string(), stderr });
        }
        // As its pod and those of its proxies have them.
        for (secret, folder) in [("envoy-gateway", "certs"), ("envoy", "envoy-certs")] {
            write_secret(kube, secret, &directory.join(folder))?;
        }
        let admin = ports::free_address()?;
        let configuration = run.write("eg/config.json", configuration(admin).to_string())?;
        let configuration = format!("--config-path={}", configuration.display());
        let process = Process::start(command("envoy-gateway", &["server", &configuration]))?;
        process.wait_ready("Envoy Gateway's console", Duration::from_secs(60), || plain::get(admin, "/"))?;
        Ok(Self { process, directory })
    }

    /// The bootstrap of an Envoy that is a proxy of a Gateway, with what the xDS server goes by: the certificate of all proxies, and
    /// `NAMESPACE/NAME` of the Gateway as the node's cluster.
    pub fn bootstrap(&self, gateway: &str, node: &str, admin: SocketAddr) -> Value {
        let file = |name: &str| json!({"filename": self.directory.join("envoy-certs").join(name)});
        let socket = json!({"pipe": {"path": self.directory.join(SOCKET)}});
        let tls = json!({
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "common_tls_context": {
                // Envoy Gateway takes no older version, and Envoy by itself offers none that is newer than 1.2.
                "tls_params": {"tls_maximum_protocol_version": "TLSv1_3"},
                "tls_certificates": [{"certificate_chain": file("tls.crt"), "private_key": file("tls.key")}],
                "validation_context": {"trusted_ca": file("ca.crt")},
            },
        });
        let tls = json!({"name": "envoy.transport_sockets.tls", "typed_config": tls});
        let node = json!({"id": node, "cluster": gateway});
        foreign_bootstrap(&node, admin, ("xds_cluster", &socket), &tls, &json!([]))
    }

    /// The process, its log included.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

fn class() -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "GatewayClass",
        "metadata": {"name": CLASS},
        "spec": {"controllerName": CONTROLLER},
    })
}

/// Backends are allowed as well, for what other tenants may try with them.
fn configuration(admin: SocketAddr) -> Value {
    json!({
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "EnvoyGateway",
        "gateway": {"controllerName": CONTROLLER},
        "provider": {
            "type": "Kubernetes",
            "kubernetes": {"leaderElection": {"disable": true}, "proxyTopologyInjector": {"disabled": true}},
        },
        "admin": {"address": {"host": admin.ip().to_string(), "port": admin.port()}},
        "telemetry": {"metrics": {"prometheus": {"disable": true}}},
        "extensionApis": {"enableEnvoyPatchPolicy": true, "enableBackend": true},
    })
}

/// Writes each value of a Secret into a file of its name.
fn write_secret(kube: &RealKube, name: &str, folder: &Path) -> Result<()> {
    let secret = kube.admin_kubectl()?.args(["-n", SYSTEM, "get", "secret", name]).json()?;
    write_data(&secret, folder)
}

/// Writes each value of a Secret or ConfigMap into a file of its name, as a volume of a pod has them.
///
/// # Errors
/// [`Error::Lacks`] where a value is no base64, [`Error::File`].
pub fn write_data(object: &Value, folder: &Path) -> Result<()> {
    for (key, value) in object["data"].as_object().into_iter().flatten() {
        let text = value.as_str().unwrap_or_default();
        let bytes = if object["kind"] == "Secret" {
            let decoded = base64::engine::general_purpose::STANDARD.decode(text);
            decoded.map_err(|error| Error::Lacks { what: key.clone(), field: error.to_string() })?
        } else {
            text.as_bytes().to_vec()
        };
        write_private(&folder.join(key), &bytes)?;
    }
    Ok(())
}

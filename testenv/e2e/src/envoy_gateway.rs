#![allow(clippy::indexing_slicing, reason = "what a JSON value does not have is null")]

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use portcullis_harness::certs::Ca;
use portcullis_harness::client::TlsTarget;
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::envoy_gateway::{EnvoyGateway, EnvoyGatewayBuild, SYSTEM, write_data};
use portcullis_harness::kube::RealKube;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{Error, Result, deps, ports, wait};
use serde_json::{Value, json};

use crate::render::{Settings, render};

const ARRIVES: Duration = Duration::from_secs(30);
/// The namespace of the Gateway, as the script has it by itself.
const NAMESPACE: &str = "portcullis-ingress";
const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";

/// A real Envoy Gateway over a real kube-apiserver, with the objects of `envoy/envoy-gateway`. Nothing of a proxy's configuration
/// is written by hand: Envoy Gateway makes it of the objects that it finds. Ends with this value.
#[derive(Debug)]
pub struct EnvoyGatewaySite {
    control: EnvoyGateway,
    address: SocketAddr,
    gateway: String,
    namespace: String,
}

impl EnvoyGatewaySite {
    /// Starts Envoy Gateway and applies objects of a host name in the namespace `portcullis-ingress`; waits until it has taken all
    /// patches. Files that pods would have are at paths of the run in their place, and listeners at loopback.
    ///
    /// # Errors
    /// The step that failed.
    pub fn start(
        run: &RunDir,
        kube: &RealKube,
        built: &EnvoyGatewayBuild,
        object: &str,
        objects: &str,
    ) -> Result<Self> {
        let control = EnvoyGateway::start(run, kube, built)?;
        kube.admin_kubectl()?.args(["create", "namespace", NAMESPACE]).run_ok()?;
        let (address, ready) = (ports::free_address()?, ports::free_address()?);
        let upstream = run.make_dir("upstream")?;
        let module = deps::module_dir()?.join("libportcullis.so");
        let objects = objects
            .replace("port: 443", &format!("port: {}", address.port()))
            .replace("/portcullis/libportcullis.so", &module.display().to_string())
            .replace("/etc/portcullis", &upstream.display().to_string());
        mount(&objects, object, &upstream)?;
        let site = Self { control, address, gateway: object.to_owned(), namespace: NAMESPACE.to_owned() };
        kube.apply(&run.write("loopback.json", site.on_loopback(ready).to_string())?)?;
        kube.apply(&run.write("objects.yaml", &objects)?)?;
        wait::until_ok("all patches are programmed", ARRIVES, || site.programmed(kube))?;
        Ok(site)
    }

    /// Starts a proxy of the Gateway, an Envoy of some version, without waiting for its configuration.
    ///
    /// # Errors
    /// As [`Envoy::start`].
    pub fn proxy(&self, run: &RunDir, name: &str, version: Option<String>) -> Result<Envoy> {
        let gateway = format!("{}/{}", self.namespace, self.gateway);
        let mut options = EnvoyOptions::new(self.control.bootstrap(&gateway, name, ports::free_address()?));
        options.version = version;
        Envoy::start(run.path(), name, &options)
    }

    /// As [`EnvoyGatewaySite::proxy`], once it listens.
    ///
    /// # Errors
    /// The step that failed.
    pub fn ready_proxy(&self, run: &RunDir, name: &str, version: Option<String>) -> Result<Envoy> {
        let proxy = self.proxy(run, name, version)?;
        proxy.wait_ready(ARRIVES)?;
        proxy.wait_listening(self.address, ARRIVES)?;
        Ok(proxy)
    }

    /// The gateway by a host name.
    pub fn target(&self, name: &str, authority: &Ca) -> TlsTarget {
        TlsTarget::new(self.address).sni(name).trust(authority)
    }

    /// The address of the gateway.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Envoy Gateway.
    pub fn control(&self) -> &EnvoyGateway {
        &self.control
    }

    /// Whether Envoy Gateway has applied all patches of the namespace, each of its present generation, and what it says if not.
    ///
    /// # Errors
    /// [`Error::Lacks`] with the conditions.
    pub fn programmed(&self, kube: &RealKube) -> Result<()> {
        let list = kube.admin_kubectl()?.args(["-n", &self.namespace, "get", "envoypatchpolicies"]).json()?;
        for policy in list["items"].as_array().into_iter().flatten() {
            let conditions = &policy["status"]["ancestors"][0]["conditions"];
            let generation = &policy["metadata"]["generation"];
            let is_so = |one: &Value| {
                one["type"] == "Programmed" && one["status"] == "True" && one["observedGeneration"] == *generation
            };
            if !conditions.as_array().into_iter().flatten().any(is_so) {
                let (what, field) = (policy["metadata"]["name"].to_string(), conditions.to_string());
                return Err(Error::Lacks { what, field });
            }
        }
        Ok(())
    }

    /// Binds what proxies listen on to loopback and to free ports.
    fn on_loopback(&self, ready: SocketAddr) -> Value {
        let patch = |name: &str, path: &str, value: Value| {
            let operation = json!({"op": "replace", "path": format!("/address/socket_address/{path}"), "value": value});
            json!({"type": LISTENER, "name": name, "operation": operation})
        };
        let (of_clients, of_probes) =
            (format!("{}/{}/https", self.namespace, self.gateway), "envoy-gateway-proxy-ready-0.0.0.0-19003");
        let host = json!(ready.ip().to_string());
        json!({
            "apiVersion": "gateway.envoyproxy.io/v1alpha1",
            "kind": "EnvoyPatchPolicy",
            "metadata": {"name": "loopback", "namespace": self.namespace},
            "spec": {
                "type": "JSONPatch",
                "targetRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": self.gateway},
                "jsonPatches": [
                    patch(&of_clients, "address", host.clone()),
                    patch(of_probes, "address", host),
                    patch(of_probes, "port_value", json!(ready.port())),
                ],
            },
        })
    }
}

/// Lays out the volume that the objects give to pods.
fn mount(objects: &str, object: &str, folder: &Path) -> Result<()> {
    let lacks = |error: serde_saphyr::Error| Error::Lacks { what: "YAML".to_owned(), field: error.to_string() };
    let name = format!("{object}-upstream");
    for one in serde_saphyr::from_multiple::<Value>(objects).map_err(lacks)? {
        if one["metadata"]["name"] == name.as_str() && one["metadata"]["namespace"] == SYSTEM {
            write_data(&one, folder)?;
        }
    }
    Ok(())
}

/// The output of `envoy/envoy-gateway/render`.
///
/// # Errors
/// [`Error::Command`] with the message of the script.
pub fn render_envoy_gateway(name: &str, servers: &[SocketAddr], pki: &Path, more: &[String]) -> Result<String> {
    render("envoy-gateway", &[], &Settings { name, servers, pki, more })
}

#![allow(clippy::indexing_slicing, reason = "what a JSON value does not have is null")]

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use portcullis_harness::certs::Ca;
use portcullis_harness::client::TlsTarget;
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::istiod::{GatewayNode, Istiod};
use portcullis_harness::kube::RealKube;
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{Error, Result, ports};
use serde_json::{Value, json};

use crate::render::{Settings, render};

const ARRIVES: Duration = Duration::from_secs(30);

/// The mesh configuration of the README, and its access log, which is written where a Telemetry names it. No mTLS inside of the
/// mesh, because its certificates come from the agent in a proxy's pod.
fn mesh_configuration() -> Value {
    let labels = json!({
        "host": "%REQ(:AUTHORITY)%",
        "agent": "%REQ(USER-AGENT)%",
        "route": "%ROUTE_NAME%",
        "verb": "%FILTER_STATE(portcullis.request.verb:PLAIN)%",
        "resource": "%FILTER_STATE(portcullis.request.resource:PLAIN)%",
        "metadata": "%DYNAMIC_METADATA(portcullis.request:verb)%",
    });
    let log = json!({"path": "/dev/stdout", "logFormat": {"labels": labels}});
    let provider = json!({"name": "portcullis-requests", "envoyFileAccessLog": log});
    json!({
        "pathNormalization": {"normalization": "NONE"},
        "enableAutoMtls": false,
        "extensionProviders": [provider],
    })
}

/// A real istiod over a real kube-apiserver, and an Envoy that is an ingress gateway of its mesh. Nothing of the gateway's
/// configuration is written by hand: istiod makes it of the objects that it finds. Ends with this value.
#[derive(Debug)]
pub struct Mesh {
    // Order matters: the gateway ends first.
    gateway: Envoy,
    istiod: Istiod,
    address: SocketAddr,
    objects: String,
}

/// The parameters of a mesh.
#[derive(Debug)]
pub struct MeshSetup<'a> {
    /// The Kubernetes with the objects for istiod.
    pub kube: &'a RealKube,
    /// The namespace of the gateway's pods. It is made.
    pub namespace: &'a str,
    /// Their labels.
    pub labels: Value,
    /// The port of the pods to which the port 443 of the gateway's Service leads, as the objects name it; the gateway listens
    /// on a free port instead.
    pub port: u16,
    /// The objects, as YAML.
    pub objects: String,
}

impl Mesh {
    /// Applies the objects, starts istiod and the gateway, and waits until everything is in effect. `change` changes what
    /// Envoy is started with.
    ///
    /// # Errors
    /// The step that failed.
    pub fn start(run: &RunDir, setup: &MeshSetup<'_>, change: impl FnOnce(&mut EnvoyOptions)) -> Result<Self> {
        let (address, admin) = (ports::free_address()?, ports::free_address()?);
        let kube = setup.kube;
        let istiod = Istiod::start(run, kube, &mesh_configuration())?;
        kube.admin_kubectl()?.args(["create", "namespace", setup.namespace]).run_ok()?;
        let service = run.write("gateway-service.json", service(setup, address.port()).to_string())?;
        kube.apply(&service)?;
        kube.apply(&run.write("loopback.json", on_loopback(setup, address).to_string())?)?;
        let objects =
            setup.objects.replace(&format!("portNumber: {}", setup.port), &format!("portNumber: {}", address.port()));
        kube.apply(&run.write("objects.yaml", &objects)?)?;
        let node = GatewayNode {
            namespace: setup.namespace.to_owned(),
            labels: setup.labels.clone(),
            name: "ingressgateway".to_owned(),
        };
        let mut options = EnvoyOptions::new(istiod.bootstrap(kube, &node, admin)?);
        change(&mut options);
        let gateway = Envoy::start(run.path(), "ingressgateway", &options)?;
        gateway.wait_ready(ARRIVES)?;
        gateway.wait_listening(address, ARRIVES)?;
        Ok(Self { gateway, istiod, address, objects })
    }

    /// Has the mesh's gateways believe so many HTTP proxies in front of them (`gatewayTopology.numTrustedProxies`), without waiting
    /// for it to take effect. `run` is that of [`Mesh::start`].
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn trust_proxies(&self, run: &RunDir, number: u32) -> Result<()> {
        let mut mesh = mesh_configuration();
        mesh["defaultConfig"] = json!({"gatewayTopology": {"numTrustedProxies": number}});
        self.istiod.configure(run, &mesh)
    }

    /// The gateway by a host name.
    pub fn target(&self, name: &str, authority: &Ca) -> TlsTarget {
        TlsTarget::new(self.address).sni(name).trust(authority)
    }

    /// A kubeconfig for a host name, without a credential.
    pub fn kubeconfig(&self, name: &str, authority: &Ca) -> Kubeconfig {
        Kubeconfig::new(format!("https://{}", self.address)).ca(authority).tls_server_name(name)
    }

    /// The gateway's Envoy.
    pub fn gateway(&self) -> &Envoy {
        &self.gateway
    }

    /// The objections of Istio's admission webhook, which does not run here, to Istio objects in YAML.
    ///
    /// # Errors
    /// [`Error::Lacks`] where there is no YAML; else as [`Istiod::objections`].
    pub fn objections(&self, objects: &str) -> Result<Vec<String>> {
        let lacks = |error: serde_saphyr::Error| Error::Lacks { what: "YAML".to_owned(), field: error.to_string() };
        let mut found = Vec::new();
        for object in serde_saphyr::from_multiple::<Value>(objects).map_err(lacks)? {
            let is_istios = object["apiVersion"].as_str().is_some_and(|version| version.contains(".istio.io/"));
            if is_istios {
                found.extend(self.istiod.objections(&object)?);
            }
        }
        Ok(found)
    }

    /// The objects that were applied.
    pub fn objects(&self) -> &str {
        &self.objects
    }

    /// istiod.
    pub fn istiod(&self) -> &Istiod {
        &self.istiod
    }
}

/// The output of `envoy/istio/render`.
///
/// # Errors
/// [`Error::Command`] with the message of the script.
pub fn render_istio(build: &str, name: &str, servers: &[SocketAddr], pki: &Path, more: &[String]) -> Result<String> {
    render("istio", &[build.as_ref()], &Settings { name, servers, pki, more })
}

/// By which istiod knows that port 443 of a Gateway is another port of the pods.
fn service(setup: &MeshSetup<'_>, port: u16) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "ingressgateway", "namespace": setup.namespace},
        "spec": {"selector": setup.labels, "ports": [{"name": "https", "port": 443, "targetPort": port}]},
    })
}

/// Binds the gateway to loopback. By `bind` in a Gateway its routes would have names that no patch finds.
fn on_loopback(setup: &MeshSetup<'_>, address: SocketAddr) -> Value {
    let value = json!({"address": {"socket_address": {"address": address.ip().to_string()}}});
    json!({
        "apiVersion": "networking.istio.io/v1alpha3",
        "kind": "EnvoyFilter",
        "metadata": {"name": "loopback", "namespace": setup.namespace},
        "spec": {
            "workloadSelector": {"labels": setup.labels},
            "configPatches": [{
                "applyTo": "LISTENER",
                "match": {"context": "GATEWAY", "listener": {"portNumber": address.port()}},
                "patch": {"operation": "MERGE", "value": value},
            }],
        },
    })
}

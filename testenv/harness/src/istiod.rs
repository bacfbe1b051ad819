//! Istio's control plane, outside of the cluster that it looks after, and how an Envoy comes to be a gateway of it.

#![allow(clippy::indexing_slicing, reason = "what a JSON value does not have is null")]

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::plain;
use crate::envoy::{foreign_bootstrap, socket_address};
use crate::error::{Error, Result};
use crate::kube::RealKube;
use crate::process::{Process, Spec};
use crate::rundir::RunDir;
use crate::{deps, ports};

/// The audience of the tokens by which gateways prove to istiod who they are.
const AUDIENCE: &str = "istio-ca";
/// istiod's own namespace.
const SYSTEM: &str = "istio-system";

/// Settings that switch parts of istiod off: vanilla Envoy lacks the extensions of Istio's proxy that these would put into
/// every chain.
const WITHOUT_EXTENSIONS_OF_ISTIO: [(&str, &str); 2] =
    [("PILOT_ENABLE_METADATA_EXCHANGE", "false"), ("PILOT_ENABLE_ALPN_FILTER", "false")];

/// The file of the mesh configuration, in the run's directory.
const MESH: &str = "istiod/mesh";

/// A running istiod. Ends with this value.
#[derive(Debug)]
pub struct Istiod {
    process: Process,
    xds: SocketAddr,
    http: SocketAddr,
}

/// The identity of a gateway.
#[derive(Debug, Clone)]
pub struct GatewayNode {
    /// The pod's namespace, which must be there.
    pub namespace: String,
    /// The pod's labels, by which objects choose it.
    pub labels: Value,
    /// The name of Envoy among the test's processes.
    pub name: String,
}

impl Istiod {
    /// Installs the definitions of Istio's objects in a cluster and starts istiod for it, with a mesh configuration.
    ///
    /// It serves xDS only, without TLS, to clients with a service account's token: no injection, no webhooks, no CA.
    ///
    /// # Errors
    /// [`Error::Missing`], or the step that failed with the last log lines.
    pub fn start(run: &RunDir, kube: &RealKube, mesh: &Value) -> Result<Self> {
        let istio = deps::istio()?;
        let files = run.make_dir("istiod")?;
        let kubeconfig = kube.prepare(&istio.crds, SYSTEM, &files)?;
        let mesh_file = run.write(MESH, mesh.to_string())?;
        let (xds, http) = (ports::free_address()?, ports::free_address()?);
        let mut spec = Spec::new("istiod", istio.istiod, &files)
            .arg("discovery")
            .flag("kubeconfig", kubeconfig)
            .flag("meshConfig", mesh_file)
            .flag("networksConfig", files.join("no-networks"))
            .flag("namespace", SYSTEM)
            .flag("grpcAddr", xds.to_string())
            .flag("httpAddr", http.to_string())
            .flag("httpsAddr", "")
            .flag("secureGRPCAddr", "")
            .flag("monitoringAddr", "")
            .flag("ctrlz_address", "127.0.0.1")
            .flag("ctrlz_port", "0")
            .env("POD_NAMESPACE", SYSTEM)
            .env("POD_NAME", "istiod")
            .env("CLUSTER_ID", "Kubernetes")
            .env("XDS_AUTH_PLAINTEXT", "true")
            .env("INJECT_ENABLED", "false")
            .env("VALIDATION_WEBHOOK_CONFIG_NAME", "")
            .env("ENABLE_CA_SERVER", "false")
            .env("PILOT_CERT_PROVIDER", "none")
            .env("ENABLE_LEADER_ELECTION", "false")
            .env("PILOT_ENABLE_GATEWAY_API", "false");
        for (name, value) in WITHOUT_EXTENSIONS_OF_ISTIO {
            spec = spec.env(name, value);
        }
        let istiod = Self { process: Process::start(spec)?, xds, http };
        istiod.process.wait_ready("readiness of istiod", Duration::from_secs(60), || istiod.answers("/ready"))?;
        Ok(istiod)
    }

    /// The bootstrap of an Envoy that is a gateway of this mesh. Its service account is made, with the right to read the
    /// namespace's Secrets that Istio's own charts give to it.
    ///
    /// # Errors
    /// The step that failed.
    pub fn bootstrap(&self, kube: &RealKube, node: &GatewayNode, admin: SocketAddr) -> Result<Value> {
        let (namespace, account) = (node.namespace.as_str(), node.name.as_str());
        let kubectl = |args: &[&str]| kube.admin_kubectl()?.args(["-n", namespace]).args(args).run_ok();
        kubectl(&["create", "serviceaccount", account])?;
        let role = format!("{account}-sds");
        kubectl(&["create", "role", &role, "--verb=get,watch,list", "--resource=secrets"])?;
        let subject = format!("--serviceaccount={namespace}:{account}");
        kubectl(&["create", "rolebinding", &role, &format!("--role={role}"), &subject])?;
        let token = kubectl(&["create", "token", account, &format!("--audience={AUDIENCE}")])?;
        Ok(bootstrap(node, self.xds, admin, token.trim()))
    }

    /// Replaces the mesh configuration, which istiod watches. `run` is that of [`Istiod::start`].
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn configure(&self, run: &RunDir, mesh: &Value) -> Result<()> {
        run.write(MESH, mesh.to_string()).map(drop)
    }

    /// A page of istiod's, as text.
    ///
    /// # Errors
    /// [`Error::Connection`], or [`Error::Http`] when it does not answer 200.
    pub fn page(&self, path: &str) -> Result<String> {
        self.answers(path)
    }

    /// How often an Envoy has refused something: what istiod has counted by kind.
    ///
    /// # Errors
    /// As [`Istiod::page`].
    pub fn refusals(&self) -> Result<Vec<String>> {
        let metrics = self.page("/metrics")?;
        let of_refusals = |line: &&str| line.starts_with("pilot_total_xds_rejects") || line.contains("_reject{");
        let counted = |line: &&str| !line.ends_with(" 0");
        Ok(metrics.lines().filter(of_refusals).filter(counted).map(str::to_owned).collect())
    }

    /// The objections of the admission webhook for Istio's objects: the reason of its refusal, and its warnings.
    ///
    /// # Errors
    /// As [`Istiod::page`], or [`Error::Json`].
    pub fn objections(&self, object: &Value) -> Result<Vec<String>> {
        let (group, version) = object["apiVersion"].as_str().and_then(|text| text.split_once('/')).unwrap_or_default();
        let review = json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "1",
                "operation": "CREATE",
                "kind": {"group": group, "version": version, "kind": object["kind"]},
                "name": object["metadata"]["name"],
                "namespace": object["metadata"]["namespace"],
                "object": object,
            },
        });
        let headers = [("Content-Type", "application/json")];
        let answer = plain::request(self.http, "POST", "/validate", &headers, review.to_string().as_bytes())?;
        let response = &answer.json()?["response"];
        // Said of every EnvoyFilter.
        let is_said_of_all =
            |warning: &Value| warning.as_str().is_some_and(|text| text.starts_with("EnvoyFilter exposes"));
        let warnings = response["warnings"].as_array().into_iter().flatten();
        let warnings = warnings.filter(|warning| !is_said_of_all(warning));
        let mut objections: Vec<_> = warnings.map(ToString::to_string).collect();
        if response["allowed"] != true {
            objections.push(response.to_string());
        }
        Ok(objections)
    }

    /// The process, its log included.
    pub fn process(&self) -> &Process {
        &self.process
    }

    fn answers(&self, path: &str) -> Result<String> {
        let response = plain::get(self.http, path)?;
        let text = response.text();
        if response.status == 200 { Ok(text) } else { Err(Error::Http { step: "asking istiod", reason: text }) }
    }
}

/// The bootstrap that the agent in a gateway's pod writes for its Envoy: the identity of the gateway, and the address of
/// istiod.
fn bootstrap(node: &GatewayNode, xds: SocketAddr, admin: SocketAddr, token: &str) -> Value {
    let GatewayNode { namespace, labels, name } = node;
    let version = deps::pinned("ISTIO_VERSION").unwrap_or_default();
    // Of no machine: istiod finds the pods of a gateway's Services by it, and there are none.
    let address = "192.0.2.10";
    let node = json!({
        "id": format!("router~{address}~{name}.{namespace}~{namespace}.svc.cluster.local"),
        "cluster": format!("{name}.{namespace}"),
        "metadata": {
            "NAME": name,
            "NAMESPACE": namespace,
            "SERVICE_ACCOUNT": name,
            "WORKLOAD_NAME": name,
            "LABELS": labels,
            "INSTANCE_IPS": address,
            "ISTIO_VERSION": version,
            "CLUSTER_ID": "Kubernetes",
            "MESH_ID": "cluster.local",
        },
    });
    let headers = json!([{"key": "authorization", "value": format!("Bearer {token}")}]);
    let plane = ("xds-grpc", &socket_address(xds));
    let mut bootstrap = foreign_bootstrap(&node, admin, plane, &Value::Null, &headers);
    // Of Istio's own bootstrap; before Envoy 1.39 there is a bound that long regular expressions do not keep.
    let bound = json!({"re2.max_program_size.error_level": "32768"});
    bootstrap["layered_runtime"] = json!({"layers": [{"name": "istio", "static_layer": bound}]});
    bootstrap
}

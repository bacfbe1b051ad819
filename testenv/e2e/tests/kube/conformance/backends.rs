//! The suite's backends: for each Deployment of its server the pods, as local processes, and the EndpointSlices that name them.
//!
//! Neither kube-controller-manager nor a kubelet is here. A pod is the suite's own server with the environment of its container.
//! All are on this machine, and so each has ports of its own in the place of 3000 and 8443; its EndpointSlices have them. Pods
//! stay to the end: Deployments of tests belong to other profiles.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_harness::kube::RealKube;
use portcullis_harness::ports;
use portcullis_harness::process::{Process, Spec};
use portcullis_harness::write_private;
use serde_json::{Value, json};

/// The ports of the server's container, each with the variables that give it another one.
const PORTS: [(u64, &[&str]); 3] =
    [(3000, &["HTTP_PORT", "TCP_PORT"]), (3001, &["H2C_PORT"]), (8443, &["HTTPS_PORT", "TLS_PORT"])];

/// A pod.
struct EchoPod {
    name: String,
    namespace: String,
    template: Value,
    /// The ports of its process, by those of its container.
    ports: BTreeMap<u64, u16>,
    /// None before the Secrets of its volumes are there.
    process: Option<Process>,
    is_ready: bool,
}

/// The pods of all Deployments.
pub(super) struct EchoBackends<'a> {
    kube: &'a RealKube,
    program: &'a Path,
    dir: PathBuf,
    ip: IpAddr,
    pods: BTreeMap<String, EchoPod>,
    /// The names of the EndpointSlices.
    slices: Vec<String>,
}

impl<'a> EchoBackends<'a> {
    /// Pods with files in `dir`, at an address of this machine that may be in an EndpointSlice.
    pub(super) fn new(kube: &'a RealKube, program: &'a Path, dir: PathBuf, ip: IpAddr) -> Self {
        Self { kube, program, dir, ip, pods: BTreeMap::new(), slices: Vec::new() }
    }

    /// Makes what is missing.
    pub(super) fn follow(&mut self) {
        for deployment in items(self.kube, "/apis/apps/v1/deployments") {
            let image = deployment.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str);
            // The other image answers DNS, for routes of UDP.
            if image.is_some_and(|image| image.contains("/echo-basic:")) {
                self.add_pods(&deployment);
            }
        }
        let (kube, program, dir, ip) = (self.kube, self.program, &self.dir, self.ip);
        self.pods.values_mut().for_each(|pod| pod.follow(kube, program, dir, ip));
        for service in items(self.kube, "/api/v1/services") {
            self.add_slices(&service);
        }
    }

    fn add_pods(&mut self, deployment: &Value) {
        let namespace = text(deployment, "/metadata/namespace");
        let replicas = deployment["spec"]["replicas"].as_u64().unwrap_or(1);
        for number in 0..replicas {
            let name = format!("{}-{number}", text(deployment, "/metadata/name"));
            let template = &deployment["spec"]["template"];
            self.pods.entry(format!("{namespace}/{name}")).or_insert_with(|| {
                let labels = &template["metadata"]["labels"];
                let metadata = json!({"name": name, "namespace": namespace, "labels": labels});
                let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]});
                self.kube.create(&format!("/api/v1/namespaces/{namespace}/pods"), &object).unwrap();
                let ports = PORTS.iter().map(|(port, _)| (*port, ports::free().unwrap())).collect();
                let template = template.clone();
                EchoPod { name, namespace: namespace.to_owned(), template, ports, process: None, is_ready: false }
            });
        }
    }

    /// One for each pod that a Service selects, because their ports differ.
    fn add_slices(&mut self, service: &Value) {
        let (namespace, service_name) = (text(service, "/metadata/namespace"), text(service, "/metadata/name"));
        let Some(selector) = service["spec"]["selector"].as_object() else { return };
        let is_selected = |pod: &EchoPod| {
            let labels = &pod.template["metadata"]["labels"];
            pod.namespace == namespace && selector.iter().all(|(label, value)| labels[label] == *value)
        };
        for pod in self.pods.values().filter(|pod| pod.is_ready && is_selected(pod)) {
            let name = format!("{service_name}-{}", pod.name);
            let key = format!("{namespace}/{name}");
            if self.slices.contains(&key) {
                continue;
            }
            let ports = service["spec"]["ports"].as_array().into_iter().flatten();
            let port = |port: &Value| {
                let own = pod.ports.get(&port["targetPort"].as_u64()?)?;
                Some(json!({"name": port["name"].as_str().unwrap_or_default(), "port": own, "protocol": "TCP"}))
            };
            let labels = json!({"kubernetes.io/service-name": service_name});
            let conditions = json!({"ready": true, "serving": true, "terminating": false});
            let target = json!({"kind": "Pod", "name": pod.name, "namespace": namespace});
            let slice = json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {"name": name, "namespace": namespace, "labels": labels},
                "ports": ports.filter_map(port).collect::<Vec<_>>(),
                "endpoints": [{"addresses": [self.ip.to_string()], "conditions": conditions, "targetRef": target}],
            });
            let path = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
            self.kube.create(&path, &slice).unwrap();
            self.slices.push(key);
        }
    }
}

impl EchoPod {
    fn follow(&mut self, kube: &RealKube, program: &Path, dir: &Path, ip: IpAddr) {
        if self.process.is_none() {
            self.process = self.start(kube, program, dir);
        }
        if self.process.is_some() && !self.is_ready && self.is_listening() {
            let path = format!("/api/v1/namespaces/{}/pods/{}", self.namespace, self.name);
            let ready = json!({"type": "Ready", "status": "True"});
            let status = json!({"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [ready]});
            kube.patch_status(&path, &status).unwrap();
            self.is_ready = true;
        }
    }

    /// Whether the server accepts connections at the port that each of its kinds has.
    fn is_listening(&self) -> bool {
        let address = |port: &u16| SocketAddr::from(([127, 0, 0, 1], *port));
        let has_tls = self.container()["volumeMounts"].as_array().is_some_and(|mounts| !mounts.is_empty());
        let needed = [3000, 8443].into_iter().filter(|port| has_tls || *port == 3000);
        needed.filter_map(|port| self.ports.get(&port)).all(|port| TcpStream::connect(address(port)).is_ok())
    }

    fn container(&self) -> &Value {
        &self.template["spec"]["containers"][0]
    }

    /// None while a Secret is missing.
    fn start(&self, kube: &RealKube, program: &Path, dir: &Path) -> Option<Process> {
        let dir = dir.join(&self.namespace).join(&self.name);
        std::fs::create_dir_all(&dir).unwrap();
        for volume in self.template["spec"]["volumes"].as_array().into_iter().flatten() {
            let mounts = self.container()["volumeMounts"].as_array().into_iter().flatten();
            for mount in mounts.filter(|mount| mount["name"] == volume["name"]) {
                self.write_secret(kube, &volume["secret"], &dir.join(relative(text(mount, "/mountPath"))))?;
            }
        }
        let mut spec = Spec::new("echo-basic", program, &dir);
        for variable in self.container()["env"].as_array().into_iter().flatten() {
            spec = spec.env(text(variable, "/name"), self.value(variable, &dir));
        }
        for (port, variables) in PORTS {
            let own = self.ports.get(&port)?.to_string();
            spec = variables.iter().fold(spec, |spec, variable| spec.env(variable, &own));
        }
        Some(Process::start(spec).unwrap())
    }

    /// The value of a variable. Paths of its volumes are below its directory.
    fn value(&self, variable: &Value, dir: &Path) -> String {
        match variable.pointer("/valueFrom/fieldRef/fieldPath").and_then(Value::as_str) {
            Some("metadata.name") => self.name.clone(),
            Some("metadata.namespace") => self.namespace.clone(),
            Some(other) => panic!("{}: the field {other} is not known here", self.name),
            None => match text(variable, "/value") {
                path if path.starts_with('/') => dir.join(relative(path)).display().to_string(),
                value => value.to_owned(),
            },
        }
    }

    fn write_secret(&self, kube: &RealKube, source: &Value, dir: &Path) -> Option<()> {
        let path = format!("/api/v1/namespaces/{}/secrets/{}", self.namespace, text(source, "/secretName"));
        let secret = kube.get(&path).ok()?;
        for item in source["items"].as_array().into_iter().flatten() {
            let encoded = secret["data"][text(item, "/key")].as_str()?;
            let bytes = STANDARD.decode(encoded).unwrap();
            write_private(&dir.join(text(item, "/path")), &bytes).unwrap();
        }
        Some(())
    }
}

fn relative(path: &str) -> &str {
    path.trim_start_matches('/')
}

/// The text at a place, or none.
pub(super) fn text<'a>(object: &'a Value, place: &str) -> &'a str {
    object.pointer(place).and_then(Value::as_str).unwrap_or_default()
}

/// The objects of a collection.
pub(super) fn items(kube: &RealKube, path: &str) -> Vec<Value> {
    kube.get(path).unwrap()["items"].as_array().cloned().unwrap_or_default()
}

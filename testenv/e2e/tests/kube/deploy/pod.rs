//! A pod without a kubelet: the container of a Deployment in a mount namespace of its own.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_harness::client::plain;
use portcullis_harness::process::Process;
use serde_json::Value;

use super::apply::Cluster;
use super::rendered::{Rendered, strings};
use crate::container::{Container, image, is_root};

const SOON: Duration = Duration::from_secs(30);
/// The addresses of every pod, of both stacks, as a field of Kubernetes' has them.
pub(super) const POD_IPS: &str = "192.0.2.7,2001:db8::7";

/// The differences from a cluster: addresses, because everything is on one loopback.
pub(super) struct Placed<'a> {
    pub(super) name: &'a str,
    /// `from` and `to` in arguments.
    pub(super) replaced: &'a [(String, String)],
    /// The address of its health page.
    pub(super) http: SocketAddr,
    /// /etc/hosts in the place of DNS.
    pub(super) hosts: &'a str,
}

/// A running container.
pub(super) struct Pod {
    pub(super) process: Process,
    http: SocketAddr,
}

impl Pod {
    /// Starts a Deployment's container with exactly its command, arguments and environment, but for what is replaced.
    pub(super) fn start(cluster: &Cluster, rendered: &Rendered, deployment: &str, placed: &Placed<'_>) -> Self {
        let template = &rendered.get("Deployment", deployment)["spec"]["template"];
        let spec = &template["spec"];
        let container = rendered.container(deployment);
        let home = cluster.run.make_dir(placed.name).unwrap();
        let namespace = &rendered.names.namespace;
        let place = Place { cluster, namespace, home: &home.join("volumes") };
        let volumes = Volumes::of(&place, spec, container, placed.hosts);
        let mut variables = variables(container, &template["metadata"]["labels"], placed.name, namespace);
        let mut arguments: Vec<String> = [strings(&container["command"]), strings(&container["args"])]
            .concat()
            .into_iter()
            .map(|argument| expanded(argument, &variables))
            .collect();
        for (from, to) in placed.replaced {
            arguments.iter_mut().for_each(|argument| *argument = argument.replace(from, to));
        }
        // One may become several.
        let command = arguments.iter().flat_map(|argument| argument.lines()).map(str::to_owned).collect();
        let kubernetes = cluster.kube.address(0).unwrap();
        variables.insert("KUBERNETES_SERVICE_HOST".to_owned(), kubernetes.ip().to_string());
        variables.insert("KUBERNETES_SERVICE_PORT".to_owned(), kubernetes.port().to_string());
        let id = |field: &str| spec["securityContext"][field].as_u64().unwrap() as u32;
        let container = Container {
            name: placed.name.to_owned(),
            command,
            variables,
            user: id("runAsUser"),
            group: id("fsGroup"),
            files: volumes.files,
            shared: Vec::new(),
            empty: volumes.empty,
        };
        Pod { process: container.start(&home), http: placed.http }
    }

    /// The status of one of its pages, as a probe sees it; an error while it does not listen.
    pub(super) fn page(&self, path: &str) -> portcullis_harness::Result<u16> {
        Ok(plain::get(self.http, path)?.status)
    }

    /// Waits until a probe succeeds.
    pub(super) fn wait(&self, path: &str) {
        let succeeds = || match self.page(path) {
            Ok(200) => Ok(()),
            other => Err(format!("{path}: {other:?}")),
        };
        self.process.wait_ready(path, SOON, succeeds).unwrap();
    }
}

/// The namespace of the pod, and the directory for its volumes.
struct Place<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
    home: &'a Path,
}

/// The volumes of the container: bound ones as `SOURCE:TARGET`, and empty ones.
struct Volumes {
    files: Vec<String>,
    empty: Vec<String>,
}

impl Volumes {
    fn of(place: &Place<'_>, pod: &Value, container: &Value, hosts: &str) -> Self {
        let home = place.home;
        let mut volumes = Volumes { files: image(), empty: Vec::new() };
        let group = pod["securityContext"]["fsGroup"].as_u64().unwrap() as u32;
        for mount in container["volumeMounts"].as_array().unwrap() {
            let target = mount["mountPath"].as_str().unwrap();
            let name = mount["name"].as_str().unwrap();
            let volume = pod["volumes"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
            if volume["emptyDir"].is_object() {
                volumes.empty.push(target.to_owned());
                continue;
            }
            let (files, mode) = content(place, volume);
            let source = written(&home.join(name), &files, mode, group);
            volumes.files.push(format!("{}:{target}", source.display()));
        }
        if pod["automountServiceAccountToken"] != false {
            let files = account(place, pod["serviceAccountName"].as_str().unwrap());
            let source = written(&home.join("service-account"), &files, 0o440, group);
            volumes.files.push(format!("{}:/var/run/secrets/kubernetes.io/serviceaccount", source.display()));
        }
        let files = BTreeMap::from([("hosts".to_owned(), hosts.as_bytes().to_vec())]);
        let etc = written(&home.join("etc"), &files, 0o444, group);
        volumes.files.push(format!("{}:/etc/hosts", etc.join("..first/hosts").display()));
        volumes
    }
}

type Files = BTreeMap<String, Vec<u8>>;

/// The files of a volume, as the API stores them, and their mode.
fn content(place: &Place<'_>, volume: &Value) -> (Files, u32) {
    let (kind, name, field) = if volume["secret"].is_object() {
        ("secret", &volume["secret"]["secretName"], "data")
    } else {
        ("configmap", &volume["configMap"]["name"], "data")
    };
    let object = place.cluster.kubectl(&["get", kind, name.as_str().unwrap(), "-n", place.namespace]).json().unwrap();
    let bytes = |text: &str| if kind == "secret" { STANDARD.decode(text).unwrap() } else { text.as_bytes().to_vec() };
    let fields = object[field].as_object().unwrap();
    let files = fields.iter().map(|(key, text)| (key.clone(), bytes(text.as_str().unwrap()))).collect();
    let mode = volume["secret"]["defaultMode"].as_u64().unwrap_or(0o644);
    (files, mode as u32)
}

fn account(place: &Place<'_>, name: &str) -> Files {
    let Place { cluster, namespace, .. } = place;
    let token = cluster.kubectl(&["create", "token", name, "-n", namespace]).run_ok().unwrap();
    let file = |name: &str, text: &str| (name.to_owned(), text.trim().as_bytes().to_vec());
    [file("token", &token), file("ca.crt", &cluster.kube.server_ca().pem()), file("namespace", namespace)].into()
}

/// Writes a volume as a kubelet does: names that lead through one link, which is replaced in one step.
fn written(directory: &Path, files: &Files, mode: u32, group: u32) -> PathBuf {
    let data = directory.join("..first");
    fs::create_dir_all(&data).unwrap();
    for (name, bytes) in files {
        let path = data.join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        if is_root() {
            chown(&path, Some(0), Some(group)).unwrap();
        }
        symlink(format!("..data/{name}"), directory.join(name)).unwrap();
    }
    symlink("..first", directory.join("..data")).unwrap();
    directory.to_owned()
}

fn variables(container: &Value, labels: &Value, name: &str, namespace: &str) -> BTreeMap<String, String> {
    let field = |path: &str| match path {
        "metadata.name" => name.to_owned(),
        "metadata.namespace" => namespace.to_owned(),
        "status.podIPs" => POD_IPS.to_owned(),
        other => {
            let label = other.strip_prefix("metadata.labels['").and_then(|rest| rest.strip_suffix("']"));
            let value = label.and_then(|label| labels[label].as_str());
            value.unwrap_or_else(|| panic!("no such field here: {other}")).to_owned()
        }
    };
    let value = |one: &Value| match one["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
        Some(path) => field(path),
        None => one["value"].as_str().unwrap().to_owned(),
    };
    let all = container["env"].as_array().into_iter().flatten();
    all.map(|one| (one["name"].as_str().unwrap().to_owned(), value(one))).collect()
}

/// `$(NAME)`, as Kubernetes reads it.
fn expanded(argument: &str, variables: &BTreeMap<String, String>) -> String {
    let replace = |text: String, (name, value): (&String, &String)| text.replace(&format!("$({name})"), value);
    let text = variables.iter().fold(argument.to_owned(), replace);
    assert!(!text.contains("$("), "a variable that nobody sets: {text}");
    text
}

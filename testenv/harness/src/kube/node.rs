//! A node whose pods are directories and local processes.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::certs::{Ca, CertSpec};
use crate::error::Result;
use crate::process::{Process, Spec};
use crate::rundir::write_private;

/// The node's name.
const NAME: &str = "node-0";

/// Address of node and pods: of a network for documentation (RFC 5737), reached by kube-apiserver's egress selector only.
const HOST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const KUBELET_PORT: u16 = 10_250;

/// The program of a pod: each line of its input comes back on both outputs, and `bye` ends it. It is then started again.
const MAIN: &str = r#"echo started
while read -r line; do
    [ "$line" != bye ] || exit 0
    echo "out $line"
    echo "err $line" >&2
done"#;

/// A running node (testenv/kube/cmd/fake-node). Pods serve an echo on port 7, and on 8080 HTTP that describes the request.
#[derive(Debug)]
pub struct FakeNode {
    process: Process,
    directory: PathBuf,
}

impl FakeNode {
    /// Starts it, and writes what kube-apiservers need to reach it.
    pub(super) fn start(binary: &Path, dir: &Path, server_ca: &Ca, client_ca: &Ca) -> Result<Self> {
        let file = |name: &str| dir.join(name);
        let mut certificate = CertSpec::server(NAME, [NAME]);
        certificate.ips.push(HOST.into());
        let serving = server_ca.issue(&certificate)?;
        serving.write_pem(&file("node.crt"), &file("node.key"))?;
        let client = client_ca.issue(&CertSpec::client("kube-apiserver-kubelet-client", ["system:masters"]))?;
        client.write_pem(&file("kubelet-client.crt"), &file("kubelet-client.key"))?;
        server_ca.write_pem(&file("kubelet-ca.pem"))?;
        write_private(&file("egress.json"), egress(&file("node.sock")).to_string().as_bytes())?;
        let directory = file("pods");
        let spec = Spec::new(NAME, binary, dir)
            .flag("socket", file("node.sock"))
            .flag("directory", &directory)
            .flag("address", format!("{HOST}:{KUBELET_PORT}"))
            .flag("tls-cert-file", file("node.crt"))
            .flag("tls-private-key-file", file("node.key"))
            .flag("client-ca-file", file("client-ca.pem"))
            .args(["--", "sh", "-c", MAIN]);
        let process = Process::start(spec)?;
        process.wait_ready("the node's socket", Duration::from_secs(20), || {
            std::os::unix::net::UnixStream::connect(file("node.sock"))
        })?;
        Ok(Self { process, directory })
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The directory in which a pod's processes run.
    pub fn directory_of(&self, pod: &str) -> PathBuf {
        self.directory.join("default").join(pod)
    }
}

/// The flags of a kube-apiserver for the node.
pub(super) fn flags(spec: Spec, dir: &Path) -> Spec {
    spec.flag("egress-selector-config-file", dir.join("egress.json"))
        .flag("kubelet-certificate-authority", dir.join("kubelet-ca.pem"))
        .flag("kubelet-client-certificate", dir.join("kubelet-client.crt"))
        .flag("kubelet-client-key", dir.join("kubelet-client.key"))
        .flag("kubelet-preferred-address-types", "InternalIP")
}

fn egress(socket: &Path) -> Value {
    json!({
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{
            "name": "cluster",
            "connection": {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": socket}}},
        }],
    })
}

pub(super) fn object() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NAME},
        "status": {
            "addresses": [{"type": "InternalIP", "address": HOST}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": KUBELET_PORT}},
        },
    })
}

pub(super) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeName": NAME,
            "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "none", "stdin": true}],
        },
    })
}

pub(super) fn pod_status() -> Value {
    json!({
        "phase": "Running",
        "hostIP": HOST,
        "podIP": HOST,
        "podIPs": [{"ip": HOST}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{
            "name": "main",
            "image": "none",
            "imageID": "none",
            "ready": true,
            "started": true,
            "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }],
    })
}

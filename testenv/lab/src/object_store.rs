//! The lab's store for the objects, where the control plane does not read a directory: what `portcullis init` lays out.

use std::path::{Path, PathBuf};
use std::time::Duration;

use portcullis_harness::deps::{self, KubeBinaries};
use portcullis_harness::kube::Kubectl;
use portcullis_harness::process::{Process, Spec};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{Error, Result, ports};
use serde_json::json;

use crate::CLUSTER;

/// How long a step of `portcullis init` may take.
const PATIENCE: Duration = Duration::from_secs(180);
const NAMESPACE: &str = "portcullis";
const MEMBER: &str = "lab";

/// A running store. kube-apiserver ends first.
pub(crate) struct ObjectStore {
    _apiserver: Process,
    _etcd: Process,
    dir: PathBuf,
    kubectl: PathBuf,
    logs: PathBuf,
}

impl ObjectStore {
    /// Lays it out, starts it and fills it.
    pub(crate) fn start(run: &RunDir) -> Result<Self> {
        let KubeBinaries { etcd, kube_apiserver, kubectl, .. } = deps::kube()?;
        let (dir, logs) = (run.join("store"), run.make_dir("store-logs")?);
        let [peer, client, api] = [ports::free()?, ports::free()?, ports::free()?];
        let init = |step: &str, more: &[String]| {
            let spec = Spec::new(step, deps::portcullis()?, &logs).args(["init", "--data-dir"]).arg(&dir).args(more);
            let command = spec.command_line();
            let process = Process::start(spec)?;
            let status = process.wait_exit(PATIENCE)?;
            if status.success() {
                return Ok(());
            }
            Err(Error::Command { command, status: status.to_string(), stderr: process.log() })
        };
        let laid_out = [
            "--etcd".to_owned(),
            etcd.display().to_string(),
            "--kube-apiserver".to_owned(),
            kube_apiserver.display().to_string(),
            "--member".to_owned(),
            format!("{MEMBER}=127.0.0.1,peer={peer},client={client},api={api}"),
        ];
        init("store-layout", &laid_out)?;
        let start = |program: &str| {
            let script = dir.join("members").join(MEMBER).join("start").join(program);
            Process::start(Spec::new(format!("store-{program}"), script, &logs))
        };
        let (etcd, apiserver) = (start("etcd")?, start("kube-apiserver")?);
        init("store-objects", &["--apply".to_owned()])?;
        Ok(Self { _apiserver: apiserver, _etcd: etcd, dir, kubectl, logs })
    }

    /// The flags of `portcullis serve` that name it.
    pub(crate) fn flags(&self) -> Vec<String> {
        let kubeconfig = self.dir.join("members").join(MEMBER).join("control-plane.kubeconfig");
        let flags = ["--source", "kubernetes", "--namespace", NAMESPACE, "--kubeconfig"];
        flags.iter().map(|&flag| flag.to_owned()).chain([kubeconfig.display().to_string()]).collect()
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.dir.join("admin.kubeconfig")
    }

    /// Stores the keys of a directory as Secrets, and the cluster that refers to them.
    pub(crate) fn put(&self, keys: &Path, cluster: &Path) -> Result<()> {
        for (name, files) in [
            ("serving", [("tls.crt", "serving.crt"), ("tls.key", "serving.key")].as_slice()),
            ("upstream", &[("tls.crt", "upstream.crt"), ("tls.key", "upstream.key")]),
            ("upstream-ca", &[("ca.crt", "upstream-ca.crt")]),
            ("client-ca", &[("ca.crt", "client-ca.crt")]),
        ] {
            self.put_secret(keys, name, files)?;
        }
        self.kubectl().args(["apply", "--server-side", "-f"]).args([cluster]).run_ok().map(drop)
    }

    fn put_secret(&self, keys: &Path, name: &str, files: &[(&str, &str)]) -> Result<()> {
        let mut data = serde_json::Map::new();
        for (key, file) in files {
            let path = keys.join(file);
            let text = std::fs::read_to_string(&path);
            let text = text.map_err(|source| Error::File { step: "reading", path, source })?;
            data.insert((*key).to_owned(), json!(text));
        }
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "labels": {"portcullis.dev/upstream-cluster": CLUSTER},
            },
            "stringData": data,
        });
        let file = self.logs.join("secret.json");
        portcullis_harness::write_private(&file, secret.to_string().as_bytes())?;
        let applied = self.kubectl().args(["apply", "--server-side", "-f"]).args([&file]).run_ok();
        let _ = std::fs::remove_file(&file);
        applied.map(drop)
    }

    fn kubectl(&self) -> Kubectl {
        Kubectl::new(&self.kubectl, &self.kubeconfig(), &self.logs)
    }
}

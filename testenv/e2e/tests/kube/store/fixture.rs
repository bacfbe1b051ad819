use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_e2e::allow_all;
use portcullis_harness::certs::Identity;
use portcullis_harness::client::{Response, TlsTarget};
use portcullis_harness::deps::{self, KubeBinaries};
use portcullis_harness::kube::Kubectl;
use portcullis_harness::process::{Process, Spec};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{ports, wait};
use serde_json::{Value, json};

/// How long the store may take to start.
pub(super) const START: Duration = Duration::from_secs(90);

/// A member with its processes.
pub(super) struct Member {
    pub(super) dir: PathBuf,
    pub(super) etcd_address: SocketAddr,
    pub(super) api_address: SocketAddr,
    pub(super) etcd: Process,
    pub(super) apiserver: Process,
}

/// A store that runs.
pub(super) struct Store {
    pub(super) members: Vec<Member>,
    pub(super) dir: PathBuf,
    pub(super) binaries: KubeBinaries,
    kubectl_cache: PathBuf,
    pub(super) run: RunDir,
}

/// A start that a test goes through by itself.
pub(super) struct LaidOut {
    pub(super) arguments: Vec<String>,
    pub(super) names: Vec<String>,
    pub(super) dir: PathBuf,
    pub(super) binaries: KubeBinaries,
    pub(super) run: RunDir,
    addresses: Vec<[SocketAddr; 3]>,
}

/// The output of `portcullis` with arguments, which must succeed.
pub(super) fn portcullis(arguments: &[&str]) -> String {
    let output = std::process::Command::new(deps::portcullis().unwrap()).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    let text = String::from_utf8(output.stdout).unwrap() + &errors;
    assert!(!text.contains("PRIVATE KEY") && !text.contains("secretbox"), "a key is printed");
    text
}

/// A valid object, which refers to Secrets.
pub(super) fn cluster(name: &str, server: &str) -> Value {
    let secret = |name: &str| json!({"secret": {"name": name}});
    json!({
        "apiVersion": "proxy.kubegateway.io/v1alpha1",
        "kind": "UpstreamCluster",
        "metadata": {"name": name},
        "spec": {
            "servers": [{"endpoint": server}],
            "dispatchPolicies": [{"rules": [allow_all()]}],
            "portcullis": {"references": {"token": secret("token"), "upstreamCA": secret("ca")}},
        },
    })
}

impl LaidOut {
    /// Free ports, and what `portcullis init` makes of them.
    pub(super) fn new(test: &str, members: usize, more: &[&str]) -> Option<Self> {
        Some(Self::with(test, deps::kube_or_skip(test).unwrap()?, members, more))
    }

    /// As [`LaidOut::new`], for other programs.
    pub(super) fn with(test: &str, binaries: KubeBinaries, members: usize, more: &[&str]) -> Self {
        let run = RunDir::new(test).unwrap();
        let dir = run.join("store");
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        let mut arguments = vec!["init".to_owned(), "--data-dir".to_owned(), path(&dir)];
        arguments.extend(["--etcd".to_owned(), path(&binaries.etcd)]);
        arguments.extend(["--kube-apiserver".to_owned(), path(&binaries.kube_apiserver)]);
        let names: Vec<String> = (1..=members).map(|number| format!("m{number}")).collect();
        let mut addresses = Vec::new();
        for name in &names {
            let [peer, client, api] = [(); 3].map(|()| ports::free_address().unwrap());
            let ports = format!("peer={},client={},api={}", peer.port(), client.port(), api.port());
            arguments.extend(["--member".to_owned(), format!("{name}=127.0.0.1,{ports}")]);
            addresses.push([peer, client, api]);
        }
        arguments.extend(more.iter().map(|&argument| argument.to_owned()));
        Self { arguments, names, dir, binaries, run, addresses }
    }

    pub(super) fn init(&self, more: &[&str]) -> String {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
        portcullis(&arguments)
    }

    /// Starts all programs by their scripts.
    pub(super) fn start(self) -> Store {
        let members = self.names.iter().zip(&self.addresses).map(|(name, [_, client, api])| {
            let dir = self.dir.join("members").join(name);
            let start = |program: &str| Process::start(program_of(&dir, program)).unwrap();
            let (etcd, apiserver) = (start("etcd"), start("kube-apiserver"));
            Member { dir, etcd_address: *client, api_address: *api, etcd, apiserver }
        });
        let members = members.collect();
        let kubectl_cache = self.run.make_dir("kubectl-cache").unwrap();
        Store { members, dir: self.dir, binaries: self.binaries, kubectl_cache, run: self.run }
    }
}

fn program_of(dir: &Path, program: &str) -> Spec {
    // The collector is half of the processor time of a start; memory is bounded.
    let spec = Spec::new(program, dir.join("start").join(program), dir);
    spec.env("GOGC", "off").env("GOMEMLIMIT", "1GiB")
}

impl Store {
    /// Laid out, started and filled.
    pub(super) fn start(test: &str, members: usize, more: &[&str]) -> Option<Self> {
        let laid_out = LaidOut::new(test, members, more)?;
        laid_out.init(&[]);
        let mut store = laid_out.start();
        if members > 1 {
            store.wait_all_ready();
        }
        store.apply_all();
        Some(store)
    }

    /// Waits for all members, and starts a kube-apiserver that has ended again, as its unit does: of those of 1.33 that fill an empty
    /// store at the same time, only one succeeds.
    fn wait_all_ready(&mut self) {
        for member in 0..self.members.len() {
            let ready = || match self.get(member, "/readyz") {
                Ok(answer) if answer.status == 200 => Some(true),
                _ => (!self.members[member].apiserver.is_running()).then_some(false),
            };
            if !wait::until("the member is ready or has ended", START, ready).unwrap() {
                self.members[member].restart_apiserver();
                self.wait_ready(member);
            }
        }
    }

    /// The second step, with the remembered flags.
    pub(super) fn apply_all(&self) -> String {
        portcullis(&["init", "--data-dir", self.dir.to_str().unwrap(), "--apply", "--timeout", "4m"])
    }

    pub(super) fn first(&self) -> &Member {
        &self.members[0]
    }

    pub(super) fn admin_kubeconfig(&self) -> PathBuf {
        self.dir.join("admin.kubeconfig")
    }

    pub(super) fn kubectl(&self, arguments: &[&str]) -> Kubectl {
        let kubectl = Kubectl::new(&self.binaries.kubectl, &self.admin_kubeconfig(), self.run.path());
        kubectl.cache_dir(&self.kubectl_cache).args(arguments)
    }

    /// The certificate and key of a kubeconfig of the store.
    pub(super) fn identity(&self, kubeconfig: &Path) -> Identity {
        let config: Value = serde_json::from_slice(&fs::read(kubeconfig).unwrap()).unwrap();
        let part = |name: &str| STANDARD.decode(config["users"][0]["user"][name].as_str().unwrap()).unwrap();
        Identity::from_pem(&[part("client-certificate-data"), part("client-key-data")].concat()).unwrap()
    }

    /// The first kube-apiserver, as the administrator.
    pub(super) fn admin_target(&self, member: usize) -> TlsTarget {
        let identity = self.identity(&self.admin_kubeconfig());
        TlsTarget::new(self.members[member].api_address).identity(&identity).timeout(Duration::from_secs(20))
    }

    /// Asks a kube-apiserver as the administrator.
    pub(super) fn get(&self, member: usize, path: &str) -> portcullis_harness::Result<Response> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        self.admin_target(member).raw_request(request.as_bytes())
    }

    pub(super) fn wait_ready(&self, member: usize) {
        let ready = || match self.get(member, "/readyz") {
            Ok(answer) if answer.status == 200 => Ok(()),
            Ok(answer) => Err(answer.text()),
            Err(error) => Err(error.to_string()),
        };
        wait::until_ok("the store is ready", START, ready).unwrap();
    }

    /// Asks etcd by the HTTP form of its API, with the kube-apiserver's certificate.
    pub(super) fn etcd(&self, member: usize, path: &str, body: &Value) -> Value {
        let member = &self.members[member];
        let pem = fs::read(member.dir.join("pki/etcd-client.pem")).unwrap();
        let target = TlsTarget::new(member.etcd_address).identity(&Identity::from_pem(&pem).unwrap());
        let body = body.to_string();
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        target.raw_request(request.as_bytes()).unwrap().json().unwrap()
    }
}

impl Member {
    pub(super) fn restart_etcd(&mut self) {
        self.etcd.kill();
        self.etcd = Process::start(program_of(&self.dir, "etcd")).unwrap();
    }

    pub(super) fn restart_apiserver(&mut self) {
        self.apiserver.kill();
        self.apiserver = Process::start(program_of(&self.dir, "kube-apiserver")).unwrap();
    }
}

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::kube::{KubeOptions, RequestHeader};
use portcullis_harness::process::{Process, Spec};
use portcullis_harness::{deps, wait};
use serde_json::{Value, json};

use crate::sources::{NAMESPACE, SOON, SourceFixture};

pub(super) const NAME: &str = "prod.example.com";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// A Kubernetes that stores UpstreamClusters, and that is to be put behind the gateway.
pub(super) struct OnboardFixture {
    pub(super) source: SourceFixture,
    pub(super) front_ca: Ca,
    admin: PathBuf,
}

/// How a command ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl OnboardFixture {
    pub(super) fn start(test: &str) -> Option<Self> {
        let front_ca = Ca::new("front proxies").unwrap();
        let front = RequestHeader { ca: front_ca.clone(), allowed_names: vec!["front-proxy".to_owned()] };
        let source = SourceFixture::of(test, &KubeOptions { request_header: Some(front), ..KubeOptions::default() })?;
        let admin = source.run.join("admin-target.kubeconfig");
        source.kube.kubeconfig().identity(source.kube.admin()).write(&admin).unwrap();
        Some(Self { source, front_ca, admin })
    }

    /// A kubeconfig of the administrator.
    pub(super) fn admin(&self) -> &str {
        self.admin.to_str().unwrap()
    }

    /// A kubeconfig of another user, who may do what the rules of a ClusterRole allow.
    pub(super) fn user_with(&self, user: &str, rules: &Value) -> PathBuf {
        let api = "rbac.authorization.k8s.io";
        let both = json!([
            {"apiVersion": format!("{api}/v1"), "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules},
            {"apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": user},
             "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": user},
             "subjects": [{"apiGroup": api, "kind": "User", "name": user}]},
        ]);
        self.source.apply(&json!({"apiVersion": "v1", "kind": "List", "items": both}).to_string());
        let identity = self.source.kube.client_ca().issue(&CertSpec::client(user, [""; 0])).unwrap();
        let path = self.source.run.join(&format!("{user}.kubeconfig"));
        self.source.kube.kubeconfig().identity(&identity).write(&path).unwrap()
    }

    /// Flags of a target that is the administrator's, and of the store.
    pub(super) fn flags(&self) -> Vec<&str> {
        vec!["--name", NAME, "--kubeconfig", self.admin(), "--store-kubeconfig", self.admin(), "--namespace", NAMESPACE]
    }

    /// Starts a command of the product.
    pub(super) fn spawn(&self, command: &str, flags: &[&str]) -> Process {
        Process::start(self.spec(command, flags)).unwrap()
    }

    /// As [`OnboardFixture::spawn`], on a terminal.
    pub(super) fn spawn_on_terminal(&self, command: &str, flags: &[&str]) -> Process {
        Process::start(self.spec(command, flags).on_terminal(24, 200, &self.source.run.next("tty"))).unwrap()
    }

    fn spec(&self, command: &str, flags: &[&str]) -> Spec {
        let run = &self.source.run;
        let name = run.next(command);
        let name = name.file_name().unwrap().to_str().unwrap();
        let spec = Spec::new(name, deps::portcullis().unwrap(), run.path()).arg(command).args(flags);
        let spec = spec.env_remove("KUBECONFIG").env("HOME", run.path());
        spec.stdout_to(run.join(&format!("{name}.out")))
    }

    pub(super) fn run(&self, command: &str, flags: &[&str]) -> Ended {
        ended(&self.spawn(command, flags))
    }

    /// As [`OnboardFixture::run`], and signs the request for a certificate that is made meanwhile.
    pub(super) fn run_signed(&self, flags: &[&str]) -> Ended {
        let process = self.spawn("onboard", flags);
        self.sign(&process);
        ended(&process)
    }

    /// Signs the next approved request, as kube-controller-manager does.
    pub(super) fn sign(&self, process: &Process) {
        let request = process.wait_ready("a request is approved", SOON, || self.waiting(true)).unwrap();
        let pem = STANDARD.decode(request["spec"]["request"].as_str().unwrap()).unwrap();
        let certificate = self.source.kube.client_ca().sign_request(&String::from_utf8(pem).unwrap()).unwrap();
        let path = format!("{REQUESTS}/{}", request["metadata"]["name"].as_str().unwrap());
        self.source.kube.patch_status(&path, &json!({"certificate": STANDARD.encode(certificate)})).unwrap();
    }

    /// A request without a certificate, approved or not.
    pub(super) fn waiting(&self, is_approved: bool) -> Result<Value, String> {
        let requests = self.requests();
        let approved = |request: &Value| request["status"]["conditions"].to_string().contains("Approved");
        let waits = |request: &&Value| request["status"]["certificate"].is_null() && approved(request) == is_approved;
        requests.iter().find(waits).cloned().ok_or_else(|| format!("{} requests", requests.len()))
    }

    pub(super) fn requests(&self) -> Vec<Value> {
        self.source.kube.get(REQUESTS).unwrap()["items"].as_array().unwrap().clone()
    }

    /// A front-proxy certificate and its key as files.
    pub(super) fn front_proxy(&self, name: &str) -> [String; 2] {
        let identity = self.front_ca.issue(&CertSpec::client(name, [""; 0])).unwrap();
        self.files(&identity)
    }

    pub(super) fn files(&self, identity: &Identity) -> [String; 2] {
        let [certificate, key] = ["crt", "key"].map(|kind| self.source.run.next(kind));
        identity.write_pem(&certificate, &key).unwrap();
        [certificate, key].map(|path| path.display().to_string())
    }

    /// Every object of a kind that these commands could touch, by path, with its version.
    pub(super) fn objects(&self) -> Vec<String> {
        let collections = [
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            "/apis/rbac.authorization.k8s.io/v1/roles",
            "/apis/rbac.authorization.k8s.io/v1/rolebindings",
            "/api/v1/secrets",
            "/api/v1/serviceaccounts",
            "/apis/proxy.kubegateway.io/v1alpha1/upstreamclusters",
            REQUESTS,
        ];
        let mut objects = Vec::new();
        for collection in collections {
            for object in self.source.kube.get(collection).unwrap()["items"].as_array().unwrap() {
                let metadata = &object["metadata"];
                let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
                objects.push(format!(
                    "{collection} {}/{} {}",
                    text("namespace"),
                    text("name"),
                    text("resourceVersion")
                ));
            }
        }
        objects.sort();
        objects
    }
}

pub(super) fn ended(process: &Process) -> Ended {
    let status = process.wait_exit(Duration::from_secs(60) * wait::deadline_factor()).unwrap();
    Ended { code: status.code(), stdout: process.stdout(), stderr: process.log() }
}

impl Ended {
    /// It did everything, and every check is good.
    pub(super) fn is_good(&self) -> &Self {
        assert!(self.code == Some(0) && !self.stdout.contains("failed"), "{self:#?}");
        self
    }

    /// The word and the detail of a check's line, and the hint below it.
    pub(super) fn check(&self, name: &str) -> (String, String) {
        let mut lines = self.stdout.lines().skip_while(|line| !line.trim_start().starts_with(&format!("{name} ")));
        let line = lines.next().unwrap_or_else(|| panic!("no line of {name}: {self:#?}"));
        let hint = lines.next().filter(|line| line.trim_start().starts_with("hint: ")).unwrap_or_default();
        (line.trim_start().trim_start_matches(name).trim().to_owned(), hint.trim().to_owned())
    }

    /// A check failed with a reason and a hint.
    pub(super) fn failed(&self, name: &str, reason: &str, hint: &str) {
        let (line, told) = self.check(name);
        assert!(line.starts_with("failed") && line.contains(reason), "{name}: {reason}: {self:#?}");
        assert!(told.contains(hint), "{name}: {hint}: {self:#?}");
        assert_eq!(self.code, Some(1));
    }
}

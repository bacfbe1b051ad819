use std::path::PathBuf;

use portcullis_e2e::{Mesh, MeshSetup, render_istio};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::TlsTarget;
use portcullis_harness::kube::{KubeOptions, Kubectl, RealKube, RequestHeader};
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, project_root};
use serde_json::json;

/// The host name of the cluster.
pub(super) const NAME: &str = "prod.example.com";
/// The name of the front-proxy certificate that kubeadm makes.
const FRONT: &str = "front-proxy-client";

/// Which of the two files puts the filter in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Build {
    Module,
    Wasm,
}

impl Build {
    fn word(self) -> &'static str {
        match self {
            Build::Module => "module",
            Build::Wasm => "wasm",
        }
    }
}

/// A kube-apiserver as kubeadm sets it up, with a node, behind a gateway of Istio's. alice and robot may edit in `default`.
pub(super) struct World {
    pub(super) mesh: Mesh,
    pub(super) kube: RealKube,
    pub(super) alice: Identity,
    pub(super) token: String,
    serving_ca: Ca,
    run: RunDir,
}

impl World {
    /// `None`, said loudly, where Kubernetes or istiod is not built.
    pub(super) fn start(test: &str, build: Build) -> Option<Self> {
        deps::kube_or_skip(test).unwrap()?;
        deps::or_skip(test, deps::istio()).unwrap()?;
        let run = RunDir::new(test).unwrap();
        let (front, serving_ca) = (Ca::new("front proxies").unwrap(), Ca::new("serving").unwrap());
        let request_header = Some(RequestHeader { ca: front.clone(), allowed_names: vec![FRONT.to_owned()] });
        let options = KubeOptions { request_header, node: true, ..KubeOptions::default() };
        let kube = RealKube::start(&run, "kube", &options).unwrap();
        let token = grant(&kube);
        let pki = kubeadm_folder(&run, &kube, &front, &serving_ca);
        let servers = [kube.apiservers()[0].address()];
        let wasm = match build {
            Build::Module => Vec::new(),
            Build::Wasm => vec![format!("wasm=file://{}", deps::wasm().unwrap().display())],
        };
        let setup = MeshSetup {
            kube: &kube,
            namespace: "istio-ingress",
            labels: json!({"istio": "ingressgateway"}),
            port: 443,
            objects: render_istio(build.word(), NAME, &servers, &pki, &wasm).unwrap(),
        };
        let mesh = Mesh::start(&run, &setup, |_| ()).unwrap();
        let alice = CertSpec::client("alice", ["dev", "a,b=c"]).uid("uid-of-alice");
        let alice = kube.client_ca().issue(&alice).unwrap();
        Some(World { mesh, kube, alice, token, serving_ca, run })
    }

    /// The gateway.
    pub(super) fn target(&self) -> TlsTarget {
        self.mesh.target(NAME, &self.serving_ca)
    }

    /// Past the gateway.
    pub(super) fn direct(&self) -> TlsTarget {
        TlsTarget::new(self.kube.apiservers()[0].address()).trust(self.kube.server_ca()).sni("localhost")
    }

    /// Through the gateway, without a credential.
    pub(super) fn kubeconfig(&self) -> Kubeconfig {
        self.mesh.kubeconfig(NAME, &self.serving_ca)
    }

    pub(super) fn kubectl(&self, kubeconfig: &Kubeconfig) -> Kubectl {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("kubeconfig-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        self.kube.kubectl(&kubeconfig.write(&self.run.join(&name)).unwrap())
    }

    pub(super) fn admin(&self, args: &[&str]) -> String {
        admin(&self.kube, args)
    }
}

pub(super) fn admin(kube: &RealKube, args: &[&str]) -> String {
    kube.admin_kubectl().unwrap().args(args).run_ok().unwrap()
}

/// What the README asks for, and what the users of these tests may do; gives robot's token.
fn grant(kube: &RealKube) -> String {
    let rights = project_root().join("envoy/istio/rbac.yaml");
    admin(kube, &["apply", "-f", rights.to_str().unwrap()]);
    admin(kube, &["create", "serviceaccount", "robot"]);
    for part in ["view", "edit"] {
        let role = format!("--clusterrole=system:aggregate-to-{part}");
        let subjects = ["--group=dev", "--serviceaccount=default:robot"];
        admin(kube, &[["create", "rolebinding", part, &role].as_slice(), &subjects].concat());
    }
    admin(kube, &["create", "token", "robot"]).trim().to_owned()
}

/// What is in /etc/kubernetes/pki. kubeadm has one authority for servers and clients; here they are two, and a bundle of both is
/// one as well.
fn kubeadm_folder(run: &RunDir, kube: &RealKube, front: &Ca, serving: &Ca) -> PathBuf {
    let pki = run.make_dir("kubernetes-pki").unwrap();
    let pair = |name: &str, identity: Identity| {
        identity.write_pem(&pki.join(format!("{name}.crt")), &pki.join(format!("{name}.key"))).unwrap();
    };
    pair("apiserver", serving.issue(&CertSpec::server(NAME, [NAME])).unwrap());
    pair("front-proxy-client", front.issue(&CertSpec::client(FRONT, [""; 0])).unwrap());
    run.write("kubernetes-pki/ca.crt", kube.client_ca().pem() + &kube.server_ca().pem()).unwrap();
    pki
}

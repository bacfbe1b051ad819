use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::fixture::{BareKube, odd_alice};
use portcullis_e2e::{Mesh, MeshSetup, render_istio};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::TlsTarget;
use portcullis_harness::kube::{KubeOptions, Kubectl, RealKube};
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, project_root};
use serde_json::json;

/// The host name of the cluster.
pub(super) const NAME: &str = "prod.example.com";
/// Of clusters with one phase alone, beside it; of one the name begins as the other's does.
pub(super) const POLICY: &str = "prod.example.org";
pub(super) const IDENTITY: &str = "identity.example.com";
/// The name of the front-proxy certificate that kubeadm makes.
const FRONT: &str = "front-proxy-client";
/// The README's change for `Impersonate`.
const IMPERSONATE: [(&str, &str); 2] =
    [(r#"{"RequestHeader": {}}"#, r#""Impersonate""#), (r#", "user": "system:portcullis"}"#, "}")];

/// The name of a host's objects.
pub(super) fn object(host: &str) -> String {
    host.replace('.', "-")
}

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

/// The parameters of a fixture.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) build: Build,
    /// Of Envoy; `None` = the pinned one.
    pub(super) version: Option<String>,
    /// Users are forwarded by `Impersonate-*`, after the change of the README.
    pub(super) impersonates: bool,
}

impl Setup {
    pub(super) fn new(build: Build) -> Self {
        Self { build, version: None, impersonates: false }
    }
}

/// A kube-apiserver as kubeadm sets it up, with a node, behind a gateway of Istio's. alice and robot may edit in `default`.
pub(super) struct MeshFixture {
    pub(super) mesh: Mesh,
    pub(super) kube: RealKube,
    pub(super) alice: Identity,
    pub(super) token: String,
    serving_ca: Ca,
    run: RunDir,
}

impl MeshFixture {
    /// `None`, said loudly, where Kubernetes or istiod is not built.
    pub(super) fn start(test: &str, setup: &Setup) -> Option<Self> {
        MeshFixture::with(test, setup, |servers, pki| rendered(setup, servers, pki))
    }

    /// With objects that `render` made of the kube-apiservers' addresses and a folder of certificates.
    pub(super) fn with(
        test: &str,
        setup: &Setup,
        objects: impl FnOnce(&[SocketAddr], &Path) -> String,
    ) -> Option<Self> {
        deps::or_skip(test, deps::istio()).unwrap()?;
        let options = KubeOptions { node: true, ..KubeOptions::default() };
        let BareKube { kube, front_ca: front, run, .. } = BareKube::believing(Some(FRONT), test, options)?;
        let serving_ca = Ca::new("serving").unwrap();
        let token = grant(&kube, setup);
        let pki = pki(&run, &kube, &front, &serving_ca, setup);
        let mesh = mesh(&run, &kube, setup, objects(&[kube.apiservers()[0].address()], &pki));
        Some(MeshFixture { mesh, alice: odd_alice(&kube), kube, token, serving_ca, run })
    }

    /// The gateway.
    pub(super) fn target(&self) -> TlsTarget {
        self.mesh.target(NAME, &self.serving_ca)
    }

    /// The gateway by another of the names that its certificate has.
    pub(super) fn target_of(&self, name: &str) -> TlsTarget {
        self.mesh.target(name, &self.serving_ca)
    }

    /// Replaces what the gateway shows to clients, by a certificate of a new authority; gives the gateway as it is then.
    pub(super) fn renew(&self) -> TlsTarget {
        let authority = Ca::new("new serving").unwrap();
        let shown = authority.issue(&CertSpec::server(NAME, [NAME])).unwrap();
        let data = json!({"tls.crt": shown.pem(), "tls.key": shown.key_pem()});
        let metadata = json!({"name": format!("{}-serving", object(NAME)), "namespace": "istio-ingress"});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data});
        let file = self.run.write("renewed.json", secret.to_string()).unwrap();
        self.admin(&[
            "apply",
            "--server-side",
            "--force-conflicts",
            "--field-manager=renewal",
            "-f",
            file.to_str().unwrap(),
        ]);
        self.mesh.target(NAME, &authority)
    }

    /// Past the gateway.
    pub(super) fn direct(&self) -> TlsTarget {
        TlsTarget::new(self.kube.apiservers()[0].address()).trust(self.kube.server_ca()).sni("localhost")
    }

    /// Through the gateway, without a credential.
    pub(super) fn kubeconfig(&self) -> Kubeconfig {
        self.mesh.kubeconfig(NAME, &self.serving_ca)
    }

    /// The same by another of its names.
    pub(super) fn kubeconfig_of(&self, name: &str) -> Kubeconfig {
        self.mesh.kubeconfig(name, &self.serving_ca)
    }

    pub(super) fn kubectl(&self, kubeconfig: &Kubeconfig) -> Kubectl {
        self.kube.kubectl(&kubeconfig.write(&self.run.next("kubeconfig")).unwrap())
    }

    /// Has the mesh believe so many HTTP proxies in front of its gateways.
    pub(super) fn trust_proxies(&self, number: u32) {
        self.mesh.trust_proxies(&self.run, number).unwrap();
    }

    /// Applies objects of a test.
    pub(super) fn apply(&self, file: &str, objects: &str) {
        let file = self.run.write(file, objects).unwrap();
        self.admin(&["apply", "--server-side", "-f", file.to_str().unwrap()]);
    }

    pub(super) fn admin(&self, args: &[&str]) -> String {
        admin(&self.kube, args)
    }
}

pub(super) fn admin(kube: &RealKube, args: &[&str]) -> String {
    kube.admin_kubectl().unwrap().args(args).run_ok().unwrap()
}

/// The objects that `render` makes.
pub(super) fn rendered(setup: &Setup, servers: &[SocketAddr], pki: &Path) -> String {
    let wasm = match setup.build {
        Build::Module => Vec::new(),
        Build::Wasm => vec![format!("wasm=file://{}", deps::wasm().unwrap().display())],
    };
    let mut objects = render_istio(setup.build.word(), NAME, servers, pki, &wasm).unwrap();
    if setup.impersonates {
        for (from, to) in IMPERSONATE {
            assert!(objects.contains(from), "{from}");
            objects = objects.replace(from, to);
        }
    }
    objects
}

fn mesh(run: &RunDir, kube: &RealKube, setup: &Setup, objects: String) -> Mesh {
    let of_mesh =
        MeshSetup { kube, namespace: "istio-ingress", labels: json!({"istio": "ingressgateway"}), port: 443, objects };
    Mesh::start(run, &of_mesh, |options| options.version = setup.version.clone()).unwrap()
}

/// Grants the rights that the README lists, and those of the users of these tests; returns robot's token.
fn grant(kube: &RealKube, setup: &Setup) -> String {
    let rights = if setup.impersonates { "envoy/plain/impersonate/rbac.yaml" } else { "envoy/istio/rbac.yaml" };
    let rights = project_root().join(rights);
    admin(kube, &["apply", "-f", rights.to_str().unwrap()]);
    admin(kube, &["create", "serviceaccount", "robot"]);
    for part in ["view", "edit"] {
        let role = format!("--clusterrole=system:aggregate-to-{part}");
        let subjects = ["--group=dev", "--serviceaccount=default:robot"];
        admin(kube, &[["create", "rolebinding", part, &role].as_slice(), &subjects].concat());
    }
    admin(kube, &["create", "token", "robot"]).trim().to_owned()
}

/// The content of /etc/kubernetes/pki, or of a folder in its place. kubeadm has one authority for servers and clients; here
/// they are two, and a bundle of both is one as well.
fn pki(run: &RunDir, kube: &RealKube, front: &Ca, serving: &Ca, setup: &Setup) -> PathBuf {
    let pki = run.make_dir("pki").unwrap();
    let pair = |name: &str, identity: Identity| {
        identity.write_pem(&pki.join(format!("{name}.crt")), &pki.join(format!("{name}.key"))).unwrap();
    };
    let shown = serving.issue(&CertSpec::server(NAME, [NAME, POLICY, IDENTITY])).unwrap();
    if setup.impersonates {
        pair("serving", shown);
        pair("client", kube.client_ca().issue(&CertSpec::client("system:portcullis", [""; 0])).unwrap());
        kube.server_ca().write_pem(&pki.join("upstream-ca.crt")).unwrap();
        kube.client_ca().write_pem(&pki.join("client-ca.crt")).unwrap();
    } else {
        pair("apiserver", shown);
        pair("front-proxy-client", front.issue(&CertSpec::client(FRONT, [""; 0])).unwrap());
        run.write("pki/ca.crt", kube.client_ca().pem() + &kube.server_ca().pem()).unwrap();
    }
    pki
}

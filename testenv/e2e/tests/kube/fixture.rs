use std::path::{Path, PathBuf};

use portcullis_e2e::{Gateway, GatewayOptions, Manifest};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::kube::{KubeOptions, Kubectl, RealKube, RequestHeader};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{client::TlsTarget, deps};
use serde_json::{Value, json};

/// The host name of the cluster in these tests.
pub(crate) const NAME: &str = "prod.example.com";

/// The way in which the gateway forwards users to the apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identities {
    Impersonate,
    RequestHeader,
}

impl Identities {
    pub(crate) const ALL: [Identities; 2] = [Identities::Impersonate, Identities::RequestHeader];
}

/// A real Kubernetes without anything of ours.
pub(crate) struct BareKube {
    pub(crate) kube: RealKube,
    /// The authority of front proxies, if they are believed.
    pub(crate) front_ca: Ca,
    /// A directory for kubectl's cache.
    pub(crate) cache: PathBuf,
    // Removed last.
    pub(crate) run: RunDir,
}

impl BareKube {
    /// `None`, said loudly, where the real Kubernetes is not built and CI does not ask for it.
    pub(crate) fn start(test: &str, options: KubeOptions) -> Option<Self> {
        BareKube::believing(None, test, options)
    }

    /// As [`BareKube::start`], of kube-apiservers that believe front proxies of this name.
    pub(crate) fn believing(front_proxy: Option<&str>, test: &str, mut options: KubeOptions) -> Option<Self> {
        deps::kube_or_skip(test).unwrap()?;
        let run = RunDir::new(test).unwrap();
        let front_ca = Ca::new("front proxies").unwrap();
        if let Some(name) = front_proxy {
            options.request_header = Some(RequestHeader { ca: front_ca.clone(), allowed_names: vec![name.to_owned()] });
        }
        let kube = RealKube::start(&run, "kube", &options).unwrap();
        let cache = run.make_dir("kubectl-cache").unwrap();
        Some(BareKube { kube, front_ca, cache, run })
    }
}

/// A user whose name, uid and groups a gateway could garble.
pub(crate) fn odd_alice(kube: &RealKube) -> Identity {
    let spec = with_uid(CertSpec::client("alice", ["dev", "a,b=c"]), "uid-of-alice");
    kube.client_ca().issue(&spec).unwrap()
}

/// A certificate with a UID, which kube-apiserver reads from 1.33 on. An older one gives the user none, and the gateway does.
pub(crate) fn with_uid(spec: CertSpec, uid: &str) -> CertSpec {
    if deps::kube_minor() < 33 { spec } else { spec.uid(uid) }
}

/// A real Kubernetes behind a gateway. alice may edit in `default`, bob may nothing.
pub(crate) struct KubeFixture {
    pub(crate) gateway: Gateway,
    pub(crate) kube: RealKube,
    pub(crate) gateway_identity: Identity,
    pub(crate) alice: Identity,
    pub(crate) bob: Identity,
    pub(crate) run: RunDir,
    pub(crate) identities: Identities,
}

impl KubeFixture {
    /// `None`, said loudly, where the real Kubernetes is not built and CI does not ask for it.
    pub(crate) fn start(test: &str, options: &KubeOptions) -> Option<Self> {
        KubeFixture::of(test, options, &GatewayOptions::default())
    }

    /// As [`KubeFixture::start`], behind another gateway.
    pub(crate) fn of(test: &str, options: &KubeOptions, gateway: &GatewayOptions) -> Option<Self> {
        KubeFixture::forwarding(Identities::Impersonate, test, options, gateway)
    }

    /// As [`KubeFixture::of`], in front of apiservers to which users are forwarded in this way.
    pub(crate) fn forwarding(
        identities: Identities,
        test: &str,
        options: &KubeOptions,
        gateway: &GatewayOptions,
    ) -> Option<Self> {
        let front_proxy = (identities == Identities::RequestHeader).then_some("front-proxy");
        let BareKube { kube, front_ca, run, .. } = BareKube::believing(front_proxy, test, options.clone())?;
        let user = |name: &str, groups: &[&str]| {
            kube.client_ca().issue(&CertSpec::client(name, groups.iter().copied())).unwrap()
        };
        let (alice, bob) = (user("alice", &["dev"]), user("bob", &[]));
        let gateway_identity = match identities {
            Identities::Impersonate => user("portcullis", &[]),
            Identities::RequestHeader => front_ca.issue(&CertSpec::client("front-proxy", [""; 0])).unwrap(),
        };
        let gateway = Gateway::start(&run, gateway).unwrap();
        let fixture = KubeFixture { gateway, kube, gateway_identity, alice, bob, run, identities };
        fixture.grant();
        fixture.gateway.apply(&fixture.manifest()).unwrap();
        Some(fixture)
    }

    pub(crate) fn manifest(&self) -> Manifest {
        Manifest::new(NAME, self.kube.apiservers().iter().map(|server| server.address()))
            .upstream(&self.gateway_identity, self.kube.server_ca(), "kubernetes.default.svc")
            .serving(&self.gateway.serving_identity(NAME).unwrap(), self.kube.client_ca())
            .set("/spec/portcullis", self.portcullis(json!({})))
    }

    /// `spec.portcullis` with the way in which users are forwarded.
    pub(crate) fn portcullis(&self, mut fields: Value) -> Value {
        if self.identities == Identities::RequestHeader {
            fields["upstreamIdentity"] = json!("RequestHeader");
        }
        fields
    }

    /// kubectl through the gateway.
    pub(crate) fn kubectl(&self, user: &Identity) -> Kubectl {
        let kubeconfig = self.gateway.kubeconfig(NAME).identity(user);
        self.kube.kubectl(&self.written(&kubeconfig))
    }

    /// The gateway, for requests that kubectl does not make.
    pub(crate) fn target(&self) -> TlsTarget {
        self.gateway.target(NAME)
    }

    pub(crate) fn written(&self, kubeconfig: &portcullis_harness::kubeconfig::Kubeconfig) -> PathBuf {
        kubeconfig.write(&self.run.next("kubeconfig")).unwrap()
    }

    /// The user who asks the apiserver about tokens.
    pub(crate) fn reviewer(&self) -> &'static str {
        match self.identities {
            Identities::Impersonate => "portcullis",
            Identities::RequestHeader => "system:portcullis",
        }
    }

    /// The operator's part: the gateway's own rights, as `portcullis rbac` prints them, and alice's.
    fn grant(&self) {
        let rbac = self.gateway.rbac(self.reviewer()).unwrap();
        // view and edit themselves are put together by a controller, which does not run here.
        let alices = ["view", "edit"].map(|part| {
            let api = "rbac.authorization.k8s.io";
            json!({"apiVersion": format!("{api}/v1"), "kind": "RoleBinding",
                "metadata": {"name": format!("dev-{part}"), "namespace": "default"},
                "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": format!("system:aggregate-to-{part}")},
                "subjects": [{"apiGroup": api, "kind": "Group", "name": "dev"}]})
        });
        let [view, edit] = alices;
        let all = self.run.write("rbac.yaml", format!("{rbac}\n---\n{view}\n---\n{edit}\n")).unwrap();
        // That what is printed is valid is seen elsewhere; looking it up takes longer than all the rest.
        self.admin(&["create", "--validate=false", "-f", path(&all)]);
    }

    pub(crate) fn admin(&self, args: &[&str]) -> String {
        self.kube.admin_kubectl().unwrap().args(args).run_ok().unwrap()
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

use std::path::PathBuf;
use std::time::Duration;

use crate::fixture::{BareKube, NAME, odd_alice};
use portcullis_e2e::{EnvoyGatewaySite, render_envoy_gateway};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{H2Client, Response, TlsTarget};
use portcullis_harness::envoy::Envoy;
use portcullis_harness::envoy_gateway::EnvoyGatewayBuild;
use portcullis_harness::kube::{KubeOptions, Kubectl, RealKube};
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, project_root, wait};
use serde_json::Value;

/// The name of the objects.
pub(super) const OBJECT: &str = "prod-example-com";
/// The namespace of the Gateway.
pub(super) const OURS: &str = "portcullis-ingress";
pub(super) const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(super) const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
/// Headers by which a front proxy says that the user is an administrator.
pub(super) const ADMIN: [(&str, &str); 2] = [("x-remote-user", "admin"), ("x-remote-group", "system:masters")];
/// The name of the front-proxy certificate that kubeadm makes.
const FRONT: &str = "front-proxy-client";
/// The README's change for `Impersonate`.
const IMPERSONATE: [(&str, &str); 2] =
    [(r#"{"RequestHeader": {}}"#, r#""Impersonate""#), (r#", "user": "system:portcullis"}"#, "}")];

/// A kube-apiserver as kubeadm sets it up, with a node, behind a gateway of Envoy Gateway's that runs in the same cluster. alice
/// and robot may edit in `default`.
pub(super) struct EnvoyGatewayFixture {
    // Ends first.
    pub(super) proxy: Option<Envoy>,
    pub(super) site: EnvoyGatewaySite,
    pub(super) kube: RealKube,
    pub(super) alice: Identity,
    pub(super) token: String,
    /// The certificate for kube-apiservers.
    pub(super) upstream: Identity,
    pub(super) objects: PathBuf,
    serving_ca: Ca,
    pub(super) run: RunDir,
}

impl EnvoyGatewayFixture {
    /// `None`, said loudly, where Kubernetes or Envoy Gateway is not built.
    pub(super) fn start(test: &str, impersonates: bool) -> Option<Self> {
        let built = EnvoyGatewayBuild::or_skip(test).unwrap()?;
        let options = KubeOptions { node: true, ..KubeOptions::default() };
        let BareKube { kube, front_ca, run, .. } = BareKube::believing(Some(FRONT), test, options)?;
        let token = grant(&kube, impersonates);
        let serving_ca = Ca::new("serving").unwrap();
        let authority = if impersonates { kube.client_ca() } else { &front_ca };
        let name = if impersonates { "system:portcullis" } else { FRONT };
        let upstream = authority.issue(&CertSpec::client(name, [""; 0])).unwrap();
        let pki = pki(&run, &kube, &serving_ca, &upstream);
        let mut objects = render_envoy_gateway(NAME, &[kube.apiservers()[0].address()], &pki, &[]).unwrap();
        if impersonates {
            for (from, to) in IMPERSONATE {
                assert!(objects.contains(from), "{from}");
                objects = objects.replace(from, to);
            }
        }
        let site = EnvoyGatewaySite::start(&run, &kube, &built, OBJECT, &objects).unwrap();
        let proxy = Some(site.ready_proxy(&run, "proxy", envoy_of_the_release()).unwrap());
        let (alice, objects) = (odd_alice(&kube), run.join("objects.yaml"));
        Some(EnvoyGatewayFixture { proxy, site, kube, alice, token, upstream, objects, serving_ca, run })
    }

    /// The gateway, for clients without a credential.
    pub(super) fn target(&self) -> TlsTarget {
        self.site.target(NAME, &self.serving_ca)
    }

    /// Past the gateway.
    pub(super) fn direct(&self) -> TlsTarget {
        TlsTarget::new(self.kube.apiservers()[0].address()).trust(self.kube.server_ca()).sni("localhost")
    }

    /// Through the gateway, without a credential.
    pub(super) fn kubeconfig(&self) -> Kubeconfig {
        Kubeconfig::new(format!("https://{}", self.site.address())).ca(&self.serving_ca).tls_server_name(NAME)
    }

    pub(super) fn kubectl(&self, kubeconfig: &Kubeconfig) -> Kubectl {
        self.kube.kubectl(&kubeconfig.write(&self.run.next("kubeconfig")).unwrap())
    }

    /// A request of alice's on a connection of its own; `None` where no connection or no answer came about.
    pub(super) fn ask(&self, path: &str, headers: &[(&str, &str)]) -> Option<Response> {
        H2Client::connect(&self.target().identity(&self.alice)).ok()?.get(path, headers).ok()
    }

    /// Waits until alice has an answer of this status. Meanwhile no request with headers of a front proxy may read what only an
    /// administrator may.
    pub(super) fn answers(&self, what: &str, status: u16) {
        eventually(what, || {
            self.no_administrator();
            match self.ask(CONFIGMAPS, &ADMIN) {
                Some(answer) if answer.status == status => Ok(()),
                Some(answer) => Err(answer.text()),
                None => Err("no answer".to_owned()),
            }
        });
        self.no_administrator();
    }

    pub(super) fn no_administrator(&self) {
        let answer = self.ask(SECRETS, &ADMIN);
        assert!(!answer.as_ref().is_some_and(|answer| answer.text().contains("SecretList")), "{answer:?}");
        // Nor does a client without a credential.
        let anonymous = H2Client::connect(&self.target()).ok().and_then(|client| client.get(SECRETS, &ADMIN).ok());
        assert!(!anonymous.as_ref().is_some_and(|answer| answer.text().contains("SecretList")), "{anonymous:?}");
    }

    /// Applies objects of a test.
    pub(super) fn apply(&self, file: &str, objects: &str) {
        let file = self.run.write(file, objects).unwrap();
        self.admin(&["apply", "--server-side", "--force-conflicts", "-f", file.to_str().unwrap()]);
    }

    /// Applies our objects again.
    pub(super) fn restore(&self) {
        self.admin(&["apply", "--server-side", "--force-conflicts", "-f", self.objects.to_str().unwrap()]);
    }

    pub(super) fn admin(&self, args: &[&str]) -> String {
        admin(&self.kube, args)
    }
}

/// The supported Envoy of the minor version that the release of Envoy Gateway runs by itself, 1.39.
pub(super) fn envoy_of_the_release() -> Option<String> {
    deps::envoy_compat_versions().into_iter().find(|version| version.starts_with("1.39."))
}

pub(super) fn admin(kube: &RealKube, args: &[&str]) -> String {
    kube.admin_kubectl().unwrap().args(args).run_ok().unwrap()
}

/// Waits for something; `seen` says whether it is so.
pub(super) fn eventually(what: &str, seen: impl Fn() -> Result<(), String>) {
    wait::until_ok(what, Duration::from_secs(30), seen).unwrap();
}

/// The elements of a list.
pub(super) fn values(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Grants the rights that the README lists, and those of the users of these tests; returns robot's token.
fn grant(kube: &RealKube, impersonates: bool) -> String {
    let rights = if impersonates { "envoy/plain/impersonate/rbac.yaml" } else { "envoy/envoy-gateway/rbac.yaml" };
    admin(kube, &["apply", "-f", project_root().join(rights).to_str().unwrap()]);
    admin(kube, &["create", "serviceaccount", "robot"]);
    for part in ["view", "edit"] {
        let role = format!("--clusterrole=system:aggregate-to-{part}");
        let subjects = ["--group=dev", "--serviceaccount=default:robot"];
        admin(kube, &[["create", "rolebinding", part, &role].as_slice(), &subjects].concat());
    }
    admin(kube, &["create", "token", "robot"]).trim().to_owned()
}

/// The folder of certificates that the README lists.
fn pki(run: &RunDir, kube: &RealKube, serving: &Ca, upstream: &Identity) -> PathBuf {
    let pki = run.make_dir("pki").unwrap();
    let pair = |name: &str, identity: &Identity| {
        identity.write_pem(&pki.join(format!("{name}.crt")), &pki.join(format!("{name}.key"))).unwrap();
    };
    pair("serving", &serving.issue(&CertSpec::server(NAME, [NAME])).unwrap());
    pair("client", upstream);
    kube.server_ca().write_pem(&pki.join("upstream-ca.crt")).unwrap();
    kube.client_ca().write_pem(&pki.join("client-ca.crt")).unwrap();
    pki
}

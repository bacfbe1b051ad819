use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use portcullis_e2e::{Manifest, default_certificate, settings};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::kube::{KubeOptions, RealKube};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, ports, wait, write_private};
use serde_json::Value;

use super::control_plane::{ControlPlaneUnderTest, SOON, text};
use crate::fixture::BareKube;

/// The namespace of the control plane.
pub(crate) const NAMESPACE: &str = "gateways";
/// As whom it comes.
pub(crate) const USER: &str = "control-plane";

/// A Kubernetes that stores UpstreamClusters, and that is the upstream, too.
pub(crate) struct SourceFixture {
    pub(crate) kube: RealKube,
    pub(crate) address: SocketAddr,
    pub(crate) settings: PathBuf,
    pub(crate) serving_ca: Ca,
    pub(crate) gateway: Identity,
    kubectl_cache: PathBuf,
    pub(crate) run: RunDir,
}

impl SourceFixture {
    /// With the definition, and with exactly the rights that `portcullis rbac --control-plane` prints.
    pub(crate) fn start(test: &str) -> Option<Self> {
        Self::of(test, &KubeOptions::default())
    }

    /// As [`SourceFixture::start`], of more kube-apiservers.
    pub(crate) fn of(test: &str, options: &KubeOptions) -> Option<Self> {
        let fixture = Self::without_rights(test, options)?;
        fixture.grant();
        Some(fixture)
    }

    pub(crate) fn without_rights(test: &str, options: &KubeOptions) -> Option<Self> {
        let BareKube { kube, run, cache, .. } = BareKube::start(test, options.clone())?;
        let address = ports::free_address().unwrap();
        let serving_ca = Ca::new("gateway serving authority").unwrap();
        let default = default_certificate(&serving_ca).unwrap();
        let settings = run.write("settings.yaml", settings("e2e", address, &default)).unwrap();
        let gateway = kube.client_ca().issue(&CertSpec::client("portcullis", [""; 0])).unwrap();
        let fixture = SourceFixture { kube, address, settings, serving_ca, gateway, kubectl_cache: cache, run };
        fixture.admin(&["create", "namespace", NAMESPACE]);
        fixture.apply(&printed(&["crd"]));
        wait::until("the kind is served", SOON, || {
            fixture.kubectl(&["get", "upstreamclusters"]).run().unwrap().success().then_some(())
        })
        .unwrap();
        Some(fixture)
    }

    pub(crate) fn grant(&self) {
        self.apply(&printed(&["rbac", "--control-plane", "--namespace", NAMESPACE, "--user", USER]));
    }

    /// A control plane that reads this Kubernetes, with an Envoy.
    pub(crate) fn kubernetes_side(&self, name: &str) -> ControlPlaneUnderTest {
        self.kubernetes_side_with(name, &[])
    }

    /// As [`SourceFixture::kubernetes_side`], with more flags of `serve`.
    pub(crate) fn kubernetes_side_with(&self, name: &str, more: &[&str]) -> ControlPlaneUnderTest {
        let flags = self.kubernetes_flags(&self.settings.display().to_string());
        let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        ControlPlaneUnderTest::start(&self.run, name, &flags)
    }

    pub(crate) fn kubernetes_flags(&self, settings: &str) -> Vec<String> {
        let user = self.kube.client_ca().issue(&CertSpec::client(USER, [""; 0])).unwrap();
        let kubeconfig = self.run.join("control-plane.kubeconfig");
        self.kube.kubeconfig().identity(&user).write(&kubeconfig).unwrap();
        let kubeconfig = text(&kubeconfig);
        let flags =
            ["--source", "kubernetes", "--kubeconfig", kubeconfig, "--namespace", NAMESPACE, "--settings", settings];
        flags.map(str::to_owned).to_vec()
    }

    /// A good cluster.
    pub(crate) fn manifest(&self, name: &str) -> Manifest {
        Manifest::new(name, self.kube.apiservers().iter().map(|server| server.address()))
            .upstream(&self.gateway, self.kube.server_ca(), "kubernetes.default.svc")
            .serving(&self.serving(name), self.kube.client_ca())
    }

    pub(crate) fn serving(&self, name: &str) -> Identity {
        self.serving_ca.issue(&CertSpec::server(name, [name])).unwrap()
    }

    /// Applies manifests, and gives what the server made of them.
    pub(crate) fn apply(&self, manifests: &str) -> Value {
        let file = self.run.next("applied");
        write_private(&file, manifests.as_bytes()).unwrap();
        self.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", text(&file)]).json().unwrap()
    }

    /// An UpstreamCluster as the server has it.
    pub(crate) fn stored(&self, name: &str) -> Value {
        self.kube.get(&format!("/apis/proxy.kubegateway.io/v1alpha1/upstreamclusters/{name}")).unwrap()
    }

    pub(crate) fn admin(&self, args: &[&str]) -> String {
        self.kubectl(args).run_ok().unwrap()
    }

    pub(crate) fn kubectl(&self, args: &[&str]) -> portcullis_harness::kube::Kubectl {
        self.kube.admin_kubectl().unwrap().cache_dir(&self.kubectl_cache).args(args)
    }
}

/// The output of a command of the control plane's executable.
pub(crate) fn printed(args: &[&str]) -> String {
    let output = Command::new(deps::portcullis().unwrap()).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

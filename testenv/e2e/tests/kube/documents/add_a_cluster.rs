use portcullis_e2e::{default_certificate, settings};
use portcullis_harness::agent::{Agent, AgentOptions};
use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::ports;

use super::walkthrough::{EXAMPLE_SERVERS, Walkthrough};
use crate::sources::{SOON, printed};

const PAGE: &str = "docs/add-a-cluster.md";
const HOST: &str = "prod.example.com";

/// docs/add-a-cluster.md, "By hand", below a control plane with its Envoy.
#[test]
fn commands_by_hand_add_a_cluster() {
    let Some(mut reader) = Walkthrough::start("documents-cluster") else { return };
    let address = ports::free_address().unwrap();
    let serving_ca = Ca::new("clients trust it").unwrap();
    let store = &reader.kube.kube;
    store.admin_kubectl().unwrap().args(["create", "namespace", "portcullis"]).run_ok().unwrap();
    store.apply(&reader.kube.run.write("definitions.yaml", printed(&["crd"])).unwrap()).unwrap();
    let text = settings("e2e", address, &default_certificate(&serving_ca).unwrap());
    let settings = reader.kube.run.write("settings.yaml", text).unwrap();
    let kubeconfig = reader.kube.run.join("home/.kube/config");
    let [settings, kubeconfig] = [&settings, &kubeconfig].map(|path| path.to_str().unwrap().to_owned());
    let flags =
        ["--source", "kubernetes", "--namespace", "portcullis", "--kubeconfig", &kubeconfig, "--settings", &settings];
    let plane = ControlPlane::start_from(reader.kube.run.path(), &flags).unwrap();
    let agent = Agent::start(reader.kube.run.path(), "edge", &AgentOptions::new([plane.xds_socket()])).unwrap();

    reader.pair("serving", &serving_ca.issue(&CertSpec::server(HOST, [HOST])).unwrap());
    serving_ca.write_pem(&reader.path("serving-ca.crt")).unwrap();
    reader.cluster_files();
    reader.user();
    let server = format!("  - endpoint: https://{}\n", reader.kube.kube.address(0).unwrap());
    reader.copy("examples/minimal/prod.yaml", "prod.yaml", &[(EXAMPLE_SERVERS, &server)]);
    // The settings allow servers on loopback.
    let with_settings = format!("-f prod.yaml -f {settings}");
    let check = [("-f prod.yaml", with_settings.as_str())];
    reader.open(PAGE, "## 2. Grant rights to the gateway", &check);
    reader.run("portcullis rbac");
    reader.open(PAGE, "## 3. Make the Secrets", &[]);
    for kind in ["tls prod-serving", "tls prod-client", "generic prod-users", "generic prod-servers"] {
        reader.run(&format!("kubectl -n portcullis create secret {kind}"));
    }
    reader.run("kubectl -n portcullis label secret");
    reader.open(PAGE, "## 4. Write and check the object", &[("check -f prod.yaml", &format!("check {with_settings}"))]);
    reader.run("portcullis check");
    reader.run("kubectl apply");
    // No DNS server has the name here.
    let there = format!(
        "kubectl --kubeconfig user.kubeconfig --server https://{address} --tls-server-name {HOST} --certificate-authority serving-ca.crt"
    );
    reader.open(PAGE, "## 5. Wait and connect", &[("kubectl --server https://prod.example.com:6443", &there)]);
    reader.run_soon("kubectl wait --for=condition=Programmed");
    reader.run_soon("kubectl wait --for=condition=Ready");
    agent.wait_ready(SOON).unwrap();
    let user = reader.run_soon("kubectl --kubeconfig user.kubeconfig");
    assert!(user.lines().any(|line| line.split_whitespace().eq(["Username", "alice"])), "{user}");
    reader.end();
}

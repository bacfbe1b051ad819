use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, ports};

use super::walkthrough::{EXAMPLE_SERVERS, Walkthrough};

const FOLDER: &str = "examples/gateway-api";
const PROD: &str = "examples/gateway-api/prod.yaml";
const HOST: &str = "prod.team-a.example.com";

/// docs/gateway-api.md, with the steps of docs/add-a-cluster.md to which it refers.
#[test]
fn commands_from_an_empty_cluster_serve_a_request() {
    let found = deps::definitions().map(|dir| dir.join("gateway-api"));
    let Some(definitions) = deps::or_skip("documents-gateway", found).unwrap() else { return };
    // A socket's path may have at most 107 bytes.
    let sockets = RunDir::new("doc").unwrap();
    let Some(mut reader) = Walkthrough::start("documents-gateway") else { return };
    let [https, http, admin] = [(); 3].map(|()| ports::free_address().unwrap());
    let release = deps::pinned("GATEWAY_API_VERSION").unwrap();
    let url =
        format!("https://github.com/kubernetes-sigs/gateway-api/releases/download/v{release}/standard-install.yaml");
    reader.open(
        "docs/gateway-api.md",
        "### From an empty cluster to the first request",
        &[
            (&url, definitions.to_str().unwrap()),
            ("/run/portcullis", sockets.path().to_str().unwrap()),
            ("/usr/bin/envoy", deps::envoy().unwrap().to_str().unwrap()),
            ("/usr/lib/portcullis", deps::module_dir().unwrap().to_str().unwrap()),
            ("portcullis agent", &format!("portcullis agent --admin-address {admin}")),
            ("https://127.0.0.1 ", &format!("https://{https} ")),
        ],
    );
    let serving_ca = Ca::new("team a's clients trust it").unwrap();
    reader.pair("edge", &serving_ca.issue(&CertSpec::server(HOST, ["*.team-a.example.com"])).unwrap());
    reader.pair("serving", &serving_ca.issue(&CertSpec::server("prod", ["prod.example.com"])).unwrap());
    serving_ca.write_pem(&reader.path("edge-ca.crt")).unwrap();
    reader.cluster_files();
    reader.user();
    reader.copy(&format!("{FOLDER}/routes.yaml"), &format!("{FOLDER}/routes.yaml"), &[]);
    let ports = [format!("port: {}\n", https.port()), format!("port: {}\n", http.port())];
    let edits = [("port: 443\n", ports[0].as_str()), ("port: 80\n", ports[1].as_str())];
    reader.copy(&format!("{FOLDER}/gateway.yaml"), &format!("{FOLDER}/gateway.yaml"), &edits);
    // Everything is on loopback here, the servers included.
    let edits =
        [("address: 0.0.0.0", "address: 127.0.0.1"), ("  listener:", "  allowLoopbackUpstreams: true\n  listener:")];
    reader.copy(&format!("{FOLDER}/settings.yaml"), &format!("{FOLDER}/settings.yaml"), &edits);
    reader.copy(PROD, PROD, &[]);

    reader.run("kubectl apply --server-side -f");
    reader.run("portcullis crd | kubectl apply");
    reader.run("for name in portcullis infra");
    reader.run("kubectl -n infra create secret tls");
    let rest = reader.set_aside();
    reader.open("docs/add-a-cluster.md", "## 2. Grant rights to the gateway", &[("prod.yaml", PROD)]);
    reader.run("portcullis rbac");
    reader.open("docs/add-a-cluster.md", "## 3. Make the Secrets", &[]);
    for kind in ["tls prod-serving", "tls prod-client", "generic prod-users", "generic prod-servers"] {
        reader.run(&format!("kubectl -n portcullis create secret {kind}"));
    }
    reader.run("kubectl -n portcullis label secret");
    reader.take_up(rest);

    let server = format!("  - endpoint: https://{}\n", reader.kube.kube.address(0).unwrap());
    reader.copy(PROD, PROD, &[(EXAMPLE_SERVERS, &server)]);
    // The API server serves new kinds a moment after their definitions.
    reader.run_soon("kubectl apply -f");
    reader.begin("portcullis serve");
    reader.begin("portcullis agent");
    reader.run_soon("kubectl -n infra wait");
    let user = reader.run_soon("kubectl --kubeconfig user.kubeconfig");
    assert!(user.lines().any(|line| line.split_whitespace().eq(["Username", "alice"])), "{user}");
    assert!(user.contains("[dev system:authenticated]"), "{user}");
    reader.end();
    assert!(reader.running.iter().all(portcullis_harness::process::Process::is_running));
}

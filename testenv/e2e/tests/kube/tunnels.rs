//! A pod's kubectl through an apiserver-proxy: a real Envoy on the node that opens tunnels with a header, as Gardener configures it.

use std::net::SocketAddr;
use std::time::Duration;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::certs::CertSpec;
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::kube::{KubeOptions, Kubectl};
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_harness::{ports, wait};
use serde_json::{Value, json};

use crate::fixture::{KubeFixture, NAME};
use crate::kubectl::whoami;

const SOON: Duration = Duration::from_secs(20);
/// The name that pods of every cluster ask for.
const INSIDE: &str = "kubernetes.default.svc";

/// An apiserver-proxy: whatever connects to it goes through a tunnel of its own.
fn apiserver_proxy(address: SocketAddr, admin: SocketAddr, door: SocketAddr) -> Value {
    let socket = |address: SocketAddr| json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}});
    let tunnel = json!({
        "hostname": format!("{INSIDE}:443"),
        "headers_to_add": [{"header": {"key": "X-Gardener-Destination", "value": NAME}}],
    });
    let proxy = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
        "stat_prefix": "kube-apiserver", "cluster": "seed", "tunneling_config": tunnel,
    });
    json!({
        "node": {"id": "apiserver-proxy", "cluster": "node"},
        "admin": {"address": socket(admin)},
        "static_resources": {
            "listeners": [{"name": "kube-apiserver", "address": socket(address),
                "filter_chains": [{"filters": [{"name": "envoy.filters.network.tcp_proxy", "typed_config": proxy}]}]}],
            "clusters": [{"name": "seed", "type": "STATIC", "connect_timeout": "5s", "load_assignment": {
                "cluster_name": "seed", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": socket(door)}}]}]}}],
        },
    })
}

#[test]
fn kubectl_works_through_an_apiserver_proxy() {
    let port = ports::free_address().unwrap().port();
    let listener = json!({"tunnel": {"port": port}});
    let options = GatewayOptions { listener, ..GatewayOptions::default() };
    let Some(fixture) = KubeFixture::of("tunnels", &KubeOptions::default(), &options) else { return };
    let address = ports::free_address().unwrap();
    let serving = fixture.gateway.serving_ca().issue(&CertSpec::server(NAME, [NAME, INSIDE])).unwrap();
    let manifest = fixture.manifest().serving(&serving, fixture.kube.client_ca());
    let manifest = manifest.set("/spec/portcullis", fixture.portcullis(json!({"extraAuthorities": [INSIDE]})));
    fixture.gateway.apply(&manifest).unwrap();
    let door = SocketAddr::new(fixture.gateway.address().ip(), port);
    let node = fixture.run.make_dir("node").unwrap();
    let bootstrap = apiserver_proxy(address, ports::free_address().unwrap(), door);
    let proxy = Envoy::start(&node, "apiserver-proxy", &EnvoyOptions::new(bootstrap)).unwrap();
    proxy.wait_ready(SOON).unwrap();

    let kubeconfig =
        Kubeconfig::new(format!("https://{address}")).ca(fixture.gateway.serving_ca()).tls_server_name(INSIDE);
    let pod = fixture.written(&kubeconfig.identity(&fixture.alice));
    let alice = |args: &[&str]| -> Kubectl { fixture.kube.kubectl(&pod).args(args) };
    wait::until_ok("the tunnel opens", SOON, || alice(&["get", "--raw", "/version"]).run_ok()).unwrap();
    assert_eq!(whoami(fixture.kube.kubectl(&pod)), whoami(fixture.kubectl(&fixture.alice)), "as without a tunnel");

    let watch = alice(&["get", "configmaps", "-w", "-o", "name"]).spawn().unwrap();
    alice(&["create", "configmap", "tunnelled", "--from-literal=a=1"]).run_ok().unwrap();
    let seen = || watch.stdout().contains("configmap/tunnelled").then_some(());
    wait::until("the watch sees it", SOON, seen).unwrap();
    assert_eq!(alice(&["get", "configmap", "tunnelled"]).json().unwrap()["data"]["a"], "1");
    let refused = alice(&["get", "secrets", "-n", "kube-system"]).run().unwrap();
    assert!(refused.stderr.contains("Forbidden"), "{}", refused.stderr);

    let sources = |kubectl: Kubectl, case: &str| {
        kubectl.args(["get", "--raw", &format!("/version?case={case}")]).run_ok().unwrap();
        let is_it = |event: &Value| event["requestURI"].as_str().is_some_and(|uri| uri.ends_with(case));
        fixture.kube.apiservers()[0].wait_audit(case, SOON, is_it).unwrap()["sourceIPs"].clone()
    };
    let (tunnelled, direct) = (alice(&[]), fixture.kubectl(&fixture.alice));
    assert_eq!(sources(tunnelled, "tunnelled"), sources(direct, "direct"), "one client on this machine");
}

//! Envoys that belong to a Gateway of the Gateway API: TLSRoutes lead through them to real kube-apiservers.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Instant;

use portcullis_e2e::{xds_client_flags, xds_server_flags};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{H2Client, TlsTarget, plain};
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{ports, wait};
use serde_json::{Value, json};

use super::control_plane::SOON;
use super::discovery::{Relay, own_address};
use super::fixture::NAMESPACE;
use super::gateway_api::{CLASS, CLUSTER, GROUP, Site, assert_refused_in_time};
use super::steady_requests::SteadyRequests;

/// The host name of the route of another namespace, and of the one that needs no grant.
const GUEST: &str = "guest.example.com";
pub(super) const OWN: &str = "own.example.com";
const GATEWAY: [&str; 3] = ["gateways", "infra", "edge"];

pub(super) struct GatewaySite {
    pub(super) site: Site,
    alice: Identity,
    /// The address of the Gateway's listener for TLS.
    address: SocketAddr,
    /// That for plain HTTP.
    plain: SocketAddr,
}

fn backend(cluster: &str) -> Value {
    json!([{"backendRefs": [{"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": cluster}]}])
}

impl GatewaySite {
    fn start(test: &str) -> Option<Self> {
        Self::with_flags(test, &[])
    }

    /// With further flags of the control plane.
    pub(super) fn with_flags(test: &str, flags: &[&str]) -> Option<Self> {
        let server_names = [GUEST, OWN].map(str::to_owned).to_vec();
        let site = Site::with_flags(test, &KubeOptions { server_names, ..KubeOptions::default() }, flags)?;
        for namespace in ["infra", "team"] {
            site.fixture.admin(&["create", "namespace", namespace]);
        }
        site.apply("GatewayClass", "", CLASS, &json!({"controllerName": "portcullis.dev/gateway-controller"}));
        let alice = site.fixture.kube.client_ca().issue(&CertSpec::client("alice", [""; 0])).unwrap();
        let [address, plain] = [(); 2].map(|()| ports::free_address().unwrap());
        let this = Self { site, alice, address, plain };
        this.gateway(&json!([{"type": "IPAddress", "value": this.address.ip().to_string()}]));
        Some(this)
    }

    pub(super) fn gateway(&self, addresses: &Value) {
        let listener = json!({
            "name": "tls", "port": self.address.port(), "protocol": "TLS", "tls": {"mode": "Passthrough"},
            "allowedRoutes": {"namespaces": {"from": "All"}},
        });
        let plain = json!({"name": "http", "port": self.plain.port(), "protocol": "HTTP"});
        let spec = json!({"gatewayClassName": CLASS, "listeners": [listener, plain], "addresses": addresses});
        self.site.apply("Gateway", "infra", "edge", &spec);
    }

    pub(super) fn route(&self, namespace: &str, host: &str, cluster: &str) {
        let parents = json!([{"name": "edge", "namespace": "infra"}]);
        let spec = json!({"parentRefs": parents, "hostnames": [host], "rules": backend(cluster)});
        self.site.apply("TLSRoute", namespace, "route", &spec);
    }

    fn grant(&self) {
        let from = json!([{"group": GROUP, "kind": "TLSRoute", "namespace": "team"}]);
        let to = json!([{"group": "proxy.kubegateway.io", "kind": "UpstreamCluster"}]);
        self.site.apply("ReferenceGrant", NAMESPACE, "team", &json!({"from": from, "to": to}));
    }

    /// An Envoy with more flags of its bootstrap.
    pub(super) fn envoy(&self, node: &str, flags: &[&str]) -> Envoy {
        let dir = self.site.fixture.run.make_dir(node).unwrap();
        let bootstrap = self.site.plane.bootstrap_with(node, flags).unwrap();
        Envoy::start(&dir, node, &EnvoyOptions::new(bootstrap)).unwrap()
    }

    fn target(&self, host: &str) -> TlsTarget {
        TlsTarget::new(self.address).sni(host).trust(self.site.fixture.kube.server_ca()).identity(&self.alice)
    }

    /// Whether a new connection reaches a kube-apiserver by this name, with its certificate.
    fn is_reached(&self, host: &str) -> bool {
        let answer = H2Client::connect(&self.target(host)).and_then(|client| client.get("/version", &[]));
        answer.is_ok_and(|answer| answer.status == 200)
    }

    fn wait_reached(&self, host: &str, expected: bool) {
        let what = format!("{host} is reached: {expected}");
        wait::until(&what, SOON, || (self.is_reached(host) == expected).then_some(())).unwrap();
    }
}

fn dump(envoy: &Envoy) -> String {
    envoy.admin().config_dump().unwrap().to_string()
}

#[test]
fn gateway_is_served_by_its_own_envoys() {
    let Some(gateway) = GatewaySite::start("gateway-envoys") else { return };
    let site = &gateway.site;
    gateway.route(NAMESPACE, OWN, CLUSTER);
    site.wait(GATEWAY, "", &["Accepted True Accepted", "Programmed False Pending"]);
    let stranger = gateway.envoy("stranger", &[]);
    stranger.wait_ready(SOON).unwrap();
    assert!(dump(&stranger).contains("serving"), "an Envoy of no Gateway has the clusters' certificates");
    assert!(!dump(&stranger).contains("gateway-127"), "and no listener of a Gateway");
    site.wait(GATEWAY, "", &["Programmed False Pending"]);

    let edge = gateway.envoy("edge", &["--gateway", "infra/edge"]);
    let found = site.wait(GATEWAY, "", &["Programmed True Programmed"]);
    for place in ["/listeners/0", "/listeners/1"] {
        site.wait(GATEWAY, place, &["Programmed True Programmed", "Accepted True Accepted"]);
    }
    assert_eq!(found["status"]["addresses"], json!([{"type": "IPAddress", "value": "127.0.0.1"}]));
    edge.wait_listening(gateway.address, SOON).unwrap();
    gateway.wait_reached(OWN, true);
    let config = dump(&edge);
    assert!(config.contains("gateway-127"));
    for key in ["inline_bytes", "dynamic_active_secrets", "default-certificate", "libportcullis"] {
        assert!(!config.contains(key), "a Gateway's Envoy has no key and no module: {key}");
    }

    // kubectl sees the apiserver's own certificate, and is its own user.
    let kubeconfig = Kubeconfig::new(format!("https://{}", gateway.address)).ca(site.fixture.kube.server_ca());
    let kubeconfig = kubeconfig.tls_server_name(OWN).identity(&gateway.alice);
    let path = kubeconfig.write(&site.fixture.run.join("edge.kubeconfig")).unwrap();
    let user = site.fixture.kube.kubectl(&path).args(["auth", "whoami", "-o", "json"]).json().unwrap();
    assert_eq!(user["status"]["userInfo"]["username"], "alice");
    assert!(!gateway.is_reached("unknown.example.com"));
    assert_eq!(plain::get(gateway.plain, "/version").unwrap().status, 404);

    // A Gateway that asks for no address has those of its Envoys, which the settings decide about.
    gateway.gateway(&json!([]));
    site.wait(GATEWAY, "", &["Programmed False AddressNotAssigned"]);
    drop(edge);
    let edge = gateway.envoy("edge-again", &["--gateway", "infra/edge", "--gateway-address", "192.0.2.7"]);
    let found = site.wait(GATEWAY, "", &["Programmed True Programmed"]);
    assert_eq!(found["status"]["addresses"], json!([{"type": "IPAddress", "value": "192.0.2.7"}]));
    gateway.wait_reached(OWN, true);
    site.fixture.admin(&["delete", "gateways.gateway.networking.k8s.io", "edge", "-n", "infra"]);
    let is_closed = || TcpStream::connect(gateway.address).is_err().then_some(());
    wait::until("its port is closed", SOON, is_closed).unwrap();
    assert!(edge.admin().get("/ready").is_ok_and(|answer| answer.status == 200));
}

#[test]
fn listener_whose_port_is_taken_is_not_programmed_alone() {
    let Some(gateway) = GatewaySite::start("gateway-port") else { return };
    let site = &gateway.site;
    gateway.route(NAMESPACE, OWN, CLUSTER);
    let _taken = TcpListener::bind(gateway.plain).unwrap();
    let _edge = gateway.envoy("edge", &["--gateway", "infra/edge"]);
    let found = site.wait(GATEWAY, "/listeners/1", &["Programmed False Invalid", "Accepted True Accepted"]);
    site.wait(GATEWAY, "/listeners/0", &["Programmed True Programmed", "Accepted True Accepted"]);
    let conditions = found["status"]["listeners"][1]["conditions"].as_array().unwrap();
    let programmed = conditions.iter().find(|one| one["type"] == "Programmed").unwrap();
    let message = programmed["message"].as_str().unwrap();
    assert!(message.starts_with("an Envoy refuses it: ") && message.contains("cannot bind"), "{message}");
    let found = site.wait(GATEWAY, "", &["Programmed True Programmed"]);
    let conditions = found["status"]["conditions"].as_array().unwrap();
    let programmed = conditions.iter().find(|one| one["type"] == "Programmed").unwrap();
    let message = programmed["message"].as_str().unwrap();
    assert!(message.starts_with("1 of 1 Envoys refuses something: "), "{message}");
    gateway.wait_reached(OWN, true);
}

/// Writes a certificate for xDS with its key, and its authority. Returns their paths.
pub(super) fn credential_files(run: &RunDir, ca: &Ca, name: &str, spec: &CertSpec) -> [PathBuf; 3] {
    let [cert, key, authority] = ["pem", "key", "ca"].map(|suffix| run.join(&format!("{name}.{suffix}")));
    ca.issue(spec).unwrap().write_pem(&cert, &key).unwrap();
    ca.write_pem(&authority).unwrap();
    [cert, key, authority]
}

/// Over the network a node is known by its Gateway, too.
#[test]
fn gateway_has_the_addresses_of_envoys_over_the_network() {
    let run = RunDir::new("gateway-network-xds").unwrap();
    let ca = Ca::new("xds").unwrap();
    let files = |name: &str, spec: &CertSpec| credential_files(&run, &ca, name, spec);
    let xds = ports::free_address().unwrap();
    let server = files("server", &CertSpec::server("xds", ["xds.internal"]));
    let server = xds_server_flags(xds, server.each_ref().map(|file| file.as_path()));
    let flags: Vec<&str> = server.iter().map(String::as_str).collect();
    let Some(gateway) = GatewaySite::with_flags("gateway-network", &flags) else { return };
    gateway.gateway(&json!([]));
    gateway.route(NAMESPACE, OWN, CLUSTER);
    let dns = vec!["edge.infra.gateway.portcullis.dev".to_owned()];
    let client = files("client", &CertSpec { dns, ..CertSpec::client("edge", [""; 0]) });
    let client = xds_client_flags(xds, client.each_ref().map(|file| file.as_path()), "xds.internal");
    let flags: Vec<&str> = client.iter().map(String::as_str).collect();
    let flags = [&flags[..], &["--gateway", "infra/edge", "--gateway-address", "192.0.2.7"]].concat();
    let bootstrap = gateway.site.plane.bootstrap_at("edge", &flags).unwrap();
    let edge = Envoy::start(&run.make_dir("edge").unwrap(), "edge", &EnvoyOptions::new(bootstrap)).unwrap();
    let found = gateway.site.wait(GATEWAY, "", &["Programmed True Programmed"]);
    assert_eq!(found["status"]["addresses"], json!([{"type": "IPAddress", "value": "192.0.2.7"}]));
    drop(edge);
}

#[test]
fn grant_that_is_deleted_takes_the_backend_away() {
    let Some(gateway) = GatewaySite::start("gateway-grants") else { return };
    let site = &gateway.site;
    gateway.route(NAMESPACE, OWN, CLUSTER);
    gateway.route("team", GUEST, CLUSTER);
    gateway.grant();
    let _edge = gateway.envoy("edge", &["--gateway", "infra/edge"]);
    site.wait(["tlsroutes", "team", "route"], "/parents/0", &["ResolvedRefs True ResolvedRefs"]);
    gateway.wait_reached(OWN, true);
    gateway.wait_reached(GUEST, true);

    let others = SteadyRequests::start(&gateway.target(OWN));
    others.wait_for(20);
    site.fixture.admin(&["delete", "referencegrants", "team", "-n", NAMESPACE]);
    let deleted = Instant::now();
    gateway.wait_reached(GUEST, false);
    assert_refused_in_time("backend", deleted);
    site.wait(["tlsroutes", "team", "route"], "/parents/0", &["ResolvedRefs False RefNotPermitted"]);
    others.wait_for(20);
    gateway.grant();
    gateway.wait_reached(GUEST, true);
    others.wait_for(20);
    others.none_failed();
}

/// A Service without a selector, and its only slice.
fn service(servers: &[SocketAddr]) -> String {
    let metadata = json!({"name": "web", "namespace": "team"});
    let port = json!({"name": "https", "port": 443, "targetPort": 8443, "protocol": "TCP"});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [port]}});
    let endpoints: Vec<Value> =
        servers.iter().map(|one| json!({"addresses": [one.ip().to_string()], "conditions": {"ready": true}})).collect();
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "web", "namespace": "team", "labels": {"kubernetes.io/service-name": "web"}},
        "ports": [{"name": "https", "port": servers.first().map_or(1, SocketAddr::port), "protocol": "TCP"}],
        "endpoints": endpoints,
    });
    format!("{service}\n---\n{slice}\n")
}

#[test]
fn service_is_reached_by_its_slices() {
    let Some(ip) = own_address() else { return };
    let Some(gateway) = GatewaySite::start("gateway-services") else { return };
    let site = &gateway.site;
    let server = site.fixture.kube.apiservers()[0].address();
    let relay = Relay::start(ip, server);
    let rules = json!([{"backendRefs": [{"kind": "Service", "name": "web", "port": 443}]}]);
    let parents = json!([{"name": "edge", "namespace": "infra"}]);
    let spec = json!({"parentRefs": parents, "hostnames": [GUEST], "rules": rules});
    let route = ["tlsroutes", "team", "route"];
    site.apply("TLSRoute", "team", "route", &spec);
    site.wait(route, "/parents/0", &["ResolvedRefs False BackendNotFound"]);
    site.fixture.apply(&service(&[relay.address]));
    site.wait(route, "/parents/0", &["ResolvedRefs True ResolvedRefs"]);
    let edge = gateway.envoy("edge", &["--gateway", "infra/edge"]);
    gateway.wait_reached(GUEST, true);

    let newer = Relay::start(ip, server);
    site.fixture.apply(&service(&[newer.address]));
    let assigned = format!("\"port_value\":{}", newer.address.port());
    let is_there = || edge.admin().get("/config_dump?include_eds").unwrap().text().replace(' ', "").contains(&assigned);
    wait::until("the newer server is there", SOON, || is_there().then_some(())).unwrap();
    drop(relay);
    gateway.wait_reached(GUEST, true);
    // An empty list leaves no server, whose address may soon be another one's.
    site.fixture.apply(&service(&[]));
    gateway.wait_reached(GUEST, false);
    site.fixture.apply(&service(&[newer.address]));
    gateway.wait_reached(GUEST, true);
    site.fixture.admin(&["delete", "service", "web", "-n", "team"]);
    site.wait(route, "/parents/0", &["ResolvedRefs False BackendNotFound"]);
    gateway.wait_reached(GUEST, false);
}

/// A slice of that Service with one server, in a zone.
fn slice_of_zone(zone: &str, server: SocketAddr) -> String {
    let labels = json!({"kubernetes.io/service-name": "web"});
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": format!("web-{zone}"), "namespace": "team", "labels": labels},
        "ports": [{"name": "https", "port": server.port(), "protocol": "TCP"}],
        "endpoints": [{"addresses": [server.ip().to_string()], "conditions": {"ready": true}, "zone": zone}],
    })
    .to_string()
}

/// The server of the other zone closes each connection.
#[test]
fn service_is_reached_in_the_envoys_zone_first() {
    let Some(ip) = own_address() else { return };
    let Some(gateway) = GatewaySite::start("gateway-zones") else { return };
    let site = &gateway.site;
    let near = Relay::start(ip, site.fixture.kube.apiservers()[0].address());
    let far = Relay::start(ip, ports::free_address().unwrap());
    let rules = json!([{"backendRefs": [{"kind": "Service", "name": "web", "port": 443}]}]);
    let parents = json!([{"name": "edge", "namespace": "infra"}]);
    site.apply("TLSRoute", "team", "route", &json!({"parentRefs": parents, "hostnames": [GUEST], "rules": rules}));
    site.fixture.apply(&service(&[]));
    for (zone, relay) in [("a", &near), ("b", &far)] {
        site.fixture.apply(&slice_of_zone(zone, relay.address));
    }
    site.wait(["tlsroutes", "team", "route"], "/parents/0", &["ResolvedRefs True ResolvedRefs"]);
    let edge = gateway.envoy("edge", &["--gateway", "infra/edge", "--zone", "a"]);
    let has_both = || {
        let dump = edge.admin().get("/config_dump?include_eds").unwrap().text().replace(' ', "");
        let has = |relay: &Relay| dump.contains(&format!("\"port_value\":{}", relay.address.port()));
        (has(&near) && has(&far)).then_some(())
    };
    wait::until("both servers are there", SOON, has_both).unwrap();
    gateway.wait_reached(GUEST, true);
    for attempt in 0..20 {
        assert!(gateway.is_reached(GUEST), "connection {attempt} went to the other zone");
    }
}

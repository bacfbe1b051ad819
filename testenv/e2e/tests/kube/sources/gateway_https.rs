//! HTTPS listeners of Gateways: users are at their Envoys whom they are at the `UpstreamCluster`'s own.

use std::net::SocketAddr;

use portcullis_harness::certs::{CertSpec, Identity};
use portcullis_harness::client::{H2Client, TlsTarget, plain};
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_harness::{ports, wait};
use serde_json::{Value, json};

use super::control_plane::SOON;
use super::fixture::{NAMESPACE, USER, printed};
use super::gateway_api::{CLASS, CLUSTER, GROUP, Site};
use crate::kubectl::whoami;

/// The host name of the tenant's route.
pub(super) const JUDGED: &str = "judged.example.com";
/// Host names for which the listener's certificate is good as well.
const MORE: &str = "*.wide.example.com";
/// The host name of another route of the tenant.
pub(super) const NEIGHBOUR: &str = "neighbour.example.com";
const CLUSTER_GROUP: &str = "proxy.kubegateway.io";

pub(super) struct HttpsSite {
    pub(super) site: Site,
    pub(super) alice: Identity,
    /// The addresses of the listeners.
    pub(super) address: SocketAddr,
    plain: SocketAddr,
}

/// A rule that leads to the cluster, with more fields.
pub(super) fn rules(cluster: &str, more: &Value) -> Value {
    let mut rule = json!({"backendRefs": [{"group": CLUSTER_GROUP, "kind": "UpstreamCluster", "name": cluster}]});
    rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!([rule])
}

impl HttpsSite {
    /// A Gateway with a certificate, and a tenant's route to the cluster.
    pub(super) fn start(test: &str) -> Option<Self> {
        Self::of(test, &KubeOptions::default(), &[])
    }

    /// The same, with further flags of the control plane, each with the rights for it.
    pub(super) fn start_with(test: &str, flags: &[&str]) -> Option<Self> {
        Self::of(test, &KubeOptions::default(), flags)
    }

    /// The same, of kube-apiservers like these.
    pub(super) fn of(test: &str, options: &KubeOptions, flags: &[&str]) -> Option<Self> {
        let site = Site::with_flags(test, options, flags)?;
        for namespace in ["infra", "team"] {
            site.fixture.admin(&["create", "namespace", namespace]);
        }
        let rights = ["rbac", "--control-plane", "--namespace", NAMESPACE, "--user", USER];
        let rights = [&rights[..], &["--gateway-api", "--gateway-secrets", "infra"], flags].concat();
        site.fixture.apply(&printed(&rights));
        site.fixture.apply(&printed(&["rbac", "--user", "portcullis"]));
        site.apply("GatewayClass", "", CLASS, &json!({"controllerName": "portcullis.dev/gateway-controller"}));
        let alice = site.fixture.kube.client_ca().issue(&CertSpec::client("alice", ["dev"])).unwrap();
        let [address, plain] = [(); 2].map(|()| ports::free_address().unwrap());
        let this = Self { site, alice, address, plain };
        this.certificate("cert");
        this.gateway("edge", this.address.port(), this.plain.port());
        this.grant("team", &[("HTTPRoute", "team"), ("Gateway", "infra")]);
        this.route("route", JUDGED, &json!({}));
        Some(this)
    }

    /// A Secret of the Gateways, with a new certificate.
    pub(super) fn certificate(&self, name: &str) -> Identity {
        let names = [JUDGED, NEIGHBOUR, MORE, "tenant.example.com", "foreign.example.com"];
        let serving = self.site.fixture.serving_ca.issue(&CertSpec::server(JUDGED, names)).unwrap();
        let data = json!({"tls.crt": serving.pem(), "tls.key": serving.key_pem()});
        let metadata = json!({"name": name, "namespace": "infra"});
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata, "stringData": data,
        });
        self.site.fixture.apply(&secret.to_string());
        serving
    }

    fn gateway(&self, name: &str, https: u16, http: u16) {
        self.site.apply("Gateway", "infra", name, &self.gateway_spec("cert", https, http));
    }

    /// The Gateway `edge` with the certificate of this Secret, and more fields.
    pub(super) fn edge(&self, secret: &str, more: &Value) {
        let mut spec = self.gateway_spec(secret, self.address.port(), self.plain.port());
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.site.apply("Gateway", "infra", "edge", &spec);
    }

    fn gateway_spec(&self, secret: &str, https: u16, http: u16) -> Value {
        let listener = json!({
            "name": "https", "port": https, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": secret}]},
            "allowedRoutes": {"namespaces": {"from": "All"}},
        });
        let plain = json!({"name": "http", "port": http, "protocol": "HTTP"});
        let addresses = json!([{"type": "IPAddress", "value": self.address.ip().to_string()}]);
        json!({"gatewayClassName": CLASS, "listeners": [listener, plain], "addresses": addresses})
    }

    pub(super) fn grant(&self, name: &str, from: &[(&str, &str)]) {
        self.permit([NAMESPACE, name], from, &json!({"group": CLUSTER_GROUP, "kind": "UpstreamCluster"}));
    }

    /// A ReferenceGrant, by its namespace and name.
    pub(super) fn permit(&self, [namespace, name]: [&str; 2], from: &[(&str, &str)], to: &Value) {
        let from: Vec<Value> = from
            .iter()
            .map(|(kind, namespace)| json!({"group": GROUP, "kind": kind, "namespace": namespace}))
            .collect();
        self.site.apply("ReferenceGrant", namespace, name, &json!({"from": from, "to": [to]}));
    }

    pub(super) fn route(&self, name: &str, host: &str, more: &Value) {
        self.route_to(CLUSTER, name, host, more);
    }

    /// A route to another cluster.
    pub(super) fn route_to(&self, cluster: &str, name: &str, host: &str, more: &Value) {
        self.bind("HTTPRoute", ["team", name], host, &rules(cluster, more));
    }

    /// A route of the Gateway's, by its namespace and name.
    pub(super) fn bind(&self, kind: &str, [namespace, name]: [&str; 2], host: &str, rules: &Value) {
        let parents = json!([{"name": "edge", "namespace": "infra"}]);
        let spec = json!({"parentRefs": parents, "hostnames": [host], "rules": rules});
        self.site.apply(kind, namespace, name, &spec);
    }

    pub(super) fn envoy(&self, node: &str, flags: &[&str]) -> Envoy {
        let dir = self.site.fixture.run.make_dir(node).unwrap();
        let bootstrap = self.site.plane.bootstrap_with(node, flags).unwrap();
        Envoy::start(&dir, node, &EnvoyOptions::new(bootstrap)).unwrap()
    }

    pub(super) fn target(&self, host: &str) -> TlsTarget {
        TlsTarget::new(self.address).sni(host).trust(&self.site.fixture.serving_ca).identity(&self.alice)
    }

    fn status(&self, host: &str, authority: &str) -> Option<u16> {
        let client = H2Client::connect(&self.target(host)).ok()?.authority(authority);
        client.get("/version", &[]).ok().map(|answer| answer.status)
    }

    pub(super) fn wait_status(&self, host: &str, expected: Option<u16>) {
        let what = format!("{host} answers {expected:?}");
        wait::until(&what, SOON, || (self.status(host, host) == expected).then_some(())).unwrap();
    }

    /// The user that the apiserver knows, through an address.
    pub(super) fn user(&self, at: SocketAddr, name: &str, with: impl Fn(Kubeconfig) -> Kubeconfig) -> Value {
        let kubeconfig = Kubeconfig::new(format!("https://{at}")).ca(&self.site.fixture.serving_ca);
        let kubeconfig = with(kubeconfig.tls_server_name(name));
        let path = kubeconfig.write(&self.site.fixture.run.next("kubeconfig")).unwrap();
        whoami(self.site.fixture.kube.kubectl(&path))
    }
}

pub(super) fn dump(envoy: &Envoy) -> String {
    envoy.admin().config_dump().unwrap().to_string()
}

/// Everything that came from the control plane. The bootstrap names all extensions of Envoy.
fn dump_of_control_plane(envoy: &Envoy) -> String {
    let dump = envoy.admin().config_dump().unwrap();
    let of_bootstrap = |part: &&Value| part["@type"].as_str().is_some_and(|url| url.ends_with("BootstrapConfigDump"));
    let parts = dump["configs"].as_array().unwrap().iter().filter(|part| !of_bootstrap(part));
    parts.map(Value::to_string).collect()
}

#[test]
fn users_of_an_https_listener_are_those_of_the_cluster_itself() {
    let Some(gateway) = HttpsSite::start("gateway-https") else { return };
    let site = &gateway.site;
    let ordinary = gateway.envoy("ordinary", &[]);
    let _edge = gateway.envoy("edge", &["--gateway", "infra/edge"]);
    ordinary.wait_listening(site.fixture.address, SOON).unwrap();
    for place in ["", "/listeners/0", "/listeners/1"] {
        site.wait(["gateways", "infra", "edge"], place, &["Programmed True Programmed"]);
    }
    site.wait(["httproutes", "team", "route"], "/parents/0", &["ResolvedRefs True ResolvedRefs"]);
    gateway.wait_status(JUDGED, Some(200));

    site.fixture.admin(&["create", "serviceaccount", "robot"]);
    let token = site.fixture.admin(&["create", "token", "robot"]).trim().to_owned();
    let stranger = portcullis_harness::certs::Ca::new("strangers").unwrap();
    let stranger = stranger.issue(&CertSpec::client("alice", ["dev"])).unwrap();
    type With<'a> = Box<dyn Fn(Kubeconfig) -> Kubeconfig + 'a>;
    let credentials: [(&str, With<'_>); 3] = [
        ("alice", Box::new(|kubeconfig| kubeconfig.identity(&gateway.alice))),
        ("system:serviceaccount:default:robot", Box::new(|kubeconfig| kubeconfig.token(&token))),
        ("system:serviceaccount:default:robot", Box::new(|kubeconfig| kubeconfig.identity(&stranger).token(&token))),
    ];
    for (username, with) in &credentials {
        let itself = gateway.user(site.fixture.address, CLUSTER, with);
        let there = gateway.user(gateway.address, JUDGED, with);
        assert_eq!(there["username"], *username);
        assert_eq!(there, itself, "groups and extras included");
    }
    // The CA is the cluster's own, not the Gateway's.
    for (address, name) in [(site.fixture.address, CLUSTER), (gateway.address, JUDGED)] {
        let target = TlsTarget::new(address).sni(name).trust(&site.fixture.serving_ca).identity(&stranger);
        let answer = H2Client::connect(&target).unwrap().get("/api/v1/namespaces", &[]).unwrap();
        assert_eq!(answer.status, 401, "{}", answer.text());
    }
    let client = H2Client::connect(&gateway.target(JUDGED)).unwrap();
    assert_eq!(client.get("/version", &[("impersonate-user", "admin")]).unwrap().status, 403);
    assert_eq!(gateway.status(JUDGED, "other.example.com"), Some(421));
    assert_eq!(gateway.status("other.example.com", JUDGED), None, "no route has the name of the handshake");
    assert_eq!(gateway.status(CLUSTER, CLUSTER), None, "nor has the Gateway the cluster's own");
}

#[test]
fn plain_http_of_a_gateway_leads_to_its_https() {
    let Some(gateway) = HttpsSite::start("gateway-http") else { return };
    let _edge = gateway.envoy("edge", &["--gateway", "infra/edge"]);
    gateway.wait_status(JUDGED, Some(200));
    let get = |host: &str| plain::get(gateway.plain, &format!("http://{host}/api?limit=1")).unwrap();
    for host in [JUDGED.to_owned(), format!("{JUDGED}:{}", gateway.plain.port())] {
        let answer = get(&host);
        assert_eq!(answer.status, 308, "{host}");
        let expected = format!("https://{JUDGED}:{}/api?limit=1", gateway.address.port());
        assert_eq!(answer.header("location"), Some(expected));
        assert_eq!(answer.header("cache-control").as_deref(), Some("no-store"), "no client keeps it");
    }
    let unknown = get("unknown.example.com");
    assert_eq!((unknown.status, unknown.header("location")), (404, None));
}

#[test]
fn tenant_decides_neither_about_requests_nor_about_credentials() {
    let Some(gateway) = HttpsSite::start("gateway-tenant") else { return };
    let site = &gateway.site;
    let [https, http] = [(); 2].map(|()| ports::free_address().unwrap().port());
    gateway.gateway("other", https, http);
    let edge = gateway.envoy("edge", &["--gateway", "infra/edge"]);
    let other = gateway.envoy("other", &["--gateway", "infra/other"]);
    gateway.wait_status(JUDGED, Some(200));
    site.wait(["gateways", "infra", "other"], "", &["Programmed True Programmed"]);
    let credential = format!("/-/{CLUSTER}/client");
    assert!(dump(&edge).contains(&credential) && dump(&edge).contains("portcullis"));
    let foreign = dump_of_control_plane(&other);
    for part in [CLUSTER, JUDGED, "dynamic_active_secrets", "dynamic_modules"] {
        assert!(!foreign.contains(part), "another Gateway's Envoy has no key: {part}");
    }
    assert!(!dump(&edge).contains(&format!("/-/{CLUSTER}/serving")), "clients see the listener's certificate");

    let header = json!({"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["authorization"]}});
    for (name, more) in [
        ("path", json!({"matches": [{"path": {"type": "PathPrefix", "value": "/api"}}]})),
        ("header", json!({"filters": [header]})),
    ] {
        let host = format!("{name}.example.com");
        gateway.route(name, &host, &more);
        site.wait(["httproutes", "team", name], "/parents/0", &["Accepted False UnsupportedValue"]);
        assert_eq!(gateway.status(&host, &host), None, "{name}");
    }
    // The grant for the route is none for the Gateway's Envoys.
    gateway.grant("team", &[("HTTPRoute", "team")]);
    site.wait(["httproutes", "team", "route"], "/parents/0", &["ResolvedRefs False RefNotPermitted"]);
    gateway.wait_status(JUDGED, Some(500));
    // Connections of before keep their chain for the drain time, with the public CA of its clients.
    let is_gone = || (!dump(&edge).replace("/client-validation", "").contains(&credential)).then_some(());
    wait::until("the credential is gone from the Gateway's Envoy", SOON, is_gone).unwrap();
}

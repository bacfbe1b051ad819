//! The objects of `envoy/gardener` with a real istiod in the place of the stand-in.

use std::net::SocketAddr;

use portcullis_e2e::{Mesh, MeshSetup};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::kube::{KubeOptions, RealKube};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, ports, project_root};
use serde_json::{Value, json};

use super::addresses::{CONNECTION, listed_by};
use super::effect::{manager, nothing_was_refused};
use super::fixture::admin;
use super::tenants::OtherTenant;
use super::users::reviewed_user;
use crate::fixture::{BareKube, odd_alice};

const FRONT: &str = "system:istio-gateway";
const HOST: &str = "api.prod.dev.example.com";
const WILDCARD_HOST: &str = "api-dev--prod.ingress.seed.example.com";
/// The placeholder of the bundle in the files, as text of JSON.
const BUNDLE: &str = r"-----BEGIN CERTIFICATE-----\nthe shoot's client CA bundle\n-----END CERTIFICATE-----\n";

struct Shoot {
    mesh: Mesh,
    kube: RealKube,
    proxy: SocketAddr,
    namespace: String,
    serving_ca: Ca,
    alice: Identity,
    token: String,
    // Removed last.
    run: RunDir,
}

impl Shoot {
    fn start(test: &str) -> Option<Self> {
        deps::or_skip(test, deps::istio()).unwrap()?;
        let server_names = vec!["kubernetes.default.svc.cluster.local".to_owned()];
        let options = KubeOptions { server_names, ..KubeOptions::default() };
        let BareKube { kube, front_ca, run, .. } = BareKube::believing(Some(FRONT), test, options)?;
        let serving_ca = Ca::new("serving").unwrap();
        let proxy = ports::free_address().unwrap();
        // Unlike anybody else's, because abstract sockets are shared by the whole machine.
        let namespace = format!("shoot--dev--prod-{}", proxy.port());
        admin(&kube, &["create", "namespace", &namespace]);
        let rights = project_root().join("envoy/gardener/rbac.yaml");
        admin(&kube, &["apply", "-f", rights.to_str().unwrap()]);
        admin(&kube, &["create", "serviceaccount", "robot"]);
        let token = admin(&kube, &["create", "token", "robot"]).trim().to_owned();
        let front = front_ca.issue(&CertSpec::client(FRONT, [""; 0])).unwrap();
        let mut objects = objects(&namespace, &kube.client_ca().pem());
        let more = secrets(&namespace, &kube, &serving_ca, &front).into_iter();
        let more = more.chain([servers(&namespace, kube.apiservers()[0].address()), http_proxy(proxy)]);
        objects.extend(more.map(|object| format!("---\n{object}\n")));
        let setup = MeshSetup {
            kube: &kube,
            namespace: "istio-ingress",
            labels: json!({"app": "istio-ingressgateway"}),
            port: 9443,
            objects,
        };
        let mesh = Mesh::start(&run, &setup, |_| ()).unwrap();
        mesh.gateway().wait_listening(proxy, std::time::Duration::from_secs(20)).unwrap();
        Some(Self { mesh, alice: odd_alice(&kube), kube, proxy, namespace, serving_ca, token, run })
    }

    /// As apiserver-proxy on a shoot's nodes does it: by HTTP CONNECT, with a header that says where to.
    fn tunnel(&self) -> TlsTarget {
        let connect = format!(
            "CONNECT kubernetes.default:443 HTTP/1.1\r\nHost: kubernetes.default:443\r\n\
             X-Gardener-Destination: {}--kube-apiserver-socket\r\n\r\n",
            self.namespace
        );
        TlsTarget::new(self.proxy).sni("kubernetes.default").trust(&self.serving_ca).tunnel(connect.as_bytes())
    }
}

/// The objects of the files, with a namespace and a client CA of their own.
fn objects(namespace: &str, client_ca: &str) -> String {
    let read = |file: &str| std::fs::read_to_string(project_root().join("envoy/gardener").join(file)).unwrap();
    let files = ["secrets.yaml", "clusters.yaml", "shoot.yaml", "termination.yaml", "apiserver-proxy.yaml"].map(read);
    files.join("---\n").replace("shoot--dev--prod", namespace).replace(BUNDLE, &client_ca.replace('\n', r"\n"))
}

/// Gardener's Secrets in the gateway's namespace.
fn secrets(namespace: &str, kube: &RealKube, serving_ca: &Ca, front: &Identity) -> [Value; 3] {
    let names = [HOST, WILDCARD_HOST, "kubernetes.default", "kubernetes.default.svc.cluster.local"];
    let serving = serving_ca.issue(&CertSpec::server("kube-apiserver", names)).unwrap();
    let secret = |name: &str, identity: &Identity, ca: &Ca| {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": format!("{namespace}-{name}"), "namespace": "istio-ingress"},
            "stringData": {"cert": identity.pem(), "key": identity.key_pem(), "cacert": ca.pem()},
        })
    };
    [
        secret("kube-apiserver-tls", &serving, kube.client_ca()),
        secret("kube-apiserver-wildcard-tls", &serving, kube.client_ca()),
        secret("kube-apiserver-istio-mtls", front, kube.server_ca()),
    ]
}

/// In the place of the Service and its pods, because no EndpointSlice may name a loopback address.
fn servers(namespace: &str, server: SocketAddr) -> Value {
    json!({
        "apiVersion": "networking.istio.io/v1",
        "kind": "ServiceEntry",
        "metadata": {"name": "kube-apiserver", "namespace": namespace},
        "spec": {
            "exportTo": ["istio-ingress"],
            "hosts": [format!("kube-apiserver.{namespace}.svc.cluster.local")],
            "location": "MESH_INTERNAL",
            "resolution": "STATIC",
            "ports": [{"number": 443, "name": "kube-apiserver", "protocol": "TLS"}],
            "endpoints": [{"address": server.ip().to_string(), "ports": {"kube-apiserver": server.port()}}],
        },
    })
}

/// Of the seed: where apiserver-proxy comes in.
fn http_proxy(address: SocketAddr) -> Value {
    let typed = |kind: &str| json!(format!("type.googleapis.com/envoy.extensions.filters.{kind}"));
    let regex = r"^(outbound\|443\|\|kube-apiserver\..*\.svc\.cluster\.local|shoot--.*--.*--kube-apiserver-socket)$";
    let to_header = json!({
        "match": {"connect_matcher": {}, "headers": [{"name": "X-Gardener-Destination", "string_match": {"safe_regex": {"regex": regex}}}]},
        "route": {"cluster_header": "X-Gardener-Destination", "upgrade_configs": [{"upgrade_type": "CONNECT", "connect_config": {}}]},
    });
    let manager = json!({
        "@type": typed("network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "http-proxy",
        "upgrade_configs": [{"upgrade_type": "CONNECT"}],
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {"@type": typed("http.router.v3.Router")}}],
        "route_config": {"virtual_hosts": [{"name": "http-proxy", "domains": ["*"], "routes": [to_header]}]},
    });
    let listener = json!({
        "name": "http-proxy",
        "address": {"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}},
        "filter_chains": [{"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}],
    });
    json!({
        "apiVersion": "networking.istio.io/v1alpha3",
        "kind": "EnvoyFilter",
        "metadata": {"name": "http-proxy-listener", "namespace": "istio-ingress"},
        "spec": {
            "workloadSelector": {"labels": {"app": "istio-ingressgateway"}},
            "configPatches": [{"applyTo": "LISTENER", "match": {"context": "GATEWAY"}, "patch": {"operation": "ADD", "value": listener}}],
        },
    })
}

/// `testenv/e2e/src/ingress` behaves as istiod does.
#[test]
fn istiod_translates_gardeners_objects_as_the_model_does() {
    let Some(shoot) = Shoot::start("istio-gardener") else { return };
    assert_eq!(shoot.mesh.objections(shoot.mesh.objects()).unwrap(), Vec::<String>::new());
    nothing_was_refused(&shoot.mesh);
    for name in [HOST, WILDCARD_HOST] {
        let manager = manager(&shoot.mesh, name);
        let filters: Vec<_> =
            manager["http_filters"].as_array().unwrap().iter().map(|filter| &filter["name"]).collect();
        let [.., filter, router] = filters.as_slice() else { panic!("{manager:#}") };
        assert_eq!((*filter, *router), (&json!("portcullis"), &json!("envoy.filters.http.router")), "{name}");
        assert_eq!(manager["set_current_client_cert_details"]["chain"], true, "{name}");
        assert_ne!(manager["normalize_path"], json!(true), "{name}");
        assert_eq!(manager["stream_idle_timeout"], "0s", "{name}");
    }
    let direct = TlsTarget::new(shoot.kube.apiservers()[0].address()).trust(shoot.kube.server_ca()).sni("localhost");
    let ways = [
        ("own name", shoot.mesh.target(HOST, &shoot.serving_ca)),
        ("wildcard name", shoot.mesh.target(WILDCARD_HOST, &shoot.serving_ca)),
        ("apiserver-proxy", shoot.tunnel()),
    ];
    let token = format!("Bearer {}", shoot.token);
    let forged: [&[(&str, &[u8])]; 3] = [
        &[],
        &[("x-remote-user", b"admin"), ("x-remote-group", b"system:masters")],
        &[("x-forwarded-client-cert", b"Hash=00;Subject=\"CN=admin,O=system:masters\"")],
    ];
    for (case, is_alice, credential) in [
        ("certificate", true, &[][..]),
        ("token", false, &[("authorization", token.as_bytes())][..]),
        ("nobody", false, &[]),
        ("rejected", false, &[("authorization", b"Bearer unheard-of")]),
    ] {
        let with = |target: &TlsTarget| if is_alice { target.clone().identity(&shoot.alice) } else { target.clone() };
        let expected = reviewed_user(&with(&direct), credential);
        for (way, target) in &ways {
            for forged in forged {
                let headers = [credential, forged].concat();
                assert_eq!(reviewed_user(&with(target), &headers), expected, "{case}, {way}, {forged:?}");
            }
        }
    }
    for (case, (_, target)) in ["own-name", "wildcard-name", "apiserver-proxy"].iter().zip(&ways) {
        let addresses = listed_by(&shoot.kube, &target.clone().identity(&shoot.alice), case);
        assert_eq!(addresses, json!([CONNECTION]), "{case}");
    }
    nobody_else_gets_to_the_servers(&shoot);
    for (way, target) in &ways {
        let target = target.clone().identity(&shoot.alice);
        assert_eq!(reviewed_user(&target, &[]), reviewed_user(&direct.clone().identity(&shoot.alice), &[]), "{way}");
    }
    let other = H2Client::connect(&ways[0].1.clone().identity(&shoot.alice)).unwrap();
    assert_eq!(other.authority("api.two.dev.example.com").get("/api/v1/pods", &[]).unwrap().status, 421);
    nothing_was_refused(&shoot.mesh);
}

/// Another user of the seed, with a host of his own on the ingress gateway's pods, does not reach the servers.
fn nobody_else_gets_to_the_servers(shoot: &Shoot) {
    let server = TlsTarget::new(shoot.kube.apiservers()[0].address()).trust(shoot.kube.server_ca()).sni("localhost");
    let secrets =
        ["tls", "wildcard-tls", "istio-mtls"].map(|name| format!("{}-kube-apiserver-{name}", shoot.namespace));
    let other_tenant = OtherTenant {
        mesh: &shoot.mesh,
        address: shoot.mesh.target(HOST, &shoot.serving_ca).address(),
        label: "app: istio-ingressgateway",
        gateway: &format!("{}/kube-apiserver", shoot.namespace),
        hosts: "shop.example.com",
        service: &format!("kube-apiserver.{}.svc.cluster.local", shoot.namespace),
        kube: &shoot.kube,
        server,
        owner: &shoot.namespace,
        secrets: &secrets.each_ref().map(String::as_str),
        policy: &format!("{}-kube-apiserver", shoot.namespace),
    };
    let apply = |file: &str, objects: &str| shoot.kube.apply(&shoot.run.write(file, objects).unwrap()).unwrap();
    other_tenant.nobody_else_routes_to_the_servers(apply);
    other_tenant.nobody_else_names_the_secrets(apply);
}

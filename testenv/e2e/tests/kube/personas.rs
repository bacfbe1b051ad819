//! Platform admins, gateway operators and tenants, each with the role that `portcullis rbac --personas` prints: kube-apiserver
//! refuses to each of them what the others write, and to all of them Secrets and statuses.

use portcullis_harness::certs::{CertSpec, Identity};
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_harness::wait;
use serde_json::{Value, json};

use crate::sources::{GatewayApiSite, NAMESPACE, SOON, SourceFixture, printed};

/// The namespaces of the gateway operator and of the tenant.
const INFRA: &str = "infra";
const TEAM: &str = "team";
const GATEWAY_API: &str = "/apis/gateway.networking.k8s.io/v1";
/// Each with its role and the namespace in which it has it; none is the whole cluster.
const PERSONAS: [(char, &str, Option<&str>); 3] = [
    ('p', "portcullis-platform-admin", None),
    ('o', "portcullis-gateway-operator", Some(INFRA)),
    ('t', "portcullis-tenant", Some(TEAM)),
];

/// Kinds in namespaces, and the letters of the personas that write them.
const WRITERS: [(&str, &str, &str); 23] = [
    ("gatewayclasses", "", "p"),
    ("gatewaysettings", "", "p"),
    ("upstreamclusters", "", "p"),
    ("gateways", INFRA, "o"),
    ("gateways", TEAM, ""),
    ("gateways", NAMESPACE, ""),
    ("httproutes", TEAM, "t"),
    ("httproutes", INFRA, ""),
    ("tlsroutes", TEAM, "t"),
    ("tlsroutes", INFRA, ""),
    ("tlsroutes", NAMESPACE, ""),
    ("kubernetesupstreams", TEAM, "t"),
    ("kubernetesupstreams", INFRA, ""),
    ("referencegrants", INFRA, "o"),
    ("referencegrants", TEAM, "t"),
    // A grant there permits routes to lead to UpstreamClusters.
    ("referencegrants", NAMESPACE, ""),
    ("secrets", INFRA, ""),
    ("secrets", TEAM, ""),
    ("secrets", NAMESPACE, ""),
    ("configmaps", INFRA, ""),
    ("rolebindings", TEAM, ""),
    ("clusterrolebindings", "", ""),
    ("clusterroles", "", ""),
];

/// Kinds whose status the control plane writes.
const STATUSES: [(&str, &str); 7] = [
    ("gatewayclasses", ""),
    ("gatewaysettings", ""),
    ("upstreamclusters", ""),
    ("gateways", INFRA),
    ("httproutes", TEAM),
    ("tlsroutes", TEAM),
    ("kubernetesupstreams", TEAM),
];

struct Persona {
    letter: char,
    client: H2Client,
}

fn collection(plural: &str, namespace: &str) -> String {
    let group = match plural {
        "gatewaysettings" | "kubernetesupstreams" => "/apis/portcullis.dev/v1alpha1",
        "upstreamclusters" => "/apis/proxy.kubegateway.io/v1alpha1",
        "secrets" | "configmaps" => "/api/v1",
        "rolebindings" | "clusterrolebindings" | "clusterroles" => "/apis/rbac.authorization.k8s.io/v1",
        _ => GATEWAY_API,
    };
    if namespace.is_empty() { format!("{group}/{plural}") } else { format!("{group}/namespaces/{namespace}/{plural}") }
}

/// An object that the definitions accept.
fn object(fixture: &SourceFixture, plural: &str, name: &str) -> Value {
    let parents = json!([{"name": "edge", "namespace": INFRA}]);
    let backends = json!([{"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": "a.example.com"}]);
    let rules = json!([{"backendRefs": backends}]);
    let (version, kind, spec) = match plural {
        "gatewayclasses" => ("v1", "GatewayClass", json!({"controllerName": "example.com/other"})),
        "gatewaysettings" => {
            let version = "portcullis.dev/v1alpha1";
            return json!({"apiVersion": version, "kind": "GatewaySettings", "metadata": {"name": name}, "spec": {}});
        }
        "kubernetesupstreams" => {
            let references = json!({"upstreamCA": {"configMap": {"name": "ca"}}, "token": {"secret": {"name": "x"}}});
            let spec = json!({
                "servers": [{"endpoint": "https://10.0.0.1"}], "serverName": "kubernetes", "references": references,
            });
            let version = "portcullis.dev/v1alpha1";
            return json!({"apiVersion": version, "kind": "KubernetesUpstream", "metadata": {"name": name}, "spec": spec});
        }
        "upstreamclusters" => {
            return serde_json::from_str(&fixture.manifest(&format!("{name}.example.com")).to_text()).unwrap();
        }
        "gateways" => {
            let listener = json!({"name": "http", "port": 80, "protocol": "HTTP"});
            ("v1", "Gateway", json!({"gatewayClassName": "none", "listeners": [listener]}))
        }
        "httproutes" => ("v1", "HTTPRoute", json!({"parentRefs": parents, "hostnames": ["a.test"], "rules": rules})),
        "tlsroutes" => ("v1", "TLSRoute", json!({"parentRefs": parents, "hostnames": ["a.test"], "rules": rules})),
        "referencegrants" => {
            let from = json!([{"group": "gateway.networking.k8s.io", "kind": "TLSRoute", "namespace": "elsewhere"}]);
            ("v1", "ReferenceGrant", json!({"from": from, "to": [{"group": "", "kind": "Service"}]}))
        }
        _ => {
            let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"});
            let mut plain = json!({"metadata": {"name": name}});
            if plural.ends_with("bindings") {
                plain["roleRef"] = role;
            }
            return plain;
        }
    };
    let version = format!("gateway.networking.k8s.io/{version}");
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn name_in_path(plural: &str, name: &str) -> String {
    if plural == "upstreamclusters" { format!("{name}.example.com") } else { name.to_owned() }
}

/// A person with this role, and the kubeconfig of one.
fn persona(site: &GatewayApiSite, (letter, role, namespace): (char, &str, Option<&str>)) -> Persona {
    let fixture = &site.fixture;
    let user: Identity = fixture.kube.client_ca().issue(&CertSpec::client(role, [""; 0])).unwrap();
    let (role, name) = (format!("--clusterrole={role}"), format!("--user={role}"));
    match namespace {
        Some(namespace) => fixture.admin(&["create", "rolebinding", "persona", "-n", namespace, &role, &name]),
        None => fixture.admin(&["create", "clusterrolebinding", "persona", &role, &name]),
    };
    let address = fixture.kube.address(0).unwrap();
    let kubeconfig = Kubeconfig::new(format!("https://{address}")).ca(fixture.kube.server_ca()).identity(&user);
    let kubeconfig = kubeconfig.write(&fixture.run.join(&format!("{letter}.kubeconfig"))).unwrap();
    let secret =
        fixture.kube.kubectl(&kubeconfig).args(["create", "secret", "generic", "x", "-n", INFRA]).run().unwrap();
    assert!(!secret.success() && secret.stderr.contains("cannot create resource \"secrets\""), "{}", secret.stderr);
    let target = TlsTarget::new(address).trust(fixture.kube.server_ca()).identity(&user);
    let persona = Persona { letter, client: H2Client::connect(&target).unwrap() };
    let own = collection(if letter == 'p' { "gatewayclasses" } else { "gateways" }, namespace.unwrap_or_default());
    let has_role = || (persona.code("GET", &own, "application/json", "") == 200).then_some(());
    wait::until("the role is in effect", SOON, has_role).unwrap();
    persona
}

impl Persona {
    /// The codes of an attempt to create an object, to change one and to delete one.
    fn writes(&self, fixture: &SourceFixture, plural: &str, namespace: &str) -> [u16; 3] {
        let all = collection(plural, namespace);
        let old = format!("{all}/{}", name_in_path(plural, "old"));
        let new = object(fixture, plural, &format!("new-{}", self.letter)).to_string();
        let label = json!({"metadata": {"labels": {"by": self.letter.to_string()}}}).to_string();
        [
            self.code("POST", &all, "application/json", &new),
            self.code("PATCH", &old, "application/merge-patch+json", &label),
            self.code("DELETE", &format!("{old}?dryRun=All"), "application/json", ""),
        ]
    }

    fn code(&self, method: &str, path: &str, kind: &str, body: &str) -> u16 {
        let headers: [(&str, &[u8]); 1] = [("content-type", kind.as_bytes())];
        self.client.request(method, path, &headers, body.as_bytes()).unwrap().status
    }
}

#[test]
fn each_persona_is_refused_what_the_others_write() {
    let Some(site) = GatewayApiSite::start("personas") else { return };
    let fixture = &site.fixture;
    fixture.apply(&printed(&["rbac", "--personas"]));
    for namespace in [INFRA, TEAM] {
        fixture.admin(&["create", "namespace", namespace]);
    }
    for (plural, namespace, _) in WRITERS {
        fixture.kube.create(&collection(plural, namespace), &object(fixture, plural, "old")).unwrap();
    }
    let personas = PERSONAS.map(|one| persona(&site, one));
    let mut wrong = Vec::new();
    for (plural, namespace, writers) in WRITERS {
        for persona in &personas {
            let expected = if writers.contains(persona.letter) { [201, 200, 200] } else { [403; 3] };
            let found = persona.writes(fixture, plural, namespace);
            if found != expected {
                wrong.push(format!("{}: {plural} in {namespace:?}: {found:?}, not {expected:?}", persona.letter));
            }
        }
    }
    for (plural, namespace) in STATUSES {
        for persona in &personas {
            let path = format!("{}/{}/status", collection(plural, namespace), name_in_path(plural, "old"));
            let status = json!({"status": {"conditions": []}}).to_string();
            let code = persona.code("PATCH", &path, "application/merge-patch+json", &status);
            if code != 403 {
                wrong.push(format!("{}: status of {plural}: {code}", persona.letter));
            }
        }
    }
    for persona in &personas {
        let codes = [INFRA, TEAM, NAMESPACE].map(|namespace| {
            let path = collection("secrets", namespace);
            persona.code("GET", &path, "application/json", "")
        });
        assert_eq!(codes, [403; 3], "{} reads Secrets", persona.letter);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    println!("{} writes of {} personas", WRITERS.len() * 3 * personas.len(), personas.len());
}

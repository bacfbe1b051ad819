//! Platform admins, gateway operators and tenants, each with the roles that `portcullis rbac --personas` prints: kube-apiserver
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
/// A role, the namespace in which it is bound (none is the whole cluster), and a kind that it writes there.
type BoundRole = (&'static str, Option<&'static str>, &'static str);

/// Each with its roles.
const PERSONAS: [(char, &[BoundRole]); 3] = [
    (
        'p',
        &[
            ("portcullis-platform-admin", None, "gatewayclasses"),
            ("portcullis-policy-admin", Some(NAMESPACE), "dispatchpolicies"),
        ],
    ),
    ('o', &[("portcullis-gateway-operator", Some(INFRA), "gateways")]),
    ('t', &[("portcullis-tenant", Some(TEAM), "httproutes")]),
];

/// Kinds in namespaces, and the letters of the personas that write them.
const WRITERS: [(&str, &str, &str); 33] = [
    ("gatewayclasses", "", "p"),
    ("gatewaysettings", "", "p"),
    ("upstreamclusters", "", "p"),
    ("instances", "", "p"),
    // Of the control plane's own namespace they decide.
    ("dispatchpolicies", NAMESPACE, "p"),
    ("dispatchpolicies", INFRA, "o"),
    ("dispatchpolicies", TEAM, "t"),
    ("flowcontrolpolicies", NAMESPACE, "p"),
    ("flowcontrolpolicies", INFRA, "o"),
    ("flowcontrolpolicies", TEAM, "t"),
    ("upstreamidentitypolicies", NAMESPACE, "p"),
    ("upstreamidentitypolicies", INFRA, ""),
    ("upstreamidentitypolicies", TEAM, ""),
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
    // A grant there permits routes to lead to UpstreamClusters, and policies to tighten them.
    ("referencegrants", NAMESPACE, "p"),
    ("secrets", INFRA, ""),
    ("secrets", TEAM, ""),
    ("secrets", NAMESPACE, ""),
    ("configmaps", INFRA, ""),
    ("rolebindings", TEAM, ""),
    ("clusterrolebindings", "", ""),
    ("clusterroles", "", ""),
];

/// Kinds whose status the control plane writes.
const STATUSES: [(&str, &str); 14] = [
    ("instances", ""),
    ("dispatchpolicies", NAMESPACE),
    ("dispatchpolicies", TEAM),
    ("dispatchpolicies", INFRA),
    ("flowcontrolpolicies", NAMESPACE),
    ("flowcontrolpolicies", TEAM),
    ("upstreamidentitypolicies", NAMESPACE),
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
        "gatewaysettings" | "kubernetesupstreams" | "instances" => "/apis/portcullis.dev/v1alpha1",
        policies if policies.ends_with("policies") => "/apis/portcullis.dev/v1alpha1",
        "upstreamclusters" => "/apis/proxy.kubegateway.io/v1alpha1",
        "secrets" | "configmaps" => "/api/v1",
        "rolebindings" | "clusterrolebindings" | "clusterroles" => "/apis/rbac.authorization.k8s.io/v1",
        _ => GATEWAY_API,
    };
    if namespace.is_empty() { format!("{group}/{plural}") } else { format!("{group}/namespaces/{namespace}/{plural}") }
}

/// A policy that the definitions accept, at a cluster that is not there.
fn policy(plural: &str, name: &str) -> Value {
    let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    let (kind, overrides) = match plural {
        "dispatchpolicies" => {
            let denial = json!({"rules": [everything], "portcullis": {"action": "Deny"}});
            ("DispatchPolicy", json!({"dispatchPolicies": [denial]}))
        }
        "flowcontrolpolicies" => {
            let schema = json!({"name": "few", "maxRequestsInflight": {"max": 1}});
            ("FlowControlPolicy", json!({"flowControl": {"flowControlSchemas": [schema]}}))
        }
        _ => ("UpstreamIdentityPolicy", json!({"allowAnonymous": false})),
    };
    let target = json!({"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": "gone.example.com"});
    json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": kind, "metadata": {"name": name},
        "spec": {"targetRefs": [target], "overrides": overrides},
    })
}

/// An object that the definitions accept.
fn object(fixture: &SourceFixture, plural: &str, name: &str) -> Value {
    let parents = json!([{"name": "edge", "namespace": INFRA}]);
    let backends = json!([{"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": "a.example.com"}]);
    let rules = json!([{"backendRefs": backends}]);
    let (version, kind, spec) = match plural {
        policies if policies.ends_with("policies") => return policy(plural, name),
        "instances" => {
            let version = "portcullis.dev/v1alpha1";
            return json!({"apiVersion": version, "kind": "Instance", "metadata": {"name": name}, "spec": {}});
        }
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

/// A person with these roles, and the kubeconfig of one.
fn persona(site: &GatewayApiSite, (letter, roles): (char, &[BoundRole])) -> Persona {
    let fixture = &site.fixture;
    let person = format!("person-{letter}");
    let user: Identity = fixture.kube.client_ca().issue(&CertSpec::client(&person, [""; 0])).unwrap();
    for (role, namespace, _) in roles {
        let (role, name) = (format!("--clusterrole={role}"), format!("--user={person}"));
        match namespace {
            Some(namespace) => fixture.admin(&["create", "rolebinding", "persona", "-n", namespace, &role, &name]),
            None => fixture.admin(&["create", "clusterrolebinding", "persona", &role, &name]),
        };
    }
    let address = fixture.kube.address(0).unwrap();
    let kubeconfig = Kubeconfig::new(format!("https://{address}")).ca(fixture.kube.server_ca()).identity(&user);
    let kubeconfig = kubeconfig.write(&fixture.run.join(&format!("{letter}.kubeconfig"))).unwrap();
    let secret =
        fixture.kube.kubectl(&kubeconfig).args(["create", "secret", "generic", "x", "-n", INFRA]).run().unwrap();
    assert!(!secret.success() && secret.stderr.contains("cannot create resource \"secrets\""), "{}", secret.stderr);
    let target = TlsTarget::new(address).trust(fixture.kube.server_ca()).identity(&user);
    let persona = Persona { letter, client: H2Client::connect(&target).unwrap() };
    for (role, namespace, plural) in roles {
        let own = format!("{}?dryRun=All", collection(plural, namespace.unwrap_or_default()));
        // No object, and refused as that once the right is there.
        let has_role = || (persona.code("POST", &own, "application/json", "{}") != 403).then_some(());
        wait::until(role, SOON, has_role).unwrap();
    }
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

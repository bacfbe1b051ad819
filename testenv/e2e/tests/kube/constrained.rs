//! Constrained impersonation, which kube-apiserver has from 1.36 on: through the gateway its grants count for the users and the
//! requests for which they count directly, if the object says so.

use portcullis_e2e::{GatewayOptions, MetricsPage};
use portcullis_harness::certs::CertSpec;
use portcullis_harness::client::{Response, TlsTarget};
use portcullis_harness::deps;
use portcullis_harness::kube::KubeOptions;
use serde_json::{Value, json};

use crate::fixture::{Identities, KubeFixture, NAME};

const API: &str = "rbac.authorization.k8s.io";
const WHOAMI: (&str, &str) = ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews");
const PODS: (&str, &str) = ("GET", "/api/v1/namespaces/default/pods");
const DELETE: (&str, &str) = ("DELETE", "/api/v1/namespaces/default/pods/none");
const VERSION: (&str, &str) = ("GET", "/version");

type Lines<'a> = &'a [(&'a str, &'a str)];

/// A role of these rules, and whom it is for.
fn role(name: &str, rules: &Value, subject: &Value) -> Value {
    let kind = |kind: &str| json!({"apiVersion": format!("{API}/v1"), "kind": kind, "metadata": {"name": name}});
    let (mut role, mut binding) = (kind("ClusterRole"), kind("ClusterRoleBinding"));
    role["rules"] = rules.clone();
    binding["roleRef"] = json!({"apiGroup": API, "kind": "ClusterRole", "name": name});
    binding["subjects"] = json!([subject]);
    json!({"apiVersion": "v1", "kind": "List", "items": [role, binding]})
}

/// The right to act as something in a mode, and for which requests.
fn rules(mode: &str, objects: &[(&str, &str)]) -> Value {
    let own = "authentication.k8s.io";
    let named = |(resource, name): &(&str, &str)| {
        let names: &[&str] = if name.is_empty() { &[] } else { &[name] };
        json!({"apiGroups": [own], "resources": [resource], "resourceNames": names, "verbs": [format!("impersonate:{mode}")]})
    };
    let mut rules: Vec<Value> = objects.iter().map(named).collect();
    let on = |verb: &str| json!([format!("impersonate-on:{mode}:{verb}")]);
    rules.push(json!({"apiGroups": [own], "resources": ["selfsubjectreviews"], "verbs": on("create")}));
    rules.push(json!({"apiGroups": [""], "resources": ["pods"], "verbs": on("list")}));
    rules.push(json!({"nonResourceURLs": ["/version"], "verbs": on("get")}));
    json!(rules)
}

fn grant(fixture: &KubeFixture) {
    let user = |name: &str| json!({"kind": "User", "name": name, "apiGroup": API});
    fixture.admin(&["create", "serviceaccount", "agent"]);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent"}, "spec": {
        "nodeName": "n1", "serviceAccountName": "agent", "containers": [{"name": "c", "image": "none"}]}});
    let agent = json!({"kind": "ServiceAccount", "name": "agent", "namespace": "default"});
    let lists = [
        role("as-dave", &rules("user-info", &[("users", "dave"), ("groups", "dev")]), &user("modern")),
        role("as-robot", &rules("serviceaccount", &[("serviceaccounts", "robot")]), &user("deputy")),
        role("as-node", &rules("arbitrary-node", &[("nodes", "n1")]), &user("keeper")),
        role("as-own-node", &rules("associated-node", &[("nodes", "")]), &agent),
        pod,
    ];
    for (number, list) in lists.iter().enumerate() {
        let file = fixture.run.write(&format!("grant-{number}.json"), list.to_string()).unwrap();
        fixture.admin(&["apply", "--validate=false", "-f", file.to_str().unwrap()]);
    }
}

struct Sender {
    target: TlsTarget,
    token: Option<String>,
}

impl Sender {
    fn send(&self, (method, path): (&str, &str), lines: Lines<'_>) -> Response {
        let body = if method == "POST" {
            r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#
        } else {
            ""
        };
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: application/json\r\nConnection: close\r\n\
             Content-Length: {}\r\n",
            body.len()
        );
        let token = self.token.as_ref().map(|token| ("Authorization", format!("Bearer {token}")));
        for (name, value) in token.iter().map(|(name, value)| (*name, value.as_str())).chain(lines.iter().copied()) {
            request += &format!("{name}: {value}\r\n");
        }
        self.target.clone().raw_request(format!("{request}\r\n{body}").as_bytes()).unwrap()
    }
}

/// Status, and the user or the reason.
fn outcome(response: &Response) -> (u16, Value) {
    let mut body = response.json().unwrap_or_default();
    let told = if response.status == 201 { body["status"]["userInfo"].take() } else { body["reason"].take() };
    (response.status, told)
}

#[test]
fn constrained_grants_count_for_their_users_and_requests() {
    if deps::kube_minor() < 36 {
        return;
    }
    let options = (&KubeOptions::default(), &GatewayOptions::default());
    let Some(fixture) = KubeFixture::forwarding(Identities::Impersonate, "constrained", options.0, options.1) else {
        return;
    };
    grant(&fixture);
    let constrained = fixture.portcullis(json!({"constrainedImpersonation": true}));
    fixture.gateway.apply(&fixture.manifest().set("/spec/portcullis", constrained)).unwrap();
    let server = TlsTarget::new(fixture.kube.apiservers()[0].address())
        .trust(fixture.kube.server_ca())
        .sni("kubernetes.default.svc");
    let bound = ["create", "token", "agent", "--bound-object-kind=Pod", "--bound-object-name=agent"];
    let token = fixture.admin(&bound).trim().to_owned();
    let senders = |name: &str| {
        [server.clone(), fixture.target()].map(|target| match name {
            "agent" => Sender { target, token: Some(token.clone()) },
            name => {
                let spec = CertSpec::client(name, [""; 0]);
                Sender { target: target.identity(&fixture.kube.client_ca().issue(&spec).unwrap()), token: None }
            }
        })
    };
    let user = |name| ("Impersonate-User", name);
    let (dave, robot, n1) = (user("dave"), user("system:serviceaccount:default:robot"), user("system:node:n1"));
    let dev = ("Impersonate-Group", "dev");
    let scope = ("Impersonate-Extra-example.com%2fscope", "x");
    let table: [(&str, Lines<'_>, bool); 19] = [
        ("modern", &[dave], true),
        ("modern", &[dave, dev], true),
        ("modern", &[dave, ("Impersonate-Group", "ops")], false),
        ("modern", &[dave, ("Impersonate-Group", "system:masters")], false),
        ("modern", &[dave, scope], false),
        ("modern", &[dave, ("Impersonate-Uid", "1")], false),
        ("modern", &[user("eve")], false),
        ("modern", &[robot], false),
        ("modern", &[n1], false),
        ("deputy", &[robot], true),
        ("deputy", &[robot, dev], false),
        ("deputy", &[user("system:serviceaccount:default:agent")], false),
        ("keeper", &[n1], true),
        ("keeper", &[n1, dev], false),
        ("keeper", &[user("system:node:n2")], false),
        ("agent", &[n1], true),
        ("agent", &[user("system:node:n2")], false),
        ("agent", &[dave], false),
        ("mallory", &[dave], false),
    ];
    for (name, lines, may) in table {
        let [direct, through] = senders(name);
        for request in [WHOAMI, PODS, DELETE, VERSION] {
            let expected = outcome(&direct.send(request, lines));
            let found = outcome(&through.send(request, lines));
            assert_eq!(found, expected, "{name} {lines:?} {request:?}");
        }
        assert_eq!(outcome(&through.send(WHOAMI, lines)).0 == 201, may, "{name} {lines:?}");
        // Its grant is for other requests, and the refusal says so as kube-apiserver's does.
        let told = |sender: &Sender| sender.send(DELETE, lines).json().unwrap()["message"].clone();
        if may {
            assert_eq!(told(&through), told(&direct), "{name} {lines:?}");
        }
    }
    let refused = [("decision", "refused"), ("reason", "impersonation")];
    assert!(MetricsPage::of(&fixture.gateway).sum("requests_total", &refused) > 0);
}

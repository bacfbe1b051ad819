//! Whatever a client writes about identities, the gateway's answer is kube-apiserver's own: to the same request, or, for
//! headers that mean nothing there, to the request without them. SelfSubjectReview tells whom kube-apiserver takes the
//! sender for.

use portcullis_harness::certs::{CertSpec, Identity};
use portcullis_harness::client::{H2Client, Response, TlsConnection, TlsTarget};
use portcullis_harness::kube::KubeOptions;
use serde_json::{Value, json};

use crate::world::{NAME, World};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
/// Nobody here may do this, and kube-apiserver's refusal names the user. A review on an upgrade would not do: what follows the
/// head of an upgrade is its tunnel, not a body.
const EXEC: &str = "/api/v1/namespaces/default/pods/none/exec?command=x";
const REVIEW: &str = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;

/// Status, and what kube-apiserver says of the user, or the reason of the refusal. Of an upgrade, which user was refused.
type Outcome = (u16, Value);

/// What a client proves itself with.
enum Credential {
    Certificate(Box<Identity>),
    Token(String),
    None,
}

/// How a header is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Once,
    /// The second line says something else.
    Twice,
    MixedCase,
    /// Underscores for hyphens.
    Underscore,
    /// `Connection` names it.
    Nominated,
    Upgrade,
    /// On an upgrade, whose `Connection` names it.
    NominatedUpgrade,
    H2Once,
    H2Twice,
}

const FORMS: [Form; 9] = [
    Form::Once,
    Form::Twice,
    Form::MixedCase,
    Form::Underscore,
    Form::Nominated,
    Form::Upgrade,
    Form::NominatedUpgrade,
    Form::H2Once,
    Form::H2Twice,
];

/// Header lines that are sent together, the first one in various forms.
type Case = &'static [(&'static str, &'static str)];
type Lines<'a> = &'a [(&'static str, &'static str)];

const ACCOUNT: &str = "system:serviceaccount:default:robot";

/// What kube-apiserver judges: equal to the same request sent directly.
const IMPERSONATIONS: [Case; 24] = [
    &[("Impersonate-User", "dave")],
    &[("Impersonate-User", "carol")],
    &[("Impersonate-User", "")],
    &[("Impersonate-User", "Zoë")],
    &[("Impersonate-User", "a,b")],
    &[("Impersonate-User", "  dave  ")],
    &[("Impersonate-User", ACCOUNT)],
    &[("Impersonate-User", "system:serviceaccount:default:robot:x")],
    &[("Impersonate-User", "system:anonymous")],
    &[("Impersonate-User", "system:node:n")],
    &[("Impersonate-Group", "dev")],
    &[("Impersonate-Uid", "7")],
    &[("Impersonate-Extra-Scopes", "view")],
    &[("Impersonate-Group", "dev"), ("Impersonate-User", "dave")],
    &[("Impersonate-Group", "system:masters"), ("Impersonate-User", "dave")],
    &[("Impersonate-Group", "system:unauthenticated"), ("Impersonate-User", "dave")],
    &[("Impersonate-Group", "own"), ("Impersonate-User", ACCOUNT)],
    &[("Impersonate-Uid", "7"), ("Impersonate-User", "dave")],
    &[("Impersonate-Extra-Scopes", "view"), ("Impersonate-User", "dave")],
    &[("Impersonate-Extra-%41b", "view"), ("Impersonate-User", "dave")],
    &[("Impersonate-Extra-%zz", "view"), ("Impersonate-User", "dave")],
    &[("Impersonate-Extra-a.example%2fKey", "v"), ("Impersonate-User", "dave")],
    &[("Impersonate-Uid", "7"), ("Impersonate-Group", "dev"), ("Impersonate-Extra-Scopes", "x"), ("Impersonate-User", "d")],
    &[("Impersonate-User", "dave"), ("Impersonate-Group", "g1"), ("Impersonate-Group", "g2"), ("Impersonate-Group", "g1")],
];

/// What means nothing: equal to the request without it.
const FORGERIES: [Case; 15] = [
    &[("X-Remote-User", "admin")],
    &[("X-Remote-Group", "system:masters")],
    &[("X-Remote-Uid", "0")],
    &[("X-Remote-Extra-Scopes", "all")],
    &[("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters")],
    &[("X-Forwarded-Client-Cert", "Hash=00;Subject=\"CN=admin,O=system:masters\"")],
    &[("X-Envoy-Original-Path", "/api/v1/secrets")],
    &[("X-Envoy-Retry-On", "5xx")],
    &[("X-Envoy-Upstream-Rq-Timeout-Ms", "1")],
    &[("X-Envoy-Expected-Rq-Timeout-Ms", "1")],
    &[("X-Envoy-Decorator-Operation", "x")],
    &[("X-Envoy-Internal", "true")],
    &[("X-Portcullis-Destination", "all.h2.read")],
    &[("X-Portcullis-Cluster", "e2e/-/prod.example.com/all.h2")],
    &[("X-Portcullis-User", "admin")],
];

/// A client of one server with one credential: HTTP/1.1 kept alive as long as the server likes, HTTP/2 alike.
struct Client {
    target: TlsTarget,
    authorization: Option<String>,
    is_certain: bool,
    h1: Option<TlsConnection>,
    h2: Option<H2Client>,
}

impl Client {
    fn new(target: TlsTarget, credential: &Credential) -> Self {
        let is_certain = !matches!(credential, Credential::None);
        let (target, authorization) = match credential {
            Credential::Certificate(identity) => (target.identity(identity), None),
            Credential::Token(token) => (target, Some(format!("Bearer {token}"))),
            Credential::None => (target, None),
        };
        Client { target, authorization, is_certain, h1: None, h2: None }
    }

    fn send(&mut self, case: Lines<'_>, form: Form) -> Outcome {
        outcome(&match form {
            Form::H2Once | Form::H2Twice => self.send_h2(case, form),
            _ => self.send_h1(case, form),
        })
    }

    fn send_h1(&mut self, case: Lines<'_>, form: Form) -> Response {
        let is_upgrade = matches!(form, Form::Upgrade | Form::NominatedUpgrade);
        let (path, body) = if is_upgrade { (EXEC, "") } else { (REVIEWS, REVIEW) };
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        );
        for (name, value) in lines(case, form) {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        match (form, case) {
            (Form::Nominated, [(name, _), ..]) => request.push_str(&format!("Connection: {name}\r\n")),
            (Form::NominatedUpgrade, [(name, _), ..]) => {
                request.push_str(&format!("Connection: Upgrade, {name}\r\nUpgrade: websocket\r\n"));
            }
            (Form::Upgrade, _) => request.push_str("Connection: Upgrade\r\nUpgrade: websocket\r\n"),
            _ => {}
        }
        if let Some(authorization) = &self.authorization {
            request.push_str(&format!("Authorization: {authorization}\r\n"));
        }
        let request = format!("{request}\r\n{body}");
        let mut connection = self.h1.take().unwrap_or_else(|| self.target.connect().unwrap());
        connection.write(request.as_bytes()).unwrap();
        let response = connection.read_response(false).unwrap();
        let is_last = response.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        // What follows a request for an upgrade is not HTTP any more.
        self.h1 = (!is_last && !is_upgrade).then_some(connection);
        response
    }

    fn send_h2(&mut self, case: Lines<'_>, form: Form) -> Response {
        let mut headers: Vec<(String, Vec<u8>)> =
            lines(case, form).into_iter().map(|(name, value)| (name.to_lowercase(), value.into_bytes())).collect();
        headers.push(("content-type".to_owned(), b"application/json".to_vec()));
        if let Some(authorization) = &self.authorization {
            headers.push(("authorization".to_owned(), authorization.clone().into_bytes()));
        }
        let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (name.as_str(), &value[..])).collect();
        let usable = self.h2.take().filter(|client| !client.is_closed());
        let client = usable.unwrap_or_else(|| H2Client::connect(&self.target).unwrap());
        let response = client.request("POST", REVIEWS, &headers, REVIEW.as_bytes()).unwrap();
        // kube-apiserver closes after what it answers to nobody in particular.
        self.h2 = self.is_certain.then_some(client);
        response
    }
}

fn lines(case: Lines<'_>, form: Form) -> Vec<(String, String)> {
    let line = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let mut lines: Vec<_> = case.iter().map(line).collect();
    let Some((name, value)) = lines.first().cloned() else { return lines };
    match form {
        Form::Twice | Form::H2Twice => lines.insert(1, (name, format!("{value}2"))),
        Form::MixedCase => lines[0].0 = mixed_case(&name),
        Form::Underscore => lines[0].0 = name.replace('-', "_"),
        _ => {}
    }
    lines
}

/// What is left of a request when the first hop has taken out what `Connection` names, as HTTP has it (RFC 9110 7.6.1). Envoy
/// does so before any filter; kube-apiserver, which is no proxy, does not.
fn without_nominated(case: Case) -> Vec<(&'static str, &'static str)> {
    let nominated = case.first().map(|(name, _)| *name);
    case.iter().filter(|(name, _)| Some(*name) != nominated).copied().collect()
}

/// Where the gateway means to differ from what kube-apiserver said directly.
fn by_design(case: Case, form: Form, direct: Outcome) -> Outcome {
    let is_blank_ended = case.iter().any(|(_, value)| value.trim() != *value);
    match form {
        // HTTP/2 carries outer blanks, HTTP/1.1 trims them: told upstream, it would be another user on one of the two.
        Form::H2Once | Form::H2Twice if is_blank_ended && direct.0 == 201 => (400, json!("BadRequest")),
        _ => direct,
    }
}

fn mixed_case(name: &str) -> String {
    let flip = |(index, c): (usize, char)| {
        if index % 2 == 0 { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() }
    };
    name.chars().enumerate().map(flip).collect()
}

fn outcome(response: &Response) -> Outcome {
    let mut body = response.json().unwrap_or_else(|_| json!({"reason": response.text()}));
    let names_user = |text: &str| text.contains("cannot create resource \"pods/exec\"");
    let told = match body["message"].as_str() {
        Some(message) if names_user(message) => json!(message),
        _ if response.status == 201 => body["status"]["userInfo"].take(),
        _ => body["reason"].take(),
    };
    (response.status, told)
}

struct Sender {
    name: &'static str,
    credential: Credential,
}

fn senders(world: &World) -> Vec<Sender> {
    let certificate = |name: &str, groups: &[&str]| {
        let spec = CertSpec::client(name, groups.iter().copied()).uid(format!("uid-of-{name}"));
        Credential::Certificate(Box::new(world.kube.client_ca().issue(&spec).unwrap()))
    };
    let token = |name: &str| Credential::Token(world.admin(&["create", "token", name]).trim().to_owned());
    vec![
        Sender { name: "a certificate that may not", credential: certificate("mallory", &["dev"]) },
        Sender { name: "a certificate that may", credential: certificate("boss", &["leads"]) },
        Sender { name: "a certificate that may be dave", credential: certificate("half", &[]) },
        Sender { name: "a token that may not", credential: token("robot") },
        Sender { name: "a token that may", credential: token("deputy") },
        Sender { name: "nobody", credential: Credential::None },
    ]
}

fn grant(world: &World) {
    for account in ["robot", "deputy"] {
        world.admin(&["create", "serviceaccount", account]);
    }
    let role = |name: &str, rules: Value, subjects: Value| {
        let api = "rbac.authorization.k8s.io";
        json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": format!("{api}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
            {"apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
             "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": name}, "subjects": subjects},
        ]})
    };
    let user = |name: &str| json!({"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"});
    let rule = |group: &str, resources: &[&str], names: &[&str]| {
        json!({"apiGroups": [group], "resources": resources, "verbs": ["impersonate"], "resourceNames": names})
    };
    let may = role(
        "may-be-anybody",
        json!([rule("", &["users", "groups", "serviceaccounts"], &[]), rule("authentication.k8s.io", &["*"], &[])]),
        json!([user("boss"), {"kind": "ServiceAccount", "name": "deputy", "namespace": "default"}]),
    );
    let half = role(
        "may-be-dave",
        json!([rule("", &["users"], &["dave"]), rule("", &["groups"], &["dev"])]),
        json!([user("half")]),
    );
    // Constrained impersonation, which kube-apiserver has from 1.36 on.
    let constrained = role(
        "may-be-dave-here",
        json!([
            {"apiGroups": ["authentication.k8s.io"], "resources": ["users"], "resourceNames": ["dave"],
             "verbs": ["impersonate:user-info"]},
            {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"],
             "verbs": ["impersonate-on:user-info:create"]},
        ]),
        json!([user("modern")]),
    );
    // `portcullis rbac` grants the keys that Kubernetes itself writes; others are the operator's to add.
    let keys = ["userextras/Ab", "userextras/ab", "userextras/%zz", "userextras/a.example/Key", "userextras/a.example/key"];
    let extras =
        role("gateway-extras", json!([rule("authentication.k8s.io", &keys, &[])]), json!([user("portcullis")]));
    for (name, list) in [("may", may), ("half", half), ("constrained", constrained), ("extras", extras)] {
        let file = world.run.write(&format!("{name}.json"), list.to_string()).unwrap();
        world.admin(&["apply", "-f", file.to_str().unwrap()]);
    }
}

fn direct(world: &World) -> TlsTarget {
    TlsTarget::new(world.kube.apiservers()[0].address()).trust(world.kube.server_ca()).sni("kubernetes.default.svc")
}

#[test]
fn identity_headers_mean_what_they_mean_to_kube_apiserver_or_nothing() {
    let Some(world) = World::start("matrix", &KubeOptions::default()) else { return };
    grant(&world);
    let senders = senders(&world);
    let requests: usize = std::thread::scope(|scope| {
        let asking: Vec<_> = senders.iter().map(|sender| scope.spawn(|| compare(&world, sender))).collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    eprintln!("{requests} requests");
}

fn compare(world: &World, Sender { name, credential }: &Sender) -> usize {
    let mut requests = 0;
    let mut direct = Client::new(direct(world), credential);
    let mut through = Client::new(world.target(), credential);
    for form in FORMS {
        let clean = direct.send(&[], form);
        assert_eq!(through.send(&[], form), clean, "{name}, {form:?}");
        for case in IMPERSONATIONS {
            let expected = match form {
                Form::Nominated => direct.send(&without_nominated(case), Form::Once),
                _ => by_design(case, form, direct.send(case, form)),
            };
            assert_eq!(through.send(case, form), expected, "{name}, {form:?}: {case:?}");
            requests += 2;
        }
        for case in FORGERIES {
            assert_eq!(through.send(case, form), clean, "{name}, {form:?}: {case:?}");
            requests += 1;
        }
    }
    requests
}

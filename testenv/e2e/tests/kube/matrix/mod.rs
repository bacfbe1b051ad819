//! For anything that a client writes about identities, the gateway's answer is kube-apiserver's own: to the same request, or,
//! for headers without a meaning there, to the request without them. SelfSubjectReview names the user whom kube-apiserver sees.

mod cases;
mod client;
mod many_users;
mod names;
mod two_gateways;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::certs::{CertSpec, Identity};
use portcullis_harness::client::TlsTarget;
use portcullis_harness::deps;
use portcullis_harness::kube::KubeOptions;
use serde_json::{Value, json};

use crate::fixture::{Identities, KubeFixture, with_uid};
use cases::{Case, FORGERIES, FORMS, Form, IMPERSONATIONS};
use client::{Client, Credential, Outcome};

struct Sender {
    name: &'static str,
    credential: Credential,
}

fn senders(fixture: &KubeFixture) -> Vec<Sender> {
    let certificate = |name: &str, groups: &[&str]| {
        let spec = with_uid(CertSpec::client(name, groups.iter().copied()), &format!("uid-of-{name}"));
        Credential::Certificate(Box::new(fixture.kube.client_ca().issue(&spec).unwrap()))
    };
    let token = |name: &str| Credential::Token(fixture.admin(&["create", "token", name]).trim().to_owned());
    vec![
        Sender { name: "a certificate that may not", credential: certificate("mallory", &["dev"]) },
        Sender { name: "a certificate that may", credential: certificate("boss", &["leads"]) },
        Sender { name: "a certificate that may be dave", credential: certificate("half", &[]) },
        Sender { name: "a token that may not", credential: token("robot") },
        Sender { name: "a token that may", credential: token("deputy") },
        Sender { name: "nobody", credential: Credential::None },
    ]
}

fn grant(fixture: &KubeFixture) {
    for account in ["robot", "deputy"] {
        fixture.admin(&["create", "serviceaccount", account]);
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
    let rule = |group: &str, resources: &[&str], names: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": ["impersonate"], "resourceNames": names});
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
    let keys =
        ["userextras/Ab", "userextras/ab", "userextras/%zz", "userextras/a.example/Key", "userextras/a.example/key"];
    let extras =
        role("gateway-extras", json!([rule("authentication.k8s.io", &keys, &[])]), json!([user("portcullis")]));
    for (name, list) in [("may", may), ("half", half), ("constrained", constrained), ("extras", extras)] {
        let file = fixture.run.write(&format!("{name}.json"), list.to_string()).unwrap();
        fixture.admin(&["apply", "-f", file.to_str().unwrap()]);
    }
}

fn direct(fixture: &KubeFixture) -> TlsTarget {
    TlsTarget::new(fixture.kube.apiservers()[0].address()).trust(fixture.kube.server_ca()).sni("kubernetes.default.svc")
}

/// Every sender's requests, past the gateway and through it.
fn nobody_is_somebody_else(fixture: &KubeFixture) {
    grant(fixture);
    let senders = senders(fixture);
    let requests: usize = std::thread::scope(|scope| {
        let asking: Vec<_> = senders.iter().map(|sender| scope.spawn(|| compare(fixture, sender))).collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    eprintln!("{requests} requests");
}

#[test]
fn identity_headers_have_kube_apiservers_meaning_or_none() {
    let Some(fixture) = KubeFixture::start("matrix", &KubeOptions::default()) else { return };
    nobody_is_somebody_else(&fixture);
    where_the_gateway_differs_it_refuses(&fixture);
    many_users::users_each_see_only_themselves(&fixture, 100);
}

/// As an authenticating proxy, where impersonation is kube-apiserver's own matter.
#[test]
fn identity_headers_mean_no_more_to_a_front_proxys_apiserver() {
    let options = (&KubeOptions::default(), &GatewayOptions::default());
    let Some(fixture) = KubeFixture::forwarding(Identities::RequestHeader, "proxy-matrix", options.0, options.1) else {
        return;
    };
    nobody_is_somebody_else(&fixture);
    many_users::users_each_see_only_themselves(&fixture, 100);
}

#[test]
#[ignore = "takes longer than 30 seconds"]
fn thousand_users_each_see_only_themselves() {
    let Some(fixture) = KubeFixture::start("thousand", &KubeOptions::default()) else { return };
    many_users::users_each_see_only_themselves(&fixture, 1_000);
}

/// The gateway refuses requests that it cannot judge or forward; it never acts as if a header had not been there.
fn where_the_gateway_differs_it_refuses(fixture: &KubeFixture) {
    let certificate = |name: &str| {
        let identity = fixture.kube.client_ca().issue(&CertSpec::client(name, ["leads"])).unwrap();
        Credential::Certificate(Box::new(identity))
    };
    let refused = |name: &str, case: Case, form: Form| {
        let response = match form {
            Form::Once => Client::new(fixture.target(), &certificate(name)).send_h1(case, form),
            _ => Client::new(fixture.target(), &certificate(name)).send_h2(case, form),
        };
        assert_eq!(response.status, 403, "{name}: {case:?}");
        assert_eq!(response.json().unwrap()["reason"], "Forbidden", "{name}: {case:?}");
        response.text()
    };
    let directly = |name: &str, case: Case| Client::new(direct(fixture), &certificate(name)).send(case, Form::Once);
    for form in [Form::Once, Form::H2Once] {
        // kube-apiserver does not know the name and passes it over.
        let unknown: Case = &[("Impersonate-Unheard-Of", "x")];
        assert_eq!(directly("boss", unknown).1["username"], "boss");
        refused("boss", unknown, form);
        let with_user: Case = &[("Impersonate-User", "dave"), ("Impersonate-Unheard-Of", "x")];
        assert_eq!(directly("boss", with_user).1["username"], "dave");
        refused("boss", with_user, form);
        // The constrained grants of kube-apiserver 1.36 are not looked for.
        let constrained: Case = &[("Impersonate-User", "dave")];
        if deps::kube_minor() >= 36 {
            assert_eq!(directly("modern", constrained).1["username"], "dave");
        }
        let told = refused("modern", constrained, form);
        assert!(told.contains("grants of constrained impersonation do not count"), "{told}");
        // The client may, the gateway may not: its role names the keys that it passes on.
        let odd: Case = &[("Impersonate-User", "dave"), ("Impersonate-Extra-Other", "x")];
        assert_eq!(directly("boss", odd).1["extra"], json!({"other": ["x"]}));
        let told = refused("boss", odd, form);
        assert!(told.contains(r#"User \"portcullis\" cannot impersonate resource \"userextras/other\""#), "{told}");
    }
}

/// The headers of a request after the first hop has removed those that `Connection` lists (RFC 9110 7.6.1). Envoy does so
/// before any filter; kube-apiserver, which is no proxy, does not.
fn without_nominated(case: Case) -> Vec<(&'static str, &'static str)> {
    let nominated = case.first().map(|(name, _)| *name);
    case.iter().filter(|(name, _)| Some(*name) != nominated).copied().collect()
}

/// The outcome where the gateway differs from kube-apiserver on purpose.
fn by_design(fixture: &KubeFixture, case: Case, form: Form, direct: Outcome) -> Outcome {
    let is_blank_ended = case.iter().any(|(_, value)| value.trim() != *value);
    if fixture.identities == Identities::RequestHeader {
        // Values that would change on the way are refused.
        return if form == Form::NominatedUpgrade { (400, json!("BadRequest")) } else { direct };
    }
    match form {
        // HTTP/2 carries outer blanks, HTTP/1.1 trims them: forwarded, it would be another user on one of the two.
        Form::H2Once | Form::H2Twice if is_blank_ended && direct.0 == 201 => (400, json!("BadRequest")),
        _ => of_the_client(fixture, direct),
    }
}

/// A group without a user is the client's fault; before 1.35 kube-apiserver takes it for its own.
fn of_the_client(fixture: &KubeFixture, direct: Outcome) -> Outcome {
    let is_500 = direct.0 == 500 && direct.1.to_string().contains("without impersonating a user");
    if is_500 && fixture.identities == Identities::Impersonate { (400, json!("BadRequest")) } else { direct }
}

/// Whatever a user writes that means nothing, in any form, changes nothing.
pub(crate) fn forgeries_mean_nothing(fixture: &KubeFixture, user: &Identity) {
    let credential = Credential::Certificate(Box::new(user.clone()));
    let (mut direct, mut through) =
        (Client::new(direct(fixture), &credential), Client::new(fixture.target(), &credential));
    for form in FORMS {
        let clean = direct.send(&[], form);
        for case in FORGERIES {
            assert_eq!(through.send(case, form), clean, "{form:?}: {case:?}");
        }
    }
}

fn compare(fixture: &KubeFixture, Sender { name, credential }: &Sender) -> usize {
    let mut requests = 0;
    let mut direct = Client::new(direct(fixture), credential);
    let mut through = Client::new(fixture.target(), credential);
    for form in FORMS {
        let clean = direct.send(&[], form);
        assert_eq!(through.send(&[], form), clean, "{name}, {form:?}");
        for case in IMPERSONATIONS {
            let expected = match form {
                Form::Nominated => of_the_client(fixture, direct.send(&without_nominated(case), Form::Once)),
                _ => by_design(fixture, case, form, direct.send(case, form)),
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

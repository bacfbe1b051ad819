//! The user that the stub sees in a request.

#![cfg(test)]

mod common;

use common::Fixture;
use portcullis_harness::certs::{CertSpec, Identity};
use portcullis_harness::client::Response;
use portcullis_stub_apiserver::Anonymous;
use serde_json::{Value, json};

const REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn who(fixture: &Fixture, identity: Option<&Identity>, headers: &[(&str, &str)]) -> Response {
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).to_string();
    fixture.h2(identity).request("POST", REVIEW, &headers, body.as_bytes()).unwrap()
}

fn user(response: &Response) -> Value {
    response.json().unwrap()["status"]["userInfo"].clone()
}

#[test]
fn credentials_are_tried_in_order() {
    let fixture = Fixture::start(|options| options);
    let jane = fixture.user("jane", &["a", "b"]);
    let expired = fixture.client_ca.issue(&CertSpec::client("old", ["x"]).expired()).unwrap();
    let stranger = fixture.proxy_ca.issue(&CertSpec::client("jane", ["a"])).unwrap();
    type Case<'a> = (&'a str, Option<&'a Identity>, Option<&'a str>, u16, &'a str);
    let table: [Case<'_>; 11] = [
        ("certificate", Some(&jane), None, 201, "jane"),
        ("certificate before token", Some(&jane), Some("Bearer good"), 201, "jane"),
        ("certificate although the token is bad", Some(&jane), Some("Bearer bad"), 201, "jane"),
        ("token", None, Some("Bearer good"), 201, "tess"),
        ("scheme without case, text behind the token", None, Some("bEARER good more"), 201, "tess"),
        ("expired certificate and good token", Some(&expired), Some("Bearer good"), 201, "tess"),
        ("expired certificate alone", Some(&expired), None, 401, ""),
        ("certificate of another authority", Some(&stranger), None, 401, ""),
        ("bad token", None, Some("Bearer bad"), 401, ""),
        ("two blanks are no credential", None, Some("Bearer  good"), 403, ""),
        ("another scheme is no credential", None, Some("Basic Z29vZA=="), 403, ""),
    ];
    for (what, identity, authorization, status, name) in table {
        let headers: Vec<_> = authorization.map(|value| ("authorization", value)).into_iter().collect();
        let response = who(&fixture, identity, &headers);
        assert_eq!(response.status, status, "{what}: {}", response.text());
        if status == 201 {
            assert_eq!(user(&response)["username"], name, "{what}");
        } else {
            assert_eq!(response.json().unwrap()["kind"], "Status", "{what}");
        }
    }
    let groups = user(&who(&fixture, Some(&jane), &[]))["groups"].clone();
    assert_eq!(groups, json!(["a", "b", "system:authenticated"]));
}

#[test]
fn anonymous_access_has_three_settings() {
    let table = [
        (Anonymous::On, "/healthz", 200),
        (Anonymous::On, "/version", 200),
        (Anonymous::On, "/api/v1/namespaces/default/pods", 403),
        (Anonymous::Off, "/healthz", 401),
        (Anonymous::HealthOnly, "/readyz", 200),
        (Anonymous::HealthOnly, "/version", 401),
    ];
    for (anonymous, path, status) in table {
        let fixture = Fixture::start(|options| portcullis_stub_apiserver::StubOptions { anonymous, ..options });
        assert_eq!(fixture.h2(None).get(path, &[]).unwrap().status, status, "{anonymous:?} {path}");
    }
}

#[test]
fn impersonation_takes_effect_or_is_refused() {
    let fixture = Fixture::start(|options| options);
    let (admin, jane) = (fixture.user("admin", &["system:masters"]), fixture.user("jane", &["dev"]));
    let account = "system:serviceaccount:kube-system:builder";
    type Case<'a> = (&'a Identity, &'a [(&'a str, &'a str)], u16, Value);
    let table: [Case<'_>; 7] = [
        (
            &admin,
            &[
                ("impersonate-user", "bob"),
                ("impersonate-group", "g1"),
                ("impersonate-group", "g2"),
                ("impersonate-uid", "7"),
                ("impersonate-extra-a%2fb", "x"),
            ],
            201,
            json!({"username": "bob", "uid": "7", "groups": ["g1", "g2", "system:authenticated"], "extra": {"a/b": ["x"]}}),
        ),
        (
            &admin,
            &[("impersonate-user", account)],
            201,
            json!({"username": account, "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"]}),
        ),
        (
            &admin,
            &[("impersonate-user", "first"), ("impersonate-user", "second")],
            201,
            json!({"username": "first", "groups": ["system:authenticated"]}),
        ),
        (&admin, &[("impersonate-user", "system:anonymous")], 403, Value::Null),
        (&admin, &[("impersonate-group", "g")], 400, Value::Null),
        (&admin, &[("impersonate-uid", "7")], 400, Value::Null),
        (&jane, &[("impersonate-user", "bob")], 403, Value::Null),
    ];
    for (identity, headers, status, expected) in table {
        let response = who(&fixture, Some(identity), headers);
        assert_eq!(response.status, status, "{headers:?}: {}", response.text());
        if status == 201 {
            assert_eq!(user(&response), expected, "{headers:?}");
        }
    }
    let last = fixture.stub.records().pop().unwrap();
    assert_eq!(last.authenticated.unwrap().username, "jane");
    assert_eq!(last.effective, None);
}

#[test]
fn remote_headers_count_only_from_a_front_proxy() {
    let fixture = Fixture::start(|options| options);
    let proxies = fixture.proxy_ca.pem();
    let server_ca = &fixture.server_ca;
    let identity = server_ca.issue(&CertSpec::server("stub", ["stub.test"])).unwrap();
    let options = portcullis_stub_apiserver::StubOptions {
        requestheader_ca: Some(proxies),
        requestheader_names: vec!["proxy".to_owned()],
        ..portcullis_stub_apiserver::StubOptions::new(identity.pem(), identity.key_pem())
            .client_ca(fixture.client_ca.pem())
    };
    let stub = portcullis_stub_apiserver::StubServer::start(options).unwrap();
    let fixture = Fixture { stub, ..fixture };
    let issue = |ca: &portcullis_harness::certs::Ca, name| ca.issue(&CertSpec::client(name, ["dev"])).unwrap();
    let headers =
        [("x-remote-user", "bob"), ("x-remote-group", "g1"), ("x-remote-group", "g2"), ("x-remote-extra-k", "v")];
    let trusted = who(&fixture, Some(&issue(&fixture.proxy_ca, "proxy")), &headers);
    assert_eq!(
        user(&trusted),
        json!({"username": "bob", "groups": ["g1", "g2", "system:authenticated"], "extra": {"k": ["v"]}})
    );
    assert_eq!(who(&fixture, Some(&issue(&fixture.proxy_ca, "other")), &headers).status, 401);
    let ordinary = who(&fixture, Some(&issue(&fixture.client_ca, "jane")), &headers);
    assert_eq!(user(&ordinary)["username"], "jane");
    assert_eq!(who(&fixture, None, &headers).status, 403);
}

#[test]
fn reviews_answer_about_others() {
    let fixture = Fixture::start(|options| portcullis_stub_apiserver::StubOptions {
        impersonators: vec!["gate".to_owned()],
        forbidden_users: vec!["mallory".to_owned()],
        ..options
    });
    let client = fixture.h2(Some(&fixture.user("gate", &[])));
    let post = |path: &str, spec: Value| {
        let body = json!({"spec": spec}).to_string();
        client.request("POST", path, &[], body.as_bytes()).unwrap().json().unwrap()["status"].clone()
    };
    let tokens = "/apis/authentication.k8s.io/v1/tokenreviews";
    let good = post(tokens, json!({"token": "good", "audiences": ["a"]}));
    assert_eq!(good["authenticated"], true);
    assert_eq!(good["audiences"], json!(["a"]));
    assert_eq!(good["user"], json!({"username": "tess", "groups": ["dev", "system:authenticated"]}));
    assert_eq!(post(tokens, json!({"token": "bad"}))["authenticated"], false);
    let access = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let table = [
        ("gate", json!([]), "impersonate", true),
        ("tess", json!([]), "impersonate", false),
        ("tess", json!(["system:masters"]), "impersonate", true),
        ("tess", json!([]), "get", true),
        ("mallory", json!([]), "get", false),
    ];
    for (user, groups, verb, allowed) in table {
        let spec = json!({"user": user, "groups": groups, "resourceAttributes": {"verb": verb, "resource": "users", "name": "x"}});
        assert_eq!(post(access, spec)["allowed"], allowed, "{user} {groups} {verb}");
    }
}

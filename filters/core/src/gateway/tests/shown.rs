//! The attributes of a request, for routes and logs of an operator's own.

use portcullis_filter_config::RequestInfoExport;

use super::proxy::{AS_BOB, TOKEN};
use super::reviews::{access, reviewing_with, token_of};
use super::*;

fn showing(user: bool) -> Fixture {
    reviewing_with(|config| config.request_info = Some(RequestInfoExport { user, ..RequestInfoExport::default() }))
}

/// `key=value` of everything that the host writes, and whether the request goes on.
fn shown(fixture: &Fixture, method: &str, path: &str, headers: Headers<'_>) -> (Option<String>, bool) {
    let mut all = vec![(":method", method), (":path", path), (":authority", "prod.example.com")];
    all.extend_from_slice(headers);
    let mut answers = ReviewAnswers::default();
    loop {
        let scan = fixture
            .gateway
            .scan(Some(&fixture.route.cluster), all.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
        let request = RequestContext { scan: &scan, peer: Peer::None, answers: &answers, now: now(), uptime: UPTIME };
        let mut seen = RequestRecord::default();
        let decision = fixture.gateway.decide_recording(&fixture.route.cluster, &request, &mut seen);
        let Decision::Review(reviews) = decision else {
            let fields = |attributes: Box<crate::observe::RequestAttributes>| {
                let text = |(field, value): (portcullis_filter_config::names::request::Field, &str)| {
                    assert_eq!(field.state, format!("portcullis.request.{}", field.key));
                    format!("{}={value}", field.key)
                };
                attributes.fields().map(text).collect::<Vec<_>>().join(" ")
            };
            return (seen.attributes.map(fields), matches!(decision, Decision::Forward(_)));
        };
        assert!(seen.attributes.is_none(), "once, at the end");
        for review in reviews {
            let is_token = review.body().contains("TokenReview");
            let (status, body) = if is_token { token_of("robot") } else { access(true) };
            answers.push(review.key(), review.accept_answer(status, body.as_bytes(), UPTIME));
        }
    }
}

#[test]
fn request_is_told_as_kube_apiserver_resolves_it() {
    let fixture = showing(false);
    let table = [
        (
            "GET",
            "/api/v1/namespaces/n/pods/a/log?follow=1",
            "isResourceRequest=true verb=get class=watch apiGroup= apiVersion=v1 resource=pods subresource=log \
             namespace=n name=a",
        ),
        (
            "GET",
            "/apis/apps/v1/deployments?watch=1",
            "isResourceRequest=true verb=watch class=watch apiGroup=apps apiVersion=v1 resource=deployments subresource= \
             namespace= name=",
        ),
        (
            "POST",
            "/api/v1/namespaces/n/pods/a/exec?command=secret",
            "isResourceRequest=true verb=create class=session apiGroup= apiVersion=v1 resource=pods subresource=exec \
             namespace=n name=a",
        ),
        ("GET", "/healthz?verbose", "isResourceRequest=false verb=get class=read"),
        ("PATCH", "/", "isResourceRequest=false verb=patch class=write"),
        (
            "GET",
            "/api/v1/namespaces/n/pods/a%0Ab",
            "isResourceRequest=true verb=get class=read apiGroup= apiVersion=v1 resource=pods subresource= namespace=n \
             name=a\u{fffd}b",
        ),
    ];
    for (method, path, expected) in table {
        assert_eq!(shown(&fixture, method, path, &[]), (Some(expected.to_owned()), true), "{method} {path}");
    }
}

#[test]
fn fields_that_nothing_reads_are_not_exported() {
    let of = |export: &str| {
        let export: RequestInfoExport = serde_json::from_str(export).unwrap();
        let fixture = reviewing_with(|config| config.request_info = Some(export));
        shown(&fixture, "GET", "/api/v1/namespaces/n/pods/a", &[]).0.unwrap()
    };
    assert_eq!(of(r#"{"fields": ["resource", "class"]}"#), "class=read resource=pods");
    assert_eq!(of(r#"{"fields": ["name"], "user": true}"#), "class=read name=a user=system:anonymous");
    assert_eq!(of(r#"{"fields": []}"#), "class=read", "every route can ask whether the filter was there");
    for (text, fault) in [(r#"{"fields": ["user"]}"#, "unknown variant"), (r#"{"field": []}"#, "unknown field")] {
        let error = serde_json::from_str::<RequestInfoExport>(text).unwrap_err().to_string();
        assert!(error.contains(fault), "{error}");
    }
}

#[test]
fn refused_request_is_exported_as_far_as_known() {
    let fixture = showing(true);
    let list = "isResourceRequest=true verb=deletecollection class=write apiGroup= apiVersion=v1 resource=pods \
                subresource= namespace= name= user=system:anonymous";
    let table: [(&str, &str, Headers<'_>, Option<&str>); 4] = [
        ("DELETE", "/api/v1/pods", &[], Some(list)),
        ("GET", "/x", &[("authorization", "Bearer a\tb")], Some("isResourceRequest=false verb=get class=read")),
        ("GET", "/api/v1/%zz", &[], None),
        ("GET", "/x", &[("via", "1.1 lab")], None),
    ];
    for (method, path, headers, expected) in table {
        let expected = (expected.map(str::to_owned), false);
        assert_eq!(shown(&fixture, method, path, headers), expected, "{method} {path} {headers:?}");
    }
}

#[test]
fn effective_user_is_exported_if_asked_for() {
    let user = |fixture: &Fixture, headers: Headers<'_>| {
        let (shown, goes) = shown(fixture, "GET", "/healthz", headers);
        assert!(goes, "{headers:?}");
        shown.unwrap().split_once(" user=").map(|(_, user)| user.to_owned())
    };
    let (quiet, telling) = (showing(false), showing(true));
    for (headers, expected) in [(&[][..], "system:anonymous"), (&[TOKEN], "robot"), (&[TOKEN, AS_BOB], "bob")] {
        assert_eq!(user(&telling, headers).as_deref(), Some(expected));
        assert_eq!(user(&quiet, headers), None);
    }
    let unchanged = |reviews: bool| {
        fixture_with(|config| {
            let reviewing = r#"{"cluster": "apiserver"}"#;
            config.reviews = reviews.then(|| serde_json::from_str(reviewing).unwrap());
            config.request_info = Some(RequestInfoExport { user: true, ..RequestInfoExport::default() });
            config.upstream_identity = UpstreamIdentity::ClientCredential;
            config.client_ca = None;
        })
    };
    assert_eq!(user(&unchanged(true), &[TOKEN, AS_BOB]).as_deref(), Some("robot"), "whom it asks to be is not known");
    assert_eq!(user(&unchanged(false), &[TOKEN]), None, "nobody knows");
    assert_eq!(user(&unchanged(false), &[]).as_deref(), Some("system:anonymous"));
}

#[test]
fn attributes_are_not_exported_unless_asked_for() {
    assert_eq!(shown(&fixture(), "GET", "/healthz", &[]), (None, true));
}

//! Traces through a real kube-apiserver to its etcd, as a real OpenTelemetry collector receives them.

use std::time::Duration;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::certs::{CertSpec, Identity};
use portcullis_harness::client::H2Client;
use portcullis_harness::deps;
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::otel::{Collector, Span, Spans};
use portcullis_harness::rundir::RunDir;
use serde_json::json;

use crate::fixture::{Identities, KubeFixture, NAME};

/// Envoy and Go's exporters send spans every five seconds.
const ARRIVES: Duration = Duration::from_secs(40);
/// The group whose members kube-apiserver believes about traces, beside `system:masters`.
const MONITORING: &str = "system:monitoring";
/// A client's span.
const CLIENT: &str = "b7ad6b7169203331";

struct Traced {
    fixture: KubeFixture,
    collector: Collector,
    // Removed last.
    _run: RunDir,
}

/// A gateway, a kube-apiserver and an etcd that send spans to one collector. The gateway trusts its clients' traces and begins
/// none.
fn traced(test: &str, identities: Identities) -> Option<Traced> {
    deps::otel_or_skip(test).unwrap()?;
    let run = RunDir::new(&format!("{test}-otel")).unwrap();
    let collector = Collector::start(&run).unwrap();
    let options = KubeOptions { traces: Some(collector.grpc()), ..KubeOptions::default() };
    let plane_flags = vec!["--tracing-endpoint".to_owned(), format!("http://{}", collector.grpc())];
    let gateway = GatewayOptions { plane_flags, ..GatewayOptions::default() };
    let fixture = KubeFixture::forwarding(identities, test, &options, &gateway)?;
    let tracing = json!({"endpoint": collector.grpc().to_string(), "parents": "Trusted"});
    fixture.gateway.change_settings(|spec| spec["tracing"] = tracing).unwrap();
    Some(Traced { fixture, collector, _run: run })
}

impl Traced {
    /// A request in a client's trace of that number.
    fn get(&self, user: &Identity, path: &str, number: u32) -> u16 {
        let client = H2Client::connect(&self.fixture.target().identity(user)).unwrap();
        let parent = format!("00-{}-{CLIENT}-01", trace(number));
        client.get(path, &[("traceparent", &parent)]).unwrap().status
    }

    fn wait(&self, what: &str, number: u32, wanted: impl Fn(&Span) -> bool) -> Span {
        self.collector.wait_span(what, ARRIVES, |span| span.trace == trace(number) && wanted(span)).unwrap()
    }

    /// The spans from one to the first of its trace, itself included.
    fn line_of(&self, span: &Span) -> Vec<Span> {
        let spans = self.collector.spans().unwrap();
        let above = |below: &Span| spans.iter().find(|one| one.id == below.parent && one.trace == below.trace).cloned();
        std::iter::successors(Some(span.clone()), above).collect()
    }
}

fn trace(number: u32) -> String {
    format!("{number:032x}")
}

#[test]
fn one_trace_leads_from_a_client_through_the_gateway_to_etcd() {
    let Some(traced) = traced("traces", Identities::Impersonate) else { return };
    let fixture = &traced.fixture;
    fixture.admin(&["create", "configmap", "traced"]);
    let path = "/api/v1/namespaces/default/configmaps/traced";

    assert_eq!(traced.get(&fixture.alice, path, 1), 200);
    let watcher = fixture.kube.client_ca().issue(&CertSpec::client("portcullis", [MONITORING])).unwrap();
    let joined = fixture.manifest().upstream(&watcher, fixture.kube.server_ca(), "kubernetes.default.svc");
    fixture.gateway.apply(&joined).unwrap();
    assert_eq!(traced.get(&fixture.alice, path, 2), 200);

    let of_etcd = |span: &Span| span.service == "etcd" && span.name.contains("Range");
    let deepest = traced.wait("etcd's span of the read", 2, of_etcd);
    traced.wait("the gateway's span", 2, |span| span.service == "e2e" && span.kind == 2);
    // It ends after those below it.
    traced.wait("kube-apiserver's span of the request", 2, |span| span.service == "apiserver" && span.kind == 2);
    let line = traced.line_of(&deepest);
    let mut services: Vec<_> = line.iter().map(|span| span.service.as_str()).collect();
    services.dedup();
    assert_eq!(services, ["etcd", "apiserver", "e2e"], "{line:#?}");
    let (first, _) = line.split_last().unwrap();
    assert_eq!((first.parent.as_str(), first.name.as_str()), (CLIENT, "GET configmaps"), "{line:#?}");
    for pair in line.windows(2) {
        assert!(pair[0].start >= pair[1].start, "a span began before the one that it is below: {pair:#?}");
    }

    // By now its spans would have come as well. The gateway's account was none that kube-apiserver believes.
    let first = traced.wait("the gateway's span of the first request", 1, |span| span.kind == 2);
    assert_eq!(first.service, "e2e");
    let others = traced.collector.spans().unwrap().into_iter().filter(|span| span.trace == trace(1));
    assert!(others.into_iter().all(|span| span.service == "e2e"), "kube-apiserver joins no trace of a stranger");
}

#[test]
fn review_is_in_the_trace_of_the_request_that_waits_for_it() {
    let Some(traced) = traced("traces-review", Identities::Impersonate) else { return };
    let fixture = &traced.fixture;
    let watcher = fixture.kube.client_ca().issue(&CertSpec::client("portcullis", [MONITORING])).unwrap();
    let joined = fixture.manifest().upstream(&watcher, fixture.kube.server_ca(), "kubernetes.default.svc");
    fixture.gateway.apply(&joined).unwrap();
    fixture.admin(&["create", "serviceaccount", "robot"]);
    let token = fixture.admin(&["create", "token", "robot"]).trim().to_owned();
    let client = H2Client::connect(&fixture.target()).unwrap();
    let parent = format!("00-{}-{CLIENT}-01", trace(3));
    let bearer = format!("Bearer {token}");
    client.get("/api", &[("traceparent", &parent), ("authorization", &bearer)]).unwrap();

    let is_review = |span: &Span| span.service == "apiserver" && span.name.ends_with("/tokenreviews");
    let review = traced.wait("kube-apiserver's span of the review", 3, is_review);
    traced.wait("the gateway's span", 3, |span| span.service == "e2e" && span.kind == 2);
    let names: Vec<_> = traced.line_of(&review).iter().map(|span| format!("{} {}", span.service, span.name)).collect();
    assert_eq!(names[1..], ["e2e TokenReview".to_owned(), "e2e GET".to_owned()], "{names:?}");
    let told = format!("{:?}", traced.collector.spans().unwrap());
    let signature = token.rsplit('.').next().unwrap();
    assert!(!told.contains(signature), "a token is in a span");
}

#[test]
fn apiserver_of_front_proxies_joins_traces_of_users_it_believes() {
    let Some(traced) = traced("traces-front", Identities::RequestHeader) else { return };
    let fixture = &traced.fixture;
    let watcher = fixture.kube.client_ca().issue(&CertSpec::client("watcher", [MONITORING])).unwrap();
    assert_eq!(traced.get(&watcher, "/livez", 4), 200);
    assert_eq!(traced.get(&fixture.alice, "/version", 5), 200);
    let joined = traced.wait("kube-apiserver's span", 4, |span| span.service == "apiserver");
    traced.wait("the gateway's span of it", 4, |span| span.service == "e2e" && span.kind == 2);
    let services: Vec<_> = traced.line_of(&joined).into_iter().map(|span| span.service).collect();
    assert_eq!(services.last().map(String::as_str), Some("e2e"), "{services:?}");
    traced.wait("the gateway's span of the other", 5, |span| span.kind == 2);
    let spans = traced.collector.spans().unwrap();
    assert!(spans.iter().filter(|span| span.trace == trace(5)).all(|span| span.service == "e2e"), "{spans:#?}");
}

#[test]
fn edit_is_traced_to_its_last_acknowledgement_at_the_collector() {
    let Some(traced) = traced("traces-edit", Identities::Impersonate) else { return };
    let is_edit = |span: &Span| span.name == "edit" && span.attribute("portcullis.changed") == NAME;
    let edit = traced.collector.wait_span("the edit", ARRIVES, is_edit).unwrap();
    assert_eq!((edit.service.as_str(), edit.attribute("portcullis.outcome")), ("portcullis", "acknowledged"));
    let spans = traced.collector.spans().unwrap().into_iter().filter(|span| span.parent == edit.id);
    let last = spans.max_by_key(|span| span.end).unwrap();
    assert_eq!(
        (last.name.as_str(), last.attribute("portcullis.gateway"), last.end),
        ("acknowledge", "envoy-0", edit.end)
    );
}

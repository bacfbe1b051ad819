//! References across namespaces.

use serde_json::{Value, json};

use super::world::{
    HOME, INFRA, assert_lines, class, gateway, http_route, inventory, listener, object, read, tls_route,
};
use crate::{Inventory, attach};

fn grant(namespace: &str, from: &Value, to: &Value) -> Value {
    object("ReferenceGrant", namespace, "grant", &json!({"from": [from], "to": [to]}))
}

fn from(kind: &str, namespace: &str) -> Value {
    json!({"group": "gateway.networking.k8s.io", "kind": kind, "namespace": namespace})
}

fn to(kind: &str, name: Option<&str>) -> Value {
    let group = if kind == "UpstreamCluster" { "proxy.kubegateway.io" } else { "" };
    match name {
        Some(name) => json!({"group": group, "kind": kind, "name": name}),
        None => json!({"group": group, "kind": kind}),
    }
}

#[test]
fn certificate_of_another_namespace_needs_a_grant() {
    let mut https = listener("l", 443, "HTTPS", "a.test");
    https["tls"] = json!({"certificateRefs": [{"name": "cert", "namespace": "other"}]});
    let gateway = gateway(&json!([https]));
    let (good, bad) = (
        ["listener l ResolvedRefs True ResolvedRefs", "served l:443 a.test terminate other/cert"],
        ["listener l ResolvedRefs False RefNotPermitted", "no served"],
    );
    let from_gateway = || from("Gateway", INFRA);
    let with = |mut value: Value, field: &str| {
        value["ofALaterRelease"] = json!(field);
        value
    };
    let mut narrowed = grant("other", &from_gateway(), &to("Secret", None));
    narrowed["spec"]["conditions"] = json!(["never"]);
    for (why, grant, is_good) in [
        ("one for it", grant("other", &from_gateway(), &to("Secret", Some("cert"))), true),
        ("one for all", grant("other", &from_gateway(), &to("Secret", None)), true),
        ("an empty name is none", grant("other", &from_gateway(), &to("Secret", Some(""))), false),
        ("another name", grant("other", &from_gateway(), &to("Secret", Some("another"))), false),
        ("another kind", grant("other", &from_gateway(), &to("ConfigMap", Some("cert"))), false),
        ("another group", grant("other", &from_gateway(), &json!({"group": "a.test", "kind": "Secret"})), false),
        ("in the Gateway's namespace", grant(INFRA, &from_gateway(), &to("Secret", None)), false),
        ("from another namespace", grant("other", &from("Gateway", "other"), &to("Secret", None)), false),
        ("from another kind", grant("other", &from("HTTPRoute", INFRA), &to("Secret", None)), false),
        (
            "from another group",
            grant("other", &json!({"group": "", "kind": "Gateway", "namespace": INFRA}), &to("Secret", None)),
            false,
        ),
        ("a field that may narrow it", narrowed, false),
        ("such a field of what it is for", grant("other", &from_gateway(), &with(to("Secret", None), "x")), false),
        ("such a field of who may", grant("other", &with(from_gateway(), "x"), &to("Secret", None)), false),
    ] {
        assert_lines(why, &[gateway.clone(), grant], if is_good { &good } else { &bad });
    }
    assert_lines("none", &[gateway], &bad);
}

#[test]
fn backend_of_another_namespace_needs_a_grant() {
    let gateway = |protocol: &str| gateway(&json!([listener("l", 443, protocol, "")]));
    let route = |kind: &str, backend: Value| {
        let spec = json!({
            "parentRefs": [{"name": "g", "namespace": INFRA}], "hostnames": ["a.test"],
            "rules": [{"backendRefs": [backend]}],
        });
        object(kind, "team-a", "r", &spec)
    };
    let service = |namespace: &str, name: &str| json!({"name": name, "namespace": namespace, "port": 443});
    let cluster = |name: &str| json!({"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": name});
    let tls = |backend: Value, grants: Vec<Value>, expected: &[&str], why: &str| {
        let documents: Vec<Value> = [gateway("TLS"), route("TLSRoute", backend)].into_iter().chain(grants).collect();
        assert_lines(why, &documents, expected);
    };
    let refused =
        ["route r ResolvedRefs False RefNotPermitted", "route r Accepted True", "bound l a.test r -> refused*1"];
    tls(service("other", "svc"), vec![], &refused, "no grant");
    tls(service("other", "none"), vec![], &refused, "whether it is there is not told");
    let for_service = || grant("other", &from("TLSRoute", "team-a"), &to("Service", None));
    tls(service("other", "svc"), vec![for_service()], &["bound l a.test r -> other/svc:443*1"], "a grant");
    let missing = ["route r ResolvedRefs False BackendNotFound", "bound l a.test r -> refused*1"];
    tls(service("other", "none"), vec![for_service()], &missing, "not there");
    tls(json!({"name": "svc", "namespace": "other", "port": 80}), vec![for_service()], &missing, "no such port");
    tls(json!({"name": "svc", "namespace": "other"}), vec![for_service()], &missing, "no port");
    tls(cluster("c2"), vec![], &refused, "a cluster without a grant");
    tls(
        cluster("c2"),
        vec![grant("team-a", &from("TLSRoute", "team-a"), &to("UpstreamCluster", None))],
        &refused,
        "one's own grant",
    );
    let for_cluster = |kind: &str| grant(HOME, &from(kind, "team-a"), &to("UpstreamCluster", Some("c2")));
    tls(
        cluster("c2"),
        vec![for_cluster("TLSRoute")],
        &["bound l a.test r -> c2*1"],
        "a grant of the control plane's namespace",
    );
    tls(cluster("c1"), vec![for_cluster("TLSRoute")], &refused, "for another cluster");
    tls(cluster("c2"), vec![for_cluster("HTTPRoute")], &refused, "for another kind of route");
    let mut namespaced = cluster("c2");
    namespaced["namespace"] = json!(HOME);
    tls(namespaced, vec![for_cluster("TLSRoute")], &missing, "a namespace of a cluster");
    let documents = [gateway("HTTPS"), route("HTTPRoute", cluster("c2")), for_cluster("HTTPRoute")];
    assert_lines("an HTTPRoute", &documents, &["bound l a.test r -> c2*1", "route r ResolvedRefs True"]);
}

#[test]
fn backend_of_another_kind_is_invalid() {
    let tls = |backend: &Value| {
        let spec = json!({
            "parentRefs": [{"name": "g", "namespace": INFRA}], "hostnames": ["a.test"],
            "rules": [{"backendRefs": [backend]}],
        });
        object("TLSRoute", INFRA, "r", &spec)
    };
    let expected = ["route r ResolvedRefs False InvalidKind", "route r Accepted True", "bound l a.test r -> refused*1"];
    let gateway_of = |protocol: &str| gateway(&json!([listener("l", 443, protocol, "")]));
    for backend in [
        json!({"kind": "NonExistent", "name": "svc", "port": 443}),
        json!({"group": "example.com", "kind": "Service", "name": "svc", "port": 443}),
        json!({"group": "multicluster.x-k8s.io", "kind": "ServiceImport", "name": "svc", "port": 443}),
        json!({"group": "example.com", "kind": "UpstreamCluster", "name": "c2"}),
    ] {
        assert_lines(&backend.to_string(), &[gateway_of("TLS"), tls(&backend)], &expected);
    }
    let mut http = tls(&json!({"name": "svc", "port": 443}));
    http["kind"] = json!("HTTPRoute");
    assert_lines("requests to a Service", &[gateway_of("HTTPS"), http], &expected);
}

#[test]
fn cluster_that_keeps_users_out_refuses_a_tls_route_alone() {
    let mut tls = listener("t", 443, "TLS", "*.t.test");
    tls["tls"] = json!({"mode": "Passthrough"});
    let mut https = listener("h", 443, "HTTPS", "*.h.test");
    https["tls"] = json!({"certificateRefs": [{"name": "cert"}]});
    let objects = read(&[
        class(),
        gateway(&json!([tls, https])),
        tls_route("passed", &["a.t.test"], &["c1", "c2"]),
        http_route("judged", &["a.h.test"], &["c1"]),
        grant(HOME, &from("TLSRoute", INFRA), &to("UpstreamCluster", None)),
        grant(HOME, &from("HTTPRoute", INFRA), &to("UpstreamCluster", None)),
    ]);
    let judging_clusters = [("c1".to_owned(), "it has access lists".to_owned())].into();
    let attached = attach(&objects, &Inventory { judging_clusters, ..inventory() });
    let condition = |name: &str| {
        let route = attached.routes.iter().find(|route| route.name.name == name).unwrap();
        let found = route.parents[0].conditions.iter().find(|one| one.kind == "ResolvedRefs").unwrap();
        (found.reason, found.message.clone())
    };
    let (reason, message) = condition("passed");
    assert!(
        reason == "PassthroughRefused" && message.ends_with("UpstreamCluster c1: it has access lists"),
        "{message}"
    );
    assert_eq!(condition("judged").0, "ResolvedRefs");
    assert_eq!(attached.passed_clusters, ["c1", "c2"].map(str::to_owned).into(), "whether they can be or not");
    let served: Vec<_> = attached.served[0].passed_on_backends().collect();
    assert_eq!(served.len(), 1, "{served:?}");
}

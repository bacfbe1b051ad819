//! Attachment of routes to listeners.

use serde_json::{Value, json};

use super::world::{
    HOME, INFRA, assert_lines, backends, class, gateway, http_route, inventory, listener, object, outcome, read,
    tls_route,
};
use crate::{Inventory, UnseenKinds, attach};

fn with_parents(mut route: Value, parents: &Value) -> Value {
    route["spec"]["parentRefs"] = parents.clone();
    route
}

fn two() -> Value {
    gateway(&json!([listener("a", 443, "TLS", ""), listener("b", 8443, "TLS", "")]))
}

#[test]
fn parent_reference_chooses_listeners() {
    let parent = |fields: &Value| {
        let mut parent = json!({"name": "g", "namespace": INFRA});
        for (name, value) in fields.as_object().unwrap() {
            parent[name] = value.clone();
        }
        json!([parent])
    };
    let both = ["bound a a.test r", "bound b a.test r"];
    let none = ["no route r", "no bound"];
    for (why, fields, expected) in [
        ("the Gateway", json!({}), &both[..]),
        ("a listener", json!({"sectionName": "b"}), &["no bound a", "bound b a.test r"]),
        ("a port", json!({"port": 443}), &["bound a a.test r", "no bound b"]),
        ("both of one", json!({"sectionName": "a", "port": 443}), &["bound a a.test r", "no bound b"]),
        (
            "both of different ones",
            json!({"sectionName": "a", "port": 8443}),
            &["route r#a Accepted False NoMatchingParent", "no bound"],
        ),
        (
            "no listener of that name",
            json!({"sectionName": "c"}),
            &["route r#c Accepted False NoMatchingParent", "no bound"],
        ),
        ("no listener of that port", json!({"port": 444}), &["route r Accepted False NoMatchingParent", "no bound"]),
        ("another Gateway", json!({"name": "other"}), &none),
        ("another namespace", json!({"namespace": "other"}), &none),
        ("a Service", json!({"group": "", "kind": "Service"}), &none),
        ("a ListenerSet", json!({"kind": "ListenerSet"}), &none),
    ] {
        let route = with_parents(tls_route("r", &["a.test"], &["c2"]), &parent(&fields));
        assert_lines(why, &[two(), route], expected);
    }
}

#[test]
fn route_has_a_verdict_for_each_parent() {
    let parent = |name: &str| json!({"name": "g", "namespace": INFRA, "sectionName": name});
    let route = with_parents(tls_route("r", &["a.test"], &["c2"]), &json!([parent("a"), parent("c"), parent("b")]));
    let expected = [
        "route r#a Accepted True",
        "route r#b Accepted True",
        "route r#c Accepted False NoMatchingParent",
        "listener a kinds TLSRoute routes 1",
        "listener b kinds TLSRoute routes 1",
    ];
    assert_lines("three", &[two(), route], &expected);
    let twice =
        with_parents(tls_route("r", &["a.test"], &["c2"]), &json!([parent("a"), {"name": "g", "namespace": INFRA}]));
    assert_lines("one listener twice", &[two(), twice], &["listener a kinds TLSRoute routes 1", "bound a a.test r"]);
}

#[test]
fn namespaces_are_those_that_the_listener_allows() {
    let allowing = |namespaces: &Value| {
        let mut listener = listener("l", 443, "TLS", "");
        listener["allowedRoutes"] = json!({"namespaces": namespaces});
        gateway(&json!([listener]))
    };
    let selector = |selector: &Value| json!({"from": "Selector", "selector": selector});
    let refused = "route r Accepted False NotAllowedByListeners";
    let accepted = "route r Accepted True";
    for (why, namespaces, namespace, expected) in [
        ("all", json!({"from": "All"}), "team-a", accepted),
        ("the Gateway's own", json!({"from": "Same"}), INFRA, accepted),
        ("another one", json!({"from": "Same"}), "team-a", refused),
        ("by default", json!({}), INFRA, accepted),
        ("by default another one", json!({}), "team-a", refused),
        ("selected", selector(&json!({"matchLabels": {"team": "a"}})), "team-a", accepted),
        ("not selected", selector(&json!({"matchLabels": {"team": "a"}})), "team-b", refused),
        ("all that are known", selector(&json!({})), "team-b", accepted),
        ("not known", selector(&json!({})), "unknown", refused),
        ("no selector", json!({"from": "Selector"}), "team-a", refused),
        ("an unknown word", json!({"from": "Trusted"}), INFRA, refused),
        ("an unknown field", json!({"from": "All", "except": ["team-a"]}), INFRA, refused),
        ("an unknown field of the selector", selector(&json!({"matchFields": [1]})), "team-a", refused),
        (
            "an unknown field of a requirement",
            selector(&json!({"matchExpressions": [{"key": "team", "operator": "Exists", "scope": "x"}]})),
            "team-a",
            refused,
        ),
    ] {
        let spec = json!({
            "parentRefs": [{"name": "g", "namespace": INFRA}], "hostnames": ["a.test"],
            "rules": [{"backendRefs": [{"name": "svc", "port": 443}]}],
        });
        let route = object("TLSRoute", namespace, "r", &spec);
        let attached = if expected == accepted { "routes 1" } else { "routes 0" };
        let listener = format!("listener l kinds TLSRoute {attached}");
        assert_lines(why, &[allowing(&namespaces), route], &[expected, &listener]);
    }
}

#[test]
fn namespace_that_is_not_known_has_its_name() {
    let name = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": operator, "values": values}]});
    for (why, selector, is_selected) in [
        ("its name", json!({"matchLabels": {"kubernetes.io/metadata.name": "team-x"}}), true),
        ("another name", json!({"matchLabels": {"kubernetes.io/metadata.name": "team-y"}}), false),
        ("one of several names", name("In", &["team-y", "team-x"]), true),
        ("a name that it does not have", name("NotIn", &["team-x"]), false),
        ("all", json!({}), true),
        ("another label", json!({"matchLabels": {"kubernetes.io/metadata.name": "team-x", "team": "x"}}), false),
        ("the lack of a label", json!({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}), false),
    ] {
        let mut one = listener("l", 443, "TLS", "");
        one["allowedRoutes"] = json!({"namespaces": {"from": "Selector", "selector": selector}});
        let mut route = tls_route("r", &["a.test"], &["c2"]);
        route["metadata"]["namespace"] = json!("team-x");
        let objects = read(&[class(), gateway(&json!([one])), route]);
        let accepted_with = |inventory: Inventory| {
            let verdicts = attach(&objects, &inventory).routes;
            verdicts[0].parents[0].conditions[0].status
        };
        let accepted = |is_complete: bool| accepted_with(Inventory { is_complete, ..inventory() });
        assert_eq!(accepted(false), is_selected, "{why}");
        let unseen = UnseenKinds { namespaces: true, ..UnseenKinds::default() };
        assert_eq!(accepted_with(Inventory { unseen, ..inventory() }), is_selected, "{why}");
        // There it does not exist.
        assert!(!accepted(true), "{why}");
    }
}

#[test]
fn listener_without_a_name_of_the_route_is_not_counted() {
    let two = gateway(&json!([listener("named", 443, "HTTPS", "a.test"), listener("open", 8443, "HTTPS", "")]));
    let expected = [
        "route r Accepted True Accepted: it needs a host name to be served at listener open, which has none",
        "listener named kinds HTTPRoute routes 1",
        "listener open kinds HTTPRoute routes 0",
        "bound named a.test r",
        "no bound open",
    ];
    assert_lines("no host name", &[two.clone(), http_route("r", &[], &["c2"])], &expected);
    let mut first = http_route("a", &["a.test"], &["c2"]);
    first["spec"]["parentRefs"][0]["sectionName"] = json!("open");
    let expected = [
        "route r Accepted True Accepted: a.test belongs to HTTPRoute portcullis/a",
        "listener named kinds HTTPRoute routes 1",
        "listener open kinds HTTPRoute routes 1",
    ];
    assert_lines("lost", &[two, first, http_route("r", &["a.test"], &["c2"])], &expected);
    let plain = gateway(&json!([listener("http", 80, "HTTP", ""), listener("l", 443, "HTTPS", "a.test")]));
    let expected =
        ["listener http kinds HTTPRoute routes 1", "route r Accepted True Accepted: ", "redirect a.test to 443"];
    assert_lines("plain HTTP", &[plain, http_route("r", &[], &["c2"])], &expected);
}

#[test]
fn kinds_attach_to_their_protocols() {
    let refused = ["route r Accepted False NotAllowedByListeners", "no bound"];
    let at = |protocol: &str| gateway(&json!([listener("l", 443, protocol, "")]));
    let (tls, http) = (tls_route("r", &["a.test"], &["c2"]), http_route("r", &["a.test"], &["c2"]));
    assert_lines("TLSRoute at HTTP", &[at("HTTP"), tls.clone()], &refused);
    let mut listed = listener("l", 80, "HTTP", "");
    listed["allowedRoutes"]["kinds"] = json!([{"kind": "TLSRoute"}]);
    assert_lines("listed by HTTP", &[gateway(&json!([listed])), tls.clone()], &refused);
    assert_lines("TLSRoute at HTTPS", &[at("HTTPS"), tls.clone()], &refused);
    assert_lines("TLSRoute at TCP", &[at("TCP"), tls], &refused);
    assert_lines("HTTPRoute at TLS", &[at("TLS"), http], &refused);
}

#[test]
fn plain_http_never_leads_to_an_apiserver() {
    let http = || listener("http", 80, "HTTP", "");
    let route = || http_route("r", &["a.test", "b.test"], &["c2"]);
    let only = [
        "route r Accepted True Accepted: plain HTTP never leads to a kube-apiserver",
        "listener http kinds HTTPRoute routes 1",
        "no bound",
        "served http:80",
        "no redirect",
    ];
    assert_lines("alone", &[gateway(&json!([http()])), route()], &only);
    assert_lines("without a host name", &[gateway(&json!([http()])), http_route("r", &[], &["c2"])], &only);
    let open = gateway(&json!([http(), listener("l", 443, "HTTPS", "")]));
    let expected = ["route r Accepted False UnsupportedValue: spec.hostnames: a host name is required", "no bound"];
    assert_lines("beside an open HTTPS", &[open, http_route("r", &[], &["c2"])], &expected);
    let both = gateway(&json!([http(), listener("l", 443, "HTTPS", ""), listener("m", 8443, "HTTPS", "")]));
    let expected = [
        "route r Accepted True",
        "redirect a.test to 443",
        "redirect b.test to 443",
        "no bound http",
        "bound l a.test",
    ];
    assert_lines("beside HTTPS", &[both, route()], &expected);
    let other = gateway(&json!([listener("http", 80, "HTTP", "b.test"), listener("l", 8443, "HTTPS", "")]));
    assert_lines("its own names", &[other, route()], &["redirect b.test to 8443", "no redirect a.test"]);
    let passthrough = gateway(&json!([http(), listener("l", 443, "TLS", "")]));
    assert_lines(
        "passthrough",
        &[passthrough, tls_route("r", &["a.test"], &["c2"])],
        &["served http:80", "no redirect"],
    );
}

#[test]
fn redirect_leads_to_the_port_of_the_narrowest_route() {
    let (exact, wide) = (http_route("exact", &["x.a.test"], &["c1"]), http_route("wide", &["*.a.test"], &["c2"]));
    let at = |mut route: Value, section: &str| {
        route["spec"]["parentRefs"][0]["sectionName"] = json!(section);
        route
    };
    let https = |http: &str| {
        gateway(&json!([
            listener("http", 80, "HTTP", http),
            listener("l", 443, "HTTPS", "x.a.test"),
            listener("open", 8443, "HTTPS", ""),
            listener("all", 9443, "HTTPS", "*.test"),
        ]))
    };
    let routes =
        || [at(exact.clone(), "l"), at(wide.clone(), "open"), at(http_route("all", &["*.test"], &["c2"]), "all")];
    for (host, expected) in [
        ("x.a.test", &["redirect x.a.test to 443"][..]),
        ("y.a.test", &["redirect y.a.test to 8443"]),
        ("y.test", &["redirect y.test to 9443"]),
        ("*.a.test", &["redirect *.a.test to 8443", "redirect x.a.test to 443", "no redirect *.test"]),
        ("", &["redirect *.a.test to 8443", "redirect x.a.test to 443", "redirect *.test to 9443"]),
    ] {
        let documents: Vec<Value> = [https(host)].into_iter().chain(routes()).collect();
        assert_lines(&format!("{host:?}"), &documents, expected);
    }
    let mut wrong = at(exact.clone(), "l");
    wrong["spec"]["rules"][0]["timeouts"] = json!({"request": "5s"});
    for (host, expected) in [
        ("x.a.test", &["no redirect x.a.test", "withheld http x.a.test"][..]),
        ("", &["no redirect x.a.test", "redirect *.a.test to 8443", "withheld http x.a.test"]),
    ] {
        let documents = [https(host), wrong.clone(), at(wide.clone(), "open")];
        assert_lines(&format!("a typing error, {host:?}"), &documents, expected);
    }
}

#[test]
fn redirect_leads_to_no_closed_name() {
    let plain = listener("http", 80, "HTTP", "*.a.test");
    let (open, narrow) = (listener("open", 443, "HTTPS", ""), listener("narrow", 443, "HTTPS", "b.a.test"));
    let mut route = http_route("r", &["*.a.test"], &["c2"]);
    route["spec"]["parentRefs"][0]["sectionName"] = json!("open");
    let expected = ["redirect *.a.test to 443", "no redirect b.a.test", "withheld http b.a.test"];
    assert_lines("a narrower listener without a route", &[gateway(&json!([plain, open, narrow])), route], &expected);
}

#[test]
fn route_at_a_refused_listener_is_not_served() {
    let conflict = gateway(&json!([listener("a", 443, "TLS", "a.test"), listener("b", 443, "TLS", "a.test")]));
    let expected = ["route r Accepted True Accepted: the Gateway is not accepted", "no bound", "no served"];
    assert_lines("in conflict", &[conflict, tls_route("r", &["a.test"], &["c2"])], &expected);
    let one_is_good = json!([
        listener("a", 443, "TLS", "a.test"),
        listener("b", 443, "TLS", "a.test"),
        listener("c", 443, "TLS", "c.test")
    ]);
    let expected = ["route r Accepted True Accepted: no listener that it attaches to is accepted", "no bound"];
    assert_lines("beside a good one", &[gateway(&one_is_good), tls_route("r", &["a.test"], &["c2"])], &expected);
    let expected =
        ["gateway g Accepted False Invalid: spec.listeners", "no served", "route r Accepted False NoMatchingParent"];
    assert_lines("none", &[gateway(&json!([])), tls_route("r", &["a.test"], &["c2"])], &expected);
    let mut no_certificate = listener("a", 443, "HTTPS", "a.test");
    no_certificate["tls"] = json!({"certificateRefs": [{"name": "none"}]});
    let expected = ["route r Accepted True", "listener a kinds HTTPRoute routes 1", "no bound", "no served"];
    assert_lines(
        "no certificate",
        &[gateway(&json!([no_certificate])), http_route("r", &["a.test"], &["c2"])],
        &expected,
    );
}

#[test]
fn gateway_of_another_controller_is_left_alone() {
    let mut other = two();
    other["spec"]["gatewayClassName"] = json!("other");
    let spec = json!({"controllerName": "example.com/other"});
    let class = object("GatewayClass", "", "other", &spec);
    let lines = outcome(&[class, other, tls_route("r", &["a.test"], &["c2"])]);
    assert_eq!(lines, ["class portcullis Accepted True Accepted: "]);
}

#[test]
fn backends_have_weights() {
    let weighted = |mut route: Value, weights: [u32; 3]| {
        for (index, weight) in weights.into_iter().enumerate() {
            route["spec"]["rules"][0]["backendRefs"][index]["weight"] = json!(weight);
        }
        route
    };
    let clusters = ["c1", "c2", "none"];
    let passed = weighted(tls_route("r", &["a.test"], &clusters), [90, 0, 10]);
    let expected = ["bound l a.test r -> c1*90 c2*0 refused*10", "route r ResolvedRefs False BackendNotFound"];
    assert_lines("three", &[gateway(&json!([listener("l", 443, "TLS", "")])), passed], &expected);
    let gateway = gateway(&json!([listener("l", 443, "HTTPS", "")]));
    for (weights, is_served) in [([90, 10, 0], false), ([0, 1, 1], false), ([1, 0, 0], true)] {
        let route = weighted(http_route("r", &["a.test"], &clusters), weights);
        let expected: &[&str] = if is_served {
            &["route r Accepted True", "bound l a.test r -> c1*1"]
        } else {
            &["route r Accepted False UnsupportedValue: spec.rules[0].backendRefs: requests of a route", "no bound"]
        };
        assert_lines("shares of requests", &[gateway.clone(), route], expected);
    }
    let same = weighted(http_route("r", &["a.test"], &["c1", "c1", "c1"]), [1, 2, 0]);
    assert_lines("one cluster", &[gateway.clone(), same], &["bound l a.test r -> c1*1 c1*2"]);
    let none = object(
        "HTTPRoute",
        HOME,
        "r",
        &json!({
            "parentRefs": [{"name": "g", "namespace": INFRA}], "hostnames": ["a.test"],
        }),
    );
    let expected = [
        "route r Accepted True Accepted: spec.rules[0].backendRefs without any, all requests are refused",
        "bound l a.test r -> ",
        "note r spec.rules[0].backendRefs",
    ];
    assert_lines("none", &[gateway, none], &expected);
    assert_eq!(backends(&[]), json!([]));
}

#[test]
fn kind_that_is_not_wholly_seen_hides_no_lack_of_another() {
    let route = |name: &str, backend: &Value| {
        let mut route = tls_route(name, &[&format!("{name}.test")], &["c2"]);
        route["spec"]["rules"][0]["backendRefs"] = json!([backend]);
        route
    };
    let service = json!({"name": "gone", "port": 443});
    let cluster = json!({"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": "gone"});
    let listener = gateway(&json!([listener("l", 443, "TLS", "")]));
    let objects = read(&[class(), listener, route("r", &service), route("s", &cluster)]);
    let resolved = |services: bool| {
        let unseen = UnseenKinds { services, ..UnseenKinds::default() };
        let verdicts = attach(&objects, &Inventory { unseen, ..inventory() }).routes;
        let one = |route: &crate::RouteVerdict| {
            let conditions = &route.parents[0].conditions;
            conditions.iter().find(|one| one.kind == "ResolvedRefs").unwrap().reason
        };
        verdicts.iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!(resolved(false), ["BackendNotFound", "BackendNotFound"]);
    assert_eq!(resolved(true), ["ResolvedRefs", "BackendNotFound"]);
}

#[test]
fn redirect_leads_to_no_name_of_a_cluster() {
    let wide = http_route("wide", &["*.own"], &["c2"]);
    for (host, expected) in [
        ("", &["redirect *.own to 443", "withheld http c1.own", "withheld http *.c1.own"][..]),
        ("*.own", &["redirect *.own to 443", "withheld http c1.own", "withheld http *.c1.own"]),
        ("c1.own", &["withheld http c1.own", "no redirect"]),
        ("*.c1.own", &["withheld http *.c1.own", "no redirect"]),
        ("x.c1.own", &["withheld http x.c1.own", "no redirect"]),
        ("*.x.c1.own", &["withheld http *.x.c1.own", "no redirect"]),
        ("y.own", &["redirect y.own to 443", "no withheld http"]),
        ("*.y.own", &["redirect *.y.own to 443", "no withheld http"]),
    ] {
        let gateway = gateway(&json!([listener("http", 80, "HTTP", host), listener("l", 443, "HTTPS", "")]));
        assert_lines(host, &[gateway, wide.clone()], expected);
    }
    let own = http_route("own", &["x.c1.own"], &["c1"]);
    for (host, expected) in [
        ("x.c1.own", &["redirect x.c1.own to 443", "no withheld http"][..]),
        ("*.c1.own", &["redirect x.c1.own to 443", "withheld http *.c1.own"]),
    ] {
        let gateway = gateway(&json!([listener("http", 80, "HTTP", host), listener("l", 443, "HTTPS", "")]));
        assert_lines(host, &[gateway, wide.clone(), own.clone()], expected);
    }
}

//! One owner of each host name.

use serde_json::{Value, json};

use super::world::{assert_lines, created, gateway, http_route, listener, object, tls_route};

fn passthrough() -> Value {
    gateway(&json!([listener("l", 443, "TLS", "")]))
}

fn named(name: &str, hosts: &[&str]) -> Value {
    tls_route(name, hosts, &["c2"])
}

#[test]
fn older_route_has_the_host_name() {
    for (why, a, b, owner) in [
        ("by age", created(named("a", &["x.test"]), 2025), created(named("b", &["x.test"]), 2024), "b"),
        ("by name", created(named("a", &["x.test"]), 2024), created(named("b", &["x.test"]), 2024), "a"),
        ("a date before none", named("a", &["x.test"]), created(named("b", &["x.test"]), 2024), "b"),
        ("without dates by name", named("a", &["x.test"]), named("b", &["x.test"]), "a"),
    ] {
        let loser = if owner == "a" { "b" } else { "a" };
        let expected = [
            format!("bound l x.test {owner}"),
            format!("route {owner} Accepted True"),
            format!("route {loser} Accepted False HostnameConflict: x.test belongs to TLSRoute portcullis/{owner}"),
            "listener l kinds TLSRoute routes 1".to_owned(),
        ];
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        assert_lines(why, &[passthrough(), a.clone(), b.clone()], &expected);
        assert_lines(why, &[b, a, passthrough()], &expected);
    }
    let (old, new) = (created(named("old", &["x.test"]), 2024), created(named("new", &["x.test", "y.test"]), 2025));
    let expected = [
        "bound l x.test old",
        "bound l y.test new",
        "route new Accepted True Accepted: x.test belongs to TLSRoute portcullis/old, which is older",
    ];
    assert_lines("the others remain", &[passthrough(), old, new], &expected);
    let (wide, narrow) = (created(named("wide", &["*.test"]), 2024), created(named("narrow", &["x.test"]), 2025));
    let expected = ["bound l *.test wide", "bound l x.test narrow", "no withheld"];
    assert_lines("another pattern is another name", &[passthrough(), wide, narrow], &expected);
}

#[test]
fn refused_route_keeps_its_host_names() {
    let mut old = created(http_route("old", &["x.test"], &["c2"]), 2024);
    old["spec"]["rules"][0]["timeouts"] = json!({"request": "5s"});
    let new = created(http_route("new", &["x.test"], &["c2"]), 2025);
    let wide = created(http_route("wide", &["*.test"], &["c2"]), 2025);
    let https = gateway(&json!([listener("l", 443, "HTTPS", "")]));
    let expected = [
        "route old Accepted False UnsupportedValue",
        "route new Accepted False HostnameConflict",
        "no bound l x.test",
        "bound l *.test wide",
        "withheld l x.test",
    ];
    assert_lines("a typing error", &[https, old, new, wide], &expected);
}

#[test]
fn route_that_a_listener_does_not_allow_has_no_host_name() {
    let mut same = listener("l", 443, "TLS", "");
    same["allowedRoutes"] = json!({"namespaces": {"from": "Same"}});
    let mut theirs = created(named("a", &["x.test"]), 2024);
    theirs["metadata"]["namespace"] = json!("team-a");
    let mut own = created(named("b", &["x.test"]), 2025);
    own["metadata"]["namespace"] = json!("infra");
    let expected = ["route a Accepted False NotAllowedByListeners", "bound l x.test b"];
    assert_lines("older", &[gateway(&json!([same])), theirs, own], &expected);
}

#[test]
fn upstream_cluster_keeps_its_host_names() {
    let lost = |name: &str| {
        [
            format!("route r Accepted False HostnameConflict: {name} belongs to UpstreamCluster c1"),
            "no bound".to_owned(),
        ]
    };
    for (host, clusters, expected) in [
        ("c1.own", &["c2"][..], lost("c1.own")),
        ("x.c1.own", &["c2"], lost("x.c1.own")),
        ("*.c1.own", &["c2"], lost("*.c1.own")),
        ("*.x.c1.own", &["c2"], lost("*.x.c1.own")),
        ("c1.own", &["c1", "c2"], lost("c1.own")),
        ("c1.own", &["c1", "none"], lost("c1.own")),
        ("c1.own", &["c1"], ["route r Accepted True".to_owned(), "bound l c1.own r -> c1*1".to_owned()]),
        ("x.c1.own", &["c1"], ["route r Accepted True".to_owned(), "bound l x.c1.own r -> c1*1".to_owned()]),
        ("xc1.own", &["c2"], ["route r Accepted True".to_owned(), "bound l xc1.own r -> c2*1".to_owned()]),
    ] {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        let tls = created(tls_route("r", &[host], clusters), 2000);
        assert_lines(&format!("{host} to {clusters:?}"), &[passthrough(), tls], &expected);
        let https = gateway(&json!([listener("l", 443, "HTTPS", "")]));
        assert_lines(&format!("{host} to {clusters:?}"), &[https, http_route("r", &[host], clusters)], &expected);
    }
    let expected = ["bound l *.own r", "withheld l c1.own", "withheld l *.c1.own"];
    assert_lines("below a wider wildcard", &[passthrough(), tls_route("r", &["*.own"], &["c2"])], &expected);
}

#[test]
fn route_without_a_grant_has_no_name_of_a_cluster() {
    let spec = json!({
        "parentRefs": [{"name": "g", "namespace": "infra"}], "hostnames": ["c1.own"],
        "rules": [{"backendRefs": [{"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": "c1"}]}],
    });
    let theirs = created(object("TLSRoute", "team-a", "a", &spec), 2024);
    let ours = created(tls_route("b", &["c1.own"], &["c1"]), 2025);
    let expected = ["route a Accepted False HostnameConflict", "bound l c1.own b -> c1*1"];
    assert_lines("older", &[passthrough(), theirs, ours], &expected);
}

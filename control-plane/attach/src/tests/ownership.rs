//! One owner of each host name.

use serde_json::{Value, json};

use super::world::{assert_lines, created, gateway, http_route, listener, object, tls_route};

fn passthrough() -> Value {
    gateway(&json!([listener("l", 443, "TLS", "")]))
}

fn named(name: &str, hosts: &[&str]) -> Value {
    tls_route(name, hosts, &["c2"])
}

fn of_team(name: &str, namespace: &str) -> Value {
    let mut route = created(named(name, &["x.test"]), 2024);
    route["metadata"]["namespace"] = json!(namespace);
    route
}

#[test]
fn older_route_has_the_host_name() {
    for (why, a, b, owner) in [
        ("by age", created(named("a", &["x.test"]), 2025), created(named("b", &["x.test"]), 2024), "b"),
        ("by name", created(named("a", &["x.test"]), 2024), created(named("b", &["x.test"]), 2024), "a"),
        ("by namespace and name as one text", of_team("a", "a"), of_team("b", "a-b"), "b"),
        ("a date before none", named("a", &["x.test"]), created(named("b", &["x.test"]), 2024), "b"),
        ("without dates by name", named("a", &["x.test"]), named("b", &["x.test"]), "a"),
    ] {
        let loser = if owner == "a" { "b" } else { "a" };
        let namespace = if why.contains("text") { "a-b" } else { "portcullis" };
        let expected = [
            format!("bound l x.test {owner}"),
            format!("route {owner} Accepted True"),
            format!("route {loser} Accepted False HostnameConflict: x.test belongs to TLSRoute {namespace}/{owner}"),
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
    assert_lines("a narrower one of the same namespace", &[passthrough(), wide, narrow], &expected);
}

#[test]
fn older_wildcard_keeps_names_from_other_namespaces() {
    let of = |name: &str, host: &str, namespace: &str, year: u32| {
        let mut route = created(named(name, &[host]), year);
        route["metadata"]["namespace"] = json!(namespace);
        route["spec"]["rules"][0]["backendRefs"] = json!([{"name": "svc", "port": 443}]);
        route
    };
    let lost = |name: &str, host: &str, wildcard: &str| {
        format!(
            "route {name} Accepted False HostnameConflict: {host} belongs to TLSRoute a/{wildcard}, which is older and has"
        )
    };
    let wide = || of("wide", "*.test", "a", 2024);
    for (why, routes, expected) in [
        (
            "a younger exact name",
            vec![wide(), of("r", "x.test", "b", 2025)],
            vec![lost("r", "x.test", "wide"), "no bound l x.test".to_owned(), "no withheld".to_owned()],
        ),
        (
            "a younger wildcard",
            vec![wide(), of("r", "*.x.test", "b", 2025)],
            vec![lost("r", "*.x.test", "wide"), "no bound l *.x.test".to_owned()],
        ),
        (
            "an older exact name",
            vec![wide(), of("r", "x.test", "b", 2023)],
            vec!["route r Accepted True Accepted: ".to_owned(), "bound l x.test r".to_owned()],
        ),
        (
            "the namespace's own, after another's claim",
            vec![wide(), of("r", "x.test", "b", 2025), of("own", "x.test", "a", 2026)],
            vec![
                "route r Accepted False HostnameConflict: x.test belongs to TLSRoute a/own".to_owned(),
                "no route r Accepted False HostnameConflict: x.test belongs to TLSRoute a/own, which".to_owned(),
                "bound l x.test own".to_owned(),
            ],
        ),
        (
            "the owner is that of the narrowest wildcard",
            vec![of("mine", "*.x.test", "b", 2023), wide(), of("r", "y.x.test", "b", 2025)],
            vec!["bound l y.x.test r".to_owned()],
        ),
        (
            "and no other's",
            vec![of("mine", "*.x.test", "a", 2024), of("wide", "*.test", "b", 2023), of("r", "y.x.test", "b", 2025)],
            vec!["route mine Accepted False HostnameConflict".to_owned(), "bound l y.x.test r".to_owned()],
        ),
        (
            "not a name above it",
            vec![of("wide", "*.x.test", "a", 2024), of("r", "x.test", "b", 2025)],
            vec!["bound l x.test r".to_owned()],
        ),
    ] {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        let documents: Vec<Value> = [passthrough()].into_iter().chain(routes).collect();
        assert_lines(why, &documents, &expected);
    }
    let mut wrong = wide();
    wrong["spec"]["rules"][0]["ofALaterRelease"] = json!(true);
    let expected = [lost("r", "x.test", "wide"), "no bound".to_owned()];
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    assert_lines("while it is refused", &[passthrough(), wrong, of("r", "x.test", "b", 2025)], &expected);
    let at_a_listener = gateway(&json!([listener("l", 443, "TLS", ""), listener("theirs", 443, "TLS", "x.test")]));
    let mut at_l = wide();
    at_l["spec"]["parentRefs"][0]["sectionName"] = json!("l");
    let expected = ["bound theirs x.test r", "bound l *.test wide", "withheld l x.test"];
    assert_lines("a listener of its own", &[at_a_listener, at_l, of("r", "x.test", "b", 2025)], &expected);
    let cluster = created(tls_route("cluster", &["x.c1.own"], &["c1"]), 2025);
    let expected = ["bound l x.c1.own cluster"];
    assert_lines("a cluster's name", &[passthrough(), of("wide", "*.own", "a", 2024), cluster], &expected);
}

/// A name below a cluster's wildcard is that cluster's, whatever route claims it: the cluster's own route serves it on.
#[test]
fn refused_claim_closes_no_part_of_a_gateway() {
    let own = created(tls_route("own", &["*.c1.own"], &["c1"]), 2024);
    for year in [2023, 2025] {
        let mut claim = created(named("claim", &["x.c1.own"]), year);
        claim["metadata"]["namespace"] = json!("b");
        let expected = [
            "bound l *.c1.own own",
            "route claim Accepted False HostnameConflict: x.c1.own belongs to UpstreamCluster c1",
            "no bound l x.c1.own",
            "no withheld",
        ];
        assert_lines("a claim", &[passthrough(), own.clone(), claim], &expected);
    }
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
        // Shares of requests are refused in any case.
        let shares = ["route r Accepted False UnsupportedValue", "no bound"];
        let expected = if clusters.len() > 1 { &shares[..] } else { &expected };
        assert_lines(&format!("{host} to {clusters:?}"), &[https, http_route("r", &[host], clusters)], expected);
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

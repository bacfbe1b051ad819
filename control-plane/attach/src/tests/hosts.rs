//! Host names of routes and listeners.

use serde_json::json;

use super::world::{assert_lines, gateway, http_route, listener, tls_route};

#[test]
fn host_names_of_both_are_served() {
    let mismatch = ["route r Accepted False NoMatchingListenerHostname", "no bound"];
    for (listener_host, hosts, expected) in [
        ("", &["a.test"][..], &["bound l a.test r"][..]),
        ("a.test", &["a.test"], &["bound l a.test r"]),
        ("test.example.com", &["*.example.com"], &["bound l test.example.com r"]),
        (
            "*.example.com",
            &["test.example.com", "test.example.net"],
            &["bound l test.example.com r", "no bound l test.example.net"],
        ),
        ("*.example.com", &["*.com"], &["bound l *.example.com r"]),
        ("*.example.com", &["foo.test.example.com"], &["bound l foo.test.example.com r"]),
        ("*.example.com", &["*.example.com"], &["bound l *.example.com r"]),
        ("*.example.com", &["example.com"], &mismatch),
        ("*.example.com", &["test.example.net"], &mismatch),
        ("a.test", &["b.test"], &mismatch),
        ("A.test", &["a.TEST", "a.test"], &["bound l a.test r"]),
        ("", &["a_b"], &["route r Accepted False UnsupportedValue: spec.hostnames[0]", "no bound"]),
        ("", &["10.0.0.1"], &["route r Accepted False UnsupportedValue: spec.hostnames[0]", "no bound"]),
    ] {
        for (protocol, route) in [("TLS", tls_route("r", hosts, &["c2"])), ("HTTPS", http_route("r", hosts, &["c2"]))] {
            let gateway = gateway(&json!([listener("l", 443, protocol, listener_host)]));
            assert_lines(&format!("{protocol} {listener_host:?} and {hosts:?}"), &[gateway, route], expected);
        }
    }
}

#[test]
fn http_route_without_host_names_has_those_of_its_listener() {
    let at = |host: &str| gateway(&json!([listener("l", 443, "HTTPS", host)]));
    let route = || http_route("r", &[], &["c2"]);
    assert_lines("one", &[at("a.test"), route()], &["bound l a.test r", "route r Accepted True"]);
    assert_lines("a wildcard", &[at("*.a.test"), route()], &["bound l *.a.test r"]);
    let unreadable = http_route("a", &["a_b"], &["c2"]);
    assert_lines(
        "one that cannot be read",
        &[at("a.test"), unreadable, route()],
        &["bound l a.test r", "no bound l a.test a"],
    );
    let expected = ["route r Accepted False UnsupportedValue: spec.hostnames: a host name is required", "no bound"];
    assert_lines("none at all", &[at(""), route()], &expected);
}

#[test]
fn narrower_listener_keeps_its_host_names() {
    let gateway = gateway(&json!([
        listener("wide", 443, "TLS", ""),
        listener("narrow", 443, "TLS", "*.a.test"),
        listener("else", 8443, "TLS", "")
    ]));
    let at = |section: &str, hosts: &[&str]| {
        let mut route = tls_route("r", hosts, &["c2"]);
        route["spec"]["parentRefs"][0]["sectionName"] = json!(section);
        route
    };
    let expected = [
        "route r#wide Accepted False NoMatchingListenerHostname: x.a.test belongs to listener narrow",
        "no bound",
        "listener wide kinds TLSRoute routes 0",
    ];
    assert_lines("all", &[gateway.clone(), at("wide", &["x.a.test"])], &expected);
    let expected = ["route r#wide Accepted True Accepted: x.a.test belongs to listener narrow", "bound wide b.test r"];
    assert_lines("some", &[gateway.clone(), at("wide", &["x.a.test", "b.test"])], &expected);
    let expected = ["bound wide *.test r", "served narrow:443 *.a.test", "withheld wide *.a.test", "no withheld else"];
    assert_lines("a wider wildcard", &[gateway.clone(), at("wide", &["*.test"])], &expected);
    assert_lines(
        "of another port",
        &[gateway.clone(), at("else", &["*.test"])],
        &["bound else *.test r", "no withheld"],
    );
    assert_lines("another port", &[gateway.clone(), at("else", &["x.a.test"])], &["bound else x.a.test r"]);
    assert_lines("its own", &[gateway, at("narrow", &["x.a.test"])], &["bound narrow x.a.test r"]);
}

#[test]
fn names_of_a_refused_listener_are_not_a_wider_ones() {
    let mut refused = listener("narrow", 443, "TLS", "*.a.test");
    refused["ofALaterRelease"] = json!(true);
    let gateway = gateway(&json!([listener("wide", 443, "TLS", ""), refused]));
    let route = tls_route("r", &["*.test", "x.a.test"], &["c2"]);
    let expected = ["bound wide *.test r", "no bound wide x.a.test", "withheld wide *.a.test"];
    assert_lines("closed", &[gateway, route], &expected);
}

/// Tenants may claim at an open listener what is another listener's.
#[test]
fn claim_at_a_wider_listener_closes_no_name_of_a_narrower_one() {
    let gateway = gateway(&json!([listener("wide", 443, "HTTPS", ""), listener("narrow", 443, "HTTPS", "*.a.test")]));
    let at = |name: &str, section: &str, hosts: &[&str]| {
        let mut route = http_route(name, hosts, &["c2"]);
        route["spec"]["parentRefs"][0]["sectionName"] = json!(section);
        route
    };
    let routes = [at("own", "narrow", &["*.a.test"]), at("stranger", "wide", &["*.test", "x.a.test"])];
    let documents: Vec<_> = [gateway].into_iter().chain(routes).collect();
    let expected = ["bound narrow *.a.test own", "withheld wide *.a.test", "no withheld wide x.a.test"];
    assert_lines("", &documents, &expected);
}

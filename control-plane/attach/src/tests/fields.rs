//! Fields of routes that a gateway of kube-apiservers cannot honour: never ignored.

use serde_json::{Value, json};

use super::world::{assert_lines, backends, gateway, http_route, listener, tls_route};

fn https() -> Value {
    gateway(&json!([listener("l", 443, "HTTPS", "")]))
}

fn with_rules(rules: &Value) -> Value {
    let mut route = http_route("r", &["a.test"], &[]);
    route["spec"]["rules"] = rules.clone();
    route
}

fn rule(fields: &Value) -> Value {
    let mut rule = json!({"backendRefs": backends(&["c1"])});
    for (name, value) in fields.as_object().unwrap() {
        rule[name] = value.clone();
    }
    rule
}

#[test]
fn rule_that_matches_all_is_served() {
    for (why, fields) in [
        ("no matches", json!({})),
        ("the default", json!({"matches": [{"path": {"type": "PathPrefix", "value": "/"}}]})),
        ("an empty match", json!({"matches": [{}]})),
        (
            "fields that say nothing",
            json!({"matches": [{"headers": [], "method": null}], "filters": [], "retry": null}),
        ),
        ("a name", json!({"name": "all"})),
    ] {
        let expected = ["route r Accepted True Accepted", "bound l a.test r -> c1*1", "no route r PartiallyInvalid"];
        assert_lines(why, &[https(), with_rules(&json!([rule(&fields)]))], &expected);
    }
}

#[test]
fn field_that_changes_or_chooses_requests_refuses_the_route() {
    let header = json!({"set": [{"name": "X-Remote-User", "value": "admin"}]});
    let reference = |fields: &Value| {
        let mut reference = backends(&["c1"])[0].clone();
        for (name, value) in fields.as_object().unwrap() {
            reference[name] = value.clone();
        }
        json!({"backendRefs": [reference]})
    };
    for (fields, named) in [
        (json!({"matches": [{"path": {"value": "/api"}}]}), "matches[0].path"),
        (json!({"matches": [{"path": {"type": "Exact", "value": "/"}}]}), "matches[0].path"),
        (json!({"matches": [{"path": {"type": "RegularExpression", "value": "/.*"}}]}), "matches[0].path"),
        (json!({"matches": [{"path": {"ignoreCase": true}}]}), "matches[0].path"),
        (json!({"matches": [{"headers": [{"name": "a", "value": "b"}]}]}), "matches[0].headers"),
        (json!({"matches": [{"queryParams": [{"name": "a", "value": "b"}]}]}), "matches[0].queryParams"),
        (json!({"matches": [{}, {"method": "GET"}]}), "matches[1].method"),
        (
            json!({"filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier": header}]}),
            "filters[0] RequestHeaderModifier",
        ),
        (json!({"filters": [{"type": "ResponseHeaderModifier"}]}), "filters[0] ResponseHeaderModifier"),
        (
            json!({"filters": [{"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "x"}}}]}),
            "filters[0] RequestMirror",
        ),
        (
            json!({"filters": [{"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}}]}),
            "filters[0] RequestRedirect",
        ),
        (json!({"filters": [{"type": "URLRewrite", "urlRewrite": {"hostname": "x"}}]}), "filters[0] URLRewrite"),
        (json!({"filters": [{"type": "CORS"}]}), "filters[0] CORS"),
        (json!({"filters": [{"type": "ExtensionRef"}]}), "filters[0] ExtensionRef"),
        (json!({"filters": [{"type": "OfALaterRelease"}]}), "filters[0] OfALaterRelease"),
        (json!({"timeouts": {"request": "5s"}}), "timeouts"),
        (json!({"retry": {"attempts": 2}}), "retry"),
        (json!({"retry": {}}), "retry"),
        (json!({"sessionPersistence": {}}), "sessionPersistence"),
        (json!({"sessionPersistence": {"sessionName": "a"}}), "sessionPersistence"),
        (json!({"ofALaterRelease": true}), "ofALaterRelease"),
        (reference(&json!({"filters": [{"type": "URLRewrite"}]})), "backendRefs[0].filters[0] URLRewrite"),
        (reference(&json!({"port": 443})), "backendRefs[0].port"),
        (reference(&json!({"ofALaterRelease": 1})), "backendRefs[0].ofALaterRelease"),
    ] {
        let expected = format!("route r Accepted False UnsupportedValue: spec.rules[0].{named} is not supported");
        let documents = [https(), with_rules(&json!([rule(&fields)]))];
        assert_lines(named, &documents, &[&expected, "no bound", "listener l kinds HTTPRoute routes 0"]);
    }
    let mut of_spec = with_rules(&json!([rule(&json!({}))]));
    of_spec["spec"]["useDefaultGateways"] = json!("All");
    let expected = ["route r Accepted False UnsupportedValue: spec.useDefaultGateways", "no bound"];
    assert_lines("a field of the route", &[https(), of_spec], &expected);
    let mut of_parent = with_rules(&json!([rule(&json!({}))]));
    of_parent["spec"]["parentRefs"][0]["audience"] = json!("internal");
    let expected = ["route r Accepted False UnsupportedValue: spec.parentRefs[0].audience", "no bound"];
    assert_lines("a field of a parent reference", &[https(), of_parent], &expected);
}

#[test]
fn invalid_rule_is_dropped_where_no_request_changes_its_way() {
    let (good, filtered) = (rule(&json!({})), rule(&json!({"filters": [{"type": "CORS"}]})));
    let narrow = rule(&json!({"matches": [{"path": {"value": "/metrics"}}]}));
    let other = json!({"backendRefs": backends(&["c2"])});
    let partly = [
        "route r Accepted True Accepted",
        "route r PartiallyInvalid True UnsupportedValue: Dropped Rule spec.rules[1]: not supported: \
         spec.rules[1].filters[0] CORS",
        "bound l a.test r -> c1*1",
    ];
    let refused = ["route r Accepted False UnsupportedValue", "no route r PartiallyInvalid", "no bound"];
    for (why, rules, expected) in [
        ("behind one that matches all", json!([good, filtered]), &partly[..]),
        ("before one that matches all", json!([filtered, good]), &refused[..]),
        ("one with a longer path comes first", json!([good, narrow]), &refused[..]),
        ("none is valid", json!([filtered, filtered]), &refused[..]),
        (
            "a second one that is valid",
            json!([good, other]),
            &[
                "route r Accepted True Accepted: spec.rules[1] is never reached: an earlier rule matches all requests",
                "bound l a.test r -> c1*1",
                "note r spec.rules[1]: is never reached",
            ],
        ),
        ("no rules", json!([]), &["route r Accepted False UnsupportedValue: spec.rules"]),
    ] {
        assert_lines(why, &[https(), with_rules(&rules)], expected);
    }
}

#[test]
fn fields_of_tls_routes_are_never_ignored() {
    let passthrough = gateway(&json!([listener("l", 443, "TLS", "")]));
    let base = || tls_route("r", &["a.test"], &["c2"]);
    for (named, pointer, value) in [
        ("spec.useDefaultGateways", "/spec/useDefaultGateways", json!("All")),
        ("spec.rules[0].filters", "/spec/rules/0/filters", json!([{"type": "x"}])),
        ("spec.rules[0].backendRefs[0].port", "/spec/rules/0/backendRefs/0/port", json!(443)),
        ("spec.rules[0].backendRefs[0].tls", "/spec/rules/0/backendRefs/0/tls", json!("x")),
    ] {
        let mut route = base();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        route.pointer_mut(parent).unwrap()[field] = value;
        let expected = format!("route r Accepted False UnsupportedValue: {named} is not supported");
        assert_lines(named, &[passthrough.clone(), route], &[&expected, "no bound"]);
    }
    let (mut two_rules, mut no_names) = (base(), base());
    let rule = two_rules["spec"]["rules"][0].clone();
    two_rules["spec"]["rules"] = json!([rule, rule]);
    no_names["spec"]["hostnames"] = json!([]);
    for (why, route) in [("two rules", two_rules), ("no names", no_names)] {
        assert_lines(why, &[passthrough.clone(), route], &["route r Accepted False UnsupportedValue", "no bound"]);
    }
    assert_lines("all is well", &[passthrough, base()], &["route r Accepted True", "bound l a.test r -> c2*1"]);
}

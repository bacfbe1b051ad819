//! Listeners and Gateways, as the specification of `Gateway` has them.

use serde_json::{Value, json};

use super::world::{INFRA, assert_lines, class, gateway, inventory, lines, listener, object, outcome, read};
use crate::attach;

/// A listener with other fields.
fn with(mut listener: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_object().unwrap() {
        listener[name] = value.clone();
    }
    listener
}

#[test]
fn protocols_are_served_or_refused() {
    let https = || listener("l", 443, "HTTPS", "a.test");
    for (why, one, expected) in [
        ("HTTP", listener("l", 80, "HTTP", ""), &["listener l Accepted True Accepted", "served l:80 * redirect"][..]),
        ("HTTPS", https(), &["listener l kinds HTTPRoute routes 0", "served l:443 a.test terminate infra/cert"]),
        (
            "TLS passthrough",
            listener("l", 443, "TLS", ""),
            &["listener l kinds TLSRoute", "served l:443 * passthrough"],
        ),
        (
            "TCP",
            listener("l", 443, "TCP", ""),
            &["listener l Accepted False UnsupportedProtocol", "listener l kinds  ", "no served l"],
        ),
        ("UDP", listener("l", 443, "UDP", ""), &["listener l Accepted False UnsupportedProtocol"]),
        ("a domain's own", listener("l", 443, "a.test/x", ""), &["listener l Accepted False UnsupportedProtocol"]),
        (
            "TLS that ends here",
            with(listener("l", 443, "TLS", ""), &json!({"tls": {"mode": "Terminate"}})),
            &["listener l Accepted False UnsupportedValue", "listener l kinds  routes 0", "no served l"],
        ),
        (
            "HTTPS with passthrough",
            with(https(), &json!({"tls": {"mode": "Passthrough"}})),
            &["listener l Accepted False UnsupportedValue: spec.listeners[0].tls.mode"],
        ),
        (
            "a mode of a later release",
            with(https(), &json!({"tls": {"mode": "Optional"}})),
            &["listener l Accepted False UnsupportedValue"],
        ),
        ("HTTPS without TLS", with(https(), &json!({"tls": null})), &["listener l Accepted False UnsupportedValue"]),
        (
            "HTTP with TLS",
            with(listener("l", 80, "HTTP", ""), &json!({"tls": {}})),
            &["listener l Accepted False UnsupportedValue"],
        ),
        (
            "TLS options",
            with(https(), &json!({"tls": {"certificateRefs": [{"name": "cert"}], "options": {"a.test/min": "1.3"}}})),
            &["listener l Accepted False UnsupportedValue: spec.listeners[0].tls.options[a.test/min] is not supported"],
        ),
        (
            "an unknown field",
            with(https(), &json!({"maxConnections": 5})),
            &["listener l Accepted False UnsupportedValue: spec.listeners[0].maxConnections is not supported"],
        ),
        (
            "a host name that is none",
            with(https(), &json!({"hostname": "a_b"})),
            &["listener l Accepted False UnsupportedValue: spec.listeners[0].hostname"],
        ),
        ("no port", listener("l", 0, "HTTP", ""), &["listener l Accepted False PortUnavailable"]),
    ] {
        assert_lines(why, &[gateway(&json!([one]))], expected);
    }
}

#[test]
fn listeners_that_cannot_be_told_apart_are_all_refused() {
    let terminate = with(listener("b", 443, "TLS", "b.test"), &json!({"tls": {"mode": "Terminate"}}));
    let conflict = |reason: &str| {
        ["a", "b"].map(|name| {
            [format!("listener {name} Conflicted True {reason}"), format!("listener {name} Accepted False {reason}")]
        })
    };
    for (why, a, b, reason) in [
        (
            "equal host names",
            listener("a", 443, "HTTPS", "a.test"),
            listener("b", 443, "HTTPS", "A.test"),
            Some("HostnameConflict"),
        ),
        ("no host names", listener("a", 80, "HTTP", ""), listener("b", 80, "HTTP", ""), Some("HostnameConflict")),
        (
            "plain and TLS",
            listener("a", 443, "HTTP", "a.test"),
            listener("b", 443, "HTTPS", "b.test"),
            Some("ProtocolConflict"),
        ),
        (
            "one name, ended and passed on",
            listener("a", 443, "TLS", "a.test"),
            listener("b", 443, "HTTPS", "a.test"),
            Some("ProtocolConflict"),
        ),
        ("both modes of TLS", listener("a", 443, "TLS", "a.test"), terminate, Some("ProtocolConflict")),
        ("other ports", listener("a", 443, "HTTPS", "a.test"), listener("b", 8443, "HTTPS", "a.test"), None),
        ("other names", listener("a", 443, "HTTPS", "a.test"), listener("b", 443, "HTTPS", "b.test"), None),
        ("HTTPS beside passthrough", listener("a", 443, "HTTPS", "a.test"), listener("b", 443, "TLS", ""), None),
        ("a protocol that is not served", listener("a", 443, "HTTPS", ""), listener("b", 443, "TCP", ""), None),
    ] {
        let lines = conflict(reason.unwrap_or("x"));
        let mut expected: Vec<&str> = lines.iter().flatten().map(String::as_str).collect();
        if reason.is_none() {
            expected = vec!["listener a Conflicted False NoConflicts", "listener a Accepted True", "served a:443"];
        } else {
            expected.extend(["no served", "gateway g Accepted False ListenersNotValid"]);
        }
        assert_lines(why, &[gateway(&json!([a, b]))], &expected);
        assert_lines(why, &[gateway(&json!([b, a]))], &expected);
    }
    let three = json!([
        listener("a", 443, "HTTPS", "a.test"),
        listener("b", 443, "HTTPS", "a.test"),
        listener("c", 443, "HTTPS", "c.test")
    ]);
    let expected = ["gateway g Accepted True ListenersNotValid", "served c:443", "no served a", "no served b"];
    assert_lines("one is distinct", &[gateway(&three)], &expected);
    let twice = json!([listener("a", 443, "HTTPS", "a.test"), listener("a", 8443, "HTTPS", "b.test")]);
    assert_lines("one name", &[gateway(&twice)], &["listener a Accepted False UnsupportedValue", "no served"]);
}

#[test]
fn overlapping_host_names_are_told_at_both_listeners() {
    let example = json!([
        listener("a", 443, "HTTPS", "foo.example.com"),
        listener("b", 443, "HTTPS", "foo.example.org"),
        listener("c", 443, "HTTPS", "*.example.com"),
        listener("d", 8443, "HTTPS", "foo.example.com"),
        listener("e", 80, "HTTP", "foo.example.com"),
    ]);
    let expected = [
        "listener a OverlappingTLSConfig True OverlappingHostnames: a has host names of c",
        "listener c OverlappingTLSConfig True OverlappingHostnames: c has host names of a",
        "no listener b Overlapping",
        "no listener d Overlapping",
        "no listener e Overlapping",
    ];
    assert_lines("the specification's own", &[gateway(&example)], &expected);
    let all = json!([listener("a", 443, "TLS", "a.test"), listener("b", 443, "HTTPS", "")]);
    let expected = ["listener a OverlappingTLSConfig True", "listener b OverlappingTLSConfig True"];
    assert_lines("a listener for all names", &[gateway(&all)], &expected);
}

#[test]
fn message_about_many_listeners_names_eight_of_them() {
    let message = |host: &dyn Fn(usize) -> String, condition: &str| {
        let of = |index: usize| listener(&format!("l{index:02}"), 443, "HTTPS", &host(index));
        let lines = outcome(&[gateway(&json!((0..64).map(of).collect::<Vec<_>>()))]);
        let found = lines.iter().find_map(|line| line.strip_prefix(&format!("listener l00 {condition}: ")));
        found.unwrap_or_else(|| panic!("{condition} in {lines:?}")).to_owned()
    };
    let all = "l01, l02, l03, l04, l05, l06, l07, l08 and 55 more";
    let same = message(&|_| "a.test".to_owned(), "Conflicted True HostnameConflict");
    assert_eq!(same, format!("port 443 has the same host names at {all}"));
    let nested = |index: usize| format!("*.{}test", "a.".repeat(index));
    let shared = message(&nested, "OverlappingTLSConfig True OverlappingHostnames");
    assert_eq!(shared, format!("l00 has host names of {all}"));
}

#[test]
fn certificates_are_resolved() {
    let https = |references: &Value| {
        let tls = json!({"tls": {"certificateRefs": references}});
        gateway(&json!([with(listener("l", 443, "HTTPS", "a.test"), &tls)]))
    };
    let invalid = "listener l ResolvedRefs False InvalidCertificateRef: spec.listeners[0].tls.certificateRefs";
    for (why, references, expected) in [
        ("it is there", json!([{"name": "cert"}]), "listener l ResolvedRefs True ResolvedRefs"),
        ("it is not", json!([{"name": "none"}]), invalid),
        ("it is malformed", json!([{"name": "bad"}]), invalid),
        ("another group", json!([{"group": "a.test", "name": "cert"}]), invalid),
        ("another kind", json!([{"kind": "ConfigMap", "name": "cert"}]), invalid),
        ("none", json!([]), invalid),
        (
            "another namespace",
            json!([{"name": "cert", "namespace": "other"}]),
            "listener l ResolvedRefs False RefNotPermitted",
        ),
        (
            "whether it is there is not told",
            json!([{"name": "none", "namespace": "other"}]),
            "listener l ResolvedRefs False RefNotPermitted",
        ),
    ] {
        let is_good = expected.contains("True");
        let gateway_line =
            if is_good { "gateway g ResolvedRefs True" } else { "gateway g ResolvedRefs False ListenersNotResolved" };
        let served = if is_good { "served l:443" } else { "no served" };
        // The specification does not call such a listener refused.
        let accepted = "listener l Accepted True";
        assert_lines(why, &[https(&references)], &[expected, gateway_line, served, accepted]);
    }
    let one_of_two = [https(&json!([{"name": "none"}, {"name": "cert"}]))];
    assert_lines("one of two", &one_of_two, &[invalid, "served l:443 a.test terminate infra/cert"]);
}

#[test]
fn client_certificates_are_verified_by_port() {
    let frontend = |frontend: &Value| {
        let mut gateway = gateway(&json!([
            listener("a", 443, "HTTPS", "a.test"),
            listener("b", 8443, "HTTPS", "a.test"),
            listener("c", 80, "HTTP", "")
        ]));
        gateway["spec"]["tls"] = json!({"frontend": frontend});
        gateway
    };
    let by = |kind: &str, name: &str| json!({"validation": {"caCertificateRefs": [{"group": "", "kind": kind, "name": name}]}});
    let good = by("ConfigMap", "ca");
    for (why, settings, expected) in [
        (
            "the default",
            json!({"default": good}),
            &[
                "served a:443 a.test terminate infra/cert AllowValidOnly",
                "served b:8443 a.test terminate infra/cert AllowValidOnly",
            ][..],
        ),
        (
            "a port's own replaces it",
            json!({"default": good, "perPort": [{"port": 8443, "tls": {}}]}),
            &["served a:443 a.test terminate infra/cert AllowValidOnly", "served b:8443 a.test terminate infra/cert"],
        ),
        (
            "it is not there",
            json!({"default": by("ConfigMap", "none")}),
            &[
                "listener a ResolvedRefs False InvalidCACertificateRef",
                "listener a Accepted False NoValidCACertificate",
                "listener c Accepted True",
                "no served a",
            ],
        ),
        (
            "another kind",
            json!({"default": good, "perPort": [{"port": 8443, "tls": by("Service", "ca")}]}),
            &[
                "listener b ResolvedRefs False InvalidCACertificateKind",
                "listener b Accepted False NoValidCACertificate",
                "served a:443",
            ],
        ),
        (
            "another namespace",
            json!({"default": {"validation": {"caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca", "namespace": "other"}]}}}),
            &["listener a ResolvedRefs False RefNotPermitted", "listener a Accepted False NoValidCACertificate"],
        ),
        (
            "fallback",
            json!({"default": {"validation": {"mode": "AllowInsecureFallback", "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}]}}}),
            &[
                "gateway g InsecureFrontendValidationMode True ConfigurationChanged",
                "served a:443 a.test terminate infra/cert AllowInsecureFallback",
            ],
        ),
        (
            "a mode of a later release",
            json!({"default": {"validation": {"mode": "AllowAll", "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}]}}}),
            &["gateway g Accepted False UnsupportedValue", "no served"],
        ),
    ] {
        assert_lines(why, &[frontend(&settings)], expected);
    }
    let lines = outcome(&[frontend(&json!({"default": good}))]);
    assert!(!lines.iter().any(|line| line.contains("InsecureFrontend")), "{lines:?}");
}

#[test]
fn route_kinds_are_those_of_the_protocol_and_the_list() {
    let kinds = |protocol: &str, kinds: &Value| {
        gateway(&json!([with(listener("l", 443, protocol, "a.test"), &json!({"allowedRoutes": {"kinds": kinds}}))]))
    };
    let invalid = "listener l ResolvedRefs False InvalidRouteKinds";
    for (why, protocol, listed, expected) in [
        ("none listed", "TLS", json!([]), &["listener l kinds TLSRoute routes", "listener l ResolvedRefs True"]),
        (
            "another one beside it",
            "TLS",
            json!([{"kind": "TCPRoute"}, {"kind": "TLSRoute"}]),
            &["listener l kinds TLSRoute routes", invalid],
        ),
        ("another one alone", "HTTPS", json!([{"kind": "InvalidRoute"}]), &["listener l kinds  routes", invalid]),
        ("of another protocol", "HTTPS", json!([{"kind": "TLSRoute"}]), &["listener l kinds  routes", invalid]),
        (
            "of another group",
            "HTTPS",
            json!([{"group": "a.test", "kind": "HTTPRoute"}]),
            &["listener l kinds  routes", invalid],
        ),
        (
            "gRPC",
            "HTTPS",
            json!([{"kind": "GRPCRoute"}, {"kind": "HTTPRoute"}]),
            &["listener l kinds HTTPRoute routes", invalid],
        ),
    ] {
        assert_lines(why, &[kinds(protocol, &listed)], expected);
    }
}

#[test]
fn gateway_with_a_field_that_is_not_served_is_refused() {
    let good = json!([listener("l", 443, "HTTPS", "a.test")]);
    let spec = |fields: &Value| {
        let mut gateway = gateway(&good);
        for (name, value) in fields.as_object().unwrap() {
            gateway["spec"][name] = value.clone();
        }
        gateway
    };
    for (fields, expected) in [
        (
            json!({"defaultScope": "All"}),
            &["gateway g Accepted False UnsupportedValue: spec.defaultScope", "no served"],
        ),
        (
            json!({"tls": {"backend": {"clientCertificateRef": {"name": "cert"}}}}),
            &["gateway g Accepted False UnsupportedValue: spec.tls.backend", "no served"],
        ),
        (
            json!({"infrastructure": {"parametersRef": {"group": "", "kind": "ConfigMap", "name": "x"}}}),
            &["gateway g Accepted False InvalidParameters", "no served"],
        ),
        (
            json!({"addresses": [{"type": "Hostname", "value": "a.test"}]}),
            &["gateway g Accepted False UnsupportedAddress", "no served"],
        ),
        (json!({"addresses": [{"value": "a.test"}]}), &["gateway g Accepted False UnsupportedAddress", "no served"]),
        (
            json!({"addresses": [{"value": "192.0.2.1"}, {"value": "2001:db8::1"}, {}]}),
            &["gateway g Accepted True Accepted: spec.addresses[2] has no effect", "served l:443"],
        ),
        (json!({"addresses": [{}, {"value": ""}]}), &["gateway g Accepted True Accepted: ", "no note"]),
        (
            json!({"infrastructure": {"labels": {"a": "b"}}}),
            &["gateway g Accepted True Accepted: spec.infrastructure", "note spec.infrastructure"],
        ),
        (
            json!({"allowedListeners": {"namespaces": {"from": "All"}}}),
            &["gateway g Accepted True Accepted: spec.allowedListeners", "note spec.allowedListeners"],
        ),
        (
            json!({"allowedListeners": {"namespaces": {"from": "None", "selector": {}}, "ofALaterRelease": 1}}),
            &[
                "gateway g Accepted True Accepted: spec.allowedListeners.ofALaterRelease has no effect",
                "note spec.allowedListeners.namespaces.selector: has no effect: ListenerSets",
            ],
        ),
        (json!({"allowedListeners": {"namespaces": {"from": "None"}}}), &["gateway g Accepted True", "no note"]),
    ] {
        assert_lines(&fields.to_string(), &[spec(&fields)], expected);
    }
}

#[test]
fn classes_are_those_of_this_controller() {
    let class_of = |controller: &str, parameters: &Value| {
        object("GatewayClass", "", "portcullis", &json!({"controllerName": controller, "parametersRef": parameters}))
    };
    let settings = json!({"group": "portcullis.dev", "kind": "GatewaySettings", "name": "default"});
    let with_name = |name: &str| json!({"group": "portcullis.dev", "kind": "GatewaySettings", "name": name});
    let namespaced =
        json!({"group": "portcullis.dev", "kind": "GatewaySettings", "name": "default", "namespace": INFRA});
    let config_map = json!({"group": "", "kind": "ConfigMap", "name": "default"});
    let good = gateway(&json!([listener("l", 443, "HTTPS", "a.test")]));
    let outcome = |class: Value| lines(&attach(&read(&[class, good.clone()]), &inventory()));
    assert_eq!(outcome(class_of("example.com/other", &Value::Null)), Vec::<String>::new());
    for (parameters, accepted) in [
        (Value::Null, true),
        (settings, true),
        (with_name("none"), false),
        (with_name("other"), false),
        (namespaced, false),
        (config_map, false),
    ] {
        let lines = outcome(class_of(crate::CONTROLLER_NAME, &parameters));
        let wanted = if accepted {
            "class portcullis Accepted True"
        } else {
            "class portcullis Accepted False InvalidParameters"
        };
        assert!(lines.iter().any(|line| line.starts_with(wanted)), "{parameters}: {lines:?}");
        assert_eq!(lines.iter().any(|line| line.starts_with("served")), accepted, "{parameters}: {lines:?}");
    }
    let mut later = class();
    later["spec"]["mode"] = json!("Strict");
    let lines = outcome(later);
    assert!(lines[0].starts_with("class portcullis Accepted False UnsupportedValue: spec.mode"), "{lines:?}");
}

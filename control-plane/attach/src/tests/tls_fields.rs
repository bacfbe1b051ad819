//! Fields of TLS that are accepted, and have no effect where they are.

use serde_json::{Value, json};

use super::world::{assert_lines, gateway, listener};

#[test]
fn fields_of_tls_without_effect_are_named() {
    let validation = json!({"validation": {"caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}]}});
    let at = |port: u16, tls: &Value| json!({"port": port, "tls": tls});
    let (https, tls) = (listener("l", 443, "HTTPS", "a.test"), listener("t", 443, "TLS", "t.test"));
    let apart = listener("t", 8443, "TLS", "t.test");
    let mut certified = apart.clone();
    certified["tls"]["certificateRefs"] = json!([{"name": "cert"}]);
    let plain = listener("p", 80, "HTTP", "");
    let default = || json!({"default": validation});
    let by_port = |ports: &[Value]| json!({"default": {}, "perPort": ports});
    for (why, listeners, frontend, expected) in [
        ("HTTPS alone", json!([https]), default(), &["listener l Accepted True Accepted: ", "no note"][..]),
        (
            "a default at a listener that passes on",
            json!([https, apart]),
            default(),
            &[
                "gateway g Accepted True Accepted: ",
                "listener l Accepted True Accepted: ",
                "listener t Accepted True Accepted: spec.tls.frontend.default.validation has no effect at listener t",
                "note spec.tls.frontend.default.validation: has no effect at listener t: its connections are passed on",
            ],
        ),
        (
            "a port with both protocols",
            json!([https, tls]),
            by_port(&[at(443, &validation)]),
            &["note spec.tls.frontend.perPort[0].tls.validation: has no effect at listener t"],
        ),
        (
            "another port",
            json!([https, apart]),
            by_port(&[at(443, &validation)]),
            &["listener t Accepted True Accepted: ", "no note"],
        ),
        (
            "an exception for the port",
            json!([https, apart]),
            json!({"default": validation, "perPort": [at(8443, &json!({}))]}),
            &["served l:443 a.test terminate infra/cert AllowValidOnly", "no note"],
        ),
        (
            "a port that no listener has",
            json!([https, plain]),
            by_port(&[at(443, &validation), at(444, &validation), at(80, &validation)]),
            &[
                "gateway g Accepted True Accepted: spec.tls.frontend.perPort[1] has no effect: no listener with TLS has port 444; \
                 spec.tls.frontend.perPort[2] has no effect",
                "no note spec.tls.frontend.perPort[0]",
            ],
        ),
        (
            "plain HTTP alone",
            json!([plain]),
            default(),
            &["note spec.tls.frontend.default.validation: has no effect: no listener has TLS"],
        ),
        (
            "certificates of a listener that passes on",
            json!([certified]),
            Value::Null,
            &[
                "listener t Accepted True Accepted: spec.listeners[0].tls.certificateRefs has no effect at listener t",
                "listener t ResolvedRefs True",
            ],
        ),
    ] {
        let mut gateway = gateway(&listeners);
        if !frontend.is_null() {
            gateway["spec"]["tls"] = json!({"frontend": frontend});
        }
        assert_lines(why, &[gateway], expected);
    }
}

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::*;
use crate::check::check_settings;
use crate::parse::parse_settings;

/// The outcome, or the first problem, and the number of warnings.
fn checked(tracing: Value) -> (Result<Option<Tracing>, String>, usize) {
    let document = json!({
        "apiVersion": crate::SETTINGS_API_VERSION, "kind": crate::SETTINGS_KIND, "metadata": {"name": "x"},
        "spec": {"tracing": tracing},
    });
    let checked = check_settings(&parse_settings(&document).unwrap());
    let outcome = checked.outcome.map(|settings| settings.tracing).map_err(|problems| problems[0].to_string());
    (outcome, checked.warnings.len())
}

fn with(more: &Value) -> Value {
    let mut tracing = json!({"endpoint": "127.0.0.1:4317", "samplingRatePerMillion": 10_000});
    tracing.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    tracing
}

fn ca() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap().self_signed(&key).unwrap();
    STANDARD.encode(certificate.pem())
}

#[test]
fn tracing_is_off_unless_it_is_written() {
    assert_eq!(checked(Value::Null), (Ok(None), 0));
    let (tracing, warnings) = checked(with(&json!({})));
    let tracing = tracing.unwrap().unwrap();
    assert_eq!((tracing.endpoint.to_string().as_str(), tracing.protocol), ("127.0.0.1:4317", TracingProtocol::Grpc));
    assert_eq!((tracing.tls, tracing.sampled_of_10_000, warnings), (None, 100, 0));
    assert_eq!((tracing.parents, tracing.users), (TracingParents::Ignored, TracingUsers::Omitted));
}

#[test]
fn endpoint_is_a_host_and_a_port() {
    for good in ["127.0.0.1:1", "[::1]:4317", "otel.test:65535", "10.0.0.1:4318"] {
        let (outcome, _) = checked(with(&json!({"endpoint": good, "insecure": true})));
        assert_eq!(outcome.unwrap().unwrap().endpoint.to_string(), good);
    }
    for wrong in
        ["", "otel", "otel:", "otel:0", "otel:70000", "http://otel:4317", "Otel:1", "::1:1", "[otel]:1", "a b:1"]
    {
        let problem = checked(with(&json!({"endpoint": wrong, "insecure": true}))).0.unwrap_err();
        assert!(problem.starts_with("spec.tracing.endpoint: must be the host and port"), "{wrong}: {problem}");
    }
}

#[test]
fn spans_leave_the_machine_without_tls_only_if_that_is_written() {
    let far = |more: Value| {
        let mut tracing = with(&more);
        tracing["endpoint"] = json!("otel.test:4317");
        checked(tracing).0
    };
    assert!(far(json!({})).unwrap_err().starts_with("spec.tracing.ca: is required"));
    assert_eq!(far(json!({"insecure": true})).unwrap().unwrap().tls, None);
    let tls = |more| far(more).unwrap().unwrap().tls.unwrap();
    assert_eq!(tls(json!({"ca": {"data": ca()}})).name, PeerName::Dns("otel.test".to_owned()));
    let named = tls(json!({"ca": {"data": ca()}, "serverName": "10.0.0.7"}));
    assert_eq!(named.name, PeerName::Ip([10, 0, 0, 7].into()));
    for (more, wanted) in [
        (json!({"ca": {"data": ca()}, "insecure": true}), "spec.tracing.insecure: excludes ca"),
        (json!({"ca": {}}), "spec.tracing.ca.data: holds no PEM certificate"),
        (json!({"ca": {"file": "ca.crt"}}), "spec.tracing.ca.file: there is no file at this path"),
        (json!({"ca": {"data": ca()}, "serverName": "*.test"}), "spec.tracing.serverName: must be a DNS name"),
        (json!({"insecure": true, "serverName": ""}), "spec.tracing.serverName: must be a DNS name"),
    ] {
        let problem = far(more).unwrap_err();
        assert!(problem.starts_with(wanted), "{problem}");
    }
    let near = checked(with(&json!({"serverName": "otel.test"}))).0.unwrap_err();
    assert!(near.starts_with("spec.tracing.serverName: has no certificate"), "{near}");
}

#[test]
fn sampling_rate_is_one_that_envoy_can_keep() {
    for (rate, wanted) in [(100, Ok(1)), (1_000_000, Ok(10_000)), (1, Err(())), (150, Err(())), (1_000_100, Err(()))] {
        let outcome = checked(with(&json!({"samplingRatePerMillion": rate}))).0;
        assert_eq!(outcome.map(|one| one.unwrap().sampled_of_10_000).map_err(drop), wanted, "{rate}");
    }
    let none = json!({"samplingRatePerMillion": 0});
    assert_eq!(checked(with(&none)).1, 1, "nothing is ever traced");
    assert_eq!(checked(with(&json!({"samplingRatePerMillion": null}))).1, 1);
    let (trusted, warnings) = checked(with(&json!({"samplingRatePerMillion": 0, "parents": "Trusted"})));
    assert_eq!((trusted.unwrap().unwrap().parents, warnings), (TracingParents::Trusted, 1), "about clients alone");
}

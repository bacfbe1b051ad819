use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::check::{Checked, Cluster, Trust, check_cluster};
use crate::parse::parse_cluster;
use crate::schema::cluster_definition;

/// Fields that hold for connections that are passed on, or say nothing of requests.
const KEPT: [&str; 16] = [
    "spec.servers",
    "spec.clientConfig.serverName",
    "spec.clientConfig.qps",
    "spec.clientConfig.burst",
    "spec.clientConfig.qpsDivisor",
    "spec.secureServing.serverNames",
    "spec.logging",
    "spec.portcullis.clientAddresses",
    "spec.portcullis.discovery",
    "spec.portcullis.healthCheck",
    "spec.portcullis.references",
    "spec.portcullis.servers",
    "spec.portcullis.transport",
    "spec.portcullis.virtualIPs",
    // Beside `certData`, which has the warning.
    "spec.clientConfig.keyData",
    "spec.secureServing.keyData",
];

fn object(portcullis: Value) -> Value {
    let mut portcullis = portcullis;
    portcullis["transport"] = json!("TLSPassthrough");
    json!({
        "apiVersion": crate::CLUSTER_API_VERSION, "kind": crate::CLUSTER_KIND, "metadata": {"name": "a.test"},
        "spec": {"servers": [{"endpoint": "https://a.test"}], "portcullis": portcullis},
    })
}

fn check(object: &Value) -> Checked<Cluster> {
    check_cluster(&parse_cluster(object).unwrap(), false)
}

fn problems(object: &Value) -> Vec<String> {
    let outcome = check(object).outcome;
    outcome.map(|_| Vec::new()).unwrap_or_else(|problems| problems.iter().map(|one| one.path.clone()).collect())
}

fn warned(object: &Value) -> BTreeSet<String> {
    check(object).warnings.into_iter().filter(|one| one.code == ProblemCode::NoEffect).map(|one| one.path).collect()
}

/// The object with a value at a path.
fn with(mut object: Value, path: &str, value: Value) -> Value {
    let mut place = &mut object;
    for step in path.split('.') {
        place = &mut place[step];
    }
    *place = value;
    object
}

#[test]
fn transport_is_one_of_two_words() {
    let of = |word: &str| check(&with(object(json!({})), "spec.portcullis.transport", json!(word)));
    assert_eq!(of("TLSPassthrough").outcome.unwrap().transport, Transport::Passthrough);
    for judged in ["", "TLSTerminate"] {
        let object = with(object(json!({})), "spec.portcullis.transport", json!(judged));
        let object =
            with(object, "spec.dispatchPolicies", json!([{"rules": [{"verbs": ["get"], "nonResourceURLs": ["/"]}]}]));
        let object = with(object, "spec.clientConfig", json!({"insecure": true, "bearerToken": "YQ=="}));
        assert_eq!(check(&object).outcome.unwrap().transport, Transport::Terminate);
    }
    for wrong in ["Passthrough", "tlspassthrough", "TLSPassthrough ", "TCP"] {
        let problems = of(wrong).outcome.unwrap_err();
        assert!(problems.iter().any(|one| one.path == PATH), "{wrong}: {problems:?}");
    }
}

#[test]
fn passed_on_object_needs_neither_credential_nor_policy() {
    let checked = check(&object(json!({})));
    let codes: Vec<_> = checked.warnings.iter().map(|one| one.code).collect();
    assert_eq!(codes, [ProblemCode::PassedOn]);
    let cluster = checked.outcome.unwrap();
    assert!(cluster.certificate.is_none() && cluster.token.is_none() && cluster.policies.is_empty());
    assert_eq!(cluster.trust, Trust::Insecure);
    let judged = with(object(json!({})), "spec.portcullis.transport", json!(""));
    let missing = problems(&judged);
    for path in ["spec.clientConfig", "spec.clientConfig.caData", "spec.dispatchPolicies"] {
        assert!(missing.iter().any(|one| one == path), "{path}: {missing:?}");
    }
}

#[test]
fn lists_that_keep_somebody_out_exclude_passing_on() {
    let rule = json!({"verbs": ["delete"], "apiGroups": [""], "resources": ["pods"]});
    let cases = [
        ("spec.portcullis.access", json!({"deny": [{"users": ["mallory"]}]})),
        ("spec.portcullis.access", json!({"allow": [{"addresses": ["10.0.0.0/8"]}], "force": true})),
        ("spec.portcullis.protectedIdentities", json!({"users": ["root"]})),
        ("spec.portcullis.protectedIdentities", json!({"groups": ["system:masters"]})),
        ("spec.dispatchPolicies", json!([{"rules": [rule], "portcullis": {"action": "Deny"}}])),
        ("spec.portcullis.allowAnonymous", json!(false)),
        ("spec.portcullis.clientCertificateVerification", json!("Handshake")),
    ];
    for (path, value) in cases {
        assert_eq!(problems(&with(object(json!({})), path, value.clone())), [path], "{value}");
    }
    let reporting = json!([{"rules": [rule], "portcullis": {"action": "Deny", "mode": "Shadow"}}, {"rules": [rule]}]);
    assert_eq!(problems(&with(object(json!({})), "spec.dispatchPolicies", reporting)), [""; 0], "it only reports");
}

#[test]
fn limit_of_nothing_excludes_passing_on_where_it_is_used() {
    let rule = json!({"verbs": ["delete"], "apiGroups": [""], "resources": ["pods"]});
    let of = |max: u32, policy: &str| {
        let schemas = ["closed", "other"].map(|name| {
            let max = if name == "closed" { max } else { 5 };
            json!({"name": name, "maxRequestsInflight": {"max": max}})
        });
        let object = with(object(json!({})), "spec.flowControl", json!({"flowControlSchemas": schemas}));
        let policies = json!([{"rules": [rule], "flowControlSchemaName": policy}]);
        problems(&with(object, "spec.dispatchPolicies", policies))
    };
    assert_eq!(of(0, "closed"), ["spec.flowControl.flowControlSchemas"]);
    for (max, policy) in [(1, "closed"), (0, "other")] {
        assert_eq!(of(max, policy), [""; 0], "{max} {policy}");
    }
}

#[test]
fn profile_in_effect_closes_connections() {
    let annotation = "metadata.annotations[portcullis.dev/profile]";
    let of =
        |profile: &str| with(object(json!({})), "metadata.annotations", json!({"portcullis.dev/profile": profile}));
    let rules = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    let own = json!([{"name": "own", "dispatchPolicies": [{"rules": rules}]}]);
    for (profile, is_told) in [("heartbeats", true), ("trickle", true), ("own", true), ("frozen", false)] {
        let checked = check(&with(of(profile), "spec.portcullis.profiles", own.clone()));
        assert!(checked.outcome.unwrap().gates.deny_all_requests, "{profile}");
        let told = format!("{profile} closes all connections");
        let mut warnings = checked.warnings.iter().filter(|one| one.path == annotation);
        assert_eq!(warnings.any(|one| one.message.starts_with(&told)), is_told, "{profile}");
        let denying = with(of(profile), "spec.portcullis.profiles", own.clone());
        let denying = with(denying, "spec.portcullis.access", json!({"deny": [{"users": ["mallory"]}]}));
        let outcome = check(&denying).outcome;
        assert!(outcome.unwrap().gates.deny_all_requests, "{profile}: refused, the version before would go on");
    }
    let without = with(object(json!({})), "spec.portcullis.profiles", own);
    assert!(!check(&without).outcome.unwrap().gates.deny_all_requests, "no profile is in effect");
}

#[test]
fn discovery_as_the_gateway_needs_its_credential() {
    let object = object(json!({"discovery": {"kubernetesService": true}}));
    let pem = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, authority());
    let trusting = with(object, "spec.clientConfig", json!({"caData": pem}));
    assert_eq!(problems(&trusting), ["spec.portcullis.discovery.kubernetesService"]);
    let reading = with(trusting, "spec.clientConfig.bearerToken", json!("YQ=="));
    assert_eq!((problems(&reading), warned(&reading)), (Vec::new(), BTreeSet::new()), "the credential is used");
}

#[test]
fn authority_of_discovered_servers_has_an_effect() {
    let pem = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, authority());
    let client = json!({"caData": pem, "bearerToken": "YQ=="});
    let sources = [
        json!({"service": {"namespace": "default", "name": "kube-apiserver"}}),
        json!({"srvRecord": "_https._tcp.apiservers.example.com"}),
    ];
    for source in sources {
        let object = with(object(json!({"discovery": source})), "spec.clientConfig", client.clone());
        let expected = BTreeSet::from(["spec.clientConfig.bearerToken".to_owned()]);
        assert_eq!((problems(&object), warned(&object)), (Vec::new(), expected), "{source}");
    }
    let written = with(object(json!({})), "spec.clientConfig", client);
    assert!(warned(&written).contains("spec.clientConfig.caData"), "written servers are not verified");
}

fn authority() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap().self_signed(&key).unwrap().pem()
}

/// An object that is served in the usual way is passed on with one more field, and each field that then means nothing is named.
#[test]
fn field_without_effect_is_named() {
    let key = rcgen::KeyPair::generate().unwrap();
    let cert = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap().self_signed(&key).unwrap();
    let base64 = |pem: String| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pem);
    let (cert, key) = (base64(cert.pem()), base64(key.serialize_pem()));
    let rules = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    let profile = json!({"name": "own", "dispatchPolicies": [{"rules": rules}]});
    let portcullis = json!({
        "requestTimeout": "80s", "drainPeriod": "1m", "maxSessionDuration": "1h", "extraAuthorities": ["b.test"],
        "allowAnonymous": true, "clientCertificateVerification": "Request", "upstreamIdentity": "RequestHeader",
        "requestHeader": {"tokenReview": true}, "credentialCache": {"tokenTTL": "1m"}, "tokens": {"audiences": ["a"]},
        "forwardedExtras": ["example.com/a"], "auditAttribution": true, "constrainedImpersonation": true,
        "fairQueues": [{"name": "fair", "max": 3}], "profiles": [profile], "operatorGroups": ["ops"],
        "shadow": {"dispatchPolicies": [{"rules": rules}]}, "logging": {"slow": "1s", "failed": false},
    });
    let mut object = object(portcullis);
    object["metadata"]["annotations"] = json!({"proxy.kubegateway.io/feature-gates": "CloseConnectionWhenIdle=true"});
    object["spec"]["clientConfig"] = json!({"caData": cert, "certData": cert, "keyData": key});
    object["spec"]["secureServing"] = json!({"certData": cert, "keyData": key, "clientCAData": cert});
    object["spec"]["flowControl"] = json!({"flowControlSchemas": [{"name": "own", "exempt": {}}]});
    object["spec"]["dispatchPolicies"] = json!([{"rules": rules, "flowControlSchemaName": "own"}]);
    assert_eq!(problems(&object), [""; 0]);
    let warned = warned(&object);
    let mut expected: BTreeSet<String> = fields().into_iter().filter(|field| !is_kept(field)).collect();
    expected.remove("spec.portcullis.logging");
    expected.extend(["slow", "failed"].map(|field| format!("spec.portcullis.logging.{field}")));
    // Not set here, because they exclude others of these.
    expected.extend(["metadata.annotations[proxy.kubegateway.io/feature-gates]".to_owned()]);
    let others = ["spec.clientConfig.insecure", "spec.clientConfig.bearerToken"].map(str::to_owned);
    assert_eq!(&warned | &others.into(), expected);
}

fn is_kept(field: &str) -> bool {
    let excludes = ["spec.portcullis.access", "spec.portcullis.protectedIdentities"];
    KEPT.contains(&field) || excludes.contains(&field)
}

/// All fields of the definition: those of `clientConfig`, `secureServing` and `portcullis` one by one.
fn fields() -> BTreeSet<String> {
    let definition = cluster_definition();
    let spec = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    let is_refused = |field: &Value| field["description"].as_str().is_some_and(|text| text.starts_with("Refused: "));
    let below = |fields: &Value, path: &str| -> Vec<String> {
        let known = fields.as_object().unwrap().iter().filter(|(_, field)| !is_refused(field));
        known.map(|(name, _)| format!("{path}.{name}")).collect()
    };
    let opened = ["clientConfig", "secureServing", "portcullis"];
    let mut all: BTreeSet<String> = below(spec, "spec").into_iter().collect();
    for name in opened {
        all.remove(&format!("spec.{name}"));
        all.extend(below(&spec[name]["properties"], &format!("spec.{name}")));
    }
    all
}

use std::net::IpAddr;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::attached::{PolicyInEffect, PolicyRole, behind_door, upstream_rules};
use crate::check::{PeerName, Trust, UpstreamIdentity, check_cluster};
use crate::kind::PolicyKind;
use crate::parse::{parse_cluster, parse_upstream};
use crate::references::assumed_material;

fn document(spec: &Value) -> Value {
    json!({
        "apiVersion": crate::UPSTREAM_API_VERSION, "kind": crate::UPSTREAM_KIND,
        "metadata": {"name": "prod", "namespace": "team-a", "uid": "u"}, "spec": spec,
    })
}

fn spec() -> Value {
    json!({
        "servers": [{"endpoint": "https://10.0.0.1:6443"}], "serverName": "kubernetes.default.svc",
        "references": {"upstreamCA": {"configMap": {"name": "ca"}}, "token": {"secret": {"name": "gateway"}}},
    })
}

/// With a value at a path below the spec; null takes the field away.
fn with(path: &str, value: Value) -> Value {
    let mut spec = spec();
    let (parent, field) = path.rsplit_once('/').unwrap();
    spec.pointer_mut(parent).unwrap()[field] = value;
    spec
}

fn check(spec: &Value) -> Checked<Cluster> {
    let raw = parse_upstream(&document(spec)).unwrap();
    check_upstream(&raw, &assumed_material(&raw), &upstream_rules(&[]), false)
}

fn paths(spec: &Value) -> Vec<String> {
    check(spec).outcome.err().unwrap_or_default().into_iter().map(|problem| problem.path).collect()
}

#[test]
fn fields_are_those_of_a_cluster_with_one_policy() {
    let mut spec = spec();
    spec["servers"] = json!([{"endpoint": "https://10.0.0.2", "zone": "a", "weight": 9}, {"endpoint": "https://[2001:db8::1]:6443", "disabled": true}]);
    spec["references"]["clientCA"] = json!({"secret": {"name": "ca"}});
    spec["requestTimeout"] = json!("90s");
    spec["healthCheck"] = json!({"path": "/livez"});
    spec["tokenAudiences"] = json!(["a"]);
    let cluster = check(&spec).outcome.unwrap();
    assert_eq!(cluster.name, "team-a/prod");
    let servers: Vec<_> = cluster
        .servers
        .iter()
        .map(|one| (one.endpoint.to_string(), one.enabled, one.zone.as_str(), one.weight))
        .collect();
    assert_eq!(servers, [("10.0.0.2:443".to_owned(), true, "a", 9), ("[2001:db8::1]:6443".to_owned(), false, "", 1)]);
    assert_eq!(cluster.peer_name, PeerName::Dns("kubernetes.default.svc".to_owned()));
    assert!(matches!(cluster.trust, Trust::Bundle(_)) && cluster.client_ca.is_some());
    assert_eq!((cluster.request_timeout.as_secs(), cluster.health_check.path.as_str()), (90, "/livez"));
    assert_eq!((cluster.tokens.audiences, cluster.uid.as_deref()), (vec!["a".to_owned()], Some("u")));
    assert_eq!(cluster.upstream_identity, UpstreamIdentity::Impersonate);
    let [policy] = cluster.policies.as_slice() else { panic!("{:?}", cluster.policies) };
    assert!(policy.subset.is_none() && policy.deny.is_none() && policy.schema.is_none());
    let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"]});
    assert_eq!(policy.rules, [serde_json::from_value(everything).unwrap()]);
    assert!(cluster.server_names.is_empty() && cluster.virtual_ips.is_empty() && cluster.extra_authorities.is_empty());
}

fn attached(kind: PolicyKind, role: PolicyRole, fields: Value) -> PolicyInEffect {
    let (policy, why) = ("team-a/x".to_owned(), "overrides".to_owned());
    PolicyInEffect { kind, policy, uid: None, role, why, fields: Ok(Arc::new(fields)) }
}

fn limits(max: i32) -> Value {
    let fair = json!([{"name": "fair", "max": 3}]);
    json!({"flowControl": {"flowControlSchemas": [{"name": "few", "maxRequestsInflight": {"max": max}}]}, "fairQueues": fair})
}

#[test]
fn policies_are_in_effect_as_at_a_cluster() {
    let rules = json!([{"verbs": ["get"], "apiGroups": ["*"], "resources": ["pods"]}]);
    let all = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"]}]);
    let dispatch = json!({"dispatchPolicies": [
        {"rules": rules, "flowControlSchemaName": "few", "logMode": "on"}, {"rules": all, "flowControlSchemaName": "fair"},
    ]});
    let policies = [
        attached(PolicyKind::Dispatch, PolicyRole::Decides, dispatch.clone()),
        attached(PolicyKind::FlowControl, PolicyRole::Decides, limits(5)),
    ];
    let raw = parse_upstream(&document(&spec())).unwrap();
    let check = |rules: &Value| check_upstream(&raw, &assumed_material(&raw), rules, false).outcome;
    let found = check(&upstream_rules(&policies)).unwrap();
    let mut twin = json!({
        "apiVersion": crate::CLUSTER_API_VERSION, "kind": crate::CLUSTER_KIND, "metadata": {"name": "a.test"},
        "spec": {"servers": [{"endpoint": "https://10.0.0.1:6443"}], "clientConfig": {"insecure": true, "bearerToken": "YQ=="}},
    });
    twin["spec"]["dispatchPolicies"] = dispatch["dispatchPolicies"].clone();
    twin["spec"]["flowControl"] = limits(5)["flowControl"].clone();
    twin["spec"]["portcullis"] = json!({"fairQueues": limits(5)["fairQueues"]});
    let cluster = check_cluster(&parse_cluster(&twin).unwrap(), false).outcome.unwrap();
    let parts = |of: &Cluster| format!("{:?} {:?} {:?}", of.policies, of.schemas, of.fair_queues);
    assert_eq!(parts(&found), parts(&cluster));

    // A door lowers them as those of a cluster.
    let door =
        attached(PolicyKind::FlowControl, PolicyRole::Tightens, json!({"flowControl": limits(2)["flowControl"]}));
    let lowered = check(&behind_door(&upstream_rules(&policies), &door).unwrap()).unwrap();
    twin["spec"]["flowControl"] = limits(2)["flowControl"].clone();
    let cluster = check_cluster(&parse_cluster(&twin).unwrap(), false).outcome.unwrap();
    assert_eq!(parts(&lowered), parts(&cluster));
    let without = check(&behind_door(&upstream_rules(&[]), &door).unwrap()).unwrap();
    assert_eq!(parts(&without), parts(&check(&upstream_rules(&[])).unwrap()), "there is no such limit");

    // A message names the policy of which a field is.
    let alone = check(&upstream_rules(&policies[..1])).unwrap_err();
    assert!(alone[0].message.starts_with("of DispatchPolicy team-a/x: "), "{alone:?}");
    assert_eq!(alone[0].path, "spec.dispatchPolicies[0].flowControlSchemaName");
    let wrong = PolicyInEffect { fields: Err("spec: no".to_owned()), ..policies[1].clone() };
    let refused = check(&upstream_rules(&[wrong])).unwrap_err();
    assert!(
        refused
            .iter()
            .any(|one| one.message.contains("FlowControlPolicy team-a/x") && one.message.contains("spec: no"))
    );
}

#[test]
fn mistake_is_reported_at_the_field_of_this_kind() {
    let ca = json!({"configMap": {"name": "ca"}});
    for (spec, path) in [
        (with("/servers", json!([])), "spec.servers"),
        (with("/servers/0/weight", json!(0)), "spec.servers[0].weight"),
        (with("/serverName", json!("")), "spec.serverName"),
        (with("/serverName", json!("a_b")), "spec.serverName"),
        (with("/references/upstreamCA", Value::Null), "spec.references.upstreamCA"),
        (with("/references/upstreamCA", json!({})), "spec.references.upstreamCA"),
        (
            with("/references/clientCA", json!({"configMap": {"name": "a"}, "secret": {"name": "a"}})),
            "spec.references.clientCA",
        ),
        (with("/references", json!({"upstreamCA": ca})), "spec.references"),
        (with("/references/client", json!({"secret": {"name": "a"}})), "spec.references"),
        (with("/healthCheck", json!({"interval": "1h"})), "spec.healthCheck.interval"),
        (with("/requestTimeout", json!("2h")), "spec.requestTimeout"),
        (with("/upstreamIdentity", json!("Other")), "spec.upstreamIdentity"),
        (with("/upstreamIdentity", json!("RequestHeader")), "spec.references.client"),
        (with("/clientCertificateVerification", json!("Handshake")), "spec.clientCertificateVerification"),
        (with("/tokenAudiences", json!([""])), "spec.tokenAudiences"),
        (with("/forwardedExtras", json!(["A"])), "spec.forwardedExtras[0]"),
        (with("/servers", json!(vec![json!({"endpoint": "https://10.0.0.1"}); 33])), "spec.servers"),
    ] {
        assert!(paths(&spec).iter().any(|found| found == path), "{spec}: {path} in {:?}", paths(&spec));
    }
    assert_eq!(paths(&spec()), Vec::<String>::new());
    let mut proxy = with("/upstreamIdentity", json!("RequestHeader"));
    proxy["references"] = json!({"upstreamCA": ca, "client": {"secret": {"name": "a"}}});
    assert_eq!(paths(&proxy), Vec::<String>::new(), "a pair that is not at hand is assumed");
}

#[test]
fn server_is_at_an_address_away_from_the_gateway() {
    for (endpoint, is_allowed) in [
        ("https://10.0.0.1:6443", true),
        ("https://[2001:db8::1]:6443", true),
        ("https://127.0.0.1:9901", false),
        ("https://[::1]:9901", false),
        ("https://[::ffff:127.0.0.1]", false),
        ("https://169.254.169.254", false),
        ("https://[fe80::1]", false),
        ("https://0.0.0.0", false),
        ("https://224.0.0.1", false),
        ("https://[64:ff9b::7f00:1]", false),
        ("https://100.100.100.200", false),
        // Names are resolved too late.
        ("https://prod.example.com", false),
        ("https://localhost", false),
        ("http://10.0.0.1", false),
    ] {
        let spec = with("/servers", json!([{"endpoint": endpoint}]));
        assert_eq!(paths(&spec).is_empty(), is_allowed, "{endpoint}: {:?}", paths(&spec));
    }
    let raw = parse_upstream(&document(&with("/servers", json!([{"endpoint": "https://127.0.0.1:6443"}])))).unwrap();
    assert!(
        check_upstream(&raw, &assumed_material(&raw), &upstream_rules(&[]), true).outcome.is_ok(),
        "as the lab's settings allow"
    );
}

#[test]
fn fields_of_policies_and_host_names_are_none_of_this_kind() {
    for field in [
        "dispatchPolicies",
        "flowControl",
        "fairQueues",
        "secureServing",
        "clientConfig",
        "portcullis",
        "virtualIPs",
        "extraAuthorities",
        "discovery",
        "tokens",
        "access",
        "protectedIdentities",
        "profiles",
        "transport",
        "insecure",
    ] {
        let mut spec = spec();
        spec[field] = json!({});
        let problems = parse_upstream(&document(&spec)).unwrap_err();
        assert_eq!(problems[0].path, format!("spec.{field}"), "{problems:?}");
    }
}

#[test]
fn size_has_a_bound() {
    let of = |length: usize| parse_upstream(&document(&with("/tokenAudiences", json!(["x".repeat(length)]))));
    assert!(of(1_000).is_ok());
    let problems = of(16 * 1024).unwrap_err();
    assert_eq!((problems.len(), problems[0].path.as_str()), (1, "spec"));
}

#[test]
fn annotations_choose_neither_profile_nor_gates() {
    let mut document = document(&spec());
    document["metadata"]["annotations"] = json!({
        crate::PROFILE_ANNOTATION: "frozen", "proxy.kubegateway.io/feature-gates": "DenyAllRequests=true",
    });
    let raw = parse_upstream(&document).unwrap();
    let cluster = check_upstream(&raw, &assumed_material(&raw), &upstream_rules(&[]), false).outcome.unwrap();
    assert!(!cluster.gates.deny_all_requests && cluster.profile.is_none());
}

#[test]
fn name_is_one_label_in_a_namespace() {
    for (name, namespace, is_good) in [
        ("prod", Some("team-a"), true),
        ("prod.a", Some("team-a"), false),
        ("a/b", Some("team-a"), false),
        ("prod", Some("a/b"), false),
        ("prod", Some("-"), false),
        ("prod", Some(""), false),
        ("prod", None, false),
        ("", Some("team-a"), false),
    ] {
        let mut document = document(&spec());
        document["metadata"] = json!({"name": name, "namespace": namespace});
        let raw = parse_upstream(&document).unwrap();
        let checked = check_upstream(&raw, &assumed_material(&raw), &upstream_rules(&[]), false);
        assert_eq!(checked.outcome.is_ok(), is_good, "{name:?} {namespace:?}: {checked:?}");
    }
}

proptest! {
    #[test]
    fn key_is_no_name_that_a_cluster_may_have(namespace in "[a-z0-9/.-]{0,12}", name in "[a-z0-9/.-]{0,12}") {
        let key = upstream_key(&namespace, &name);
        let document = json!({
            "apiVersion": crate::CLUSTER_API_VERSION, "kind": crate::CLUSTER_KIND, "metadata": {"name": key},
            "spec": {
                "servers": [{"endpoint": "https://10.0.0.1"}], "dispatchPolicies": [{"rules": [{}]}],
                "clientConfig": {"insecure": true, "bearerToken": "YQ==", "serverName": "a.test"},
            },
        });
        let problems = check_cluster(&parse_cluster(&document).unwrap(), false).outcome.unwrap_err();
        prop_assert!(problems.iter().any(|problem| problem.path == "metadata.name"));
        prop_assert!(key.parse::<IpAddr>().is_err());
        // Accepted names come back from the key.
        if is_dns_label(&namespace) && is_dns_label(&name) {
            prop_assert_eq!(upstream_of_key(&key), Some((namespace.as_str(), name.as_str())));
        }
    }
}

#[test]
fn policies_of_doors_are_as_many_as_a_cluster_may_have() {
    let raw = parse_upstream(&document(&spec())).unwrap();
    let rules = json!([{"verbs": ["get"], "nonResourceURLs": ["/x"]}]);
    let denial = json!({"rules": rules, "portcullis": {"action": "Deny"}});
    let problems = |count: usize| {
        let denials = json!({"dispatchPolicies": vec![denial.clone(); count]});
        let door = attached(PolicyKind::Dispatch, PolicyRole::Tightens, denials);
        let rules = behind_door(&upstream_rules(&[]), &door).unwrap();
        check_upstream(&raw, &assumed_material(&raw), &rules, false).outcome.err().unwrap_or_default()
    };
    assert_eq!(problems(19_999), []);
    let problems = problems(20_000);
    assert!(problems.len() == 1 && problems[0].message.contains("20001"), "{problems:?}");
}

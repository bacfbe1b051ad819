use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::upstream::{upstream_rules, upstream_schema, upstream_spec};
use super::{aliases, at, definition, derive, instance_spec, rules, settings_spec, spec};
use crate::kind::{CLUSTER_API_VERSION, CLUSTER_KIND};
use crate::parse::parse_cluster;

/// Every schema below `schema`, with its path.
fn walk<'a>(schema: &'a Value, path: &str, visit: &mut dyn FnMut(&str, &'a Value)) {
    visit(path, schema);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        walk(field, &format!("{path}.{name}"), visit);
    }
    if let Some(items) = schema.get("items") {
        walk(items, &format!("{path}[]"), visit);
    }
}

#[test]
fn schema_is_structural() {
    let allowed = [
        "additionalProperties",
        "description",
        "enum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "pattern",
        "properties",
        "required",
        "type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    ];
    let is_structural = |path: &str, field: &Value| {
        let kind = field["type"].as_str().unwrap_or_else(|| panic!("{path} has no type"));
        assert!(["object", "array", "string", "integer", "number", "boolean"].contains(&kind), "{path}: {kind}");
        assert_eq!(kind == "array", field["items"].is_object(), "{path}: a list, and only a list, has items");
        if kind == "integer" {
            assert!(matches!(field["format"].as_str(), Some("int32" | "int64")), "{path}: {}", field["format"]);
        }
        for keyword in field.as_object().unwrap().keys() {
            assert!(allowed.contains(&keyword.as_str()), "{path}: {keyword}");
        }
        for required in field["required"].as_array().into_iter().flatten() {
            assert!(field["properties"].get(required.as_str().unwrap()).is_some(), "{path}: {required}");
        }
    };
    for schema in
        [definition::schema(), definition::settings_schema(), definition::instance_schema(), upstream_schema()]
    {
        walk(&schema, "", &mut |path, field| is_structural(path, field));
    }
}

#[test]
fn every_field_says_what_it_is_for() {
    let says = |path: &str, field: &Value| {
        let is_plain_item = path.ends_with("[]") && field["properties"].is_null();
        let text = field["description"].as_str().unwrap_or_default();
        assert!(is_plain_item || !text.is_empty(), "{path}");
        assert!(!text.contains('\n') && !text.contains("crate::"), "{path}: {text}");
    };
    for spec in [spec(), settings_spec(), instance_spec(), upstream_spec()] {
        walk(&spec, "spec", &mut |path, field| says(path, field));
    }
}

#[test]
fn rule_of_settings_finds_its_field() {
    let mut derived = derive::shape::<crate::types::GatewaySettingsSpec>();
    for (path, keywords) in super::settings_rules::settings_rules() {
        let field = at(&mut derived, path).unwrap_or_else(|| panic!("no field {path}"));
        for (keyword, value) in keywords.as_object().unwrap() {
            // schemars has a type for most fields, and none for an enum with documented variants.
            let is_same = keyword == "type" && field.get(keyword).is_none_or(|derived| derived == value);
            assert!(is_same || field.get(keyword).is_none(), "{path}: {keyword} is derived already");
        }
    }
}

#[test]
fn rule_of_an_instance_finds_its_field() {
    let mut derived = derive::shape::<crate::types::InstanceSpec>();
    for (path, keywords) in super::instance_rules::instance_rules() {
        let field = at(&mut derived, path).unwrap_or_else(|| panic!("no field {path}"));
        for keyword in keywords.as_object().unwrap().keys() {
            assert!(field.get(keyword).is_none(), "{path}: {keyword} is derived already");
        }
    }
}

#[test]
fn rule_of_an_upstream_finds_its_field() {
    let mut derived = derive::shape::<crate::types::KubernetesUpstreamSpec>();
    for (path, keywords) in upstream_rules() {
        let field = at(&mut derived, path).unwrap_or_else(|| panic!("no field {path}"));
        for keyword in keywords.as_object().unwrap().keys() {
            assert!(field.get(keyword).is_none(), "{path}: {keyword} is derived already");
        }
    }
    let mut spec = upstream_spec();
    for (path, keyword) in [
        ("serverName", "maxLength"),
        ("servers[].zone", "pattern"),
        ("servers[].weight", "maximum"),
        ("healthCheck.interval", "x-kubernetes-validations"),
        ("credentialCache.tokenTTL", "pattern"),
        ("upstreamIdentity", "enum"),
    ] {
        assert!(at(&mut spec, path).unwrap().get(keyword).is_some(), "{path} has the rule of an UpstreamCluster");
    }
}

#[test]
fn definition_knows_every_field_of_an_instances_status() {
    let status = crate::status::InstanceStatus { observed_generation: Some(1), ..Default::default() };
    let written = serde_json::to_value(status).unwrap();
    let names = |object: &Value| object.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&written), names(&super::status::instance_status()["properties"]));
}

/// Kubernetes would keep a field that the definition does not know, and `kubectl explain` would not show it.
#[test]
fn definition_knows_every_field_of_settings_status() {
    use crate::status::{Acceptance, SettingsStatus, Timestamp, accepted, filled_defaults};
    let acceptance = Acceptance { accepted: true, reason: "Accepted", ..Acceptance::default() };
    let written = SettingsStatus {
        observed_generation: Some(1),
        control_plane: "gateways/portcullis".to_owned(),
        conditions: vec![accepted(&acceptance, Some(1), &[], &Timestamp::from_seconds(0))],
        defaults: filled_defaults(&json!({})),
    };
    let written = serde_json::to_value(written).unwrap();
    let schema = super::status::settings_status();
    let names = |object: &Value| object.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&written), names(&schema["properties"]));
    assert_eq!(names(&written["defaults"][0]), names(&schema["properties"]["defaults"]["items"]["properties"]));
}

#[test]
fn every_rule_finds_its_field_and_every_blamed_field_exists() {
    let mut derived = derive::spec();
    for (path, keywords) in rules::rules().into_iter().chain(super::token_rules::token_rules()) {
        let field = at(&mut derived, path).unwrap_or_else(|| panic!("no field {path}"));
        for keyword in keywords.as_object().unwrap().keys() {
            assert!(field.get(keyword).is_none(), "{path}: {keyword} is derived already");
        }
    }
    for (path, _, name) in aliases::ALIASES {
        assert!(at(&mut derived, path).unwrap()["properties"].get(name).is_some(), "{path}.{name}");
    }
    let mut spec = spec();
    let mut blamed = Vec::new();
    walk(&spec, "", &mut |path, field| {
        for rule in field["x-kubernetes-validations"].as_array().into_iter().flatten() {
            blamed.extend(rule["fieldPath"].as_str().map(|field| format!("{path}{field}")));
        }
    });
    assert!(!blamed.is_empty());
    for path in blamed {
        assert!(at(&mut spec, &path).is_some(), "{path}");
    }
}

/// kube-apiserver would prune a rule that it has itself and the gateway does not, and the issuer would be believed without it.
#[test]
fn unknown_fields_of_issuers_reach_the_check() {
    let mut spec = spec();
    let issuer = "portcullis.tokens.issuers[]";
    for below in ["", ".claimMappings", ".claimMappings.username", ".claimMappings.groups", ".claimValidationRules[]"] {
        let path = format!("{issuer}{below}");
        let field = at(&mut spec, &path).unwrap_or_else(|| panic!("no field {path}"));
        assert_eq!(field["x-kubernetes-preserve-unknown-fields"], true, "{path}");
        assert!(!known(&path).is_empty(), "{path}: the check refuses what it does not know");
    }
    let kept: Vec<Value> = [
        definition::schema(),
        definition::cluster_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone(),
    ]
    .into_iter()
    .map(|mut schema| {
        at(&mut schema, &format!("spec.{issuer}")).unwrap()["x-kubernetes-preserve-unknown-fields"].clone()
    })
    .collect();
    assert_eq!(kept, [true, true]);
}

/// A document with nothing but a value at a path as [`walk`] gives them.
fn document(path: &str, value: Value) -> Value {
    let inner = path.split('.').filter(|step| !step.is_empty()).rev().fold(value, |inner, step| {
        let name = step.trim_end_matches("[]");
        json!({name: if name == step { inner } else { json!([inner]) }})
    });
    json!({"apiVersion": CLUSTER_API_VERSION, "kind": CLUSTER_KIND, "metadata": {"name": "a.test"}, "spec": inner})
}

/// The fields that reading knows at a path: the error about an unknown one lists them.
fn known(path: &str) -> BTreeSet<String> {
    let message = parse_cluster(&document(path, json!({"unheardOf": 1}))).unwrap_err().message;
    let (_, known) = message.split_once("`unheardOf`").unwrap();
    known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn schema_and_types_know_the_same_fields() {
    let spec = spec();
    let mut objects = 0;
    walk(&spec, "", &mut |path, field| {
        if field["type"] != "object" {
            return;
        }
        objects += 1;
        let path = path.trim_start_matches('.');
        let fields: BTreeSet<String> =
            field["properties"].as_object().into_iter().flatten().map(|f| f.0.clone()).collect();
        assert_eq!(fields, known(path), "spec.{path}");
    });
    assert!(objects > 15, "{objects}");
}

#[test]
fn every_field_reads_what_its_type_says() {
    let right = |kind: &str| match kind {
        "object" => json!({}),
        "array" => json!([]),
        "integer" => json!(1),
        "boolean" => json!(true),
        _ => json!(""),
    };
    walk(&spec(), "", &mut |path, field| {
        let kind = field["type"].as_str().unwrap();
        for other in ["object", "array", "integer", "boolean", "string"] {
            let read = parse_cluster(&document(path.trim_start_matches('.'), right(other)));
            assert_eq!(read.is_ok(), kind == other, "{path} is {kind}, given {other}");
        }
    });
}

/// Kubernetes would keep a field that the definition does not know, and `kubectl explain` would not show it.
#[test]
fn definition_knows_every_field_of_a_status() {
    use crate::status::{
        Acceptance, ClusterStatus, Gateway, GatewayProgress, Health, Served, StatusInput, Timestamp, UnhealthyServer,
    };
    let unhealthy = vec![UnhealthyServer {
        server: "10.0.0.1:6443".to_owned(),
        reason: "Ejected".to_owned(),
        since: Timestamp::from_seconds(0),
    }];
    let health = Some(Health { healthy: 1, total: 2, unhealthy });
    let names: Vec<String> = (0..40).map(|n| format!("g{n}")).collect();
    let gateway = |name| Gateway {
        name,
        progress: GatewayProgress::Refused { message: "no".to_owned() },
        health: health.clone(),
        lost_subsets: Vec::new(),
    };
    let gateways = names.iter().map(|name| gateway(name)).collect();
    let acceptance = Acceptance { accepted: true, reason: "Accepted", names: &names, ..Acceptance::default() };
    let served = Served::Newest;
    let seen = StatusInput {
        acceptance,
        generation: Some(1),
        served,
        content_hash: "a",
        instance: Some("team-a"),
        gateways,
        ..StatusInput::default()
    };
    let written = serde_json::to_value(ClusterStatus::of(&seen, &[], &Timestamp::from_seconds(0))).unwrap();
    let schema = super::status::status();
    let known = |schema: &Value, written: &Value| {
        let fields = schema["properties"].as_object().unwrap();
        written.as_object().unwrap().keys().all(|field| fields.contains_key(field))
            && fields.keys().all(|field| written.get(field).is_some())
    };
    assert!(known(&schema, &written), "{written:#}");
    assert!(known(&schema["properties"]["conditions"]["items"], &written["conditions"][0]));
    assert!(known(&schema["properties"]["gateways"]["items"], &written["gateways"][0]));
}

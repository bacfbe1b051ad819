//! `docs/reference/filter-config.md` and `filter-config.schema.json`, written from the types for operators who configure an
//! Envoy by hand: `UPDATE_DOCS=1 cargo test --workspace --lib -- reference`.

use portcullis_generated_docs::assert_generated;
use std::fmt::Write;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::cluster::ClusterConfig;
use crate::filter::FilterConfig;
use crate::validator::ValidatorConfig;
use crate::version::CONFIG_VERSION;

const HEAD: &str = "# The filter's configuration

<!-- Written by a test from filters/config/src. -->

The configuration that the control plane writes for the filter, and that an Envoy configuration written by hand contains \
([envoy/README.md](../../envoy/README.md)). The same as JSON schema: \
[filter-config.schema.json](filter-config.schema.json). A field that is not listed here is an error, and Envoy does not \
start with it, or keeps what it has.

`filter_config` is JSON in a `google.protobuf.StringValue`. From Envoy 1.39 on it may as well be a \
`google.protobuf.Struct`, whose `value` is plain YAML.

In the column of defaults `-` is none: an empty text or list, or false.
";

const PARTS: [(&str, &str); 3] = [
    ("FilterConfig", "`DynamicModuleFilter.filter_config`, in the listener. A change of it drains connections."),
    (
        "ClusterConfig",
        "`DynamicModuleFilterPerRoute.filter_config`, at a virtual host or a route configuration. A change of it ends \
         watches, logs and sessions that it denies, and those at servers that it takes away, and nothing else.",
    ),
    ("ValidatorConfig", "`DynamicModuleCertValidatorConfig.validator_config`, in the listener's TLS."),
];

fn schema_of(part: &str, inline: bool) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = inline);
    let generator = settings.into_generator();
    fn root<T: JsonSchema>(generator: schemars::SchemaGenerator) -> Value {
        generator.into_root_schema_for::<T>().into()
    }
    let mut schema = match part {
        "FilterConfig" => root::<FilterConfig>(generator),
        "ClusterConfig" => root::<ClusterConfig>(generator),
        _ => root::<ValidatorConfig>(generator),
    };
    for_readers(&mut schema);
    schema
}

/// Doc comments are written for readers of the code: links and line breaks mean nothing elsewhere.
fn for_readers(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = plain(text);
            }
            fields.values_mut().for_each(for_readers);
        }
        Value::Array(items) => items.iter_mut().for_each(for_readers),
        _ => {}
    }
}

fn plain(text: &str) -> String {
    let text = text
        .replace("[`crate::names::HOST_SERVER`]", "`server` of the filter metadata `portcullis`")
        .replace("[`crate::CONFIG_VERSION`]", &format!("`{CONFIG_VERSION}`"));
    let mut words = text.split('`');
    let mut plain = words.next().unwrap_or_default().trim_end_matches('[').to_owned();
    // The code between two backticks, and the text behind it up to the next.
    while let (Some(code), Some(rest)) = (words.next(), words.next()) {
        let rest = rest.strip_prefix(']').unwrap_or(rest);
        plain += &format!("`{}`{}", as_written(code), rest.strip_suffix('[').unwrap_or(rest));
    }
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A field as JSON has it; of a path in the code the last part.
fn as_written(code: &str) -> String {
    let last = code.rsplit("::").next().unwrap_or(code);
    let is_field = last.contains('_') && last.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let mut parts = last.split(if is_field { "_" } else { " " });
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |whole, part| match part.split_at_checked(1) {
        Some((head, tail)) if is_field => whole + &head.to_uppercase() + tail,
        _ => whole + " " + part,
    })
}

/// One file for all three: an editor is pointed at a part of it, as `filter-config.schema.json#/$defs/ClusterConfig`.
fn schema_file() -> String {
    let mut definitions = Map::new();
    for (part, _) in PARTS {
        let Value::Object(mut schema) = schema_of(part, false) else { panic!("{part}") };
        if let Some(Value::Object(further)) = schema.remove("$defs") {
            definitions.extend(further);
        }
        schema.remove("$schema");
        definitions.insert(part.to_owned(), Value::Object(schema));
    }
    let parts: Vec<Value> = PARTS.iter().map(|(part, _)| json!({"$ref": format!("#/$defs/{part}")})).collect();
    let file = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The configuration of the Portcullis filter",
        "anyOf": parts,
        "$defs": definitions,
    });
    format!("{file:#}\n")
}

fn page() -> String {
    let mut page = String::from(HEAD);
    for (part, place) in PARTS {
        let schema = schema_of(part, true);
        let description = schema["description"].as_str().unwrap();
        write!(page, "\n## {part}\n\n{description}\n\nPlace: {place}\n\n").unwrap();
        page += "| field | type | default | meaning |\n|---|---|---|---|\n";
        rows(&schema, "", &mut page);
    }
    page
}

fn rows(schema: &Value, path: &str, page: &mut String) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}{name}");
        let is_required = schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
        let default = if is_required { "required".to_owned() } else { default_of(field) };
        // The description of a choice's variant is beside its only field.
        let meaning = [field, schema].iter().find_map(|schema| schema["description"].as_str());
        let meaning = meaning.unwrap_or_else(|| panic!("{path} says nothing"));
        writeln!(page, "| `{path}` | {} | {default} | {meaning} |", kind(field)).unwrap();
        below(field, &path, page);
    }
}

fn below(field: &Value, path: &str, page: &mut String) {
    let list = field["oneOf"].as_array().into_iter().flatten().find(|choice| choice.get("items").is_some());
    match list.unwrap_or(field) {
        field if field.get("items").is_some() => below_item(&field["items"], &format!("{path}[]."), page),
        field => below_item(field, &format!("{path}."), page),
    }
}

/// The fields of an object, or of each kind of object that is possible there.
fn below_item(schema: &Value, path: &str, page: &mut String) {
    rows(schema, path, page);
    for choice in ["oneOf", "anyOf"].iter().filter_map(|key| schema[*key].as_array()).flatten() {
        rows(choice, path, page);
    }
}

fn default_of(field: &Value) -> String {
    if field["enum"] == json!(["Validator", "ForwardedClientCert", "Connection"])
        || field["oneOf"][0]["const"] == "Validator"
    {
        return "`Validator`".to_owned();
    }
    match field.get("default") {
        None | Some(Value::Null | Value::Bool(false)) => "-".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "-".to_owned(),
        Some(Value::Array(items)) if items.is_empty() => "-".to_owned(),
        Some(Value::String(text)) => format!("`{text}`"),
        Some(other) => format!("`{other}`"),
    }
}

fn kind(field: &Value) -> String {
    let choices = ["oneOf", "anyOf"].iter().find_map(|key| field[*key].as_array());
    if let Some(choices) = choices {
        let mut kinds: Vec<String> = choices.iter().map(kind).filter(|kind| kind != "null").collect();
        kinds.dedup();
        return kinds.join(" or ");
    }
    if let Some(word) = field["const"].as_str() {
        return format!("`{word}`");
    }
    if let Some(words) = field["enum"].as_array() {
        return words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ");
    }
    let named: Vec<&str> = match &field["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect(),
        kind => kind.as_str().into_iter().collect(),
    };
    match named.as_slice() {
        ["array"] => format!("list of {}s", kind(&field["items"])),
        named => named.join(" or "),
    }
}

#[test]
fn reference_says_what_the_types_do() {
    assert_generated("filter-config.md", &page());
    assert_generated("filter-config.schema.json", &schema_file());
    for text in [page(), schema_file()] {
        assert!(!text.contains("crate::") && !text.contains("[`"), "a link into the code");
    }
}

#[test]
fn defaults_equal_those_of_an_upstream_cluster() {
    let text = r#"{"version": 2, "name": "a", "authorities": ["a"], "reviews": {"cluster": "c"}, "policies": [],
        "upstreamIdentity": {"RequestHeader": {}}}"#;
    let read: ClusterConfig = serde_json::from_str(text).unwrap();
    assert!(read.allow_anonymous);
    let reviews = read.reviews.unwrap();
    let seconds = [
        reviews.token_ttl_seconds,
        reviews.rejected_token_ttl_seconds,
        reviews.authorized_ttl_seconds,
        reviews.unauthorized_ttl_seconds,
    ];
    assert_eq!(seconds, [120, 10, 300, 30]);
    assert_eq!(read.upstream_identity, crate::UpstreamIdentity::RequestHeader(crate::RequestHeaders::default()));
}

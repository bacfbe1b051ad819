//! From what schemars derives to what Kubernetes calls a structural schema.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use crate::secret::{PublicBytes, SecretBytes};
use crate::types::UpstreamClusterSpec;

impl JsonSchema for SecretBytes {
    fn schema_name() -> Cow<'static, str> {
        "SecretBytes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        bytes()
    }
}

impl JsonSchema for PublicBytes {
    fn schema_name() -> Cow<'static, str> {
        "PublicBytes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        bytes()
    }
}

/// The format of bytes, in base64.
pub(super) const BYTES: &str = "byte";

fn bytes() -> Schema {
    json_schema!({"type": "string", "format": BYTES})
}

/// The structural schema of `spec`, with the doc comments of the types as descriptions.
pub(super) fn spec() -> Value {
    shape::<UpstreamClusterSpec>()
}

/// The structural schema of a type.
pub(super) fn shape<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| settings.inline_subschemas = true);
    structural(settings.into_generator().into_root_schema_for::<T>().into())
}

/// Keeps the keywords that Kubernetes knows. `additionalProperties: false` is removed with the rest: a structural schema has no
/// word for it, and the server itself prunes or reports unknown fields.
fn structural(derived: Value) -> Value {
    let Value::Object(mut derived) = derived else { return derived };
    let mut kept = Map::new();
    for (field, value) in derived.remove("properties").and_then(as_map).into_iter().flatten() {
        let properties = kept.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(properties) = properties {
            properties.insert(field, structural(value));
        }
    }
    if let Some(items) = derived.remove("items") {
        kept.insert("items".to_owned(), structural(items));
    }
    for keyword in ["type", "format"] {
        kept.extend(derived.remove(keyword).map(|value| (keyword.to_owned(), value)));
    }
    // OpenAPI knows signed numbers only; the server warns of others.
    if let Some(format) = kept.get_mut("format") {
        match format.as_str() {
            Some("uint32" | "uint64") => *format = "int64".into(),
            Some("uint8" | "uint16") => *format = "int32".into(),
            _ => {}
        }
    }
    if let Some(Value::String(text)) = derived.remove("description") {
        kept.insert("description".to_owned(), one_line(&text).into());
    }
    Value::Object(kept)
}

fn as_map(value: Value) -> Option<Map<String, Value>> {
    if let Value::Object(map) = value { Some(map) } else { None }
}

/// A doc comment's line breaks are its width in the source and say nothing.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

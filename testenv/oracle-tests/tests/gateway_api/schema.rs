//! The fields of a CustomResourceDefinition.

use std::fs;

use portcullis_harness::deps::{self, Missing};
use serde_json::{Map, Value, json};

/// A definition of the release.
pub(crate) struct Definition {
    pub(crate) kind: String,
    pub(crate) bundle_version: String,
    /// The schema of version v1.
    pub(crate) schema: Value,
}

/// A field below `spec`.
pub(crate) struct Field {
    /// Its path; a list has `[]`.
    pub(crate) path: String,
    pub(crate) schema: Value,
}

/// The definitions, or `None` and a warning if they were not fetched.
pub(crate) fn definitions() -> Option<Vec<Definition>> {
    let what = || "definitions of the Gateway API".to_owned();
    let found = deps::definitions().map(|dir| dir.join("gateway-api"));
    // Older definitions may be there without these.
    let found = found.and_then(|path| match path.is_dir() {
        true => Ok(path),
        false => Err(Missing { what: what(), path, remedy: "make deps" }),
    });
    let dir = deps::or_skip("the Gateway API", found).unwrap()?;
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let definition = |path| {
        let document: Value = serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let versions = document["spec"]["versions"].as_array().unwrap();
        let v1 = versions.iter().find(|version| version["name"] == "v1" && version["served"] == true).unwrap();
        let bundle = &document["metadata"]["annotations"]["gateway.networking.k8s.io/bundle-version"];
        Definition {
            kind: document["spec"]["names"]["kind"].as_str().unwrap().to_owned(),
            bundle_version: bundle.as_str().unwrap().to_owned(),
            schema: v1["schema"]["openAPIV3Schema"].clone(),
        }
    };
    Some(files.into_iter().map(definition).collect())
}

impl Definition {
    /// Every field of the spec that has none of its own.
    pub(crate) fn fields(&self) -> Vec<Field> {
        let mut fields = Vec::new();
        collect(&self.schema["properties"]["spec"], "spec", &mut fields);
        fields
    }

    /// Sets a field of an object. Parents that are not there are made with the fields that they need.
    pub(crate) fn set(&self, document: &mut Value, path: &str, value: Value) {
        let (mut schema, mut place) = (&self.schema, document);
        for name in path.split('.') {
            let (name, is_list) = (name.trim_end_matches("[]"), name.ends_with("[]"));
            schema = &schema["properties"][name];
            if place.get(name).is_none_or(|value| value.as_array().is_some_and(Vec::is_empty)) {
                place[name] = required(schema);
            }
            place = &mut place[name];
            if is_list {
                schema = &schema["items"];
                place = &mut place[0];
            }
        }
        *place = value;
    }
}

fn collect(schema: &Value, path: &str, fields: &mut Vec<Field>) {
    let Some(properties) = schema["properties"].as_object() else { return };
    for (name, schema) in properties {
        let path = format!("{path}.{name}");
        let items = &schema["items"];
        if items["properties"].is_object() {
            collect(items, &format!("{path}[]"), fields);
        } else if schema["properties"].is_object() {
            collect(schema, &path, fields);
        } else {
            fields.push(Field { path, schema: schema.clone() });
        }
    }
}

/// A value with the fields that are required.
fn required(schema: &Value) -> Value {
    let names: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    sample_of(schema, &|name| names.contains(&name))
}

/// A value that is not the default, with all fields.
pub(crate) fn sample(schema: &Value) -> Value {
    sample_of(schema, &|_| true)
}

fn sample_of(schema: &Value, is_wanted: &dyn Fn(&str) -> bool) -> Value {
    let inner = |schema: &Value| if is_wanted("any other") { sample(schema) } else { required(schema) };
    let default = &schema["default"];
    match schema["type"].as_str() {
        Some("object") => {
            let Some(properties) = schema["properties"].as_object() else { return json!({"a.test/x": "y"}) };
            let wanted = properties.iter().filter(|(name, _)| is_wanted(name));
            Value::Object(wanted.map(|(name, schema)| (name.clone(), inner(schema))).collect::<Map<_, _>>())
        }
        Some("array") => json!([inner(&schema["items"])]),
        Some("integer") => json!(schema["minimum"].as_i64().unwrap_or(1).max(default.as_i64().unwrap_or(0)) + 1),
        Some("boolean") => json!(default != true),
        _ => {
            let mut words = schema["enum"].as_array().into_iter().flatten();
            words.rfind(|word| *word != default).cloned().unwrap_or_else(|| json!("x"))
        }
    }
}

/// An object with the defaults of a schema, as an API server fills them in.
pub(crate) fn with_defaults(schema: &Value, value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut filled = fields.clone();
            for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
                // Status is another request's.
                if name == "status" {
                    continue;
                }
                let value = fields.get(name).or_else(|| schema.get("default"));
                filled.extend(value.map(|value| (name.clone(), with_defaults(schema, value))));
            }
            Value::Object(filled)
        }
        Value::Array(items) => items.iter().map(|item| with_defaults(&schema["items"], item)).collect(),
        other => other.clone(),
    }
}

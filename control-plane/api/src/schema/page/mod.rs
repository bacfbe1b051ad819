//! `docs/reference`, as far as it is about objects, written from the code:
//! `UPDATE_DOCS=1 cargo test --workspace --lib -- schema::page`.

mod cluster;
mod instance;
mod policies;
mod settings;
mod upstream;

use std::fmt::Write;

use serde_json::Value;

use super::aliases::ALIASES;
use super::derive::BYTES;
use super::rules;

/// A field's path, and its default as the page says it, where that is more than the type's own.
type Default = (&'static str, &'static str);

/// A description that gives a value "if unset" has that value as a default, too; and no default is one of an unknown field.
fn defaults_are_told(schema: &Value, path: &str, defaults: &[Default]) {
    let mut page = String::new();
    rows(schema, path, defaults, &mut page);
    let forgotten: Vec<_> = page
        .lines()
        .filter(|row| row.contains("| - |"))
        .filter(|row| {
            ["` if unset", "if unset)", "(if empty)", "s if unset", "m if unset", "e if unset"]
                .iter()
                .any(|one| row.contains(one))
        })
        .collect();
    assert!(forgotten.is_empty(), "{forgotten:#?}");
    assert!(defaults.iter().all(|(of, _)| page.contains(&format!("| `{of}` |"))));
}

/// A row for each field of a schema, and for the fields below it.
fn rows(schema: &Value, path: &str, defaults: &[Default], page: &mut String) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let is_required = schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
        let default = defaults.iter().find(|(of, _)| *of == path).map_or("-", |(_, default)| default);
        let default = if is_required { "required" } else { default };
        let meaning = field["description"].as_str().unwrap();
        writeln!(page, "| `{path}` | {} | {default} | {meaning} |", kind(field)).unwrap();
        if is_alias(name) {
            continue;
        }
        match field.get("items") {
            Some(items) => rows(items, &format!("{path}[]"), defaults, page),
            None => rows(field, &path, defaults, page),
        }
    }
}

/// Whether the field is another spelling: the first spelling describes the fields below.
fn is_alias(name: &str) -> bool {
    ALIASES.iter().any(|(_, alias, _)| *alias == name)
}

fn kind(field: &Value) -> String {
    if let Some(words) = field["enum"].as_array() {
        let words = words.iter().filter_map(Value::as_str).filter(|word| !word.is_empty());
        return words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ");
    }
    let kind = match field["type"].as_str().unwrap() {
        "string" if field["format"] == BYTES => "bytes",
        "string" if field["pattern"] == rules::DURATION => "duration",
        "array" => return format!("list of {}s", kind(&field["items"])) + &bound(field),
        other => other,
    };
    kind.to_owned()
}

fn bound(field: &Value) -> String {
    field["maxItems"].as_u64().map(|most| format!(", at most {most}")).unwrap_or_default()
}

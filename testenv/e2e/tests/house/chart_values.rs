//! The table of values in the chart's README is made of the comments in values.yaml.

use std::collections::BTreeSet;
use std::fs;

use portcullis_harness::project_root;
use serde_json::{Value, json};

use crate::docs::assert_generated;

const CHART: &str = "deploy/helm/portcullis";

/// A key with its place, default and comment.
#[derive(Default)]
struct Row {
    path: String,
    default: String,
    comment: String,
}

/// A comment belongs to the key below it, and to all keys inside that one.
fn rows(text: &str) -> Vec<Row> {
    let (mut rows, mut sections, mut comment) = (Vec::new(), Vec::<(usize, String)>::new(), String::new());
    let mut inside = usize::MAX;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        if line.is_empty() {
            // The comment of the whole file.
            comment.clear();
            continue;
        }
        if indent > inside || line.starts_with("- ") {
            continue;
        }
        inside = usize::MAX;
        if let Some(words) = line.strip_prefix("# ") {
            comment = [comment.as_str(), words].join(" ").trim().to_owned();
            continue;
        }
        let Some((key, default)) = line.split_once(':') else { continue };
        sections.retain(|(depth, _)| *depth < indent);
        let place: Vec<&str> = sections.iter().map(|(_, name)| name.as_str()).chain([key]).collect();
        let path = place.join(".");
        if comment.is_empty() {
            assert!(default.is_empty(), "{path} has no comment");
            sections.push((indent, key.to_owned()));
        } else {
            inside = indent;
            rows.push(Row { path, default: default.trim().to_owned(), comment: std::mem::take(&mut comment) });
        }
    }
    rows
}

#[test]
fn chart_readme_lists_every_value() {
    let text = fs::read_to_string(project_root().join(CHART).join("values.yaml")).unwrap();
    let mut table = String::from("| value | default | |\n|---|---|---|\n");
    for Row { path, default, comment } in rows(&text) {
        let default = if default.is_empty() { "[values.yaml](values.yaml)".to_owned() } else { format!("`{default}`") };
        table += &format!("| `{path}` | {default} | {comment} |\n");
    }
    assert_generated(&format!("{CHART}/README.md"), "values", &table);
}

/// An entry of `envoys` is laid over `gateway`: a value that is new there is one of the entries, too, by the same rules.
#[test]
fn chart_entries_take_every_value_of_the_gateway() {
    let text = fs::read_to_string(project_root().join(CHART).join("values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    let of_gateway = schema["properties"]["gateway"]["properties"].as_object().unwrap();
    let of_entry = schema["properties"]["envoys"]["items"]["properties"].as_object().unwrap();
    for name in of_gateway.keys().filter(|name| *name != "enabled") {
        assert_eq!(
            of_entry.get(name),
            Some(&json!({"$ref": format!("#/properties/gateway/properties/{name}")})),
            "{name}"
        );
    }
    let own: BTreeSet<&str> =
        of_entry.keys().map(String::as_str).filter(|name| !of_gateway.contains_key(*name)).collect();
    let expected = ["addresses", "apiserverPorts", "apiservers", "gateway", "instance", "listener", "name", "ports"];
    assert_eq!(own, expected.into());
}

#[test]
fn values_without_a_comment_are_found() {
    let text = "# All.\n\na:\n  # One.\n  b: 1\n  # Many.\n  c:\n    # Inner.\n    d: {}\n  # Last.\n  e: []\n";
    let found: Vec<String> =
        rows(text).iter().map(|row| format!("{} {} {}", row.path, row.default, row.comment)).collect();
    assert_eq!(found, ["a.b 1 One.", "a.c  Many.", "a.e [] Last."]);
    assert!(std::panic::catch_unwind(|| rows("a:\n  b: 1\n")).is_err());
}

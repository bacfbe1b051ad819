//! A resource as one line for each value, with its place: what a person compares, and a program can.

use serde_json::Value;

/// An open element at a position of the text.
struct Frame {
    step: String,
    /// How many items a list has had so far.
    items: Option<usize>,
    is_map: bool,
}

/// Takes what [`super::render::render`] writes.
pub(super) fn flat(rendered: &str) -> Vec<String> {
    let mut frames: Vec<Frame> = Vec::new();
    let mut lines = Vec::new();
    for line in rendered.lines().map(|line| line.trim().trim_end_matches(',')) {
        match line {
            "" => {}
            "}" | "]" | ")" | "})" | "])" => drop(frames.pop()),
            _ => read(line, &mut frames, &mut lines),
        }
    }
    lines
}

fn read(line: &str, frames: &mut Vec<Frame>, lines: &mut Vec<String>) {
    let in_map = frames.last().is_some_and(|frame| frame.is_map);
    let (name, rest) = split(line, in_map);
    let mut step = match (name, frames.last_mut().and_then(|frame| frame.items.as_mut())) {
        (Some(name), _) => format!(".{}", name.trim_start_matches("r#")),
        (None, Some(items)) => {
            *items += 1;
            format!("[{}]", *items - 1)
        }
        (None, None) => String::new(),
    };
    let Some(opened) = rest.strip_suffix(['{', '[', '(']) else {
        let place: String = frames.iter().map(|frame| frame.step.as_str()).chain([step.as_str()]).collect();
        leaf(place.trim_start_matches('.'), rest, lines);
        return;
    };
    let kind = opened.trim();
    let is_config = frames.iter().rev().map(|frame| frame.step.as_str()).find(|step| !step.is_empty());
    let is_variant = rest.ends_with('(') && kind != "Some";
    // The type of the message is shown where any could be there.
    if !kind.is_empty() && (is_variant || is_config.is_some_and(|step| step.ends_with("_config"))) && kind != "Some" {
        step += &format!("<{kind}>");
    }
    let items = rest.ends_with('[').then_some(0);
    frames.push(Frame { step, items, is_map: rest == "{" && name.is_some() });
}

fn split(line: &str, in_map: bool) -> (Option<&str>, &str) {
    let Some((name, rest)) = line.split_once(": ") else { return (None, line) };
    let is_field = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '#');
    if is_field || (in_map && name.starts_with('"') && name.ends_with('"')) {
        return (Some(name), rest);
    }
    (None, line)
}

/// A value; of a text that is JSON, each of its own.
fn leaf(place: &str, value: &str, lines: &mut Vec<String>) {
    let text: Option<String> = serde_json::from_str(value).ok();
    match text.and_then(|text| serde_json::from_str::<Value>(&text).ok()) {
        Some(json @ Value::Object(_)) => members(place, &json, lines),
        _ => lines.push(format!("{place} = {value}")),
    }
}

fn members(place: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(name, value)| members(&format!("{place}.{name}"), value, lines));
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(index, item)| members(&format!("{place}[{index}]"), item, lines));
        }
        other => lines.push(format!("{place} = {other}")),
    }
}

#[test]
fn every_value_has_its_place() {
    let text = "Cluster {\n    name: \"a: b\",\n    r#type: Some(\n        5,\n    ),\n    list: [\n        \"x\",\n        Item {\n            \
                n: 1,\n        },\n    ],\n    map: {\n        \"k\": Any {\n            v: \"{\\\"j\\\":[1,{}]}\",\n        },\n    },\n    \
                one: Some(\n        Choice(\n            2,\n        ),\n    ),\n}";
    let wanted = [
        "name = \"a: b\"",
        "type = 5",
        "list[0] = \"x\"",
        "list[1].n = 1",
        "map.\"k\".v.j[0] = 1",
        "map.\"k\".v.j[1] = {}",
        "one<Choice> = 2",
    ];
    assert_eq!(flat(text), wanted);
}

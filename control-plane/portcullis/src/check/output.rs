//! The findings as text and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::checked::{CheckReport, CheckedObject, Finding};

/// One line for each finding, in the form that editors jump from, under its object.
pub(super) fn text(report: &CheckReport) -> String {
    let mut text = String::new();
    for object in &report.objects {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{} {}: {}", object.kind, object.name, object.reason);
        for condition in &object.conditions {
            let _ = writeln!(text, "  {condition}");
        }
        for finding in &object.findings {
            let _ = writeln!(text, "{}", line(finding));
        }
    }
    if report.without_settings && !report.objects.is_empty() {
        text.push_str("note: there is no GatewaySettings among the objects; its defaults are assumed\n");
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    let (objects, errors, warnings) = (report.objects.len(), report.errors(), report.warnings());
    let _ = writeln!(
        text,
        "checked: {}, {}, {}",
        many(objects, "object"),
        many(errors, "error"),
        many(warnings, "warning")
    );
    text
}

fn line(finding: &Finding) -> String {
    let place = match finding.at {
        Some(at) => format!("{}:{}:{}", finding.file, at.line, at.column),
        None => finding.file.clone(),
    };
    let severity = if finding.is_error { "error" } else { "warning" };
    format!("{place}: {severity}: {}", finding.problem)
}

fn many(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// An array with all findings.
pub(super) fn json(report: &CheckReport) -> String {
    let entries: Vec<Value> = report
        .objects
        .iter()
        .flat_map(|object| object.findings.iter().map(move |finding| entry(object, finding)))
        .collect();
    format!("{:#}\n", Value::Array(entries))
}

fn entry(object: &CheckedObject, finding: &Finding) -> Value {
    json!({
        "file": finding.file,
        "line": finding.at.map(|at| at.line),
        "column": finding.at.map(|at| at.column),
        "severity": if finding.is_error { "error" } else { "warning" },
        "kind": object.kind,
        "name": object.name,
        "code": finding.problem.code.as_str(),
        "path": finding.problem.path,
        "message": finding.problem.message,
        "hint": finding.problem.hint,
    })
}

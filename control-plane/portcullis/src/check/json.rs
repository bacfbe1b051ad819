use serde_json::{Value, json};

use super::judge::{CheckReport, CheckedObject, Finding};

/// An array with all findings.
pub(super) fn render(report: &CheckReport) -> String {
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

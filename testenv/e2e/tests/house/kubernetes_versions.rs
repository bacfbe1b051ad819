//! Other releases of Kubernetes: the table in `docs/compatibility.md` is made from what `make kubernetes-versions` has found.

use std::fs;

use portcullis_harness::{deps, project_root};
use serde_json::Value;

use crate::docs::assert_generated;

const FOLDER: &str = "testenv/kube-versions";

fn read(name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(project_root().join(FOLDER).join(name)).unwrap()).unwrap()
}

/// The parts in their order, which `serde_json` does not keep.
fn parts() -> Vec<String> {
    let text = fs::read_to_string(project_root().join(FOLDER).join("parts.json")).unwrap();
    let mut parts: Vec<String> = read("parts.json").as_object().unwrap().keys().cloned().collect();
    parts.sort_by_key(|part| text.find(&format!("\"{part}\"")));
    parts
}

/// The number of a reason in the list of them.
fn note(reasons: &mut Vec<String>, why: &Value, of: &str) -> String {
    let why = why.as_str().unwrap_or_else(|| panic!("{of} failed without a reason"));
    let known = reasons.iter().position(|known| known == why);
    let index = known.unwrap_or(reasons.len());
    if known.is_none() {
        reasons.push(why.to_owned());
    }
    format!(" ({})", index + 1)
}

/// Runs as the table has them: by kind, then by number.
fn runs(results: &Value) -> Vec<(&String, &Value)> {
    let number = |name: &str| -> Vec<u32> { name.split('.').filter_map(|part| part.parse().ok()).collect() };
    let mut runs: Vec<_> = results.as_object().unwrap().iter().collect();
    runs.sort_by_key(|(name, _)| (name.starts_with("kubectl"), number(name.trim_start_matches("kubectl-"))));
    runs
}

#[test]
fn kubernetes_versions_on_the_page_are_those_that_were_run() {
    let results = read("results.json");
    let parts = parts();
    let mut table =
        format!("| kube-apiserver | kubectl | {} |\n|{}\n", parts.join(" | "), "---|".repeat(parts.len() + 2));
    let mut reasons = Vec::new();
    for (name, run) in runs(&results) {
        if name.starts_with("kubectl") {
            let pinned = deps::pinned("KUBERNETES_VERSION").unwrap();
            assert_eq!(run["kube-apiserver"], pinned, "make kubernetes-versions");
        }
        table += &format!("| {} | {} |", run["kube-apiserver"].as_str().unwrap(), run["kubectl"].as_str().unwrap());
        for part in &parts {
            let result = run["parts"].get(part);
            let impossible = result.and_then(|result| result.get("impossible"));
            table += &match (result, impossible) {
                (None, _) => " –".to_owned(),
                (_, Some(why)) => format!(" no{}", note(&mut reasons, why, name)),
                (Some(result), None) => {
                    let failed = result["failed"].as_object().unwrap();
                    let passed = result["passed"].as_u64().unwrap();
                    let mut notes: Vec<String> =
                        failed.iter().map(|(test, why)| note(&mut reasons, why, &format!("{name}: {test}"))).collect();
                    notes.dedup();
                    format!(" {passed} of {}{}", passed + failed.len() as u64, notes.concat())
                }
            };
            table += " |";
        }
        table += "\n";
    }
    for (index, why) in reasons.iter().enumerate() {
        table += &format!("\n({}) {why}\n", index + 1);
    }
    assert_generated("docs/compatibility.md", "kubernetes-versions", &table);
}

#[test]
fn releases_of_kubernetes_with_a_module_were_run() {
    let results = read("results.json");
    for entry in fs::read_dir(project_root().join(FOLDER)).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_run = results.get(&name).is_some() || results.get(format!("kubectl-{name}")).is_some();
        assert!(name.ends_with(".json") || is_run, "make kubernetes-versions has not run {name}");
    }
}

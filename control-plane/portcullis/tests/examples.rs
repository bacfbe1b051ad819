//! The examples folder: every example passes `check --strict`, and policy tests in it pass.

#![cfg(test)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn examples() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let folders = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    folders.filter(|path| path.is_dir()).collect()
}

fn portcullis(arguments: &[&str], folder: &Path, input: Option<&Path>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.env_clear().args(arguments).arg("-f").arg(folder);
    if let Some(input) = input {
        command.stdin(File::open(input).unwrap());
    }
    command.output().unwrap()
}

#[test]
fn examples_pass_check_without_warnings() {
    assert!(examples().len() >= 5);
    for folder in examples() {
        let output = portcullis(&["check", "--strict"], &folder, None);
        assert!(output.status.success(), "{}: {}", folder.display(), String::from_utf8_lossy(&output.stdout));
    }
}

/// `serve` judges with a name of settings.
#[test]
fn objects_of_the_gateway_api_are_served_as_they_are() {
    let folder = examples().into_iter().find(|folder| folder.ends_with("gateway-api")).unwrap();
    let output = portcullis(&["check", "--strict", "--settings-name", "gateway"], &folder, None);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for kind in ["GatewayClass portcullis", "Gateway infra/edge", "HTTPRoute team-a/prod", "TLSRoute team-b/hosted"] {
        assert!(text.contains(&format!("{kind}: Accepted\n")), "{kind}: {text}");
    }
    assert_eq!(text.matches("attached routes 1").count(), 2, "{text}");
    assert_eq!(text.matches("parent edge: ResolvedRefs True").count(), 2, "{text}");
    let page = fs::read_to_string(folder.join("../../docs/gateway-api.md")).unwrap();
    let gateway = fs::read_to_string(folder.join("gateway.yaml")).unwrap();
    assert!(page.contains(&format!("```yaml\n{gateway}```\n")), "docs/gateway-api.md shows gateway.yaml");
}

#[test]
fn policy_tests_of_examples_pass() {
    let mut passed = 0;
    for folder in examples() {
        let tests = folder.join("tests.jsonl");
        if !tests.exists() {
            continue;
        }
        let output = portcullis(&["explain", "--batch"], &folder, Some(&tests));
        assert!(output.status.success(), "{}: {}", folder.display(), String::from_utf8_lossy(&output.stderr));
        passed += output.stdout.iter().filter(|byte| **byte == b'\n').count();
    }
    assert!(passed >= 5, "{passed}");
}

/// README.md and the documents show the minimal example; a reader who copies it gets what was checked.
#[test]
fn readme_cluster_passes_check() {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap();
    let block = readme.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("cluster.yaml"), block).unwrap();
    let output = portcullis(&["check"], folder.path(), None);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

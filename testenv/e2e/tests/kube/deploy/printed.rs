//! Output of the program that manifests repeat is equal to it.

use std::process::Command;

use portcullis_harness::{deps, project_root};
use serde_json::Value;

use super::rendered::documents;

pub(super) fn printed(args: &[&str]) -> String {
    let output = Command::new(deps::portcullis().unwrap()).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn file(path: &str) -> String {
    std::fs::read_to_string(project_root().join("deploy/kubernetes").join(path)).unwrap()
}

#[test]
fn definition_is_the_one_that_is_printed() {
    let is_equal = file("base/crd.yaml") == printed(&["crd"]);
    assert!(is_equal, "run `make manifests`: it writes deploy/kubernetes/base/crd.yaml anew");
}

#[test]
fn files_of_the_chart_are_kustomizes() {
    let rows = [
        ("crd.yaml", "base/crd.yaml"),
        ("rbac.yaml", "base/control-plane/rbac.yaml"),
        ("gateway-api-rbac.yaml", "components/gateway-api/rbac.yaml"),
        ("instances-rbac.yaml", "components/instances/rbac.yaml"),
        ("policies-rbac.yaml", "components/policies/rbac.yaml"),
        ("rules.yaml", "components/monitoring/rules.yaml"),
        ("dashboard.json", "components/monitoring/dashboard.json"),
    ];
    for (copy, original) in rows {
        let is_equal = file(&format!("../helm/portcullis/files/{copy}")) == file(original);
        assert!(is_equal, "run `make manifests`: it writes deploy/helm/portcullis/files/{copy} anew");
    }
}

#[test]
fn rights_are_those_that_are_printed() {
    let example = |name: &str| project_root().join("deploy/kubernetes/examples").join(name).display().to_string();
    let (impersonate, request_header) = (example("impersonate.yaml"), example("request-header.yaml"));
    let rows: [(&str, &[&str]); 4] = [
        ("base/control-plane/rbac.yaml", &["--control-plane", "--namespace", "portcullis"]),
        ("target/impersonate/rbac.yaml", &[]),
        ("target/impersonate/rbac.yaml", &["-f", &impersonate]),
        ("target/request-header/rbac.yaml", &["-f", &request_header]),
    ];
    for (path, flags) in rows {
        let (written, told) = (documents(&file(path)), documents(&printed(&[&["rbac"], flags].concat())));
        assert!(!written.is_empty() && written.iter().all(|one| !one["kind"].is_null()), "{path}");
        assert_eq!(written, told, "{path} beside `portcullis rbac {}`", flags.join(" "));
    }
}

#[test]
fn rights_of_components_are_those_that_are_printed() {
    let flags = ["rbac", "--control-plane", "--namespace", "portcullis"];
    let without = documents(&printed(&flags)).len();
    for part in ["gateway-api", "instances", "policies"] {
        let mut all = documents(&printed(&[&flags[..], &[format!("--{part}").as_str()]].concat()));
        assert_eq!(documents(&file(&format!("components/{part}/rbac.yaml"))), all.split_off(without), "{part}");
    }
}

#[test]
fn examples_and_settings_are_accepted() {
    let kustomization = documents(&file("base/control-plane/kustomization.yaml"));
    assert_eq!(kustomization[0]["configMapGenerator"][0]["files"], serde_json::json!(["settings.yaml"]));
    let path = |name: &str| project_root().join("deploy/kubernetes").join(name).display().to_string();
    for example in ["examples/impersonate.yaml", "examples/request-header.yaml"] {
        let files = [path("base/control-plane/settings.yaml"), path(example)];
        let told = printed(&["check", "-o", "json", "-f", &files[0], "-f", &files[1]]);
        let findings: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(findings, serde_json::json!([]), "{example}");
    }
}

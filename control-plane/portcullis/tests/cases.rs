//! The rules of request info, policies, credentials, identities and host names, case by case: the files in `cases/` are policy
//! tests as an operator writes them. Their expectations were derived from the rules by other means than this program; only
//! those of `identities.jsonl` are its own answers, reviewed by hand.

#![cfg(test)]

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Output};

fn case_file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name)
}

fn explain(manifest: Option<&str>, requests: File) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.env_clear().arg("explain");
    if let Some(name) = manifest {
        command.arg("-f").arg(case_file(name));
    }
    command.arg("--batch").stdin(requests).output().unwrap()
}

fn meets_its_expectations(manifest: Option<&str>, requests: &str) {
    let text = std::fs::read_to_string(case_file(requests)).unwrap();
    assert!(text.lines().all(|line| line.contains("\"expect\"")), "a case of {requests} tests nothing");
    let output = explain(manifest, File::open(case_file(requests)).unwrap());
    let told = String::from_utf8_lossy(&output.stderr);
    let differences: Vec<&str> = told.lines().filter(|line| line.contains("ERROR")).collect();
    assert!(output.status.success(), "{}", differences.join("\n"));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), text.lines().count(), "{requests}");
}

#[test]
fn requests_are_read_as_kube_apiserver_reads_them() {
    meets_its_expectations(None, "request-info.jsonl");
}

#[test]
fn credentials_are_found_as_kube_apiserver_finds_them() {
    meets_its_expectations(None, "credentials.jsonl");
}

#[test]
fn policies_match_as_documented() {
    meets_its_expectations(Some("policies.yaml"), "policies.jsonl");
}

#[test]
fn identity_goes_upstream_only_if_it_counts() {
    meets_its_expectations(Some("whole.yaml"), "identities.jsonl");
}

#[test]
fn cluster_answers_to_its_names_only() {
    meets_its_expectations(Some("whole.yaml"), "hosts.jsonl");
}

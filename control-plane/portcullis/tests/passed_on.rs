//! Answers of the commands about a cluster whose connections are passed on.

#![cfg(test)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

const JUDGED: &str = "apiVersion: proxy.kubegateway.io/v1alpha1
kind: UpstreamCluster
metadata: {name: a.test}
spec:
  servers: [{endpoint: 'https://192.0.2.1:6443'}]
  clientConfig: {insecure: true, bearerToken: YQ==}
  dispatchPolicies: [{rules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*']}]}]
";

fn files(dir: &Path) -> [String; 2] {
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let passed_on = format!("{JUDGED}  portcullis: {{transport: TLSPassthrough}}\n");
    [write("judged.yaml", JUDGED), write("passed-on.yaml", &passed_on)]
}

fn run(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.env_clear().args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that ends first does not read it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap() + &String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn explain_says_that_nothing_is_judged() {
    let dir = tempfile::tempdir().unwrap();
    let [judged, passed_on] = files(dir.path());
    let answer = |file: &str| -> Value {
        let output = run(&["explain", "-f", file, "-o", "json", "GET", "/api/v1/pods", "--user", "alice"], "");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)))
    };
    let answer_of_passed_on = answer(&passed_on);
    let said = answer_of_passed_on["passedOn"].as_str().unwrap();
    assert!(said.starts_with("connections are passed on, not judged"), "{said}");
    for part in ["dispatch", "refusal", "upstreamHeaders"] {
        assert_eq!(answer_of_passed_on[part], Value::Null, "{part}");
    }
    let answer_of_judged = answer(&judged);
    assert!(answer_of_judged.get("passedOn").is_none() && answer_of_judged["dispatch"]["matched"] == true);
}

#[test]
fn diff_compares_no_policies_with_passing_on() {
    let dir = tempfile::tempdir().unwrap();
    let [judged, passed_on] = files(dir.path());
    let diff = |old: &str, new: &str| run(&["diff", "-f", old, "--with", new], "");
    for (old, new) in [(&judged, &passed_on), (&passed_on, &judged)] {
        let output = diff(old, new);
        let told = text(&output);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("all requests: one side passes connections on, and judges none"), "{told}");
        assert!(told.contains("TLSPassthrough"), "{told}");
    }
    assert_eq!(diff(&passed_on, &passed_on).status.code(), Some(0));
}

#[test]
fn replay_judges_no_line_by_passing_on() {
    let dir = tempfile::tempdir().unwrap();
    let [_, passed_on] = files(dir.path());
    let line = json!({"time": "2026-11-27T10:00:00.000Z", "client": "192.0.2.9", "cluster": "a.test", "method": "GET", "code": 200,
        "path": "/api/v1/namespaces/prod/pods", "verb": "list", "apiVersion": "v1", "resource": "pods", "namespace": "prod",
        "user": "alice", "groups": ["dev"], "policy": "0", "schema": "-", "serverGroup": "all", "requestId": "x",
        "decision": "forwarded", "reason": "-"});
    let output = run(&["replay", "-f", &passed_on], &format!("{line}\n"));
    assert!(text(&output).contains("to which connections are passed on, not judged"), "{}", text(&output));
}

#[test]
fn check_names_what_has_no_effect() {
    let dir = tempfile::tempdir().unwrap();
    let [_, passed_on] = files(dir.path());
    let output = run(&["check", "-f", &passed_on], "");
    let told = text(&output);
    for part in [
        "spec.portcullis.transport: connections are passed on, not judged",
        "spec.dispatchPolicies: has no effect: connections are passed on, not judged",
        "spec.clientConfig.bearerToken: has no effect",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("bearerToken: YQ"), "{told}");
}

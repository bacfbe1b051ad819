//! `portcullis replay`: its calls, its exit status and its report.

#![cfg(test)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

const CLUSTER: &str = "apiVersion: proxy.kubegateway.io/v1alpha1
kind: UpstreamCluster
metadata: {name: a.test}
spec:
  servers: [{endpoint: https://192.0.2.1:6443}]
  flowControl: {flowControlSchemas: [{name: slow, maxRequestsInflight: {max: 1}}]}
  dispatchPolicies:
  - rules: [{verbs: [list], apiGroups: ['*'], resources: [pods], userGroups: [GROUP]}]
    flowControlSchemaName: slow
  - rules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*'], nonResourceURLs: ['*']}]
";

fn replay(dir: &Path, group: &str, arguments: &[&str], log: &str) -> Output {
    let file = dir.join("new.yaml");
    std::fs::write(&file, CLUSTER.replace("GROUP", group)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.env_clear().args(["replay", "-f"]).arg(file).args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(log.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// A line about pods, which the log's own policies let go.
fn line(user: &str, groups: &[&str], verb: &str) -> String {
    json!({"time": "2026-11-27T10:00:00.000Z", "client": "192.0.2.9", "cluster": "a.test", "method": "GET", "code": 200,
        "path": "/api/v1/namespaces/prod/pods", "verb": verb, "apiVersion": "v1", "resource": "pods", "namespace": "prod",
        "user": user, "groups": groups, "policy": "1", "schema": "-", "serverGroup": "all", "requestId": "x",
        "decision": "forwarded", "reason": "-"})
    .to_string()
        + "\n"
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn report_names_what_differs_and_for_whom() {
    let dir = tempfile::tempdir().unwrap();
    let stranger = line("alice", &["dev"], "list").replace("a.test", "b.test\\u001b[2J");
    let log = [
        line("alice", &["dev"], "list"),
        line("alice", &["dev"], "list"),
        line("bob\u{202e}", &["dev"], "list"),
        line("carol", &["ops"], "list"),
        line("alice", &["dev"], "watch"),
        "{\"half\": \n\nnot JSON\n".to_owned(),
        stranger,
        "x".repeat(300_000) + "\n",
    ]
    .concat();
    let output = replay(dir.path(), "dev", &[], &log);
    let report = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{report}");
    let first =
        "lines: 9 read, 2 the same (0 of them by a policy of another number), 3 different, 0 unknown, 4 not judged";
    assert_eq!(report.lines().next(), Some(first), "{report}");
    for part in [
        "3: a.test\n  then: policy 1, all servers, no schema\n  now:  policy 0, all servers, schema slow\n  users: alice (2), bob\u{fffd} (1)\n",
        "line 1: portcullis explain -f FILES GET /api/v1/namespaces/prod/pods --host a.test --user alice --group dev --header 'X-Forwarded-For: 192.0.2.9'\n",
        "  3: not a line of the access log\n",
        "  1 of them: cluster b.test\u{fffd}[2J\n",
        "a.test    slow        0              0     3\n",
    ] {
        assert!(report.contains(part), "{part:?} in\n{report}");
    }
    assert!(!report.contains('\u{1b}'), "{report:?}");

    let output = replay(dir.path(), "dev", &["-o", "json", "--show", "0"], &log);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&report["different"], &report["differentElsewhere"], &report["same"]),
        (&json!(3), &json!(3), &json!(2))
    );
    let output = replay(dir.path(), "dev", &["-o", "json"], &log);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let difference = &report["differences"][0];
    assert_eq!((&difference["then"]["policy"], &difference["now"]["schema"]), (&json!(1), &json!("slow")), "{report}");
    assert_eq!(difference["example"]["explain"][0], "GET");
}

#[test]
fn exit_status_says_whether_anything_differs() {
    let dir = tempfile::tempdir().unwrap();
    let cut = line("alice", &["dev"], "list").replace("\"user\"", "\"moreGroups\":3,\"user\"");
    let same = line("alice", &["dev"], "list");
    let refused = same.replace("forwarded", "refused").replace("\"reason\":\"-\"", "\"reason\":\"unauthorized\"");
    for (group, arguments, log, expected, told) in [
        ("ops", &[][..], same.as_str(), 0, ""),
        ("dev", &[], &same, 1, ""),
        ("ops", &[], &cut, 1, ""),
        ("dev", &["-n", "a.test"], &same, 1, ""),
        ("dev", &["--cluster", "b.test"], &same, 2, "error: there is no UpstreamCluster b.test among the objects\n"),
        ("dev", &[], "", 2, "error: no line of the log could be judged\n"),
        ("dev", &[], &refused, 2, "error: no line of the log could be judged\n"),
        ("dev", &["--log", "nolog"], "", 2, "error: cannot read nolog: "),
        ("dev", &["-f", "nofile"], &same, 2, "error: cannot "),
    ] {
        let output = replay(dir.path(), group, arguments, log);
        assert_eq!(output.status.code(), Some(expected), "{arguments:?} {}", text(&output.stdout));
        // The object lacks what is served with, which is warned of.
        let errors: String = text(&output.stderr)
            .lines()
            .filter(|line| !line.starts_with("warning: "))
            .map(|line| format!("{line}\n"))
            .collect();
        assert!(errors.starts_with(told) && errors.is_empty() == told.is_empty(), "{arguments:?} {errors}");
    }
}

#[test]
fn logs_are_read_one_after_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let files = ["1", "2"].map(|name| dir.path().join(name));
    for file in &files {
        std::fs::write(file, line("alice", &["dev"], "list").trim_end()).unwrap();
    }
    let [first, second] = files.each_ref().map(|file| file.to_str().unwrap());
    let output =
        replay(dir.path(), "dev", &["--log", first, "--log", "-", "--log", second], &line("bob", &["dev"], "list"));
    let report = text(&output.stdout);
    assert!(report.contains("lines: 3 read") && report.contains("users: alice (2), bob (1)"), "{report}");
}

#[test]
fn unknown_parts_of_impersonated_requests_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let impersonated = line("alice", &["dev"], "list").replace("\"user\"", "\"impersonatedUser\":\"bob\",\"user\"");
    let report = text(&replay(dir.path(), "dev", &[], &impersonated).stdout);
    for part in [
        "0 different, 1 unknown",
        "1: the groups of the impersonated user; the first is line 1: GET /api/v1/namespaces/prod/pods by alice as bob",
        "note: 1 lines are of impersonated users: the log has their names, and not the groups",
    ] {
        assert!(report.contains(part), "{part:?} in\n{report}");
    }
    let report = text(&replay(dir.path(), "dev", &[], &line("alice", &["dev"], "list")).stdout);
    assert!(!report.contains("impersonated"), "{report}");
}

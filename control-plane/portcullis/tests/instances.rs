//! Commands that judge clusters of instances by the settings of these: `explain`, `diff`, `replay`, `freeze` and `rbac`.

#![cfg(test)]

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// A cluster of a team; of none if it is empty.
fn cluster(name: &str, team: &str) -> String {
    let labels = if team.is_empty() { String::new() } else { format!(", labels: {{team: {team}}}") };
    format!(
        "apiVersion: proxy.kubegateway.io/v1alpha1\nkind: UpstreamCluster\nmetadata: {{name: {name}{labels}}}\nspec:\n  \
         servers: [{{endpoint: https://10.0.0.1:6443}}]\n  \
         clientConfig: {{insecure: true, bearerToken: VE9QU0VDUkVU}}\n  \
         dispatchPolicies:\n  - rules:\n    \
         - {{verbs: ['*'], apiGroups: ['*'], resources: ['*'], nonResourceURLs: ['*']}}\n"
    )
}

/// Settings that keep a user out, and protect a group.
fn settings(name: &str, user: &str, group: &str) -> String {
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: GatewaySettings\nmetadata: {{name: {name}}}\nspec:\n  \
         access: {{deny: [{{users: [{user}]}}]}}\n  protectedIdentities: {{groups: ['{group}']}}\n"
    )
}

fn instance(name: &str, settings: &str, selector: &str) -> String {
    let settings = if settings.is_empty() { String::new() } else { format!("settings: {settings}, ") };
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: Instance\nmetadata: {{name: {name}}}\n\
         spec: {{{settings}clustersSelector: {selector}}}\n"
    )
}

const TEAM_A: &str = "{matchLabels: {team: a}}";
const FLAG: [&str; 2] = ["--settings-name", "all"];

/// The settings of all, those of the instance, the instance, a cluster of it and one of none.
fn objects() -> Vec<String> {
    vec![
        settings("all", "eve", "shared"),
        settings("own", "mallory", "secret"),
        instance("a", "own", TEAM_A),
        cluster("prod.test", "a"),
        cluster("other.test", ""),
    ]
}

fn write(dir: &Path, name: &str, documents: &[String]) -> String {
    let file = dir.join(name);
    std::fs::write(&file, documents.join("---\n")).unwrap();
    file.display().to_string()
}

/// Exit code, standard output and standard error.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_portcullis")).env_clear().args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn explain(documents: &[String], arguments: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "all.yaml", documents);
    let call = ["explain", "-f", &file, "GET", "/api/v1/pods", "-o", "json"];
    let (_, answer, told) = run(&[&call[..], arguments].concat());
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}{told}"))
}

/// Whether the request of a user to a host is refused.
fn is_refused(documents: &[String], host: &str, user: &str) -> bool {
    let answer = explain(documents, &[&FLAG[..], &["--host", host, "--user", user]].concat());
    answer["refusal"]["code"] == json!(403)
}

#[test]
fn request_is_judged_by_settings_of_its_clusters_instance() {
    let all = objects();
    for (host, user, expected) in [
        ("prod.test", "eve", false),
        ("prod.test", "mallory", true),
        ("other.test", "eve", true),
        ("other.test", "mallory", false),
    ] {
        assert_eq!(is_refused(&all, host, user), expected, "{user} at {host}");
    }
    let of = |documents: &[String], host: &str| {
        explain(documents, &[&FLAG[..], &["--host", host, "--user", "alice"]].concat())["instance"].clone()
    };
    let alone = json!({"name": "a", "settings": "own", "reason": "it alone selects the labels"});
    assert_eq!(of(&all, "prod.test"), alone);
    assert_eq!(of(&all, "other.test")["name"], Value::Null);
    let mut contested = all.clone();
    contested.push(instance("b", "", "{}"));
    let reason = of(&contested, "prod.test")["reason"].as_str().unwrap().to_owned();
    let end = ": b; without a creationTimestamp the name decides: a, b";
    assert!(reason.starts_with("it is the oldest that selects the labels") && reason.ends_with(end), "{reason}");
    assert_eq!(of(&contested, "other.test")["settings"], Value::Null);
    let without = vec![settings("all", "eve", "shared"), cluster("prod.test", "a")];
    assert_eq!(explain(&without, &["--user", "alice"]).get("instance"), None);
}

#[test]
fn policy_that_won_is_named_beside_the_instance() {
    let policy = "apiVersion: portcullis.dev/v1alpha1\nkind: UpstreamIdentityPolicy\n\
                  metadata: {name: p, namespace: portcullis}\nspec:\n  targetRefs:\n  \
                  - {group: proxy.kubegateway.io, kind: UpstreamCluster, name: prod.test}\n  \
                  overrides: {allowAnonymous: false}\n";
    let spanning = policy.replace(
        "  overrides",
        "  - {group: proxy.kubegateway.io, kind: UpstreamCluster, name: other.test}\n  overrides",
    );
    for (policy, part) in [(policy.to_owned(), "decides"), (spanning, "its targets belong to several instances")] {
        let mut documents = objects();
        documents.push(policy);
        let answer = explain(&documents, &[&FLAG[..], &["--host", "prod.test", "--user", "alice"]].concat());
        assert_eq!(answer["instance"]["settings"], "own");
        let told = answer["policies"].to_string();
        assert!(told.contains("portcullis/p") && told.contains(part), "{told}");
    }
}

#[test]
fn settings_that_are_not_known_are_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut missing = objects();
    missing.remove(1);
    for (documents, flag, wanted) in [
        (objects(), &[][..], "--settings-name says which are of all gateways"),
        (missing, &FLAG, "Instance a: spec.settings: there are no GatewaySettings own"),
    ] {
        let file = write(dir.path(), "all.yaml", &documents);
        let calls: [&[&str]; 3] = [
            &["explain", "-f", &file, "GET", "/api/v1/pods", "--host", "prod.test"],
            &["diff", "-f", &file, "--with", &file],
            &["replay", "-f", &file, "--log", "/dev/null"],
        ];
        for call in calls {
            let (code, _, told) = run(&[call, flag].concat());
            assert_ne!(code, Some(0), "{call:?}");
            assert!(told.contains(wanted), "{wanted:?} in {told} of {call:?}");
        }
    }
}

#[test]
fn edit_of_an_instances_settings_differs_at_its_clusters() {
    let dir = tempfile::tempdir().unwrap();
    let diff = |new: &[String]| {
        let (old, new) = (write(dir.path(), "old.yaml", &objects()), write(dir.path(), "new.yaml", new));
        let (code, report, _) = run(&[&["diff", "-f", &old, "--with", &new][..], &FLAG].concat());
        (code, report)
    };
    let (code, report) = diff(&objects());
    assert_eq!(code, Some(0), "{report}");
    let mut edited = objects();
    edited[1] = settings("own", "oscar", "secret");
    let (code, report) = diff(&edited);
    assert_eq!(code, Some(1));
    for wanted in [
        "GatewaySettings own\n    spec.access",
        "prod.test: requests are judged differently in 2 ways",
        "other.test: no request is judged differently",
    ] {
        assert!(report.contains(wanted), "{wanted:?} in\n{report}");
    }
    // Another owner is other settings.
    let mut moved = objects();
    moved[3] = cluster("prod.test", "b");
    let (code, report) = diff(&moved);
    assert_eq!(code, Some(1));
    for wanted in ["prod.test: requests are judged differently in 2 ways", "    the Instance that selects it: a -> -"] {
        assert!(report.contains(wanted), "{wanted:?} in\n{report}");
    }
    let mut removed = objects();
    removed.remove(2);
    let (_, report) = diff(&removed);
    assert!(report.contains("Instance a: only among the old objects"), "{report}");
}

#[test]
fn log_lines_are_judged_by_settings_of_the_instance() {
    let dir = tempfile::tempdir().unwrap();
    let line = |cluster: &str, user: &str| {
        let line = json!({"time": "2026-11-27T10:00:00.000Z", "client": "192.0.2.9", "cluster": cluster, "method": "GET",
            "code": 200, "path": "/api/v1/pods", "verb": "list", "apiVersion": "v1", "resource": "pods", "user": user,
            "groups": ["system:authenticated"], "policy": "0", "schema": "-", "serverGroup": "all", "requestId": "x",
            "decision": "forwarded", "reason": "-"});
        format!("{line}\n")
    };
    let log = [("prod.test", "eve"), ("prod.test", "mallory"), ("other.test", "eve"), ("other.test", "mallory")];
    let log = log.map(|(cluster, user)| line(cluster, user)).concat();
    let (file, log_file) = (write(dir.path(), "all.yaml", &objects()), write(dir.path(), "log", &[log]));
    let (code, report, told) = run(&[&["replay", "-f", &file, "--log", &log_file][..], &FLAG].concat());
    assert_eq!(code, Some(1), "{report}{told}");
    for wanted in [
        "1: other.test\n",
        "1: prod.test\n",
        "users: eve (1)\n",
        "users: mallory (1)\n",
        "2 the same",
        "note: prod.test: judged by the GatewaySettings own of Instance a\n",
    ] {
        assert!(report.contains(wanted), "{wanted:?} in\n{report}");
    }
}

#[test]
fn profile_is_shown_with_groups_that_the_instance_protects() {
    let dir = tempfile::tempdir().unwrap();
    let rules = "[{verbs: ['*'], apiGroups: ['*'], resources: ['*'], userGroups: [secret]}]";
    let profile = format!("  portcullis: {{profiles: [{{name: few, dispatchPolicies: [{{rules: {rules}}}]}}]}}\n");
    let mut documents = objects();
    documents[3] = cluster("prod.test", "a") + &profile;
    let file = write(dir.path(), "all.yaml", &documents);
    let profiles = dir.path().join("profiles.json").display().to_string();
    let call = ["freeze", "prod.test", "--stage", "few", "--dry-run", "--profiles-file", &profiles, "-f", &file];
    let (code, shown, told) = run(&[&call[..], &FLAG].concat());
    assert_eq!(code, Some(0), "{told}");
    assert!(shown.contains("secret refused or dropped: protectedIdentities"), "{shown}");
    assert!(told.contains("judged by the GatewaySettings own of Instance a"), "{told}");
    // Settings of which none is meant keep no operator from closing a cluster.
    let (code, _, told) = run(&call);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("--settings-name says which are of all gateways"), "{told}");
}

#[test]
fn rights_follow_policies_about_identities() {
    let dir = tempfile::tempdir().unwrap();
    let policy = "apiVersion: portcullis.dev/v1alpha1\nkind: UpstreamIdentityPolicy\n\
                  metadata: {name: p, namespace: portcullis}\nspec:\n  targetRefs:\n  \
                  - {group: proxy.kubegateway.io, kind: UpstreamCluster, name: prod.test}\n  \
                  overrides: {upstreamIdentity: RequestHeader}\n";
    let file = write(dir.path(), "all.yaml", &[cluster("prod.test", "a"), policy.to_owned()]);
    for (namespace, impersonates) in [("portcullis", false), ("elsewhere", true)] {
        let (code, rights, told) = run(&["rbac", "-f", &file, "--namespace", namespace]);
        assert_eq!(code, Some(0), "{told}");
        assert_eq!(rights.contains("impersonate"), impersonates, "{namespace}: {rights}");
    }
    let (code, _, told) = run(&["rbac", "--personas", "--namespace", "portcullis"]);
    assert_eq!(code, Some(2), "{told}");
}

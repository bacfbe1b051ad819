//! `portcullis diff` and `portcullis promote`: their calls, their exit status and what they print.

#![cfg(test)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const CLUSTER: &str = "apiVersion: proxy.kubegateway.io/v1alpha1
kind: UpstreamCluster
metadata: {name: a.test, resourceVersion: '7'}
spec:
  servers: [{endpoint: https://192.0.2.1:6443}]
  clientConfig: {insecure: true, bearerToken: dGVzdA==}
  dispatchPolicies:
  - rules: [{verbs: [delete], apiGroups: ['*'], resources: [pods], userGroups: [GROUP]}]
    portcullis: {action: Deny, MODE}
  - rules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*'], nonResourceURLs: ['*']}]
";

fn object(dir: &Path, name: &str, group: &str, mode: &str) -> PathBuf {
    let file = dir.join(name);
    std::fs::write(&file, CLUSTER.replace("GROUP", group).replace("MODE", mode)).unwrap();
    file
}

fn portcullis(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_portcullis")).env_clear().args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn diff_exits_by_what_it_finds() {
    let dir = tempfile::tempdir().unwrap();
    let [dev, same, ops] =
        [("dev", "dev"), ("same", "dev"), ("ops", "ops")].map(|(name, group)| object(dir.path(), name, group, ""));
    let [dev, same, ops] = [&dev, &same, &ops].map(|path| path.to_str().unwrap());
    let table: [(&[&str], i32); 7] = [
        (&["-f", dev, "--with", same], 0),
        (&["-f", dev, "--with", ops], 1),
        (&["-f", dev, "--with", ops, "-n", "a.test"], 1),
        (&["-f", dev, "--with", ops, "-n", "b.test"], 2),
        (&["-f", "nofile", "--with", ops], 2),
        (&["-f", dev], 2),
        (&["--with", ops], 2),
    ];
    for (arguments, expected) in table {
        let output = portcullis(&[&["diff"], arguments].concat());
        let told = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(expected), "{arguments:?}: {told}");
    }
}

#[test]
fn diff_has_an_example_that_explain_answers_by_both() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (object(dir.path(), "old", "dev", ""), object(dir.path(), "new", "ops", ""));
    let [old, new] = [&old, &new].map(|path| path.to_str().unwrap());
    let output = portcullis(&["diff", "-f", old, "--with", new, "-o", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let differences = report["clusters"][0]["differences"].as_array().unwrap();
    assert_eq!(differences.len(), 2, "{report}");
    for difference in differences {
        let example = difference["explain"].as_array().unwrap();
        let call: Vec<&str> = example.iter().map(|word| word.as_str().unwrap()).collect();
        let explained = [old, new].map(|file| {
            let output = portcullis(&[&["explain", "-f", file][..], &call].concat());
            text(&output.stdout)
        });
        let denied = explained.each_ref().map(|answer| answer.contains("403"));
        assert!(denied[0] != denied[1], "{call:?}: {explained:?}");
    }
}

#[test]
fn promotion_is_a_patch_of_the_version_that_was_read() {
    let dir = tempfile::tempdir().unwrap();
    let shadow = object(dir.path(), "shadow", "dev", "mode: Shadow");
    let output = portcullis(&["promote", "a.test", "-f", shadow.to_str().unwrap()]);
    let patch: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    assert!(!patch.to_string().contains("Shadow"), "{patch}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn promotion_prints_nothing_that_would_be_refused() {
    let dir = tempfile::tempdir().unwrap();
    let table = [
        ("dev", "", "UpstreamCluster a.test has no shadow"),
        ("system:nodes", "mode: Shadow", "UpstreamCluster a.test would be refused: "),
        ("dev", "mode: Shadow, strategy: 7", "UpstreamCluster a.test would be refused: "),
    ];
    for (group, mode, told) in table {
        let file = object(dir.path(), "object", group, mode);
        let text_of = std::fs::read_to_string(&file).unwrap().replace("[delete]", "['*']").replace("[pods]", "['*']");
        std::fs::write(&file, text_of).unwrap();
        let output = portcullis(&["promote", "a.test", "-f", file.to_str().unwrap()]);
        let errors = text(&output.stderr);
        assert!(output.stdout.is_empty() && errors.contains(told), "{mode}: {errors}");
        assert_eq!(output.status.code(), Some(1), "{mode}");
    }
}

const POLICY: &str = "---
apiVersion: portcullis.dev/v1alpha1
kind: KIND
metadata: {name: x, namespace: NAMESPACE}
spec:
  targetRefs: [{group: proxy.kubegateway.io, kind: UpstreamCluster, name: a.test}]
  STRATEGY: FIELDS
";
const GRANT: &str = "---
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: g, namespace: portcullis}
spec:
  from: [{group: portcullis.dev, kind: FlowControlPolicy, namespace: team-a}]
  to: [{group: proxy.kubegateway.io, kind: UpstreamCluster}]
";

/// A promoted part beside policies of kinds of their own: it decides, or nothing is printed and the policy is named.
#[test]
fn promotion_beside_attached_policies_decides_or_names_them() {
    let dir = tempfile::tempdir().unwrap();
    let all = "{rules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*'], nonResourceURLs: ['*']}]";
    let dispatch = |more: &str| format!("{{dispatchPolicies: [{all}{more}}}]}}");
    let limit = |max: u32| {
        format!("{{flowControl: {{flowControlSchemas: [{{name: few, maxRequestsInflight: {{max: {max}}}}}]}}}}")
    };
    let policy = |kind: &str, namespace: &str, strategy: &str, fields: &str| {
        let of = POLICY.replace("KIND", kind).replace("NAMESPACE", namespace).replace("STRATEGY", strategy);
        of.replace("FIELDS", fields)
    };
    let home = |kind: &str, strategy: &str, fields: &str| policy(kind, "portcullis", strategy, fields);
    let tightens = policy("FlowControlPolicy", "team-a", "overrides", &limit(1)) + GRANT;
    let mode = CLUSTER.replace("GROUP", "dev").replace("MODE", "mode: Shadow");
    let plain = CLUSTER.replace("GROUP", "dev").replace("MODE", "");
    let few = "{flowControlSchemas: [{name: few, maxRequestsInflight: {max: 9}}]}";
    let shadow = |part: &str, own: &str| format!("{plain}{own}  portcullis: {{shadow: {{{part}}}}}\n");
    let limits = shadow(&format!("flowControl: {few}"), "");
    let lost =
        shadow("flowControl: {flowControlSchemas: [{name: other, exempt: {}}]}", &format!("  flowControl: {few}\n"));
    let lists = shadow("access: {deny: [{users: [mallory]}]}", "");
    for (case, cluster, policies, told, is_printed) in [
        ("limits alone", &mode, home("FlowControlPolicy", "overrides", &limit(1)), "", true),
        (
            "dispatch policies decide",
            &mode,
            home("DispatchPolicy", "overrides", &dispatch("")),
            "spec.dispatchPolicies would not decide, because DispatchPolicy portcullis/x does: edit that policy",
            false,
        ),
        (
            "limits decide",
            &limits,
            home("FlowControlPolicy", "overrides", &limit(1)),
            "spec.flowControl would not decide, because FlowControlPolicy portcullis/x does",
            false,
        ),
        (
            "defaults yield",
            &limits,
            home("FlowControlPolicy", "defaults", &limit(1)),
            "FlowControlPolicy portcullis/x yields to what is promoted",
            true,
        ),
        ("lists are of no policy", &lists, home("DispatchPolicy", "overrides", &dispatch("")), "", true),
        (
            "the shadow is the policy's",
            &plain,
            home(
                "DispatchPolicy",
                "overrides",
                &dispatch(
                    ", portcullis: {mode: Shadow}}, {rules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*'], nonResourceURLs: ['*']}]",
                ),
            ),
            "the policies of mode: Shadow are those of DispatchPolicy portcullis/x",
            false,
        ),
        (
            "a limit that is lowered goes",
            &lost,
            tightens.clone(),
            "FlowControlPolicy team-a/x would not tighten any more: spec.overrides.flowControlSchemas: few",
            false,
        ),
        (
            "it goes on to be lowered",
            &shadow(&format!("flowControl: {few}"), &format!("  flowControl: {few}\n").replace('9', "8")),
            tightens,
            "FlowControlPolicy team-a/x goes on to tighten what is promoted",
            true,
        ),
    ] {
        let file = dir.path().join("objects.yaml");
        std::fs::write(&file, format!("{cluster}{policies}")).unwrap();
        let output = portcullis(&["promote", "a.test", "-f", file.to_str().unwrap()]);
        let errors = text(&output.stderr);
        assert_eq!((output.status.success(), !output.stdout.is_empty()), (is_printed, is_printed), "{case}: {errors}");
        assert!(errors.contains(told), "{case}: {errors}");
    }
}

/// Of an object that was read from a store its status says which policies are in effect.
#[test]
fn promotion_goes_by_the_status_of_an_object_alone() {
    let dir = tempfile::tempdir().unwrap();
    let of = |kind: &str, why: &str| {
        format!(
            "status:\n  conditions:\n  - {{type: portcullis.dev/{kind}PolicyAffected, status: 'True', reason: PolicyAffected, message: '{kind}Policy portcullis/x {why}'}}\n"
        )
    };
    let cluster = CLUSTER.replace("GROUP", "dev").replace("MODE", "mode: Shadow");
    for (status, told, is_printed) in [
        (of("Dispatch", "decides (overrides of)"), "because DispatchPolicy portcullis/x does", false),
        (of("Dispatch", "tightens (overrides of)"), "not checked with a policy that is attached", true),
        (of("FlowControl", "decides (overrides of)"), "not checked with a policy that is attached", true),
        (String::new(), "", true),
    ] {
        let file = dir.path().join("object.yaml");
        std::fs::write(&file, format!("{cluster}{status}")).unwrap();
        let output = portcullis(&["promote", "a.test", "-f", file.to_str().unwrap()]);
        let errors = text(&output.stderr);
        assert_eq!(
            (output.status.success(), !output.stdout.is_empty()),
            (is_printed, is_printed),
            "{status}: {errors}"
        );
        assert!(errors.contains(told) && errors.is_empty() == told.is_empty(), "{status}: {errors}");
    }
    // The limit may be a policy's.
    let file = dir.path().join("object.yaml");
    let limited = cluster.replace("    portcullis: {action", "    flowControlSchemaName: few\n    portcullis: {action");
    std::fs::write(&file, limited + &of("FlowControl", "decides (overrides of)")).unwrap();
    let output = portcullis(&["promote", "a.test", "-f", file.to_str().unwrap()]);
    let errors = text(&output.stderr);
    assert!(!output.status.success() && errors.contains("-f with their files, too, checks it with them"), "{errors}");
}

/// A profile decides in the place of the policies, by its annotation alone.
#[test]
fn diff_sees_a_profile_in_the_place_of_policies() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, profile: &str| {
        let annotated = format!("metadata: {{name: a.test, annotations: {{portcullis.dev/profile: '{profile}'}}}}");
        let metadata = "metadata: {name: a.test, resourceVersion: '7'}";
        let path = dir.path().join(name);
        std::fs::write(&path, CLUSTER.replace("MODE", "").replace(metadata, &annotated)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let [open, frozen, heartbeats] =
        [("open", ""), ("frozen", "frozen"), ("heartbeats", "heartbeats")].map(|(name, profile)| write(name, profile));
    let diff = |old: &str, new: &str| {
        let output = portcullis(&["diff", "-f", old, "--with", new, "-o", "json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), report["clusters"][0].clone())
    };
    let (code, report) = diff(&open, &frozen);
    assert_eq!(code, Some(1), "{report:#}");
    assert!(report.to_string().contains("all requests: one side answers each with 429"), "{report:#}");
    assert!(report.to_string().contains("portcullis.dev/profile"), "{report:#}");
    let (code, report) = diff(&open, &heartbeats);
    let differences = report["differences"].as_array().unwrap();
    assert!(code == Some(1) && !differences.is_empty(), "{report:#}");
    assert!(report.to_string().contains("portcullis:"), "by the limits of the profile: {report:#}");
    assert_eq!(diff(&frozen, &frozen).0, Some(0));
}

/// Another token behind the same file or Secret, and an entry of an access list that ends.
#[test]
fn diff_sees_content_behind_references_and_what_ends() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let cluster = |reference: &str, until: &str| {
        let of = format!(
            "  portcullis:\n    references: {{token: {reference}}}\n    access: {{deny: [{{addresses: [192.0.2.0/24], until: {until}}}]}}\n"
        );
        CLUSTER
            .replace("clientConfig: {insecure: true, bearerToken: dGVzdA==}", "clientConfig: {insecure: true}")
            .replace("MODE", "")
            + &of
    };
    let file = write("file.yaml", &cluster("{file: token}", "'2099-01-02T03:04:05Z'"));
    let [one, two] = [("one", "TOPSECRET1"), ("two", "TOPSECRET2")].map(|(name, token)| {
        write(&format!("{name}/token"), token);
        dir.path().join(name).to_str().unwrap().to_owned()
    });
    let diff = |arguments: &[&str]| {
        let output = portcullis(&[&["diff"], arguments].concat());
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, printed, _) =
        diff(&["-f", &file, "--with", &file, "--references-root", &one, "--with-references-root", &two]);
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("spec.portcullis.references.token (content): differs"), "{printed}");
    assert!(printed.contains("2099-01-02T03:04:05Z: entry 0 of the cluster's deny list (new objects)"), "{printed}");
    assert!(!printed.contains("TOPSECRET") && !printed.contains("VE9QU0VDUkVU"), "{printed}");
    let (code, printed, _) =
        diff(&["-f", &file, "--with", &file, "--references-root", &one, "--with-references-root", &one]);
    assert_eq!(code, Some(0), "{printed}");
    let (code, _, errors) = diff(&["-f", &file, "--with", &file]);
    assert!(
        code == Some(1) && errors.contains("the content of spec.portcullis.references.token is not compared"),
        "{errors}"
    );

    let secret = |data: &str| {
        let secret = format!(
            "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s, labels: {{portcullis.dev/upstream-cluster: a.test}}}}\ndata: {{token: {data}}}\n"
        );
        cluster("{secret: {name: s}}", "'2000-01-02T03:04:05Z'") + &secret
    };
    let [old, new] = [("old.yaml", "VE9QU0VDUkVUMQ=="), ("new.yaml", "VE9QU0VDUkVUMg==")]
        .map(|(name, data)| write(name, &secret(data)));
    let (code, printed, errors) = diff(&["-f", &old, "--with", &new]);
    assert_eq!(code, Some(1), "{printed}{errors}");
    assert!(printed.contains("spec.portcullis.references.token (content): differs"), "{printed}");
    assert!(!printed.contains("entries that end"), "an entry that is over ends no more: {printed}");
    assert!(!format!("{printed}{errors}").contains("VE9QU0VDUkVU"), "{printed}{errors}");
    assert_eq!(diff(&["-f", &old, "--with", &old]).0, Some(0));

    // A Secret of the same name in another namespace: which of the two the gateway reads is not known.
    let text_of_old = std::fs::read_to_string(&old).unwrap();
    let other = text_of_old.rsplit_once("---\n").unwrap().1.replace("name: s,", "name: s, namespace: elsewhere,");
    let two = write("two.yaml", &format!("{text_of_old}---\n{other}"));
    let (code, _, errors) = diff(&["-f", &two, "--with", &two]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("the content of spec.portcullis.references.token is not compared"), "{errors}");
}

//! Policies that attach to `UpstreamClusters`, offline: `portcullis check` and `portcullis explain`.

#![cfg(test)]

use std::process::Command;

const CLUSTER: &str = "\
apiVersion: proxy.kubegateway.io/v1alpha1
kind: UpstreamCluster
metadata: {name: prod.test}
spec:
  servers: [{endpoint: https://10.0.0.1:6443}, {endpoint: https://10.0.0.2:6443}]
  clientConfig: {insecure: true, bearerToken: VE9QU0VDUkVU}
  flowControl: {flowControlSchemas: [{name: few, maxRequestsInflight: {max: 5}}]}
  dispatchPolicies:
  - rules:
    - {verbs: ['*'], apiGroups: ['*'], resources: ['*'], nonResourceURLs: ['*']}
    flowControlSchemaName: few
";

const BASE: &str = "\
apiVersion: portcullis.dev/v1alpha1
kind: DispatchPolicy
metadata: {name: base, namespace: portcullis}
spec:
  targetRefs: [{group: proxy.kubegateway.io, kind: UpstreamCluster, name: prod.test}]
  overrides:
    dispatchPolicies:
    - rules:
      - {verbs: ['*'], apiGroups: ['*'], resources: ['*'], nonResourceURLs: ['*']}
      flowControlSchemaName: few
      upstreamSubset: ['https://10.0.0.2:6443']
";

const TENANT: &str = "\
apiVersion: portcullis.dev/v1alpha1
kind: DispatchPolicy
metadata: {name: tight, namespace: team-a}
spec:
  targetRefs: [{group: proxy.kubegateway.io, kind: UpstreamCluster, name: prod.test}]
  overrides:
    dispatchPolicies:
    - rules: [{verbs: [delete], apiGroups: ['*'], resources: ['*']}]
      portcullis: {action: Deny, message: not in team-a}
";

const GRANT: &str = "\
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: to-prod, namespace: portcullis}
spec:
  from: [{group: portcullis.dev, kind: DispatchPolicy, namespace: team-a}]
  to: [{group: proxy.kubegateway.io, kind: UpstreamCluster, name: prod.test}]
";

/// A Gateway of team-a's namespace with two of its routes to the cluster, with their grants.
const GATEWAY: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: team-a}
spec:
  gatewayClassName: portcullis
  listeners:
  - {name: https, port: 443, protocol: HTTPS, hostname: '*.edge.test', tls: {certificateRefs: [{name: cert}]}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: tight, namespace: team-a}
spec:
  parentRefs: [{name: edge}]
  hostnames: [tight.edge.test]
  rules: [{backendRefs: [{group: proxy.kubegateway.io, kind: UpstreamCluster, name: prod.test}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: free, namespace: team-a}
spec:
  parentRefs: [{name: edge}]
  hostnames: [free.edge.test]
  rules: [{backendRefs: [{group: proxy.kubegateway.io, kind: UpstreamCluster, name: prod.test}]}]
---
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: routes, namespace: portcullis}
spec:
  from:
  - {group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: team-a}
  - {group: gateway.networking.k8s.io, kind: Gateway, namespace: team-a}
  to: [{group: proxy.kubegateway.io, kind: UpstreamCluster, name: prod.test}]
";

/// The tenant's policy at a Gateway or a route.
fn at_door(policy: &str, kind: &str, name: &str) -> String {
    let target = format!("{{group: gateway.networking.k8s.io, kind: {kind}, name: {name}}}");
    policy.replace("{group: proxy.kubegateway.io, kind: UpstreamCluster, name: prod.test}", &target)
}

/// Exit code and lines of a command for documents in one file.
fn run(command: &str, documents: &[&str], arguments: &[&str]) -> (Option<i32>, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("all.yaml");
    std::fs::write(&file, documents.join("---\n")).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    let output = program.env_clear().arg(command).arg("-f").arg(&file).args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    let text = text.replace(&format!("{}/", dir.path().display()), "");
    (output.status.code(), text.lines().map(str::to_owned).collect())
}

fn assert_has(lines: &[String], wanted: &str) {
    assert!(lines.iter().any(|line| line.contains(wanted)), "{wanted:?} in\n{}", lines.join("\n"));
}

#[test]
fn accepted_policies_are_named_at_their_cluster() {
    let (code, lines) = run("check", &[CLUSTER, BASE, TENANT, GRANT], &[]);
    assert_eq!(code, Some(0), "{}", lines.join("\n"));
    for wanted in [
        "UpstreamCluster prod.test: Accepted",
        "  portcullis.dev/DispatchPolicyAffected True DispatchPolicy portcullis/base decides",
        "DispatchPolicy team-a/tight tightens",
        "DispatchPolicy portcullis/base: Accepted",
        "DispatchPolicy team-a/tight: Accepted",
        "  target UpstreamCluster prod.test: Accepted True Accepted",
    ] {
        assert_has(&lines, wanted);
    }
}

#[test]
fn findings_of_policies_have_places_and_reasons() {
    let unknown_server = BASE.replace("10.0.0.2:6443", "10.9.9.9:6443");
    let typo = BASE.replace("flowControlSchemaName", "flowControlSchema");
    let allows = TENANT.replace("portcullis: {action: Deny, message: not in team-a}", "strategy: Random");
    let at_gateway = at_door(&allows, "Gateway", "g");
    let other = BASE.replace("name: base", "name: other");
    for (documents, wanted) in [
        (
            vec![CLUSTER, &unknown_server],
            "all.yaml:23:24: error: spec.dispatchPolicies[0].upstreamSubset[0]: of DispatchPolicy portcullis/base: ",
        ),
        (vec![CLUSTER, &typo], "spec.overrides.dispatchPolicies[0].flowControlSchema: unknown field"),
        (
            vec![CLUSTER, TENANT],
            "RefNotPermitted: no ReferenceGrant in namespace portcullis permits UpstreamCluster prod.test",
        ),
        (vec![CLUSTER, &allows, GRANT], "Invalid: spec.overrides.dispatchPolicies[0]: a policy that tightens can only"),
        (vec![CLUSTER, &at_gateway], "Invalid: spec.overrides.dispatchPolicies[0]: a policy that tightens can only"),
        (vec![CLUSTER, BASE, &other], "Conflicted: DispatchPolicy portcullis/base comes first"),
    ] {
        let (code, lines) = run("check", &documents, &[]);
        assert_eq!(code, Some(1), "{wanted}\n{}", lines.join("\n"));
        assert_has(&lines, wanted);
    }
    let (code, lines) = run("check", &[BASE], &[]);
    assert_eq!(code, Some(0), "{}", lines.join("\n"));
    assert_has(&lines, "note: UpstreamCluster prod.test is not among the objects; it is assumed to exist");
    let (_, lines) = run("check", &[CLUSTER, BASE], &["--namespace", "other"]);
    assert_has(&lines, "RefNotPermitted: no ReferenceGrant in namespace other");
}

#[test]
fn explanation_names_the_policy_that_won_and_why() {
    let other = BASE.replace("name: base", "name: other").replace("10.0.0.2", "10.0.0.1");
    let objects = [CLUSTER, BASE, &other, TENANT, GRANT];
    let explain = |arguments: &[&str]| {
        let (_, lines) = run("explain", &objects, &[arguments, &["-o", "json"]].concat());
        serde_json::from_str::<serde_json::Value>(&lines.join("\n")).unwrap()
    };
    let answer = explain(&["DELETE", "/api/v1/namespaces/a/pods/b", "--user", "alice"]);
    assert_eq!(answer["refusal"]["code"], 403);
    assert!(answer["refusal"]["message"].as_str().unwrap().contains("not in team-a"), "{answer:#}");
    let answer = explain(&["GET", "/api/v1/pods", "--user", "alice"]);
    assert_eq!(answer["dispatch"]["decidedBy"], "DispatchPolicy portcullis/base");
    assert_eq!(answer["dispatch"]["policy"], 1, "the tenant's denial comes first");
    assert_eq!(answer["dispatch"]["upstreamSubset"][0], "https://10.0.0.2:6443");
    let parts: Vec<_> =
        answer["policies"].as_array().unwrap().iter().map(|one| (one["policy"].clone(), one["role"].clone())).collect();
    let expected =
        [("portcullis/base", Some("decides")), ("team-a/tight", Some("tightens")), ("portcullis/other", None)];
    assert_eq!(parts, expected.map(|(policy, role)| (policy.into(), role.into())));
    assert!(answer["policies"][2]["reason"].as_str().unwrap().contains("portcullis/base comes first"));
    let quiet = "metadata: {name: prod.test, annotations: {portcullis.dev/profile: quiet}}";
    let quiet = CLUSTER.replace("metadata: {name: prod.test}", quiet);
    let rules = "[{verbs: ['*'], apiGroups: ['*'], resources: ['*'], nonResourceURLs: ['*']}]";
    let profile = format!("  portcullis: {{profiles: [{{name: quiet, dispatchPolicies: [{{rules: {rules}}}]}}]}}\n");
    let quiet = quiet + &profile;
    let (_, lines) = run("explain", &[quiet.as_str(), BASE], &["GET", "/api/v1/pods", "--user", "alice", "-o", "json"]);
    let answer: serde_json::Value = serde_json::from_str(&lines.join("\n")).unwrap();
    assert_eq!(answer["dispatch"]["policy"], 0, "{answer:#}");
    assert_eq!(answer["dispatch"]["decidedBy"], serde_json::Value::Null, "the profile's author is the object's");
    let policy = &answer["policies"][0];
    assert_eq!(policy["policy"], "portcullis/base");
    assert_eq!(policy["role"], serde_json::Value::Null);
    assert!(policy["reason"].as_str().unwrap().contains("a profile is in effect"), "{answer:#}");
    let delete = ["DELETE", "/api/v1/namespaces/a/pods/b", "--user", "alice", "-o", "json"];
    let (_, lines) = run("explain", &[quiet.as_str(), TENANT, GRANT], &delete);
    let answer: serde_json::Value = serde_json::from_str(&lines.join("\n")).unwrap();
    assert_eq!(answer["dispatch"]["decidedBy"], "DispatchPolicy team-a/tight", "{answer:#}");
    assert_eq!(answer["policies"][0]["role"], "tightens", "a profile takes nothing from it");
    let (_, lines) = run("explain", &[CLUSTER], &["GET", "/api/v1/pods", "--user", "alice"]);
    assert!(
        !lines.iter().any(|line| line.contains("decidedBy") || line.starts_with("policies")),
        "{}",
        lines.join("\n")
    );
}

#[test]
fn policy_at_a_route_is_checked_and_explained() {
    let at_route = at_door(TENANT, "HTTPRoute", "tight");
    let at_none = at_door(TENANT, "Gateway", "none").replace("name: tight", "name: none");
    let (code, lines) = run("check", &[CLUSTER, GATEWAY, &at_route, &at_none], &[]);
    assert_eq!(code, Some(0), "{}", lines.join("\n"));
    for wanted in [
        "  parent edge: portcullis.dev/DispatchPolicyAffected True DispatchPolicy team-a/tight tightens",
        "  target HTTPRoute tight: Accepted True Accepted",
        "note: Gateway none is not among the objects; it is assumed to exist",
    ] {
        assert_has(&lines, wanted);
    }
    let cluster = lines.iter().position(|line| line.starts_with("UpstreamCluster prod.test")).unwrap();
    assert!(!lines[cluster + 1].contains("PolicyAffected"), "by its own names nothing is other: {}", lines.join("\n"));
    let objects = [CLUSTER, GATEWAY, &at_route, BASE];
    let explain = |host: &str| {
        let request = ["DELETE", "/api/v1/namespaces/a/pods/b", "--user", "alice", "--host", host, "-o", "json"];
        let (_, lines) = run("explain", &objects, &request);
        serde_json::from_str::<serde_json::Value>(&lines.join("\n")).unwrap()
    };
    let answer = explain("tight.edge.test");
    assert_eq!(answer["refusal"]["code"], 403, "{answer:#}");
    assert_eq!(answer["dispatch"]["decidedBy"], "DispatchPolicy team-a/tight");
    let policy = answer["policies"].as_array().unwrap().iter().find(|one| one["policy"] == "team-a/tight").unwrap();
    assert_eq!(policy["role"], "tightens");
    assert!(policy["reason"].as_str().unwrap().contains("overrides at HTTPRoute team-a/tight"), "{policy:#}");
    for host in ["free.edge.test", "prod.test"] {
        let answer = explain(host);
        assert_eq!(answer["refusal"], serde_json::Value::Null, "{host} {answer:#}");
        assert_eq!(answer["dispatch"]["decidedBy"], "DispatchPolicy portcullis/base", "{host}");
    }
}

#[test]
fn difference_at_a_route_is_found_and_its_lines_are_noted() {
    let dir = tempfile::tempdir().unwrap();
    let at_route = at_door(TENANT, "HTTPRoute", "tight");
    let other = at_route.replace("delete", "patch");
    let write = |name: &str, documents: &[&str]| {
        let file = dir.path().join(name);
        std::fs::write(&file, documents.join("---\n")).unwrap();
        file.display().to_string()
    };
    let (none, one, two) = (
        write("none.yaml", &[CLUSTER, GATEWAY]),
        write("one.yaml", &[CLUSTER, GATEWAY, &at_route]),
        write("two.yaml", &[CLUSTER, GATEWAY, &other]),
    );
    let diff = |old: &str, new: &str| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        let output = program.env_clear().args(["diff", "-f", old, "--with", new]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let way = "prod.test by HTTPRoute team-a/tight at listener https of Gateway team-a/edge";
    let (code, report) = diff(&one, &one);
    assert_eq!(code, Some(0), "{report}");
    assert!(report.contains(&format!("{way}: no request is judged differently")), "{report}");
    for (old, new, count) in [(&none, &one, 1), (&one, &none, 1), (&one, &two, 2)] {
        let (code, report) = diff(old, new);
        assert_eq!(code, Some(1), "{report}");
        let differently = format!("{way}: requests are judged differently in {count} ways");
        for wanted in ["prod.test: no request is judged differently", &differently, "--host tight.edge.test"] {
            assert!(report.contains(wanted), "{wanted:?} in\n{report}");
        }
        assert!(!report.contains("HTTPRoute team-a/free"), "{report}");
    }
    let line = r#"{"cluster":"prod.test","method":"GET","path":"/api/v1/pods","verb":"list","apiVersion":"v1","resource":"pods","user":"alice","policy":"0","schema":"few","serverGroup":"all","decision":"forwarded","requestId":"x"}"#;
    let log = write("log", &[line]);
    for (file, is_noted) in [(&none, false), (&one, true)] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        let output = program.env_clear().args(["replay", "-f", file, "--log", &log]).output().unwrap();
        let report = String::from_utf8(output.stdout).unwrap();
        let note = "note: prod.test: policies at Gateways, listeners and HTTPRoutes are not judged, because the log does not say";
        assert_eq!(report.contains(note), is_noted, "{report}");
        assert_eq!(report.contains("DispatchPolicy team-a/tight"), is_noted, "{report}");
    }
}

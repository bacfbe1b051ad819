//! `portcullis check` of objects of the Gateway API; `explain` of what only they reach.

#![cfg(test)]

mod served;
mod upstreams;

use std::process::Command;

const GATEWAY: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g, namespace: infra}
spec:
  gatewayClassName: portcullis
  listeners:
  - name: https
    port: 443
    protocol: HTTPS
    tls: {certificateRefs: [{name: cert}]}
    allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {team: a}}}}
";

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team-a, labels: {team: a}}\n";

const ROUTE: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: team-a}
spec:
  parentRefs: [{name: g, namespace: infra}]
  hostnames: [a.test]
  rules:
  - backendRefs: [{group: proxy.kubegateway.io, kind: UpstreamCluster, name: prod.test}]
";

const GRANT: &str = "\
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: to-prod, namespace: portcullis}
spec:
  from:
  - {group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: team-a}
  - {group: gateway.networking.k8s.io, kind: Gateway, namespace: infra}
  to: [{group: proxy.kubegateway.io, kind: UpstreamCluster, name: prod.test}]
";

const CLUSTER: &str = "\
apiVersion: proxy.kubegateway.io/v1alpha1
kind: UpstreamCluster
metadata: {name: prod.test}
spec:
  servers: [{endpoint: https://10.0.0.1:6443}]
  clientConfig: {insecure: true, bearerToken: VE9QU0VDUkVU}
  dispatchPolicies:
  - rules:
    - {verbs: ['*'], apiGroups: ['*'], resources: ['*'], nonResourceURLs: ['*']}
";

/// Exit code and lines of a check of documents in one file.
fn check(documents: &[&str], arguments: &[&str]) -> (Option<i32>, Vec<String>) {
    run("check", documents, arguments)
}

/// The same of another command.
fn run(name: &str, documents: &[&str], arguments: &[&str]) -> (Option<i32>, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("all.yaml");
    std::fs::write(&file, documents.join("---\n")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    let output = command.env_clear().arg(name).arg("-f").arg(&file).args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    let text = text.replace(&format!("{}/", dir.path().display()), "");
    (output.status.code(), text.lines().map(str::to_owned).collect())
}

fn assert_has(lines: &[String], wanted: &str) {
    assert!(lines.iter().any(|line| line.starts_with(wanted)), "{wanted:?} in\n{}", lines.join("\n"));
}

#[test]
fn objects_are_accepted_with_their_conditions() {
    let (code, lines) = check(&[GATEWAY, NAMESPACE, ROUTE, GRANT], &["--strict"]);
    assert_eq!(code, Some(0), "{}", lines.join("\n"));
    let wanted = [
        "Gateway infra/g: Accepted",
        "  Accepted True Accepted",
        "  ResolvedRefs True ResolvedRefs",
        "  listener https: Accepted True Accepted",
        "  listener https: Conflicted False NoConflicts",
        "  listener https: ResolvedRefs True ResolvedRefs",
        "  listener https: kinds [HTTPRoute], attached routes 1",
        "HTTPRoute team-a/r: Accepted",
        "  parent g: Accepted True Accepted",
        "  parent g: ResolvedRefs True ResolvedRefs",
        "ReferenceGrant portcullis/to-prod: Accepted",
        "note: there is no GatewaySettings among the objects; its defaults are assumed",
        "note: Secret infra/cert is not read, also if it is among the objects; it is assumed to exist",
        "note: UpstreamCluster prod.test is not among the objects; it is assumed to exist",
        "checked: 3 objects, 0 errors, 0 warnings",
    ];
    assert_eq!(lines, wanted);
}

#[test]
fn namespace_has_the_label_of_its_name() {
    let by_name = GATEWAY.replace("team: a", "kubernetes.io/metadata.name: team-a");
    let wrong = NAMESPACE.replace("team: a", "kubernetes.io/metadata.name: team-b");
    for documents in
        [&[by_name.as_str(), NAMESPACE, ROUTE, GRANT][..], &[&by_name, &wrong, ROUTE, GRANT], &[&by_name, ROUTE, GRANT]]
    {
        let (code, lines) = check(documents, &["--strict"]);
        assert_eq!(code, Some(0), "{}", lines.join("\n"));
        assert_has(&lines, "HTTPRoute team-a/r: Accepted");
    }
    let other = ROUTE.replace("team-a", "team-b");
    let (code, lines) = check(&[&by_name, NAMESPACE, &other], &[]);
    assert_eq!(code, Some(1), "{}", lines.join("\n"));
}

#[test]
fn findings_have_places_and_reasons() {
    let filtered = ROUTE.to_owned() + "    filters: [{type: URLRewrite}]\n";
    let other_name =
        ROUTE.replace("hostnames: [a.test]", "hostnames: [prod.test]").replace("name: prod.test", "name: x");
    for (why, documents, finding) in [
        (
            "a filter",
            &[GATEWAY, NAMESPACE, &filtered, GRANT][..],
            "all.yaml:25:15: error: spec.rules[0].filters[0]: parent g: UnsupportedValue: spec.rules[0].filters[0] \
             URLRewrite is not supported",
        ),
        (
            "no grant",
            &[GATEWAY, NAMESPACE, ROUTE],
            "all.yaml:24:19: error: spec.rules[0].backendRefs[0]: parent g: RefNotPermitted: ",
        ),
        (
            "the labels of the namespace are not known",
            &[GATEWAY, ROUTE, GRANT],
            "all.yaml:17:16: error: spec.parentRefs[0]: parent g: NotAllowedByListeners: ",
        ),
        (
            "a host name of an UpstreamCluster",
            &[GATEWAY, NAMESPACE, &other_name, CLUSTER],
            "all.yaml:21:16: error: spec.parentRefs[0]: parent g: HostnameConflict: prod.test belongs to UpstreamCluster \
             prod.test",
        ),
        (
            "a version that is not served",
            &[&GATEWAY.replace("k8s.io/v1", "k8s.io/v1alpha2")],
            "all.yaml:1:1: error: Gateway has no version \"v1alpha2\"; v1 is served",
        ),
        ("one name twice", &[GRANT, GRANT], "all.yaml:10:1: error: another one has the same name"),
        ("no listeners", &[&GATEWAY.replace("  listeners:", "  listener:")], "all.yaml:1:1: error: missing field"),
        (
            "a field of a later release",
            &[&GRANT.replace("name: prod.test}]", "name: prod.test, until: x}]")],
            "all.yaml:4:1: error: spec: it has a field that is not known, and permits nothing",
        ),
    ] {
        let (code, lines) = check(documents, &[]);
        assert_eq!(code, Some(1), "{why}: {}", lines.join("\n"));
        assert_has(&lines, finding);
    }
    let (_, lines) = check(&[GATEWAY, NAMESPACE, &other_name, CLUSTER], &[]);
    assert_has(&lines, "HTTPRoute team-a/r: Conflicted");
}

#[test]
fn warnings_fail_a_strict_check_only() {
    let labelled = GATEWAY.replace("spec:\n", "spec:\n  infrastructure: {labels: {a: b}}\n");
    let other_class = "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: portcullis}\n\
                       spec: {controllerName: example.com/other}\n";
    for (why, documents, finding) in [
        (
            "without effect",
            &[labelled.as_str()][..],
            "all.yaml:5:3: warning: spec.infrastructure: labels and annotations",
        ),
        (
            "another controller's",
            &[GATEWAY, other_class],
            "all.yaml:5:21: warning: spec.gatewayClassName: not of portcullis.dev/gateway-controller",
        ),
        (
            "another kind of the group",
            &[GATEWAY, "apiVersion: gateway.networking.k8s.io/v1\nkind: GRPCRoute\nmetadata: {name: x}\n"],
            "all.yaml:14:7: warning: ignored: ",
        ),
    ] {
        let (code, lines) = check(documents, &[]);
        assert_eq!(code, Some(0), "{why}: {}", lines.join("\n"));
        assert_has(&lines, finding);
        assert_eq!(check(documents, &["--strict"]).0, Some(1), "{why}");
    }
}

#[test]
fn route_alone_is_checked_by_its_own_fields() {
    let (code, lines) = check(&[ROUTE, GRANT], &["--strict"]);
    assert_eq!(code, Some(0), "{}", lines.join("\n"));
    assert_has(&lines, "note: no Gateway of HTTPRoute team-a/r is among the objects; it may not attach");
    let (code, lines) = check(&[&(ROUTE.to_owned() + "    timeouts: {request: 5s}\n"), GRANT], &[]);
    assert_eq!(code, Some(1));
    assert_has(&lines, "all.yaml:9:5: error: spec.rules[0].timeouts: UnsupportedValue: ");
}

#[test]
fn namespace_of_the_control_plane_can_be_another_one() {
    let grant = GRANT.replace("namespace: portcullis", "namespace: elsewhere");
    assert_eq!(check(&[GATEWAY, NAMESPACE, ROUTE, &grant], &[]).0, Some(1));
    assert_eq!(check(&[GATEWAY, NAMESPACE, ROUTE, &grant], &["--namespace", "elsewhere"]).0, Some(0));
}

#[test]
fn findings_are_in_json() {
    let (_, lines) = check(&[GATEWAY, NAMESPACE, ROUTE], &["-o", "json"]);
    let findings: serde_json::Value = serde_json::from_str(&lines.join("\n")).unwrap();
    let finding = &findings[0];
    assert_eq!((&finding["kind"], &finding["name"]), (&"HTTPRoute".into(), &"team-a/r".into()));
    assert_eq!((&finding["code"], &finding["path"]), (&"unresolved".into(), &"spec.rules[0].backendRefs[0]".into()));
}

/// The Gateway with a listener that passes connections on.
fn tls_gateway() -> String {
    let (head, _) = GATEWAY.split_once("  - name: https").unwrap();
    let listener =
        "{name: tls, port: 443, protocol: TLS, tls: {mode: Passthrough}, allowedRoutes: {namespaces: {from: All}}}";
    format!("{head}  - {listener}\n")
}

#[test]
fn clusters_to_which_routes_may_not_lead_are_named() {
    let (tls_gateway, tls_route) = (tls_gateway(), ROUTE.replace("HTTPRoute", "TLSRoute"));
    let tls_grant = GRANT.replace("HTTPRoute", "TLSRoute");
    let closed = format!("{CLUSTER}  portcullis: {{access: {{deny: [{{users: [eve]}}]}}}}\n");
    let passed_on = format!("{CLUSTER}  portcullis: {{transport: TLSPassthrough}}\n");
    let frozen =
        closed.replace("{name: prod.test}", "{name: prod.test, annotations: {portcullis.dev/profile: frozen}}");
    for (documents, wanted) in [
        (vec![&tls_gateway, &tls_route, &tls_grant, CLUSTER], None),
        (
            vec![&tls_gateway, &tls_route, &tls_grant, &closed],
            Some(
                "PassthroughRefused: spec.rules[0].backendRefs[0]: no connection may be passed on to UpstreamCluster \
                 prod.test: spec.portcullis.access",
            ),
        ),
        // All its connections are closed, and nothing is let in.
        (vec![&tls_gateway, &tls_route, &tls_grant, &frozen], None),
        (
            vec![GATEWAY, NAMESPACE, ROUTE, GRANT, &passed_on],
            Some(
                "TerminationRefused: spec.rules[0].backendRefs[0]: no request may be sent to UpstreamCluster prod.test: \
                 spec.portcullis.transport: its connections are passed on, and a TLSRoute leads there",
            ),
        ),
    ] {
        let (code, lines) = check(&documents, &[]);
        let text = lines.join("\n");
        assert_eq!(code, Some(i32::from(wanted.is_some())), "{text}");
        let condition = if wanted.is_some() { "False" } else { "True" };
        assert!(text.contains(&format!("  parent g: ResolvedRefs {condition} ")), "{text}");
        assert!(wanted.is_none_or(|wanted| text.contains(wanted)), "{wanted:?} in\n{text}");
    }
}

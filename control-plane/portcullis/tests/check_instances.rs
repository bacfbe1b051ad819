//! `portcullis check` of instances.

#![cfg(test)]

use std::process::Command;

const CLUSTER: &str = "\
apiVersion: proxy.kubegateway.io/v1alpha1
kind: UpstreamCluster
metadata: {name: prod.test, labels: {team: a}}
spec:
  servers: [{endpoint: https://10.0.0.1:6443}]
  clientConfig: {insecure: true, bearerToken: VE9QU0VDUkVU}
  dispatchPolicies:
  - rules:
    - {verbs: ['*'], apiGroups: ['*'], resources: ['*'], nonResourceURLs: ['*']}
";

const GATEWAY: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g, namespace: infra, labels: {team: b}}
spec:
  gatewayClassName: portcullis
  listeners: [{name: tls, port: 443, protocol: TLS, tls: {mode: Passthrough}}]
";

/// An instance that selects the same labels of gateways and clusters.
fn instance(name: &str, second: u32, selector: &str) -> String {
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: Instance\n\
         metadata: {{name: {name}, creationTimestamp: '2026-01-01T00:00:{second:02}Z'}}\n\
         spec: {{gatewaysSelector: {selector}, clustersSelector: {selector}}}\n"
    )
}

fn team(value: &str) -> String {
    format!("{{matchLabels: {{team: {value}}}}}")
}

/// Exit code and lines of a check of documents in one file.
fn check(documents: &[&str]) -> (Option<i32>, Vec<String>) {
    check_with(&[], documents)
}

/// The same with more flags.
fn check_with(flags: &[&str], documents: &[&str]) -> (Option<i32>, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("all.yaml");
    std::fs::write(&file, documents.join("---\n")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    let output = command.env_clear().arg("check").args(flags).arg("-f").arg(&file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    let text = text.replace(&format!("{}/", dir.path().display()), "");
    (output.status.code(), text.lines().map(str::to_owned).collect())
}

/// The lines of an instance.
fn of<'a>(lines: &'a [String], name: &str) -> Vec<&'a str> {
    let lines = lines.iter().map(String::as_str).skip_while(|line| !line.starts_with(&format!("Instance {name}: ")));
    let (first, rest) = (lines.clone().take(1), lines.skip(1));
    first.chain(rest.take_while(|line| line.starts_with("  ") || line.starts_with("all.yaml"))).collect()
}

#[test]
fn instances_are_accepted_with_what_belongs_to_them() {
    let (code, lines) = check(&[&instance("a", 1, &team("a")), &instance("b", 2, &team("b")), CLUSTER, GATEWAY]);
    assert_eq!(code, Some(0), "{}", lines.join("\n"));
    let conditions = |counts| ["  Accepted True Accepted", "  Conflicted False NoConflicts", counts];
    assert_eq!(of(&lines, "a")[1..], conditions("  gateways 0, clusters 1"));
    assert_eq!(of(&lines, "b")[1..], conditions("  gateways 1, clusters 0"));
}

#[test]
fn conflict_names_the_older_instance_in_both_orders() {
    let (old, new) = (instance("old", 1, &team("a")), instance("new", 2, "{}"));
    for documents in [[&*old, &*new, CLUSTER], [CLUSTER, &*new, &*old]] {
        let (code, lines) = check(&documents);
        assert_eq!(code, Some(1), "{}", lines.join("\n"));
        let told = of(&lines, "new");
        assert_eq!(
            told[..3],
            ["Instance new: Conflicted", "  Accepted True Accepted", "  Conflicted True OwnedByOthers"]
        );
        assert!(
            told[4].ends_with("error: spec.clustersSelector: UpstreamCluster prod.test belongs to Instance old"),
            "{}",
            told[4]
        );
        assert_eq!(of(&lines, "old")[3], "  gateways 0, clusters 1");
    }
}

#[test]
fn instances_without_a_time_have_a_note_about_their_order() {
    let dated = |name: &str| instance(name, 1, &team("a"));
    let undated = |name: &str| dated(name).replace(", creationTimestamp: '2026-01-01T00:00:01Z'", "");
    let end = "no creationTimestamp: ";
    for (one, other, expected) in [
        (undated("x"), undated("y"), Some(format!("Instances x and y have {end}x has"))),
        (dated("x"), undated("y"), Some(format!("Instance y has {end}x has"))),
        (undated("x"), dated("y"), Some(format!("Instance x has {end}y has"))),
        (dated("x"), dated("y"), None),
    ] {
        let (_, lines) = check(&[&one, &other, CLUSTER]);
        let found: Vec<&String> = lines.iter().filter(|line| line.contains(end)).collect();
        assert_eq!(found.len(), usize::from(expected.is_some()), "{}", lines.join("\n"));
        assert!(expected.is_none_or(|expected| found[0].contains(&expected)), "{found:?}");
    }
}

#[test]
fn instance_that_is_wrong_is_refused_with_its_field() {
    let settings =
        "apiVersion: portcullis.dev/v1alpha1\nkind: GatewaySettings\nmetadata: {name: s}\nspec: {instance: edge}\n";
    let good = instance("a", 1, "{}");
    for (documents, wanted) in [
        (vec![instance("a", 1, "{matchFields: []}")], "spec.gatewaysSelector.matchFields: unknown field"),
        (
            vec![instance("a", 1, "{matchLabels: {team: null}}")],
            "spec.gatewaysSelector.matchLabels.team: must not be null",
        ),
        (vec![instance("a.b", 1, "{}")], "metadata.name: must be a DNS label"),
        (vec![good.clone(), good], "metadata.name: another Instance has the same name"),
        (vec![settings.to_owned(), instance("edge", 1, "{}")], "metadata.name: is the instance of the GatewaySettings"),
        (vec![instance("portcullis", 1, "{}")], "metadata.name: is the instance of the GatewaySettings"),
    ] {
        let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
        let (code, lines) = check(&documents);
        assert_eq!(code, Some(1), "{}", lines.join("\n"));
        assert!(
            lines.iter().any(|line| line.contains(&format!("error: {wanted}"))),
            "{wanted:?} in\n{}",
            lines.join("\n")
        );
    }
}

/// Settings with a default certificate.
fn settings(name: &str, more: &str) -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap().self_signed(&key).unwrap();
    let encode = |pem: String| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pem);
    let (certificate, key) = (encode(certificate.pem()), encode(key.serialize_pem()));
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: GatewaySettings\nmetadata: {{name: {name}}}\n\
         spec:\n  defaultCertificate: {{certData: {certificate}, keyData: {key}}}\n{more}"
    )
}

/// An instance that names settings.
fn naming(name: &str, settings: &str) -> String {
    instance(name, 1, &team("a")).replace("spec: {", &format!("spec: {{settings: {settings}, "))
}

#[test]
fn settings_of_an_instance_are_judged_and_used() {
    let (all, own) = (settings("all", ""), settings("own", ""));
    let flags = ["--settings-name", "all"];
    let (code, lines) = check_with(&flags, &[&all, &own, &naming("a", "own"), CLUSTER]);
    assert_eq!(code, Some(0), "the certificate is that of its settings: {}", lines.join("\n"));
    assert!(lines.iter().any(|line| line == "GatewaySettings own: Accepted"), "{}", lines.join("\n"));
    let elsewhere = settings("own", "  instance: elsewhere\n");
    for (documents, wanted) in [
        (vec![&*all, &*own, &*naming("a", "gone"), CLUSTER], "spec.settings: there are no GatewaySettings gone"),
        (vec![&*all, &*elsewhere, &*naming("a", "own"), CLUSTER], "spec.settings: the GatewaySettings own are refused"),
        (
            vec![&*all, &*elsewhere, &*naming("a", "own"), CLUSTER],
            "spec.instance: is another one than in the GatewaySettings",
        ),
        (vec![&*own, &*naming("a", "own"), CLUSTER], "metadata.name: there are no GatewaySettings of this name"),
    ] {
        let (code, lines) = check_with(&flags, &documents);
        assert_eq!(code, Some(1), "{wanted}");
        assert!(lines.iter().any(|line| line.contains(&format!("error: {wanted}"))), "{wanted}\n{}", lines.join("\n"));
    }
    let (_, lines) = check_with(&flags, &[&all, &naming("a", "gone")]);
    assert_eq!(of(&lines, "a")[1], "  Accepted False SettingsNotAccepted");
    let (code, lines) = check_with(&flags, &[&all, &own, &instance("a", 1, &team("b"))]);
    assert_eq!(code, Some(0));
    assert!(
        lines.iter().any(|line| line.contains("warning: metadata.name: is used by nothing")),
        "{}",
        lines.join("\n")
    );
    // A flag says which is which, and no order or instance.
    let (code, lines) = check(&[&all, &own, &naming("a", "own"), CLUSTER]);
    assert_eq!(code, Some(1));
    assert!(lines.iter().any(|line| line.contains("more than one GatewaySettings")), "{}", lines.join("\n"));
}

const ROUTE: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: r, namespace: portcullis}
spec:
  parentRefs: [{name: g, namespace: infra}]
  hostnames: [r.test]
  rules:
  - backendRefs: [{group: proxy.kubegateway.io, kind: UpstreamCluster, name: prod.test}]
";

#[test]
fn route_leads_to_clusters_of_its_gateways_instance_alone() {
    let open =
        GATEWAY.replace("mode: Passthrough}}]", "mode: Passthrough}, allowedRoutes: {namespaces: {from: All}}}]");
    let documents =
        |gateway: &str| [instance("a", 1, &team("a")), instance("b", 2, &team("b")), open.replace("team: b", gateway)];
    for (gateway, is_open) in [("team: a", true), ("team: b", false), ("team: none", false)] {
        let documents = documents(gateway);
        let all: Vec<&str> = documents.iter().map(String::as_str).chain([CLUSTER, ROUTE]).collect();
        for order in [all.clone(), all.iter().rev().copied().collect()] {
            let (_, lines) = check(&order);
            let told = lines.iter().any(|line| line.contains("and UpstreamCluster prod.test to Instance a"));
            assert_eq!(told, !is_open, "{gateway}\n{}", lines.join("\n"));
        }
    }
}

#[test]
fn passthrough_is_judged_by_settings_of_the_instance() {
    let open = GATEWAY
        .replace("mode: Passthrough}}]", "mode: Passthrough}, allowedRoutes: {namespaces: {from: All}}}]")
        .replace("team: b", "team: a");
    let access = "  access: {deny: [{users: [eve]}]}\n";
    for (of_all, of_instance, is_refused) in [("", access, true), (access, "", false)] {
        let (all, own) = (settings("all", of_all), settings("own", of_instance));
        let documents = [&*all, &*own, &*naming("a", "own"), CLUSTER, &*open, ROUTE];
        let (code, lines) = check_with(&["--settings-name", "all"], &documents);
        let text = lines.join("\n");
        assert_eq!(code, Some(i32::from(is_refused)), "{text}");
        let wanted = "no connection may be passed on to UpstreamCluster prod.test: spec.portcullis.transport: TLSPassthrough \
                      is excluded by access in the GatewaySettings";
        assert_eq!(text.contains(wanted), is_refused, "{text}");
    }
}

#[test]
fn policy_of_two_instances_is_refused_naming_both() {
    let policy = "\
apiVersion: portcullis.dev/v1alpha1
kind: UpstreamIdentityPolicy
metadata: {name: p, namespace: portcullis}
spec:
  targetRefs:
  - {group: proxy.kubegateway.io, kind: UpstreamCluster, name: prod.test}
  - {group: proxy.kubegateway.io, kind: UpstreamCluster, name: other.test}
  overrides: {allowAnonymous: false}
";
    let other = |of: &str| CLUSTER.replace("prod.test", "other.test").replace("team: a", of);
    for (team_of_other, is_good) in [("team: a", true), ("team: b", false), ("team: none", false)] {
        let other = other(team_of_other);
        let (a, b) = (instance("a", 1, &team("a")), instance("b", 2, &team("b")));
        let all = [&*a, &*b, CLUSTER, &*other, policy];
        for order in [all.to_vec(), all.iter().rev().copied().collect()] {
            let (code, lines) = check(&order);
            let text = lines.join("\n");
            assert_eq!(code, Some(i32::from(!is_good)), "{text}");
            let owner = if team_of_other == "team: b" { "Instance b" } else { "no Instance" };
            let both = format!("UpstreamCluster other.test to {owner}");
            let told =
                text.contains("SpansInstances") && text.contains("prod.test to Instance a") && text.contains(&both);
            assert_eq!(told, !is_good, "{text}");
        }
    }
}

#[test]
fn cluster_of_an_instance_needs_a_certificate_of_its_own() {
    let settings = settings("s", "");
    let (code, lines) = check(&[&settings, CLUSTER]);
    assert_eq!(code, Some(0), "{}", lines.join("\n"));
    let (code, lines) = check(&[&settings, CLUSTER, &instance("a", 1, &team("a"))]);
    assert_eq!(code, Some(1));
    let wanted = "spec.secureServing.certData: is required of an object that belongs to an Instance";
    assert!(lines.iter().any(|line| line.contains(wanted)), "{}", lines.join("\n"));
}

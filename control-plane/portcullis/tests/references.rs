//! References to files and Secrets, as an operator meets them without a gateway.

#![cfg(test)]

use std::path::Path;
use std::process::{Command, Output};

const SETTINGS: &str = "apiVersion: portcullis.dev/v1alpha1\nkind: GatewaySettings\nmetadata: {name: gateway}\n";

/// Without settings that have a default certificate.
const CLUSTER: &str = "
apiVersion: proxy.kubegateway.io/v1alpha1
kind: UpstreamCluster
metadata: {name: a.test}
spec:
  servers: [{endpoint: https://10.0.0.1:6443}]
  dispatchPolicies:
  - rules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*'], nonResourceURLs: ['*']}]
  clientConfig: {insecure: true}
  portcullis:
    references:
      token: {file: a/token}
      serving: {secret: {name: tls}}
";

fn portcullis(arguments: &[&str], in_dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_portcullis")).env_clear().args(arguments).current_dir(in_dir).output().unwrap()
}

fn check(dir: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = portcullis(&[&["check", "-f", "settings.yaml", "-f", "a.yaml"], arguments].concat(), dir);
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn references_are_believed_unless_their_root_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    std::fs::create_dir_all(dir.path().join("root/a")).unwrap();
    write("settings.yaml", SETTINGS);
    write("a.yaml", CLUSTER);
    let (code, told) = check(dir.path(), &[]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("UpstreamCluster a.test: Accepted"), "{told}");

    let only_files = CLUSTER.replace("      serving: {secret: {name: tls}}\n", "");
    let root = ["--references-root", "root"];
    let (code, told) = check(dir.path(), &root);
    assert_eq!(code, Some(1));
    assert!(told.contains("a.yaml:12:7: error: spec.portcullis.references.token: there is no file"), "{told}");
    assert!(told.contains("spec.portcullis.references.serving: Secrets are read with the Kubernetes"), "{told}");
    write("a.yaml", &only_files);
    write("settings.yaml", "");
    write("root/a/token", "TOP SECRET");
    let (code, told) = check(dir.path(), &root);
    assert_eq!(code, Some(1));
    assert!(told.contains("spec.portcullis.references.token: must be visible ASCII"), "{told}");
    assert!(!told.contains("TOP"), "{told}");
    write("root/a/token", "TOPSECRET\n");
    let (code, told) = check(dir.path(), &root);
    assert_eq!(code, Some(0), "{told}");
    assert!(!told.contains("TOP"), "{told}");
}

#[test]
fn referenced_certificate_is_checked_like_an_inline_one() {
    let dir = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let mut parameters = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
    parameters.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let certificate = parameters.self_signed(&key).unwrap();
    std::fs::write(dir.path().join("tls.crt"), certificate.pem()).unwrap();
    std::fs::write(dir.path().join("tls.key"), key.serialize_pem()).unwrap();
    std::fs::write(dir.path().join("token"), "x").unwrap();
    std::fs::write(dir.path().join("settings.yaml"), SETTINGS).unwrap();
    let files = CLUSTER
        .replace("{secret: {name: tls}}", "{file: {certificate: tls.crt, privateKey: tls.key}}")
        .replace("a/token", "token");
    std::fs::write(dir.path().join("a.yaml"), files).unwrap();
    let (code, told) = check(dir.path(), &["--references-root", "."]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("a.yaml:13:7: warning: spec.portcullis.references.serving: "), "{told}");
    assert!(told.contains("expired"), "{told}");
}

#[test]
fn default_certificate_may_stand_in_files() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let mut parameters = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
    parameters.not_after = rcgen::date_time_ymd(2020, 1, 1);
    write("tls.crt", &parameters.self_signed(&key).unwrap().pem());
    write("tls.key", &key.serialize_pem());
    write("token", "x");
    let certificate = "spec: {defaultCertificate: {file: {certificate: tls.crt, privateKey: tls.key}}}\n";
    write("settings.yaml", &format!("{SETTINGS}{certificate}"));
    write("a.yaml", &CLUSTER.replace("      serving: {secret: {name: tls}}\n", "").replace("a/token", "token"));
    let (code, told) = check(dir.path(), &[]);
    assert_eq!(code, Some(0), "believed: {told}");
    let output = portcullis(&["explain", "-f", "settings.yaml", "-f", "a.yaml", "GET", "/", "--user", "a"], dir.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (code, told) = check(dir.path(), &["--references-root", "."]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("settings.yaml:4:") && told.contains("expired"), "{told}");
    std::fs::remove_file(dir.path().join("tls.key")).unwrap();
    let (code, told) = check(dir.path(), &["--references-root", "."]);
    assert_eq!(code, Some(1));
    assert!(told.contains("spec.defaultCertificate.file: there is no file at this path"), "{told}");
}

#[test]
fn policies_are_explained_without_what_an_object_refers_to() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.yaml"), CLUSTER).unwrap();
    let output = portcullis(&["explain", "-f", "a.yaml", "GET", "/api/v1/pods", "--user", "alice"], dir.path());
    let answer = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && !answer.contains("not resolved"), "{answer}");
}

#[test]
fn flag_of_the_other_source_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, told) in [
        (vec![], "the Directory source needs --config"),
        (vec!["--config", ".", "--namespace", "x"], "--namespace is not for the Directory source"),
        (vec!["--config", ".", "--context", "x"], "--context is not for the Directory source"),
        (vec!["--source", "kubernetes", "--context", "x"], "a context needs a kubeconfig"),
        (vec!["--source", "kubernetes", "--config", "."], "--config is not for the Kubernetes source"),
        (vec!["--source", "kubernetes", "--references-root", "."], "--references-root is not for"),
        (vec!["--source", "kubernetes", "--settings", ".", "--references-root", "."], "no service account of a pod"),
        (vec!["--source", "kubernetes"], "no service account of a pod"),
        (vec!["--source", "kubernetes", "--kubeconfig", "none"], "cannot use the kubeconfig none"),
    ] {
        let serve = ["serve", "--xds-socket", "xds.sock", "--http-address", "127.0.0.1:0"];
        let output = portcullis(&[&serve[..], &arguments].concat(), dir.path());
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && log.contains(told), "{arguments:?}: {log}");
    }
}

#[test]
fn control_planes_own_rights_are_few() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["rbac", "--control-plane", "--namespace", "n", "--lease-name", "l"];
    let text = String::from_utf8(portcullis(&arguments, dir.path()).stdout).unwrap();
    let manifests: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text).unwrap();
    let kinds: Vec<_> = manifests.iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]);
    assert_eq!(manifests[3]["metadata"]["namespace"], "n");
    assert_eq!(manifests[3]["subjects"][0]["kind"], "ServiceAccount");
    let secrets = manifests.iter().filter(|one| one["rules"].to_string().contains("secrets"));
    assert_eq!(secrets.map(|one| one["kind"].clone()).collect::<Vec<_>>(), ["Role"], "of one namespace only");
    assert!(!text.contains('*'), "{text}");
}

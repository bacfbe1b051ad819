use portcullis_harness::certs::{CertSpec, Identity};
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_harness::wait;
use serde_json::Value;

use super::fixture::{Ended, NAME, OnboardFixture};
use crate::sources::{ControlPlaneUnderTest, SOON};

const CHECKS: [&str; 8] =
    ["reach", "certificate", "credential", "health", "rights", "token review", "forwarding", "streaming"];

fn all_checks_are_good(ended: &Ended) {
    ended.is_good();
    for check in CHECKS {
        let (line, _) = ended.check(check);
        assert!(line.starts_with("ok"), "{check}: {ended:#?}");
    }
}

/// Names of the gateway's settings serve it until the object has a certificate of its own.
fn serving(fixture: &OnboardFixture) -> [String; 2] {
    fixture.files(&fixture.source.serving(NAME))
}

/// kubectl through a gateway that reads the store says who a user is.
fn serves(fixture: &OnboardFixture, plane: &ControlPlaneUnderTest, user: &Identity) {
    let source = &fixture.source;
    plane.plane.wait_in_sync(1, SOON).unwrap();
    plane.envoy.wait_listening(source.address, SOON).unwrap();
    let kubeconfig =
        Kubeconfig::new(format!("https://{}", source.address)).ca(&source.serving_ca).tls_server_name(NAME);
    let path = kubeconfig.identity(user).write(&source.run.next("alice")).unwrap();
    let whoami = || {
        let ran = source
            .kube
            .kubectl(&path)
            .args(["auth", "whoami", "-o", "json"])
            .run()
            .map_err(|error| error.to_string())?;
        if ran.success() { Ok(ran.stdout) } else { Err(ran.stderr) }
    };
    let answer = wait::until_ok("the cluster is served", SOON, whoami).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["status"]["userInfo"]["username"], "alice", "{answer}");
}

fn alice(fixture: &OnboardFixture) -> Identity {
    fixture.source.kube.client_ca().issue(&CertSpec::client("alice", ["dev"])).unwrap()
}

#[test]
fn onboarded_cluster_serves_with_a_signed_certificate() {
    let Some(fixture) = OnboardFixture::start("onboard-certificate") else { return };
    let [certificate, key] = serving(&fixture);
    let flags = [fixture.flags(), vec!["--serving-cert", &certificate, "--serving-key", &key]].concat();
    let ended = fixture.run_signed(&flags);
    all_checks_are_good(&ended);
    assert!(ended.check("credential").0.contains("system:portcullis"), "{ended:#?}");
    let plane = fixture.source.kubernetes_side("plane");
    serves(&fixture, &plane, &alice(&fixture));
    let object = fixture.source.stored(NAME);
    assert_eq!(object["spec"]["portcullis"]["references"]["client"]["secret"]["name"], "prod.example.com-client");
    assert!(!ended.stderr.contains("PRIVATE") && !ended.stdout.contains("PRIVATE"), "{ended:#?}");
}

#[test]
fn onboarded_cluster_serves_with_a_front_proxy_certificate() {
    let Some(fixture) = OnboardFixture::start("onboard-front-proxy") else { return };
    let [certificate, key] = serving(&fixture);
    let mode = ["--upstream-identity", "RequestHeader", "--serving-cert", &certificate, "--serving-key", &key];
    let flags = [fixture.flags(), mode.to_vec()].concat();
    let without = fixture.run("onboard", &flags);
    assert_eq!(without.code, Some(1));
    assert!(without.stderr.contains("--requestheader-client-ca-file"), "{without:#?}");
    let [front, front_key] = fixture.front_proxy("front-proxy");
    let ended = fixture.run("onboard", &[flags, vec!["--client-cert", &front, "--client-key", &front_key]].concat());
    all_checks_are_good(&ended);
    let plane = fixture.source.kubernetes_side("plane");
    serves(&fixture, &plane, &alice(&fixture));
    let role = fixture.source.kube.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/portcullis").unwrap();
    assert!(!role.to_string().contains("\"impersonate\""), "an authenticating proxy needs no such right: {role}");
    let other = fixture.run("onboard", &fixture.flags());
    assert!(other.code == Some(1) && other.stderr.contains("has upstreamIdentity RequestHeader"), "{other:#?}");
}

#[test]
fn onboarded_cluster_serves_with_a_token_from_files() {
    let Some(fixture) = OnboardFixture::start("onboard-token") else { return };
    let dir = fixture.source.run.make_dir("config").unwrap();
    std::fs::copy(&fixture.source.settings, dir.join("settings.yaml")).unwrap();
    let [certificate, key] = serving(&fixture);
    let flags = [
        "--name",
        NAME,
        "--kubeconfig",
        fixture.admin(),
        "--output-dir",
        dir.to_str().unwrap(),
        "--token",
        "--serving-cert",
        &certificate,
        "--serving-key",
        &key,
    ];
    let ended = fixture.run("onboard", &flags);
    all_checks_are_good(&ended);
    assert!(ended.check("credential").0.contains("system:serviceaccount:kube-system:portcullis"), "{ended:#?}");
    let references = dir.join("references");
    let token = references.join(NAME).join("token");
    let mode = |path: &std::path::Path| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode(&token), mode(&references.join(NAME))), (0o600, 0o700));
    let flags = ["--config", dir.to_str().unwrap(), "--references-root", references.to_str().unwrap()];
    let plane = ControlPlaneUnderTest::start(&fixture.source.run, "plane", &flags);
    serves(&fixture, &plane, &alice(&fixture));
    assert!(!ended.stderr.contains(std::fs::read_to_string(token).unwrap().trim()), "{ended:#?}");
}

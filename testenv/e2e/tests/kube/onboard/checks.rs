//! Each check fails once, with its reason and its hint.

use std::fs;
use std::path::{Path, PathBuf};

use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::{ports, wait, write_private};
use serde_json::{Value, json};

use super::fixture::{Ended, NAME, OnboardFixture};
use crate::sources::SOON;

/// A cluster that was onboarded into files.
struct Written {
    fixture: OnboardFixture,
    dir: PathBuf,
}

impl Written {
    fn start(test: &str, more: &[&str]) -> Option<Self> {
        let fixture = OnboardFixture::start(test)?;
        let written = Self { dir: fixture.source.run.make_dir("config").unwrap(), fixture };
        written.onboard(more).is_good();
        Some(written)
    }

    fn onboard(&self, more: &[&str]) -> Ended {
        let flags = ["--name", NAME, "--kubeconfig", self.fixture.admin(), "--output-dir", self.dir.to_str().unwrap()];
        self.fixture.run("onboard", &[&flags[..], more].concat())
    }

    fn check(&self) -> Ended {
        self.check_with(&["--kubeconfig", self.fixture.admin()])
    }

    fn check_with(&self, more: &[&str]) -> Ended {
        let (manifest, root) = (self.manifest(), self.dir.join("references"));
        let flags =
            ["--check", "--name", NAME, "-f", manifest.to_str().unwrap(), "--references-root", root.to_str().unwrap()];
        self.fixture.run("onboard", &[&flags[..], more].concat())
    }

    fn manifest(&self) -> PathBuf {
        self.dir.join(format!("{NAME}.yaml"))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.join("references").join(NAME).join(name)
    }

    /// Runs with a file changed.
    fn with(&self, path: &Path, content: &str) -> Ended {
        let before = fs::read_to_string(path).unwrap();
        write_private(path, content.as_bytes()).unwrap();
        let ended = self.check();
        write_private(path, before.as_bytes()).unwrap();
        ended
    }

    fn edited(&self, from: &str, to: &str) -> Ended {
        let text = fs::read_to_string(self.manifest()).unwrap();
        assert!(text.contains(from), "{text}");
        self.with(&self.manifest(), &text.replace(from, to))
    }

    /// Runs with the gateway's role changed.
    fn with_role(&self, edit: impl Fn(&mut Vec<Value>)) -> Ended {
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/portcullis";
        let before = self.fixture.source.kube.get(path).unwrap();
        let role = |rules: &[Value]| {
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": "portcullis"}, "rules": rules})
        };
        let rules = before["rules"].as_array().unwrap().clone();
        let mut edited = rules.clone();
        edit(&mut edited);
        self.fixture.source.apply(&role(&edited).to_string());
        let ended = self.check();
        self.fixture.source.apply(&role(&rules).to_string());
        ended
    }
}

#[test]
fn each_check_of_a_token_fails_with_its_hint() {
    let Some(written) = Written::start("onboard-checks", &["--token"]) else { return };
    written.check().is_good();
    let without_caller = written.check_with(&[]);
    without_caller.is_good();
    assert!(without_caller.check("streaming").0.starts_with("not tried"), "{without_caller:#?}");

    let server = written.fixture.source.kube.address(0).unwrap().to_string();
    let unreachable = written.edited(&server, &format!("127.0.0.1:{}", ports::free().unwrap()));
    unreachable.failed("reach", "refused", "firewall");
    assert!(unreachable.check("rights").0.starts_with("not tried"), "{unreachable:#?}");

    let other_ca = written.with(&written.file("servers.crt"), &Ca::new("another").unwrap().pem());
    other_ca.failed("certificate", "UnknownIssuer", "--upstream-ca");
    let text = fs::read_to_string(written.manifest()).unwrap();
    let name = text.lines().find(|line| line.contains("serverName:")).unwrap();
    written.edited(name.trim(), "serverName: other.example.com").failed("certificate", "", "--server-name");

    let is_about = |rule: &Value, what: &str| rule.to_string().contains(what);
    let without_users = written.with_role(|rules| rules.retain(|rule| !is_about(rule, "serviceaccounts")));
    without_users.failed(
        "rights",
        "impersonate users, impersonate groups, impersonate serviceaccounts",
        "portcullis rbac",
    );
    without_users.failed("forwarding", "cannot impersonate", "--probe-user");
    assert!(without_users.check("streaming").0.starts_with("not tried"), "{without_users:#?}");
    let without_reviews = written.with_role(|rules| rules.retain(|rule| !is_about(rule, "tokenreviews")));
    without_reviews.failed("rights", "create tokenreviews.authentication.k8s.io", "portcullis rbac");
    without_reviews.failed("token review", "403", "rights");

    let health = "portcullis:\n    healthCheck: {path: /livez/no-such-check}";
    written.edited("portcullis:", health).failed("health", "403", "rights");

    written.fixture.source.admin(&["-n", "kube-system", "delete", "serviceaccount", "portcullis"]);
    // kube-apiserver believes a token for ten seconds after it looked.
    let revoked = wait::until("the token is revoked", SOON, || {
        let ended = written.check();
        let hints = ended.stdout.matches("its service account is gone").count();
        assert_eq!(hints, ended.stdout.matches("failed   ").count(), "each check has the reason: {ended:#?}");
        ended.check("credential").0.starts_with("failed").then_some(ended)
    });
    revoked.unwrap().failed("credential", "401", "its service account is gone");
    assert!(written.onboard(&["--token"]).is_good().stderr.contains("ServiceAccount kube-system/portcullis: made"));
}

#[test]
fn front_proxy_that_is_not_believed_is_named() {
    let Some(fixture) = OnboardFixture::start("onboard-front-check") else { return };
    let dir = fixture.source.run.make_dir("config").unwrap();
    let onboard = |certificate: &str, key: &str| {
        let files = ["--client-cert", certificate, "--client-key", key, "--upstream-identity", "RequestHeader"];
        let place = ["--name", NAME, "--kubeconfig", fixture.admin(), "--output-dir", dir.to_str().unwrap()];
        fixture.run("onboard", &[&place[..], &files].concat())
    };
    let [certificate, key] = fixture.front_proxy("another-name");
    onboard(&certificate, &key).failed("credential", "401", "--requestheader-allowed-names");
    // A user's certificate authenticates, and its X-Remote-User is ignored.
    let user = fixture.source.kube.client_ca().issue(&CertSpec::client("somebody", [""; 0])).unwrap();
    let [certificate, key] = fixture.files(&user);
    onboard(&certificate, &key).failed("credential", "somebody", "--client-ca-file alone");
    let [certificate, key] = fixture.front_proxy("front-proxy");
    onboard(&certificate, &key).is_good();
}

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_e2e::{Manifest, Secrets};
use portcullis_harness::certs::{CertSpec, Identity};
use portcullis_harness::client::{TlsTarget, plain};
use portcullis_harness::{wait, write_private};
use serde_json::{Value, json};

use super::control_plane::{ControlPlaneUnderTest, SOON, object, text, wait_same};
use super::fixture::{NAMESPACE, SourceFixture, printed};

const NAME: &str = "a.example.com";

static VERSIONS: AtomicU32 = AtomicU32::new(0);

/// The same certificates and keys as Secrets and as files, and nothing of them in the objects.
struct SourcePair {
    fixture: SourceFixture,
    directory: ControlPlaneUnderTest,
    kubernetes: ControlPlaneUnderTest,
    manifests: PathBuf,
    root: PathBuf,
}

impl SourcePair {
    fn start(test: &str) -> Option<Self> {
        let fixture = SourceFixture::start(test)?;
        let (manifests, root) = (fixture.run.make_dir("manifests").unwrap(), fixture.run.make_dir("root").unwrap());
        fs::create_dir(root.join("a")).unwrap();
        fs::copy(&fixture.settings, manifests.join("settings.yaml")).unwrap();
        let flags = ["--config", text(&manifests), "--references-root", text(&root)];
        let directory = ControlPlaneUnderTest::start(&fixture.run, "directory", &flags);
        let kubernetes = fixture.kubernetes_side("kubernetes");
        Some(SourcePair { fixture, directory, kubernetes, manifests, root })
    }

    fn sides(&self) -> [&ControlPlaneUnderTest; 2] {
        [&self.directory, &self.kubernetes]
    }

    /// A Secret for `cluster`, and files.
    fn material(&self, name: &str, cluster: &str, data: &[(&str, &str)]) {
        let encoded = data.iter().map(|(key, text)| ((*key).to_owned(), json!(STANDARD.encode(text))));
        let encoded: serde_json::Map<String, Value> = encoded.collect();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "data": encoded,
            "metadata": {
                "name": name, "namespace": NAMESPACE, "labels": {"portcullis.dev/upstream-cluster": cluster},
            },
        });
        self.fixture.apply(&secret.to_string());
        self.swap_volume(name, data);
    }

    /// Changes files as a volume of Kubernetes does: a new directory with all of them, and one link that is renamed.
    fn swap_volume(&self, name: &str, data: &[(&str, &str)]) {
        let volume = self.root.join("a");
        let (current, next) = (volume.join("..data"), volume.join("..next"));
        let version = volume.join(format!("..{}", VERSIONS.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&version).unwrap();
        for file in fs::read_dir(&current).into_iter().flatten().map(Result::unwrap) {
            fs::copy(file.path(), version.join(file.file_name())).unwrap();
        }
        for (key, text) in data {
            let file = format!("{name}.{key}");
            fs::write(version.join(&file), text).unwrap();
            // Made once, and then it leads to whatever the other link leads to.
            let _ = symlink(format!("..data/{file}"), volume.join(&file));
        }
        symlink(&version, &next).unwrap();
        fs::rename(&next, &current).unwrap();
    }

    fn pair(&self, name: &str, identity: &Identity) {
        self.material(name, NAME, &[("tls.crt", &identity.pem()), ("tls.key", &identity.key_pem())]);
    }

    /// Writes the object with its references on both sides.
    fn apply(&self, manifest: &Manifest) {
        let made = self.fixture.apply(&manifest.clone().set("/spec/portcullis", references_to_secrets()).to_text());
        let file = manifest
            .clone()
            .set("/spec/portcullis", references_to_files())
            .set("/metadata/uid", made["metadata"]["uid"].clone())
            .set("/metadata/creationTimestamp", made["metadata"]["creationTimestamp"].clone());
        write_private(&self.manifests.join("a.yaml"), file.to_text().as_bytes()).unwrap();
    }

    fn bare(&self) -> Manifest {
        self.fixture
            .manifest(NAME)
            .set("/spec/clientConfig", json!({"serverName": "kubernetes.default.svc"}))
            .set("/spec/secureServing", json!({}))
    }

    fn wait_reported(&self, what: &str, holds: impl Fn(&Value) -> bool) {
        for side in self.sides() {
            let holds = |status: &Value| object(status, NAME).is_some_and(&holds);
            side.plane.wait_status(what, SOON, holds).unwrap();
        }
    }

    fn wait_snapshot_after(&self, before: &str) -> String {
        for side in self.sides() {
            side.plane.wait_status("the change acts", SOON, |status| status["snapshot"] != before).unwrap();
        }
        wait_same(self.sides())
    }
}

fn references_to_secrets() -> Value {
    let secret = |name: &str| json!({"secret": {"name": name}});
    json!({"references": {
        "serving": secret("serving"), "client": secret("client"), "clientCA": secret("cas"),
        "upstreamCA": {"secret": {"name": "cas", "key": "upstream"}},
    }})
}

fn references_to_files() -> Value {
    let pair = |name: &str| json!({"file": {"certificate": format!("a/{name}.tls.crt"), "privateKey": format!("a/{name}.tls.key")}});
    json!({"references": {
        "serving": pair("serving"), "client": pair("client"), "clientCA": {"file": "a/cas.ca.crt"},
        "upstreamCA": {"file": "a/cas.upstream"},
    }})
}

#[test]
fn references_take_effect_rotate_and_stay() {
    let Some(sources) = SourcePair::start("references") else { return };
    let first = sources.fixture.serving(NAME);
    sources.pair("serving", &first);
    sources.pair("client", &sources.fixture.gateway);
    let (client_ca, server_ca) = (sources.fixture.kube.client_ca().pem(), sources.fixture.kube.server_ca().pem());
    sources.material("cas", NAME, &[("ca.crt", &client_ca), ("upstream", &server_ca)]);
    sources.apply(&sources.bare());
    sources.wait_reported("the object is served", |told| told["accepted"] == true);
    let served = wait_same(sources.sides());
    assert_eq!(sources.directory.configuration(), sources.kubernetes.configuration());
    sources.kubernetes.wait_listening(sources.fixture.address);
    assert_eq!(presented(&sources), leaf(&first));
    the_gateways_credential_works(&sources);

    let rotated = a_certificate_rotates(&sources, &served);
    what_is_gone_or_garbled_is_told_and_the_last_stays(&sources, &rotated);
    a_foreign_secret_looks_like_none(&sources, &rotated);
    nothing_secret_is_told(&sources);
}

/// alice is verified by one reference, and forwarded to the upstream with another, which trusts a third.
fn the_gateways_credential_works(sources: &SourcePair) {
    sources.fixture.apply(&printed(&["rbac", "--user", "portcullis"]));
    let alice = sources.fixture.kube.client_ca().issue(&CertSpec::client("alice", ["dev"])).unwrap();
    let target = TlsTarget::new(sources.fixture.address).sni(NAME).trust(&sources.fixture.serving_ca).identity(&alice);
    let review = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
    let request = format!(
        "POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{review}",
        review.len()
    );
    wait::until_ok("alice is known upstream", SOON, || {
        let answer = target.raw_request(request.as_bytes()).map_err(|error| error.to_string())?.text();
        if answer.contains(r#""username":"alice""#) { Ok(()) } else { Err(answer) }
    })
    .unwrap();
}

/// By SDS: no listener and no cluster is touched, and a connection that is open stays.
fn a_certificate_rotates(sources: &SourcePair, before: &str) -> String {
    let updates = |side: &ControlPlaneUnderTest| {
        ["listener_manager.listener_modified", "listener_manager.listener_added", "cluster_manager.cluster_modified"]
            .map(|name| side.envoy.admin().stat(name).unwrap())
    };
    let counted = sources.sides().map(updates);
    let target = TlsTarget::new(sources.fixture.address).sni(NAME).trust(&sources.fixture.serving_ca);
    let mut open = target.connect().unwrap();
    let mut ask = || {
        open.write(format!("GET /readyz HTTP/1.1\r\nHost: {NAME}\r\n\r\n").as_bytes()).unwrap();
        open.read_response(false).unwrap().status
    };
    assert_eq!(ask(), 200);
    let second = sources.fixture.serving(NAME);
    sources.pair("serving", &second);
    let rotated = sources.wait_snapshot_after(before);
    wait::until("the new certificate is presented", SOON, || (presented(sources) == leaf(&second)).then_some(()))
        .unwrap();
    assert_eq!(sources.sides().map(updates), counted);
    assert_eq!(ask(), 200, "a connection that is open stays");
    rotated
}

fn what_is_gone_or_garbled_is_told_and_the_last_stays(sources: &SourcePair, served: &str) {
    let path = "spec.portcullis.references.serving";
    let refused = |part: &'static str| {
        move |told: &Value| {
            let message = told["message"].as_str().unwrap();
            told["accepted"] == false
                && message.contains(path)
                && message.contains(part)
                && message.contains("still served")
        }
    };
    sources.material("serving", NAME, &[("tls.crt", "garbled"), ("tls.key", "garbled")]);
    sources.wait_reported("garbled material is told", refused("PEM"));
    sources.fixture.admin(&["delete", "secret", "serving", "-n", NAMESPACE]);
    fs::remove_file(sources.root.join("a/..data/serving.tls.key")).unwrap();
    sources.wait_reported("missing material is told", refused("there is no "));
    for side in sources.sides() {
        assert_eq!(side.snapshot(), served);
    }
    let last = sources.fixture.serving(NAME);
    sources.pair("serving", &last);
    sources.wait_reported("material that is back is used", |told| told["accepted"] == true);
    sources.wait_snapshot_after(served);
}

/// A Secret of another cluster, one in another namespace and one without the label count as missing.
fn a_foreign_secret_looks_like_none(sources: &SourcePair, _: &str) {
    sources.material("foreign", "b.example.com", &[("token", "Zm9yZWlnbg==TOPSECRET")]);
    sources.fixture.admin(&[
        "create",
        "secret",
        "generic",
        "unlabelled",
        "-n",
        NAMESPACE,
        "--from-literal=token=TOPSECRET",
    ]);
    sources.fixture.admin(&[
        "create",
        "secret",
        "generic",
        "elsewhere",
        "-n",
        "default",
        "--from-literal=token=TOPSECRET",
    ]);
    let label = "portcullis.dev/upstream-cluster=b.example.com";
    sources.fixture.admin(&["label", "secret", "elsewhere", "-n", "default", label]);
    let mut messages = Vec::new();
    for name in ["foreign", "unlabelled", "elsewhere", "absent"] {
        let cluster = format!("{name}.example.com");
        let manifest = sources
            .fixture
            .manifest(&cluster)
            .set("/spec/portcullis", json!({"references": {"token": {"secret": {"name": name}}}}));
        sources.fixture.apply(&manifest.to_text());
        let told = |status: &Value| object(status, &cluster).is_some_and(|told| told["accepted"] == false);
        let status = sources.kubernetes.plane.wait_status("the reference is refused", SOON, told).unwrap();
        messages.push(object(&status, &cluster).unwrap()["message"].as_str().unwrap().to_owned());
        sources.fixture.admin(&["delete", "upstreamcluster", &cluster]);
    }
    assert!(messages.iter().all(|message| *message == messages[3]), "{messages:#?}");
    assert!(messages[3].contains("spec.portcullis.references.token: there is no Secret of this name"), "{messages:#?}");
    let outside = sources.bare().set("/metadata/name", json!("outside.example.com"));
    let outside = outside.set("/spec/portcullis", json!({"references": {"token": {"file": "../settings.yaml"}}}));
    write_private(&sources.manifests.join("outside.yaml"), outside.to_text().as_bytes()).unwrap();
    let told = |status: &Value| object(status, "outside.example.com").is_some_and(|told| told["accepted"] == false);
    sources.directory.plane.wait_status("the reference is refused", SOON, told).unwrap();
}

fn nothing_secret_is_told(sources: &SourcePair) {
    let serving = fs::read_to_string(sources.root.join("a/serving.tls.key")).unwrap();
    let client = sources.fixture.gateway.key_pem();
    let foreign = "TOPSECRET";
    let secrets =
        Secrets::default().key("a serving key", &serving).key("the client key", &client).token("a token", foreign);
    let stored = sources.fixture.admin(&["get", "secrets", "-n", NAMESPACE, "-o", "yaml"]);
    assert_eq!(secrets.found_in(&stored), ["a serving key in base64", "the client key in base64", "a token in base64"]);
    let mut texts = vec![("Kubernetes", sources.fixture.admin(&["get", "upstreamclusters", "-o", "yaml"]))];
    for side in sources.sides() {
        let page = |path: &str| plain::get(side.plane.http_address(), path).unwrap().text();
        texts.extend([
            ("status", page("/status")),
            ("page", page("/ui/")),
            ("cluster", page(&format!("/ui/clusters/{NAME}"))),
            ("metrics", page("/metrics")),
        ]);
        texts.push(("log", side.plane.process().log()));
        texts.push(("Envoy's log", side.envoy.process().log()));
        texts.push(("config_dump", side.envoy.admin().config_dump().unwrap().to_string()));
    }
    for (what, text) in texts {
        assert_eq!(secrets.found_in(&text), [""; 0], "{what}");
        assert!(!text.contains("PRIVATE KEY"), "{what}");
    }
}

/// The certificate that clients of either gateway see: both have the same listener, and hold the same.
fn presented(sources: &SourcePair) -> Vec<u8> {
    let target = TlsTarget::new(sources.fixture.address).sni(NAME).trust(&sources.fixture.serving_ca);
    target.connect().unwrap().server_certificates().remove(0)
}

fn leaf(identity: &Identity) -> Vec<u8> {
    identity.leaf_der().to_vec()
}

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_e2e::{Manifest, Secrets};
use portcullis_harness::certs::{CertSpec, Identity};
use portcullis_harness::write_private;
use serde_json::{Value, json};

use crate::fixture::{NAME, ROBOT, StubFixture};

/// The credential that the gateway presents to servers.
const TOKEN: &str = "the-gateways-own-token-0123456789";
/// In a file.
const TOKEN_IN_FILE: &str = "the-gateways-token-in-a-file-0123456789";
/// A secret in a field that takes none.
const STRAY: &str = "a-secret-in-the-wrong-place-0123456789";

/// Objects with keys and tokens in every place that takes them, and in places that do not.
pub(super) struct Objects {
    base: Manifest,
    serving: Identity,
    client: Identity,
    stray: Identity,
    in_files: Identity,
    client_ca: String,
    server_ca: String,
}

impl Objects {
    pub(super) fn new(fixture: &StubFixture) -> Self {
        let client = |name: &str| fixture.pki.client_ca.issue(&CertSpec::client(name, [""; 0])).unwrap();
        let serving = fixture.gateway.serving_identity(NAME).unwrap();
        Self {
            base: fixture.manifest().serving(&serving, &fixture.pki.client_ca),
            serving,
            client: fixture.pki.gateway.clone(),
            stray: client("stray"),
            in_files: client("portcullis"),
            client_ca: fixture.pki.client_ca.pem(),
            server_ca: fixture.pki.server_ca.pem(),
        }
    }

    /// Those that a gateway holds and no client shows.
    pub(super) fn secrets_of_the_gateway(&self) -> Secrets {
        Secrets::default()
            .key("the serving key", &self.serving.key_pem())
            .key("the client key", &self.client.key_pem())
            .key("a stray key", &self.stray.key_pem())
            .key("a key in a file", &self.in_files.key_pem())
            .token("the token", TOKEN)
            .token("the token in a file", TOKEN_IN_FILE)
            .token("a stray token", STRAY)
    }

    pub(super) fn secrets(&self) -> Secrets {
        self.secrets_of_the_gateway()
            .token("a client's token", ROBOT)
            .token("an unknown token", "a-token-that-nobody-knows")
    }

    pub(super) fn leaf_in_files(&self) -> &[u8] {
        self.in_files.leaf_der()
    }

    pub(super) fn write_files(&self, root: &Path) {
        let write = |name: &str, text: &str| write_private(&root.join(name), text.as_bytes()).unwrap();
        write("tls.crt", &self.in_files.pem());
        write("tls.key", &self.in_files.key_pem());
        write("token", TOKEN_IN_FILE);
        write("ca.crt", &self.client_ca);
        write("upstream.crt", &self.server_ca);
        write("garbled.key", &self.stray.key_pem().replace("PRIVATE KEY", "SECRET"));
        write("two-tokens", &format!("{STRAY} {STRAY}"));
    }

    fn named(&self, name: &str) -> Manifest {
        self.base.clone().set("/metadata/name", json!(name))
    }

    fn with(&self, name: &str, pointer: &str, value: Value) -> Manifest {
        self.named(&format!("{name}.bad.example.com")).set(pointer, value)
    }

    fn in_files(&self, name: &str) -> Manifest {
        let manifest = self.named(name).set("/spec/secureServing", json!({}));
        let manifest = manifest.set("/spec/clientConfig", json!({"serverName": "kubernetes"}));
        let pair = json!({"file": {"certificate": "tls.crt", "privateKey": "tls.key"}});
        let references = json!({
            "serving": pair, "client": pair, "token": {"file": "token"},
            "clientCA": {"file": "ca.crt"}, "upstreamCA": {"file": "upstream.crt"},
        });
        manifest.set("/spec/portcullis", json!({"references": references}))
    }

    pub(super) fn good(&self) -> Vec<Manifest> {
        let front = self.named("front.example.com");
        let issuer = json!({
            "url": "https://issuer.example.com", "audiences": ["us"], "serviceAccounts": true,
            "jwks": {"fromServers": true},
        });
        let asking = json!({"tokens": {"issuers": [issuer]}, "discovery": {"kubernetesService": true}});
        vec![
            self.named("asking.example.com").set("/spec/portcullis", asking),
            self.named(NAME),
            front.set("/spec/portcullis", json!({"upstreamIdentity": "RequestHeader"})),
            self.in_files("files.example.com"),
            self.named("both.example.com").set("/spec/clientConfig/bearerToken", encoded(TOKEN)),
            // A careless user puts keys beside authorities.
            self.named("mixed.example.com")
                .set("/spec/clientConfig/caData", encoded(&(self.stray.key_pem() + &self.server_ca)))
                .set("/spec/secureServing/clientCAData", encoded(&(self.stray.key_pem() + &self.client_ca))),
        ]
    }

    pub(super) fn bad(&self) -> Vec<Manifest> {
        let key = self.stray.key_pem();
        let client =
            |name: &str, field: &str, value: Value| self.with(name, &format!("/spec/clientConfig/{field}"), value);
        let serving =
            |name: &str, field: &str, value: Value| self.with(name, &format!("/spec/secureServing/{field}"), value);
        let url = |text: String| json!([{"endpoint": text}]);
        let files = |name: &str, reference: &str, file: Value| {
            let name = format!("{name}.bad.example.com");
            let manifest = self.in_files(&name);
            manifest.set(&format!("/spec/portcullis/references/{reference}"), json!({"file": file}))
        };
        let front = json!({"upstreamIdentity": "RequestHeader"});
        vec![
            client("another-key", "keyData", encoded(&key)),
            client("garbled-key", "keyData", encoded(&key.replace("PRIVATE KEY", "SECRET"))),
            client("plain-key", "keyData", json!(key)),
            client("list-of-keys", "keyData", json!([encoded(&key)])),
            client("key-for-certificate", "certData", encoded(&key)),
            client("key-for-authority", "caData", encoded(&key)),
            client("plain-authority", "caData", json!(key)),
            client("key-for-name", "serverName", json!(key)),
            client("token-for-name", "serverName", json!(format!("{STRAY}!"))),
            client("plain-token", "bearerToken", json!(format!("{STRAY}!"))),
            client("token-with-blanks", "bearerToken", encoded(&format!("{STRAY} {STRAY}"))),
            client("token-of-a-kind", "bearerToken", json!({"value": STRAY})),
            client("token-for-a-number", "qps", json!(STRAY)),
            client("a-field-too-many", "token", json!(STRAY)),
            serving("serving-key", "keyData", encoded(&key)),
            serving("serving-certificate", "certData", encoded(&(key.clone() + &key))),
            serving("serving-authority", "clientCAData", encoded(&key)),
            self.with("password", "/spec/servers", url(format!("https://user:{STRAY}@10.0.0.1"))),
            self.with("query", "/spec/servers", url(format!("https://10.0.0.1?token={STRAY}"))),
            self.with("token-for-port", "/spec/servers", url(format!("https://10.0.0.1:{STRAY}"))),
            self.with("front", "/spec/portcullis", front).set("/spec/clientConfig/bearerToken", encoded(STRAY)),
            files("garbled-file", "client", json!({"certificate": "tls.crt", "privateKey": "garbled.key"})),
            files("key-for-authority-file", "clientCA", json!("garbled.key")),
            files("two-tokens", "token", json!("two-tokens")),
            files("no-file", "token", json!("nowhere")),
        ]
    }

    /// Text that cannot be read, or is no object, with keys in it.
    pub(super) fn broken(&self) -> Vec<String> {
        let (key, good) = (self.stray.key_pem(), self.base.to_text());
        let cut = &good[..good.len() * 2 / 3];
        vec![
            format!("spec: {{clientConfig: {{bearerToken: {STRAY}"),
            format!("spec:\n  keyData: |\n{key}\n bad: ["),
            format!("bearerToken: \"{STRAY}\n"),
            format!("{STRAY}\n"),
            format!("? {STRAY}\n: [*{STRAY}]\n"),
            format!("a: {STRAY}\na: {STRAY}\n"),
            format!("kind: Secret\napiVersion: v1\nmetadata: {{name: x}}\nstringData: {{token: {STRAY}}}\n"),
            format!("apiVersion: proxy.kubegateway.io/v1alpha1\nkind: UpstreamCluster\nspec: !{STRAY} {{}}\n"),
            cut.to_owned(),
        ]
    }

    /// `spec.defaultCertificate` that cannot be used.
    pub(super) fn bad_settings(&self) -> Vec<Value> {
        let (cert, key) = (encoded(&self.serving.pem()), encoded(&self.stray.key_pem()));
        vec![
            json!({"certData": cert, "keyData": key}),
            json!({"certData": key, "keyData": key}),
            json!({"certData": cert, "keyData": self.stray.key_pem()}),
            json!({"certData": cert, "key": STRAY}),
            json!(STRAY),
        ]
    }

    pub(super) fn are_reported(&self, status: &Value, manifests: &[Manifest], accepted: bool) -> bool {
        let objects = status["objects"].as_array().cloned().unwrap_or_default();
        let is_reported = |manifest: &Manifest| {
            objects.iter().any(|one| one["name"] == manifest.name() && one["accepted"] == accepted)
        };
        manifests.iter().all(is_reported)
    }
}

fn encoded(text: &str) -> Value {
    json!(STANDARD.encode(text))
}

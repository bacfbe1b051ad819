//! Secrets to which listeners refer: read with a right for their namespace alone, and judged.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_harness::certs::Identity;
use portcullis_harness::client::plain;
use serde_json::{Value, json};

use super::fixture::NAMESPACE;
use super::gateway_api::{CLASS, GROUP, Site};

const GATEWAY: [&str; 3] = ["gateways", "infra", "edge"];
const GOOD: &str = "ResolvedRefs True ResolvedRefs";
const BAD: &str = "ResolvedRefs False InvalidCertificateRef";

struct SecretSite {
    site: Site,
    cert: Identity,
    other: Identity,
}

impl SecretSite {
    fn start(test: &str) -> Option<Self> {
        let site = Site::start(test)?;
        for namespace in ["infra", "guest"] {
            site.fixture.admin(&["create", "namespace", namespace]);
        }
        site.apply("GatewayClass", "", CLASS, &json!({"controllerName": "portcullis.dev/gateway-controller"}));
        let [cert, other] = ["a.test", "b.test"].map(|name| site.fixture.serving(name));
        Some(Self { site, cert, other })
    }

    fn gateway(&self, reference: &Value) {
        let listener = json!({
            "name": "https", "port": 443, "protocol": "HTTPS", "hostname": "a.test",
            "tls": {"certificateRefs": [reference]},
        });
        self.site.apply("Gateway", "infra", "edge", &json!({"gatewayClassName": CLASS, "listeners": [listener]}));
    }

    fn secret(&self, namespace: &str, cert: &Identity, key: &Identity) {
        let data = json!({"tls.crt": STANDARD.encode(cert.pem()), "tls.key": STANDARD.encode(key.key_pem())});
        let object = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cert", "namespace": namespace},
            "type": "kubernetes.io/tls", "data": data,
        });
        self.site.fixture.apply(&object.to_string());
    }

    /// Waits until the listener's references are resolved or not, with these words in the message.
    fn wait(&self, condition: &str, words: &str) {
        let what = format!("{condition}: {words}");
        portcullis_harness::wait::until_ok(&what, super::SOON, || {
            let found = self.site.wait(GATEWAY, "/listeners/0", &[condition]);
            let message = found["status"]["listeners"][0]["conditions"].to_string();
            if message.contains(words) { Ok(()) } else { Err(message) }
        })
        .unwrap();
    }

    /// The reads of a Secret that kube-apiserver has answered, by codes.
    fn reads(&self, namespace: &str) -> Vec<u64> {
        let path = format!("/api/v1/namespaces/{namespace}/secrets/cert");
        let events = self.site.fixture.kube.apiservers()[0].audit_events_for(&path).unwrap();
        let reads =
            events.iter().filter(|event| event["verb"] == "get" && event["user"]["username"] == "control-plane");
        reads.filter_map(|event| event["responseStatus"]["code"].as_u64()).collect()
    }
}

#[test]
fn secrets_of_gateways_are_read_by_their_names_and_judged() {
    let Some(secrets) = SecretSite::start("gateway-secrets") else { return };
    let own = json!({"name": "cert"});
    secrets.gateway(&own);
    secrets.wait(BAD, "may not get secrets in namespace infra");
    secrets.wait(BAD, "--gateway-secrets infra");
    secrets.site.grant_secrets("infra");
    secrets.wait(BAD, "there is no Secret infra/cert");
    secrets.secret("infra", &secrets.cert, &secrets.other);
    secrets.wait(BAD, "does not belong to the key");
    secrets.secret("infra", &secrets.cert, &secrets.cert);
    secrets.wait(GOOD, "");
    secrets.site.fixture.admin(&["delete", "secret", "cert", "-n", "infra"]);
    secrets.wait(BAD, "there is no Secret infra/cert");
    secrets.secret("infra", &secrets.cert, &secrets.cert);
    secrets.wait(GOOD, "");
    let canaries: Vec<String> = secrets
        .cert
        .key_pem()
        .lines()
        .filter(|line| line.len() > 8 && !line.starts_with("-----"))
        .map(str::to_owned)
        .collect();
    let plane = secrets.site.plane();
    let status = plain::get(plane.http_address(), "/status").unwrap().text();
    let stored = secrets.site.get("gateways", "infra", "edge").to_string();
    for (what, output) in [("the log", plane.process().log()), ("/status", status), ("the Gateway", stored)] {
        assert!(output.len() > 100, "{what}: {output}");
        assert!(!canaries.iter().any(|canary| output.contains(canary)), "{what} has a key: {output}");
    }
}

#[test]
fn secrets_of_another_namespace_are_read_with_a_grant_alone() {
    let Some(secrets) = SecretSite::start("gateway-secret-grants") else { return };
    secrets.site.grant_secrets("guest");
    secrets.secret("guest", &secrets.cert, &secrets.cert);
    secrets.gateway(&json!({"name": "cert", "namespace": "guest"}));
    secrets.wait("ResolvedRefs False RefNotPermitted", "");
    assert_eq!(secrets.reads("guest"), [0; 0], "nothing is read that the Gateway may not refer to");
    let from = json!([{"group": GROUP, "kind": "Gateway", "namespace": "infra"}]);
    let to = json!([{"group": "", "kind": "Secret", "name": "cert"}]);
    secrets.site.apply("ReferenceGrant", "guest", "edge", &json!({"from": from, "to": to}));
    secrets.wait(GOOD, "");
    assert_eq!(secrets.reads("guest").first(), Some(&200));
    secrets.site.fixture.admin(&["delete", "referencegrants", "edge", "-n", "guest"]);
    secrets.wait("ResolvedRefs False RefNotPermitted", "");
    // One more round of everything else that is read.
    secrets.site.grant_secrets("infra");
    let count = secrets.reads("guest").len();
    secrets.gateway(&json!({"name": "cert"}));
    secrets.wait(BAD, "there is no Secret infra/cert");
    assert_eq!(secrets.reads("guest").len(), count, "it is not read any more");
    assert_eq!(secrets.reads(NAMESPACE), [0; 0]);
}

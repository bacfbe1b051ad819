//! Keys of tokens that the control plane reads from their issuer, an HTTPS server.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use portcullis_e2e::{GatewayOptions, Manifest};
use portcullis_harness::certs::Ca;
use portcullis_harness::issuer::{IssuerServer, TokenSigner};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::wait;
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, StubFixture};

const DISCOVERY: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/keys";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const SOON: Duration = Duration::from_secs(60);

/// A gateway that asks an issuer every second.
struct Site {
    fixture: StubFixture,
    ca: Ca,
    issuer: IssuerServer,
}

impl Site {
    fn start(test: &str) -> Self {
        Site::of(test, Ca::new("issuers").unwrap(), GatewayOptions::default())
    }

    /// As [`Site::start`], with the issuer's CA and more of the gateway's options.
    fn of(test: &str, ca: Ca, mut options: GatewayOptions) -> Self {
        options.plane_flags.extend(["--token-keys-interval", "1s"].map(str::to_owned));
        let fixture = StubFixture::without_cluster(test, &options);
        let issuer = IssuerServer::start(&ca).unwrap();
        issuer.show(DISCOVERY, &json!({"issuer": issuer.url(), "jwks_uri": format!("{}{KEYS}", issuer.url())}));
        Site { fixture, ca, issuer }
    }

    fn manifest(&self, jwks: Value) -> Manifest {
        let issuer = json!({
            "url": self.issuer.url(), "audiences": ["us"], "jwks": jwks,
            "claimMappings": {"username": {"claim": "sub", "prefix": "login:"}},
        });
        let cache = json!({"tokenTTL": "0", "rejectedTokenTTL": "0"});
        let portcullis = json!({"tokens": {"issuers": [issuer]}, "credentialCache": cache});
        self.fixture.manifest().set("/spec/portcullis", portcullis)
    }

    fn show_keys(&self, signers: &[&TokenSigner]) {
        self.issuer.show(KEYS, &key_set(signers));
    }

    fn token(&self, signer: &TokenSigner) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let issuer = self.issuer.url();
        signer.sign(&json!({"iss": issuer, "aud": "us", "sub": "alice", "iat": now, "exp": now + 600})).unwrap()
    }

    /// The status of a request with a token of this key: the servers know none of them.
    fn status(&self, signer: &TokenSigner) -> u16 {
        let token = self.token(signer);
        let request = format!(
            "GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        self.fixture.gateway.target(NAME).raw_request(request.as_bytes()).unwrap().status
    }

    fn wait_status(&self, what: &str, signer: &TokenSigner, expected: u16) {
        let is_so = || match self.status(signer) {
            status if status == expected => Ok(()),
            status => Err(status.to_string()),
        };
        wait::until_ok(what, SOON, is_so).unwrap();
    }

    /// Waits for the condition of the keys.
    fn wait_condition(&self, reason: &str, part: &str) {
        let holds = |status: &Value| {
            let objects = status["objects"].as_array().unwrap();
            let conditions = objects.iter().filter(|object| object["name"] == NAME);
            let mut conditions = conditions.flat_map(|object| object["conditions"].as_array().unwrap());
            conditions.any(|one| {
                one["type"] == "TokenKeysCurrent"
                    && one["reason"] == reason
                    && one["message"].as_str().unwrap().contains(part)
            })
        };
        let what = format!("the condition is {reason}, with {part:?}");
        self.fixture.gateway.plane().wait_status(&what, SOON, holds).unwrap();
    }
}

fn key_set(signers: &[&TokenSigner]) -> Value {
    json!({"keys": signers.iter().map(|signer| signer.jwk()).collect::<Vec<_>>()})
}

/// An issuer that is away takes no key away over a restart, and an object that asks for others has none.
#[test]
fn keys_of_an_issuer_that_is_away_outlive_a_restart() {
    let state = RunDir::new("issuer-state").unwrap();
    let flags = ["--state-dir".to_owned(), state.path().display().to_string()].to_vec();
    let options = GatewayOptions { plane_flags: flags, ..GatewayOptions::default() };
    let mut site = Site::of("issuer-restart", Ca::new("issuers").unwrap(), options);
    let signer = TokenSigner::new("k1").unwrap();
    site.show_keys(&[&signer]);
    let jwks = |ca: &Ca| json!({"fromIssuer": true, "certificateAuthority": ca.pem()});
    site.fixture.gateway.apply(&site.manifest(jwks(&site.ca))).unwrap();
    site.wait_status("the key verifies", &signer, 200);
    let file = state.join("token-keys");
    let saved = || std::fs::read_to_string(&file).ok().filter(|text| text.contains("k1"));
    let saved = wait::until("the keys are in the file", SOON, saved).unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!saved.contains("PRIVATE KEY"), "{saved}");

    site.issuer.answer(DISCOVERY, "500 Internal Server Error", &[], "");
    site.fixture.gateway.restart_control_plane().unwrap();
    site.wait_condition("Unavailable", "1 key of");
    let reviews = site.fixture.stub.records_for(REVIEWS).len();
    assert_eq!(site.status(&signer), 200);
    assert_eq!(site.fixture.stub.records_for(REVIEWS).len(), reviews, "it is not reviewed");

    // Another CA while the control plane is down: its answers are not known.
    site.fixture.gateway.plane().process().kill();
    let foreign = Ca::new("foreign").unwrap();
    site.fixture.gateway.write(&site.manifest(jwks(&foreign))).unwrap();
    site.fixture.gateway.restart_control_plane().unwrap();
    site.wait_status("the key verifies nothing", &signer, 401);
    site.wait_condition("NoKeys", "no key of it is known");
    let is_forgotten = || std::fs::read_to_string(&file).is_ok_and(|text| !text.contains("k1")).then_some(());
    wait::until("the file has forgotten them", SOON, is_forgotten).unwrap();
    // Its first CA again: they do not come back.
    site.fixture.gateway.apply(&site.manifest(jwks(&site.ca))).unwrap();
    site.wait_condition("NoKeys", "no key of it is known");
    assert_eq!(site.status(&signer), 401);
}

/// The bundle of the system is one of the test here.
#[test]
fn cas_of_the_system_are_believed_where_none_are_written() {
    let run = RunDir::new("issuer-system-cas").unwrap();
    let ca = Ca::new("issuers").unwrap();
    let bundle = run.write("system.pem", ca.pem()).unwrap();
    let plane_env = vec![("SSL_CERT_FILE".to_owned(), bundle.display().to_string())];
    let site = Site::of("issuer-system", ca, GatewayOptions { plane_env, ..GatewayOptions::default() });
    let signer = TokenSigner::new("k1").unwrap();
    site.show_keys(&[&signer]);
    site.fixture.gateway.apply(&site.manifest(json!({"fromIssuer": true}))).unwrap();
    site.wait_status("the key verifies", &signer, 200);
    site.wait_condition("Current", "1 key");

    // It is read again for each question. Without the issuer's CA in it no answer is believed, and the last keys hold.
    std::fs::write(&bundle, Ca::new("others").unwrap().pem()).unwrap();
    site.wait_condition("Unavailable", "by one of the CAs");
    std::fs::write(&bundle, site.ca.pem()).unwrap();
    site.wait_condition("Current", "1 key");
}

#[test]
fn keys_of_an_issuer_rotate_and_hold_while_it_fails() {
    let site = Site::start("issuer-keys");
    let signers = ["k1", "k2", "k3"].map(|id| TokenSigner::new(id).unwrap());
    let [first, second, third] = &signers;
    let jwks = json!({"fromIssuer": true, "certificateAuthority": site.ca.pem()});
    site.show_keys(&[first]);
    site.fixture.gateway.apply(&site.manifest(jwks)).unwrap();
    site.wait_status("the first key verifies", first, 200);
    let reviews = site.fixture.stub.records_for(REVIEWS).len();
    assert_eq!(site.status(first), 200);
    assert_eq!(site.fixture.stub.records_for(REVIEWS).len(), reviews, "it is not reviewed");
    let seen = site.fixture.stub.records_for(PODS).pop().unwrap();
    assert_eq!(seen.effective.unwrap().username, "login:alice");
    site.wait_condition("Current", "1 key, changed");

    site.show_keys(&[first, second]);
    site.wait_status("the second key verifies", second, 200);
    assert_eq!(site.status(first), 200);
    site.show_keys(&[second]);
    site.wait_status("the first key verifies nothing", first, 401);
    assert_eq!(site.status(second), 200);

    // Whatever is wrong with an answer, nothing of it is taken, and the last keys hold.
    let holds = |reason: &str| {
        site.wait_condition("Unavailable", reason);
        assert_eq!((site.status(second), site.status(third)), (200, 401), "{reason}");
    };
    let both = key_set(&[third]);
    site.issuer.show("/elsewhere", &both);
    site.issuer.answer(KEYS, "302 Found", &["Location: /elsewhere"], &both.to_string());
    holds("redirects are not followed");
    assert_eq!(site.issuer.requests("/elsewhere"), 0);
    site.issuer.answer(KEYS, "200 OK", &[], &format!("{both}{}", " ".repeat(64 << 10)));
    holds("the answer is larger than 65536 bytes");
    site.issuer.answer(KEYS, "200 OK", &[], "{");
    holds("is no JSON Web Key Set");
    site.show_keys(&[third]);
    let elsewhere = format!("{}/elsewhere", site.issuer.url());
    // Keys that are not asked for are not read either.
    site.issuer.show(DISCOVERY, &json!({"issuer": "https://other.example.com", "jwks_uri": elsewhere}));
    holds("the discovery document is of another issuer");
    site.issuer.show(DISCOVERY, &json!({"issuer": site.issuer.url(), "jwks_uri": elsewhere.replace("https", "http")}));
    holds("jwks_uri of the discovery document must be https");
    site.issuer.show(DISCOVERY, &json!({"issuer": site.issuer.url(), "jwks_uri": "https://169.254.169.254/keys"}));
    holds("jwks_uri of the discovery document names a loopback address");
    assert_eq!(site.issuer.requests("/elsewhere"), 0);
    site.issuer.show(DISCOVERY, &json!({"issuer": site.issuer.url(), "jwks_uri": elsewhere}));
    site.wait_status("the third key verifies", third, 200);
    site.wait_condition("Current", "1 key, changed");
    assert_eq!(site.status(second), 401);
}

#[test]
fn keys_at_a_url_are_those_of_its_ca_and_issuer_alone() {
    let site = Site::start("issuer-url");
    let signer = TokenSigner::new("k1").unwrap();
    site.show_keys(&[&signer]);
    let url = format!("{}{KEYS}", site.issuer.url());
    let jwks = |ca: &Ca| json!({"url": url, "certificateAuthority": ca.pem()});
    site.fixture.gateway.apply(&site.manifest(jwks(&site.ca))).unwrap();
    site.wait_status("the key verifies", &signer, 200);

    // Another CA: what was read before is not believed any more.
    let foreign = Ca::new("foreign").unwrap();
    site.fixture.gateway.apply(&site.manifest(jwks(&foreign))).unwrap();
    assert_eq!(site.status(&signer), 401);
    site.wait_condition("NoKeys", "by one of the CAs");
    site.fixture.gateway.apply(&site.manifest(json!({"url": url, "inline": key_set(&[&signer]).to_string()}))).unwrap();
    site.wait_condition("Inline", "the keys in inline hold, without an end");
    assert_eq!(site.status(&signer), 200, "a written set holds until one is read");
    site.fixture.gateway.apply(&site.manifest(jwks(&site.ca))).unwrap();
    site.wait_status("the key verifies", &signer, 200);

    // The same keys, as those of another issuer.
    let other = site.manifest(jwks(&site.ca)).set("/spec/portcullis/tokens/issuers/0/url", json!("https://b.test"));
    site.fixture.gateway.apply(&other).unwrap();
    site.wait_condition("Current", "https://b.test: 1 key");
    assert_eq!(site.status(&signer), 401, "the token names an issuer that is not trusted");
}

//! The client CAs that the handshake names (RFC 8446, 4.2.4), as kube-apiserver names those of `--client-ca-file`: a client
//! with several certificates chooses by them.

use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_e2e::{GatewayOptions, Manifest};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{H2Client, KeyStore, TlsTarget};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, project_root};
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, ROBOT, StubFixture};
use crate::pods::{create_pod, read_until};

fn status(target: &TlsTarget, token: Option<&str>) -> Option<u16> {
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n{token}\r\n");
    target.raw_request(request.as_bytes()).ok().map(|response| response.status)
}

/// How many authorities the handshake names, and which of these are among them.
fn named<const N: usize>(keystore: &KeyStore, authorities: [&Ca; N]) -> (usize, [bool; N]) {
    let named = keystore.named().unwrap();
    let is_named = |ca: &Ca| {
        let der = ca.certificate_der();
        named.iter().any(|name| der.windows(name.len()).any(|window| window == name.as_slice()))
    };
    (named.len(), authorities.map(is_named))
}

fn trusting(manifest: Manifest, authorities: &[&Ca]) -> Manifest {
    let bundle: String = authorities.iter().map(|ca| ca.pem()).collect();
    manifest.set("/spec/secureServing/clientCAData", json!(STANDARD.encode(bundle)))
}

#[test]
fn client_cas_are_named_in_both_verification_modes() {
    for version in deps::envoy_versions() {
        let options = GatewayOptions { envoy_version: Some(version.clone()), ..GatewayOptions::default() };
        let fixture = StubFixture::without_cluster("acceptable", &options);
        let (clients, more, others) = (&fixture.pki.client_ca, Ca::new("more").unwrap(), Ca::new("others").unwrap());
        let stranger = others.issue(&CertSpec::client("alice", ["dev"])).unwrap();
        for mode in ["Request", "Handshake"] {
            let manifest = trusting(fixture.manifest(), &[clients, &more])
                .set("/spec/portcullis", json!({"clientCertificateVerification": mode}));
            fixture.gateway.apply(&manifest).unwrap();

            let keystore = KeyStore::new([&stranger, &fixture.pki.alice]).unwrap();
            let target = fixture.gateway.target(NAME).keystore(&keystore);
            assert_eq!(status(&target, None), Some(200), "Envoy {version}, {mode}: the fitting one of two is chosen");
            assert_eq!(
                named(&keystore, [clients, &more, &others]),
                (2, [true, true, false]),
                "Envoy {version}, {mode}"
            );

            let unknown = fixture.gateway.target(NAME).identity(&stranger);
            let expected = (mode == "Request").then_some(200);
            assert_eq!(status(&unknown, Some(ROBOT)), expected, "Envoy {version}, {mode}: a token beside a stranger's");
        }
    }
}

/// Java's own key manager chooses between two certificates, as it does in front of a kube-apiserver.
#[test]
#[ignore = "needs Java 17"]
fn java_client_presents_the_certificate_of_a_named_ca() {
    let Some(java) = deps::or_skip("acceptable-java", deps::java()).unwrap() else { return };
    let fixture = StubFixture::without_cluster("acceptable-java", &GatewayOptions::default());
    let others = Ca::new("others").unwrap();
    let run = RunDir::new("java").unwrap();
    let file = |name: &str| run.join(name);
    fixture.gateway.serving_ca().write_pem(&file("server.pem")).unwrap();
    let stranger = others.issue(&CertSpec::client("mallory", ["dev"])).unwrap();
    stranger.write_pem(&file("stranger.crt"), &file("stranger.key")).unwrap();
    fixture.pki.alice.write_pem(&file("alice.crt"), &file("alice.key")).unwrap();
    let clients = &fixture.pki.client_ca;
    for (mode, authority, user) in [
        ("Request", clients, "alice"),
        ("Request", &others, "mallory"),
        ("Handshake", clients, "alice"),
        ("Handshake", &others, "mallory"),
    ] {
        let manifest = trusting(fixture.manifest(), &[authority])
            .set("/spec/portcullis", json!({"clientCertificateVerification": mode}));
        fixture.gateway.apply(&manifest).unwrap();
        let output = Command::new(&java)
            .arg(project_root().join("testenv/e2e/java/TwoCertificates.java"))
            .args([&fixture.gateway.target(NAME).address().port().to_string(), NAME, PODS])
            .args(["server.pem", "stranger.crt", "stranger.key", "alice.crt", "alice.key"].map(file))
            .output()
            .unwrap();
        let (answer, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(answer.trim_end(), "HTTP/1.1 200 OK", "{mode}: {errors}");
        let record = fixture.client_records().pop().unwrap();
        assert_eq!(record.effective.unwrap().username, user, "{mode}");
    }
}

#[test]
fn client_ca_edits_are_named_and_end_no_connection() {
    let fixture = StubFixture::start("acceptable-edit", &GatewayOptions::default());
    let (old, new) = (&fixture.pki.client_ca, Ca::new("new").unwrap());
    let open = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    assert_eq!(open.get(PODS, &[]).unwrap().status, 200);
    let mut watch = open.open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap();

    fixture.gateway.apply(&trusting(fixture.manifest(), &[old, &new])).unwrap();
    let keystore = KeyStore::new([&fixture.pki.alice]).unwrap();
    assert_eq!(status(&fixture.gateway.target(NAME).keystore(&keystore), None), Some(200));
    assert_eq!(named(&keystore, [old, &new]), (2, [true, true]));
    assert_eq!(open.get(PODS, &[]).unwrap().status, 200);

    fixture.gateway.apply(&trusting(fixture.manifest(), &[&new])).unwrap();
    status(&fixture.gateway.target(NAME).keystore(&keystore), None);
    assert_eq!(named(&keystore, [old, &new]), (1, [false, true]));
    assert_eq!(
        open.get(PODS, &[]).unwrap().status,
        401,
        "the connection lives, and its certificate is believed no more"
    );
    // As at kube-apiserver itself, what was let in goes on.
    let dora = new.issue(&CertSpec::client("dora", ["dev"])).unwrap();
    let other = H2Client::connect(&fixture.gateway.target(NAME).identity(&dora)).unwrap();
    create_pod(&other, "after-the-ca").unwrap();
    read_until(&mut watch, "after-the-ca").unwrap();
}

/// More names than 64 KiB cannot be written, and then no handshake succeeds; `portcullis check` stops at 30 KiB.
#[test]
fn client_ca_names_that_no_handshake_holds_are_refused() {
    let fixture = StubFixture::start("acceptable-many", &GatewayOptions::default());
    let many: Vec<_> = (0..140).map(|number| Ca::new(&format!("{number:03}{}", "x".repeat(497))).unwrap()).collect();
    let bundle = |count: usize| many.iter().take(count).chain([&fixture.pki.client_ca]).collect::<Vec<_>>();
    fixture.gateway.apply(&trusting(fixture.manifest(), &bundle(56))).unwrap();
    let keystore = KeyStore::new([&fixture.pki.alice]).unwrap();
    let target = fixture.gateway.target(NAME).keystore(&keystore);
    assert_eq!(status(&target, None), Some(200));
    let bytes: usize = keystore.named().unwrap().iter().map(|name| name.len() + 2).sum();
    assert!((28 * 1024..=30 * 1024).contains(&bytes), "{bytes}");

    fixture.gateway.write(&trusting(fixture.manifest(), &bundle(140))).unwrap();
    let is_judged = |status: &Value| status["objects"].to_string().contains("bytes in a TLS handshake");
    let told = fixture.gateway.plane().wait_status("the names are counted", Duration::from_secs(20), is_judged);
    assert_eq!(status(&target, None), Some(200), "what was accepted last is served: {told:?}");
    told.unwrap();
}

#[test]
fn certificates_behind_an_intermediate_are_believed() {
    for version in deps::envoy_versions() {
        let options = GatewayOptions { envoy_version: Some(version.clone()), ..GatewayOptions::default() };
        let fixture = StubFixture::start("acceptable-chain", &options);
        let intermediate = fixture.pki.client_ca.intermediate(&CertSpec::new("intermediate")).unwrap();
        let bob = intermediate.issue(&CertSpec::client("bob", ["dev"])).unwrap();
        let forged = Ca::new("clients").unwrap().issue(&CertSpec::client("bob", ["system:masters"])).unwrap();
        let users: [(&str, Identity, u16); 4] = [
            ("a chain of two", bob.clone(), 200),
            ("without its intermediate", bob.leaf_only(), 401),
            ("another one's certificate behind it", forged.followed_by(&fixture.pki.admin), 401),
            ("a good one, and a stranger's behind it", fixture.pki.alice.followed_by(&forged), 200),
        ];
        for (case, identity, expected) in &users {
            let target = fixture.gateway.target(NAME).identity(identity);
            assert_eq!(status(&target, None), Some(*expected), "Envoy {version}: {case}");
        }
        let told: Vec<_> =
            fixture.client_records().iter().map(|one| one.effective.as_ref().unwrap().username.clone()).collect();
        assert_eq!(told, ["bob", "alice"], "Envoy {version}");
    }
}

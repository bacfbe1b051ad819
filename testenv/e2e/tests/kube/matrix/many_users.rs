use std::time::{Duration, Instant};

use portcullis_harness::certs::CertSpec;
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::wait;
use serde_json::json;

use super::cases::Form;
use super::client::{Client, Credential};
use crate::fixture::KubeFixture;

/// How long anybody waits, on a machine of its own.
const LONGEST: Duration = Duration::from_secs(30);
/// How long a review may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// Half of them by certificate, half by token; all at once, twice each, over HTTP/2 and HTTP/1.1.
pub(super) fn users_each_see_only_themselves(fixture: &KubeFixture, count: usize) {
    let half = count / 2;
    let tokens = (half..count)
        .map(|user| json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": format!("u{user}")}}));
    let accounts = json!({"apiVersion": "v1", "kind": "List", "items": tokens.collect::<Vec<_>>()});
    let file = fixture.run.write("accounts.json", accounts.to_string()).unwrap();
    fixture.admin(&["create", "-f", file.to_str().unwrap()]);
    let admin = TlsTarget::new(fixture.kube.apiservers()[0].address()).identity(fixture.kube.admin());
    let admin = H2Client::connect(&admin).unwrap();
    let token_of = |user: usize| {
        let path = format!("/api/v1/namespaces/default/serviceaccounts/u{user}/token");
        let body = br#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}"#;
        let made = admin.request("POST", &path, &[("content-type", b"application/json")], body).unwrap();
        made.json().unwrap()["status"]["token"].as_str().unwrap().to_owned()
    };
    let certificate_of = |user: usize| {
        let spec = CertSpec::client(format!("u{user}"), [format!("g{user}")]);
        Credential::Certificate(Box::new(fixture.kube.client_ca().issue(&spec).unwrap()))
    };
    let credentials: Vec<Credential> = (0..count)
        .map(|user| if user < half { certificate_of(user) } else { Credential::Token(token_of(user)) })
        .collect();
    let ready = std::sync::Barrier::new(credentials.len());
    std::thread::scope(|scope| {
        for (user, credential) in credentials.iter().enumerate() {
            let ready = &ready;
            scope.spawn(move || {
                let mut client = Client::new(fixture.target().timeout(LONGEST), credential);
                let form = if user % 2 == 0 { Form::Once } else { Form::H2Once };
                ready.wait();
                let (mut answered, started) = (0, Instant::now());
                while answered < 2 {
                    assert!(
                        started.elapsed() < LONGEST.saturating_mul(wait::deadline_factor()),
                        "u{user}: {answered} answers"
                    );
                    let asked = Instant::now();
                    let (status, told) = client.send(&[], form);
                    // As many tokens as may be are under review, or the review was given up.
                    if status == 429 || (status == 503 && asked.elapsed() >= DEADLINE) {
                        continue;
                    }
                    assert_eq!(status, 201, "u{user}: {told}");
                    let (name, group) = if user < half {
                        (format!("u{user}"), format!("g{user}"))
                    } else {
                        (format!("system:serviceaccount:default:u{user}"), "system:serviceaccounts".to_owned())
                    };
                    assert_eq!((&told["username"], &told["groups"][0]), (&json!(name), &json!(group)));
                    answered += 1;
                }
            });
        }
    });
}

//! Handshakes at the same time on several workers: each connection keeps its own certificate.

use portcullis_e2e::GatewayOptions;
use portcullis_harness::certs::Identity;
use portcullis_harness::deps;

use crate::fixture::{NAME, StubFixture};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEW: &str = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
/// Clients at a time, more than Envoy has workers.
const CLIENTS: usize = 16;
/// Handshakes of one client.
const ROUNDS: usize = 150;

#[test]
fn certificate_stays_with_its_connection() {
    for version in deps::envoy_versions() {
        let options = GatewayOptions { envoy_version: Some(version.clone()), ..GatewayOptions::default() };
        let fixture = StubFixture::start("handshakes", &options);
        let users = [("alice", &fixture.pki.alice), ("admin", &fixture.pki.admin)];
        let wrong: usize = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let (name, identity) = users[client % 2];
                    scope.spawn({
                        let fixture = &fixture;
                        move || (0..ROUNDS).filter(|_| !is_answered_as(fixture, identity, name)).count()
                    })
                })
                .collect();
            clients.into_iter().map(|client| client.join().unwrap()).sum()
        });
        assert_eq!(wrong, 0, "of {} handshakes on Envoy {version}", CLIENTS * ROUNDS);
    }
}

fn is_answered_as(fixture: &StubFixture, identity: &Identity, name: &str) -> bool {
    let target = fixture.gateway.target(NAME).identity(identity);
    let request = format!(
        "POST {REVIEWS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{REVIEW}",
        REVIEW.len()
    );
    match target.raw_request(request.as_bytes()) {
        Ok(answer) => {
            let told = answer.json().map(|body| body["status"]["userInfo"]["username"].clone());
            let right = answer.status == 201 && told.as_ref().is_ok_and(|told| told == name);
            if !right {
                eprintln!("{name}: {} {}", answer.status, answer.text());
            }
            right
        }
        Err(error) => {
            eprintln!("{name}: {error:?}");
            false
        }
    }
}

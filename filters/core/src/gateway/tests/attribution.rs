//! Attribution of a request in the upstream's audit log.

use super::reviews::{TOKEN, access, reviewed, reviewing_with, token_of};
use super::*;

fn attributed(change: impl FnOnce(&mut ClusterConfig), headers: Headers<'_>) -> String {
    let fixture = reviewing_with(change);
    let headers: Vec<_> = TOKEN.iter().chain(headers).copied().collect();
    let answer = |body: &str| if body.contains("TokenReview") { token_of("robot") } else { access(true) };
    reviewed(&fixture, Peer::None, &headers, now(), answer).1
}

fn attribution(headers: Headers<'_>) -> Vec<String> {
    let all = attributed(|config| config.audit_attribution = true, headers);
    all.split(' ').filter(|line| line.contains("portcullis.dev")).map(str::to_owned).collect()
}

#[test]
fn attribution_names_address_request_and_impersonator() {
    let envoys = [("x-forwarded-for", "6.6.6.6, 10.0.0.7"), ("x-request-id", "id-1")];
    assert_eq!(
        attribution(&envoys),
        [
            "impersonate-extra-portcullis.dev%2fclient-address=10.0.0.7",
            "impersonate-extra-portcullis.dev%2frequest-id=id-1"
        ],
        "the address is the one that Envoy appended"
    );
    let as_bob = [("x-forwarded-for", "10.0.0.7"), ("impersonate-user", "bob")];
    assert_eq!(
        attribution(&as_bob),
        [
            "impersonate-extra-portcullis.dev%2fclient-address=10.0.0.7",
            "impersonate-extra-portcullis.dev%2foriginal-user=robot"
        ]
    );
    assert!(!attributed(|_| {}, &as_bob).contains("portcullis.dev"));
}

#[test]
fn gateways_own_extras_cannot_be_forged() {
    for name in [
        "impersonate-extra-portcullis.dev%2foriginal-user",
        "impersonate-extra-portcullis.dev/original-user",
        "impersonate-extra-%70ortcullis.dev%2Fx",
        "impersonate-extra-%50ORTCULLIS.dev%2fx",
    ] {
        for user in [Some(("impersonate-user", "bob")), None] {
            let headers: Vec<_> = user.into_iter().chain([(name, "root")]).collect();
            assert_eq!(attributed(|_| {}, &headers), "403 impersonation", "{name}");
        }
    }
    let by_review = |_: &str| {
        let status = serde_json::json!({"authenticated": true, "user": {
            "username": "u", "extra": {"portcullis.dev/original-user": ["root"]},
        }});
        (201, serde_json::json!({"kind": "TokenReview", "status": status}).to_string())
    };
    let (_, outcome) = reviewed(&reviewing_with(|_| {}), Peer::None, TOKEN, now(), by_review);
    assert_eq!(outcome, "401 unauthorized");
}

#[test]
fn request_without_a_credential_has_no_attribution() {
    let fixture = fixture_with(|config| config.audit_attribution = true);
    let scan = fixture.gateway.scan(
        Some(&fixture.route.cluster),
        [(":method", "GET"), (":path", POD), (":authority", "prod.example.com"), ("x-forwarded-for", "10.0.0.7")]
            .into_iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes())),
    );
    let request = RequestContext {
        scan: &scan,
        peer: Peer::None,
        answers: &ReviewAnswers::default(),
        now: now(),
        uptime: UPTIME,
    };
    let Decision::Forward(forward) = fixture.gateway.decide(&fixture.route.cluster, &request) else {
        panic!("refused")
    };
    assert!(forward.user.is_none() && forward.attribution.is_empty());
}

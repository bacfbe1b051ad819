//! Tokens of a real kube-apiserver that the gateway verifies by its keys, and that are revoked there.

use std::time::{Duration, Instant};

use portcullis_e2e::{GatewayOptions, MetricsPage};
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::wait;
use serde_json::json;

use crate::fixture::{KubeFixture, NAME};
use crate::local_tokens::{issuer, keys, reviews};

const PERIOD: Duration = Duration::from_secs(10);
/// Time for which a kube-apiserver believes its own answer about a token.
const BELIEVED: Duration = Duration::from_secs(10);

fn status(fixture: &KubeFixture, token: &str) -> u16 {
    let request =
        format!("GET /api HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n");
    fixture.target().raw_request(request.as_bytes()).unwrap().status
}

fn checks(fixture: &KubeFixture, result: &str) -> u64 {
    MetricsPage::of(&fixture.gateway).sum("revocation_checks_total", &[("result", result)])
}

#[test]
fn revoked_token_is_refused_after_a_check_beside_its_requests() {
    let options = (&KubeOptions::default(), &GatewayOptions::default());
    let Some(fixture) = KubeFixture::of("revocation", options.0, options.1) else { return };
    let token = |name: &str| {
        fixture.admin(&["create", "serviceaccount", name]);
        fixture.admin(&["create", "token", name]).trim().to_owned()
    };
    let (robot, other) = (token("robot"), token("other"));
    let mut tokens = issuer(&json!({"inline": keys(&fixture.kube)}));
    tokens["checkRevocation"] = json!("10s");
    let portcullis = json!({"tokens": tokens, "credentialCache": {"rejectedTokenTTL": "0"}});
    fixture.gateway.apply(&fixture.manifest().set("/spec/portcullis", portcullis)).unwrap();

    let (before, start) = (reviews(&fixture.kube), Instant::now());
    for _ in 0..50 {
        assert_eq!(status(&fixture, &robot), 200);
    }
    let asked = || (checks(&fixture, "confirmed") > 0).then_some(());
    wait::until("the token is reviewed beside its requests", Duration::from_secs(10), asked).unwrap();
    let most = start.elapsed().as_secs() / PERIOD.as_secs() + 1;
    assert!((1..=most).contains(&(reviews(&fixture.kube) - before)), "once in a period");

    fixture.admin(&["delete", "serviceaccount", "robot"]);
    let revoked = Instant::now();
    let refused = || (status(&fixture, &robot) == 401).then(|| revoked.elapsed());
    let took = wait::until("the token is refused", Duration::from_secs(60), refused).unwrap();
    println!("a token of a deleted service account was refused after {took:?}");
    let most = PERIOD + BELIEVED + Duration::from_secs(5) * wait::deadline_factor();
    assert!(took < most, "{took:?}");
    let counted = || (checks(&fixture, "rejected") == 1).then_some(());
    wait::until("the rejection is counted", Duration::from_secs(10), counted).unwrap();

    // From here on each of its requests waits for a review, whatever the keys say.
    for _ in 0..3 {
        let before = reviews(&fixture.kube);
        assert_eq!((status(&fixture, &robot), reviews(&fixture.kube) - before), (401, 1));
    }
    assert_eq!(status(&fixture, &other), 200);
    assert_eq!(checks(&fixture, "rejected"), 1, "no token is checked that is reviewed");
}

/// While no server answers a check, tokens that keys verify are accepted as before; that is counted.
#[test]
fn check_that_servers_refuse_changes_nothing_but_is_counted() {
    let options = (&KubeOptions::default(), &GatewayOptions::default());
    let Some(fixture) = KubeFixture::of("failed-checks", options.0, options.1) else { return };
    fixture.admin(&["create", "serviceaccount", "robot"]);
    let robot = fixture.admin(&["create", "token", "robot"]).trim().to_owned();
    // The right to review tokens is taken away.
    let roles = fixture.admin(&["get", "clusterroles", "-o", "json"]);
    let roles: serde_json::Value = serde_json::from_str(&roles).unwrap();
    let reviewing = |role: &&serde_json::Value| {
        let name = role["metadata"]["name"].as_str().unwrap_or_default();
        name.contains("portcullis") && role["rules"].to_string().contains("tokenreviews")
    };
    let role = roles["items"].as_array().unwrap().iter().find(reviewing).expect("the gateway may review tokens");
    fixture.admin(&["delete", "clusterrole", role["metadata"]["name"].as_str().unwrap()]);
    let mut tokens = issuer(&json!({"inline": keys(&fixture.kube)}));
    tokens["checkRevocation"] = json!("10s");
    let portcullis = json!({"tokens": tokens});
    fixture.gateway.apply(&fixture.manifest().set("/spec/portcullis", portcullis)).unwrap();
    let failed = || {
        // The gateway may not impersonate any more either, which the server says; it does not refuse the token.
        assert_ne!(status(&fixture, &robot), 401);
        (checks(&fixture, "failed") > 0).then_some(())
    };
    wait::until("a check fails", Duration::from_secs(30), failed).unwrap();
    assert_ne!(status(&fixture, &robot), 401);
}

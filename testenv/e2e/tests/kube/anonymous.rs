use portcullis_harness::kube::{Anonymous, KubeOptions};

use crate::fixture::KubeFixture;

/// Status of a request without any credential.
fn get(fixture: &KubeFixture, path: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nHost: prod.example.com\r\nConnection: close\r\n\r\n");
    fixture.target().raw_request(request.as_bytes()).unwrap().status
}

fn check(setting: Anonymous, healthz: u16, pods: u16) {
    let options = KubeOptions { anonymous: setting, ..KubeOptions::default() };
    let Some(fixture) = KubeFixture::start(&format!("anonymous-{setting:?}"), &options) else { return };
    assert_eq!(get(&fixture, "/healthz"), healthz, "{setting:?}");
    assert_eq!(get(&fixture, "/api/v1/namespaces/default/pods"), pods, "{setting:?}");
    // kube-apiserver closes a connection after refusing an unauthenticated request; others must not notice.
    for _ in 0..20 {
        assert_eq!(get(&fixture, "/api/v1/namespaces/default/pods"), pods, "{setting:?}");
        let alice = fixture.target().identity(&fixture.alice);
        let response = portcullis_harness::client::H2Client::connect(&alice).unwrap();
        assert_eq!(response.get("/api/v1/namespaces/default/pods", &[]).unwrap().status, 200, "{setting:?}");
    }
}

#[test]
fn anonymous_requests_meet_the_upstreams_own_setting_on() {
    check(Anonymous::On, 200, 403);
}

#[test]
fn anonymous_requests_meet_the_upstreams_own_setting_off() {
    check(Anonymous::Off, 401, 401);
}

#[test]
fn anonymous_requests_meet_the_upstreams_limit_to_health() {
    check(Anonymous::HealthOnly, 200, 401);
}

//! The path that was judged is the path that the upstream sees, byte for byte; what hops read differently is refused.

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::{H2Client, TlsTarget};

use crate::fixture::{NAME, StubFixture};

const FORWARDED: [&str; 24] = [
    "/",
    "//",
    "//healthz",
    "/healthz/../readyz",
    "/health%7A",
    "/a%2Fb/%2e%2E/c%5Cd%00",
    "/a%25zz",
    "/api//",
    "//api/v1/pods/",
    "/%61pi/v1/%70ods",
    "/api/v1/namespaces/%64efault/pods//",
    "/api/v1/namespaces/default/pods/a%20b",
    "/api/v1/namespaces/default/pods/a+b;c=d",
    "/api/v1/namespaces/default/pods/%c3%a4",
    "/api/v1/namespaces/default/pods/%ff",
    "/api/v1/namespaces/default/pods/a...b",
    "/api/v1/namespaces/default/services/https:web:443/proxy/a%2Fb//c/../d/%2e%2e/%5c?x=%zz&y=;",
    "/api/v1/proxy/namespaces/default/services/web/..//%2F/.?",
    "/api/v1/pods?watch=0&&limit=1&limit=2&x=%2f+%zz;y",
    "/api/v1/pods?fieldSelector=metadata.name%3Dx,a%3D%3Db",
    "/api/v1/pods?a=//../%00",
    "/api/v1/pods?",
    "/healthz?verbose",
    "/healthz??a=/b?c",
];

const REFUSED: [&str; 12] = [
    "/api/v1/namespaces/default%2Fpods",
    "/api/v1/namespaces/default/pods/a%2fb",
    "/api/v1/namespaces/default/pods/a%5Cb",
    "/api/v1/namespaces/default/pods/a\\b",
    "/api/v1/namespaces/default/pods/a%00",
    "/api/v1/namespaces/../pods",
    "/api/v1/namespaces/%2e%2E/pods",
    "/api/v1/./pods",
    "/api/v1//pods",
    "/apis//v1/pods",
    "/api/v1/namespaces//pods",
    "/api/v1/pods/%zz",
];

/// Asks over both versions of HTTP, and as an upgrade.
fn ask(target: &TlsTarget, client: &H2Client, path: &str) -> [u16; 3] {
    let h1 = |headers: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {NAME}\r\n{headers}\r\n");
        target.raw_request(request.as_bytes()).unwrap().status
    };
    [h1(""), h1("Connection: Upgrade\r\nUpgrade: websocket\r\n"), client.get(path, &[]).unwrap().status]
}

#[test]
fn upstream_sees_the_path_that_was_judged() {
    let fixture = StubFixture::start("paths", &GatewayOptions::default());
    let nobody = fixture.gateway.target(NAME);
    for target in [nobody.clone().identity(&fixture.pki.alice), nobody] {
        let client = H2Client::connect(&target).unwrap();
        for path in FORWARDED {
            fixture.stub.clear();
            let statuses = ask(&target, &client, path);
            let seen: Vec<String> = fixture.client_records().into_iter().map(|record| record.target).collect();
            assert_eq!(seen, [path; 3], "{statuses:?}");
        }
        fixture.stub.clear();
        for path in REFUSED {
            assert_eq!(ask(&target, &client, path), [400; 3], "{path}");
        }
        assert!(fixture.client_records().is_empty());
    }
}

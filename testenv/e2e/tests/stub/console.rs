//! The console without a browser: pages, their headers, the stream of events, and the login by a client certificate.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::client::{Response, TlsTarget, plain};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::wait;

use crate::fixture::{NAME, StubFixture};

const SOON: Duration = Duration::from_secs(20);

fn page(fixture: &StubFixture, path: &str) -> Response {
    plain::get(fixture.gateway.plane().http_address(), path).unwrap()
}

#[test]
fn console_shows_the_fleet_without_a_script_and_loads_nothing() {
    let fixture = StubFixture::start("console", &GatewayOptions::default());
    let first = page(&fixture, "/");
    assert_eq!((first.status, first.header("location").as_deref()), (307, Some("/ui/")));
    for (path, parts) in [
        ("/ui/".to_owned(), vec![NAME, "envoy-0", "GatewaySettings", "<main id=\"main\"", "<h1>Fleet</h1>"]),
        (format!("/ui/clusters/{NAME}"), vec!["<h2 id=\"servers\">", "Programmed", "Certificates"]),
        ("/ui/explain".to_owned(), vec!["<textarea id=\"text\"", "<label for=\"user\">"]),
    ] {
        let page = page(&fixture, &path);
        let text = page.text();
        assert_eq!(page.status, 200, "{path}");
        parts.iter().for_each(|part| assert!(text.contains(part), "{part}: {text}"));
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(text.matches("<script").count(), 1, "{text}");
        for word in ["http://", "https://", " style=", " onload="] {
            assert!(!text.contains(word), "{path} holds {word}: {text}");
        }
        assert_eq!(text.matches("<table").count(), text.matches("<thead><tr><th scope=\"col\"").count(), "{text}");
    }
    let fleet = page(&fixture, "/ui/api/fleet").json().unwrap();
    assert_eq!(fleet["clusters"][0]["name"], NAME, "{fleet}");
    let cluster = page(&fixture, &format!("/ui/api/clusters/{NAME}")).json().unwrap();
    assert_eq!(cluster["conditions"].as_array().unwrap().len(), 3, "{cluster}");
    explains(&fixture);
    streams(&fixture);
}

fn explains(fixture: &StubFixture) {
    let line = format!("{{\"cluster\":\"{NAME}\",\"method\":\"GET\",\"path\":\"/api/v1/pods\",\"user\":\"alice\"}}");
    let body = serde_json::json!({"text": line}).to_string();
    let headers = [("content-type", "application/json")];
    let address = fixture.gateway.plane().http_address();
    let answer = plain::request(address, "POST", "/ui/api/explain", &headers, body.as_bytes()).unwrap();
    let answer = answer.json().unwrap();
    assert_eq!((&answer["dispatch"]["policy"], &answer["user"]), (&0.into(), &"alice".into()), "{answer}");
    let other = [("content-type", "application/json"), ("origin", "https://attacker.example")];
    let answer = plain::request(address, "POST", "/ui/api/explain", &other, body.as_bytes()).unwrap();
    assert_eq!(answer.status, 403, "pages of other sites are refused");
}

/// A stream reports a change.
fn streams(fixture: &StubFixture) {
    let address = fixture.gateway.plane().http_address();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    write!(stream, "GET /ui/api/events HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut read = String::new();
    let mut buffer = [0; 4096];
    while !read.contains("event: changed") {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "{read}");
        read.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    assert!(read.contains("content-type: text/event-stream") && read.contains("event: open"), "{read}");
}

#[test]
fn directory_is_shown_beyond_loopback_to_certificates_only() {
    let fixture = StubFixture::start("console-certificates", &GatewayOptions::default());
    let [ca, readers, strangers] = ["console", "readers", "strangers"].map(|name| Ca::new(name).unwrap());
    let serving = ca.issue(&CertSpec::server("console", ["console.test"])).unwrap();
    let file = |name: &str| fixture.run.join(name);
    serving.write_pem(&file("console.crt"), &file("console.key")).unwrap();
    readers.write_pem(&file("readers.crt")).unwrap();
    let manifests = fixture.gateway.manifests().display().to_string();
    let [certificate, key, client_ca] =
        ["console.crt", "console.key", "readers.crt"].map(|name| file(name).display().to_string());
    let flags = ["--config", &manifests, "--http-tls-cert", &certificate, "--http-tls-key", &key];
    let closed = ControlPlane::start_behind_login(&fixture.run.make_dir("closed").unwrap(), &flags).unwrap();
    for path in ["/ui/", "/status", "/ui/api/fleet"] {
        let answer = plain::get(closed.http_address(), path).unwrap();
        assert!(answer.status == 403 && answer.text().contains("--http-client-ca"), "{path}: {}", answer.text());
    }
    let flags = [&flags[..], &["--http-client-ca", &client_ca]].concat();
    let plane = ControlPlane::start_behind_login(&fixture.run.make_dir("open").unwrap(), &flags).unwrap();
    let address = plane.http_address();
    let forwarded = [("x-forwarded-for", "127.0.0.1"), ("x-forwarded-proto", "https")];
    for path in ["/ui/", "/status"] {
        assert_eq!(plain::request(address, "GET", path, &forwarded, b"").unwrap().status, 401, "{path}");
    }
    // Probes and metrics are at the same port, with TLS and without.
    for path in ["/healthz", "/metrics"] {
        assert_eq!(plain::get(address, path).unwrap().status, 200, "{path}");
    }
    let target = TlsTarget::new(address).sni("console.test").trust(&ca).alpn(&["http/1.1"]);
    let ask = |target: &TlsTarget, path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        target.raw_request(request.as_bytes())
    };
    assert_eq!(ask(&target, "/ui/").unwrap().status, 401);
    assert_eq!(ask(&target, "/healthz").unwrap().status, 200);
    let of = |ca: &Ca, name: &str| target.clone().identity(&ca.issue(&CertSpec::client(name, [""; 0])).unwrap());
    let reader = of(&readers, "operator");
    let served = wait::until_ok("the cluster is known", SOON, || {
        let page = ask(&reader, "/ui/").map_err(|error| error.to_string())?;
        if page.status == 200 && page.text().contains(NAME) { Ok(page.text()) } else { Err(page.text()) }
    });
    assert!(served.unwrap().contains("operator"), "the reader is named");
    assert_eq!(ask(&reader, "/status").unwrap().status, 200);
    assert!(ask(&of(&strangers, "operator"), "/ui/").is_err(), "a certificate of another authority ends the handshake");
}

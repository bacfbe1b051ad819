use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use portcullis_harness::client::plain;
use portcullis_harness::wait;

use super::place::{SOON, Way};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

pub(super) fn a_local_proxy_serves_all_of_it(way: &Way<'_>) {
    let proxy = way.kubectl(["proxy", "--port=0"]).spawn().unwrap();
    let serving = || {
        let told = proxy.stdout();
        told.trim().rsplit(' ').next().and_then(|word| word.parse().ok()).ok_or_else(|| told + &proxy.log())
    };
    let address: SocketAddr = wait::until_ok(&format!("{way}: kubectl proxy serves"), SOON, serving).unwrap();
    let answer = plain::get(address, &format!("/api/v1/namespaces/default/pods/{}", way.pod)).unwrap();
    assert_eq!(answer.json().unwrap()["metadata"]["name"], way.pod, "{way}");
    a_watch_tells(way, address);
    a_pod_is_asked(way, address);
    a_pod_takes_an_upgrade(way, address);
}

fn open(address: SocketAddr, request: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    BufReader::new(stream)
}

fn a_watch_tells(way: &Way<'_>, address: SocketAddr) {
    let watch = open(address, &format!("GET {CONFIGMAPS}?watch=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let name = format!("told-to-{}", way.pod);
    let made = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let kind = [("Content-Type", "application/json")];
    let answer = plain::request(address, "POST", CONFIGMAPS, &kind, made.to_string().as_bytes()).unwrap();
    assert_eq!(answer.status, 201, "{way}: {}", answer.text());
    let told = watch.lines().any(|line| line.unwrap().contains(&name));
    assert!(told, "{way}: the watch has ended");
}

fn pod_path(way: &Way<'_>, rest: &str) -> String {
    format!("/api/v1/namespaces/default/pods/{}:8080/proxy{rest}", way.pod)
}

/// The pod's server confirms the request, and that no credential came with it.
fn a_pod_is_asked(way: &Way<'_>, address: SocketAddr) {
    for (method, body) in [("GET", ""), ("POST", "some=form"), ("DELETE", "")] {
        let path = pod_path(way, "/a/b%20c?x=1&y=%20");
        let answer = plain::request(address, method, &path, &[], body.as_bytes()).unwrap();
        let text = answer.text();
        assert!(text.starts_with(&format!("{method} /a/b%20c?x=1&y=%20\n")), "{way}: {text}");
        for header in ["Authorization", "Impersonate-", "X-Remote-"] {
            assert!(!text.contains(&format!("\n{header}")), "{way}: {text}");
        }
    }
}

fn a_pod_takes_an_upgrade(way: &Way<'_>, address: SocketAddr) {
    let path = pod_path(way, "/socket");
    let mut session = open(
        address,
        &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
    );
    let mut line = String::new();
    session.read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 101 "), "{way}: {line}");
    while line != "\r\n" {
        line.clear();
        session.read_line(&mut line).unwrap();
    }
    session.get_mut().write_all(b"there and back").unwrap();
    let mut echo = [0; 14];
    session.read_exact(&mut echo).unwrap();
    assert_eq!(&echo, b"there and back", "{way}");
}

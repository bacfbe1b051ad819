//! kubectl while everything changes: `get -w`, and a session and an upload through `kubectl proxy`, which takes them on as
//! kubectl's own, the upload over HTTP/2.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use portcullis_harness::client::{H2Client, plain};
use portcullis_harness::kube::Kubectl;
use portcullis_harness::{deps, ports, wait};
use serde_json::json;

use super::changes::CHANGES;
use super::site::{PATIENCE, Site};
use crate::fixture::NAME;

const SOON: Duration = Duration::from_secs(30);
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const EXEC: &str = "/api/v1/namespaces/default/pods/web/exec?command=sh";
const UPLOAD: &str = "/api/v1/namespaces/default/services/web/proxy/upload";

struct Connection(TcpStream);

impl Connection {
    fn open(proxy: SocketAddr, head: &str) -> Self {
        let stream = TcpStream::connect(proxy).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut connection = Connection(stream);
        connection.write(&format!("{head}\r\nHost: {proxy}\r\n\r\n"));
        connection
    }

    fn write(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).unwrap();
    }

    fn read(&mut self, length: usize) -> String {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    fn read_until(&mut self, end: &str) -> String {
        let mut text = String::new();
        while !text.ends_with(end) {
            text += &self.read(1);
        }
        text
    }
}

fn create_secret(site: &Site, name: &str) {
    let client = H2Client::connect(&site.target().identity(&site.pki.admin)).unwrap();
    let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}).to_string();
    let headers = [("content-type", &b"application/json"[..])];
    assert_eq!(client.request("POST", SECRETS, &headers, object.as_bytes()).unwrap().status, 201);
}

#[test]
fn kubectl_works_through_every_change() {
    let Some(binaries) = deps::kube_or_skip("kubectl-live").unwrap() else { return };
    let mut site = Site::start("kubectl-live");
    let kubeconfig = site.gateway.kubeconfig(NAME).identity(&site.pki.alice);
    let kubeconfig = kubeconfig.write(&site.run.join("kubeconfig")).unwrap();
    let kubectl = || Kubectl::new(&binaries.kubectl, &kubeconfig, site.run.path());
    let watch = kubectl().args(["get", "secrets", "-w", "-o", "name"]).spawn().unwrap();
    let proxy = ports::free_address().unwrap();
    // Its own filter refuses exec.
    let port = format!("--port={}", proxy.port());
    let serving = kubectl().args(["proxy", "--disable-filter=true", &port]).spawn().unwrap();
    serving.wait_ready("kubectl proxy", SOON, || plain::get(proxy, "/version")).unwrap();

    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    let mut session = Connection::open(proxy, &format!("GET {EXEC} HTTP/1.1\r\n{upgrade}"));
    assert!(session.read_until("\r\n\r\n").starts_with("HTTP/1.1 101 "));
    let mut upload = Connection::open(proxy, &format!("PUT {UPLOAD} HTTP/1.1\r\nTransfer-Encoding: chunked"));
    let mut sent = String::new();
    for (turn, (name, make)) in CHANGES.iter().enumerate() {
        make(&mut site, 0);
        let word = format!("{turn}: {name};");
        session.write(&word);
        assert_eq!(session.read(word.len()), word);
        upload.write(&format!("{:x}\r\n{word}\r\n", word.len()));
        sent += &word;
        let secret = format!("after-{turn}");
        create_secret(&site, &secret);
        let told = || watch.stdout().contains(&format!("secret/{secret}\n")).then_some(());
        let told = wait::until(&format!("{name}: the watch goes on"), SOON, told);
        told.unwrap_or_else(|error| panic!("{error}\n{}", watch.log()));
    }
    upload.write("0\r\n\r\n");
    assert!(upload.read_until("\r\n\r\n").starts_with("HTTP/1.1 200 "));
    let received = upload.read_until(&sent[sent.len() - 20..]);
    assert!(received.ends_with(&sent), "{received}");
    assert!(watch.is_running() && watch.log().is_empty(), "kubectl saw no trouble: {}", watch.log());
    let records = site.stubs.iter().flat_map(|stub| stub.records_for(UPLOAD)).collect::<Vec<_>>();
    assert_eq!(records.len(), 1, "sent once");
    assert_eq!(records[0].version, "HTTP/2.0");
}

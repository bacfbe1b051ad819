//! Single phases, in an Envoy that runs from files: request info alone, policies alone, identity alone.

mod identity;
mod policy;
mod request_info;
mod spellings;

use portcullis_e2e::{PlainFiles, PlainGateway, PlainSetup};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{H2Client, Response};
use portcullis_harness::deps;
use portcullis_harness::rundir::RunDir;
use portcullis_stub_apiserver::{Record, StubServer};

use crate::plain::for_1_38;
use crate::world::{NAME, Pki, ROBOT};

const EXEC: &str = "/api/v1/namespaces/default/pods/p/exec?command=x";

/// An Envoy with files of one folder of `envoy/plain` in front of a stub that believes a front proxy, and lets the robot
/// impersonate.
struct World {
    gateway: PlainGateway,
    stub: StubServer,
    pki: Pki,
    // Removed last.
    _run: RunDir,
}

impl World {
    fn start(mode: &'static str, change: impl FnOnce(&PlainFiles)) -> Self {
        World::on(mode, None, change)
    }

    fn on(mode: &'static str, version: Option<String>, change: impl FnOnce(&PlainFiles)) -> Self {
        let run = RunDir::new(&format!("phase-{mode}")).unwrap();
        let (pki, front) = (Pki::new(), Ca::new("front proxies").unwrap());
        let front_proxy = front.issue(&CertSpec::client("front-proxy", [""; 0])).unwrap();
        let mut options = pki.stub_options("stub-0");
        let serving = pki.server_ca.issue(&CertSpec::server("stub-0", ["kubernetes.default.svc"])).unwrap();
        (options.tls_cert, options.tls_key) = (serving.pem(), serving.key_pem());
        options.requestheader_ca = Some(front.pem());
        options.impersonators.push("robot".to_owned());
        let stub = StubServer::start(options).unwrap();
        let setup = PlainSetup {
            mode,
            name: NAME,
            servers: vec![stub.address()],
            client: if mode == "impersonate" { &pki.gateway } else { &front_proxy },
            upstream_ca: &pki.server_ca,
            client_ca: &pki.client_ca,
        };
        let files = PlainFiles::lay_out(&run, &setup).unwrap();
        change(&files);
        if version.as_deref().is_some_and(|version| version.starts_with("1.38")) {
            for_1_38(&files);
        } else if deps::runs_wasm() {
            files.use_wasm(&deps::wasm().unwrap()).unwrap();
        }
        let gateway = files.start(&run, version).unwrap();
        World { gateway, stub, pki, _run: run }
    }

    /// What came of a request by HTTP/2, and what the server saw of it.
    fn send(
        &self,
        identity: Option<&Identity>,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> (Response, Option<Record>) {
        self.stub.clear();
        let mut target = self.gateway.target();
        if let Some(identity) = identity {
            target = target.identity(identity);
        }
        let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        let response = H2Client::connect(&target).unwrap().request(method, path, &headers, b"").unwrap();
        (response, self.seen())
    }

    /// What came of an upgrade, and what the server saw of it.
    fn upgrade(&self, headers: &str) -> (u16, Option<Record>) {
        self.stub.clear();
        let mut connection = self.gateway.target().connect().unwrap();
        let head = format!("POST {EXEC} HTTP/1.1\r\nHost: {NAME}\r\nConnection: Upgrade\r\n{headers}\r\n");
        connection.write(head.as_bytes()).unwrap();
        (connection.read_head().unwrap().status, self.seen())
    }

    /// The last request of a client.
    fn seen(&self) -> Option<Record> {
        let mut records = self.stub.records();
        records.retain(|record| record.path() != "/readyz" && !record.path().ends_with("reviews"));
        records.pop()
    }
}

fn bearer() -> String {
    format!("Bearer {ROBOT}")
}

/// As whom the server handled a request.
fn acted_as(record: &Record) -> &str {
    record.effective.as_ref().map_or("", |user| &user.username)
}

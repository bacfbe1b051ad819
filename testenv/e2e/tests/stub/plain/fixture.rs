use portcullis_e2e::{PlainFiles, PlainGateway, PlainSetup};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{H2Client, Response};
use portcullis_harness::rundir::RunDir;
use portcullis_stub_apiserver::{Record, StubOptions, StubServer};

use crate::fixture::{NAME, PODS, Pki};

/// `request-header`, with the line that is commented out there.
pub(super) const REVIEWED: &str = "request-header with reviews";
/// The path of an upgrade.
pub(crate) const EXEC: &str = "/api/v1/namespaces/default/pods/p/exec?command=x";

/// An Envoy with files of one folder of `envoy/plain` in front of a stub that believes a front proxy.
pub(crate) struct Plain {
    pub(crate) mode: &'static str,
    pub(crate) gateway: PlainGateway,
    pub(crate) stub: StubServer,
    pub(crate) pki: Pki,
    // Removed last.
    pub(crate) run: RunDir,
}

impl Plain {
    pub(crate) fn start(mode: &'static str, version: Option<String>, change: impl FnOnce(&PlainFiles)) -> Self {
        Plain::before(mode, version, |_| {}, change)
    }

    /// In front of another stub.
    pub(crate) fn before(
        mode: &'static str,
        version: Option<String>,
        of_stub: impl FnOnce(&mut StubOptions),
        change: impl FnOnce(&PlainFiles),
    ) -> Self {
        let run = RunDir::new(&format!("plain-{}", mode.replace(' ', "-"))).unwrap();
        let (pki, front) = (Pki::new(), Ca::new("front proxies").unwrap());
        let front_proxy = front.issue(&CertSpec::client("front-proxy", [""; 0])).unwrap();
        let mut options = pki.stub_options("stub-0");
        let serving = pki.server_ca.issue(&CertSpec::server("stub-0", ["kubernetes.default.svc"])).unwrap();
        (options.tls_cert, options.tls_key) = (serving.pem(), serving.key_pem());
        options.requestheader_ca = Some(front.pem());
        of_stub(&mut options);
        let stub = StubServer::start(options).unwrap();
        let setup = PlainSetup {
            mode: mode.split(' ').next().unwrap(),
            name: NAME,
            servers: vec![stub.address()],
            client: if mode == "impersonate" { &pki.gateway } else { &front_proxy },
            upstream_ca: &pki.server_ca,
            client_ca: &pki.client_ca,
        };
        let files = PlainFiles::lay_out(&run, &setup).unwrap();
        if mode == REVIEWED {
            files.edit("routes.yaml", |text| text.replace("# reviews: {", "reviews: {")).unwrap();
        }
        change(&files);
        let gateway = files.start(&run, version).unwrap();
        Plain { mode, gateway, stub, pki, run }
    }

    /// The response to a `GET` over HTTP/2, and the server's record of it.
    pub(crate) fn send(&self, identity: Option<&Identity>, headers: &[(&str, &str)]) -> (Response, Option<Record>) {
        self.request(identity, "GET", PODS, headers)
    }

    /// The response to a request over HTTP/2, and the server's record of it.
    pub(crate) fn request(
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

    /// The response to an upgrade, and the server's record of it.
    pub(crate) fn upgrade(&self, headers: &str) -> (u16, Option<Record>) {
        self.stub.clear();
        let mut connection = self.gateway.target().connect().unwrap();
        let head = format!("POST {EXEC} HTTP/1.1\r\nHost: {NAME}\r\nConnection: Upgrade\r\n{headers}\r\n");
        connection.write(head.as_bytes()).unwrap();
        (connection.read_head().unwrap().status, self.seen())
    }

    /// The last request of a client.
    pub(crate) fn seen(&self) -> Option<Record> {
        let mut records = self.stub.records();
        records.retain(|record| record.path() != "/readyz" && !record.path().ends_with("reviews"));
        records.pop()
    }

    /// The user of the certificate that the stub sees.
    pub(crate) fn front(&self) -> &str {
        if self.mode == "impersonate" { "portcullis" } else { "front-proxy" }
    }
}

use portcullis_e2e::{Ingress, Shoot, ShootSetup};
use portcullis_harness::Result;
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{H2Client, Response, TlsConnection, TlsTarget};
use portcullis_harness::envoy::EnvoyOptions;
use portcullis_harness::rundir::RunDir;
use portcullis_stub_apiserver::{Record, StubOptions, StubServer, TokenEntry};

/// The user that stubs see as the gateway.
pub(super) const FRONT: &str = "system:istio-gateway";

/// The authorities and users of a shoot, and its kube-apiserver.
pub(super) struct ShootFixture {
    pub(super) name: &'static str,
    pub(super) token: String,
    pub(super) alice: Identity,
    pub(super) client_ca: Ca,
    pub(super) stub: StubServer,
    cluster_ca: Ca,
    front_proxy: Identity,
}

impl ShootFixture {
    fn new(name: &'static str) -> Self {
        let (cluster_ca, client_ca, front_ca) =
            (Ca::new("cluster").unwrap(), Ca::new("clients").unwrap(), Ca::new("front-proxy").unwrap());
        let serving = CertSpec::server("kube-apiserver", ["kubernetes.default.svc.cluster.local"]);
        let serving = cluster_ca.issue(&serving).unwrap();
        let token = format!("the-token-of-{name}");
        let robot = TokenEntry { user: "robot".to_owned(), ..TokenEntry::default() };
        let mut options =
            StubOptions::new(serving.pem(), serving.key_pem()).client_ca(client_ca.pem()).token(&token, robot);
        options.requestheader_ca = Some(front_ca.pem());
        name.clone_into(&mut options.name);
        ShootFixture {
            name,
            token,
            alice: client_ca.issue(&CertSpec::client("alice", ["dev"])).unwrap(),
            stub: StubServer::start(options).unwrap(),
            front_proxy: front_ca.issue(&CertSpec::client(FRONT, [""; 0])).unwrap(),
            client_ca,
            cluster_ca,
        }
    }

    /// The last request of a client.
    pub(super) fn seen(&self) -> Option<Record> {
        let mut records = self.stub.records();
        records.retain(|record| !record.path().ends_with("reviews"));
        records.pop()
    }
}

/// One ingress, two shoots.
pub(super) struct IngressFixture {
    pub(super) ingress: Ingress,
    pub(super) sides: [ShootFixture; 2],
    // Removed last.
    _run: RunDir,
}

impl IngressFixture {
    pub(super) fn start(test: &str) -> Self {
        IngressFixture::on(test, None)
    }

    /// As [`IngressFixture::start`], on another Envoy than the pinned one.
    pub(super) fn on(test: &str, version: Option<String>) -> Self {
        IngressFixture::changed(test, |options| options.version = version)
    }

    /// As [`IngressFixture::start`], with something changed of what Envoy is started with.
    pub(super) fn changed(test: &str, change: impl FnOnce(&mut EnvoyOptions)) -> Self {
        let run = RunDir::new(test).unwrap();
        let sides = [ShootFixture::new("one"), ShootFixture::new("two")];
        let setups = sides.each_ref().map(|side| ShootSetup {
            name: side.name,
            servers: vec![side.stub.address()],
            cluster_ca: &side.cluster_ca,
            client_ca: &side.client_ca,
            front_proxy: &side.front_proxy,
        });
        let ingress = Ingress::start(&run, &setups, change).unwrap();
        IngressFixture { ingress, sides, _run: run }
    }

    pub(super) fn shoot(&self, index: usize) -> &Shoot {
        &self.ingress.shoots()[index]
    }

    /// The ways to the first shoot: by its own name, by the wildcard certificate's, through the nodes' proxy.
    pub(super) fn ways(&self) -> [(&'static str, TlsTarget); 3] {
        let shoot = self.shoot(0);
        [
            ("own name", self.ingress.target(shoot)),
            ("wildcard name", self.ingress.wildcard_target(shoot)),
            ("apiserver-proxy", self.ingress.tunnel(&shoot.socket(), shoot)),
        ]
    }

    pub(super) fn clear(&self) {
        self.sides.iter().for_each(|side| side.stub.clear());
    }

    /// The response to a request over HTTP/2, and the first shoot's server's record of it.
    pub(super) fn send(&self, target: &TlsTarget, path: &str, headers: &[(&str, &str)]) -> (Response, Option<Record>) {
        self.clear();
        let response = H2Client::connect(target).unwrap().get(path, headers).unwrap();
        (response, self.sides[0].seen())
    }
}

/// Requests of one client over HTTP/1.1, on one connection for as long as the other side keeps it.
pub(super) struct ReconnectingClient {
    target: TlsTarget,
    open: Option<TlsConnection>,
}

impl ReconnectingClient {
    pub(super) fn new(target: TlsTarget) -> Self {
        ReconnectingClient { target, open: None }
    }

    pub(super) fn send(&mut self, request: &str) -> Response {
        let reused = self.open.take().and_then(|line| exchange(line, request).ok());
        let (response, line) = reused.unwrap_or_else(|| exchange(self.target.connect().unwrap(), request).unwrap());
        self.open = line;
        response
    }
}

fn exchange(mut line: TlsConnection, request: &str) -> Result<(Response, Option<TlsConnection>)> {
    line.write(request.as_bytes())?;
    let response = line.read_response(false)?;
    let is_last = response.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    Ok((response, (!is_last).then_some(line)))
}

/// The header of a token.
pub(super) fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use portcullis_e2e::{Gateway, GatewayOptions, Manifest};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Record, StubOptions, StubServer, TokenEntry};

/// The host name of the cluster in these tests.
pub(crate) const NAME: &str = "prod.example.com";
/// A path that only clients ask for: health checks go elsewhere.
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// A token that the stubs know.
pub(crate) const ROBOT: &str = "the-token-of-the-robot";

/// The authorities and users of one test.
pub(crate) struct Pki {
    pub(crate) server_ca: Ca,
    pub(crate) client_ca: Ca,
    pub(crate) gateway: Identity,
    pub(crate) alice: Identity,
    pub(crate) admin: Identity,
}

impl Pki {
    pub(crate) fn new() -> Self {
        let client_ca = Ca::new("clients").unwrap();
        Pki {
            server_ca: Ca::new("servers").unwrap(),
            gateway: client_ca.issue(&CertSpec::client("portcullis", [""; 0])).unwrap(),
            alice: client_ca.issue(&CertSpec::client("alice", ["dev"])).unwrap(),
            admin: client_ca.issue(&CertSpec::client("admin", ["system:masters"])).unwrap(),
            client_ca,
        }
    }

    /// A cluster of these servers behind a gateway, with the gateway's own certificates.
    pub(crate) fn cluster(
        &self,
        gateway: &Gateway,
        name: &str,
        servers: impl IntoIterator<Item = SocketAddr>,
    ) -> Manifest {
        Manifest::new(name, servers)
            .upstream(&self.gateway, &self.server_ca, "kubernetes")
            .serving(&gateway.serving_identity(name).unwrap(), &self.client_ca)
    }

    pub(crate) fn stub(&self, name: &str) -> StubServer {
        StubServer::start(self.stub_options(name)).unwrap()
    }

    pub(crate) fn stub_options(&self, name: &str) -> StubOptions {
        let identity = self.server_ca.issue(&CertSpec::server(name, ["kubernetes"])).unwrap();
        let mut options = StubOptions::new(identity.pem(), identity.key_pem()).client_ca(self.client_ca.pem());
        options.impersonators = vec!["portcullis".to_owned()];
        options.name = name.to_owned();
        let robot = TokenEntry { user: "robot".to_owned(), ..TokenEntry::default() };
        options.token(ROBOT, robot)
    }
}

/// How long a review waits for one server before Envoy puts the question once more.
const TRY: Duration = Duration::from_millis(2400);

/// A gateway with one cluster of one stub.
pub(crate) struct StubFixture {
    /// The time before the first request.
    since: Instant,
    pub(crate) gateway: Gateway,
    pub(crate) stub: StubServer,
    pub(crate) pki: Pki,
    // Removed last.
    pub(crate) run: RunDir,
}

impl StubFixture {
    pub(crate) fn start(test: &str, options: &GatewayOptions) -> Self {
        let fixture = StubFixture::without_cluster(test, options);
        fixture.gateway.apply(&fixture.manifest()).unwrap();
        fixture
    }

    /// As [`StubFixture::start`], with a stub that knows more tokens.
    pub(crate) fn with_tokens(
        test: &str,
        options: &GatewayOptions,
        tokens: impl IntoIterator<Item = (String, TokenEntry)>,
    ) -> Self {
        let fixture = StubFixture::with_pki(test, options, |pki| {
            let mut options = pki.stub_options("stub-0");
            options.tokens.extend(tokens);
            StubServer::start(options).unwrap()
        });
        fixture.gateway.apply(&fixture.manifest()).unwrap();
        fixture
    }

    pub(crate) fn without_cluster(test: &str, options: &GatewayOptions) -> Self {
        StubFixture::with_pki(test, options, |pki| pki.stub("stub-0"))
    }

    fn with_pki(test: &str, options: &GatewayOptions, stub: impl FnOnce(&Pki) -> StubServer) -> Self {
        let run = RunDir::new(test).unwrap();
        let pki = Pki::new();
        let stub = stub(&pki);
        let gateway = Gateway::start(&run, options).unwrap();
        StubFixture { since: Instant::now(), gateway, stub, pki, run }
    }

    pub(crate) fn manifest(&self) -> Manifest {
        self.cluster(NAME, [self.stub.address()])
    }

    /// A cluster of these servers behind the gateway.
    pub(crate) fn cluster(&self, name: &str, servers: impl IntoIterator<Item = SocketAddr>) -> Manifest {
        self.pki.cluster(&self.gateway, name, servers)
    }

    /// How many different questions the stub was asked at a path. One that a server is slow to answer is put to another one, or
    /// again to the only one.
    pub(crate) fn questions(&self, path: &str) -> usize {
        let asked = self.stub.records_for(path);
        asked.into_iter().map(|record| record.body).collect::<std::collections::BTreeSet<_>>().len()
    }

    /// Asserts that the stub was asked for so many reviews. Only for a stub whose records were not cleared.
    pub(crate) fn assert_reviews(&self, path: &str, expected: usize) {
        assert_reviews(&self.gateway, &self.stub, path, expected, self.since);
    }

    /// The requests of clients, without Envoy's health checks and the gateway's own reviews.
    pub(crate) fn client_records(&self) -> Vec<Record> {
        let mut records = self.stub.records();
        records.retain(|record| record.path() != "/readyz" && !record.path().ends_with("reviews"));
        records
    }
}

/// As [`StubFixture::assert_reviews`], of any server without requests before `since`.
pub(crate) fn assert_reviews(gateway: &Gateway, server: &StubServer, path: &str, expected: usize, since: Instant) {
    assert_asked(server.records_for(path).len(), expected, given_up(gateway), since);
}

/// Asserts that so many questions were put since then, and each at most once more: where Envoy gave up a server that was slow.
pub(crate) fn assert_asked(asked: usize, expected: usize, given_up: usize, since: Instant) {
    let within = since.elapsed();
    let explained = if within < TRY { 0 } else { given_up.min(expected) };
    let bound = expected + explained;
    assert!((expected..=bound).contains(&asked), "{asked} for {expected}, {given_up} given up, within {within:?}");
}

/// How often a server was too slow for a review.
pub(crate) fn given_up(gateway: &Gateway) -> usize {
    let times = gateway.envoy().admin().stats(r"^cluster\..*\.upstream_rq_per_try_timeout$").unwrap();
    assert!(!times.is_empty(), "Envoy counts it");
    usize::try_from(times.iter().map(|(_, count)| count).sum::<u64>()).unwrap()
}

/// Connects; Envoy's workers learn of a new chain one after the other, and for a moment after its acknowledgement some present
/// the certificate of the default chain.
pub(crate) fn connect(target: &TlsTarget) -> H2Client {
    wait::until_ok("the cluster's own chain answers", Duration::from_secs(20), || H2Client::connect(target)).unwrap()
}

/// Ends the threads of an unwinding test, too.
pub(crate) struct StopOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

//! A server with a handful of resources, and clients that come over mutual TLS.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use hyper_util::rt::TokioIo;
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::rundir::RunDir;
use portcullis_xds::{
    Credentials, HealthRegistry, Limits, Listeners, OneView, Registry, Rejection, ReportSink, Resource, ServerState,
    Snapshot, View, XdsMetrics,
};
use rustix::process::{Rlimit, getrlimit, setrlimit};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::{Service, http};
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

pub(crate) const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
pub(crate) const LDS: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
pub(crate) const SDS: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Counts who was turned away, by word.
#[derive(Default)]
pub(crate) struct Counts(Mutex<BTreeMap<&'static str, u64>>);

impl XdsMetrics for Counts {
    fn responded(&self, _: &'static str) {}
    fn acked(&self, _: &'static str) {}
    fn nacked(&self, _: &'static str) {}
    fn propagated(&self, _: &View, _: &str, _: &str) {}
    fn rejected(&self, why: Rejection) {
        *self.0.lock().unwrap().entry(why.label()).or_default() += 1;
    }
}

pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) registry: Arc<Registry>,
    pub(crate) health: Arc<HealthRegistry>,
    pub(crate) snapshots: watch::Sender<Option<Arc<Snapshot>>>,
    counts: Arc<Counts>,
    server_ca: Ca,
    pub(crate) client_ca: Ca,
    _run: RunDir,
}

/// A thousand connections have two ends each in this process.
fn raise_descriptors() {
    let most = getrlimit(rustix::process::Resource::Nofile).maximum;
    setrlimit(rustix::process::Resource::Nofile, Rlimit { current: most, maximum: most }).unwrap();
}

/// A snapshot of this number of clusters, each of this many bytes, and a secret.
pub(crate) fn snapshot(clusters: usize, bytes: usize) -> Arc<Snapshot> {
    let cluster = |number| (CDS.to_owned(), format!("c{number}"), Resource::new(vec![b'x'; bytes]));
    let secret = (SDS.to_owned(), "s".to_owned(), Resource::new(b"SECRET".to_vec()));
    Arc::new(Snapshot::new((0..clusters).map(cluster).chain([secret])))
}

impl Site {
    pub(crate) async fn start(test: &str, limits: Limits, served: Arc<Snapshot>) -> Self {
        Self::with_reports(test, limits, served, None).await
    }

    /// A server that hands reports of gateways on.
    pub(crate) async fn with_reports(
        test: &str,
        limits: Limits,
        served: Arc<Snapshot>,
        reports: Option<Arc<dyn ReportSink>>,
    ) -> Self {
        raise_descriptors();
        let run = RunDir::new(test).unwrap();
        let (server_ca, client_ca) = (Ca::new("xds servers").unwrap(), Ca::new("xds clients").unwrap());
        let path = |name: &str| run.path().join(name);
        let server = server_ca.issue(&CertSpec::server("xds", ["xds.internal"])).unwrap();
        server.write_pem(&path("server.pem"), &path("server.key")).unwrap();
        client_ca.write_pem(&path("clients.pem")).unwrap();
        let credentials = Credentials::open(&path("server.pem"), &path("server.key"), &path("clients.pem")).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port()));
        let (snapshots, receiver) = watch::channel(Some(served));
        let counts = Arc::new(Counts::default());
        let (registry, health) =
            (Arc::new(Registry::with_metrics(counts.clone())), Arc::new(HealthRegistry::default()));
        let served = ServerState {
            snapshots: receiver,
            registry: Arc::clone(&registry),
            health: Arc::clone(&health),
            views: Arc::new(OneView),
            reports,
        };
        let doors = Listeners { network: Some((listener, Arc::new(credentials))), limits, ..Listeners::default() };
        tokio::spawn(portcullis_xds::serve(doors, served, std::future::pending()));
        Self { address, registry, health, snapshots, counts, server_ca, client_ca, _run: run }
    }

    pub(crate) fn identity(&self, name: &str) -> Identity {
        self.client_ca.issue(&CertSpec::client(name, [""; 0])).unwrap()
    }

    pub(crate) fn rejected(&self, why: &str) -> u64 {
        self.counts.0.lock().unwrap().get(why).copied().unwrap_or_default()
    }

    pub(crate) fn caller(&self, identity: &Identity) -> Caller {
        Caller::new(self.address, &self.server_ca, identity)
    }

    /// Waits until a condition holds.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let wait = async {
            while !holds(self) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let in_time = tokio::time::timeout(SOON, wait).await;
        assert!(in_time.is_ok(), "{what}: {:?}\n{:#?}", self.counts.0.lock().unwrap(), self.registry);
    }
}

/// A client with a certificate.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) address: SocketAddr,
    pub(crate) from: IpAddr,
    tls: Arc<ClientConfig>,
}

/// A bare TCP connection from an address.
pub(crate) async fn dial(from: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.connect(to).await
}

impl Caller {
    /// A client of a server whose certificate is of that CA.
    pub(crate) fn new(address: SocketAddr, server_ca: &Ca, identity: &Identity) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(server_ca.certificate_der().to_vec().into()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = builder
            .with_root_certificates(roots)
            .with_client_auth_cert(identity.rustls_chain(), identity.rustls_key())
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Caller { address, from: Ipv4Addr::LOCALHOST.into(), tls: Arc::new(config) }
    }

    pub(crate) async fn connect(&self) -> io::Result<TlsStream<TcpStream>> {
        let stream = dial(self.from, self.address).await?;
        let name = ServerName::try_from("xds.internal").unwrap();
        TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await
    }

    pub(crate) async fn channel(&self) -> Result<Channel, tonic::transport::Error> {
        Endpoint::from_static("http://xds.internal").connect_with_connector(self.clone()).await
    }

    /// An incremental stream.
    pub(crate) async fn delta(&self) -> Result<Delta, Status> {
        let channel = self.channel().await.map_err(|error| Status::unavailable(error.to_string()))?;
        Delta::open(channel).await
    }
}

impl Service<http::Uri> for Caller {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Uri) -> Self::Future {
        let caller = self.clone();
        Box::pin(async move { caller.connect().await.map(TokioIo::new) })
    }
}

/// One incremental stream, as a client has it.
pub(crate) struct Delta {
    pub(crate) says: mpsc::Sender<DeltaDiscoveryRequest>,
    pub(crate) hears: Streaming<DeltaDiscoveryResponse>,
}

impl Delta {
    pub(crate) async fn open(channel: Channel) -> Result<Self, Status> {
        let (says, receiver) = mpsc::channel(64);
        let mut client = AggregatedDiscoveryServiceClient::new(channel).max_decoding_message_size(usize::MAX);
        let hears = client.delta_aggregated_resources(ReceiverStream::new(receiver)).await?.into_inner();
        Ok(Self { says, hears })
    }

    /// Asks for all clusters as a node.
    pub(crate) async fn introduce(&mut self, node: &str) -> Result<DeltaDiscoveryResponse, Status> {
        self.ask(request(node, CDS)).await
    }

    pub(crate) async fn ask(&mut self, request: DeltaDiscoveryRequest) -> Result<DeltaDiscoveryResponse, Status> {
        // A thread that does not listen any more reports the reason below.
        let _ = self.says.send(request).await;
        self.hear().await
    }

    pub(crate) async fn hear(&mut self) -> Result<DeltaDiscoveryResponse, Status> {
        let heard = tokio::time::timeout(SOON, self.hears.message()).await;
        heard.expect("the server says something")?.ok_or_else(|| Status::aborted("the stream ended"))
    }
}

pub(crate) fn request(node: &str, type_url: &str) -> DeltaDiscoveryRequest {
    let node = Some(Node { id: node.to_owned(), ..Default::default() });
    DeltaDiscoveryRequest { node, type_url: type_url.to_owned(), ..Default::default() }
}

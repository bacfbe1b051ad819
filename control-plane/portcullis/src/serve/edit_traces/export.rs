//! Sends spans to a collector, by OTLP over gRPC. A collector that is away costs a bounded queue.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use clap::Args;
use hyper::Uri;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::client::Grpc;
use tonic::codegen::Service;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::otlp::{
    ExportTraceServiceRequest, ExportTraceServiceResponse, ResourceSpans, ScopeSpans, Span, SpanOrigin, text,
};

/// Traces that wait for the collector; further ones are dropped.
const MAX_WAITING: usize = 64;
/// How long a connection or an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);
const METHOD: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// Traces of edits.
#[derive(Debug, Args)]
pub(crate) struct TracingArguments {
    /// Send a trace of each edit, from the source to the last acknowledgement of a gateway, to the OpenTelemetry collector
    /// at this URL: OTLP over gRPC, as in https://otel-collector.observability.svc:4317. Of requests the GatewaySettings
    /// decide.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", value_name = "URL")]
    tracing_endpoint: Option<Uri>,
    /// The CAs of the collector's certificate, PEM; required with https.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", value_name = "FILE")]
    tracing_ca: Option<PathBuf>,
}

/// Why there can be no traces. The operator has to act.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TracingError {
    #[error("--tracing-endpoint has to be http://HOST:PORT or https://HOST:PORT, not {0}")]
    Endpoint(Uri),
    #[error("--tracing-endpoint with https needs --tracing-ca")]
    NoCa,
    #[error("cannot read {0}")]
    Read(PathBuf, #[source] rustls_pki_types::pem::Error),
    #[error("{0} holds no certificate")]
    Empty(PathBuf),
    #[error("the certificates of --tracing-ca cannot be used")]
    Tls(#[from] rustls::Error),
}

/// The way to the collector.
#[derive(Clone, Debug)]
pub(super) struct Exporter(mpsc::Sender<Vec<Span>>);

impl TracingArguments {
    /// Starts to send spans; `None` if there are to be no traces.
    pub(super) fn open(&self) -> Result<Option<Exporter>, TracingError> {
        let Some(uri) = &self.tracing_endpoint else { return Ok(None) };
        let channel = self.channel(uri)?;
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        tokio::spawn(send_all(channel, receiver));
        tracing::info!(endpoint = %uri, "edits are traced");
        Ok(Some(Exporter(sender)))
    }

    /// The connection is made when there is something to send, and again when it is lost.
    fn channel(&self, uri: &Uri) -> Result<Channel, TracingError> {
        let wrong = || TracingError::Endpoint(uri.clone());
        let host = uri.host().map(|host| host.trim_matches(['[', ']']).to_owned()).ok_or_else(wrong)?;
        let port = uri.port_u16().ok_or_else(wrong)?;
        match uri.scheme_str() {
            Some("http") => {
                let endpoint = Endpoint::from(uri.clone()).connect_timeout(TIMEOUT).timeout(TIMEOUT);
                Ok(endpoint.connect_lazy())
            }
            Some("https") => {
                let ca = self.tracing_ca.as_deref().ok_or(TracingError::NoCa)?;
                let name = ServerName::try_from(host.clone()).map_err(|_| wrong())?;
                let connector = Connector { host, port, name, tls: Arc::new(trusting(ca)?) };
                // The connector has the scheme and the name.
                let endpoint = Endpoint::from_static("http://collector").connect_timeout(TIMEOUT).timeout(TIMEOUT);
                Ok(endpoint.connect_with_connector_lazy(connector))
            }
            _ => Err(wrong()),
        }
    }
}

impl Exporter {
    /// Hands a trace over, or drops it where the collector is too slow. Never waits.
    pub(super) fn send(&self, spans: Vec<Span>) {
        if self.0.try_send(spans).is_err() {
            tracing::debug!("a trace is dropped: the collector does not keep up");
        }
    }
}

async fn send_all(channel: Channel, mut traces: mpsc::Receiver<Vec<Span>>) {
    let mut waiting = Vec::new();
    let mut was_sent = true;
    while traces.recv_many(&mut waiting, MAX_WAITING).await > 0 {
        let spans = waiting.drain(..).flatten().collect();
        let sent = export(channel.clone(), spans).await;
        // Once, and not at every try.
        match &sent {
            Err(error) if was_sent => tracing::warn!(error = error.message(), "traces of edits are lost"),
            Ok(()) if !was_sent => tracing::info!("traces of edits are sent again"),
            _ => {}
        }
        was_sent = sent.is_ok();
    }
}

async fn export(channel: Channel, spans: Vec<Span>) -> Result<(), Status> {
    let attributes = vec![text("service.name", "portcullis"), text("service.version", env!("CARGO_PKG_VERSION"))];
    let resource_spans =
        vec![ResourceSpans { resource: Some(SpanOrigin { attributes }), scope_spans: vec![ScopeSpans { spans }] }];
    let request = Request::new(ExportTraceServiceRequest { resource_spans });
    let codec = ProstCodec::<ExportTraceServiceRequest, ExportTraceServiceResponse>::default();
    let mut client = Grpc::new(channel);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    client.unary(request, PathAndQuery::from_static(METHOD), codec).await.map(drop)
}

fn trusting(ca: &Path) -> Result<ClientConfig, TracingError> {
    let read = |error| TracingError::Read(ca.to_owned(), error);
    let all = CertificateDer::pem_file_iter(ca).map_err(read)?.collect::<Result<Vec<_>, _>>().map_err(read)?;
    if all.is_empty() {
        return Err(TracingError::Empty(ca.to_owned()));
    }
    let mut roots = RootCertStore::empty();
    for root in all {
        roots.add(root)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

/// Connects to the collector with TLS.
#[derive(Clone)]
struct Connector {
    host: String,
    port: u16,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
}

impl Connector {
    async fn connect(self) -> io::Result<TokioIo<TlsStream<TcpStream>>> {
        let tcp = TcpStream::connect((self.host.as_str(), self.port)).await?;
        TlsConnector::from(self.tls).connect(self.name, tcp).await.map(TokioIo::new)
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin(self.clone().connect())
    }
}

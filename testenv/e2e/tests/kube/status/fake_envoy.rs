//! A client that claims to be an Envoy: it refuses what it is sent, and reports endpoints as a test asks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::{HealthStatus, Node};
use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::health::v3::health_check_request_or_endpoint_health_response::RequestType;
use envoy_types::pb::envoy::service::health::v3::health_discovery_service_client::HealthDiscoveryServiceClient;
use envoy_types::pb::envoy::service::health::v3::{
    ClusterEndpointsHealth, EndpointHealth, EndpointHealthResponse, HealthCheckRequest,
    HealthCheckRequestOrEndpointHealthResponse, LocalityEndpointsHealth,
};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};
use envoy_types::pb::google::rpc::Status;
use portcullis_filter_config::{CONFIG_VERSION, NODE_CONFIG_VERSION};
use portcullis_xds::{UnhealthyReason, UnhealthyServer};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};

const CLUSTERS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";

/// A client of a control plane. Its streams end with this value.
pub(super) struct FakeEnvoy {
    node: Node,
    socket: PathBuf,
    runtime: Runtime,
}

impl FakeEnvoy {
    pub(super) fn new(socket: &Path, id: &str) -> Self {
        // As a bootstrap of this release has it: the control plane serves no other configuration version.
        let version = Value { kind: Some(Kind::NumberValue(CONFIG_VERSION.into())) };
        let metadata = Struct { fields: [(NODE_CONFIG_VERSION.to_owned(), version)].into() };
        let node = Node { id: id.to_owned(), metadata: Some(metadata), ..Node::default() };
        Self { node, socket: socket.to_owned(), runtime: Runtime::new().unwrap() }
    }

    /// Asks for clusters and refuses all of them with this message.
    pub(super) fn refuse(&self, message: &str) {
        let (node, socket, message) = (self.node.clone(), self.socket.clone(), message.to_owned());
        self.runtime.spawn(async move {
            let (sender, requests) = mpsc::channel(8);
            let first = DeltaDiscoveryRequest { node: Some(node), type_url: CLUSTERS.to_owned(), ..Default::default() };
            sender.send(first).await.unwrap();
            let mut client = AggregatedDiscoveryServiceClient::new(connect(&socket).await);
            let answers = client.delta_aggregated_resources(ReceiverStream::new(requests)).await;
            let mut answers = answers.unwrap().into_inner();
            while let Ok(Some(answer)) = answers.message().await {
                let refused = Status { code: 13, message: message.clone(), ..Default::default() };
                let request = DeltaDiscoveryRequest {
                    type_url: answer.type_url,
                    response_nonce: answer.nonce,
                    error_detail: Some(refused),
                    ..Default::default()
                };
                sender.send(request).await.unwrap();
            }
        });
    }

    /// Reports the endpoints of an Envoy cluster, again and again.
    pub(super) fn report(&self, cluster: &str, healthy: usize, total: usize) {
        let (node, socket) = (self.node.clone(), self.socket.clone());
        let report = report(cluster, healthy, total);
        self.runtime.spawn(async move {
            let (sender, requests) = mpsc::channel(8);
            let first = HealthCheckRequest { node: Some(node), ..Default::default() };
            sender.send(said(RequestType::HealthCheckRequest(first))).await.unwrap();
            let mut client = HealthDiscoveryServiceClient::new(connect(&socket).await);
            let _answers = client.stream_health_check(ReceiverStream::new(requests)).await.unwrap();
            let mut turns = tokio::time::interval(Duration::from_secs(1));
            loop {
                turns.tick().await;
                sender.send(said(RequestType::EndpointHealthResponse(report.clone()))).await.unwrap();
            }
        });
    }
}

async fn connect(socket: &Path) -> Channel {
    Endpoint::from_shared(format!("unix:{}", socket.display())).unwrap().connect().await.unwrap()
}

fn said(what: RequestType) -> HealthCheckRequestOrEndpointHealthResponse {
    HealthCheckRequestOrEndpointHealthResponse { request_type: Some(what) }
}

fn report(cluster: &str, healthy: usize, total: usize) -> EndpointHealthResponse {
    let endpoint = |index: usize| match index < healthy {
        true => EndpointHealth { health_status: HealthStatus::Healthy.into(), ..Default::default() },
        false => UnhealthyServer {
            server: format!("10.0.0.{index}:6443"),
            reason: UnhealthyReason::Ejected,
            since: 1_700_000_000,
        }
        .endpoint(),
    };
    EndpointHealthResponse {
        cluster_endpoints_health: vec![ClusterEndpointsHealth {
            cluster_name: cluster.to_owned(),
            locality_endpoints_health: vec![LocalityEndpointsHealth {
                locality: None,
                endpoints_health: (0..total).map(endpoint).collect(),
            }],
        }],
        ..Default::default()
    }
}

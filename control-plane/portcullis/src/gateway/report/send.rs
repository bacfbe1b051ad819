//! One control plane, told by Envoy's own health discovery protocol.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::health::v3::health_check_request_or_endpoint_health_response::RequestType;
use envoy_types::pb::envoy::service::health::v3::health_discovery_service_client::HealthDiscoveryServiceClient;
use envoy_types::pb::envoy::service::health::v3::{HealthCheckRequest, HealthCheckRequestOrEndpointHealthResponse};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::transport::Endpoint;

use super::Report;

/// How long to wait before a control plane that is gone is tried again.
const AGAIN: Duration = Duration::from_secs(2);
/// How long a control plane may take to accept a connection, or to answer a probe on a silent one.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a silent connection is probed.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// Why a conversation with a control plane ended. It is tried again.
#[derive(Debug, thiserror::Error)]
enum TellError {
    #[error("cannot connect")]
    Connect(#[from] tonic::transport::Error),
    #[error("refused: {}", .0.message())]
    Refused(#[from] Status),
    #[error("the control plane has ended the stream")]
    Ended,
}

/// Tells every new report, as long as there are some.
pub(super) async fn tell(endpoint: Endpoint, node: Node, mut reports: watch::Receiver<Report>) {
    let endpoint = endpoint.connect_timeout(PATIENCE).http2_keep_alive_interval(KEEPALIVE).keep_alive_timeout(PATIENCE);
    loop {
        match converse(&endpoint, &node, &mut reports).await {
            Ok(()) => return,
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::debug!(%error, cause, "health is not reported");
            }
        }
        sleep(AGAIN).await;
    }
}

/// Ends without an error when there will be no more reports.
async fn converse(endpoint: &Endpoint, node: &Node, reports: &mut watch::Receiver<Report>) -> Result<(), TellError> {
    let mut client = HealthDiscoveryServiceClient::new(endpoint.connect().await?);
    let (sender, receiver) = mpsc::channel(1);
    // The first message is there before the stream: a server may wait for it before it answers.
    let introduction = HealthCheckRequest { node: Some(node.clone()), ..Default::default() };
    say(&sender, RequestType::HealthCheckRequest(introduction)).await?;
    let mut answers = client.stream_health_check(ReceiverStream::new(receiver)).await?.into_inner();
    reports.mark_changed();
    loop {
        tokio::select! {
            // What should be checked, Envoy knows already.
            answer = answers.message() => if answer?.is_none() { return Err(TellError::Ended) },
            changed = reports.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
                let newest = reports.borrow_and_update().clone();
                if let Some(report) = newest {
                    say(&sender, RequestType::EndpointHealthResponse(report.as_ref().clone())).await?;
                }
            }
        }
    }
}

async fn say(
    sender: &mpsc::Sender<HealthCheckRequestOrEndpointHealthResponse>,
    what: RequestType,
) -> Result<(), TellError> {
    let message = HealthCheckRequestOrEndpointHealthResponse { request_type: Some(what) };
    sender.send(message).await.map_err(|_| TellError::Ended)
}

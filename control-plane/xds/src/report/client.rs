use bytes::Bytes;
use portcullis_report::{EnvoyOfGateway, ReportRequest, ReportResponse, STREAM_REPORTS};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// Opens streams of reports to one control plane.
#[derive(Clone, Debug)]
pub struct ReportClient(Channel);

impl ReportClient {
    /// A client on a connection.
    pub fn new(channel: Channel) -> Self {
        Self(channel)
    }

    /// A stream of reports of one node, with the Gateway of its bootstrap, if it has one.
    ///
    /// # Errors
    /// The control plane refuses it, or has no such service (`Code::Unimplemented`).
    pub async fn open(&self, node: &str, gateway: Option<&str>) -> Result<ReportStream, Status> {
        let (sender, receiver) = mpsc::channel(1);
        // The first message is there before the stream: a server may wait for it before it answers.
        let introduction = introduction(node, gateway);
        let _ = sender.try_send(introduction);
        let mut client = Grpc::new(self.0.clone());
        client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let request = Request::new(ReceiverStream::new(receiver));
        let path = PathAndQuery::from_static(STREAM_REPORTS);
        let codec = ProstCodec::<ReportRequest, ReportResponse>::default();
        let acknowledgements = client.streaming(request, path, codec).await?.into_inner();
        let mut stream = ReportStream { sender, acknowledgements };
        stream.acknowledged().await?;
        Ok(stream)
    }
}

fn introduction(node: &str, gateway: Option<&str>) -> ReportRequest {
    let node = node.to_owned();
    match gateway {
        None => ReportRequest { node, ..ReportRequest::default() },
        Some(gateway) => {
            let of_gateway = EnvoyOfGateway { node, gateway: gateway.to_owned() };
            ReportRequest { of_gateway: Some(of_gateway), ..ReportRequest::default() }
        }
    }
}

/// An open stream of reports.
#[derive(Debug)]
pub struct ReportStream {
    sender: mpsc::Sender<ReportRequest>,
    acknowledgements: Streaming<ReportResponse>,
}

impl ReportStream {
    /// Sends a report and waits until it is acknowledged.
    ///
    /// # Errors
    /// The stream has ended.
    pub async fn send(&mut self, instance: &str, content: Bytes) -> Result<(), Status> {
        self.exchange(ReportRequest { instance: instance.to_owned(), content, ..ReportRequest::default() })
            .await
            .map(drop)
    }

    /// Sends the use of limits that gateways share, and waits for the parts of them; empty from a control plane that divides none.
    ///
    /// # Errors
    /// The stream has ended.
    pub async fn divide(&mut self, limits: Bytes) -> Result<Bytes, Status> {
        let answer = self.exchange(ReportRequest { limits, ..ReportRequest::default() }).await?;
        Ok(answer.limits)
    }

    async fn exchange(&mut self, request: ReportRequest) -> Result<ReportResponse, Status> {
        if self.sender.send(request).await.is_err() {
            // The reason is in the answers.
            self.acknowledged().await?;
            return Err(Status::unavailable("the stream has ended"));
        }
        self.acknowledged().await
    }

    async fn acknowledged(&mut self) -> Result<ReportResponse, Status> {
        let message = self.acknowledgements.message().await?;
        message.ok_or_else(|| Status::unavailable("the control plane has ended the stream"))
    }
}

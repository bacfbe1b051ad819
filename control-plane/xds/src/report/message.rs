use bytes::Bytes;

/// A message of a gateway.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ReportRequest {
    /// The node's id, in the first message; empty or the same in later ones.
    #[prost(string, tag = "1")]
    pub(super) node: String,
    /// The instance that the report is about; empty where there is one.
    #[prost(string, tag = "2")]
    pub(super) instance: String,
    /// The report; the first message may come without one.
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) content: Bytes,
}

/// The acknowledgement of a message.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct ReportResponse {}

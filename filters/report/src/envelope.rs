use bytes::Bytes;
use prost::Message;

/// The full name of the service.
pub const SERVICE: &str = "portcullis.report.v1.ReportService";
/// The path of the method that takes reports of any kind, many of them on one stream.
pub const STREAM_REPORTS: &str = "/portcullis.report.v1.ReportService/StreamReports";
/// The path of the method that takes one report of the use of limits ([`ReportRequest::limits`]) and answers it.
pub const EXCHANGE_LIMITS: &str = "/portcullis.report.v1.ReportService/ExchangeLimits";

/// The headers of a request that is a whole stream.
pub const REQUEST_HEADERS: [(&str, &str); 5] = headers(STREAM_REPORTS);
/// The headers of a request about limits.
pub(crate) const EXCHANGE_HEADERS: [(&str, &str); 5] = headers(EXCHANGE_LIMITS);

/// The authority is not the name of an Envoy cluster, which may be none: Istio's have a bar.
const fn headers(path: &'static str) -> [(&'static str, &'static str); 5] {
    [
        (":method", "POST"),
        (":path", path),
        (":authority", "portcullis"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]
}

/// Bytes before each message of gRPC: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// Bytes of the acknowledgement of a report in the body of a response: its fields are empty.
pub const ACKNOWLEDGEMENT_BYTES: usize = PREFIX_BYTES;

/// A message of a gateway.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReportRequest {
    /// The node's id, in the first message; empty or the same in later ones.
    #[prost(string, tag = "1")]
    pub node: String,
    /// The instance that the report is about; empty where there is one.
    #[prost(string, tag = "2")]
    pub instance: String,
    /// The report; the first message may come without one.
    #[prost(bytes = "bytes", tag = "3")]
    pub content: Bytes,
    /// The use of limits that gateways share, a [`crate::limits::UseMessage`]; empty in a message about anything else.
    #[prost(bytes = "bytes", tag = "4")]
    pub limits: Bytes,
    /// The Envoy of a Gateway, in place of [`Self::node`]. A control plane that does not read it refuses a stream without a node, and
    /// counts nothing of it among Envoys of no Gateway.
    #[prost(message, optional, tag = "5")]
    pub of_gateway: Option<EnvoyOfGateway>,
}

/// An Envoy that belongs to a Gateway.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EnvoyOfGateway {
    /// The node's id.
    #[prost(string, tag = "1")]
    pub node: String,
    /// The Gateway of its bootstrap, as `NAMESPACE/NAME`.
    #[prost(string, tag = "2")]
    pub gateway: String,
}

/// The acknowledgement of a message.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReportResponse {
    /// The gateway's parts of these limits, a [`crate::limits::PartsMessage`]; empty from a control plane that does not divide
    /// them, and where none were reported.
    #[prost(bytes = "bytes", tag = "1")]
    pub limits: Bytes,
}

/// The body of a request that is a whole stream: the parts of one report of a node, one message each.
pub fn request_body(node: &str, parts: &[Bytes]) -> Vec<u8> {
    let mut body = Vec::new();
    for part in parts {
        let message = ReportRequest { node: node.to_owned(), content: part.clone(), ..ReportRequest::default() };
        add_message(&mut body, &message);
    }
    body
}

/// The body of a request about limits, with an encoded [`crate::limits::UseMessage`] of a node.
pub(crate) fn exchange_body(node: &str, limits: Vec<u8>) -> Vec<u8> {
    let mut body = Vec::new();
    let message = ReportRequest { node: node.to_owned(), limits: limits.into(), ..ReportRequest::default() };
    add_message(&mut body, &message);
    body
}

fn add_message(body: &mut Vec<u8>, message: &ReportRequest) {
    let length = u32::try_from(message.encoded_len()).unwrap_or(u32::MAX);
    body.push(0);
    body.extend_from_slice(&length.to_be_bytes());
    body.extend_from_slice(&message.encode_to_vec());
}

/// The one message in the body of a response. `None` if there is no message, a compressed one, or anything behind it.
pub(crate) fn response_message(body: &[u8]) -> Option<ReportResponse> {
    let (prefix, message) = body.split_at_checked(PREFIX_BYTES)?;
    let length = u32::try_from(message.len()).ok()?.to_be_bytes();
    if prefix.strip_prefix(&[0])? != length {
        return None;
    }
    ReportResponse::decode(message).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_has_a_message_for_each_part() {
        let body = request_body("n", &[Bytes::from_static(b"ab"), Bytes::new()]);
        // Field 1 and field 3, each with its length.
        assert_eq!(body, b"\0\0\0\0\x07\x0a\x01n\x1a\x02ab\0\0\0\0\x03\x0a\x01n");
    }

    #[test]
    fn exchange_has_one_message_each_way() {
        assert_eq!(exchange_body("n", b"ab".to_vec()), b"\0\0\0\0\x07\x0a\x01n\x22\x02ab");
        let read = |body: &[u8]| response_message(body).map(|message| message.limits.to_vec());
        assert_eq!(read(b"\0\0\0\0\x04\x0a\x02ab"), Some(b"ab".to_vec()));
        assert_eq!(read(b"\0\0\0\0\0"), Some(Vec::new()), "an acknowledgement");
        let odd: [&[u8]; 6] = [
            b"",
            b"\0\0\0\0",
            b"\x01\0\0\0\x04\x0a\x02ab",
            b"\0\0\0\0\x05\x0a\x02ab",
            b"\0\0\0\0\0\0\0\0\0\0",
            b"\0\0\0\0\x04\x0a\x09ab",
        ];
        for body in odd {
            assert_eq!(read(body), None, "{body:?}");
        }
    }
}

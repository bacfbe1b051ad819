//! The messages of OTLP that a trace of an edit is sent in (`opentelemetry.proto`, version 1), without fields that it leaves
//! out.

use prost::Message;

/// `collector.trace.v1.ExportTraceServiceRequest`
#[derive(Clone, PartialEq, Message)]
pub(super) struct ExportTraceServiceRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_spans: Vec<ResourceSpans>,
}

/// `collector.trace.v1.ExportTraceServiceResponse`
#[derive(Clone, PartialEq, Message)]
pub(super) struct ExportTraceServiceResponse {}

/// `trace.v1.ResourceSpans`
#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<SpanOrigin>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_spans: Vec<ScopeSpans>,
}

/// `resource.v1.SpanOrigin`
#[derive(Clone, PartialEq, Message)]
pub(super) struct SpanOrigin {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<KeyValue>,
}

/// `trace.v1.ScopeSpans`
#[derive(Clone, PartialEq, Message)]
pub(super) struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    pub(super) spans: Vec<Span>,
}

/// `trace.v1.Span`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(super) name: String,
    /// [`INTERNAL`].
    #[prost(int32, tag = "6")]
    pub(super) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub(super) end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    pub(super) status: Option<Status>,
}

/// `trace.v1.Status`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Status {
    /// [`ERROR`].
    #[prost(int32, tag = "3")]
    pub(super) code: i32,
}

/// `common.v1.KeyValue`
#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AnyValue>,
}

/// `common.v1.AnyValue`, of texts.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AnyValue {
    #[prost(string, tag = "1")]
    pub(super) string_value: String,
}

/// `Span.SpanKind`
pub(super) const INTERNAL: i32 = 1;
/// `Status.StatusCode`
pub(super) const ERROR: i32 = 2;

/// An attribute.
pub(super) fn text(key: &str, value: impl Into<String>) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { string_value: value.into() }) }
}

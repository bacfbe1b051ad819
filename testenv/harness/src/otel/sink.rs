//! A small receiver for OTLP, for tests that run without the collector.

mod grpc;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use prost::Message;

use super::span::{Span, Spans};
use crate::error::{Error, Result};

/// A receiver of spans. Ends with this value.
#[derive(Debug)]
pub struct Sink {
    address: SocketAddr,
    spans: Received,
    is_over: Arc<AtomicBool>,
}

/// The spans that came.
type Received = Arc<Mutex<Vec<Span>>>;

impl Sink {
    /// Takes OTLP over HTTP at a free port of loopback.
    ///
    /// # Errors
    /// [`Error::Connection`].
    pub fn start() -> Result<Self> {
        Self::listen(serve)
    }

    /// Takes OTLP over gRPC at a free port of loopback.
    ///
    /// # Errors
    /// [`Error::Connection`].
    pub fn start_grpc() -> Result<Self> {
        Self::listen(grpc::serve)
    }

    fn listen(serve: fn(TcpStream, &Received)) -> Result<Self> {
        let loopback = "127.0.0.1:0";
        let failed = || Error::connection("listening for spans", loopback);
        let listener = TcpListener::bind(loopback).map_err(failed())?;
        let address = listener.local_addr().map_err(failed())?;
        let sink = Self { address, spans: Arc::default(), is_over: Arc::default() };
        let (spans, is_over) = (Arc::clone(&sink.spans), Arc::clone(&sink.is_over));
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(std::result::Result::ok) {
                if is_over.load(Ordering::Acquire) {
                    return;
                }
                let spans = Arc::clone(&spans);
                std::thread::spawn(move || serve(connection, &spans));
            }
        });
        Ok(sink)
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Spans for Sink {
    fn spans(&self) -> Result<Vec<Span>> {
        Ok(self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.address));
    }
}

/// Answers requests of one connection until it ends.
fn serve(connection: TcpStream, spans: &Received) {
    let Ok(mut writer) = connection.try_clone() else { return };
    let mut reader = BufReader::new(connection);
    while let Some(body) = read_body(&mut reader) {
        take(&body, spans);
        if writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err() {
            return;
        }
    }
}

fn take(body: &[u8], spans: &Received) {
    if let Ok(request) = ExportTraceServiceRequest::decode(body) {
        spans.lock().unwrap_or_else(PoisonError::into_inner).extend(request.spans());
    }
}

fn read_body(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let (mut length, mut is_chunked) = (0, false);
    loop {
        let line = read_line(reader)?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        is_chunked |= line.starts_with("transfer-encoding:") && line.contains("chunked");
    }
    if !is_chunked {
        return read_exact(reader, length);
    }
    let mut body = Vec::new();
    loop {
        let size = usize::from_str_radix(&read_line(reader)?, 16).ok()?;
        body.extend(read_exact(reader, size)?);
        read_line(reader)?;
        if size == 0 {
            return Some(body);
        }
    }
}

fn read_line(reader: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    let read = reader.read_line(&mut line).ok()?;
    (read > 0).then(|| line.trim_end().to_owned())
}

fn read_exact(reader: &mut impl Read, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes).ok().map(|()| bytes)
}

/// `opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest`, as far as tests read it.
#[derive(Clone, PartialEq, Message)]
struct ExportTraceServiceRequest {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<ProtoSpan>,
}

#[derive(Clone, PartialEq, Message)]
struct ProtoSpan {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(uint64, tag = "6")]
    kind: u64,
    #[prost(fixed64, tag = "7")]
    start: u64,
    #[prost(fixed64, tag = "8")]
    end: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(string, optional, tag = "1")]
    text: Option<String>,
    #[prost(int64, optional, tag = "3")]
    number: Option<i64>,
}

impl ExportTraceServiceRequest {
    fn spans(self) -> impl Iterator<Item = Span> {
        self.resource_spans.into_iter().flat_map(|resource| {
            let about = resource.resource.map(|resource| texts(resource.attributes)).unwrap_or_default();
            let service = about.get("service.name").cloned().unwrap_or_default();
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            spans.map(move |span| span.read(service.clone())).collect::<Vec<_>>()
        })
    }
}

impl ProtoSpan {
    fn read(self, service: String) -> Span {
        Span {
            service,
            name: self.name,
            trace: hex(&self.trace_id),
            id: hex(&self.span_id),
            parent: hex(&self.parent_span_id),
            kind: self.kind,
            start: self.start,
            end: self.end,
            attributes: texts(self.attributes),
        }
    }
}

fn texts(attributes: Vec<KeyValue>) -> std::collections::BTreeMap<String, String> {
    let text = |value: AnyValue| value.text.or_else(|| value.number.map(|number| number.to_string()));
    attributes.into_iter().map(|one| (one.key, one.value.and_then(text).unwrap_or_default())).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

//! Receivers of spans: the OpenTelemetry collector, which writes what a test's processes send into a file, and a small one.

mod sink;
mod span;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::process::{Process, Spec};
use crate::rundir::RunDir;
use crate::{deps, ports};

pub use sink::Sink;
pub use span::{Span, Spans};

/// A running collector. Ends with this value.
#[derive(Debug)]
pub struct Collector {
    process: Process,
    grpc: SocketAddr,
    http: SocketAddr,
    spans: PathBuf,
}

/// Certificate and key of a collector's receivers, PEM files.
#[derive(Debug, Clone)]
pub struct CollectorCertificate {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Collector {
    /// Starts a collector with receivers for OTLP over gRPC and over HTTP.
    ///
    /// # Errors
    /// [`Error::Missing`], or the step that failed with the last log lines.
    pub fn start(run: &RunDir) -> Result<Self> {
        Self::start_with(run, None)
    }

    /// The same, with a certificate of its own.
    ///
    /// # Errors
    /// As [`Collector::start`].
    pub fn start_with(run: &RunDir, certificate: Option<&CollectorCertificate>) -> Result<Self> {
        let binary = deps::otel_collector()?;
        let dir = run.make_dir("otel")?;
        let spans = dir.join("spans.jsonl");
        let (grpc, http) = (ports::free_address()?, ports::free_address()?);
        let receiver = |address: SocketAddr| {
            let mut receiver = json!({"endpoint": address.to_string()});
            if let (Some(own), Some(receiver)) = (certificate, receiver.as_object_mut()) {
                receiver.insert("tls".to_owned(), json!({"cert_file": own.certificate, "key_file": own.key}));
            }
            receiver
        };
        let config = json!({
            "receivers": {"otlp": {"protocols": {"grpc": receiver(grpc), "http": receiver(http)}}},
            "exporters": {"lines": {"path": spans}},
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["lines"]}},
            },
        });
        // JSON is YAML.
        let file = run.write("otel/config.yaml", config.to_string())?;
        let spec = Spec::new("otel-collector", binary, &dir).flag("config", format!("file:{}", file.display()));
        let collector = Self { process: Process::start(spec)?, grpc, http, spans };
        for address in [grpc, http] {
            collector.process.wait_listening(address, Duration::from_secs(60))?;
        }
        Ok(collector)
    }

    /// The receiver for OTLP over gRPC.
    pub fn grpc(&self) -> SocketAddr {
        self.grpc
    }

    /// The receiver for OTLP over HTTP.
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// Its process, to freeze or end it.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

impl Spans for Collector {
    fn spans(&self) -> Result<Vec<Span>> {
        if !self.spans.exists() {
            return Ok(Vec::new());
        }
        let text = std::fs::read_to_string(&self.spans).map_err(Error::file("reading", &self.spans))?;
        let mut spans = Vec::new();
        // The last line may be half written.
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let what = || "a line of the collector".to_owned();
            let parsed: Value = serde_json::from_str(line).map_err(|source| Error::Json { what: what(), source })?;
            spans.extend(spans_of(&parsed));
        }
        Ok(spans)
    }
}

fn spans_of(line: &Value) -> Vec<Span> {
    let list = |value: &Value, field: &str| value.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut spans = Vec::new();
    for resource in list(line, "resourceSpans") {
        let about = resource.get("resource").map(attributes).unwrap_or_default();
        let service = about.get("service.name").cloned().unwrap_or_default();
        for scope in list(&resource, "scopeSpans") {
            spans.extend(list(&scope, "spans").iter().map(|one| span(one, &service)));
        }
    }
    spans
}

fn span(one: &Value, service: &str) -> Span {
    let text = |field: &str| one.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    Span {
        service: service.to_owned(),
        name: text("name"),
        trace: text("traceId"),
        id: text("spanId"),
        parent: text("parentSpanId"),
        kind: one.get("kind").and_then(Value::as_u64).unwrap_or_default(),
        start: text("startTimeUnixNano").parse().unwrap_or_default(),
        end: text("endTimeUnixNano").parse().unwrap_or_default(),
        attributes: attributes(one),
    }
}

fn attributes(of: &Value) -> BTreeMap<String, String> {
    let all = of.get("attributes").and_then(Value::as_array).into_iter().flatten();
    let one = |pair: &Value| {
        let value = pair.get("value")?.as_object()?.values().next()?;
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some((pair.get("key")?.as_str()?.to_owned(), value))
    };
    all.filter_map(one).collect()
}
